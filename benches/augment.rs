//! Augmentation: Kiln's kernel and its scalar twin against burn's stock tensor operations, images per second.
//!
//! ```text
//! cargo bench --bench augment                        # every device of this machine
//! RAYON_NUM_THREADS=1 cargo bench --bench augment    # one thread for everything on the CPU
//! KILN_BENCH_PROCESSOR_TIME=1 cargo bench ...        # seconds of the processor, for a machine that isn't idle
//! ```
//!
//! Every variant starts from bytes that are on the device and ends with a normalised f32 batch, the device waited for.
//! `kiln` is `kiln_data::augment`: the scalar twin on `cpu`, the kernel elsewhere. `stock` is one tensor operation after
//! the other, an image at a time because each is cut differently. Its pixels are 32-bit integers, since WGSL can't
//! cast from u8: four times the bytes to read. It doesn't antialias, since burn can't: fewer pixels to read.
//! Batches alternate between four with different draws, so that nothing is run twice in a row.

mod processor_time;

use std::hint::black_box;
use std::time::Duration;

use burn::tensor::module::interpolate;
use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
use burn::tensor::{Device, Int, Tensor, TensorData};
use criterion::measurement::Measurement;
use criterion::{BenchmarkId, Criterion, Throughput};
use kiln_data::{Augment, DeviceBatch, HostBatch, Mixing, RgbImage, augment, batch_to_device};
use processor_time::ProcessorTime;

const BATCH_SIZE: usize = 32;
const NUM_BATCHES: u32 = 4;
const OUTPUT_SIDE: usize = 224;
const SEED: u64 = 42;

/// Height and width of the photographs that everything but the story's own case begins with: ImageNet's usual size.
const PHOTO: [u32; 2] = [375, 500];

/// What is measured: a name, the size of the source images as height and width, the list, and whether it can be said in
/// stock operations too.
fn cases() -> Vec<(String, [u32; 2], Augment, bool)> {
    let whole = [OUTPUT_SIDE as u32; 2];
    let list = |steps: &[&str]| {
        let read = |step: &&str| serde_json::from_str(step).expect("a step as recipes write it");
        Augment::new(steps.iter().map(read).collect(), [OUTPUT_SIDE; 2])
    };
    let train_with = |steps: &[&str]| {
        let Augment { steps, .. } = list(steps);
        Augment::new([Augment::train(OUTPUT_SIDE).steps, steps].concat(), [OUTPUT_SIDE; 2])
    };
    let erasing = r#"{"op": "random_erasing", "probability": 0.25}"#;
    let mix = Some(Mixing { mixup_alpha: 0.1, cutmix_alpha: 1.0, ..Default::default() });
    let timm_a1 = train_with(&[r#"{"op": "timm_rand_augment", "config": "rand-m7-mstd0.5-inc1"}"#]);
    let recipes = [
        ("flip_normalise", whole, list(&[r#"{"op": "random_horizontal_flip"}"#]), true),
        ("imagenet_basic", PHOTO, Augment::train(OUTPUT_SIDE), true),
        ("eval", PHOTO, Augment::eval(OUTPUT_SIDE), true),
        ("trivial_augment", PHOTO, train_with(&[r#"{"op": "trivial_augment_wide"}"#]), false),
        ("rand_augment_erasing", PHOTO, train_with(&[r#"{"op": "rand_augment"}"#, erasing]), false),
        ("timm_a1", PHOTO, Augment { mix, ..timm_a1 }, false),
    ];
    let steps = STEPS.map(|(name, step)| (format!("step/{name}"), whole, list(&[step]), false));
    recipes
        .into_iter()
        .map(|(name, size, list, stock)| (format!("recipe/{name}"), size, list, stock))
        .chain(steps)
        .collect()
}

/// One step each, drawn for every image.
const STEPS: [(&str, &str); 15] = [
    ("random_crop", r#"{"op": "random_crop", "padding": 4, "padding_mode": "reflect"}"#),
    ("random_rotation", r#"{"op": "random_rotation", "degrees": 30, "interpolation": "bilinear"}"#),
    ("random_perspective", r#"{"op": "random_perspective", "probability": 1.0}"#),
    ("brightness", r#"{"op": "color_jitter", "brightness": 0.4}"#),
    ("contrast", r#"{"op": "color_jitter", "contrast": 0.4}"#),
    ("saturation", r#"{"op": "color_jitter", "saturation": 0.4}"#),
    ("hue", r#"{"op": "color_jitter", "hue": 0.4}"#),
    ("color_jitter", r#"{"op": "color_jitter", "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}"#),
    ("random_solarize", r#"{"op": "random_solarize", "threshold": 128, "probability": 1.0}"#),
    ("random_autocontrast", r#"{"op": "random_autocontrast", "probability": 1.0}"#),
    ("random_equalize", r#"{"op": "random_equalize", "probability": 1.0}"#),
    ("random_adjust_sharpness", r#"{"op": "random_adjust_sharpness", "sharpness_factor": 2.0, "probability": 1.0}"#),
    ("gaussian_blur", r#"{"op": "gaussian_blur", "kernel_size": 9}"#),
    ("random_erasing", r#"{"op": "random_erasing", "probability": 1.0, "value": "pixel"}"#),
    ("aug_mix", r#"{"op": "aug_mix"}"#),
];

fn benchmark<M: Measurement<Value = Duration>>(criterion: &mut Criterion<M>) {
    let devices = kiln_device::parity_devices();
    let bandwidths: Vec<Option<f64>> = devices.iter().map(|(_, device)| bandwidth(device)).collect();
    for (case, size, options, has_stock) in cases() {
        let mut group = criterion.benchmark_group(&case);
        group.throughput(Throughput::Elements(BATCH_SIZE as u64));
        group.sample_size(10).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
        let batches: Vec<HostBatch> = (0..NUM_BATCHES).map(|epoch| host_batch(size, epoch)).collect();
        for ((name, device), bandwidth) in devices.iter().zip(&bandwidths) {
            let upload = |batch: &HostBatch| batch_to_device(batch.clone(), &options, SEED, device);
            let on_device: Vec<DeviceBatch> = batches.iter().map(upload).collect();
            report_bytes(&case, name, &on_device, *bandwidth);
            let mut next = on_device.iter().cycle();
            group.bench_function(BenchmarkId::new("kiln", name), |bencher| {
                bencher.iter(|| {
                    let batch = next.next().cloned().expect("an endless cycle");
                    black_box(augment(batch, &options));
                    device.sync().expect("a device that works");
                });
            });
            if !has_stock {
                continue;
            }
            let on_device: Vec<StockBatch> =
                on_device.iter().zip(&batches).map(|(drawn, batch)| StockBatch::new(batch, drawn, device)).collect();
            let mut next = on_device.iter().cycle();
            group.bench_function(BenchmarkId::new("stock", name), |bencher| {
                bencher.iter(|| {
                    black_box(next.next().expect("an endless cycle").augment(&options));
                    device.sync().expect("a device that works");
                });
            });
        }
        group.finish();
    }
}

/// The least that a batch can move, and how long that takes at the device's measured bandwidth: the floor of any kernel.
fn report_bytes(case: &str, device: &str, batches: &[DeviceBatch], bandwidth: Option<f64>) {
    let read = |batch: &DeviceBatch| -> f64 {
        let area = |[top, left, bottom, right]: [f64; 4]| (bottom - top).abs() * (right - left).abs();
        batch.programs.iter().map(|program| 3.0 * area(program.source_box())).sum()
    };
    let read = batches.iter().map(read).sum::<f64>() / batches.len() as f64;
    let written = (BATCH_SIZE * 3 * OUTPUT_SIDE * OUTPUT_SIDE * size_of::<f32>()) as f64;
    let floor = bandwidth.map_or(String::new(), |bandwidth| {
        format!("; at the measured {:.1} GB/s {:.2} ms", bandwidth / 1e9, 1e3 * (read + written) / bandwidth)
    });
    eprintln!("{case} on {device}: reads {:.1} MB and writes {:.1} MB a batch{floor}", read / 1e6, written / 1e6);
}

/// Bytes a second that the device copies, as burn measures it; unknown of the CPU.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
fn bandwidth(device: &Device) -> Option<f64> {
    use burn::tensor::{MemoryAccess, ThroughputKey, ThroughputMode};
    let key = ThroughputKey { mode: ThroughputMode::memory(MemoryAccess::Copy) };
    let measured = device.performance_stats(&[key]).pop()?;
    measured.value.ok().map(|value| value.bytes_per_s(&key))
}

#[cfg(not(any(feature = "cuda", feature = "wgpu")))]
fn bandwidth(_device: &Device) -> Option<f64> {
    None
}

/// Images of a fixed pattern; what they show doesn't change the time.
fn host_batch([height, width]: [u32; 2], epoch: u32) -> HostBatch {
    let mut batch = HostBatch::new(epoch);
    for sample in 0..BATCH_SIZE {
        let pixel = |i: usize| (((i * 31) >> 3) ^ (i * (sample + 1))) as u8;
        let pixels = (0..width as usize * height as usize * 3).map(pixel).collect();
        batch.push(&RgbImage { width, height, pixels }, sample as u32, sample as u64);
    }
    batch
}

/// A batch as stock operations take it: an integer tensor `[1, 3, height, width]` per image, and what to cut out of it.
struct StockBatch {
    images: Vec<(Tensor<4, Int>, [f64; 4])>,
    mean: Tensor<4>,
    std: Tensor<4>,
}

impl StockBatch {
    fn new(batch: &HostBatch, drawn: &DeviceBatch, device: &Device) -> Self {
        let image = |index: usize| {
            let slot = batch.images[index];
            let [height, width] = [slot.height as usize, slot.width as usize];
            let pixels: Vec<i32> = batch.image(index).iter().map(|&byte| i32::from(byte)).collect();
            let pixels = Tensor::<3, Int>::from_data(TensorData::new(pixels, [height, width, 3]), device);
            (pixels.permute([2, 0, 1]).unsqueeze::<4>(), drawn.programs[index].source_box())
        };
        let constant = |values: [f32; 3]| Tensor::<1>::from_floats(values, device).reshape([1, 3, 1, 1]);
        let Augment { mean, std, .. } = Augment::train(OUTPUT_SIDE);
        Self { images: (0..batch.len()).map(image).collect(), mean: constant(mean), std: constant(std) }
    }

    /// Cut, cast, resize, flip, stack, normalise.
    fn augment(&self, options: &Augment) -> Tensor<4> {
        let resized = self.images.iter().map(|(image, source_box)| {
            let [top, left, bottom, right] = source_box.map(|edge| edge.round() as usize);
            let cut = image.clone().slice([0..1, 0..3, top..bottom, left.min(right)..left.max(right)]).float();
            let resized = if cut.dims()[2..] == options.size {
                cut
            } else {
                let resize = InterpolateOptions::new(InterpolateMode::Bilinear).with_align_corners(false);
                interpolate(cut, resize.with_output_size(options.size))
            };
            if left > right { resized.flip([3]) } else { resized }
        });
        (Tensor::cat(resized.collect(), 0).div_scalar(255.0) - self.mean.clone()) / self.std.clone()
    }
}

fn main() {
    if std::env::var_os("KILN_BENCH_PROCESSOR_TIME").is_some() {
        let mut criterion = Criterion::default().with_measurement(ProcessorTime).configure_from_args();
        benchmark(&mut criterion);
        return criterion.final_summary();
    }
    let mut criterion = Criterion::default().configure_from_args();
    benchmark(&mut criterion);
    criterion.final_summary();
}
