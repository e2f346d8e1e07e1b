//! Lists of augmentations, from options to batches; what spans several files. Each step's own tests are in its file.

mod distribution;
mod golden;
mod golden_mixing;
mod hostile;
mod magnitudes;
mod mixing;
#[cfg(feature = "cuda")]
mod nvrtc;
mod parity;
mod random_programs;
mod whole_recipes;

use burn::tensor::Device;
use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

use super::pixel_op::PixelOp;
use super::*;
use crate::batch::{HostBatch, ImageSlot};
use crate::upload::batch_to_device;

/// The same `cases` in every run, unless `PROPTEST_RNG_SEED` asks for others.
fn property_config(cases: u32) -> ProptestConfig {
    let defaults = ProptestConfig::default();
    let rng_seed = match defaults.rng_seed {
        RngSeed::Random => RngSeed::Fixed(2026),
        asked => asked,
    };
    ProptestConfig { cases, failure_persistence: None, rng_seed, ..defaults }
}

/// An image of noise: what shows a wrong weight best.
fn push_noise(batch: &mut HostBatch, [height, width]: [u32; 2], sample: u64) {
    // As many words as asked for; a stream of `Draws` has an end.
    let mut words = (0..).flat_map(|block: u32| philox::philox4x32_10([block, 0, sample as u32, 0], [1, 2]));
    let offset = batch.pixels.len();
    let slot = ImageSlot::whole(offset, width, height);
    let num_words = slot.num_bytes().div_ceil(4);
    batch.pixels.extend(words.by_ref().take(num_words).flat_map(u32::to_le_bytes));
    batch.pixels[offset + slot.num_bytes()..].fill(0);
    batch.images.push(slot);
    batch.labels.push(sample as u32 % 10);
    batch.samples.push(sample);
    batch.draws.push(sample);
}

/// A batch of noise, one image per size, samples numbered from `first_sample`.
fn noise_batch(sizes: &[[u32; 2]], first_sample: u64) -> HostBatch {
    let mut batch = HostBatch::new(4);
    sizes.iter().zip(first_sample..).for_each(|(&size, sample)| push_noise(&mut batch, size, sample));
    batch
}

fn run(batch: &HostBatch, options: &Augment, device: &Device) -> Vec<f32> {
    let batch = augment(batch_to_device(batch.clone(), options, 42, device), options);
    batch.images.into_data().try_to_vec().expect("f32 images")
}

/// How many launches an uploaded batch takes.
fn count_launches(uploaded: DeviceBatch, options: &Augment) -> u64 {
    let launches = LaunchCounter::default();
    let found = augment_as(uploaded, OutputFormat::of(options, &launches));
    // With fusion a launch happens when its result is needed.
    let _: Vec<f32> = found.images.into_data().try_to_vec().expect("f32 images");
    launches.get()
}

/// One draw of a step, for an image 60 wide and 40 high.
pub(super) fn drawn_program(step: &impl Step, sample: u64) -> Program {
    let mut program = Program::new(60, 40);
    step.draw(&mut Draws::new(42, 0, sample, 0), &mut program, &Output::of_size([32, 32]));
    program
}

/// The pixel operations of one draw of a step.
pub(super) fn drawn_ops(step: &impl Step, sample: u64) -> Vec<PixelOp> {
    drawn_program(step, sample).layers[0].ops.clone()
}

/// Asserts that a step adds an operation with this probability.
pub(super) fn applied_to(step: &impl Step, probability: f64) {
    let count = (0..10_000).filter(|&sample| !drawn_ops(step, sample).is_empty()).count() as f64;
    let error = (1e4 * probability * (1.0 - probability)).sqrt();
    assert!((count - 1e4 * probability).abs() <= 4.0 * error, "{count} of 10,000, not {probability}");
}

/// The samples of the first twelve to which a step applies `op`, and nothing else ever.
pub(super) fn pinned(step: &impl Step, op: &PixelOp) -> Vec<u64> {
    let is_applied = |sample: &u64| match &drawn_ops(step, *sample)[..] {
        [] => false,
        [found] => {
            assert_eq!(found, op);
            true
        }
        more => panic!("{more:?}"),
    };
    (0..12).filter(is_applied).collect()
}

fn validation_problems(change: impl FnOnce(&mut Augment)) -> Vec<String> {
    let mut options = Augment::train(224);
    change(&mut options);
    options.validate().err().unwrap_or_default()
}

#[test]
fn a_list_reads_the_same_from_a_recipe() {
    let json = r#"{
        "steps": [
            {"op": "resize", "size": [40, 50], "antialias": false},
            {"op": "resize", "size": 256, "max_size": 300},
            {"op": "center_crop"},
            {"op": "random_resized_crop", "ratio": [1.0, 1.0]},
            {"op": "random_horizontal_flip", "probability": 0.25}
        ],
        "size": [224, 192]
    }"#;
    let read: Augment = serde_json::from_str(json).expect("a list of augmentations");
    let want = Augment {
        steps: vec![
            Augmentation::Resize(Resize { antialias: false, ..Resize::new(ResizeTo::Exactly([40, 50])) }),
            Augmentation::Resize(Resize { max_size: Some(300), ..Resize::new(ResizeTo::ShorterSide(256)) }),
            Augmentation::CenterCrop(CenterCrop { size: None }),
            Augmentation::RandomResizedCrop(RandomResizedCrop { ratio: [1.0, 1.0], ..Default::default() }),
            Augmentation::RandomHorizontalFlip(RandomHorizontalFlip { probability: 0.25 }),
        ],
        size: [224, 192],
        ..Augment::train(1)
    };
    assert_eq!(read, want);
    let written = serde_json::to_string(&read).expect("JSON");
    assert_eq!(serde_json::from_str::<Augment>(&written).expect("what was written"), want);
}

#[test]
fn unknown_steps_and_options_are_errors() {
    let error = |json: &str| serde_json::from_str::<Augmentation>(json).expect_err(json).to_string();
    assert!(
        error(r#"{"op": "rotate_hue"}"#)
            .contains("unknown variant `rotate_hue`, expected one of `random_resized_crop`")
    );
    assert!(
        error(r#"{"op": "random_horizontal_flip", "p": 0.5}"#).contains("unknown field `p`, expected `probability`")
    );
    assert!(error(r#"{"op": "resize"}"#).contains("missing field `size`"));
    assert!(error("3").contains("a table with op and its options"));
}

#[test]
fn a_mistyped_name_gets_the_nearest_and_its_place() {
    let error = |json: &str| serde_json::from_str::<Augment>(json).expect_err(json).to_string();
    let step = error("{\"size\": [2, 2],\n\"steps\": [{\"op\": \"random_rotate\"}]}");
    assert!(step.contains("did you mean `random_rotation`?") && step.contains("line 2"), "{step}");
    let option = error("{\"size\": [2, 2],\n\"steps\": [{\"op\": \"color_jitter\", \"britness\": 0.3}]}");
    assert!(option.contains("did you mean `brightness`?") && option.contains("line 2"), "{option}");
    let value = error(r#"{"size": [2, 2], "steps": [{"op": "auto_augment", "policy": "imagnet"}]}"#);
    assert!(value.contains("did you mean `imagenet`?"), "{value}");
    let part = error(r#"{"size": [2, 2], "steps": [{"op": "timm_rand_augment", "config": "rand-mag9"}]}"#);
    assert!(part.contains("unknown part \"mag9\""), "{part}");
}

/// Every step there is, with defaults where it has some.
fn every_step() -> Vec<Augmentation> {
    let json = r#"[
        {"op": "random_resized_crop"}, {"op": "random_crop"}, {"op": "resize", "size": [30, 40]},
        {"op": "center_crop"}, {"op": "corner_crop", "corner": "bottom_left"}, {"op": "pad", "padding": [1, 2]},
        {"op": "random_horizontal_flip"}, {"op": "random_vertical_flip"}, {"op": "random_rotation", "degrees": 30},
        {"op": "random_affine", "degrees": [0, 10], "translate": [0.1, 0.2], "scale": [0.9, 1.1], "shear": 5},
        {"op": "random_perspective"}, {"op": "color_jitter", "brightness": 0.4, "hue": [-0.1, 0.2]},
        {"op": "random_grayscale"}, {"op": "random_invert"}, {"op": "random_solarize"},
        {"op": "random_posterize", "bits": 4}, {"op": "random_autocontrast"}, {"op": "random_equalize"},
        {"op": "random_gamma"}, {"op": "random_adjust_sharpness", "sharpness_factor": 2},
        {"op": "gaussian_blur", "kernel_size": [3, 5]}, {"op": "trivial_augment_wide"}, {"op": "rand_augment"},
        {"op": "timm_rand_augment", "config": "rand-m9-mstd0.5-inc1"}, {"op": "auto_augment", "policy": "svhn"},
        {"op": "aug_mix"}, {"op": "three_augment"}
    ]"#;
    serde_json::from_str(json).expect("every step")
}

#[test]
fn every_step_is_valid_by_default_and_written_as_it_is_read() {
    for step in every_step() {
        let (name, behaviour) = step.step();
        assert_eq!(behaviour.problems(), [""; 0], "{name}");
        let written = serde_json::to_value(&step).expect("JSON");
        assert_eq!(written["op"], name);
        assert_eq!(serde_json::from_value::<Augmentation>(written).expect(name), step);
    }
}

#[test]
fn a_list_of_every_step_runs_the_same_on_every_device() {
    let options = Augment { steps: every_step(), ..Augment::train(24) };
    assert_eq!(options.validate(), Ok(()));
    let batch = noise_batch(&[[40, 60], [1, 37], [64, 48]], 0);
    let twin = run(&batch, &options, &kiln_device::cpu());
    for (name, device) in kiln_device::parity_devices() {
        let kernel = run(&batch, &options, &device);
        let error = kernel.iter().zip(&twin).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(error <= 1e-5, "{name}: {error:e} off");
    }
}

#[test]
fn copies_that_multiply_are_a_problem() {
    let steps = |count: usize| vec![Augmentation::AugMix(AugMix::default()); count];
    assert_eq!(validation_problems(|options| options.steps = steps(3)).len(), 0);
    let problems = validation_problems(|options| options.steps = steps(4));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("256 copies"), "{problems:?}");
}

#[test]
fn defaults_are_valid() {
    for options in [Augment::train(224), Augment::eval(224), Augment::train(1), Augment::eval(1)] {
        assert_eq!(options.validate(), Ok(()));
    }
    let Augmentation::Resize(Resize { size, .. }) = &Augment::eval(224).steps[0] else { panic!("a resize first") };
    assert_eq!(*size, ResizeTo::ShorterSide(256));
}

#[test]
fn validation_reports_every_problem_with_its_step() {
    let problems = validation_problems(|options| {
        options.size = [0, 70_000];
        options.mean[1] = f32::NAN;
        options.std[2] = 0.0;
        options.steps = vec![
            Augmentation::RandomHorizontalFlip(RandomHorizontalFlip { probability: 1.5 }),
            Augmentation::RandomResizedCrop(RandomResizedCrop { scale: [0.5, 0.1], ..Default::default() }),
        ];
    });
    assert_eq!(problems.len(), 5, "{problems:#?}");
    assert_eq!(problems[3], "steps[0] (random_horizontal_flip): probability is 1.5; it must be between 0 and 1");
}

#[test]
fn a_list_that_leaves_images_of_different_shapes_is_a_problem() {
    let resize = || Augmentation::Resize(Resize::new(ResizeTo::ShorterSide(256)));
    let flip = || Augmentation::RandomHorizontalFlip(RandomHorizontalFlip::default());
    assert_eq!(validation_problems(|options| options.steps = vec![flip(), resize(), flip()]).len(), 1);
    assert_eq!(validation_problems(|options| options.steps.insert(0, resize())).len(), 0);
    assert_eq!(validation_problems(|options| options.steps = vec![flip()]).len(), 0);
    let erase = || Augmentation::RandomErasing(RandomErasing::default());
    assert_eq!(validation_problems(|options| options.steps = vec![resize(), erase()]).len(), 1);
    let policy = || Augmentation::TrivialAugmentWide(TrivialAugmentWide::default());
    let pad = || Augmentation::Pad(Pad::new(Padding::All(4)));
    assert_eq!(validation_problems(|options| options.steps = vec![resize(), policy(), pad()]).len(), 1);
    let crop = || Augmentation::RandomCrop(RandomCrop::default());
    assert_eq!(validation_problems(|options| options.steps = vec![resize(), policy(), crop(), policy()]).len(), 0);
}

#[test]
fn no_step_leaves_an_image_without_pixels() {
    let crop = Augmentation::CenterCrop(CenterCrop { size: Some([0, 3]) });
    let steps = vec![crop, Augmentation::RandomResizedCrop(RandomResizedCrop::default())];
    let program = Augment { steps, ..Augment::train(8) }.draw(0, 0, 0, 20, 10);
    assert_eq!(program.size(), [8, 8]);
}

#[test]
fn an_image_of_another_size_is_stretched_to_the_output() {
    let options = Augment { steps: vec![], ..Augment::train(8) };
    let program = options.draw(0, 0, 0, 20, 10);
    assert_eq!((program.size(), program.source_box()), ([8, 8], [0.0, 0.0, 10.0, 20.0]));
}

#[test]
fn a_step_keeps_its_filter() {
    let crop = RandomResizedCrop { antialias: false, ..Default::default() };
    let options = Augment { steps: vec![Augmentation::RandomResizedCrop(crop)], ..Augment::train(8) };
    assert_eq!(options.draw(0, 0, 0, 200, 100).layers[0].geometry.filter, Filter::Bilinear);
}

#[test]
fn draws_depend_on_seed_epoch_and_sample_alone() {
    let options = Augment::train(32);
    let first = options.draw(1, 2, 3, 500, 375);
    assert_eq!(options.draw(1, 2, 3, 500, 375), first);
    for other in [options.draw(9, 2, 3, 500, 375), options.draw(1, 9, 3, 500, 375), options.draw(1, 2, 9, 500, 375)] {
        assert_ne!(other, first);
    }
}

#[test]
fn a_step_added_at_the_end_leaves_the_draws_before_it() {
    let mut options = Augment::train(32);
    options.steps.truncate(1);
    let before = options.draw(1, 2, 3, 500, 375);
    options.steps.push(Augmentation::RandomHorizontalFlip(RandomHorizontalFlip { probability: 1.0 }));
    let [top, left, bottom, right] = options.draw(1, 2, 3, 500, 375).source_box();
    assert_eq!([top, right, bottom, left], before.source_box());
}

#[test]
fn draws_are_pinned() {
    let boxes = [0, 1, 2].map(|sample| Augment::train(224).draw(42, 3, sample, 500, 375).source_box());
    assert_eq!(boxes, [[71.0, 50.0, 366.0, 362.0], [50.0, 245.0, 251.0, 419.0], [182.0, 348.0, 372.0, 172.0]]);
}

#[test]
fn hostile_options_and_images_give_a_result() {
    let bad_crop = RandomResizedCrop { scale: [f64::NAN, -1.0], ratio: [0.0, f64::INFINITY], ..Default::default() };
    let steps = vec![
        Augmentation::RandomResizedCrop(bad_crop),
        Augmentation::Resize(Resize { max_size: Some(0), ..Resize::new(ResizeTo::ShorterSide(0)) }),
        Augmentation::CenterCrop(CenterCrop { size: Some([900, 1]) }),
        Augmentation::RandomHorizontalFlip(RandomHorizontalFlip { probability: f64::INFINITY }),
    ];
    let options = Augment { steps, ..Augment::train(5) };
    let batch = noise_batch(&[[1, 1], [1, 2000], [2000, 1], [3, 4]], 0);
    assert!(run(&batch, &options, &kiln_device::cpu()).iter().all(|value| value.is_finite()));
}

#[test]
fn flips_and_normalises_a_small_image() {
    let mut batch = HostBatch::new(0);
    push_noise(&mut batch, [1, 2], 0);
    batch.pixels = vec![0, 51, 102, 255, 204, 153, 0, 0];
    let steps = vec![Augmentation::RandomHorizontalFlip(RandomHorizontalFlip { probability: 1.0 })];
    let options = Augment { steps, size: [1, 2], mean: [0.0, 0.2, 0.4], std: [1.0, 0.5, 0.25], ..Augment::train(1) };
    for (name, device) in kiln_device::parity_devices() {
        let found = run(&batch, &options, &device);
        let want = [1.0, 0.0, 1.2, 0.0, 0.8, 0.0];
        let error = found.iter().zip(want).map(|(found, want)| (found - want).abs()).fold(0.0, f32::max);
        assert!(error < 1e-6, "{name}: {found:?}");
    }
}

#[test]
fn a_smaller_image_has_black_around_it() {
    let mut batch = noise_batch(&[[1, 1]], 0);
    batch.pixels = vec![255, 255, 255, 0];
    let steps = vec![Augmentation::CenterCrop(CenterCrop::default())];
    let options = Augment { steps, size: [3, 4], mean: [0.5; 3], std: [0.5; 3], ..Augment::train(1) };
    for (name, device) in kiln_device::parity_devices() {
        let found = run(&batch, &options, &device);
        let want = [-1.0, -1.0, -1.0, -1.0, -1.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0];
        assert_eq!(found[..12], want, "{name}");
    }
}
