//! The predicted memory of a training step against what is allocated on the processor.
//!
//! An allocator that counts sees every tensor there. This file holds one test, so that nothing else allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::Tensor;
use kiln_model::{Arch, ResNetConfig, Stem};

/// The system's allocator, counting what is live.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the issue asks of the prediction; the rest is bookkeeping of the graph.
const TOLERANCE: f64 = 0.15;

#[test]
fn predicted_activations_are_within_15_percent_of_what_is_allocated() {
    let device = kiln_device::cpu().autodiff();
    let base = |arch| ResNetConfig { num_classes: 10, width: 16, ..ResNetConfig::new(arch) };
    for (config, size, batch) in [
        (base(Arch::ResNet18), 128, 4),
        (base(Arch::ResNet50), 128, 4),
        (base(Arch::ResNet50d), 96, 4),
        (ResNetConfig { stem: Stem::Small, ..base(Arch::ResNet18) }, 32, 8),
    ] {
        let model = config.init(1, &device);
        // The first pass draws the weights and makes the buffers that matrix products keep; neither is an activation.
        drop(model.forward(Tensor::ones([batch, 3, size, size], &device)));
        let before = LIVE.load(Ordering::Relaxed);
        let images = Tensor::<4>::ones([batch, 3, size, size], &device);
        let loss = model.forward(images).sum();
        let held = (LIVE.load(Ordering::Relaxed) - before) as f64;
        let predicted = config.cost([size, size], batch).activation_bytes as f64;
        eprintln!("{} {size} px x {batch}: predicted {predicted:.0}, held {held:.0}", config.arch);
        assert!((predicted - held).abs() <= TOLERANCE * held, "{config:?}: predicted {predicted}, held {held}");
        drop(loss.backward());
    }
}
