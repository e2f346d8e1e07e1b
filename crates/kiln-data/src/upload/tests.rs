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
