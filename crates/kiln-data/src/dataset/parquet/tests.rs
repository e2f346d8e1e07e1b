use proptest::prelude::*;

use super::*;
use crate::dataset::open as open_dataset;

/// Files that `tools/parquet/make_fixtures.py` made.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parquet")
}

/// A folder with some of the fixtures.
fn folder(names: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for name in names {
        fs::copy(fixtures().join(name), root.path().join(name)).expect("a copy");
    }
    root
}

/// The picture that the script put into a row.
fn picture(row: usize) -> Vec<u8> {
    vec![row as u8; 3 + row % 5]
}

fn bytes(dataset: &dyn Dataset, index: usize) -> Vec<u8> {
    dataset.sample(index).expect("a sample").content.bytes().to_vec()
}

const HUGGING_FACE: [&str; 2] = ["train-00000-of-00001.parquet", "test-00000-of-00001.parquet"];

#[test]
fn the_files_of_hugging_face_give_their_pictures_under_the_names_of_their_labels() {
    let root = folder(&HUGGING_FACE);
    let opened = crate::open_with_findings(root.path(), &OpenOptions::default()).expect("a data set");
    let Splits { train, val } = opened.splits;
    assert_eq!(opened.format, "parquet");
    assert_eq!((train.len(), val.len()), (30, 6));
    // No training row is a dog.
    assert_eq!(train.classes(), ["cat", "owl"]);
    // Backwards, so that no page is read in turn.
    for index in (0..30).rev() {
        assert_eq!((bytes(&*train, index), train.label(index)), (picture(index), index as u32 % 2));
    }
    assert_eq!((bytes(&*val, 5), val.label(5)), (picture(35), 1));
    assert_eq!(val.name(5), "test-00000-of-00001.parquet[5]");
}

#[test]
fn a_folder_called_data_and_a_single_file_are_understood() {
    let root = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(root.path().join("data")).expect("a folder");
    let inner = root.path().join("data").join(HUGGING_FACE[0]);
    fs::copy(fixtures().join(HUGGING_FACE[0]), &inner).expect("a copy");
    for path in [root.path(), inner.as_path()] {
        let splits = open_dataset(path, &OpenOptions::default()).expect("a data set");
        assert_eq!((splits.train.len(), splits.val.len()), (24, 6));
    }
}

#[test]
fn nulls_text_labels_and_both_versions_of_pages_are_read() {
    for name in ["plain_v1_gzip.parquet", "plain_v2_snappy.parquet"] {
        let path = fixtures().join(name);
        let set =
            ParquetSet::training_set(&path, vec![ParquetFile::open(&path, &path).expect("a file")]).expect("a set");
        assert!(set.files[0].pages.len() > 1, "{name}");
        // Row 9 has no label, row 7 no picture.
        assert_eq!((set.len(), set.classes()), (39, &["a".to_owned(), "b".to_owned()][..]), "{name}");
        for (index, row) in (0..40).filter(|row| *row != 9).enumerate() {
            assert_eq!(set.label(index), u32::from(row % 3 > 0), "{name}");
            match set.sample(index) {
                Ok(sample) => assert_eq!((sample.content.bytes(), row != 7), (&picture(row)[..], true), "{name}"),
                Err(error) => assert!(row == 7 && error.to_string().contains("no picture"), "{name}: {error}"),
            }
        }
    }
}

#[test]
fn what_is_not_read_is_named_with_the_remedy() {
    let refused = |name: &str, change: fn(&mut Vec<u8>)| {
        let root = tempfile::tempdir().expect("a temporary folder");
        let mut bytes = fs::read(fixtures().join(name)).expect("a fixture");
        change(&mut bytes);
        fs::write(root.path().join("x.parquet"), bytes).expect("a file");
        let message = open_dataset(root.path(), &OpenOptions::default()).err().expect("an error").to_string();
        assert!(message.contains("x.parquet"), "{message}");
        message
    };
    assert!(refused("zstd.parquet", |_| {}).contains("compressed with zstd"));
    assert!(refused(HUGGING_FACE[0], |bytes| bytes.truncate(200)).contains("it is truncated, or something else"));
    assert!(refused(HUGGING_FACE[0], |bytes| bytes.truncate(5)).contains("too short"));
    let far = |bytes: &mut Vec<u8>| {
        let end = bytes.len() - 8;
        bytes[end..end + 4].fill(0xFF);
    };
    assert!(refused(HUGGING_FACE[0], far).contains("footer is longer than the file"));
    let renamed = |bytes: &mut Vec<u8>| {
        // The name of the column, wherever the footer has it.
        let places: Vec<_> = (0..bytes.len() - 5).filter(|&at| &bytes[at..at + 5] == b"label").collect();
        places.into_iter().for_each(|at| bytes[at..at + 5].copy_from_slice(b"lable"));
    };
    assert!(refused(HUGGING_FACE[0], renamed).contains("did you mean \"label\" by \"lable\"?"));
}

/// Damages per test; `KILN_FUZZ_ROUNDS` asks for more.
fn rounds() -> u32 {
    std::env::var("KILN_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: rounds(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_read_or_refused(
        name in prop::sample::select(vec![HUGGING_FACE[0], HUGGING_FACE[1], "plain_v1_gzip.parquet", "plain_v2_snappy.parquet"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = fs::read(fixtures().join(name)).expect("a fixture");
        changes.iter().for_each(|(at, value)| { let at = at.index(bytes.len()); bytes[at] = *value; });
        if cut.index(8) == 0 {
            let (from, len) = (cut.index(bytes.len() / 2), cut.index(100));
            bytes.drain(from..from + len);
        }
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("x.parquet");
        fs::write(&path, bytes).expect("a file");
        if let Ok(file) = ParquetFile::open(root.path(), &path) {
            for row in 0..file.labels.len() {
                let _ = file.picture(row);
            }
        }
    }
}
