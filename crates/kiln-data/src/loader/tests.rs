use super::*;
use crate::{HostBatch, Sample};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bitmaps of different sizes whose first byte is the sample's index, some of them faulty.
#[derive(Default)]
struct Numbered {
    num_samples: usize,
    damaged: HashSet<usize>,
    unreadable: HashSet<usize>,
    panics_at: Option<usize>,
    num_read: AtomicUsize,
}

/// Every picture is at most this large decoded.
const LARGEST_BYTES: usize = 4 * 3 * 3;

impl Numbered {
    fn new(num_samples: usize) -> Self {
        Self { num_samples, ..Self::default() }
    }

    fn damaged(num_samples: usize, damaged: impl IntoIterator<Item = usize>) -> Self {
        Self { num_samples, damaged: damaged.into_iter().collect(), ..Self::default() }
    }
}

impl Dataset for Numbered {
    fn len(&self) -> usize {
        self.num_samples
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        self.num_read.fetch_add(1, Ordering::Relaxed);
        assert_ne!(self.panics_at, Some(index), "this sample panics");
        if self.unreadable.contains(&index) {
            return Err(DataError::Read { name: self.name(index), sample: index, reason: io::Error::other("on fire") });
        }
        let mut encoded = Vec::new();
        if !self.damaged.contains(&index) {
            let (width, height) = (1 + index as u32 % 4, 1 + index as u32 % 3);
            let pixels = vec![index as u8; (width * height * 3) as usize];
            let mut encoder = image::codecs::bmp::BmpEncoder::new(&mut encoded);
            encoder.encode(&pixels, width, height, image::ExtendedColorType::Rgb8).expect("encoded");
        }
        Ok(Sample::encoded(encoded, self.label(index)))
    }

    fn name(&self, index: usize) -> String {
        format!("{index}.bmp")
    }

    fn label(&self, index: usize) -> u32 {
        index as u32 * 10
    }
}

fn loader(dataset: Numbered, config: LoaderConfig) -> Loader {
    Loader::new(Arc::new(dataset), config).expect("usable options")
}

fn in_order(batch_size: usize) -> LoaderConfig {
    LoaderConfig { batch_size, shuffle: false, workers: 2, ..LoaderConfig::default() }
}

fn shuffled(batch_size: usize) -> LoaderConfig {
    LoaderConfig { shuffle: true, ..in_order(batch_size) }
}

fn batches(epoch: EpochBatches) -> Vec<HostBatch> {
    epoch.map(|batch| batch.expect("a batch")).collect()
}

/// The samples of each batch.
fn samples(loader: &Loader) -> Vec<Vec<u64>> {
    batches(loader.epoch(0)).into_iter().map(|batch| batch.samples).collect()
}

#[test]
fn batches_are_the_same_for_any_number_of_workers() {
    let expected = batches(loader(Numbered::new(103), LoaderConfig { workers: 1, seed: 5, ..shuffled(8) }).epoch(3));
    for workers in [2, 5, 0] {
        let config = LoaderConfig { workers, seed: 5, ..shuffled(8) };
        assert_eq!(batches(loader(Numbered::new(103), config).epoch(3)), expected, "{workers} workers");
    }
}

#[test]
fn every_image_arrives_with_its_label_and_pixels() {
    for batch in batches(loader(Numbered::new(50), shuffled(7)).epoch(1)) {
        assert_eq!(batch.epoch, 1);
        for i in 0..batch.len() {
            let sample = batch.samples[i];
            assert_eq!(u64::from(batch.labels[i]), sample * 10);
            assert_eq!(
                (u64::from(batch.images[i].width), u64::from(batch.images[i].height)),
                (1 + sample % 4, 1 + sample % 3)
            );
            assert!(batch.image(i).iter().all(|&byte| u64::from(byte) == sample));
        }
    }
}

#[test]
fn the_order_changes_with_the_epoch_and_covers_every_sample() {
    let loader = loader(Numbered::new(40), shuffled(8));
    let flat = |epoch| batches(loader.epoch(epoch)).into_iter().flat_map(|batch| batch.samples).collect::<Vec<_>>();
    let (first, second) = (flat(0), flat(1));
    assert_ne!(first, second);
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 40);
    assert_eq!(flat(0), first);
}

#[test]
fn damaged_files_are_left_out_and_named_in_order() {
    let dataset = Numbered { unreadable: [4].into(), ..Numbered::damaged(9, [1, 6]) };
    let loader = loader(dataset, in_order(3));
    let mut epoch = loader.epoch(0);
    let delivered: Vec<_> = epoch.by_ref().map(|batch| batch.expect("a batch").samples).collect();
    assert_eq!(delivered, [vec![0, 2], vec![3, 5], vec![7, 8]]);
    let skipped = |name: &str, reason: &str| Skipped { name: name.into(), reason: reason.into() };
    let empty = "the file is empty";
    assert_eq!(epoch.skipped(), [skipped("1.bmp", empty), skipped("4.bmp", "on fire"), skipped("6.bmp", empty)]);
    let counters = epoch.counters();
    assert_eq!((counters.read.images, counters.decode.images, counters.skipped), (8, 6, 3));
}

#[test]
fn on_error_fail_ends_with_the_first_error_of_the_order() {
    let config = LoaderConfig { on_error: OnError::Fail, ..in_order(2) };
    let mut epoch = loader(Numbered::damaged(10, [3, 5]), config).epoch(0);
    assert!(epoch.next().expect("an answer").is_ok());
    let error = epoch.next().expect("an answer").expect_err("a damaged file");
    assert!(matches!(&error, DataError::Decode { name, sample: 3, .. } if name == "3.bmp"), "{error}");
    assert!(epoch.next().is_none());
}

#[test]
fn a_batch_of_nothing_but_damaged_files_is_passed_over() {
    assert_eq!(samples(&loader(Numbered::damaged(9, 3..6), in_order(3))), [vec![0, 1, 2], vec![6, 7, 8]]);
}

#[test]
fn an_epoch_of_nothing_but_damaged_files_is_an_error() {
    let mut epoch = loader(Numbered::damaged(5, 0..5), in_order(2)).epoch(0);
    let error = epoch.next().expect("an answer").expect_err("nothing left");
    assert_eq!(error.to_string(), "all 5 images of the epoch were skipped, the first: \"0.bmp\" (the file is empty)");
    assert!(epoch.next().is_none());
}

#[test]
fn a_last_batch_of_one_joins_the_batch_before() {
    let loader_of = |num_samples, config| loader(Numbered::new(num_samples), config);
    let sizes = |loader: &Loader| samples(loader).iter().map(Vec::len).collect::<Vec<_>>();
    let dropping = LoaderConfig { drop_last: true, ..in_order(4) };
    for (num_samples, config, expected) in [
        (9, in_order(4), vec![4, 5]),
        (10, in_order(4), vec![4, 4, 2]),
        (8, in_order(4), vec![4, 4]),
        (1, in_order(4), vec![1]),
        (3, in_order(1), vec![1, 1, 1]),
        (9, dropping.clone(), vec![4, 4]),
        (11, dropping.clone(), vec![4, 4]),
        (3, dropping, vec![3]),
    ] {
        let loader = loader_of(num_samples, config);
        assert_eq!(sizes(&loader), expected, "{num_samples} samples");
        assert_eq!(loader.num_batches(), expected.len());
        assert_eq!(loader.num_samples(), expected.iter().sum::<usize>());
    }
}

#[test]
fn an_image_left_alone_by_damaged_neighbours_does_not_train() {
    let dataset = || Numbered::damaged(6, [0, 1]);
    assert_eq!(samples(&loader(dataset(), in_order(3))), [vec![2], vec![3, 4, 5]]);
    // Find a seed that puts both damaged files into one batch.
    let alone = (0..100).find_map(|seed| {
        let loader = loader(dataset(), LoaderConfig { seed, ..shuffled(3) });
        let mut epoch = loader.epoch(0);
        let sizes: Vec<_> = epoch.by_ref().map(|batch| batch.expect("a batch").len()).collect();
        (sizes == [3]).then(|| epoch.skipped())
    });
    let skipped = alone.expect("a third of the seeds do");
    assert_eq!(skipped.len(), 3);
    assert!(skipped[2].reason.contains("BatchNorm"), "{skipped:?}");
}

#[test]
fn limit_batches_ends_the_epoch_and_reads_no_further() {
    let dataset = Arc::new(Numbered::new(100));
    let config = LoaderConfig { limit_batches: Some(2), ..in_order(5) };
    let loader = Loader::new(dataset.clone(), config).expect("usable options");
    assert_eq!((loader.num_batches(), loader.num_samples()), (2, 10));
    assert_eq!(samples(&loader), [vec![0, 1, 2, 3, 4], vec![5, 6, 7, 8, 9]]);
    assert_eq!(dataset.num_read.load(Ordering::Relaxed), 10);
}

#[test]
fn a_panic_in_a_data_set_is_an_error_not_a_hang() {
    let dataset = Numbered { panics_at: Some(4), ..Numbered::new(9) };
    let mut epoch = loader(dataset, in_order(3)).epoch(0);
    assert!(epoch.next().expect("an answer").is_ok());
    let error = epoch.next().expect("an answer").expect_err("a panic");
    assert!(matches!(&error, DataError::Worker { message, .. } if message.contains("this sample panics")), "{error}");
    assert!(epoch.next().is_none());
}

#[test]
fn dropping_an_epoch_midway_ends_its_threads() {
    let dataset = Arc::new(Numbered::new(100_000));
    let config = LoaderConfig { workers: 4, ..in_order(4) };
    let loader = Loader::new(dataset.clone(), config).expect("usable options");
    let mut epoch = loader.epoch(0);
    epoch.next().expect("an answer").expect("a batch");
    drop(epoch);
    // One of the test, one of the loader: the threads have let go of theirs.
    assert_eq!(Arc::strong_count(&dataset), 2);
    assert!(dataset.num_read.load(Ordering::Relaxed) < 100_000);
}

#[test]
fn waiting_pictures_stay_within_the_bound() {
    const WORKERS: usize = 3;
    let queue_bytes = 10 * LARGEST_BYTES;
    let config = LoaderConfig { queue_bytes, workers: WORKERS, ..in_order(16) };
    let mut epoch = loader(Numbered::new(1000), config).epoch(0);
    epoch.start();
    // Nobody takes anything until the queue is full.
    let queue = epoch.queue.clone();
    while queue.peak_bytes() < queue_bytes / 4 {
        thread::yield_now();
    }
    queue.set_effort(tuning::Effort { workers: WORKERS, read_ahead: queue_bytes });
    while queue.peak_bytes() < queue_bytes {
        thread::yield_now();
    }
    assert_eq!(batches(epoch).iter().map(HostBatch::len).sum::<usize>(), 1000);
    let most = queue_bytes + WORKERS * LARGEST_BYTES;
    assert!(queue.peak_bytes() <= most, "{} bytes waited, at most {most} may", queue.peak_bytes());
}

#[test]
fn a_picture_larger_than_the_bound_still_passes() {
    let config = LoaderConfig { queue_bytes: 1, workers: 5, ..in_order(8) };
    assert_eq!(samples(&loader(Numbered::new(20), config)).len(), 3);
}

#[test]
fn every_unusable_option_is_reported() {
    let config = LoaderConfig {
        batch_size: 0,
        limit_batches: Some(0),
        queue_bytes: 0,
        workers: 9999,
        ..LoaderConfig::default()
    };
    let error = Loader::new(Arc::new(Numbered::new(0)), config).err().expect("an error");
    assert_eq!(
        error.to_string(),
        "unusable loader options: batch_size is 0; limit_batches is 0; queue_bytes is 0; workers is 9999; \
         at most 1024 make sense; the data set has no images"
    );
}

/// What is left of an epoch, each batch with the step that follows it; stops at an error.
fn rest(mut epoch: EpochBatches) -> Vec<(usize, HostBatch)> {
    let mut found = Vec::new();
    while let Some(Ok(batch)) = epoch.next() {
        found.push((epoch.next_step(), batch));
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, rng_seed: RngSeed::Fixed(2026), ..ProptestConfig::with_cases(48)
    })]

    #[test]
    fn an_epoch_begun_at_any_step_gives_what_was_left_for_any_number_of_workers(
        num_samples in 1usize..60,
        batch_size in 1usize..9,
        (seed, epoch) in (any::<u64>(), 0u32..9),
        (shuffle, drop_last) in any::<(bool, bool)>(),
        limit_batches in proptest::option::of(1usize..6),
        (rank, world) in prop_oneof![Just((0, 1)), Just((0, 2)), Just((1, 3))],
        damaged in proptest::collection::hash_set(0usize..60, 0..12),
        cut in 0.0..=1.0,
    ) {
        let config = LoaderConfig {
            batch_size, workers: 1, shuffle, seed, shard: Shard { rank, world }, drop_last, limit_batches,
            ..LoaderConfig::default()
        };
        prop_assume!(num_samples >= world);
        let loader = |workers| {
            let dataset = Arc::new(Numbered::damaged(num_samples, damaged.clone()));
            (dataset.clone(), Loader::new(dataset, LoaderConfig { workers, ..config.clone() }).expect("usable options"))
        };
        let whole = rest(loader(1).1.epoch(epoch));
        let done = (cut * whole.len() as f64) as usize;
        let step = whole[..done].last().map_or(0, |(next_step, _)| *next_step);
        for workers in [1, 2, 8] {
            let (dataset, loader) = loader(workers);
            prop_assert_eq!(&rest(loader.epoch_from(epoch, step))[..], &whole[done..], "{} workers", workers);
            let left = loader.num_samples() - (step * batch_size).min(loader.num_samples());
            prop_assert!(dataset.num_read.load(Ordering::Relaxed) <= left, "reads what came before");
        }
    }
}

#[test]
fn an_epoch_begun_behind_its_end_is_empty() {
    let loader = loader(Numbered::new(9), in_order(4));
    assert_eq!(loader.num_batches(), 2);
    for step in [2, 3, usize::MAX] {
        let mut epoch = loader.epoch_from(0, step);
        assert!(epoch.next().is_none());
        assert_eq!(epoch.next_step(), 2);
    }
}

#[test]
fn an_epoch_that_goes_on_may_have_nothing_left() {
    let loader = loader(Numbered::damaged(6, 3..6), in_order(3));
    let mut epoch = loader.epoch_from(0, 1);
    assert!(epoch.next().is_none(), "the first batch was given before");
    assert_eq!(epoch.skipped().len(), 3);
}

#[test]
fn a_cache_saves_reading_and_changes_no_pixel() {
    let dataset = Arc::new(Numbered::damaged(40, [3]));
    let plain = loader(Numbered::damaged(40, [3]), shuffled(8));
    for (cache_bytes, kept) in [(1 << 20, 39..=39), (40 * 96, 10..=38)] {
        let before = dataset.num_read.load(Ordering::Relaxed);
        let config = LoaderConfig { cache_bytes, ..shuffled(8) };
        let cached = Loader::new(dataset.clone(), config).expect("usable options");
        for epoch in 0..3 {
            assert_eq!(batches(cached.epoch(epoch)), batches(plain.epoch(epoch)), "epoch {epoch}");
        }
        let read = dataset.num_read.load(Ordering::Relaxed) - before;
        let hits = (3 * 40 - read) / 2;
        assert!(kept.contains(&hits), "{hits} hits an epoch, {read} read");
        let mut epoch = cached.epoch(9);
        epoch.by_ref().for_each(drop);
        let counters = epoch.counters();
        assert_eq!(counters.cache.images as usize, hits);
        assert!((counters.hit_fraction() - hits as f64 / 40.0).abs() < 1e-12, "{counters:?}");
    }
}

#[test]
fn a_shorter_side_applies_to_pictures_in_the_cache_and_beside_it() {
    let config = |cache_bytes| LoaderConfig { cache_bytes, shorter_side: 1, ..in_order(6) };
    let plain = batches(loader(Numbered::new(12), config(0)).epoch(0));
    let shorter = |batch: &HostBatch| batch.images.iter().map(|slot| slot.width.min(slot.height)).max();
    assert!(plain.iter().all(|batch| shorter(batch) == Some(1)));
    let cached = loader(Numbered::new(12), config(700));
    (0..2).for_each(|_| assert_eq!(batches(cached.epoch(0)), plain));
}

#[test]
fn threads_may_come_and_go_while_they_work() {
    let loader = loader(Numbered::new(400), LoaderConfig { workers: 0, ..in_order(10) });
    let mut epoch = loader.epoch(0);
    epoch.start();
    let mut found = Vec::new();
    for workers in [1, 6, 2, 9, 1].into_iter().cycle().take(40) {
        let missing = epoch.queue.set_effort(tuning::Effort { workers, read_ahead: 1 + workers * LARGEST_BYTES });
        epoch.start_workers(missing);
        found.extend(epoch.next().expect("an answer").expect("a batch").samples);
    }
    assert!(found.into_iter().eq(0..400));
    assert!(epoch.next().is_none());
}

#[test]
fn a_million_samples_begin_as_fast_as_ten() {
    let loader = loader(Numbered::new(1_000_000), LoaderConfig { seed: 3, ..shuffled(32) });
    let start = std::time::Instant::now();
    for (epoch, step) in [(0, 0), (1, 20_000), (2, 31_249)] {
        let batch = loader.epoch_from(epoch, step).next().expect("an answer").expect("a batch");
        assert_eq!(batch.len(), 32);
    }
    assert!(start.elapsed().as_secs_f64() < 1.0, "{:?}", start.elapsed());
}
