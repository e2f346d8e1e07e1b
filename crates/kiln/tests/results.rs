//! The command around a finished run: what it says of pictures and of itself, how it ends, what a bad input gets.

use kiln::data::scenes::{self, ScenesConfig};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The command, away from the user's own cache and settings.
fn kiln(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.current_dir(folder).env("KILN_CACHE_DIR", folder.join("cache")).env("KILN_DEVICE", "cpu");
    command
}

/// Runs it and gives exit code, standard output and standard error.
fn outcome(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    (status.code(), String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned())
}

/// A folder with a run of one epoch, `run`, and its data, `data`, shared by all tests, which only read them.
fn finished() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let config = ScenesConfig { train_images: 40, val_images: 20, size: 48, ..ScenesConfig::default() };
            scenes::open_or_create(Some(&folder.path().join("drawn")), &config).expect("drawn");
            let drawn = std::fs::read_dir(folder.path().join("drawn")).expect("a folder");
            let set = drawn.flatten().map(|entry| entry.path()).find(|path| path.join("train").is_dir());
            std::fs::rename(set.expect("the set"), folder.path().join("data")).expect("renamed");
            let mut train = kiln(folder.path());
            train.args(["train", "--data", "data", "--arch", "resnet18", "--image-size", "32", "--batch-size", "8"]);
            let (code, _, stderr) = outcome(train.args(["--epochs", "2", "--limit-batches", "2", "--output", "run"]));
            assert_eq!(code, Some(0), "{stderr}");
            folder
        })
        .path()
}

/// Some picture of the validation set.
fn picture() -> PathBuf {
    let found = kiln::data::picture_files(&finished().join("data/val/house")).expect("pictures");
    found.into_iter().next().expect("a picture")
}

/// Asserts that a JSON object has these keys, each with a value of this kind: "text", "number", "list".
fn assert_schema(object: &Value, keys: &[(&str, &str)]) {
    for (key, kind) in keys {
        let value = &object[*key];
        let fits = match *kind {
            "text" => value.is_string(),
            "number" => value.is_number(),
            _ => value.is_array(),
        };
        assert!(fits, "{key} is no {kind} in {object}");
    }
    let expected: Vec<_> = keys.iter().map(|(key, _)| *key).collect();
    let foreign = object.as_object().expect("an object").keys().find(|key| !expected.contains(&key.as_str()));
    assert_eq!(foreign, None, "in {object}");
}

/// Asserts that each command line ends with its code and an error that has its words, without a panic.
fn assert_refused(cases: &[(&[&str], i32, &[&str])]) {
    for (arguments, code, words) in cases {
        let (got, stdout, stderr) = outcome(kiln(finished()).args(*arguments));
        assert_eq!(got, Some(*code), "{arguments:?}: {stderr}");
        assert!(stdout.is_empty(), "{arguments:?} wrote results: {stdout}");
        assert!(words.iter().all(|word| stderr.contains(word)), "{words:?} in {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains('\u{1b}'), "{stderr}");
    }
}

#[test]
fn predict_answers_a_folder_in_all_its_forms() {
    let predict = |more: &[&str]| {
        let mut command = kiln(finished());
        let (code, stdout, stderr) =
            outcome(command.args(["predict", "run", "data/val/house", "data/val/fish"]).args(more));
        assert_eq!(code, Some(0), "{stderr}");
        stdout
    };
    let lines: Vec<Value> =
        predict(&["--json", "--top", "3"]).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 4);
    for line in &lines {
        assert_schema(line, &[("file", "text"), ("predictions", "list")]);
        let guesses = line["predictions"].as_array().expect("a list");
        assert_eq!(guesses.len(), 3);
        for guess in guesses {
            assert_schema(guess, &[("class", "text"), ("index", "number"), ("probability", "number")]);
        }
        assert!(guesses[0]["probability"].as_f64() >= guesses[1]["probability"].as_f64());
    }
    let best = lines[0]["predictions"][0]["class"].as_str().expect("a name").to_owned();
    let csv = predict(&["--csv", "--top", "1"]);
    assert_eq!(csv.lines().next(), Some("file,rank,class,index,probability,error"));
    assert_eq!(csv.lines().nth(1).expect("a line").split(',').nth(2), Some(best.as_str()));
    let table = predict(&["--batch-size", "3"]);
    assert!(table.lines().count() == 4 && table.contains(&best) && !table.contains('\u{1b}'), "{table}");
}

#[test]
fn predict_names_files_it_cannot_use_and_answers_the_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::copy(picture(), folder.path().join("good.jpg")).expect("a copy");
    std::fs::write(folder.path().join("bad.jpg"), "<html>not found</html>").expect("a file");
    let mut command = kiln(folder.path());
    command.arg("predict").arg(finished().join("run")).args(["bad.jpg", "*.jpg", "gone.png", "--json"]);
    let (code, stdout, stderr) = outcome(&mut command);
    assert_eq!(code, Some(3), "{stderr}");
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let failed: Vec<bool> = lines.iter().map(|line| line.get("error").is_some()).collect();
    assert_eq!(failed, [true, true, false, true], "{stdout}");
    assert!(stderr.contains("bad.jpg") && stderr.contains("gone.png") && !stderr.contains("good.jpg"), "{stderr}");

    let mut command = kiln(folder.path());
    command.arg("predict").arg(finished().join("run")).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    child.stdin.take().expect("piped").write_all(b"good.jpg\n\n").expect("written");
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
}

#[test]
fn predict_shows_where_the_network_looked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = kiln(folder.path());
    let file = picture();
    command.arg("predict").arg(finished().join("run")).args([&file, &file]).args(["--gradcam", "out/maps"]);
    let (code, _, stderr) = outcome(&mut command);
    assert_eq!(code, Some(0), "{stderr}");
    let stem = file.file_stem().expect("a name").to_string_lossy().into_owned();
    for name in [format!("{stem}.png"), format!("{stem}-2.png")] {
        let png = std::fs::read(folder.path().join("out/maps").join(name)).expect("a map");
        let map = kiln::data::rgb_from_bytes(&png, &Default::default()).expect("a PNG");
        assert_eq!((map.width, map.height), (448, 224), "a 32 px image and its map, enlarged");
    }
}

#[test]
fn predict_says_what_it_cannot_do() {
    assert_refused(&[
        (&["predict", "no-such-run", "x.jpg"], 1, &["no-such-run"]),
        (&["predict", "data", "x.jpg"], 1, &["no trained network", "best.safetensors"]),
        (&["predict", "run", "*.nothing"], 1, &["no file matches", "*.nothing"]),
        (&["predict", "run", "gone.jpg"], 1, &["gone.jpg", "none of the 1 files"]),
        (&["predict", "run"], 2, &["INPUT"]),
        (&["predict", "run", "x.jpg", "--top", "0"], 2, &["--top"]),
        (&["predict", "run", "x.jpg", "--jsno"], 2, &["--json"]),
    ]);
}
