//! `kiln pack` as a person meets it: killed at any moment, on a full disk, and read by other programs.

use kiln::data::Dataset;
use kiln::data::scenes::{self, ScenesConfig};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// The command, away from the user's own cache and settings.
fn kiln(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.current_dir(folder).env("KILN_CACHE_DIR", folder.join("cache")).env_remove("KILN_DEVICE");
    command
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Runs it and gives exit code, standard output and standard error.
fn outcome(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    (status.code(), String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Says that this machine lacks what a test needs.
fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// A small data set on disk: `data/train`, `data/val`.
fn pictures(folder: &Path) -> PathBuf {
    let config = ScenesConfig { train_images: 40, val_images: 10, size: 72, ..ScenesConfig::default() };
    scenes::open_or_create(Some(folder), &config).expect("drawn");
    let drawn = std::fs::read_dir(folder).expect("a folder").find_map(|entry| Some(entry.ok()?.path())).expect("a set");
    let data = folder.join("data");
    std::fs::rename(drawn, &data).expect("renamed");
    data
}

/// Packs `data` in small shards; pictures are made smaller, so that they take time.
fn pack(folder: &Path, output: &str) -> Command {
    let mut command = kiln(folder);
    command.args(["pack", "data", "-o", output, "--short-side", "60", "--shard-size", "24KiB", "--seed", "3"]);
    command
}

/// Every file in a folder, hidden ones too.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    entries.map(|path| (name(&path), std::fs::read(&path).expect("read"))).collect()
}

#[test]
fn a_pack_killed_again_and_again_ends_with_the_same_bytes() {
    let folder = folder();
    pictures(folder.path());
    let start = Instant::now();
    let (code, stdout, stderr) = outcome(&mut pack(folder.path(), "whole"));
    let whole_took = start.elapsed();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("40 images in") && stdout.contains("10 images in"), "{stdout}");
    let whole = files(&folder.path().join("whole"));
    assert!(whole.len() > 10, "several shards: {:?}", whole.keys());

    // From right at the start to about when it ends, whichever machine this is.
    const KILLS: u32 = 5;
    let mut killed = 0;
    for number in 1..=KILLS {
        let mut child =
            pack(folder.path(), "killed").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        let deadline = Instant::now() + whole_took * number / KILLS;
        while Instant::now() < deadline && child.try_wait().expect("a child").is_none() {
            std::thread::yield_now();
        }
        let _ = child.kill();
        killed += u32::from(!child.wait().expect("ended").success());
        // What has its final name is whole.
        for (name, bytes) in files(&folder.path().join("killed")) {
            if name.ends_with(".tar") || name.ends_with(".idx") {
                assert!(whole.get(&name) == Some(&bytes), "{name} after kill {number}");
            }
        }
    }
    assert!(killed > 0, "every run ended before it was killed");
    let (code, _, stderr) = outcome(&mut pack(folder.path(), "killed"));
    assert_eq!(code, Some(0), "{stderr}");
    let resumed = files(&folder.path().join("killed"));
    assert_eq!(resumed.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
    assert!(resumed == whole, "the same bytes");
}

#[test]
fn a_full_disk_is_an_error_that_leaves_no_half_file_and_more_room_lets_it_go_on() {
    let folder = folder();
    pictures(folder.path());
    let (code, _, stderr) = outcome(&mut pack(folder.path(), "whole"));
    assert_eq!(code, Some(0), "{stderr}");

    // In a mount namespace of its own: a disk of 80 KiB that is filled, then enlarged.
    let script = r#"
        set -e
        mkdir small && mount -t tmpfs -o size=80k tmpfs small
        "$@" -o small/packed 2>full.txt && exit 3
        ls -A small/packed >left.txt
        for file in small/packed/*.tar; do cmp "$file" "whole/${file##*/}"; done
        mount -o remount,size=64m small
        "$@" -o small/packed >/dev/null 2>&1
        diff -r small/packed whole
    "#;
    let mut command = Command::new("unshare");
    if !is_root() {
        command.arg("-r");
    }
    command.current_dir(folder.path()).args(["-m", "sh", "-c", "true"]);
    if !command.status().is_ok_and(|status| status.success()) {
        return skip("no mount namespaces here");
    }
    let mut command = Command::new("unshare");
    if !is_root() {
        command.arg("-r");
    }
    command.current_dir(folder.path()).args(["-m", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_kiln")]);
    command.args(["pack", "data", "--short-side", "60", "--shard-size", "24KiB", "--seed", "3"]);
    let (code, stdout, stderr) = outcome(&mut command);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let full = std::fs::read_to_string(folder.path().join("full.txt")).expect("the error");
    for part in ["error: cannot pack into", "small/packed", "No space left", "run the same command again"] {
        assert!(full.contains(part), "{part:?} in {full}");
    }
    let left = std::fs::read_to_string(folder.path().join("left.txt")).expect("the list");
    assert!(left.contains("train-000000.tar") && left.contains("pack-unfinished.json"), "{left}");
    assert!(!left.lines().any(|name| name.ends_with(".tmp")), "{left}");
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

#[test]
fn other_programs_read_what_is_packed() {
    let folder = folder();
    pictures(folder.path());
    let (code, stdout, stderr) = outcome(pack(folder.path(), "packed").arg("--json"));
    assert_eq!(code, Some(0), "{stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(report["plan"]["train_samples"], 40);
    let sums = Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(folder.path().join("packed"))
        .output();
    match sums {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(reason) => skip(&format!("no sha256sum: {reason}")),
    }
    // The standard library's own tar reader, and what an index promises: each line's offsets point at the members'
    // content.
    let script = r#"
import glob, tarfile
for path in sorted(glob.glob("packed/*.tar")):
    index = open(path[:-3] + "idx").read().splitlines()
    version, number = index[0].split()
    assert version == "v1.2" and int(number) == len(index) - 1, index[0]
    with tarfile.open(path) as tar, open(path, "rb") as raw:
        members = [m for m in tar.getmembers()]
        listed = [line.split()[i : i + 4] for line in index[1:] for i in range(0, len(line.split()), 4)]
        assert len(members) == len(listed)
        for member, (ending, offset, size, name) in zip(members, listed):
            assert member.isreg() and member.name == name and name.split(".", 1)[1] == ending, name
            assert (member.mtime, member.uid, member.gid) == (0, 0, 0)
            raw.seek(int(offset))
            assert raw.read(int(size)) == tar.extractfile(member).read(), name
            print(name)
"#;
    match Command::new("python3").current_dir(folder.path()).args(["-c", script]).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2 * 50);
        }
        Err(reason) => skip(&format!("no Python: {reason}")),
    }
}

#[test]
fn what_is_packed_trains_and_has_the_classes_of_its_source() {
    let folder = folder();
    let data = pictures(folder.path());
    let (code, _, stderr) = outcome(&mut pack(folder.path(), "packed"));
    assert_eq!(code, Some(0), "{stderr}");
    let open = |path: &Path| kiln::data::open(path, &Default::default()).expect("a data set");
    let (packed, source) = (open(&folder.path().join("packed")), open(&data));
    assert_eq!(packed.train.classes(), source.train.classes());
    let counts = |set: &dyn Dataset| {
        (0..set.len()).fold([0; 10], |mut counts, index| {
            counts[set.label(index) as usize] += 1;
            counts
        })
    };
    assert_eq!(counts(&*packed.train), counts(&*source.train));
    assert_eq!(counts(&*packed.val), counts(&*source.val));

    let mut command = kiln(folder.path());
    command.args(["train", "--data", "packed", "--device", "cpu", "--arch", "resnet18", "--image-size", "32"]);
    command.args(["--batch-size", "8", "--epochs", "1", "--limit-batches", "2", "--output", "run"]);
    let (code, stdout, stderr) = outcome(&mut command);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains("40 training and 10 validation images, 10 classes") && stdout.contains("val top-1"),
        "{stderr}"
    );
}

#[test]
fn what_pack_cannot_do_is_said_with_the_remedy() {
    let folder = folder();
    pictures(folder.path());
    let cases: [(&[&str], i32, &[&str]); 5] = [
        (&["pack", "data", "-o", "data"], 1, &["cannot pack into \"data\"", "new folder"]),
        (&["pack", "nowhere", "-o", "packed"], 1, &["nowhere"]),
        (&["pack", "data", "-o", "packed", "--quality", "0"], 1, &["quality is 0"]),
        (&["pack", "data", "-o", "packed", "--shard-size", "3 parsecs"], 2, &["number of bytes"]),
        (&["pack", "data"], 2, &["--output"]),
    ];
    for (arguments, expected, parts) in cases {
        let (code, _, stderr) = outcome(kiln(folder.path()).args(arguments));
        assert_eq!(code, Some(expected), "{stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{parts:?} in {stderr}");
    }
    assert!(!folder.path().join("packed").exists());
}
