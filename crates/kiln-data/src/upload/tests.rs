use super::*;
use crate::RgbImage;
use crate::dataset::{Dataset, scenes};
use crate::loader::{Loader, LoaderConfig};

fn scenes_loader(folder: &tempfile::TempDir, config: LoaderConfig) -> Loader {
    let options = scenes::ScenesConfig { train_images: 30, val_images: 10, size: 32, seed: 1 };
    let splits = scenes::open_or_create(Some(folder.path()), &options).expect("drawn");
    Loader::new(splits.train, config).expect("usable options")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn words_on_a_device_are_the_bytes_of_the_host() {
    let mut host = HostBatch::new(0);
    host.push(&RgbImage { width: 1, height: 1, pixels: vec![1, 2, 255] }, 3, 8);
    host.push(&RgbImage { width: 1, height: 2, pixels: vec![128, 129, 130, 131, 132, 133] }, 4, 9);
    for (name, device) in kiln_device::parity_devices() {
        let batch = batch_to_device(host.clone(), &Augment::eval(8), 0, &device);
        let words = batch.pixels.into_data().try_to_vec::<u32>().expect("u32");
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        assert_eq!(bytes, host.pixels, "{name}");
        assert_eq!((batch.labels, batch.samples, batch.programs.len()), (vec![3, 4], vec![8, 9], 2), "{name}");
    }
}

#[test]
fn batches_come_in_the_order_of_the_epoch_on_every_device() {
    let folder = folder();
    let loader = scenes_loader(&folder, LoaderConfig { batch_size: 8, seed: 3, ..Default::default() });
    let expected: Vec<_> = loader.epoch(2).map(|batch| batch.expect("a batch").samples).collect();
    for (name, device) in kiln_device::parity_devices() {
        let mut batches = loader.epoch(2).upload(&device, &Augment::train(16), 5);
        let uploaded: Vec<_> = batches.by_ref().map(|batch| batch.expect("a batch")).collect();
        assert!(uploaded.iter().map(|batch| &batch.samples).eq(&expected), "{name}");
        for batch in &uploaded {
            assert_eq!(batch.images.dims(), [batch.labels.len(), 3, 16, 16], "{name}");
            let targets = batch.targets.clone().into_data().iter::<i64>().collect::<Vec<_>>();
            assert!(targets.iter().copied().eq(batch.labels.iter().map(|&label| i64::from(label))), "{name}");
        }
        let counters = batches.counters();
        for stage in [counters.read, counters.decode, counters.queue, counters.upload, counters.wait] {
            assert_eq!(stage.images, 30, "{name}: {counters:?}");
            assert!(stage.bytes > 0, "{name}: {counters:?}");
        }
        assert!(counters.upload.secs > 0.0 && counters.decode.secs > 0.0, "{name}: {counters:?}");
        assert_eq!(counters.wait.secs, batches.wait_secs(), "{name}");
        assert!(batches.wait_secs() > 0.0, "{name}");
    }
}

#[test]
fn an_upload_that_goes_on_at_a_step_gives_the_batches_that_were_left() {
    let folder = folder();
    let loader = scenes_loader(&folder, LoaderConfig { batch_size: 4, seed: 3, ..Default::default() });
    let upload = |step| loader.epoch_from(2, step).upload(&kiln_device::cpu(), &Augment::train(8), 5);
    let contents = |batch: Batch| (batch.samples, batch.images.into_data().try_to_vec::<f32>().expect("f32"));
    let mut first = upload(0);
    first.by_ref().take(3).for_each(|batch| drop(batch.expect("a batch")));
    assert_eq!(first.next_step(), 3, "what is made in advance doesn't count");
    let (left, resumed): (Vec<_>, Vec<_>) = (first.collect(), upload(3).collect());
    assert_eq!(left.len(), loader.num_batches() - 3);
    for (left, resumed) in left.into_iter().zip(resumed) {
        assert_eq!(contents(left.expect("a batch")), contents(resumed.expect("a batch")));
    }
}

#[test]
fn an_image_is_the_same_in_any_batch() {
    let folder = folder();
    let images_by_sample = |batch_size, workers| {
        let config = LoaderConfig { batch_size, workers, ..Default::default() };
        let mut images = std::collections::BTreeMap::new();
        for batch in scenes_loader(&folder, config).epoch(1).upload(&kiln_device::cpu(), &Augment::train(8), 7) {
            let batch = batch.expect("a batch");
            for (i, sample) in batch.samples.iter().enumerate() {
                let pixels = batch.images.clone().narrow(0, i, 1).into_data().try_to_vec::<f32>().expect("f32");
                images.insert(*sample, pixels);
            }
        }
        images
    };
    assert_eq!(images_by_sample(5, 1), images_by_sample(12, 3));
}

#[test]
fn options_of_the_augmentation_are_checked() {
    let folder = folder();
    let loader = scenes_loader(&folder, LoaderConfig::default());
    let augment = Augment { size: [0, 8], ..Augment::eval(8) };
    let mut batches = loader.epoch(0).upload(&kiln_device::cpu(), &augment, 0);
    assert!(matches!(batches.next(), Some(Err(DataError::Config { what: "augmentation", .. }))));
    assert!(batches.next().is_none());
}

#[test]
fn dropping_midway_ends_all_threads() {
    let folder = folder();
    let loader = scenes_loader(&folder, LoaderConfig { batch_size: 2, workers: 3, ..Default::default() });
    let before = Arc::strong_count(loader.dataset());
    let mut batches = loader.epoch(0).upload(&kiln_device::cpu(), &Augment::eval(8), 0);
    batches.next().expect("an answer").expect("a batch");
    drop(batches);
    assert_eq!(Arc::strong_count(loader.dataset()), before);
}

struct Panics;

impl Dataset for Panics {
    fn len(&self) -> usize {
        3
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn sample(&self, index: usize) -> Result<crate::Sample, DataError> {
        panic!("no sample {index}")
    }

    fn name(&self, index: usize) -> String {
        index.to_string()
    }

    fn label(&self, _: usize) -> u32 {
        0
    }
}

#[test]
fn an_error_of_the_loader_reaches_the_consumer_and_ends_the_epoch() {
    let loader = Loader::new(Arc::new(Panics), LoaderConfig::default()).expect("usable options");
    let mut batches = loader.epoch(0).upload(&kiln_device::cpu(), &Augment::eval(8), 0);
    let error = batches.next().expect("an answer").expect_err("a panic");
    assert!(error.to_string().starts_with("the decoding thread failed: no sample"), "{error}");
    assert!(batches.next().is_none());
}

#[test]
fn images_on_a_device_are_augmented_like_those_of_the_host() {
    let bytes: Vec<u8> = (0..2 * 3 * 5 * 3).map(|index| (index * 37 % 256) as u8).collect();
    let mut host = HostBatch::new(6);
    for (image, pixels) in (0..).zip(bytes.chunks(3 * 5 * 3)) {
        host.push(&RgbImage { width: 5, height: 3, pixels: pixels.to_vec() }, image, 40 + u64::from(image));
    }
    let augment_options = Augment::train(7);
    let values = |batch: Batch| batch.images.into_data().try_to_vec::<f32>().expect("f32");
    for (name, device) in kiln_device::parity_devices() {
        let numbers: Vec<i32> = bytes.iter().map(|&byte| i32::from(byte)).collect();
        let images = Tensor::<4, Int>::from_data(TensorData::new(numbers, [2, 3, 5, 3]), (&device, DType::I32));
        let found = batch_from_tensor(images, vec![0, 1], vec![40, 41], 6, &augment_options, 9);
        let wanted = batch_to_device(host.clone(), &augment_options, 9, &device);
        assert_eq!(found.programs, wanted.programs, "{name}");
        assert_eq!(values(augment(found, &augment_options)), values(augment(wanted, &augment_options)), "{name}");
    }
}

/// Photographs of some size, four of them, in memory.
struct Photographs(Vec<Vec<u8>>);

impl Photographs {
    fn new([width, height]: [u32; 2]) -> Arc<Self> {
        let photograph = |number: usize| {
            // Soft shapes, edges and a little grain.
            let value = |x: f32, y: f32, channel: usize| {
                let phase = (number * 3 + channel) as f32;
                let soft = (x / 23.0 + phase).sin() * 50.0 + (y / 31.0 - x / 57.0 + phase).cos() * 40.0;
                let edge = if (x / 70.0 + phase).sin() * (y / 50.0).sin() > 0.4 { 45.0 } else { 0.0 };
                let grain = ((x * 12.99 + y * 78.23).sin() * 43_758.547).fract() * 8.0;
                (110.0 + soft + edge + grain).clamp(0.0, 255.0) as u8
            };
            let pixel =
                |index: u32| [0, 1, 2].map(|channel| value((index % width) as f32, (index / width) as f32, channel));
            let pixels: Vec<u8> = (0..width * height).flat_map(pixel).collect();
            let mut encoded = Vec::new();
            let mut encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut encoded, 92);
            encoder.encode(&pixels, width, height, image::ExtendedColorType::Rgb8).expect("encoded");
            encoded
        };
        Arc::new(Self((0..4).map(photograph).collect()))
    }

    /// Levels of all images of an epoch, 0–255, and the bytes that were decoded for them.
    fn seen(self: &Arc<Self>, options: &Augment, fit_to_crop: bool) -> (Vec<f32>, u64) {
        let decode = crate::DecodeOptions { fit_to_crop, ..Default::default() };
        let config = LoaderConfig { batch_size: 4, shuffle: false, decode, ..Default::default() };
        let loader = Loader::new(self.clone(), config).expect("usable options");
        let mut batches = loader.epoch(0).upload(&kiln_device::cpu(), options, 3);
        let batch = batches.next().expect("an answer").expect("a batch");
        let values = batch.images.into_data().try_to_vec::<f32>().expect("f32");
        (values.into_iter().map(|value| value * 255.0).collect(), batches.counters().decode.bytes)
    }
}

impl Dataset for Photographs {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn sample(&self, index: usize) -> Result<crate::Sample, DataError> {
        Ok(crate::Sample::encoded(self.0[index].clone(), 0))
    }

    fn name(&self, index: usize) -> String {
        index.to_string()
    }

    fn label(&self, _: usize) -> u32 {
        0
    }
}

/// Options whose values are levels.
fn in_levels(options: Augment) -> Augment {
    Augment { mean: [0.0; 3], std: [1.0; 3], ..options }
}

/// Mean and greatest difference.
fn differences(a: &[f32], b: &[f32]) -> [f32; 2] {
    let each = || a.iter().zip(b).map(|(a, b)| (a - b).abs());
    [each().sum::<f32>() / a.len() as f32, each().fold(0.0, f32::max)]
}

#[test]
fn decoding_only_the_crop_gives_the_same_picture() {
    // Positions that differ in their last bits may move a weight by one part in 65,536.
    const TOLERANCE: f32 = 0.05;
    let photographs = Photographs::new([180, 140]);
    let rotation = serde_json::from_str(r#"{"op": "random_rotation", "degrees": 30, "interpolation": "bilinear"}"#);
    let mut turned = Augment::train(64);
    turned.steps.push(rotation.expect("a step"));
    for options in [Augment::train(64), Augment::eval(112), turned] {
        let options = in_levels(options);
        let ((whole, all_bytes), (fitted, bytes)) =
            (photographs.seen(&options, false), photographs.seen(&options, true));
        let [_, greatest] = differences(&whole, &fitted);
        assert!(greatest <= TOLERANCE, "{options:?}: {greatest}");
        assert!(bytes < all_bytes, "{bytes} of {all_bytes} bytes: nothing was left out");
    }
}

#[test]
fn decoding_at_a_scale_gives_nearly_the_same_picture() {
    // The lowest frequencies of a block instead of the mean over pixels: sharper, and at edges it overshoots.
    const MEAN_TOLERANCE: f32 = 1.5;
    const TOLERANCE: f32 = 24.0;
    let photographs = Photographs::new([560, 420]);
    // The shorter side to 36, 73 and 182: 1/8, 1/4 and 1/2.
    for (size, scale) in [(32, 8), (64, 4), (160, 2)] {
        let options = in_levels(Augment::eval(size));
        let ((whole, all_bytes), (fitted, bytes)) =
            (photographs.seen(&options, false), photographs.seen(&options, true));
        assert!(bytes * scale * scale < all_bytes, "1/{scale}: {bytes} of {all_bytes} bytes");
        let [mean, greatest] = differences(&whole, &fitted);
        assert!(mean <= MEAN_TOLERANCE && greatest <= TOLERANCE, "1/{scale}: mean {mean}, greatest {greatest}");
    }
}
