//! Kernel, scalar twin and an f64 reference on random lists, images and batches, on every device there is.

use burn::tensor::Tensor;

use super::*;
use crate::augment::geometry::{Axis, Geometry};

/// Kernel against twin, normalised values up to 2.7: both sum at most a few hundred terms of f32.
const KERNEL_TOLERANCE: f32 = 1e-5;
/// Twin against the f64 reference, likewise: weights have 15 and 16 bits, a filtered row 8 places below the level, which
/// makes 0.02 levels at most.
const TWIN_TOLERANCE: f64 = 3.5e-4;

/// Height and width of the images of a batch: one pixel, one row, one column, odd sizes, and ones that shrink much.
const SIZES: [[u32; 2]; 8] = [[1, 1], [1, 37], [41, 1], [2, 3], [13, 17], [64, 48], [97, 131], [211, 301]];

#[test]
fn there_is_a_device_to_compare_where_one_is_required() {
    let required = std::env::var_os("KILN_REQUIRE_VULKAN").is_some();
    let names: Vec<String> = kiln_device::parity_devices().into_iter().map(|(name, _)| name).collect();
    assert!(!required || names.iter().any(|name| name.starts_with("wgpu")), "KILN_REQUIRE_VULKAN is set: {names:?}");
}

/// Lists that reach every branch of the geometry.
fn lists() -> Vec<Augment> {
    let crop = |antialias| Augmentation::RandomResizedCrop(RandomResizedCrop { antialias, ..Default::default() });
    let flip = || Augmentation::RandomHorizontalFlip(RandomHorizontalFlip::default());
    let exactly = |size, antialias| Augmentation::Resize(Resize { antialias, ..Resize::new(ResizeTo::Exactly(size)) });
    let centre = |size| Augmentation::CenterCrop(CenterCrop { size: Some(size) });
    let list = |steps, size| Augment { steps, size, ..Augment::train(1) };
    vec![
        Augment::train(32),
        Augment::train(1),
        Augment::eval(28),
        list(vec![flip()], [97, 131]),
        list(vec![crop(false), flip()], [45, 33]),
        list(vec![exactly([70, 9], true), centre([30, 40]), flip()], [30, 40]),
        list(vec![exactly([20, 30], false), flip(), crop(true)], [17, 23]),
        list(vec![centre([50, 20]), flip(), exactly([9, 9], true)], [9, 9]),
    ]
}

/// One to six random steps with random options, padding and enlarging included.
fn random_list(index: u64) -> Augment {
    let mut draws = Draws::new(7, 0, index, 0);
    let mut side = |bound: u64| 1 + draws.below(bound) as u32;
    let size = [side(40), side(40)];
    let mut steps = Vec::new();
    for _ in 0..side(6) {
        let (antialias, sides) = (side(2) == 1, [side(90), side(90)]);
        steps.push(match side(5) {
            1 => Augmentation::RandomResizedCrop(RandomResizedCrop { antialias, ..Default::default() }),
            2 => Augmentation::RandomHorizontalFlip(RandomHorizontalFlip::default()),
            3 => Augmentation::CenterCrop(CenterCrop { size: Some(sides) }),
            4 => Augmentation::Resize(Resize { antialias, ..Resize::new(ResizeTo::ShorterSide(sides[0])) }),
            _ => Augmentation::Resize(Resize { antialias, ..Resize::new(ResizeTo::Exactly(sides)) }),
        });
    }
    Augment { steps, size: size.map(|side| side as usize), ..Augment::train(1) }
}

#[test]
fn kernel_twin_and_reference_agree() {
    for (index, options) in lists().into_iter().chain((0..24).map(random_list)).enumerate() {
        let batch = noise_batch(&SIZES, 100 * index as u64);
        let twin = run(&batch, &options, &kiln_device::cpu());
        let reference = reference(&batch, &options);
        let error = largest_difference(twin.iter().map(|&value| f64::from(value)).zip(reference.iter().copied()));
        assert!(error.1 <= TWIN_TOLERANCE, "twin, list {index}: value {} is {:e} off", error.0, error.1);
        for (name, device) in kiln_device::parity_devices() {
            let kernel = run(&batch, &options, &device);
            assert_eq!(kernel.len(), twin.len());
            let pairs = kernel.iter().map(|&value| f64::from(value)).zip(twin.iter().map(|&value| f64::from(value)));
            let error = largest_difference(pairs);
            assert!(error.1 <= KERNEL_TOLERANCE.into(), "{name}, list {index}: value {} is {:e} off", error.0, error.1);
        }
    }
}

#[test]
fn a_large_photograph_keeps_its_precision() {
    // At 6,000 pixels f32 positions would be off by 2e-4.
    let batch = noise_batch(&[[9, 6001]], 5);
    let steps = vec![Augmentation::RandomHorizontalFlip(RandomHorizontalFlip { probability: 1.0 })];
    let options = Augment { steps, size: [5, 301], ..Augment::train(1) };
    let twin = run(&batch, &options, &kiln_device::cpu());
    let pairs = twin.iter().map(|&value| f64::from(value)).zip(reference(&batch, &options));
    let error = largest_difference(pairs);
    assert!(error.1 <= TWIN_TOLERANCE, "value {} is {:e} off", error.0, error.1);
    for (name, device) in kiln_device::parity_devices() {
        let kernel = run(&batch, &options, &device);
        let error = largest_difference(kernel.iter().zip(&twin).map(|(&a, &b)| (f64::from(a), f64::from(b))));
        assert!(error.1 <= KERNEL_TOLERANCE.into(), "{name}: value {} is {:e} off", error.0, error.1);
    }
}

#[test]
fn the_batch_around_an_image_changes_nothing() {
    let sizes: Vec<_> = (0..32).map(|sample| SIZES[sample % SIZES.len()]).collect();
    let lists = [Augment::train(24), whole_recipes::recipe(12)];
    for ((name, device), options) in
        kiln_device::parity_devices().into_iter().flat_map(|device| lists.clone().map(|list| (device.clone(), list)))
    {
        let whole = run(&noise_batch(&sizes, 0), &options, &device);
        for batch_size in [1, 7] {
            let parts = sizes.chunks(batch_size).enumerate();
            let parts =
                parts.flat_map(|(part, sizes)| run(&noise_batch(sizes, (part * batch_size) as u64), &options, &device));
            assert!(parts.eq(whole.iter().copied()), "{name}: batches of {batch_size} differ from one of 32");
        }
        let mut reversed = HostBatch::new(4);
        (0..32u64).rev().for_each(|sample| push_noise(&mut reversed, sizes[sample as usize], sample));
        let reversed = run(&reversed, &options, &device);
        let image_len = whole.len() / 32;
        assert!(reversed.chunks(image_len).rev().eq(whole.chunks(image_len)), "{name}: the order changes an image");
    }
}

#[test]
fn a_batch_is_one_launch() {
    let options = Augment::train(16);
    let batch = noise_batch(&SIZES, 0);
    for (name, device) in kiln_device::parity_devices() {
        let uploaded = batch_to_device(batch.clone(), &options, 42, &device);
        assert_eq!(count_launches(uploaded, &options), 1, "{name}");
    }
}

#[test]
fn a_batch_on_a_device_with_gradients_can_be_trained_on() {
    let options = Augment::train(8);
    let batch = noise_batch(&SIZES[..3], 0);
    for (name, device) in kiln_device::parity_devices() {
        let plain = run(&batch, &options, &device);
        let device = device.autodiff();
        let found = augment(batch_to_device(batch.clone(), &options, 42, &device), &options);
        assert_eq!(found.targets.clone().into_data().iter::<i64>().collect::<Vec<_>>(), [0, 1, 2], "{name}");
        let weights = Tensor::<4>::ones(found.images.dims(), &device).require_grad();
        let gradients = (found.images.clone() * weights.clone()).sum().backward();
        let gradient = weights.grad(&gradients).expect("a gradient");
        assert_eq!(gradient.into_data().try_to_vec::<f32>().expect("f32"), plain, "{name}");
    }
}

/// Index and size of the largest difference.
fn largest_difference(pairs: impl Iterator<Item = (f64, f64)>) -> (usize, f64) {
    let differences = pairs.map(|(a, b)| (a - b).abs()).enumerate();
    // In the total order NaN is the largest.
    differences.max_by(|a, b| a.1.total_cmp(&b.1)).expect("values to compare")
}

/// What the lists mean, in f64: per output pixel, the mean of the source pixels under a triangle, one by one.
fn reference(batch: &HostBatch, options: &Augment) -> Vec<f64> {
    let mut output = Vec::new();
    for (index, slot) in batch.images.iter().enumerate() {
        let program = options.draw(42, batch.epoch, batch.samples[index], slot.width, slot.height);
        let Geometry { rows, columns, filter, .. } = &program.layers[0].geometry;
        let image = &batch.pixels[slot.offset..];
        let row_taps: Vec<_> = (0..rows.length).map(|row| weights(rows, *filter, row)).collect();
        let column_taps: Vec<_> = (0..columns.length).map(|column| weights(columns, *filter, column)).collect();
        for channel in 0..3 {
            let byte = |y: u32, x: u32| image[(y as usize * slot.width as usize + x as usize) * 3 + channel];
            for (row, column) in row_taps.iter().flat_map(|row| column_taps.iter().map(move |column| (row, column))) {
                let (mut sum, mut total) = (0.0, 0.0);
                for (&(y, row_weight), &(x, column_weight)) in
                    row.iter().flat_map(|y| column.iter().map(move |x| (y, x)))
                {
                    sum += row_weight * column_weight * f64::from(byte(y, x));
                    total += row_weight * column_weight;
                }
                let value = if total > 0.0 { sum / total / 255.0 } else { 0.0 };
                output.push((value - f64::from(options.mean[channel])) / f64::from(options.std[channel]));
            }
        }
    }
    output
}

/// Source pixels under the triangle of output pixel `index`, and their weights.
fn weights(axis: &Axis, filter: Filter, index: u32) -> Vec<(u32, f64)> {
    let centre = axis.origin + axis.step * (f64::from(index) + 0.5);
    let support = if filter == Filter::BilinearAntialiased { axis.step.abs().max(1.0) } else { 1.0 };
    let is_inside = (axis.content[0]..axis.content[1]).contains(&(f64::from(index) + 0.5));
    let taps = if is_inside { axis.taps[0]..axis.taps[1] } else { 0..0 };
    let weigh = |tap: i64| (tap as u32, 1.0 - (tap as f64 + 0.5 - centre).abs() / support);
    taps.map(weigh).filter(|(_, weight)| *weight > 0.0).collect()
}

#[test]
fn types_and_memory_orders_hold_the_same_pictures() {
    let batch = noise_batch(&SIZES, 3);
    let options = Augment { size: [9, 14], ..Augment::train(1) };
    for (name, device) in kiln_device::parity_devices() {
        let plain = run(&batch, &options, &device);
        for output_type in [OutputType::F32, OutputType::F16, OutputType::Bf16] {
            if !output_type.is_supported_by(&device) {
                continue;
            }
            for memory_order in [MemoryOrder::ChannelsFirst, MemoryOrder::ChannelsLast] {
                let options = Augment { output_type, memory_order, ..options.clone() };
                let found = augment(batch_to_device(batch.clone(), &options, 42, &device), &options).images;
                assert_eq!((found.dims(), found.dtype()), ([SIZES.len(), 3, 9, 14], output_type.dtype()), "{name}");
                let found: Vec<f32> = found.cast(burn::tensor::FloatDType::F32).into_data().try_to_vec().expect("f32");
                // Half a unit in the last place of a value below 4.
                let tolerance = match output_type {
                    OutputType::F32 => 0.0,
                    OutputType::F16 => 1.0 / 1024.0,
                    OutputType::Bf16 => 1.0 / 128.0,
                };
                let error = largest_difference(found.iter().zip(&plain).map(|(&a, &b)| (f64::from(a), f64::from(b))));
                assert!(
                    error.1 <= tolerance,
                    "{name}, {output_type:?}, {memory_order:?}: value {} is {:e} off",
                    error.0,
                    error.1
                );
            }
        }
    }
}

#[test]
fn statistics_and_neighbourhoods_cost_a_launch_for_each_depth() {
    use crate::augment::pixel_op::PixelOp;
    let count = |lists: &[&[PixelOp]], device: &Device| {
        let batch = noise_batch(&vec![[9, 7]; lists.len()], 0);
        let options = Augment { steps: Vec::new(), size: [6, 5], ..Augment::train(1) };
        let mut uploaded = batch_to_device(batch, &options, 0, device);
        for (program, ops) in uploaded.programs.iter_mut().zip(lists) {
            ops.iter().for_each(|op| program.push(op.clone()));
        }
        count_launches(uploaded, &options)
    };
    let contrast = || PixelOp::Contrast { factor: 0.5 };
    let blur = || PixelOp::GaussianBlur { num_taps: [3, 3], sigma: [1.0, 1.0] };
    for (name, device) in kiln_device::parity_devices() {
        // The scalar twin passes over the batch once whatever is asked for.
        let launches = |wanted| if name == "cpu" { 1 } else { wanted };
        let counts = |lists: &[&[PixelOp]]| count(lists, &device);
        assert_eq!(counts(&[&[PixelOp::Invert], &[PixelOp::Grayscale, PixelOp::Invert]]), launches(1), "{name}");
        assert_eq!(counts(&[&[contrast()], &[PixelOp::Equalize], &[]]), launches(2), "{name}");
        let two = [PixelOp::Equalize, PixelOp::Autocontrast];
        assert_eq!(counts(&[&two, &[PixelOp::Autocontrast]]), launches(3), "{name}");
        assert_eq!(counts(&[&[blur()], &[contrast()]]), launches(3), "{name}");
        assert_eq!(counts(&[&[contrast(), blur()], &two]), launches(4), "{name}");
    }
}
