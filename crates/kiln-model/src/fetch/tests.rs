//! Fetching from folders. `crates/kiln/tests/weights.rs` fetches over a connection.

use super::*;

/// Bytes that stand for weights, and a list whose one file they are, in `folder`.
fn published(folder: &Path) -> (Vec<u8>, PretrainedList) {
    let bytes: Vec<u8> = (0..70_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("tiny.pth"), &bytes).expect("written");
    let (sha256, _) = sha256_of(&folder.join("tiny.pth")).expect("read");
    let mut list = PretrainedList::built_in().expect("well-formed");
    list.weights.truncate(1);
    list.folder = folder.display().to_string();
    list.weights[0].file = "tiny.pth".to_owned();
    list.weights[0].sha256_begins = sha256[..8].to_owned();
    (bytes, list)
}

fn fetch(list: &PretrainedList, folder: &Path) -> Result<Fetched, ModelError> {
    list.fetch(&list.weights[0], folder, false)
}

#[test]
fn the_digest_is_sha_256() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("abc");
    fs::write(&path, "abc").expect("written");
    // FIPS 180-4's example.
    let wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sha256_of(&path).expect("read"), (wanted.to_owned(), 3));
}

#[test]
fn a_file_is_copied_once_and_known_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (bytes, mut list) = published(&folder.path().join("published"));
    for prefix in ["", "file://"] {
        list.folder = format!("{prefix}{}", folder.path().join("published").display());
        let target = folder.path().join(format!("target{}", prefix.len()));
        let first = fetch(&list, &target).expect("fetched");
        assert_eq!((fs::read(&first.path).expect("there"), first.was_there), (bytes.clone(), false));
        assert_eq!(first.bytes, bytes.len() as u64);
        let second = fetch(&list, &target).expect("there already");
        assert_eq!(second, Fetched { was_there: true, ..first });
        assert_eq!(fs::read_dir(&target).expect("a folder").count(), 1, "nothing else is left");
    }
}

#[test]
fn what_is_not_the_published_file_is_refused_and_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, list) = published(&folder.path().join("published"));
    let target = folder.path().join("target");
    fs::write(folder.path().join("published/tiny.pth"), "<html>log in</html>").expect("written");
    let text = fetch(&list, &target).expect_err("a web page").to_string();
    for part in ["tiny.pth", "a web page came", &list.weights[0].sha256_begins, "try again"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(fs::read_dir(&target).expect("a folder").count(), 0);
}

#[test]
fn another_file_of_that_name_is_never_overwritten() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, list) = published(&folder.path().join("published"));
    let path = folder.path().join("tiny.pth");
    fs::write(&path, "mine").expect("written");
    let text = fetch(&list, folder.path()).expect_err("in the way").to_string();
    assert!(text.contains("move it away") && text.contains("--output"), "{text}");
    assert_eq!(fs::read_to_string(path).expect("still there"), "mine");
}

#[test]
fn a_whole_part_needs_no_source() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (bytes, mut list) = published(&folder.path().join("published"));
    list.folder = "/nowhere".to_owned();
    fs::write(folder.path().join("tiny.pth.part"), &bytes).expect("written");
    assert_eq!(fs::read(fetch(&list, folder.path()).expect("renamed").path).expect("there"), bytes);
    fs::remove_file(folder.path().join("tiny.pth")).expect("removed");
    let text = fetch(&list, folder.path()).expect_err("no source").to_string();
    assert!(text.contains("/nowhere") && text.contains("`folder`"), "{text}");
}
