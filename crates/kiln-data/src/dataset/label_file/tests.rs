use proptest::prelude::*;

use super::*;
use crate::dataset::{Opened, open_with_findings};

/// Files with the content given; pictures are told by their names alone.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for (name, content) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("a file");
    }
    root
}

fn opened(files: &[(&str, &str)]) -> Opened {
    open_with_findings(folder(files).path(), &OpenOptions::default()).expect("a data set")
}

fn refused(files: &[(&str, &str)]) -> String {
    open_with_findings(folder(files).path(), &OpenOptions::default()).err().expect("an error").to_string()
}

fn rows(dataset: &dyn Dataset) -> Vec<String> {
    let row = |index| format!("{} {}", dataset.name(index), dataset.classes()[dataset.label(index) as usize]);
    (0..dataset.len()).map(row).collect()
}

fn all_rows(splits: &Splits) -> Vec<String> {
    let mut all = [rows(&*splits.train), rows(&*splits.val)].concat();
    all.sort();
    all
}

const PICTURES: [(&str, &str); 4] = [("1.jpg", "x"), ("2.jpg", "x"), ("3.jpg", "x"), ("4.jpg", "x")];

fn with_table<'a>(name: &'a str, table: &'a str) -> Vec<(&'a str, &'a str)> {
    [&PICTURES[..], &[(name, table)]].concat()
}

#[test]
fn every_spelling_of_a_table_gives_the_same_rows() {
    let expected = ["1.jpg cat", "2.jpg dog, wet", "3.jpg cat", "4.jpg dog, wet"];
    for (name, table) in [
        ("labels.csv", "image,label\n1.jpg,cat\n2.jpg,\"dog, wet\"\n3.jpg,cat\n4.jpg,\"dog, wet\"\n"),
        (
            "labels.csv",
            "\u{feff}Id,Class Name,File-Name\r\n7,cat,1.jpg\r\n8,\"dog, wet\",2.jpg\r\n9,cat,3.jpg\r\n9,\"dog, wet\",4.jpg",
        ),
        ("labels.csv", "1.jpg,cat\n2.jpg,\"dog, wet\"\n3.jpg,cat\n4.jpg,\"dog, wet\"\n"),
        ("labels.tsv", "path\tlabel\n1.jpg\tcat\n2.jpg\tdog, wet\n3.jpg\tcat\n4.jpg\tdog, wet\n"),
        (
            "metadata.jsonl",
            "{\"file_name\": \"1.jpg\", \"label\": \"cat\"}\n{\"label\": \"dog, wet\", \"file_name\": \"2.jpg\"}\n\n{\"file_name\": \"3.jpg\", \"label\": \"cat\", \"more\": [1]}\n{\"file_name\": \"4.jpg\", \"label\": \"dog, wet\"}",
        ),
    ] {
        let opened = opened(&with_table(name, table));
        assert_eq!(opened.format, "label file");
        assert_eq!(all_rows(&opened.splits), expected, "{table}");
        assert_eq!((opened.splits.train.len(), opened.splits.val.len()), (2, 2), "{table}");
    }
}

#[test]
fn a_table_named_by_itself_may_be_called_anything() {
    let root = folder(&with_table("birds.csv", "file,species\n1.jpg,owl\n2.jpg,jay\n3.jpg,owl\n4.jpg,jay\n"));
    let splits = crate::open(&root.path().join("birds.csv"), &OpenOptions::default()).expect("a data set");
    assert_eq!(splits.train.classes(), ["jay", "owl"]);
    assert_eq!(splits.train.sample(0).expect("a sample").content.bytes(), b"x");
}

#[test]
fn a_split_column_and_two_tables_sort_rows_alike() {
    let column = opened(&with_table(
        "labels.csv",
        "image,label,split\n1.jpg,a,train\n2.jpg,b,train\n3.jpg,a,Val\n4.jpg,b,test\n",
    ));
    let tables = opened(
        &[
            &PICTURES[..],
            &[("train.csv", "image,label\n1.jpg,a\n2.jpg,b\n"), ("val.csv", "image,label\n3.jpg,a\n4.jpg,b\n")],
        ]
        .concat(),
    );
    for splits in [column.splits, tables.splits] {
        assert_eq!(rows(&*splits.train), ["1.jpg a", "2.jpg b"]);
        assert_eq!(rows(&*splits.val), ["3.jpg a", "4.jpg b"]);
    }
}

#[test]
fn a_table_of_test_pictures_without_labels_is_no_validation_set() {
    let files = [
        &PICTURES[..],
        &[("train.csv", "image,label\n1.jpg,a\n2.jpg,b\n3.jpg,a\n4.jpg,b\n"), ("test.csv", "image\n5.jpg\n")],
    ]
    .concat();
    let splits = opened(&files).splits;
    assert_eq!((splits.train.len(), splits.val.len()), (2, 2));
}

#[test]
fn pictures_may_lie_in_a_folder_beside_the_table() {
    let opened = opened(&[
        ("images/1.jpg", "x"),
        ("images/2.jpg", "x"),
        ("images/3.jpg", "x"),
        ("labels.csv", "image,label\n1.jpg,a\n2.jpg,b\n3.jpg,a\n"),
    ]);
    assert_eq!(all_rows(&opened.splits), ["images/1.jpg a", "images/2.jpg b", "images/3.jpg a"]);
}

#[test]
fn numbers_are_classes_in_numeric_order() {
    let opened = opened(&with_table("labels.csv", "image,label\n1.jpg,10\n2.jpg,9\n3.jpg,10\n4.jpg,9\n"));
    assert_eq!(opened.splits.train.classes(), ["9", "10"]);
}

#[test]
fn a_table_beside_class_folders_does_not_take_them_over() {
    for table in ["train.csv", "labels.csv"] {
        let pictures = ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/2.jpg"].map(|name| (name, "BM"));
        let opened = opened(&[&pictures[..], &[(table, "a,b\n1,2\n")]].concat());
        assert_eq!(opened.format, "ImageFolder", "{table}");
    }
}

#[test]
fn rows_without_a_label_are_left_out_by_name() {
    let opened = opened(&with_table("labels.csv", "image,label\n1.jpg,a\n2.jpg,b\n3.jpg,a\n4.jpg,\n"));
    assert_eq!(opened.splits.train.len() + opened.splits.val.len(), 3);
    assert_eq!(opened.findings.left_out[0].name, "4.jpg");
    assert!(opened.findings.left_out[0].reason.contains("line 5 of the table has no label"));
}

#[test]
fn a_table_that_can_not_be_used_says_what_to_change() {
    for (table, expected) in [
        ("image,lable\n1.jpg,a\n", "did you mean \"label\" by \"lable\"? Rename that column"),
        ("imgae,label\n1.jpg,a\n", "did you mean \"image\" by \"imgae\"? Rename that column"),
        ("x,y,z\n", "none of its columns"),
        ("image,label\n1.jpg,a\n2.jpg\n", "line 3 has 1 cells where 2 are needed"),
        ("image,label\n7.jpg,a\n8.jpg,b\n", "the first \"7.jpg\", are neither beside it nor in a folder beside it"),
        ("image,label\n1.jpg,a\n2.jpg,a\n", "its training rows name 1 class(es)"),
        ("image,label,split\n1.jpg,a,train\n2.jpg,b,maybe\n", "line 3 belongs to the split \"maybe\""),
        (
            "image,label,split\n1.jpg,a,train\n2.jpg,b,train\n3.jpg,c,val\n",
            "class(es) that the training split lacks: \"c\"",
        ),
        ("image,label\n", "it lists no picture"),
        ("", "it lists no picture"),
    ] {
        let message = refused(&with_table("labels.csv", table));
        assert!(message.contains(expected) && message.contains("labels.csv"), "{expected}: {message}");
    }
    let message = refused(&with_table("labels.jsonl", "{\"image\": \"1.jpg\", \"label\": 1}\n[]\n"));
    assert!(message.contains("line 2 isn't a JSON object"), "{message}");
}

#[test]
fn a_missing_picture_is_an_error_about_that_file() {
    let opened = opened(&with_table("labels.csv", "image,label,split\n1.jpg,a,train\n9.jpg,b,train\n3.jpg,a,val\n"));
    let error = opened.splits.train.sample(1).expect_err("no file");
    assert!(error.is_about_one_file() && error.to_string().starts_with("cannot read \"9.jpg\" (sample 1)"), "{error}");
}

/// Damages per test; `KILN_FUZZ_ROUNDS` asks for more.
fn rounds() -> u32 {
    std::env::var("KILN_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: rounds(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_tables_are_read_or_refused(
        ending in prop::sample::select(vec!["csv", "tsv", "jsonl"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"\",\n\r\t{}:\\a\0\xFF\xC3".to_vec())), 0..8),
        kept in any::<prop::sample::Index>(),
    ) {
        let mut bytes = match ending {
            "csv" => b"image,label,split\n1.jpg,\"a\"\"b\",train\n2.jpg,b,train\n3.jpg,b,val\n".to_vec(),
            "tsv" => b"image\tlabel\n1.jpg\ta\n2.jpg\tb\n3.jpg\tb\n".to_vec(),
            _ => b"{\"image\": \"1.jpg\", \"label\": 3}\n{\"image\": \"2.jpg\", \"label\": \"\\u00e9\"}\n".to_vec(),
        };
        changes.iter().for_each(|(at, value)| { let at = at.index(bytes.len()); bytes[at] = *value; });
        if kept.index(3) == 0 {
            bytes.truncate(kept.index(bytes.len()));
        }
        let mut findings = Findings::default();
        let root = folder(&PICTURES);
        let path = root.path().join(format!("labels.{ending}"));
        fs::write(&path, &bytes).expect("a file");
        match open_with_findings(&path, &OpenOptions::default()) {
            Ok(opened) => prop_assert!(!rows(&*opened.splits.train).is_empty()),
            Err(error) => prop_assert!(error.to_string().contains("labels.")),
        }
        let _ = Table::read(&path, &mut findings);
    }
}
