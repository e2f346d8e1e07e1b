//! The host's share of training: JPEGs to bytes in a batch, and to a normalised batch where the CPU augments too.
//!
//! ```text
//! KILN_BENCH_PHOTOS=FOLDER RAYON_NUM_THREADS=1 cargo bench --bench host
//! KILN_BENCH_LARGE_PHOTOS=FOLDER cargo bench --bench host -- scale     # decoding large JPEGs at a scale
//! ```
//!
//! A folder is searched for `.jpg` at any depth, of which the first 256 are read into memory; without one, 256 drawings of
//! 500×500 pixels are made. Times are of the processor, in one thread, so that they can be compared on a machine that
//! isn't idle. One element is one image; `RandomResizedCrop` to 224, flip and normalise are drawn anew for every one.

mod processor_time;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::measurement::Measurement;
use criterion::{Criterion, Throughput};
use kiln_data::{Augment, DecodeOptions, HostBatch, Window, augment, batch_to_device, rgb_from_bytes, view_from_bytes};
use processor_time::ProcessorTime;

const NUM_PHOTOS: usize = 256;
const BATCH_SIZE: usize = 32;
const OUTPUT_SIDE: usize = 224;
const SEED: u64 = 42;

fn benchmark<M: Measurement<Value = Duration>>(criterion: &mut Criterion<M>) {
    let photos = photos("KILN_BENCH_PHOTOS").unwrap_or_else(drawings);
    let options = Augment::train(OUTPUT_SIDE);
    let device = kiln_device::cpu();
    let mut group = criterion.benchmark_group("host");
    group.throughput(Throughput::Elements(BATCH_SIZE as u64));
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    let mut batches = photos.chunks(BATCH_SIZE).filter(|chunk| chunk.len() == BATCH_SIZE).cycle();
    let mut epoch = 0;
    let mut next = || {
        epoch += 1;
        (batches.next().expect("at least 32 photographs"), epoch)
    };
    group.bench_function("decode whole", |bencher| {
        bencher.iter(|| {
            for photo in next().0 {
                black_box(rgb_from_bytes(photo, &DecodeOptions::default()).expect("a JPEG"));
            }
        });
    });
    group.bench_function("device augments", |bencher| {
        bencher.iter(|| {
            let (photos, epoch) = next();
            black_box(host_batch(photos, epoch, &options));
        });
    });
    group.bench_function("everything", |bencher| {
        bencher.iter(|| {
            let (photos, epoch) = next();
            let batch = batch_to_device(host_batch(photos, epoch, &options), &options, SEED, &device);
            black_box(augment(batch, &options));
            device.sync().expect("a device that works");
        });
    });
    group.finish();
    scales(criterion);
}

/// What the loader's workers do: decode what the draw will look at, into one buffer.
fn host_batch(photos: &[Vec<u8>], epoch: u32, options: &Augment) -> HostBatch {
    let mut batch = HostBatch::new(epoch);
    for (sample, photo) in (0..).zip(photos) {
        let window = |width, height| options.draw(SEED, epoch, sample, width, height).window();
        let (image, view) = view_from_bytes(photo, &DecodeOptions::default(), window).expect("a JPEG");
        batch.push_view(&image, view, 0, sample, sample);
    }
    batch
}

/// Large photographs whole and at every scale.
fn scales<M: Measurement<Value = Duration>>(criterion: &mut Criterion<M>) {
    let Some(photos) = photos("KILN_BENCH_LARGE_PHOTOS") else { return };
    let mut group = criterion.benchmark_group("scale");
    group.throughput(Throughput::Elements(photos.len() as u64));
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    for scale in [1, 2, 4, 8] {
        group.bench_function(format!("1/{scale}"), |bencher| {
            bencher.iter(|| {
                for photo in &photos {
                    let window = |width, height| Window { scale, ..Window::whole(width, height) };
                    black_box(view_from_bytes(photo, &DecodeOptions::default(), window).expect("a JPEG"));
                }
            });
        });
    }
    group.finish();
}

/// The photographs of the folder that a variable names.
fn photos(variable: &str) -> Option<Vec<Vec<u8>>> {
    let folder = std::env::var_os(variable).filter(|value| !value.is_empty())?;
    let mut paths = Vec::new();
    find(Path::new(&folder), &mut paths);
    paths.sort();
    let read = |path: &PathBuf| std::fs::read(path).expect("a photograph");
    Some(paths.iter().take(NUM_PHOTOS).map(read).collect())
}

fn find(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of photographs") {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            find(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "jpg") {
            paths.push(path);
        }
    }
}

/// Kiln's own drawings, kept in the user's cache folder.
fn drawings() -> Vec<Vec<u8>> {
    let config = kiln_data::scenes::ScenesConfig { train_images: NUM_PHOTOS, val_images: 10, size: 500, seed: 1 };
    let train = kiln_data::scenes::open_or_create(None, &config).expect("drawings").train;
    (0..train.len()).map(|index| train.sample(index).expect("a drawing").content.bytes().to_vec()).collect()
}

fn main() {
    let mut criterion = Criterion::default().with_measurement(ProcessorTime).configure_from_args();
    benchmark(&mut criterion);
    criterion.final_summary();
}
