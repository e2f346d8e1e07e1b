use proptest::prelude::*;

use super::*;
use crate::dataset::{Content, open as open_dataset};

/// A record: labels, then three planes of one value each.
fn record(labels: &[u8], [red, green, blue]: [u8; 3]) -> Vec<u8> {
    [labels.to_vec(), vec![red; 1024], vec![green; 1024], vec![blue; 1024]].concat()
}

fn folder(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, bytes).expect("a file");
    }
    root
}

/// Three training images of classes 8 and 3 in two files, one to validate by.
fn ten() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("data_batch_1.bin", [record(&[8], [1, 2, 3]), record(&[3], [4, 5, 6])].concat()),
        ("data_batch_2.bin", record(&[8], [7, 8, 9])),
        ("test_batch.bin", record(&[3], [10, 11, 12])),
    ]
}

fn refused(files: &[(&str, Vec<u8>)]) -> String {
    let root = folder(files);
    open_dataset(root.path(), &OpenOptions::default()).err().expect("an error").to_string()
}

fn first_pixel(dataset: &dyn Dataset, index: usize) -> [u8; 3] {
    let Content::Rgb(image) = dataset.sample(index).expect("a sample").content else { panic!("pixels are kept") };
    assert_eq!((image.width, image.height, image.pixels.len()), (32, 32, 3072));
    image.pixels.first_chunk().copied().expect("a pixel")
}

#[test]
fn planes_become_pixels_and_files_follow_each_other() {
    let root = folder(&ten());
    let opened = crate::open_with_findings(root.path(), &OpenOptions::default()).expect("a data set");
    let Splits { train, val } = opened.splits;
    assert_eq!(opened.format, "CIFAR-10");
    assert_eq!(train.classes(), ["cat", "ship"]);
    assert_eq!((0..3).map(|index| train.label(index)).collect::<Vec<_>>(), [1, 0, 1]);
    assert_eq!(
        [first_pixel(&*train, 1), first_pixel(&*train, 2), first_pixel(&*val, 0)],
        [[4, 5, 6], [7, 8, 9], [10, 11, 12]]
    );
    assert_eq!(train.name(2), "data_batch_2.bin[0]");
}

#[test]
fn a_hundred_classes_go_by_their_fine_names() {
    let names = (0..100).map(|number| format!("fine{number}\n")).collect::<String>();
    let root = folder(&[
        ("cifar-100-binary/fine_label_names.txt", names.into()),
        ("cifar-100-binary/train.bin", [record(&[1, 99], [0; 3]), record(&[1, 20], [5; 3])].concat()),
        ("cifar-100-binary/test.bin", record(&[2, 20], [6; 3])),
    ]);
    let opened = crate::open_with_findings(root.path(), &OpenOptions::default()).expect("a data set");
    assert_eq!(opened.format, "CIFAR-100");
    assert_eq!(opened.splits.train.classes(), ["fine20", "fine99"]);
    assert_eq!(first_pixel(&*opened.splits.train, 1), [5; 3]);
}

#[test]
fn wrong_lengths_labels_and_pickles_are_named() {
    let with = |first: Vec<u8>| refused(&[&[("data_batch_1.bin", first)], &ten()[1..]].concat());
    let cut = record(&[8], [1; 3])[..3000].to_vec();
    let message = with(cut);
    assert!(message.contains("data_batch_1.bin") && message.contains("3000 bytes aren't a whole number"), "{message}");
    assert!(with(Vec::new()).contains("0 bytes aren't"));
    assert!(with(record(&[10], [1; 3])).contains("record 0 has the label 10; there are 10 classes"));
    let pickle = refused(&[("data_batch_1", vec![0x80]), ("batches.meta", vec![0x80])]);
    assert!(pickle.contains("a pickle") && pickle.contains("fetch the binary version"), "{pickle}");
}

/// Damages per test; `KILN_FUZZ_ROUNDS` asks for more.
fn rounds() -> u32 {
    std::env::var("KILN_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(100)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: rounds(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_read_or_refused(which in 0usize..3, at: prop::sample::Index, value: u8, length in 0usize..7000) {
        let mut files = ten();
        let bytes = &mut files[which].1;
        // Half of the damages hit a label.
        let at = if value % 2 == 0 { at.index(bytes.len()) } else { 0 };
        bytes[at] = value;
        bytes.resize(if length < 3500 { bytes.len() } else { length }, value);
        let root = folder(&files);
        if let Ok(splits) = open_dataset(root.path(), &OpenOptions::default()) {
            for index in 0..splits.train.len() {
                prop_assert!(splits.train.sample(index).is_ok());
            }
        }
    }
}
