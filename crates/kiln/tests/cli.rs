//! The `kiln` command as a person meets it: what it prints, how it ends, what a bad input gets.

use kiln::data::scenes::{self, ScenesConfig};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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

/// A small data set on disk, in folders as a person would have it.
fn pictures(folder: &Path) -> PathBuf {
    let config = ScenesConfig { train_images: 40, val_images: 20, size: 48, ..ScenesConfig::default() };
    scenes::open_or_create(Some(&folder.join("drawn")), &config).expect("drawn");
    let mut found = std::fs::read_dir(folder.join("drawn")).expect("a folder");
    found.find_map(|entry| entry.ok().map(|e| e.path()).filter(|path| path.join("train").is_dir())).expect("the set")
}

/// `kiln train` of a small net, long enough to be stopped.
fn train(folder: &Path, data: &Path, output: &str, epochs: usize) -> Command {
    let mut command = kiln(folder);
    command.args(["train", "--device", "cpu", "--arch", "resnet18", "--image-size", "32", "--batch-size", "8"]);
    command.arg("--data").arg(data).args(["--output", output, "--epochs", &epochs.to_string()]);
    command
}

fn metrics(folder: &Path, output: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join(output).join("metrics.jsonl")).expect("metrics.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

#[test]
fn devices_lists_the_processor_and_says_what_is_chosen() {
    let folder = folder();
    let (code, stdout, stderr) = outcome(kiln(folder.path()).arg("devices"));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("cpu") && stdout.contains("would be used"), "{stdout}");
}

#[test]
fn bench_loader_says_what_bounds_it_and_what_a_gpu_would_need() {
    let folder = folder();
    let data = pictures(folder.path());
    let bench = |arguments: &[&str]| {
        outcome(kiln(folder.path()).args(["bench", "loader"]).arg(&data).args(["--epochs", "3"]).args(arguments))
    };
    let (code, stdout, stderr) = bench(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("40 training images"), "{stderr}");
    for part in ["images/s", "decode", "bound    by ", "RTX 3090"] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
    let (_, stdout, stderr) = bench(&["--json", "--cache", "1GiB", "--device", "cpu", "--image-size", "32"]);
    let report: serde_json::Value = serde_json::from_str(&stdout).expect(&stderr);
    assert_eq!((&report["images"], &report["epochs"]), (&120.into(), &3.into()), "{report}");
    let counters = &report["counters"];
    assert_eq!((&counters["decode"]["images"], &counters["cache"]["images"]), (&40.into(), &80.into()), "{report}");
    assert_eq!(counters["upload"]["images"], 120, "{report}");
    assert!(report["opened_secs"].as_f64().is_some_and(|secs| secs > 0.0), "{report}");

    let (code, _, stderr) = bench(&["--seconds", "0"]);
    assert!(code == Some(1) && stderr.contains("--seconds 0: must be above 0"), "{stderr}");
    let (code, _, stderr) = bench(&["--cache", "lots"]);
    assert!(code == Some(2) && stderr.contains("write it like 2GiB"), "{stderr}");
}

#[test]
fn devices_without_any_vulkan_driver_lists_no_wgpu_device() {
    let folder = folder();
    let mut command = kiln(folder.path());
    let (code, stdout, stderr) = outcome(command.args(["devices", "--json"]).env("VK_DRIVER_FILES", "/dev/null"));
    assert_eq!(code, Some(0), "{stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert!(!report["devices"].as_array().expect("a list").is_empty());
    if cfg!(target_os = "linux") {
        assert!(!stdout.contains("\"wgpu:"), "{stdout}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn measurements_are_kept_for_the_next_time() {
    let folder = folder();
    let measure = || {
        let mut command = kiln(folder.path());
        // The processor alone: a GPU would compile kernels for minutes.
        command.env("CUDA_VISIBLE_DEVICES", "").env("VK_DRIVER_FILES", "/nowhere").env("VK_ICD_FILENAMES", "/nowhere");
        let (code, stdout, stderr) = outcome(command.args(["devices", "--measure", "--json"]));
        assert_eq!(code, Some(0), "{stderr}");
        let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        let measured = report["measured"].as_array().expect("a list");
        measured.iter().find(|row| row["request"] == "cpu").expect("the processor").clone()
    };
    let (first, second) = (measure(), measure());
    assert_eq!((first["cached"].as_bool(), second["cached"].as_bool()), (Some(false), Some(true)));
    assert_eq!(first["speed"], second["speed"]);
    for figure in ["copy_gb_per_sec", "matmul_gflops", "conv_gflops", "launch_micros"] {
        assert!(first["speed"][figure].as_f64().is_some_and(|value| value > 0.0), "{figure} in {first}");
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error_that_lists_what_is() {
    let folder = folder();
    for (device, built) in [("cuda:99", cfg!(feature = "cuda")), ("wgpu:99", cfg!(feature = "wgpu"))] {
        let (code, _, stderr) = outcome(kiln(folder.path()).args(["devices", "--device", device]));
        assert_eq!(code, Some(1));
        assert!(stderr.starts_with("error: "), "{stderr}");
        assert!(stderr.contains(if built { "cpu" } else { "feature" }), "{stderr}");
    }
}

#[test]
fn a_device_that_does_not_exist_is_refused_with_the_names_that_do() {
    let folder = folder();
    let (code, _, stderr) = outcome(kiln(folder.path()).args(["train", "--device", "cude"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("cuda"), "{stderr}");
}

#[test]
fn a_missing_data_folder_is_named() {
    let folder = folder();
    let (code, _, stderr) = outcome(kiln(folder.path()).args(["train", "--device", "cpu", "--data", "no-such-folder"]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("no-such-folder") && !stderr.contains("panicked"), "{stderr}");
}

#[test]
fn strict_training_names_every_file_it_would_leave_out_and_does_not_begin() {
    let folder = folder();
    let data = pictures(folder.path());
    let strict =
        |data: &Path| outcome(train(folder.path(), data, "out", 1).args(["--strict", "--recipe", "gone.toml"]));
    // All files are of use, so that the next mistake is what ends it.
    let (code, _, stderr) = strict(&data);
    assert!(code == Some(1) && stderr.contains("gone.toml"), "{stderr}");

    let class = std::fs::read_dir(data.join("train")).expect("classes").next().expect("a class").expect("one").path();
    let picture = std::fs::read_dir(&class).expect("pictures").next().expect("a picture").expect("one").path();
    let whole = std::fs::read(picture).expect("a picture");
    std::fs::write(class.join("cut.png"), &whole[..whole.len() / 2]).expect("written");
    std::fs::write(class.join("page.jpg"), "<html></html>").expect("written");
    let (code, _, stderr) = strict(&data);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("/cut.png: ") && stderr.contains("/page.jpg: "), "{stderr}");
    assert!(stderr.contains("2 files of") && stderr.contains("--strict allows none"), "{stderr}");
    assert_eq!(stderr.matches("unusable").count(), 2, "{stderr}");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn resuming_when_there_is_no_run_says_so() {
    let folder = folder();
    let data = pictures(folder.path());
    let mut command = kiln(folder.path());
    let (code, _, stderr) = outcome(command.args(["train", "--device", "cpu", "--resume", "--data"]).arg(data));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("no run") && stderr.contains("--output"), "{stderr}");
}

#[test]
fn a_run_killed_in_its_second_epoch_and_resumed_ends_like_one_that_was_not() {
    let folder = folder();
    let data = pictures(folder.path());
    let (code, stdout, stderr) = outcome(&mut train(folder.path(), &data, "whole", 3));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("val top-1"), "{stdout}");

    let mut child = train(folder.path(), &data, "killed", 3).stderr(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("epoch 1/3")), "the first epoch ends");
    child.kill().expect("killed");
    child.wait().expect("ended");

    let (code, _, stderr) = outcome(train(folder.path(), &data, "killed", 3).arg("--resume"));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("resumed  after epoch"), "{stderr}");

    let (whole, resumed) = (metrics(folder.path(), "whole"), metrics(folder.path(), "killed"));
    assert_eq!((whole.len(), resumed.len()), (3, 3));
    for key in ["epoch", "train_loss", "train_top1", "val_loss", "val_top1", "val_top5"] {
        assert_eq!(whole[2][key], resumed[2][key], "{key}");
        assert!(whole[2][key].is_number(), "{key}");
    }
}

#[test]
fn a_run_folder_in_use_is_not_overwritten() {
    let folder = folder();
    let data = pictures(folder.path());
    let first = outcome(train(folder.path(), &data, "run", 1).args(["--limit-batches", "1"]));
    assert_eq!(first.0, Some(0), "{}", first.2);
    let before = metrics(folder.path(), "run");
    let (code, _, stderr) = outcome(&mut train(folder.path(), &data, "run", 1));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("run") && stderr.contains("--resume"), "{stderr}");
    assert_eq!(metrics(folder.path(), "run"), before);
}

#[test]
fn a_trained_file_starts_another_run_and_a_wrong_one_is_refused_with_what_to_do() {
    let folder = folder();
    let data = pictures(folder.path());
    let short = ["--limit-batches", "1"];
    let first = outcome(train(folder.path(), &data, "first", 1).args(short));
    assert_eq!(first.0, Some(0), "{}", first.2);
    let weights = folder.path().join("first/checkpoints/best.safetensors");

    let mut command = train(folder.path(), &data, "second", 1);
    let (code, _, stderr) = outcome(command.args(short).arg("--weights").arg(&weights).args(["--freeze", "body"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("weights  122 tensors of"), "{stderr}");

    // The same pictures under other names.
    let renamed = folder.path().join("renamed");
    for split in ["train", "val"] {
        for entry in std::fs::read_dir(data.join(split)).expect("classes").flatten().take(2) {
            let class = renamed.join(split).join(format!("my-{}", entry.file_name().to_string_lossy()));
            std::fs::create_dir_all(&class).expect("a folder");
            for file in std::fs::read_dir(entry.path()).expect("pictures").flatten() {
                std::fs::copy(file.path(), class.join(file.file_name())).expect("a copy");
            }
        }
    }
    let (code, _, stderr) = outcome(train(folder.path(), &renamed, "third", 1).arg("--weights").arg(&weights));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("my-") && stderr.contains("bicycle") && stderr.contains("--reinit-head"), "{stderr}");

    let mut command = train(folder.path(), &renamed, "third", 1);
    let (code, _, stderr) = outcome(command.args(short).arg("--weights").arg(&weights).arg("--reinit-head"));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("not used: fc.weight, fc.bias"), "{stderr}");

    let mut command = kiln(folder.path());
    command.args(["train", "--device", "cpu", "--arch", "resnet50", "--image-size", "32", "--batch-size", "8"]);
    let (code, _, stderr) = outcome(command.arg("--data").arg(&data).arg("--weights").arg(&weights));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("missing: layer1.0.conv3.weight"), "{stderr}");
}

#[test]
fn models_lists_every_network_with_what_it_costs() {
    let folder = folder();
    let (code, stdout, stderr) = outcome(kiln(folder.path()).args(["models", "--json", "--batch", "2"]));
    assert_eq!(code, Some(0), "{stderr}");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(rows.len(), kiln::model::Arch::ALL.len());
    let resnet50 = rows.iter().find(|row| row["arch"] == "resnet50").expect("listed");
    assert_eq!(resnet50["parameters"], 25_557_032);
    assert!(resnet50["training_bytes"].as_u64() > resnet50["activation_bytes"].as_u64());
    let (_, stdout, _) = outcome(kiln(folder.path()).args(["models", "--arch", "resnet18"]));
    assert!(stdout.contains("11.69 M") && stdout.contains("1.81") && !stdout.contains("resnet50"), "{stdout}");
}

#[test]
fn weights_are_exported_as_onnx_and_a_file_that_does_not_say_its_network_is_asked_for_it() {
    let folder = folder();
    let data = pictures(folder.path());
    let trained = outcome(train(folder.path(), &data, "run", 1).args(["--limit-batches", "1"]));
    assert_eq!(trained.0, Some(0), "{}", trained.2);
    let weights = "run/checkpoints/best.safetensors";
    let (code, stdout, stderr) = outcome(kiln(folder.path()).args(["export", weights, "--onnx", "model.onnx"]));
    assert_eq!((code, stdout.trim()), (Some(0), "model.onnx"), "{stderr}");
    let bytes = std::fs::read(folder.path().join("model.onnx")).expect("written");
    let contains = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    assert!(contains(b"layer4.1.conv2.bias") && contains(b"bicycle"), "folded norms and classes");

    let bare = [("conv1.weight".to_string(), burn::tensor::TensorData::new(vec![0f32], [1]))];
    let bare = kiln::model::safetensors_from_state(&bare, &kiln::model::Metadata::new()).expect("plain types");
    std::fs::write(folder.path().join("bare.safetensors"), bare).expect("written");
    let (code, _, stderr) = outcome(kiln(folder.path()).args(["export", "bare.safetensors", "--onnx", "x.onnx"]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("--arch") && stderr.contains("bare.safetensors"), "{stderr}");
}

#[test]
fn weights_lists_files_with_their_source_and_terms() {
    let folder = folder();
    let (code, stdout, stderr) = outcome(kiln(folder.path()).args(["weights", "--arch", "resnet50"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("resnet50-v2") && stdout.contains("80.86") && stdout.contains("ImageNet"), "{stdout}");
    assert!(!stdout.contains("resnet18"), "{stdout}");
}

/// A recipe of strong augmentations of small images.
const RECIPE: &str = "[run]\nseed = 7\n[augment]\nimage_size = 40\nmix = { cutmix_alpha = 1.0 }\n\
    [[augment.train]]\nop = 'rand_augment'\n[[augment.train]]\nop = 'random_erasing'\nprobability = 0.5\n";

#[test]
fn preview_writes_a_picture_of_the_recipe_s_augmentation() {
    let folder = folder();
    let data = pictures(folder.path());
    std::fs::write(folder.path().join("my.toml"), RECIPE).expect("written");
    let preview = |file: &str, more: &[&str]| {
        let mut command = kiln(folder.path());
        command.arg("preview").arg(&data).args(["--recipe", "my.toml", "--device", "cpu", "--images", "3", "-o", file]);
        let (code, stdout, stderr) = outcome(command.args(["--draws", "2"]).args(more));
        assert_eq!(code, Some(0), "{stderr}");
        (stdout, std::fs::read(folder.path().join(file)).expect("the picture"))
    };
    let (stdout, png) = preview("grid.png", &[]);
    let picture = kiln::data::rgb_from_bytes(&png, &Default::default()).expect("a PNG");
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    let size = format!("grid.png: {}x{} pixels, 3 images", picture.width, picture.height);
    for part in [size.as_str(), "my.toml", "seed 7"] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
    assert!(preview("again.png", &["--seed", "7"]).1 == png, "the same seed, the same bytes");
    assert!(preview("other.png", &["--epoch", "2"]).1 != png, "another epoch, other draws");
}

#[test]
fn preview_says_what_it_cannot_do() {
    let folder = folder();
    let data = pictures(folder.path());
    std::fs::write(folder.path().join("my.toml"), RECIPE.replace("rand_augment", "rand_augmnt")).expect("written");
    let cases: [(&[&str], &[&str]); 5] = [
        (&["--recipe", "my.toml"], &["my.toml", "line 6", "did you mean `rand_augment`?"]),
        (&["--recipe", "fine-tine"], &["did you mean `fine-tune`?"]),
        (&["-o", "no/such/folder.png"], &["no/such/folder.png", "choose another path"]),
        (&["-o", "grid.jpg"], &["grid.jpg", ".png"]),
        (&["--images", "0"], &["images is 0"]),
    ];
    for (arguments, parts) in cases {
        let (code, _, stderr) =
            outcome(kiln(folder.path()).arg("preview").arg(&data).args(["--device", "cpu"]).args(arguments));
        assert_eq!(code, Some(1), "{stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{parts:?} in {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

#[test]
fn a_recipe_of_either_form_is_trained_with_the_settings_that_overrule_it() {
    let folder = folder();
    let data = pictures(folder.path());
    let json =
        r#"{"data": {"batch_size": 4}, "model": {"arch": "resnet18"}, "optimizer": {"lr": 0.1, "lr_base_size": 256}}"#;
    std::fs::write(folder.path().join("my.json"), json).expect("written");
    let mut command = kiln(folder.path());
    command.args(["train", "--device", "cpu", "--recipe", "my.json", "--output", "run", "--epochs", "1"]).arg("--data");
    command.arg(&data).args(["--limit-batches", "1", "--set", "model.width=4", "--set", "augment.image_size=32"]);
    let (code, _, stderr) = outcome(command.args(["--set", "data.batch_size=8", "--set", "ema.decay=0.9"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("learning rate 0.003125 = 0.1 x 8 / 256"), "{stderr}");
    let stored = std::fs::read_to_string(folder.path().join("run/recipe.toml")).expect("the resolved recipe");
    for line in ["batch_size = 8", "width = 4", "decay = 0.9", "lr_base_size = 256", "patience = 0"] {
        assert!(stored.contains(line), "{line} in {stored}");
    }
    let line = &metrics(folder.path(), "run")[0];
    for figure in ["val_f1_macro", "val_balanced_accuracy", "val_ece"] {
        assert!(line[figure].as_f64().is_some_and(|value| (0.0..=1.0).contains(&value)), "{figure} in {line}");
    }
    let classes = std::fs::read_to_string(folder.path().join("run/classes.csv")).expect("figures of the classes");
    assert_eq!(classes.lines().count(), 11, "{classes}");
}

#[test]
fn every_mistake_in_settings_is_named_at_once() {
    let folder = folder();
    let mut command = kiln(folder.path());
    command.args(["train", "--device", "cpu", "--set", "optimizer.lrr=1", "--set", "loss.label_smoothing=2"]);
    let (code, _, stderr) = outcome(&mut command);
    assert_eq!(code, Some(1));
    for part in ["optimizer.lrr", "did you mean `lr`?", "loss.label_smoothing = 2"] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
    let (code, _, stderr) = outcome(kiln(folder.path()).args(["train", "--set", "lr"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("optimizer.lr=0.5"), "{stderr}");
}

#[test]
fn lr_find_says_what_it_suggests_and_plots_it() {
    let folder = folder();
    let data = pictures(folder.path());
    let mut command = kiln(folder.path());
    command.args(["lr-find", "--device", "cpu", "--arch", "resnet18", "--image-size", "32", "--batch-size", "8"]);
    command.arg("--data").arg(&data).args(["--set", "model.width=4", "--steps", "6", "--start-lr", "1e-3"]);
    let (code, stdout, stderr) = outcome(command.args(["--end-lr", "1", "--plot", "lr.svg"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("suggest") && stdout.contains("wrote lr.svg"), "{stdout}");
    assert!(stderr.matches("smoothed").count() <= 6 && stderr.contains("lr 1.000e-3"), "{stderr}");
    let picture = std::fs::read_to_string(folder.path().join("lr.svg")).expect("the plot");
    assert!(picture.contains("learning rate") && picture.contains("<polyline"), "{picture}");
    let mut command = kiln(folder.path());
    let (code, _, stderr) = outcome(
        command.args(["lr-find", "--device", "cpu", "--start-lr", "1", "--end-lr", "0.1", "--data"]).arg(&data),
    );
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("both must be above 0"), "{stderr}");
}
