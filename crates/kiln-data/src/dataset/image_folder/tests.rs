use super::*;
use crate::dataset::open as open_dataset;

/// A folder of files that begin like a JPEG; the scan looks no further.
fn tree(files: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for file in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, b"\xFF\xD8").expect("a file");
    }
    root
}

fn opened(files: &[&str]) -> Splits {
    open_dataset(tree(files).path(), &OpenOptions::default()).expect("a data set")
}

fn refused(files: &[&str]) -> String {
    let root = tree(files);
    let error = open_dataset(root.path(), &OpenOptions::default()).err().expect("an error");
    error.to_string().replace(&format!("{:?}", root.path()), "ROOT").replace(&*root.path().to_string_lossy(), "ROOT")
}

fn names(dataset: &dyn Dataset) -> Vec<String> {
    (0..dataset.len()).map(|index| format!("{} {}", dataset.label(index), dataset.name(index))).collect()
}

#[test]
fn usual_names_of_the_splits_are_understood_in_any_case() {
    for (train, val) in [("train", "val"), ("Training", "Validation"), ("TRAIN", "valid"), ("train", "test")] {
        let files = [("b/1.jpg", train), ("a/1.jpg", train), ("a/2.jpg", val), ("b/2.jpg", val)];
        let files: Vec<_> = files.iter().map(|(file, split)| format!("{split}/{file}")).collect();
        let splits = opened(&files.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(splits.train.classes(), ["a", "b"], "{train}");
        assert_eq!(names(&*splits.train), [format!("0 {train}/a/1.jpg"), format!("1 {train}/b/1.jpg")]);
        assert_eq!(names(&*splits.val), [format!("0 {val}/a/2.jpg"), format!("1 {val}/b/2.jpg")]);
    }
}

#[test]
fn val_is_preferred_to_test() {
    let splits = opened(&["train/a/1.png", "train/b/1.png", "test/a/t.png", "val/a/v.png", "val/b/v.png"]);
    assert_eq!(names(&*splits.val), ["0 val/a/v.png", "1 val/b/v.png"]);
}

#[test]
fn a_train_folder_among_other_vehicles_is_a_class() {
    let splits = opened(&["train/1.jpg", "train/2.jpg", "ship/1.jpg", "ship/2.jpg"]);
    assert_eq!(splits.train.classes(), ["ship", "train"]);
}

#[test]
fn a_train_folder_alone_is_split() {
    let splits = opened(&["train/a/1.jpg", "train/a/2.jpg", "train/b/1.jpg", "train/b/2.jpg"]);
    assert_eq!((splits.train.len(), splits.val.len()), (2, 2));
    assert_eq!(splits.val.classes(), ["a", "b"]);
}

#[test]
fn a_train_folder_beside_folders_without_class_folders_is_split() {
    let splits = opened(&["train/a/1.jpg", "train/a/2.jpg", "train/b/1.jpg", "train/b/2.jpg", "store/x.jpg"]);
    assert_eq!(splits.train.classes(), ["a", "b"]);
    let splits = opened(&["train/steam/1.jpg", "train/diesel/2.jpg", "ship/sail/1.jpg", "ship/sail/2.jpg"]);
    assert_eq!(splits.train.classes(), ["ship", "train"], "both have folders inside");
}

#[test]
fn a_class_without_anything_like_a_picture_is_refused_or_left_out_by_name() {
    let root = tree(&["train/a/1.jpg", "train/b/1.jpg", "train/c/1.jpg", "val/a/1.jpg"]);
    fs::write(root.path().join("train/b/1.jpg"), b"").expect("a file");
    let refused = open_dataset(root.path(), &OpenOptions::default()).err().expect("an error").to_string();
    assert!(refused.starts_with("no readable images in the class folder(s) \"b\""), "{refused}");

    let lenient = OpenOptions { unusable_classes: UnusableClasses::Drop, ..OpenOptions::default() };
    let opened = crate::open_with_findings(root.path(), &lenient).expect("a data set");
    assert_eq!(opened.splits.train.classes(), ["a", "c"]);
    assert_eq!(names(&*opened.splits.train), ["0 train/a/1.jpg", "1 train/c/1.jpg"]);
    assert_eq!(opened.findings.left_out.len(), 1);
    assert_eq!(
        (opened.findings.left_out[0].name.as_str(), opened.findings.left_out[0].reason.as_str()),
        ("train/b/1.jpg", "the file is empty")
    );
    assert!(opened.findings.remarks[0].contains("\"b\""), "{:?}", opened.findings.remarks);
}

#[test]
fn classes_are_sorted_as_bytes_and_folders_inside_them_are_searched() {
    let splits =
        opened(&["train/2/x.jpg", "train/10/z/deep/y.JPG", "train/10/b.Jpeg", "train/Z/q.webp", "val/2/v.gif"]);
    assert_eq!(splits.train.classes(), ["10", "2", "Z"]);
    assert_eq!(
        names(&*splits.train),
        ["0 train/10/b.Jpeg", "0 train/10/z/deep/y.JPG", "1 train/2/x.jpg", "2 train/Z/q.webp"]
    );
}

#[test]
fn litter_is_neither_class_nor_picture() {
    let splits = opened(&[
        "train/.DS_Store",
        "train/README.md",
        "train/loose.jpg",
        "train/__MACOSX/cat/._1.jpg",
        "train/.ipynb_checkpoints/x.jpg",
        "train/cat/1.jpg",
        "train/cat/._1.jpg",
        "train/cat/Thumbs.db",
        "train/cat/notes.txt",
        "train/cat/1.jpg.part",
        "train/cat/@eaDir/1.jpg/thumb.jpg",
        "train/dog/1.jpg",
        "val/dog/1.jpg",
    ]);
    assert_eq!(splits.train.classes(), ["cat", "dog"]);
    assert_eq!(names(&*splits.train), ["0 train/cat/1.jpg", "1 train/dog/1.jpg"]);
}

#[test]
fn the_training_set_defines_the_indices_of_the_validation_set() {
    let splits = opened(&["train/a/1.jpg", "train/b/1.jpg", "train/c/1.jpg", "val/c/1.jpg", "val/b/.keep"]);
    assert_eq!(splits.val.classes(), ["a", "b", "c"]);
    assert_eq!(names(&*splits.val), ["2 val/c/1.jpg"]);
}

#[test]
fn an_unknown_validation_class_is_named() {
    let message = refused(&["train/a/1.jpg", "train/b/1.jpg", "val/b/1.jpg", "val/d/1.jpg"]);
    assert_eq!(
        message,
        "\"ROOT/val\" has class(es) that the training split lacks: \"d\"; the training split defines the classes: \
         \"a\", \"b\"; add training images for them or remove the folder(s)"
    );
}

#[test]
fn empty_classes_are_named_together() {
    let message = refused(&["train/a/1.jpg", "train/b/x.txt", "train/c/.keep", "val/a/1.jpg"]);
    assert_eq!(
        message,
        "no readable images in the class folder(s) \"b\", \"c\" of \"ROOT/train\"; add images or remove the folder(s)"
    );
}

#[test]
fn a_folder_that_is_no_data_set_says_what_is_wrong() {
    for (files, expected) in [
        (&["a.jpg", "b.jpg"][..], "it has 2 images and no class folders; put the images of each class in a folder"),
        (&["only/1.jpg", "only/2.jpg"], "there is one class folder only, \"only\""),
        (&["train/x.jpg", "val/a/x.jpg"], "it has 1 images and no class folders"),
        (&["notes.txt"], "it has no class folders"),
        (&["a/1.jpg", "b/1.jpg"], "no class has the two images it takes"),
    ] {
        let message = refused(files);
        assert!(message.contains(expected), "{message}");
    }
    let missing = open_dataset(Path::new("/no/such/folder"), &OpenOptions::default()).err().expect("an error");
    assert!(missing.to_string().ends_with("check the path"), "{missing}");
    let nonsense = OpenOptions { val_fraction: f64::NAN, ..OpenOptions::default() };
    assert!(matches!(open_dataset(Path::new("."), &nonsense), Err(DataError::Config { .. })));
}

/// Two classes of ten images, made in the given order.
fn splittable(indices: impl Iterator<Item = usize>) -> tempfile::TempDir {
    let files: Vec<_> = indices.flat_map(|i| [format!("a/{i}.jpg"), format!("b/{i}.jpg")]).collect();
    tree(&files.iter().map(String::as_str).collect::<Vec<_>>())
}

fn validation_names(root: &tempfile::TempDir, seed: u64) -> Vec<String> {
    let splits = open_dataset(root.path(), &OpenOptions { val_fraction: 0.3, seed, ..OpenOptions::default() })
        .expect("a data set");
    assert_eq!(splits.train.len() + splits.val.len(), names(&*splits.train).len() + names(&*splits.val).len());
    assert!(names(&*splits.train).iter().all(|name| !names(&*splits.val).contains(name)));
    names(&*splits.val)
}

#[test]
fn a_split_is_stratified_and_depends_on_names_and_seed_alone() {
    let (forward, backward) = (splittable(0..10), splittable((0..10).rev()));
    let chosen = validation_names(&forward, 1);
    assert_eq!(chosen, validation_names(&backward, 1));
    assert_ne!(chosen, validation_names(&forward, 2));
    assert_eq!(chosen.iter().filter(|name| name.starts_with('0')).count(), 3);
    assert_eq!(chosen.len(), 6);
}

#[test]
fn a_new_file_takes_at_most_one_place_in_the_validation_set() {
    let root = splittable(0..10);
    let before = validation_names(&root, 5);
    fs::write(root.path().join("a/new.jpg"), b"").expect("a file");
    let after = validation_names(&root, 5);
    let kept = before.iter().filter(|name| after.contains(name)).count();
    assert!(kept >= before.len() - 1, "{before:?} became {after:?}");
}

#[test]
fn a_file_that_vanished_is_an_error_about_that_file() {
    let root = tree(&["train/a/1.jpg", "train/b/1.jpg", "val/a/1.jpg"]);
    let splits = open_dataset(root.path(), &OpenOptions::default()).expect("a data set");
    fs::remove_file(root.path().join("train/b/1.jpg")).expect("removed");
    let error = splits.train.sample(1).expect_err("no file");
    assert!(error.is_about_one_file());
    assert!(error.to_string().starts_with("cannot read \"train/b/1.jpg\" (sample 1): "), "{error}");
}

#[cfg(unix)]
#[test]
fn links_to_files_and_class_folders_count_and_loops_do_not() {
    use std::os::unix::fs::symlink;
    let root = tree(&["train/a/1.jpg", "train/b/1.jpg", "store/c/1.jpg", "val/a/1.jpg"]);
    let train = root.path().join("train");
    for (target, link) in [
        ("../store/c", "c"),
        ("..", "up"),
        (".", "here"),
        ("../../store/c/1.jpg", "a/link.jpg"),
        ("nowhere.jpg", "a/dangling.jpg"),
        ("..", "a/loop"),
        ("self", "b/self"),
    ] {
        symlink(target, train.join(link)).expect("a link");
    }
    let splits = open_dataset(root.path(), &OpenOptions::default()).expect("a data set");
    assert_eq!(names(&*splits.train), ["0 train/a/1.jpg", "0 train/a/link.jpg", "1 train/b/1.jpg", "2 train/c/1.jpg"]);
    assert!(splits.train.sample(1).is_ok());
}

#[cfg(unix)]
#[test]
fn names_that_are_not_utf8_are_read_and_shown_escaped() {
    use std::os::unix::ffi::OsStrExt;
    let root = tree(&["train/a/1.jpg", "train/b/1.jpg", "val/a/1.jpg"]);
    let name = OsStr::from_bytes(b"latin1_\xE9\xFF.jpg");
    fs::write(root.path().join("train/a").join(name), b"x").expect("a file");
    let splits = open_dataset(root.path(), &OpenOptions::default()).expect("a data set");
    assert_eq!(splits.train.name(1), "train/a/latin1_\\xE9\\xFF.jpg");
    assert_eq!(splits.train.sample(1).expect("read").content.bytes(), b"x");
}
