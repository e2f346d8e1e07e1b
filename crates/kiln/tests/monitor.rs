//! `kiln monitor` on machines that this one is not; see `doctor.rs` for how they are made.
#![cfg(target_os = "linux")]

mod support;

use std::path::Path;
use support::{Case, case, kiln, outcome};

/// Readings of a case as JSON, one a line.
fn readings(case: &Case, spec: &Path, samples: &str) -> Vec<serde_json::Value> {
    let mut command = case.kiln();
    command.args(["monitor", "--json", "--interval", "0.1", "--samples", samples]).env("FAKE_NVML_SPEC", spec);
    let (code, stdout, stderr) = outcome(&mut command);
    assert_eq!(code, Some(0), "{stderr}");
    stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The reading of the NVIDIA card.
fn nvidia(reading: &serde_json::Value) -> &serde_json::Value {
    let gpus = reading["gpus"].as_array().expect("a list");
    gpus.iter().find(|gpu| gpu["pci_address"] == "0000:01:00.0").unwrap_or_else(|| panic!("the card in {reading:#}"))
}

/// The case's NVML specification with one line more or changed.
fn changed(case: &Case, line: &str) -> std::path::PathBuf {
    let key = line.split('=').next().expect("a key");
    let spec = std::fs::read_to_string(case.folder().join("nvml.spec")).expect("a specification");
    let kept = spec.lines().filter(|old| !old.starts_with(&format!("{key}=")));
    let text: Vec<&str> = kept.chain([line]).collect();
    let path = case.folder().join("changed.spec");
    std::fs::write(&path, text.join("\n") + "\n").expect("a written file");
    path
}

#[test]
fn p07_readings_are_those_of_nvml_old_and_new() {
    let Some(case) = case("p07_nvml_na") else { return };
    for libraries in ["both", "nvml_old"] {
        let case = case.with_nvml(libraries);
        let readings = readings(&case, &case.folder().join("nvml.spec"), "2");
        assert_eq!(readings.len(), 2);
        let gpu = nvidia(&readings[1]);
        for (key, wanted) in case.expected["json"].as_object().expect("a table") {
            let equal = wanted.as_f64().map_or(gpu[key] == *wanted, |number| gpu[key].as_f64() == Some(number));
            assert!(equal, "{libraries}: {key} is {}, expected {wanted}", gpu[key]);
        }
        let alerts = gpu["alerts"].to_string();
        assert!(alerts.contains("power limit, heat"), "{alerts}");
    }
}

#[test]
fn p07_a_lost_card_is_told_once_and_not_asked_again() {
    let Some(case) = case("p07_nvml_na") else { return };
    let log = case.folder().join("nvml.log");
    let spec = changed(&case, "dev0.util=E15");
    let text = std::fs::read_to_string(&spec).expect("written") + &format!("log={}\n", log.display());
    std::fs::write(&spec, text).expect("a written file");
    let readings = readings(&case, &spec, "4");
    let told: Vec<bool> = readings.iter().map(|reading| reading["notes"].to_string().contains("GPU is lost")).collect();
    assert_eq!(told, [true, false, false, false]);
    assert!(readings.iter().all(|reading| nvidia(reading)["state"] == "lost"), "{readings:?}");
    let asked = std::fs::read_to_string(log).expect("the fake's log");
    assert_eq!(asked.matches("util").count(), 1, "{asked}");
}

#[test]
fn p07_without_permission_there_are_no_readings_and_no_failure() {
    let Some(case) = case("p07_nvml_na") else { return };
    let readings = readings(&case, &changed(&case, "init=4"), "1");
    assert!(readings[0]["notes"].to_string().contains("no permission"), "{:#}", readings[0]);
    let gpu = nvidia(&readings[0]);
    assert!(gpu["state"] == "unknown" && gpu["util"].is_null(), "{gpu}");
}

#[test]
fn p05_a_sleeping_card_is_not_asked() {
    let Some(case) = case("p05_dgpu_asleep") else { return };
    let readings = readings(&case, &case.folder().join("nvml.spec"), "3");
    let gpu = nvidia(&readings[2]);
    assert!(gpu["state"] == "asleep" && gpu["util"].is_null() && gpu["temp_c"].is_null(), "{gpu}");
    assert!(!case.folder().join("p05_nvml.log").exists() && !case.folder().join("p05_cuda.log").exists());
}

#[test]
fn an_idle_card_that_may_sleep_is_let_go() {
    let Some(case) = case("p07_nvml_na") else { return };
    let log = case.folder().join("nvml.log");
    let spec = changed(&case, "dev0.util=0");
    let text = std::fs::read_to_string(&spec).expect("written") + &format!("log={}\n", log.display());
    std::fs::write(&spec, text).expect("a written file");
    let readings = readings(&case, &spec, "8");
    let states: Vec<_> = readings.iter().map(|reading| nvidia(reading)["state"].as_str().expect("a state")).collect();
    assert_eq!(states, ["active", "active", "active", "active", "active", "resting", "resting", "resting"]);
    let asked = std::fs::read_to_string(log).expect("the fake's log");
    assert!(asked.trim_end().ends_with("nvmlShutdown"), "{asked}");
}

#[test]
fn p08_an_amd_processor_s_gpu_is_read_from_sysfs() {
    let Some(case) = case("p08_amd_apu") else { return };
    let case = case.without_libraries();
    let expected = case.expected.clone();
    let read = || readings(&case, Path::new("/dev/null"), "1")[0]["gpus"][0].clone();
    let gpu = read();
    for key in ["util", "temp_c", "power_w", "vram_mib", "gtt_mib"] {
        assert_eq!(gpu[key].as_f64(), expected[key].as_f64(), "{key}");
    }
    assert!(gpu["mem_busy"].is_null());
    // The counter that answers EOPNOTSUPP on some firmware, here a folder.
    let device = case.folder().join("root/sys/bus/pci/devices/0000:c4:00.0");
    std::fs::remove_file(device.join("gpu_busy_percent")).expect("removed");
    std::fs::create_dir(device.join("gpu_busy_percent")).expect("a folder");
    let gpu = read();
    assert!(gpu["util"].is_null() && gpu["temp_c"] == 47.0, "{gpu}");
}

#[test]
fn away_from_a_terminal_there_are_lines_or_csv_and_no_escape_sequences() {
    let folder = support::folder();
    let run = |more: &[&str]| {
        let (code, stdout, stderr) = outcome(kiln(folder.path()).args(["monitor", "--samples", "1"]).args(more));
        assert_eq!(code, Some(0), "{stderr}");
        assert!(!stdout.contains('\x1b'), "{stdout}");
        stdout
    };
    assert!(run(&[]).contains(" s  "));
    assert!(run(&["--csv"]).starts_with("elapsed_secs,pci_address,name,state,util,"));
}

#[test]
fn a_library_that_never_answers_is_given_up() {
    let folder = support::folder();
    let Some(hanging) = support::hanging_library(folder.path()) else { return };
    std::fs::copy(hanging, folder.path().join("libnvidia-ml.so.1")).expect("copied");
    let mut command = kiln(folder.path());
    command.args(["monitor", "--json", "--samples", "2", "--interval", "0.1"]).env(support::LD, folder.path());
    let (code, stdout, stderr) = outcome(&mut command);
    assert_eq!(code, Some(0), "{stderr}");
    let told: Vec<bool> = stdout.lines().map(|line| line.contains("no answer within 5 s")).collect();
    assert_eq!(told, [true, true], "{stdout}");
}

#[test]
fn watching_costs_less_than_a_hundredth_of_a_core() {
    // With the fakes, what is left is what the monitor itself does.
    let Some(case) = case("p07_nvml_na") else { return };
    let samples = 20;
    let mut command = case.kiln();
    command.args(["monitor", "--json", "--interval", "0.1", "--samples", &samples.to_string()]);
    let spent = |child: u32| {
        // utime and stime, fields 14 and 15, in hundredths of a second.
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        let fields: Vec<i64> = stat.rsplit(") ").next()?.split(' ').filter_map(|field| field.parse().ok()).collect();
        Some(fields[10] + fields[11])
    };
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("starts");
    let out = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let mut ticks = Vec::new();
    for line in std::io::BufRead::lines(out) {
        line.expect("a reading");
        ticks.extend(spent(child.id()));
    }
    child.wait().expect("ended");
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    // One reading a second may take 10 ms; a tick is 10 ms, so a whole tick is allowed for rounding.
    let readings = ticks.len() as i64 - 1;
    assert!(last - first <= readings + 1, "{} ticks for {readings} readings", last - first);
}
