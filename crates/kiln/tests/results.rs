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

#[test]
fn eval_judges_by_name_and_leaves_a_page_and_pictures() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = kiln(finished());
    command.args(["eval", "run", "--json", "--worst", "3", "--output"]).arg(folder.path());
    let (code, stdout, stderr) = outcome(&mut command);
    assert_eq!(code, Some(0), "{stderr}");
    let found: Value = serde_json::from_str(&stdout).expect("JSON");
    let numbers = ["num_images", "loss", "top1", "top5", "balanced_accuracy", "f1_macro", "ece", "secs"];
    let lists = ["classes", "confusion", "calibration", "worst", "samples", "skipped"];
    let schema: Vec<_> = numbers.map(|key| (key, "number")).into_iter().chain(lists.map(|key| (key, "list"))).collect();
    assert_schema(&found, &[schema, vec![("weights", "text")]].concat());
    let class =
        [("name", "text"), ("images", "number"), ("precision", "number"), ("recall", "number"), ("f1", "number")];
    assert_schema(&found["classes"][0], &class);
    let pairs = found["confusion"].as_array().expect("a list");
    let counts = pairs.iter().map(|pair| pair["count"].as_u64().expect("a count"));
    assert_eq!((found["num_images"].as_u64(), counts.sum::<u64>()), (Some(20), 20));
    assert_eq!(found["worst"].as_array().map(Vec::len), Some(3));
    for name in ["evaluation.html", "evaluation.json", "confusion.svg", "calibration.svg"] {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
    let worst = folder.path().join(format!("pictures/{}.jpg", found["worst"][0]["sample"]));
    let photo = kiln::data::rgb_from_bytes(&std::fs::read(worst).expect("a picture"), &Default::default());
    assert_eq!(photo.expect("a JPEG").width, 48);

    // What it says is what the validation of the run's best epoch said.
    let metrics = std::fs::read_to_string(finished().join("run/metrics.jsonl")).expect("the record");
    let lines: Vec<Value> = metrics.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().any(|line| line["val_top1"].is_number()));
}

#[test]
fn eval_says_what_it_cannot_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for class in ["train/house", "train/zebra", "val/zebra", "val/house"] {
        std::fs::create_dir_all(folder.path().join(class)).expect("a folder");
        std::fs::copy(picture(), folder.path().join(class).join("a.jpg")).expect("a copy");
    }
    let foreign = folder.path().to_str().expect("a path");
    assert_refused(&[
        (&["eval", "run", "--data", foreign], 1, &["zebra", "doesn't tell apart", "house"]),
        (&["eval", "run", "--data", "no-such-data"], 1, &["no-such-data"]),
        (&["eval", "run/checkpoints/best.safetensors"], 1, &["--data"]),
        (&["eval", "run", "--split", "vall"], 2, &["'val'"]),
    ]);
}

/// The shared run with an evaluation, copied, so that its folder may be written to.
fn evaluated() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = folder.path().join("run");
    std::fs::create_dir_all(run.join("checkpoints")).expect("a folder");
    for name in ["metrics.jsonl", "recipe.toml", "starts.jsonl", "checkpoints/best.safetensors"] {
        std::fs::copy(finished().join("run").join(name), run.join(name)).expect("a copy");
    }
    let (code, stdout, stderr) = outcome(kiln(folder.path()).args(["eval", "run"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("20 pictures: top-1") && stdout.contains("precision"), "{stdout}");
    folder
}

#[test]
fn report_is_one_page_that_needs_nothing_else() {
    let folder = evaluated();
    let (code, stdout, stderr) = outcome(kiln(folder.path()).args(["report", "run", "--json"]));
    assert_eq!(code, Some(0), "{stderr}");
    let said: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_schema(&said, &[("html", "text"), ("markdown", "text"), ("left_out", "list")]);
    assert_eq!(said["left_out"].as_array().map(Vec::len), Some(0), "{said}");
    let html = std::fs::read_to_string(folder.path().join("run/report.html")).expect("the page");
    let own = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for outside in ["http://", "https://", "<script", "url(", "src=\"/", "src=\"file"] {
        assert!(!own.contains(outside), "{outside} in the page");
    }
    assert!(html.matches("<svg ").count() >= 6, "curves, time, confusion, calibration");
    for part in ["Using the CPU", "Who is taken for whom", "Most wrong", "kiln train", "data:image/jpeg;base64"] {
        assert!(html.contains(part), "{part}");
    }
    let text = std::fs::read_to_string(folder.path().join("run/report.md")).expect("the text");
    assert!(text.contains("| best top-1, epoch") && text.contains("```toml"), "{text}");

    let compared = outcome(kiln(folder.path()).args(["report", "--compare", "run"]).arg(finished().join("run")));
    assert_eq!(compared.0, Some(0), "{}", compared.2);
    let html = std::fs::read_to_string(folder.path().join("comparison.html")).expect("the page");
    assert!(html.contains("Validation accuracy") && html.contains("images a second"));
    look_at(&folder.path().join("run/report.html"));
}

/// Opens a page in headless Chromium at a telephone's width: charts are there, nothing is asked of anyone, nothing scrolls
/// sideways, and the console is silent. Says that it did nothing where there is no Chromium.
fn look_at(page: &Path) {
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()))
    else {
        assert!(std::env::var_os("KILN_REQUIRE_CHROMIUM").is_none(), "KILN_REQUIRE_CHROMIUM is set and there is none");
        eprintln!("skipped: no Chromium to open the report with");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The page under test sits in a frame of a telephone's width, and the frame's own script says what it measured.
    let probe = folder.path().join("probe.html");
    let script = "<!doctype html><iframe id=f width=390 height=844 style='border:0'></iframe><pre id=o></pre><script>\
        f.onload=()=>{const d=f.contentDocument,e=d.documentElement;\
        o.textContent='measured '+JSON.stringify({scroll:e.scrollWidth,charts:d.querySelectorAll('svg[role=img]').length,\
        flat:[...d.querySelectorAll('svg[role=img]')].filter(s=>s.getBoundingClientRect().height<20).length,\
        asked:f.contentWindow.performance.getEntriesByType('resource').filter(r=>!r.name.startsWith('data:')).length})};\
        f.src='PAGE'</script>";
    std::fs::write(&probe, script.replace("PAGE", &format!("file://{}", page.display()))).expect("written");
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        "--enable-logging=stderr",
    ]);
    command
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().display()));
    let (_, dom, log) = outcome(command.arg(format!("file://{}", probe.display())));
    let measured =
        dom.split("<pre id=\"o\">measured ").nth(1).and_then(|rest| rest.split('<').next()).expect("a measurement");
    let measured: Value =
        serde_json::from_str(&measured.replace("&quot;", "\"")).unwrap_or_else(|_| panic!("{dom}\n{log}"));
    // The bar that scrolls it down takes some of the width.
    assert!(measured["scroll"].as_u64() <= Some(390), "the page scrolls sideways: {measured}");
    assert!(measured["charts"].as_u64() >= Some(6) && measured["flat"] == 0, "{measured}");
    assert_eq!(measured["asked"], 0, "{measured}");
    assert!(!log.contains("CONSOLE"), "{log}");
}

#[test]
fn report_says_what_it_cannot_do() {
    assert_refused(&[
        (&["report", "data"], 1, &["no run folder", "data"]),
        (&["report", "run", "--output", "no/such/folder"], 1, &["no/such/folder"]),
        (&["report", "--compare", "run"], 2, &["--compare"]),
        (&["report"], 2, &["RUN"]),
    ]);
}

#[test]
fn resume_needs_the_folder_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = folder.path().join("run");
    let copied = Command::new("cp").arg("-r").arg(finished().join("run")).arg(&run).status();
    assert!(copied.is_ok_and(|status| status.success()), "copied");
    let (code, stdout, stderr) = outcome(kiln(folder.path()).args(["resume", "run", "--epochs", "3"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("after epoch 3") && stderr.contains("resumed  after epoch 2"), "{stdout}{stderr}");
    let starts = std::fs::read_to_string(run.join("starts.jsonl")).expect("the starts");
    assert_eq!(starts.lines().count(), 2);
    let start: Value = serde_json::from_str(starts.lines().last().expect("a line")).expect("JSON");
    assert_eq!(start["first_epoch"], 3);
    assert_refused(&[
        (&["resume", "data"], 1, &["no run in data", "recipe.toml"]),
        (&["resume"], 2, &["RUN"]),
        (&["resume", "run", "--epochs", "many"], 2, &["--epochs"]),
    ]);
}

#[test]
fn recipes_are_listed_and_shown() {
    let (code, stdout, stderr) = outcome(kiln(finished()).args(["recipes", "--json"]));
    assert_eq!(code, Some(0), "{stderr}");
    let rows: Vec<Value> = serde_json::from_str(&stdout).expect("JSON");
    assert!(rows.len() >= 12, "{stdout}");
    for row in &rows {
        let texts = ["name", "published", "hardware", "source", "arch"].map(|key| (key, "text"));
        assert_schema(row, &[&texts[..], &[("epochs", "number"), ("image_size", "number")]].concat());
    }
    let (code, text, _) = outcome(kiln(finished()).args(["recipes", "fine-tune"]));
    assert!(code == Some(0) && kiln::train::Recipe::from_toml(&text).is_ok(), "{text}");
    assert_refused(&[
        (&["recipes", "fine-tine"], 1, &["did you mean `fine-tune`?"]),
        (&["recipes", "a", "b"], 2, &["'b'"]),
        (&["recipes", "--josn"], 2, &["--json"]),
    ]);
}
