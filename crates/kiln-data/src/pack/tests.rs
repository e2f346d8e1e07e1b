use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};
use jpeg_encoder::{ColorType, Encoder};
use tempfile::TempDir;

use super::*;
use crate::dataset::{Findings, MemoryDataset, OpenOptions, Sample, Splits, open, open_with_findings};
use crate::decode::{RgbImage, rgb_from_bytes};

/// A picture of noise, another one for each number.
fn noise(width: u32, height: u32, number: usize) -> RgbImage {
    let byte = |index: u32| (index.wrapping_mul(2_654_435_761).wrapping_add(number as u32 * 97) >> 24) as u8;
    RgbImage { width, height, pixels: (0..width * height * 3).map(byte).collect() }
}

fn jpeg(image: &RgbImage, exif: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 80);
    if !exif.is_empty() {
        encoder.add_exif_metadata(exif).expect("short");
    }
    encoder.encode(&image.pixels, image.width as u16, image.height as u16, ColorType::Rgb).expect("encoded");
    bytes
}

fn png(image: &RgbImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    let encoder = PngEncoder::new(&mut bytes);
    encoder.write_image(&image.pixels, image.width, image.height, ExtendedColorType::Rgb8).expect("encoded");
    bytes
}

fn opened(train: Vec<Sample>, val: Vec<Sample>) -> Opened {
    let classes = vec!["cat".to_owned(), "a dog".into(), "emu".into()];
    let set = |samples| Arc::new(MemoryDataset::new(classes.clone(), samples).expect("a data set"));
    Opened { format: "memory", splits: Splits { train: set(train), val: set(val) }, findings: Findings::default() }
}

/// Small JPEGs, all to be kept: what is packed are the bytes of the source.
fn small_jpegs(num_train: usize) -> Opened {
    let sample = |number: usize| Sample::encoded(jpeg(&noise(24, 16, number), &[]), number as u32 % 3);
    opened((0..num_train).map(sample).collect(), (100..105).map(sample).collect())
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn packed(opened: &Opened, folder: &Path, config: &PackConfig) -> PackReport {
    pack(opened, folder, config, &mut |_| ()).expect("packed")
}

/// All files in a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("listed").map(|entry| entry.expect("an entry").path());
    entries.map(|path| (path.file_name().expect("a name").into(), fs::read(&path).expect("read"))).collect()
}

fn small_shards() -> PackConfig {
    PackConfig { shard_bytes: 20_000, seed: 5, ..PackConfig::default() }
}

#[test]
fn what_is_packed_is_read_back_with_the_same_classes_and_labels_in_the_order_of_the_seed() {
    let (source, folder) = (small_jpegs(20), folder());
    let report = packed(&source, folder.path(), &small_shards());
    assert!(report.train.len() > 1, "several shards");
    let Opened { format, splits, findings } =
        open_with_findings(folder.path(), &OpenOptions::default()).expect("opened");
    assert_eq!((format, findings), ("WebDataset", Findings::default()));
    assert_eq!(splits.train.classes(), source.splits.train.classes());
    for (split, read, from) in
        [(Split::Train, &splits.train, &source.splits.train), (Split::Val, &splits.val, &source.splits.val)]
    {
        assert_eq!(read.len(), from.len());
        let order = split.order(from.len(), 5);
        for index in 0..read.len() {
            assert_eq!(read.sample(index).expect("read"), from.sample(order.sample(index)).expect("read"));
        }
    }
    let other = PackConfig { seed: 6, ..small_shards() };
    let elsewhere = self::folder();
    packed(&source, elsewhere.path(), &other);
    let reordered = open(elsewhere.path(), &OpenOptions::default()).expect("opened");
    assert_ne!(reordered.train.sample(0).expect("read"), splits.train.sample(0).expect("read"));
}

#[test]
fn small_jpegs_keep_their_bytes_and_all_else_is_encoded_the_right_way_up() {
    // Orientation 6, big endian: turned by a quarter when it's looked at.
    let exif = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let plain = |width, height| RgbImage { width, height, pixels: [200, 60, 90].repeat((width * height) as usize) };
    let (turned, large) = (jpeg(&plain(60, 40), exif), jpeg(&plain(80, 120), exif));
    let train = vec![
        Sample::encoded(turned.clone(), 0),
        Sample::encoded(large, 1),
        Sample::encoded(png(&plain(30, 20)), 2),
        Sample { content: crate::Content::Rgb(plain(100, 50)), label: 0 },
    ];
    let (source, folder) = (opened(train, vec![Sample::encoded(turned.clone(), 0)]), folder());
    let report = packed(&source, folder.path(), &PackConfig { short_side: 40, ..PackConfig::default() });
    let shard = &report.train[0];
    assert_eq!((shard.kept, shard.encoded, shard.skipped.len(), report.train.len()), (1, 3, 0, 1));

    let train = open(folder.path(), &OpenOptions::default()).expect("opened").train;
    let order = Split::Train.order(4, 0);
    for index in 0..4 {
        let content = train.sample(index).expect("read").content;
        let sample = order.sample(index);
        if sample == 0 {
            assert_eq!(content.bytes(), turned);
        }
        let image = rgb_from_bytes(content.bytes(), &DecodeOptions::default()).expect("a JPEG");
        let expected = [(40, 60), (60, 40), (30, 20), (80, 40)][sample];
        assert_eq!((image.width, image.height), expected, "sample {sample}");
        let far =
            image.pixels.chunks(3).flat_map(|rgb| rgb.iter().zip([200u8, 60, 90])).map(|(a, b)| a.abs_diff(b)).max();
        assert!(far <= Some(4), "sample {sample} is {far:?} away from its colour");
    }
}

#[test]
fn raw_pixels_come_back_as_they_were() {
    let train = vec![Sample::encoded(png(&noise(20, 10, 1)), 0), Sample::encoded(png(&noise(9, 31, 2)), 1)];
    let (source, folder) = (opened(train.clone(), train), folder());
    packed(&source, folder.path(), &PackConfig { form: PackForm::Raw, ..PackConfig::default() });
    let train = open(folder.path(), &OpenOptions::default()).expect("opened").train;
    let order = Split::Train.order(2, 0);
    for index in 0..2 {
        let expected = [noise(20, 10, 1), noise(9, 31, 2)][order.sample(index)].clone();
        assert_eq!(train.sample(index).expect("read").content, crate::Content::Rgb(expected));
    }
}

#[test]
fn damaged_pictures_are_left_out_with_the_reason_or_end_the_packing() {
    let good = |number| Sample::encoded(jpeg(&noise(24, 16, number), &[]), number as u32 % 3);
    let mut cut = good(7);
    cut.content = crate::Content::Encoded(cut.content.bytes()[..400].to_vec());
    let long = Sample { content: crate::Content::Rgb(noise(70_000, 1, 1)), label: 0 };
    let source = opened(vec![good(0), cut, good(1), Sample::encoded(b"<html>".to_vec(), 1), long], vec![good(2)]);
    let folder = folder();
    let report = packed(&source, folder.path(), &PackConfig::default());
    let mut skipped: Vec<_> = report.train[0].skipped.iter().map(|s| (s.name.as_str(), s.reason.as_str())).collect();
    skipped.sort_unstable();
    assert_eq!(skipped.len(), 3);
    assert!(skipped[0].0 == "sample 1" && skipped[0].1.contains("truncated JPEG"), "{skipped:?}");
    assert!(skipped[1].0 == "sample 3" && skipped[1].1.contains("web page"), "{skipped:?}");
    assert!(skipped[2].0 == "sample 4" && skipped[2].1.contains("65,535"), "{skipped:?}");
    assert_eq!(open(folder.path(), &OpenOptions::default()).expect("opened").train.len(), 2);

    let strict = PackConfig { on_error: OnError::Fail, ..PackConfig::default() };
    let elsewhere = self::folder();
    let error = pack(&source, elsewhere.path(), &strict, &mut |_| ()).expect_err("the first damaged one");
    assert!(error.is_about_one_file(), "{error}");

    let nothing = opened(vec![Sample::encoded(Vec::new(), 0)], vec![good(2)]);
    let elsewhere = self::folder();
    let error = pack(&nothing, elsewhere.path(), &PackConfig::default(), &mut |_| ()).expect_err("nothing usable");
    assert!(matches!(error, DataError::NothingLeft { num_skipped: 1, .. }), "{error}");
    assert!(!files(elsewhere.path()).keys().any(|name| name.to_string_lossy().contains("tar")));
}

/// A data set whose disk is pulled out at one sample.
struct Interrupted {
    whole: Arc<dyn Dataset>,
    at: usize,
}

impl Dataset for Interrupted {
    fn len(&self) -> usize {
        self.whole.len()
    }
    fn classes(&self) -> &[String] {
        self.whole.classes()
    }
    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        match index == self.at {
            true => Err(DataError::Worker { thread: "test", message: "interrupted".into() }),
            false => self.whole.sample(index),
        }
    }
    fn name(&self, index: usize) -> String {
        self.whole.name(index)
    }
    fn label(&self, index: usize) -> u32 {
        self.whole.label(index)
    }
}

#[test]
fn an_interrupted_packing_goes_on_and_ends_with_the_same_bytes() {
    let (source, whole) = (small_jpegs(20), folder());
    let report = packed(&source, whole.path(), &small_shards());
    let mut resumed_later = 0;
    for (in_val, at) in (0..20).map(|at| (false, at)).chain((0..5).map(|at| (true, at))) {
        let mut interrupted = source.clone();
        let split = if in_val { &mut interrupted.splits.val } else { &mut interrupted.splits.train };
        *split = Arc::new(Interrupted { whole: split.clone(), at });
        let folder = folder();
        pack(&interrupted, folder.path(), &small_shards(), &mut |_| ()).expect_err("interrupted");
        let half = open(folder.path(), &OpenOptions::default()).err().expect("not whole").to_string();
        assert!(half.contains("run the same kiln pack command again"), "{half}");

        let mut first = None;
        let again = pack(&source, folder.path(), &small_shards(), &mut |progress| {
            first.get_or_insert(progress);
        });
        assert_eq!(again.expect("packed"), report);
        resumed_later += usize::from(first.is_some_and(|progress: PackProgress| progress.resumed > 0));
        assert!(files(folder.path()) == files(whole.path()), "interrupted at {at}");
    }
    assert!(resumed_later > 10, "only {resumed_later} of 25 went on, the others began anew");
}

#[test]
fn a_finished_packing_is_left_alone_and_a_lost_shard_is_made_again() {
    let (source, folder) = (small_jpegs(20), folder());
    let report = packed(&source, folder.path(), &small_shards());
    let before = files(folder.path());
    let mut calls = 0;
    pack(&source, folder.path(), &small_shards(), &mut |_| calls += 1).expect("nothing to do");
    assert_eq!(calls, 0);
    assert!(files(folder.path()) == before, "not a file more");
    fs::remove_file(folder.path().join(&report.train[1].name)).expect("removed");
    assert_eq!(packed(&source, folder.path(), &small_shards()), report);
    assert!(files(folder.path()) == before);
}

#[test]
fn a_folder_with_anything_else_in_it_is_refused() {
    let (source, folder) = (small_jpegs(6), folder());
    let error = |source: &Opened, config: &PackConfig, path: &Path| {
        pack(source, path, config, &mut |_| ()).expect_err("refused").to_string()
    };
    packed(&source, folder.path(), &small_shards());
    let other = PackConfig { short_side: 10, ..small_shards() };
    assert!(error(&source, &other, folder.path()).contains("made with other options"));
    assert!(error(&small_jpegs(7), &small_shards(), folder.path()).contains("made of other data"));

    let photos = self::folder();
    fs::write(photos.path().join("holiday.jpg"), b"x").expect("written");
    assert!(error(&source, &small_shards(), photos.path()).contains("\"holiday.jpg\""));
    let file = photos.path().join("holiday.jpg");
    assert!(error(&source, &small_shards(), &file).contains("cannot pack into"));

    let claimed = self::folder();
    let _claim = Folder::claim(claimed.path()).expect("empty");
    assert!(error(&source, &small_shards(), claimed.path()).contains("another kiln pack"));

    fs::write(folder.path().join("pack.json"), b"{}").expect("written");
    assert!(error(&source, &small_shards(), folder.path()).contains("no report of kiln pack"));
    let nonsense =
        PackConfig { short_side: 0, shard_bytes: 0, form: PackForm::Jpeg { quality: 101 }, ..small_shards() };
    let all = error(&source, &nonsense, claimed.path());
    assert!(["short_side", "shard_bytes", "quality is 101"].iter().all(|part| all.contains(part)), "{all}");
}
