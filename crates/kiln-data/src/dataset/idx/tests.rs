use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;
use crate::dataset::{Content, open as open_dataset};

/// A file of IDX: sizes, then `content`.
fn idx(sizes: &[u32], content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, sizes.len() as u8];
    sizes.iter().for_each(|size| bytes.extend(size.to_be_bytes()));
    [bytes, content.to_vec()].concat()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("a gzip file")
}

/// Three training images of 2x3 pixels and two to validate by, of the labels 4 and 7.
fn files() -> [(&'static str, Vec<u8>); 4] {
    [
        ("train-images-idx3-ubyte", idx(&[3, 2, 3], &(0..18).collect::<Vec<u8>>())),
        ("train-labels-idx1-ubyte", idx(&[3], &[7, 4, 7])),
        ("t10k-images-idx3-ubyte", idx(&[2, 2, 3], &[9; 12])),
        ("t10k-labels-idx1-ubyte", idx(&[2], &[4, 4])),
    ]
}

fn folder(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files {
        fs::write(root.path().join(name), bytes).expect("a file");
    }
    root
}

fn refused(files: &[(&str, Vec<u8>)]) -> String {
    let root = folder(files);
    open_dataset(root.path(), &OpenOptions::default()).err().expect("an error").to_string()
}

#[test]
fn grey_bytes_become_pixels_under_the_labels_that_occur() {
    let root = folder(&files());
    let opened = crate::open_with_findings(root.path(), &OpenOptions::default()).expect("a data set");
    let Splits { train, val } = opened.splits;
    assert_eq!(opened.format, "IDX");
    assert_eq!((train.len(), val.len()), (3, 2));
    assert_eq!(train.classes(), ["4", "7"]);
    assert_eq!([train.label(0), train.label(1), val.label(0)], [1, 0, 0]);
    assert_eq!(train.name(2), "train-images-idx3-ubyte[2]");
    let Content::Rgb(image) = train.sample(1).expect("a sample").content else { panic!("pixels are kept") };
    assert_eq!((image.width, image.height), (3, 2));
    assert_eq!(image.pixels, [6, 6, 6, 7, 7, 7, 8, 8, 8, 9, 9, 9, 10, 10, 10, 11, 11, 11]);
}

#[test]
fn gzipped_files_in_a_folder_called_raw_are_the_same() {
    let plain = folder(&files());
    let root = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(root.path().join("raw")).expect("a folder");
    for (name, bytes) in files() {
        fs::write(root.path().join("raw").join(format!("{name}.gz")), gzipped(&bytes)).expect("a file");
    }
    let [plain, zipped] =
        [plain.path(), root.path()].map(|path| open_dataset(path, &OpenOptions::default()).expect("a data set"));
    assert_eq!(zipped.train.sample(2).expect("a sample"), plain.train.sample(2).expect("a sample"));
    assert_eq!(zipped.train.name(0), "raw/train-images-idx3-ubyte.gz[0]");
}

#[test]
fn a_list_of_names_beside_the_files_is_used() {
    let names = "a\nb\nc\nd\ncoat\nf\ng\nbag\n".into();
    let root = folder(&[&files()[..], &[("classes.txt", names)]].concat());
    let splits = open_dataset(root.path(), &OpenOptions::default()).expect("a data set");
    assert_eq!(splits.train.classes(), ["coat", "bag"]);
}

#[test]
fn without_test_files_a_share_is_set_aside() {
    let [images, labels, ..] = files();
    let root = folder(&[images, labels]);
    let splits = open_dataset(root.path(), &OpenOptions::default()).expect("a data set");
    assert_eq!((splits.train.len(), splits.val.len()), (2, 1));
}

#[test]
fn files_that_contradict_themselves_are_named_with_the_remedy() {
    let [images, labels, val_images, val_labels] = files();
    let with = |images: Vec<u8>| {
        refused(&[("train-images-idx3-ubyte", images), labels.clone(), val_images.clone(), val_labels.clone()])
    };
    let huge = idx(&[u32::MAX, u32::MAX, u32::MAX], &[1; 18]);
    for (bytes, expected) in [
        (images.1[..30].to_vec(), "truncated: 14 bytes where it declares 3x2x3"),
        (images.1[..33].to_vec(), "truncated: 17 bytes where it declares 3x2x3"),
        (huge.clone(), "declares 4294967295x4294967295x4294967295 bytes and has 34"),
        (gzipped(&huge), "declares 4294967295x4294967295x4294967295 bytes"),
        (gzipped(&images.1[..30]), "truncated: 14 bytes"),
        (idx(&[0, 2, 3], &[]), "which is nothing"),
        (idx(&[3, 2, 3], &[0; 19]), "longer than the 3x2x3"),
        (idx(&[18], &[0; 18]), "begins with the bytes"),
        (vec![0, 0, 8], "shorter than its header"),
        (gzipped(&images.1)[..20].to_vec(), "; fetch it again"),
    ] {
        let message = with(bytes);
        assert!(message.contains(expected) && message.contains("train-images-idx3-ubyte"), "{expected}: {message}");
    }
    let message = refused(&[images.clone(), ("train-labels-idx1-ubyte", idx(&[2], &[1, 2]))]);
    assert!(message.contains("2 labels for 3 images"), "{message}");
    assert!(refused(std::slice::from_ref(&images)).contains("aren't beside it"));
    let others = ("t10k-labels-idx1-ubyte", idx(&[2], &[4, 5]));
    assert!(refused(&[images, labels, val_images, others]).contains("images of label 5"));
}

/// Damages per test; `KILN_FUZZ_ROUNDS` asks for more.
fn rounds() -> u32 {
    std::env::var("KILN_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: rounds(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_read_or_refused(
        which in 0usize..2,
        zipped: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        kept in any::<prop::sample::Index>(),
    ) {
        let mut files = files().map(|(name, bytes)| (name, if zipped { gzipped(&bytes) } else { bytes }));
        let bytes = &mut files[which].1;
        changes.iter().for_each(|(at, value)| { let at = at.index(bytes.len()); bytes[at] = *value; });
        if kept.index(4) == 0 {
            bytes.truncate(kept.index(bytes.len()));
        }
        let root = folder(&files);
        if let Ok(splits) = open_dataset(root.path(), &OpenOptions::default()) {
            for index in 0..splits.train.len() {
                prop_assert!(splits.train.sample(index).is_ok());
            }
        }
    }
}

/// Where Debian's package puts it.
const FASHION_FOLDER: &str = "/usr/share/datasets/fashion-mnist";

#[test]
fn fashion_mnist_has_its_published_size_and_names() {
    let path = Path::new(FASHION_FOLDER);
    if !path.is_dir() {
        let required = std::env::var_os("KILN_REQUIRE_FASHION_MNIST").is_some();
        assert!(!required, "KILN_REQUIRE_FASHION_MNIST is set and {FASHION_FOLDER} isn't there");
        eprintln!("skipped: {FASHION_FOLDER} isn't there; apt-get install dataset-fashion-mnist");
        return;
    }
    let splits = open_dataset(path, &OpenOptions::default()).expect("Fashion-MNIST");
    assert_eq!((splits.train.len(), splits.val.len()), (60_000, 10_000));
    assert_eq!(splits.train.classes(), FASHION);
    assert_eq!(FASHION[splits.train.label(0) as usize], "Ankle boot");
    let mut counts = [0; 10];
    (0..splits.val.len()).for_each(|index| counts[splits.val.label(index) as usize] += 1);
    assert_eq!(counts, [1000; 10]);
    let Content::Rgb(image) = splits.val.sample(9999).expect("a sample").content else { panic!("pixels are kept") };
    assert_eq!((image.width, image.height), (28, 28));
}
