//! `kiln doctor` on machines that this one is not: fake drivers and fake `/sys` and `/proc` in a private mount namespace,
//! and on libraries that are damaged, foreign or never answer.
//!
//! The fake machines are made from the cases in `KILN_CASES_DIR`. Where that isn't set, or the system allows no
//! namespaces, those tests say that they did nothing, and fail if `KILN_REQUIRE_CASES` is set, as CI does.
#![cfg(target_os = "linux")]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};
use support::{Case, LD, case, kiln, outcome};

/// The longest an examination may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The check called `id` in the doctor's JSON.
fn check<'a>(report: &'a serde_json::Value, id: &str) -> &'a serde_json::Value {
    let checks = report["checks"].as_array().expect("a list of checks");
    checks.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("a check {id} in {report:#}"))
}

/// Runs the doctor in a case and gives exit code and JSON.
fn examine(case: &Case) -> (Option<i32>, serde_json::Value) {
    let started = Instant::now();
    let (code, stdout, stderr) = outcome(case.kiln().args(["doctor", "--json"]));
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
    assert!(!stderr.contains("panicked"), "{stderr}");
    (code, serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}")))
}

/// What the case wants to be said.
fn mentions_all(case: &Case, text: &str) {
    // The text is broken into lines at words.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in case.expected["must_mention"].as_array().into_iter().flatten() {
        let wanted = wanted.as_str().expect("text");
        assert!(text.contains(wanted), "{wanted:?} in {text}");
    }
    for unwanted in case.expected["must_not_mention"].as_array().into_iter().flatten() {
        assert!(!text.contains(unwanted.as_str().expect("text")), "{unwanted} in {text}");
    }
}

#[cfg(feature = "cuda")]
#[test]
fn p01_a_driver_that_is_too_old_is_named_with_the_versions_needed() {
    let Some(case) = case("p01_driver_too_old") else { return };
    let (code, report) = examine(&case);
    assert_eq!(code, Some(1));
    let version = check(&report, "driver_version");
    assert_eq!((&version["status"], &version["code"]), (&"fail".into(), &case.expected["code"]));
    assert!(!report["chosen"]["device"].as_str().expect("a device").starts_with("cuda"), "{report:#}");
    let (_, text, _) = outcome(case.kiln().arg("doctor"));
    mentions_all(&case, &text);
    assert!(text.contains("verdict  NVIDIA driver 470.256.02"), "{text}");
}

#[test]
fn p02_a_card_without_a_driver_is_one_card_and_the_cause() {
    let Some(case) = case("p02_no_driver") else { return };
    let case = case.without_libraries();
    let (code, report) = examine(&case);
    assert_eq!(code, Some(1));
    assert_eq!(check(&report, "kernel_driver")["code"], case.expected["code"]);
    assert!(report["verdict"]["cause"].as_str().expect("text").contains("10de:25a2"), "{report:#}");
    let (_, text, stderr) = outcome(case.kiln().arg("doctor"));
    mentions_all(&case, &format!("{text}{stderr}"));

    let (code, stdout, _) = outcome(case.kiln().args(["devices", "--json"]));
    assert_eq!(code, Some(0));
    let devices: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let nvidia = devices["devices"].as_array().expect("a list").iter().filter(|row| row["bus"]["vendor"] == 0x10de);
    assert_eq!(nvidia.count(), 1, "{devices:#}");
}

#[test]
fn p02b_nouveau_is_no_driver_for_training() {
    let Some(case) = case("p02b_nouveau") else { return };
    let case = case.without_libraries();
    let (code, report) = examine(&case);
    assert_eq!(code, Some(1));
    assert_eq!(check(&report, "kernel_driver")["code"], case.expected["code"]);
    let (_, text, _) = outcome(case.kiln().arg("doctor"));
    mentions_all(&case, &text);
}

#[cfg(feature = "cuda")]
#[test]
fn p03_the_visible_cards_are_those_of_the_driver_and_hidden_ones_are_not_missing() {
    let Some(case) = case("p03_cuda_visible_devices") else { return };
    let uuids = ["GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-8932aa00-d72c-4106-c12f-20bd9faed9f6"];
    for (value, expected) in case.expected["matrix"].as_object().expect("a table") {
        let mut command = case.kiln();
        command.args(["devices", "--json"]);
        if value != "(unset)" {
            command.env("CUDA_VISIBLE_DEVICES", value);
        }
        let (_, stdout, stderr) = outcome(&mut command);
        let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        let visible: Vec<usize> = report["devices"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|row| row["routes"].as_array().is_some_and(|routes| routes.iter().any(|r| r["api"] == "cuda")))
            .map(|row| uuids.iter().position(|uuid| row["uuid"] == *uuid).expect("a known card"))
            .collect();
        assert_eq!(serde_json::json!(visible), *expected, "{value:?}: {stderr}");
        if visible.is_empty() {
            let mut command = case.kiln();
            let (code, report, _) = outcome(command.arg("doctor").env("CUDA_VISIBLE_DEVICES", value));
            assert_eq!(code, Some(1));
            let wanted = format!("hidden by CUDA_VISIBLE_DEVICES=\"{value}\"");
            assert!(report.contains(&wanted) && !report.contains("no GPU is on"), "{value:?}: {report}");
        }
    }
}

#[test]
fn p05_a_sleeping_card_is_listed_and_left_asleep() {
    let Some(case) = case("p05_dgpu_asleep") else { return };
    let (code, report) = examine(&case);
    assert_eq!(code, Some(0), "{report:#}");
    let enabled = check(&report, "enabled");
    assert_eq!(enabled["status"], "ok");
    assert!(enabled["found"].as_str().expect("text").contains("asleep (D3cold)"), "{enabled}");
    assert!(report["verdict"]["sentence"].as_str().expect("text").contains("would wake"), "{report:#}");

    let (code, stdout, _) = outcome(case.kiln().arg("devices"));
    assert_eq!(code, Some(0));
    assert!(stdout.contains("asleep"), "{stdout}");
    for log in ["p05_cuda.log", "p05_nvml.log"] {
        assert!(!case.folder().join(log).exists(), "the driver was asked: {log}");
    }
}

#[cfg(feature = "cuda")]
#[test]
fn p05_told_to_wake_the_card_the_doctor_asks_its_driver() {
    let Some(case) = case("p05_dgpu_asleep") else { return };
    let (_, stdout, _) = outcome(case.kiln().args(["doctor", "--wake", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(check(&report, "cuda_start")["status"], "ok");
    assert!(case.folder().join("p05_cuda.log").exists());
}

#[test]
fn p07_what_a_card_does_not_tell_is_null() {
    let Some(case) = case("p07_nvml_na") else { return };
    for libraries in ["both", "nvml_old"] {
        let (_, report) = examine(&case.with_nvml(libraries));
        let gpu = report["gpus"].as_array().expect("readings").iter().find(|gpu| gpu["uuid"].is_string());
        let gpu = gpu.unwrap_or_else(|| panic!("a reading of the card in {report:#}"));
        for (key, wanted) in case.expected["json"].as_object().expect("a table") {
            let equal = wanted.as_f64().map_or(gpu[key] == *wanted, |number| gpu[key].as_f64() == Some(number));
            assert!(equal, "{libraries}: {key} is {}, expected {wanted}", gpu[key]);
        }
        assert_eq!(check(&report, "power")["code"], "held_back");
    }
}

#[test]
fn p08_an_amd_processor_s_gpu_is_judged_by_all_the_memory_it_may_use() {
    let Some(case) = case("p08_amd_apu") else { return };
    let case = case.without_libraries();
    let (_, report) = examine(&case);
    let memory = check(&report, "memory")["found"].as_str().expect("text").to_owned();
    assert!(memory.contains("8.1 GiB shared") && memory.contains("512 MiB VRAM + 7770 MiB GTT"), "{memory}");
    let gpu = &report["gpus"][0];
    for (key, wanted) in [("vram_mib", "vram_mib"), ("gtt_mib", "gtt_mib"), ("util", "util"), ("temp_c", "temp_c")] {
        assert_eq!(gpu[key].as_f64(), case.expected[wanted].as_f64(), "{key}");
    }
    assert_eq!(gpu["power_w"].as_f64(), case.expected["power_w"].as_f64());
    assert!(gpu["mem_busy"].is_null(), "{gpu}");
}

#[cfg(feature = "cuda")]
#[test]
fn a_card_whose_context_cannot_be_made_loses_and_the_reason_is_told() {
    // The fakes answer questions only. With a driver as new as the compiler, CUDA is chosen, and fails when opened.
    let Some(case) = case("p07_nvml_na") else { return };
    let spec = std::fs::read_to_string(case.folder().join("cuda.spec")).expect("a specification");
    let newer = case.folder().join("newer.spec");
    std::fs::write(&newer, spec.replace("driver=12040", "driver=13020")).expect("a written file");
    let (_, stdout, stderr) = outcome(case.kiln().args(["doctor", "--json"]).env("FAKE_CUDA_SPEC", &newer));
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert!(!stderr.contains("panicked"), "{stderr}");
    if check(&report, "compiler")["status"] == "fail" {
        return support::skip("no NVRTC in the Python on the path");
    }
    let smoke = check(&report, "smoke_test");
    assert_eq!(smoke["status"], "fail", "{report:#}");
    assert!(smoke["found"].as_str().expect("text").contains("cuda:0"), "{smoke}");
    assert_ne!(report["chosen"]["device"], "cuda:0");
}

/// Examines this machine with `prepare`d variables; gives the JSON.
fn examine_with(folder: &Path, variables: &[(&str, &Path)]) -> serde_json::Value {
    let mut command = kiln(folder);
    command.args(["doctor", "--json"]).envs(variables.iter().copied());
    let started = Instant::now();
    let (code, stdout, stderr) = outcome(&mut command);
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
    assert!(matches!(code, Some(0 | 1)) && !stderr.contains("panicked"), "{code:?} {stderr}");
    serde_json::from_str(&stdout).expect("JSON")
}

const LIBRARIES: [&str; 3] = ["libcuda.so.1", "libnvidia-ml.so.1", "libvulkan.so.1"];

#[test]
fn damaged_and_foreign_libraries_are_named_with_what_is_wrong() {
    let sound = support::a_sound_library();
    let mut foreign = sound.clone();
    foreign[18] = 0xf3;
    for (contents, wanted) in [
        (&b""[..], "is empty"),
        (b"not a library, but long enough to have a header that could be one, and then some", "is not a library"),
        (&sound[..sound.len() / 2], "is cut off"),
        (&foreign, "is for another processor"),
    ] {
        let folder = support::folder();
        for name in LIBRARIES {
            std::fs::write(folder.path().join(name), contents).expect("a written file");
        }
        let report = examine_with(folder.path(), &[(LD, folder.path())]);
        let found = |id| check(&report, id)["found"].as_str().expect("text").to_owned();
        let (driver, vulkan) = (found("driver_library"), found("vulkan"));
        for name in &LIBRARIES[..2] {
            assert!(driver.contains(&format!("{name} {wanted}")), "{name} {wanted}: {driver}");
        }
        assert!(vulkan.contains(&format!("{} {wanted}", LIBRARIES[2])), "{wanted}: {vulkan}");
    }
}

#[cfg(all(feature = "cuda", feature = "wgpu"))]
#[test]
fn libraries_that_never_answer_are_given_up() {
    let folder = support::folder();
    let Some(hanging) = support::hanging_library(folder.path()) else { return };
    for name in LIBRARIES {
        std::fs::copy(&hanging, folder.path().join(name)).expect("copied");
    }
    let report = examine_with(folder.path(), &[(LD, folder.path())]);
    let library = check(&report, "driver_library");
    assert_eq!(library["code"], "driver_hangs", "{library}");
    assert_eq!(library["found"].as_str().expect("text").matches("no answer").count(), 2, "{library}");
    assert_eq!(check(&report, "vulkan")["code"], "vulkan_hangs");
    assert_eq!(report["chosen"]["device"], "cpu");
}

#[test]
fn libraries_that_are_not_installed_are_named_with_how_to_get_them() {
    let folder = support::folder();
    let Some(mut command) = support::kiln_without("libvulkan.so.1", folder.path()) else { return };
    let (code, stdout, stderr) = outcome(command.args(["doctor", "--json"]));
    assert!(matches!(code, Some(0 | 1)) && !stderr.contains("panicked"), "{code:?} {stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let vulkan = check(&report, "vulkan");
    assert_eq!(vulkan["code"], "vulkan_loader_missing", "{vulkan}");
    assert!(vulkan["remedy"].as_str().expect("a remedy").contains("libvulkan1"), "{vulkan}");
    assert_eq!(check(&report, "adapter")["status"], "skip");
}

#[cfg(feature = "cuda")]
#[test]
fn a_card_without_its_maker_s_libraries_is_a_failure() {
    let Some(case) = case("p07_nvml_na") else { return };
    let (code, report) = examine(&case.without_libraries());
    assert_eq!(code, Some(1));
    let library = check(&report, "driver_library");
    assert_eq!((&library["status"], &library["code"]), (&"fail".into(), &"library_missing".into()), "{library}");
    assert!(library["found"].as_str().expect("text").contains("libcuda.so.1 is not installed"), "{library}");
}

#[test]
fn damaged_manifests_of_vulkan_drivers_are_named_with_what_is_wrong() {
    let folder = support::folder();
    let mut foreign = support::a_sound_library();
    foreign[18] = 0xf3;
    std::fs::write(folder.path().join("libforeign.so"), foreign).expect("a written file");
    let names = |library: &str| format!(r#"{{"ICD": {{"library_path": "{library}", "api_version": "1.3.0"}}}}"#);
    let manifest = folder.path().join("icd.json");
    for (contents, wanted) in [
        (None, "can't be read"),
        (Some(String::new()), "is empty"),
        (Some(names("./libforeign.so")[..20].to_owned()), "is not JSON"),
        (Some(names("./libmissing.so")), "doesn't exist"),
        (Some(names("./libforeign.so")), "is for another processor"),
    ] {
        let _ = std::fs::remove_file(&manifest);
        if let Some(contents) = contents {
            std::fs::write(&manifest, contents).expect("a written file");
        }
        let report = examine_with(folder.path(), &[("VK_DRIVER_FILES", &manifest)]);
        let vulkan = check(&report, "vulkan");
        assert_eq!(vulkan["code"], "vulkan_manifest_broken", "{wanted}: {vulkan}");
        assert!(vulkan["found"].as_str().expect("text").contains(wanted), "{wanted}: {vulkan}");
        let environment = report["environment"].as_array().expect("a list");
        assert!(environment.iter().any(|variable| variable["name"] == "VK_DRIVER_FILES"), "{report:#}");
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn a_vulkan_driver_that_never_answers_is_given_up() {
    let folder = support::folder();
    if support::hanging_library(folder.path()).is_none() {
        return;
    }
    let manifest = folder.path().join("icd.json");
    let json =
        r#"{"file_format_version": "1.0.0", "ICD": {"library_path": "./libhanging.so", "api_version": "1.3.0"}}"#;
    std::fs::write(&manifest, json).expect("a written file");
    let report = examine_with(folder.path(), &[("VK_DRIVER_FILES", &manifest)]);
    assert_eq!(check(&report, "vulkan")["code"], "vulkan_hangs", "{report:#}");
}

#[test]
fn the_bundle_names_nobody() {
    let folder = support::folder();
    let bundle = folder.path().join("report.txt");
    let mut command = kiln(folder.path());
    command.args(["doctor", "--bundle"]).arg(&bundle);
    command
        .env("HOME", "/home/ada")
        .env("USER", "adalovelace")
        .env("LD_PRELOAD", "")
        .env("CUDA_HOME", "/home/ada/cuda")
        .env("CUDA_PATH", "/data/acme/project");
    let (code, _, stderr) = outcome(&mut command);
    assert_eq!(code, Some(0), "{stderr}");
    let text = std::fs::read_to_string(&bundle).expect("written");
    assert!(text.contains("verdict") && text.contains("CUDA_HOME=~/<path>"), "{text}");
    for private in ["ada/", "adalovelace", "acme"] {
        assert!(!text.contains(private), "{private} in {text}");
    }
}

#[test]
fn a_bundle_that_cannot_be_written_ends_with_2() {
    let folder = support::folder();
    let (code, _, stderr) = outcome(kiln(folder.path()).args(["doctor", "--bundle", "no/such/folder/report.txt"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("no/such/folder/report.txt"), "{stderr}");
}
