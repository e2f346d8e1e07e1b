//! `kiln inspect` on the shared cases of damaged, misnamed, strange and littered data sets, and on a person's mistakes.
//!
//! The cases are made by `gen_images.py` in the folder that `KILN_CASES_DIR` names, with Python, Pillow and numpy.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use kiln::data::{DecodeOptions, RgbImage, rgb_from_bytes};
use serde_json::Value;

fn kiln(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.current_dir(folder).env_remove("KILN_DEVICE");
    command
}

/// Runs it and gives exit code, standard output and standard error; no outcome may be a panic.
fn outcome(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!stderr.contains("panicked") && !stderr.contains("backtrace"), "{stderr}");
    (status.code(), String::from_utf8_lossy(&stdout).into_owned(), stderr)
}

fn inspected(folder: &Path) -> Value {
    let (code, stdout, stderr) = outcome(kiln(folder).args(["inspect", ".", "--json"]));
    assert_eq!(code, Some(0), "{stderr}");
    serde_json::from_str(&stdout).expect("JSON")
}

/// One case and what it expects; `None`, said aloud, where the cases can't be made.
fn case(name: &str) -> Option<(PathBuf, Value)> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = match BUILT.get_or_init(build) {
        Ok(built) => built,
        Err(reason) => {
            assert!(std::env::var_os("KILN_REQUIRE_CASES").is_none(), "KILN_REQUIRE_CASES is set: {reason}");
            eprintln!("skipped: {reason}");
            return None;
        }
    };
    let folder = built.join(name);
    let expected = std::fs::read_to_string(folder.join("expected.json")).expect("the case's expectation");
    Some((folder, serde_json::from_str(&expected).expect("JSON")))
}

fn build() -> Result<PathBuf, String> {
    let cases =
        std::env::var_os("KILN_CASES_DIR").filter(|value| !value.is_empty()).ok_or("KILN_CASES_DIR is not set")?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cases-inspect");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let script = Path::new(&cases).join("gen_images.py");
    let made = Command::new("python3").arg(script).arg(&folder).env("PYTHONDONTWRITEBYTECODE", "1").output();
    match made {
        Ok(made) if made.status.success() => Ok(folder),
        Ok(made) => Err(format!("the cases can't be made: {}", String::from_utf8_lossy(&made.stderr).trim())),
        Err(error) => Err(format!("python3 does not start: {error}")),
    }
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|value| value.as_str().expect("a string")).collect()
}

fn skipped(found: &Value) -> Vec<(&str, &str)> {
    found["skipped"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|file| (file["path"].as_str().expect("a path"), file["reason"].as_str().expect("a reason")))
        .collect()
}

fn class_names(found: &Value) -> Vec<&str> {
    found["classes"].as_array().expect("a list").iter().map(|class| class["name"].as_str().expect("a name")).collect()
}

fn images(found: &Value, class: &str) -> u64 {
    let classes = found["classes"].as_array().expect("a list");
    let class = classes.iter().find(|found| found["name"] == class).expect("the class");
    class["images"].as_u64().expect("a number")
}

#[test]
fn p09_damaged_files_are_each_named_once_and_no_other() {
    let Some((folder, expected)) = case("p09_damaged") else { return };
    let found = inspected(&folder);
    let mut refused = strings(&expected["must_skip"]);
    // One policy for truncated files: refused, as such.
    let truncated = strings(&expected["policy_truncated"]);
    refused.extend(&truncated);
    refused.sort_unstable();
    let skipped = skipped(&found);
    assert_eq!(skipped.iter().map(|file| file.0).collect::<Vec<_>>(), refused);
    assert!(skipped.iter().all(|(_, reason)| !reason.is_empty()));
    for path in truncated {
        let reason = skipped.iter().find(|file| file.0 == path).expect("it is skipped").1;
        assert!(reason.contains("truncated"), "{path}: {reason}");
    }
    // Six good ones, two that must be accepted, two to validate by; and of b, six and two.
    assert_eq!((images(&found, "a"), images(&found, "b")), (10, 8));
    assert_eq!(found["readable"], 18);

    let (code, stdout, stderr) = outcome(kiln(&folder).args(["inspect", ".", "--strict"]));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(refused.iter().all(|path| stdout.contains(path)), "{stdout}");
    assert_eq!(found, inspected(&folder), "the same verdicts each time");
}

#[test]
fn p10_content_decides_and_what_is_not_supported_is_named() {
    let Some((folder, expected)) = case("p10_wrong_extension") else { return };
    let found = inspected(&folder);
    let skipped = skipped(&found);
    let unsupported = expected["unsupported_named_with_format"].as_object().expect("an object");
    for (path, format) in unsupported {
        let reason = skipped.iter().find(|file| file.0 == path).unwrap_or_else(|| panic!("{path} isn't named")).1;
        let format = format.as_str().expect("a string");
        assert!(format == "other" || reason.contains(format) && reason.contains("convert"), "{path}: {reason}");
    }
    for path in strings(&expected["must_accept"]) {
        let reason = skipped.iter().find(|file| file.0 == path).map(|file| file.1);
        // TIFF may be listed as unsupported, if it is said.
        assert!(reason.is_none_or(|reason| path.contains("tiff") && reason.contains("TIFF")), "{path}: {reason:?}");
    }
    let accepted = strings(&expected["must_accept"]).len() as u64;
    let refused = skipped.len() as u64;
    assert_eq!(images(&found, "a"), accepted + unsupported.len() as u64 - refused);
    assert!(
        strings(&expected["ignored_silently_or_counted"]).iter().all(|path| skipped.iter().all(|file| file.0 != *path))
    );
}

fn decoded(path: &Path) -> RgbImage {
    let bytes = std::fs::read(path).expect("a file");
    rgb_from_bytes(&bytes, &DecodeOptions::default()).unwrap_or_else(|verdict| panic!("{path:?}: {verdict}"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("numbers").iter().map(|number| number.as_f64().expect("a number")).collect()
}

#[test]
fn p11_every_colour_mode_gives_its_colour_and_alpha_lies_on_white() {
    let Some((folder, expected)) = case("p11_colour_modes") else { return };
    let files = expected["files"].as_object().expect("an object");
    assert!(skipped(&inspected(&folder)).is_empty());
    for (path, file) in files {
        let image = decoded(&folder.join(path));
        let mut mean = [0.0; 3];
        for pixel in image.pixels.chunks_exact(3) {
            (0..3).for_each(|channel| mean[channel] += f64::from(pixel[channel]));
        }
        let mean = mean.map(|sum| sum / f64::from(image.width * image.height));
        let wanted = &file["mean_rgb"];
        let wanted = if wanted.is_array() {
            wanted
        } else {
            [&wanted["on_white"], &wanted["like_pillow_assume_adobe"]]
                .into_iter()
                .find(|value| value.is_array())
                .expect("a rule")
        };
        let tolerance = file["tol"].as_f64().expect("a number") + 0.6;
        let near = mean.iter().zip(numbers(wanted)).all(|(found, wanted)| (found - wanted).abs() <= tolerance);
        assert!(near, "{path}: {mean:?}, not {wanted}");
    }
}

#[test]
fn p12_every_orientation_is_upright() {
    let Some((folder, expected)) = case("p12_exif") else { return };
    assert!(skipped(&inspected(&folder)).is_empty());
    for (path, file) in expected["files"].as_object().expect("an object") {
        let image = decoded(&folder.join(path));
        let (width, height) = (image.width, image.height);
        assert_eq!(numbers(&file["size"]), [f64::from(width), f64::from(height)], "{path}");
        let corners = [("tl", 5, 5), ("tr", width - 6, 5), ("bl", 5, height - 6), ("br", width - 6, height - 6)];
        for (corner, x, y) in corners {
            let pixel = &image.pixels[3 * (y * width + x) as usize..][..3];
            let tolerance = file["tol"].as_f64().expect("a number");
            let near = pixel
                .iter()
                .zip(numbers(&file[corner]))
                .all(|(found, wanted)| (f64::from(*found) - wanted).abs() <= tolerance);
            assert!(near, "{path} {corner}: {pixel:?}, not {}", file[corner]);
        }
    }
}

#[test]
fn p13_litter_is_no_class_and_nothing_is_lost_silently() {
    let Some((folder, expected)) = case("p13_litter") else { return };
    let start = std::time::Instant::now();
    let found = inspected(&folder);
    assert!(start.elapsed().as_secs() < 5, "links lead in circles");
    assert_eq!(class_names(&found), strings(&expected["classes"]));
    assert_eq!(Value::from(images(&found, "cat")), expected["cat_accept"]);
    assert_eq!(Value::from(images(&found, "dog")), expected["dog_accept"]["recursive"]);
    let skipped = skipped(&found);
    for path in
        ["train/loose.jpg", "train/cat/dangling.jpg", "train/only_bad/x.jpg", "train/cat/loop", "train/dog/selfloop"]
    {
        assert_eq!(skipped.iter().filter(|file| file.0 == path).count(), 1, "{path} in {skipped:?}");
    }
    assert!(skipped.iter().all(|file| !file.0.contains("hidden") && !file.0.contains("._")), "{skipped:?}");
    let remarks = strings(&found["remarks"]).join("\n");
    assert!(remarks.contains("\"empty_class\"") && remarks.contains("\"only_bad\""), "{remarks}");

    let (code, stdout, _) = outcome(kiln(&folder).args(["inspect", "train"]));
    assert_eq!(code, Some(0));
    assert!(stdout.contains("loose.jpg"), "{stdout}");
    // Training refuses what inspecting leaves out: the person decides.
    let (code, _, stderr) = outcome(kiln(&folder).args(["train", "--device", "cpu", "--data", "."]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("\"empty_class\", \"only_bad\""), "{stderr}");
}

#[test]
fn p14_classes_are_those_of_training_in_byte_order() {
    for (name, remark) in [
        ("p14a_val_missing_class", Some("\"180\"")),
        ("p14b_val_extra_class", Some("\"d\"")),
        ("p14c_numeric_names", None),
        ("p14d_two_classes", None),
        ("p14f_case_dupe", Some("\"Cat\" and \"cat\"")),
    ] {
        let Some((folder, expected)) = case(name) else { return };
        let found = inspected(&folder);
        let indices = expected["class_to_idx"].as_object().expect("an object");
        let classes = class_names(&found);
        assert_eq!(classes.len(), indices.len(), "{name}");
        for (class, index) in indices {
            assert_eq!(Value::from(classes.iter().position(|found| found == class)), *index, "{name} {class}");
        }
        let remarks = strings(&found["remarks"]).join("\n");
        assert!(remark.is_none_or(|remark| remarks.contains(remark)), "{name}: {remarks}");
    }
}

#[test]
fn p14e_one_class_is_refused() {
    let Some((folder, _)) = case("p14e_one_class") else { return };
    let (code, _, stderr) = outcome(kiln(&folder).args(["inspect", ".", "--json"]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("one class folder only, \"only\"") && stderr.contains("at least two"), "{stderr}");
}

/// A folder with a table of three pictures, one of which isn't there.
fn table() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for (name, level) in [("1.png", 10u8), ("2.png", 200)] {
        let mut bytes = b"BM".to_vec();
        // A bitmap of 16x16 pixels of 24 bits: header, its size, and rows.
        bytes.extend([0; 8]);
        bytes.extend(54u32.to_le_bytes());
        bytes.extend(40u32.to_le_bytes());
        bytes.extend([16u32.to_le_bytes(), 16u32.to_le_bytes()].concat());
        bytes.extend([1, 0, 24, 0]);
        bytes.extend([0; 24]);
        bytes.extend((0..768u32).map(|at| level.wrapping_add((at * at % 41) as u8)));
        std::fs::write(root.path().join(name), bytes).expect("a file");
    }
    let rows = "image,label,split\n1.png,a,train\n2.png,b,train\ngone.png,a,train\n2.png,b,val\n";
    std::fs::write(root.path().join("labels.csv"), rows).expect("a file");
    root
}

#[test]
fn a_missing_file_of_a_table_is_quarantined_in_a_list_and_nothing_is_touched() {
    let root = table();
    let (code, stdout, stderr) =
        outcome(kiln(root.path()).args(["inspect", ".", "--deep", "--quarantine", "bad.jsonl", "--page", "page.png"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("format    label file") && stdout.contains("gone.png: "), "{stdout}");
    assert!(stdout.contains("1 groups of the same bytes, 1 of them in both sets"), "{stdout}");
    let list = std::fs::read_to_string(root.path().join("bad.jsonl")).expect("the list");
    let bad: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((bad.len(), &bad[0]["path"]), (1, &Value::from("gone.png")));
    assert!(decoded(&root.path().join("page.png")).height > 200);
    assert_eq!(
        std::fs::read_dir(root.path()).expect("a folder").count(),
        5,
        "two pictures, the table, the list, the page"
    );
}

#[test]
fn a_person_s_mistakes_get_the_name_and_the_way_out() {
    let root = table();
    std::fs::write(root.path().join("notes.txt"), "hello").expect("a file");
    for (arguments, expected) in [
        (&["inspect", "no-such-folder"][..], "check the path"),
        (&["inspect", "notes.txt"], "a file of none of the known formats"),
        (&["inspect", ".", "--page", "page.jpg"], "give its name the ending .png"),
        (&["inspect", ".", "--quarantine", "no/such/list"], "cannot write the list no/such/list"),
        (&["inspect", ".", "--strict"], "--strict allows none"),
    ] {
        let (code, _, stderr) = outcome(kiln(root.path()).args(arguments));
        assert_eq!(code, Some(1), "{arguments:?}");
        assert!(stderr.contains("error: ") && stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}
