use std::time::Instant;

use super::*;
use crate::{Loader, LoaderConfig};

/// Entries of the large sets; `KILN_INDEX_ENTRIES=1000000` measures what the data plane promises.
fn num_entries() -> usize {
    std::env::var("KILN_INDEX_ENTRIES").ok().and_then(|count| count.parse().ok()).unwrap_or(5_000)
}

/// Memory of this process now, in bytes; 0 where the system doesn't say.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).map_or(0, |pages| pages * 4096)
}

/// A BMP of 2x2 grey pixels.
fn picture() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = image::codecs::bmp::BmpEncoder::new(&mut bytes);
    encoder.encode(&[90; 12], 2, 2, image::ExtendedColorType::Rgb8).expect("encoded");
    bytes
}

/// Opens a set of so many entries and reads a first batch; checks time and memory for each entry.
fn measure(name: &str, path: &Path) {
    let num_entries = num_entries();
    let before = resident();
    let start = Instant::now();
    let splits = open(path, &OpenOptions::default()).expect("a data set");
    let opened = start.elapsed();
    let bytes = resident().saturating_sub(before);
    assert_eq!(splits.train.len() + splits.val.len(), num_entries);

    let start = Instant::now();
    let loader = Loader::new(splits.train, LoaderConfig { batch_size: 64, workers: 2, ..LoaderConfig::default() });
    let batch = loader.expect("a loader").epoch(0).next().expect("a batch").expect("pictures");
    assert_eq!(batch.len(), 64);
    let first_batch = start.elapsed();
    eprintln!(
        "{name}: {num_entries} entries open in {opened:?} with {} KiB, first batch in {first_batch:?}",
        bytes >> 10
    );
    // 5 s and 300 MB for a million, and room for the noise of other tests in a small run.
    assert!(opened.as_secs_f64() < 2.0 + 5e-6 * num_entries as f64, "{opened:?}");
    assert!(bytes < (64 << 20) + 240 * num_entries, "{bytes} bytes");
    assert!(first_batch.as_secs_f64() < 3.0, "{first_batch:?}");
}

#[test]
fn a_large_table_opens_fast_and_small() {
    let root = tempfile::tempdir().expect("a temporary folder");
    fs::write(root.path().join("0.bmp"), picture()).expect("a file");
    let row = |index: usize| format!("some/longer/folder/names/../../../../0.bmp,class {}\n", index % 1000);
    fs::create_dir_all(root.path().join("some/longer/folder/names")).expect("folders");
    let table: String = (0..num_entries()).map(row).collect();
    fs::write(root.path().join("labels.csv"), format!("image,label\n{table}")).expect("a file");
    drop(table);
    measure("table", root.path());
}

#[test]
fn a_large_folder_opens_fast_and_small() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let picture = picture();
    for index in 0..num_entries() {
        let folder = root.path().join(format!("set/train/class{:03}", index % 10));
        if index < 10 {
            fs::create_dir_all(&folder).expect("a folder");
        }
        let file = folder.join(format!("n01440764_{index:08}.JPEG"));
        fs::write(&file, &picture).expect("a file");
    }
    measure("folder", &root.path().join("set"));
}
