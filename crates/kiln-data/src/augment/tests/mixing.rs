//! Erased and mixed batches: what the pixels are, and kernel against twin on every device there is.

use super::*;

/// Kernel against twin: a weighted sum of two normalised values.
const KERNEL_TOLERANCE: f32 = 1e-5;

/// Height and width of the images of a batch, an odd number of them.
const SIZES: [[u32; 2]; 5] = [[30, 40], [1, 1], [64, 48], [2, 3], [97, 131]];

fn erase(value: EraseValue) -> Augmentation {
    Augmentation::RandomErasing(RandomErasing { probability: 1.0, value, ..Default::default() })
}

fn noise() -> EraseValue {
    EraseValue::Random(RandomValue::Pixel)
}

/// The usual steps, and then erasing.
fn erasing(values: &[EraseValue]) -> Augment {
    let mut options = Augment::train(20);
    options.size = [20, 28];
    options.steps.extend(values.iter().copied().map(erase));
    options
}

fn mixing() -> Mixing {
    Mixing { mixup_alpha: 0.8, cutmix_alpha: 1.0, ..Mixing::default() }
}

fn batches() -> impl Iterator<Item = HostBatch> {
    (0..4).map(|first| noise_batch(&SIZES, 10 * first))
}

/// Index, channel, row and column of every value of an output of `options`.
fn places(options: &Augment, count: usize) -> impl Iterator<Item = [usize; 4]> {
    let [height, width] = options.size;
    let value = move |at| [at / (3 * height * width), at / (height * width) % 3, at / width % height, at % width];
    (0..count * 3 * height * width).map(value)
}

fn is_inside([top, left, bottom, right]: [u32; 4], [row, column]: [usize; 2]) -> bool {
    (top as usize..bottom as usize).contains(&row) && (left as usize..right as usize).contains(&column)
}

#[test]
fn erasing_paints_the_rectangle_and_nothing_else() {
    let color = [0.5, -2.0, 7.25];
    let (plain, options) = (erasing(&[]), erasing(&[EraseValue::Color(color)]));
    for (name, device) in kiln_device::parity_devices() {
        for batch in batches() {
            let (found, before) = (run(&batch, &options, &device), run(&batch, &plain, &device));
            let mut num_erased = 0;
            for (at, [index, channel, row, column]) in places(&options, SIZES.len()).enumerate() {
                let slot = &batch.images[index];
                let program = options.draw(42, batch.epoch, batch.samples[index], slot.width, slot.height);
                let is_erased = is_inside(program.erased[0].region, [row, column]);
                let want = if is_erased { color[channel] } else { before[at] };
                assert!((found[at] - want).abs() <= 1e-6, "{name}, image {index}: {row}, {column}");
                num_erased += usize::from(is_erased);
            }
            assert!(num_erased > 0, "{name}");
        }
    }
}

#[test]
fn noise_is_the_same_to_the_bit_on_every_device() {
    let options = erasing(&[noise()]);
    for batch in batches() {
        let twin = run(&batch, &options, &kiln_device::cpu());
        for (name, device) in kiln_device::parity_devices() {
            let kernel = run(&batch, &options, &device);
            for (at, [index, channel, row, column]) in places(&options, SIZES.len()).enumerate() {
                let slot = &batch.images[index];
                let program = options.draw(42, batch.epoch, batch.samples[index], slot.width, slot.height);
                if is_inside(program.erased[0].region, [row, column]) {
                    assert_eq!(kernel[at], twin[at], "{name}, image {index}, channel {channel}: {row}, {column}");
                }
            }
        }
    }
}

#[test]
fn a_mixed_batch_is_made_of_the_images_it_would_have_been() {
    let plain = erasing(&[EraseValue::Constant(0.25), noise()]);
    let options = Augment { mix: Some(mixing()), ..plain.clone() };
    let (mut num_blended, mut num_pasted) = (0, 0);
    for batch in batches() {
        let alone = run(&batch, &plain, &kiln_device::cpu());
        let mixes = options.draw_mixes(42, batch.epoch, &batch.samples);
        let image_len = alone.len() / SIZES.len();
        for (name, device) in kiln_device::parity_devices() {
            let found = run(&batch, &options, &device);
            for (at, [index, _, row, column]) in places(&options, SIZES.len()).enumerate() {
                let Mix { partner, share, pasted } = mixes[index];
                let (own, other) = (alone[at], alone[partner * image_len + at % image_len]);
                let want = match pasted {
                    Some(edges) if is_inside(edges, [row, column]) => other,
                    Some(_) => own,
                    None => share as f32 * own + (1.0 - share) as f32 * other,
                };
                let error = (found[at] - want).abs();
                assert!(error <= KERNEL_TOLERANCE, "{name}, {:?}: {row}, {column} is {error:e} off", mixes[index]);
            }
        }
        num_pasted += mixes.iter().filter(|mix| mix.pasted.is_some()).count();
        num_blended += mixes.iter().filter(|mix| mix.pasted.is_none() && mix.share < 1.0).count();
        assert_eq!(mixes[2], Mix::none(2), "the middle image of an odd batch");
    }
    assert!(num_blended > 2 && num_pasted > 2, "{num_blended} blended, {num_pasted} pasted");
}

#[test]
fn an_erased_and_mixed_batch_is_one_launch() {
    let options = Augment { mix: Some(mixing()), ..erasing(&[noise()]) };
    let batch = noise_batch(&SIZES, 0);
    for (name, device) in kiln_device::parity_devices() {
        let uploaded = batch_to_device(batch.clone(), &options, 42, &device);
        assert_eq!(count_launches(uploaded, &options), 1, "{name}");
    }
}

#[test]
fn a_mixed_batch_knows_its_targets() {
    let options = Augment { mix: Some(Mixing { cutmix_alpha: 0.0, ..mixing() }), ..Augment::train(8) };
    let batch = noise_batch(&SIZES, 0);
    let mixes = options.draw_mixes(42, batch.epoch, &batch.samples);
    for (name, device) in kiln_device::parity_devices() {
        let found = augment(batch_to_device(batch.clone(), &options, 42, &device), &options);
        assert_eq!(found.targets.clone().into_data().iter::<i64>().collect::<Vec<_>>(), [0, 1, 2, 3, 4], "{name}");
        let main: Vec<i64> = found.main_targets().into_data().iter::<i64>().collect();
        let soft: Vec<f32> = found.soft_targets(10, 0.1).into_data().try_to_vec().expect("f32 targets");
        for (index, row) in soft.chunks_exact(10).enumerate() {
            let Mix { partner, share, .. } = mixes[index];
            let mut want = [0.01; 10];
            want[index] += 0.9 * share;
            want[partner] += 0.9 * (1.0 - share);
            let error = row.iter().zip(want).map(|(found, want)| (f64::from(*found) - want).abs()).fold(0.0, f64::max);
            assert!(error < 1e-6, "{name}, image {index}: {row:?}, should be {want:?}");
            let likelier = if share < 0.5 { partner } else { index };
            assert_eq!(main[index], likelier as i64, "{name}, image {index}");
        }
    }
}

#[test]
fn a_batch_that_is_not_mixed_has_hard_targets() {
    let batch = noise_batch(&SIZES[..2], 0);
    let device = kiln_device::cpu();
    let found = augment(batch_to_device(batch, &Augment::train(8), 42, &device), &Augment::train(8));
    assert_eq!(found.mix, None);
    let soft: Vec<f32> = found.soft_targets(3, 0.0).into_data().try_to_vec().expect("f32 targets");
    assert_eq!(soft, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(found.main_targets().into_data().iter::<i64>().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn hostile_options_and_images_give_a_result() {
    let bad_erasing = RandomErasing {
        probability: f64::INFINITY,
        scale: [f64::NAN, 2.0],
        ratio: [0.0, f64::INFINITY],
        value: EraseValue::Constant(0.0),
    };
    let whole = RandomErasing { scale: [1.0, 1.0], ratio: [1e-9, 1e9], ..bad_erasing.clone() };
    let steps = [bad_erasing, whole].map(Augmentation::RandomErasing).to_vec();
    for alpha in [f64::NAN, f64::INFINITY, -1.0, f64::MIN_POSITIVE, 1e300] {
        let mix = Mixing { mixup_alpha: alpha, cutmix_alpha: alpha, probability: f64::INFINITY, ..mixing() };
        let options = Augment { steps: steps.clone(), mix: Some(mix), ..Augment::train(5) };
        let batch = noise_batch(&[[1, 1], [1, 2000], [2000, 1], [3, 4]], 0);
        for (name, device) in kiln_device::parity_devices() {
            let found = run(&batch, &options, &device);
            assert!(found.iter().all(|value| value.is_finite()), "{name}, alpha {alpha}");
        }
    }
}

#[test]
fn mixing_reads_from_a_recipe_and_is_judged() {
    let json =
        r#"{"steps": [{"op": "random_erasing", "value": "pixel"}], "size": [8, 8], "mix": {"mixup_alpha": 0.2}}"#;
    let read: Augment = serde_json::from_str(json).expect("options");
    assert_eq!(read.mix, Some(Mixing { mixup_alpha: 0.2, ..Mixing::default() }));
    assert_eq!(read.validate(), Ok(()));
    let written = serde_json::to_string(&read).expect("JSON");
    assert_eq!(serde_json::from_str::<Augment>(&written).expect("what was written"), read);
    let problems = validation_problems(|options| options.mix = Some(Mixing { probability: 2.0, ..mixing() }));
    assert_eq!(problems, ["mix: probability is 2; it must be between 0 and 1"]);
}
