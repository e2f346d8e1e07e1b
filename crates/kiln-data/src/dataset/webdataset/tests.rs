use std::fs;
use std::time::{Duration, SystemTime};

use tar::{EntryType, Header};
use tempfile::TempDir;

use super::*;
use crate::dataset::{Opened, UnusableClasses, open_with_findings};

/// A member of a test's archive, with everything a header can say.
struct Raw<'a> {
    name: &'a str,
    kind: EntryType,
    content: &'a [u8],
}

fn file<'a>(name: &'a str, content: &'a [u8]) -> Raw<'a> {
    Raw { name, kind: EntryType::Regular, content }
}

fn archive(members: &[Raw<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Raw { name, kind, content } in members {
        let mut header = Header::new_gnu();
        header.set_path(name).expect("a short name");
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Samples `0`, `1`, ... with these labels; the picture of each is its number as text.
fn labelled(labels: &[u32]) -> Vec<u8> {
    let texts: Vec<_> = labels
        .iter()
        .enumerate()
        .map(|(i, label)| (format!("{i}.cls"), label.to_string(), format!("{i}.jpg"), i.to_string()))
        .collect();
    let members = texts
        .iter()
        .flat_map(|(cls, label, jpg, picture)| [file(cls, label.as_bytes()), file(jpg, picture.as_bytes())]);
    archive(&members.collect::<Vec<_>>())
}

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("in the folder")).expect("made");
        fs::write(path, content).expect("written");
    }
    folder
}

fn opened(path: &Path) -> Opened {
    open_with_findings(path, &OpenOptions::default()).expect("a data set")
}

fn error(path: &Path) -> String {
    open_with_findings(path, &OpenOptions::default()).err().expect("an error").to_string()
}

/// Name, label and content of every sample.
fn samples(dataset: &dyn Dataset) -> Vec<(String, u32, Vec<u8>)> {
    let sample = |index| dataset.sample(index).expect("a sample");
    (0..dataset.len()).map(|i| (dataset.name(i), sample(i).label, sample(i).content.bytes().to_vec())).collect()
}

#[test]
fn members_with_the_same_name_up_to_the_first_dot_are_a_sample() {
    let members = [
        file("a/1.txt", b"a caption"),
        file("a/1.jpg", b"one"),
        file("a/1.cls", b"7\n"),
        file("a/2.tar.gz", b"no picture"),
        Raw { name: "b/", kind: EntryType::Directory, content: b"" },
        file("b/._1.jpg", b"left by macOS"),
        file("b/1.CLS", b" 3 "),
        file("b/1.PNG", b"two"),
        file("b/LICENSE", b"text"),
    ];
    let folder = folder(&[("train-0.tar", &archive(&members)), ("val-0.tar", &labelled(&[3, 7]))]);
    let Opened { format, splits, findings } = opened(folder.path());
    assert_eq!((format, findings), ("WebDataset", Findings::default()));
    assert_eq!(splits.train.classes(), ["3", "7"]);
    assert_eq!(
        samples(&*splits.train),
        [("train-0.tar/a/1.jpg".into(), 1, b"one".to_vec()), ("train-0.tar/b/1.PNG".into(), 0, b"two".to_vec())]
    );
    assert_eq!(samples(&*splits.val).iter().map(|(_, label, _)| *label).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn long_names_are_read_in_gnu_s_and_in_posix_form() {
    let long = format!("{}/1", "long".repeat(50));
    let record = |text: String| {
        let length = (1..).find(|length| format!("{length} {text}\n").len() == *length).expect("some length");
        format!("{length} {text}\n")
    };
    let gnu = |ending: &str| format!("{long}.{ending}\0");
    let posix = |ending: &str| record("mtime=1.5".into()) + &record(format!("path={long}.{ending}"));
    let (jpg, cls) = (gnu("jpg"), gnu("cls"));
    let gnu = [
        Raw { name: "././@LongLink", kind: EntryType::GNULongName, content: jpg.as_bytes() },
        file("cut short.jpg", b"picture"),
        Raw { name: "././@LongLink", kind: EntryType::GNULongName, content: cls.as_bytes() },
        file("cut short too.cls", b"1"),
        file("2.jpg", b""),
        file("2.cls", b"0"),
    ];
    let (jpg, cls) = (posix("jpg"), posix("cls"));
    let posix = [
        Raw { name: "global", kind: EntryType::XGlobalHeader, content: b"" },
        Raw { name: "pax", kind: EntryType::XHeader, content: jpg.as_bytes() },
        file("cut short.jpg", b"picture"),
        Raw { name: "pax", kind: EntryType::XHeader, content: cls.as_bytes() },
        file("cut short too.cls", b"1"),
        file("2.jpg", b""),
        file("2.cls", b"0"),
    ];
    for members in [archive(&gnu), archive(&posix)] {
        let folder = folder(&[("train.tar", &members), ("val.tar", &labelled(&[0, 1]))]);
        let train = opened(folder.path()).splits.train;
        assert_eq!((train.len(), train.name(0), train.label(0)), (2, format!("train.tar/{long}.jpg"), 1));
        assert_eq!(train.sample(0).expect("a sample").content.bytes(), b"picture");
    }
}

#[test]
fn the_size_in_a_posix_header_overrules_the_other() {
    let members = [
        Raw { name: "pax", kind: EntryType::XHeader, content: b"10 size=7\n" },
        file("1.jpg", b"picture"),
        file("1.cls", b"0"),
        file("2.jpg", b"p"),
        file("2.cls", b"1"),
    ];
    let mut bytes = archive(&members);
    // The member's own header says that it is empty, as it does for sizes beyond its digits.
    let mut header = Header::from_byte_slice(&bytes[1024..1536]).clone();
    header.set_size(0);
    header.set_cksum();
    bytes[1024..1536].copy_from_slice(header.as_bytes());
    let folder = folder(&[("train.tar", &bytes), ("val.tar", &labelled(&[0, 1]))]);
    assert_eq!(samples(&*opened(folder.path()).splits.train)[0].2, b"picture");
}

#[test]
fn shards_are_found_by_name_in_folders_of_splits_or_alone() {
    let (few, more) = (labelled(&[0, 1]), labelled(&[1, 0, 1]));
    let by_name = folder(&[
        ("imagenet-train-000001.tar", &few),
        ("imagenet-train-000000.tar", &more),
        ("imagenet-val-000000.tar", &few),
        ("imagenet-test-000000.tar", &few),
        ("extra.tar", &few),
        ("README.md", b"text"),
    ]);
    let Opened { splits, findings, .. } = opened(by_name.path());
    assert_eq!((splits.train.len(), splits.val.len()), (5, 2));
    assert_eq!(splits.train.name(0), "imagenet-train-000000.tar/0.jpg");
    let left_out: Vec<_> = findings.left_out.iter().map(|skipped| skipped.name.as_str()).collect();
    assert_eq!(left_out, ["extra.tar", "imagenet-test-000000.tar"]);

    let by_folder = folder(&[("train/0.tar", &more), ("train/1.tar", &few), ("validation/0.tar", &few)]);
    let splits = opened(by_folder.path()).splits;
    assert_eq!((splits.train.len(), splits.val.name(1)), (5, "validation/0.tar/1.jpg".into()));

    let many = labelled(&[0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
    let alone = folder(&[("pictures.bin", &many)]);
    let splits = opened(&alone.path().join("pictures.bin")).splits;
    assert_eq!((splits.train.len(), splits.val.len()), (8, 2));
    let again = opened(&alone.path().join("pictures.bin")).splits;
    assert_eq!(samples(&*again.val), samples(&*splits.val));
}

#[test]
fn an_archive_beside_class_folders_does_not_make_a_folder_of_shards() {
    let jpeg = b"\xFF\xD8";
    let tar = labelled(&[0, 1]);
    let folder = folder(&[("backup.tar", &tar), ("cat/1.jpg", jpeg), ("dog/1.jpg", jpeg), ("dog/2.jpg", jpeg)]);
    let Opened { format, splits, .. } = opened(folder.path());
    assert_eq!((format, splits.train.classes()), ("ImageFolder", &["cat".to_owned(), "dog".into()][..]));
}

#[test]
fn what_is_wrong_with_a_shard_is_told_with_its_name_and_the_byte() {
    let whole = labelled(&[0, 1]);
    let sample = |more: &[Raw<'_>]| {
        let mut bytes = labelled(&[0, 1]);
        bytes.truncate(bytes.len() - 1024);
        bytes.extend(archive(more));
        bytes
    };
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    let resized = |size: u64| {
        let mut bytes = whole.clone();
        let mut header = Header::from_byte_slice(&bytes[1024..1536]).clone();
        header.set_size(size);
        header.set_cksum();
        bytes[1024..1536].copy_from_slice(header.as_bytes());
        bytes
    };
    let cases: [(Vec<u8>, &str); 18] = [
        (Vec::new(), "byte 0: it ends without"),
        (b"<html>".to_vec(), "byte 0: it ends without"),
        ([0x1F, 0x8B].repeat(512), "byte 0: it is compressed by gzip; unpack it with gunzip"),
        (vec![b'x'; 2048], "byte 0: it does not begin like a tar archive"),
        (whole[..whole.len() - 1024].to_vec(), "byte 4096: it ends without"),
        (whole[..whole.len() - 512].to_vec(), "byte 4096: one block"),
        (whole[..1536].to_vec(), "byte 1024: \"0.jpg\" should have 1 bytes"),
        (changed(1030, b'?'), "byte 1024: the checksum of a header is wrong"),
        (resized(1 << 40), "byte 1024: \"0.jpg\" should have 1099511627776 bytes"),
        (resized(u64::MAX), "byte 1024: \"0.jpg\" should have 18446744073709551615 bytes"),
        ([&whole[..], &whole].concat(), "byte 4096: data follows the end"),
        (sample(&[file("1.jpg", b"")]), "byte 4096: \"1.jpg\" is there twice"),
        (
            sample(&[file("2.jpg", b""), file("2.cls", b"1"), file("0.jpg", b""), file("0.cls", b"1")]),
            "byte 5632: \"0.jpg\" is there twice",
        ),
        (sample(&[file("2.jpg", b"")]), "byte 4096: the picture \"2.jpg\" has no label"),
        (sample(&[file("2.cls", b"1")]), "byte 4096: the sample \"2\" has a label and no picture"),
        (sample(&[file("2.cls", b""), file("2.jpg", b"")]), "byte 4096: \"2.cls\" holds \"\" and no number"),
        (sample(&[Raw { name: "2.jpg", kind: EntryType::Link, content: b"" }]), "byte 4096: \"2.jpg\" is a link"),
        (
            sample(&[Raw { name: "2.jpg", kind: EntryType::GNUSparse, content: b"" }]),
            "byte 4096: a member is stored sparse",
        ),
    ];
    for (bytes, expected) in cases {
        let folder = folder(&[("train-0.tar", &bytes), ("val-0.tar", &whole)]);
        let error = error(folder.path());
        assert!(error.contains(expected) && error.contains("train-0.tar"), "{expected:?} in {error:?}");
    }
}

#[test]
fn names_of_classes_come_from_a_file_beside_the_shards_or_from_the_samples() {
    let (train, val) = (labelled(&[0, 2, 1]), labelled(&[2]));
    let classes = |name: &str, text: &str| {
        let folder = folder(&[("train-0.tar", &train), ("val-0.tar", &val), (name, text.as_bytes())]);
        let Opened { splits, findings, .. } = opened(folder.path());
        (splits.val.classes().to_vec(), splits.val.label(0), findings.remarks.len())
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    // Two remarks: neither split has an axolotl, and the validation set lacks other classes too.
    assert_eq!(classes("classes.txt", "cat\r\ndog\nemu\naxolotl"), (names(&["cat", "dog", "emu", "axolotl"]), 2, 2));
    assert_eq!(classes("classnames.txt", "cat\ndog\nemu\n").0, names(&["cat", "dog", "emu"]));
    assert_eq!(classes("dataset.json", r#"{"classes": ["cat", "dog", "emu"]}"#).0, names(&["cat", "dog", "emu"]));
    assert_eq!(classes("dataset.json", r#"{"wids_version": 1}"#), (names(&["0", "1", "2"]), 2, 1));

    let json = |texts: &[&str]| {
        let named: Vec<_> =
            texts.iter().enumerate().map(|(i, text)| (format!("{i}.json"), format!("{i}.jpg"), *text)).collect();
        let members = named.iter().flat_map(|(json, jpg, text)| [file(json, text.as_bytes()), file(jpg, b"")]);
        archive(&members.collect::<Vec<_>>())
    };
    let from_json = |texts: &[&str]| {
        let shard = json(texts);
        let folder = folder(&[("train-0.tar", &shard), ("val-0.tar", &shard)]);
        let splits = opened(folder.path()).splits;
        (splits.train.classes().to_vec(), (0..splits.train.len()).map(|i| splits.train.label(i)).collect::<Vec<_>>())
    };
    let numbered = [r#"{"label": 9, "name": "owl"}"#, r#"{"label": 4, "name": "cat"}"#];
    assert_eq!(from_json(&numbered), (names(&["cat", "owl"]), vec![1, 0]));
    let named = [r#"{"name": "owl"}"#, r#"{"label": "cat", "author": 1}"#];
    assert_eq!(from_json(&named), (names(&["cat", "owl"]), vec![1, 0]));
    // Names that aren't those of classes.
    let files =
        [r#"{"label": 9, "name": "a.jpg"}"#, r#"{"label": 9, "name": "b.jpg"}"#, r#"{"label": 4, "name": "c"}"#];
    assert_eq!(from_json(&files), (names(&["4", "9"]), vec![1, 1, 0]));
}

#[test]
fn labels_that_are_no_class_are_refused_or_dropped_by_name() {
    let train = labelled(&[0, 2, 1]);
    let with_list = folder(&[("train-0.tar", &train), ("val-0.tar", &train), ("classes.txt", b"cat\ndog\n")]);
    let message = error(with_list.path());
    assert!(message.contains("byte 3072: \"1.jpg\" has the label 2; there are 2 classes"), "{message}");
    let twice = folder(&[("train-0.tar", &train), ("classes.txt", b"cat\ndog\ncat\n")]);
    assert!(error(twice.path()).contains("names \"cat\" twice"));

    let without_list = folder(&[("train-0.tar", &train), ("val-0.tar", &labelled(&[1, 4_000_000_000]))]);
    assert!(error(without_list.path()).contains("\"4000000000\""));
    let options = OpenOptions { unusable_classes: UnusableClasses::Drop, ..OpenOptions::default() };
    let Opened { splits, findings, .. } = open_with_findings(without_list.path(), &options).expect("opened");
    assert_eq!((splits.val.len(), splits.val.label(0)), (1, 1));
    assert!(findings.remarks[0].contains("\"4000000000\""), "{findings:?}");
}

/// The index that fits `labelled(&[0, 1])`.
const INDEX: &str = "v1.2 2\ncls 512 1 0.cls jpg 1536 1 0.jpg\ncls 2560 1 1.cls jpg 3584 1 1.jpg\n";

/// Whether the index `text` beside `labelled(&[0, 1])` is used; the samples are right in any case.
fn is_used(text: &[u8], age_secs: u64) -> bool {
    let shard = labelled(&[0, 1]);
    let folder = folder(&[("train-0.tar", &shard), ("train-0.idx", text), ("val-0.tar", &shard)]);
    let index = fs::File::options().write(true).open(folder.path().join("train-0.idx")).expect("opened");
    index.set_modified(SystemTime::now() + Duration::from_secs(60) - Duration::from_secs(age_secs)).expect("set");
    let Opened { splits, findings, .. } = opened(folder.path());
    let names: Vec<_> = samples(&*splits.train).into_iter().map(|(name, label, _)| (name, label)).collect();
    assert_eq!(names, [("train-0.tar/0.jpg".into(), 0), ("train-0.tar/1.jpg".into(), 1)]);
    findings.remarks.is_empty()
}

#[test]
fn an_index_is_used_if_it_fits_its_shard_and_else_the_shard_is_read() {
    assert!(is_used(INDEX.as_bytes(), 0));
    assert!(!is_used(INDEX.as_bytes(), 3600), "older than the shard");
    let changes = [
        ("v1.2 2", "v1.1 2"),
        ("v1.2 2", "v1.2 3"),
        ("v1.2 2", "v1.2 1"),
        ("v1.2 2", "v1.2 18446744073709551615"),
        ("cls 2560 1 1.cls jpg 3584 1 1.jpg\n", ""),
        ("cls 512 1 0.cls jpg 1536 1 0.jpg\n", ""),
        ("jpg 1536 1 0.jpg", ""),
        ("cls 512 1", "cls 512 2"),
        ("cls 512 1", "cls 0 1"),
        ("jpg 1536 1", "jpg 1536 2000"),
        ("jpg 3584 1", "jpg 3584 18446744073709551615"),
        ("jpg 3584 1", "jpg 18446744073709551104 1"),
        ("jpg 3584 1 1.jpg\n", "jpg 3584 1 1.jpg"),
        ("0.cls", "my 0.cls"),
        ("jpg 1536", "jpg 1537"),
    ];
    for (from, to) in changes {
        let changed = INDEX.replace(from, to);
        assert_ne!(changed, INDEX);
        assert!(!is_used(changed.as_bytes(), 0), "{to:?} for {from:?}");
    }
    assert!(!is_used(b"", 0));
    assert!(!is_used(b"\xFF\xFE", 0));
}

#[test]
fn a_shard_that_is_cut_while_it_is_open_gives_an_error_about_one_file() {
    let shard = labelled(&[0, 1, 0, 1]);
    let folder = folder(&[("train-0.tar", &shard), ("val-0.tar", &shard)]);
    let train = opened(folder.path()).splits.train;
    fs::File::options()
        .write(true)
        .open(folder.path().join("train-0.tar"))
        .expect("opened")
        .set_len(2048)
        .expect("cut");
    assert_eq!(train.sample(0).expect("before the cut").content.bytes(), b"0");
    let error = train.sample(3).expect_err("behind the cut");
    assert!(error.is_about_one_file() && error.to_string().contains("train-0.tar/3.jpg"), "{error}");
}

#[test]
fn a_folder_of_many_shards_does_not_keep_all_of_them_open() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let num_shards = MAX_OPEN_FILES + 3;
    for number in 0..num_shards {
        fs::write(folder.path().join(format!("train-{number:04}.tar")), labelled(&[0, 1])).expect("written");
    }
    fs::write(folder.path().join("val-0.tar"), labelled(&[0, 1])).expect("written");
    let train = opened(folder.path()).splits.train;
    assert_eq!(train.len(), 2 * num_shards);
    assert_eq!(train.sample(train.len() - 1).expect("of the last shard").content.bytes(), b"1");
    let last = folder.path().join(format!("train-{:04}.tar", num_shards - 1));
    fs::write(last, labelled(&[0, 1, 1])).expect("written again");
    let error = train.sample(train.len() - 1).expect_err("another shard by now").to_string();
    assert!(error.contains("has changed"), "{error}");
}

#[test]
fn pixels_are_read_as_they_are() {
    let members = [
        file("1.cls", b"0"),
        file("1.ppm", b"P6\n1 2\n255\nabcdef"),
        file("2.cls", b"1"),
        file("2.ppm", b"P6\n1 2\n255\nabcde"),
    ];
    let folder = folder(&[("train.tar", &archive(&members)), ("val.tar", &labelled(&[0, 1]))]);
    let train = opened(folder.path()).splits.train;
    let Content::Rgb(image) = train.sample(0).expect("a sample").content else { panic!("pixels") };
    assert_eq!((image.width, image.height, &image.pixels[..]), (1, 2, &b"abcdef"[..]));
    let error = train.sample(1).expect_err("a byte short");
    assert!(error.is_about_one_file() && error.to_string().contains("damaged PPM"), "{error}");
}
