use std::fs;
use std::path::Path;

use image::ExtendedColorType;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::{ImageEncoder, Rgb};

use super::*;

/// A picture of its own for every `kind`.
fn picture(kind: u32, size: u32) -> image::RgbImage {
    image::RgbImage::from_fn(size, size, |x, y| {
        let (x, y) = (f64::from(x) / f64::from(size), f64::from(y) / f64::from(size));
        let wave =
            (x * f64::from(3 + kind) * 2.1 + y * f64::from(9 - kind)).sin() * (y * f64::from(2 + kind * kind)).cos();
        Rgb([(120.0 + 90.0 * wave) as u8, 90, 60])
    })
}

fn write(root: &Path, name: &str, bytes: &[u8]) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(path, bytes).expect("a file");
}

fn png(picture: &image::RgbImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    let encoder = PngEncoder::new(&mut bytes);
    encoder.write_image(picture, picture.width(), picture.height(), ExtendedColorType::Rgb8).expect("a PNG");
    bytes
}

fn jpeg(picture: &image::RgbImage, quality: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
    encoder.encode(picture, picture.width(), picture.height(), ExtendedColorType::Rgb8).expect("a JPEG");
    bytes
}

/// Two classes; one file is damaged, one in both sets, one there again at another quality, one under both labels.
fn data_set() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for (name, kind) in [("train/a/0.png", 0), ("train/a/1.png", 1), ("train/b/2.png", 2), ("val/a/3.png", 3)] {
        write(root.path(), name, &png(&picture(kind, 64)));
    }
    write(root.path(), "val/a/copy.png", &png(&picture(1, 64)));
    write(root.path(), "train/b/0.png", &png(&picture(0, 64)));
    write(root.path(), "val/b/like2.jpg", &jpeg(&picture(2, 90), 80));
    write(root.path(), "train/a/cut.png", &png(&picture(4, 64))[..300]);
    write(root.path(), "train/b/white.png", &png(&image::RgbImage::from_pixel(100, 20, Rgb([255; 3]))));
    root
}

fn inspected(deep: bool) -> Inspection {
    let root = data_set();
    inspect(root.path(), &InspectConfig { deep, ..InspectConfig::default() }).expect("an inspection")
}

#[test]
fn readable_pictures_are_counted_and_the_others_named() {
    let found = inspected(false);
    let class = |name: &str, train, val| ClassCount { name: name.into(), images: train + val, train, val };
    assert_eq!((found.format, found.readable, found.train, found.val), ("ImageFolder", 8, 5, 3));
    assert_eq!(found.classes, [class("a", 2, 2), class("b", 3, 1)]);
    assert_eq!(found.skipped.len(), 1);
    assert_eq!(found.skipped[0].path, "train/a/cut.png");
    assert!(found.skipped[0].reason.contains("truncated"), "{:?}", found.skipped);
    assert_eq!(found.deep, None);
}

#[test]
fn copies_are_found_to_the_bit_and_by_their_looks() {
    let deep = inspected(true).deep.expect("a deep one");
    let group = |paths: [&str; 2], across, labels_differ| DuplicateGroup {
        paths: paths.map(String::from).to_vec(),
        across,
        labels_differ,
    };
    assert_eq!(
        deep.duplicates,
        [
            group(["train/a/0.png", "train/b/0.png"], false, true),
            group(["train/a/1.png", "val/a/copy.png"], true, false)
        ]
    );
    let near: Vec<_> = deep.near_duplicates.iter().map(|pair| (&pair.paths, pair.across, pair.labels_differ)).collect();
    assert_eq!(near, [(&["train/b/2.png", "val/b/like2.jpg"].map(String::from), true, false)]);
}

#[test]
fn sizes_balance_and_odd_pictures_are_told() {
    let deep = inspected(true).deep.expect("a deep one");
    assert_eq!(deep.imbalance, Some(1.5));
    assert_eq!((deep.sizes.smallest, deep.sizes.largest, deep.sizes.median_side), ([100, 20], [90, 90], 64));
    let histogram: Vec<_> = deep.sizes.histogram.iter().map(|range| (range.from, range.to, range.images)).collect();
    assert_eq!(histogram, [(1, Some(31), 1), (64, Some(127), 7)]);
    assert_eq!(deep.odd.len(), 1);
    assert_eq!(
        (deep.odd[0].path.as_str(), deep.odd[0].reason.contains("as long as wide")),
        ("train/b/white.png", true)
    );
}

#[test]
fn mean_and_deviation_are_those_of_the_training_pixels() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let two = |first: [u8; 3], second: [u8; 3]| {
        png(&image::RgbImage::from_fn(20, 20, |x, _| Rgb(if x < 10 { first } else { second })))
    };
    write(root.path(), "train/a/1.png", &two([0, 51, 102], [255, 51, 204]));
    write(root.path(), "train/b/1.png", &two([0, 51, 102], [255, 51, 204]));
    write(root.path(), "val/a/1.png", &two([9; 3], [9; 3]));
    let deep = inspect(root.path(), &InspectConfig { deep: true, ..InspectConfig::default() }).expect("one").deep;
    let deep = deep.expect("a deep one");
    for (found, expected) in deep.mean.iter().chain(&deep.std).zip([0.5, 0.2, 0.6, 0.5, 0.0, 0.2]) {
        assert!((found - expected).abs() < 1e-6, "{:?} {:?}", deep.mean, deep.std);
    }
}

#[test]
fn a_page_shows_every_class_and_the_copies() {
    let root = data_set();
    let config = InspectConfig { deep: true, ..InspectConfig::default() };
    let found = inspect(root.path(), &config).expect("an inspection");
    let page = inspection_page(root.path(), &config, &found).expect("a page");
    let plain = InspectConfig::default();
    let shallow = inspect(root.path(), &plain).expect("an inspection");
    let short = inspection_page(root.path(), &plain, &shallow).expect("a page");
    // Two classes; then two groups of copies and a pair that looks alike.
    assert_eq!(page.picture.height - short.picture.height, 3 * 104);
    assert!(page.picture.pixels != short.picture.pixels);
}

#[test]
fn the_same_data_set_gives_the_same_json() {
    let [first, second] = [inspected(true), inspected(true)].map(|found| serde_json::to_string(&found).expect("JSON"));
    assert_eq!(first, second);
    let json: serde_json::Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(json["skipped"][0]["path"], "train/a/cut.png");
    assert_eq!(json["classes"][1]["images"], 4);
}
