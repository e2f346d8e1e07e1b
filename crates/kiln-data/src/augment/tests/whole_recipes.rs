//! Whole recipes: what a batch of different programs costs, and that nothing but seed, epoch and sample changes them.

use super::*;
use crate::augment::pixel_op::Encoded;
use crate::dataset::scenes::{self, ScenesConfig};
use crate::loader::{Loader, LoaderConfig};

/// Random resized crop, flip, RandAugment, erasing by noise, normalise.
pub(super) fn recipe(size: usize) -> Augment {
    let mut options = Augment::train(size);
    options.steps.push(Augmentation::RandAugment(RandAugment::default()));
    let value = EraseValue::Random(RandomValue::Pixel);
    options.steps.push(Augmentation::RandomErasing(RandomErasing { probability: 0.5, value, ..Default::default() }));
    options
}

/// What each operation that needs more than its pixel is, in order.
fn barriers(program: &Program) -> Vec<bool> {
    let encoded = program.layers[0].ops.iter().map(PixelOp::encode);
    let is_barrier = |op: &Encoded| op.statistic().is_some() || op.is_neighbourhood();
    encoded.filter(is_barrier).map(|op| op.is_neighbourhood()).collect()
}

#[test]
fn a_batch_of_64_different_programs_is_one_launch_and_one_for_each_depth() {
    let options = recipe(12);
    for (name, device) in kiln_device::parity_devices() {
        if name == "cpu" {
            continue; // The scalar twin launches nothing.
        }
        for first_sample in [0, 1000] {
            let uploaded = batch_to_device(noise_batch(&[[14, 17]; 64], first_sample), &options, 42, &device);
            let programs = uploaded.programs.clone();
            let num_different = (0..64).filter(|index| !programs[..*index].contains(&programs[*index])).count();
            assert_eq!(num_different, 64);
            let all: Vec<Vec<bool>> = programs.iter().map(barriers).collect();
            let depths = 0..all.iter().map(Vec::len).max().unwrap_or(0);
            let has = |depth: usize, kind: bool| u64::from(all.iter().any(|kinds| kinds.get(depth) == Some(&kind)));
            let wanted = 1 + depths.map(|depth| has(depth, false) + has(depth, true)).sum::<u64>();
            assert_eq!(count_launches(uploaded, &options), wanted, "{name}: {all:?}");
            assert!((2..=5).contains(&wanted), "two operations have at most two depths: {wanted}");
        }
    }
}

#[test]
fn pictures_are_the_same_bits_for_any_number_of_workers_and_after_resuming() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = ScenesConfig { train_images: 23, val_images: 10, size: 32, ..Default::default() };
    let options = recipe(16);
    let epochs = |workers: usize, batch_size: usize, first_epoch: u32| {
        let splits = scenes::open_or_create(Some(folder.path()), &config).expect("scenes");
        let config = LoaderConfig { batch_size, workers, shuffle: true, seed: 5, ..Default::default() };
        let loader = Loader::new(splits.train, config).expect("a loader");
        let pictures = |epoch: u32| {
            let batches = loader.epoch(epoch).upload(&kiln_device::cpu(), &options, 5);
            let mut pictures = Vec::new();
            for batch in batches {
                let batch = batch.expect("a batch");
                let values: Vec<f32> = batch.images.into_data().try_to_vec().expect("f32 images");
                let values = values.chunks(3 * 16 * 16).map(<[f32]>::to_vec);
                pictures.extend(batch.samples.iter().copied().zip(values));
            }
            pictures
        };
        (first_epoch..3).map(pictures).collect::<Vec<_>>()
    };
    let whole = epochs(1, 7, 0);
    assert_ne!(whole[0], whole[1]);
    for (workers, batch_size) in [(2, 7), (5, 7), (1, 1), (2, 32)] {
        assert_eq!(epochs(workers, batch_size, 0), whole, "{workers} workers, batches of {batch_size}");
    }
    assert_eq!(epochs(2, 7, 2), whole[2..], "begun with epoch 2");
}
