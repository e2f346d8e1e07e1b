//! Readings of recorded machines.

use std::{fs, path::Path};

use super::*;
use crate::inventory::bus::tests::{put, put_gpu};

/// A Ryzen with a Radeon 780M, as sysfs shows it.
fn amd_apu(root: &Path) -> String {
    let folder = put_gpu(root, "0000:c4:00.0", ("0x1002", "0x15bf"), "0x030000", "amdgpu");
    for (name, value) in [
        ("gpu_busy_percent", "7"),
        ("mem_info_vram_total", "536870912"),
        ("mem_info_vram_used", "310378496"),
        ("mem_info_gtt_total", "8147935232"),
        ("mem_info_gtt_used", "151298048"),
        ("pp_dpm_sclk", "0: 800Mhz *\n1: 1100Mhz\n2: 2700Mhz"),
        ("hwmon/hwmon3/temp1_input", "47000"),
        ("hwmon/hwmon3/power1_average", "6021000"),
    ] {
        put(root, &format!("{folder}/{name}"), value);
    }
    folder
}

fn read(root: &Path) -> GpuSample {
    let mut reading = Monitor::below(root).read();
    assert_eq!(reading.gpus.len(), 1, "{reading:?}");
    reading.gpus.remove(0)
}

#[test]
fn an_amd_processor_s_gpu_is_read_and_what_it_lacks_is_absent() {
    let root = tempfile::tempdir().expect("a temporary folder");
    amd_apu(root.path());
    let gpu = read(root.path());
    assert_eq!((gpu.util, gpu.mem_busy), (Some(7.0), None));
    assert_eq!((gpu.vram_mib, gpu.gtt_mib, gpu.mem_total_mib), (Some(512), Some(7770), Some(8282)));
    assert_eq!((gpu.temp_c, gpu.power_w), (Some(47.0), Some(6.021)));
    assert_eq!((gpu.clock_mhz, gpu.clock_max_mhz), (Some(800), Some(2700)));
    assert_eq!((gpu.fan, gpu.throttle, gpu.pstate), (None, None, None));
}

#[test]
fn a_counter_that_cannot_be_read_is_absent_and_the_others_stay() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let folder = amd_apu(root.path());
    let busy = root.path().join(folder).join("gpu_busy_percent");
    // Reading a folder fails as reading the counter does on some firmware.
    fs::remove_file(&busy).expect("removed");
    fs::create_dir(&busy).expect("a folder");
    let gpu = read(root.path());
    assert_eq!((gpu.util, gpu.temp_c, gpu.mem_used_mib), (None, Some(47.0), Some(440)));
}

#[test]
fn newer_kernels_name_the_power_differently() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let sensors = root.path().join(amd_apu(root.path())).join("hwmon/hwmon3");
    fs::rename(sensors.join("power1_average"), sensors.join("power1_input")).expect("renamed");
    assert_eq!(read(root.path()).power_w, Some(6.021));
}

#[test]
fn an_amd_card_counts_its_own_memory_only() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let folder = amd_apu(root.path());
    put(root.path(), &format!("{folder}/mem_busy_percent"), "3");
    let gpu = read(root.path());
    assert_eq!((gpu.mem_busy, gpu.mem_total_mib, gpu.mem_used_mib), (Some(3.0), Some(512), Some(296)));
}

#[test]
fn a_sleeping_amd_card_is_not_read() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let folder = amd_apu(root.path());
    put(root.path(), &format!("{folder}/power/runtime_status"), "suspended");
    let gpu = read(root.path());
    assert_eq!(gpu.state, GpuState::Asleep);
    assert_eq!((gpu.util, gpu.temp_c, gpu.vram_mib), (None, None, None));
}

#[test]
fn an_intel_gpu_gives_its_clock_at_once_and_its_load_later() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let folder = put_gpu(root.path(), "0000:00:02.0", ("0x8086", "0x46a6"), "0x030000", "i915");
    put(root.path(), &format!("{folder}/drm/card1/gt_act_freq_mhz"), "350");
    put(root.path(), &format!("{folder}/drm/card1/gt_RP0_freq_mhz"), "1400");
    let gpu = read(root.path());
    assert_eq!((gpu.clock_mhz, gpu.clock_max_mhz, gpu.util), (Some(350), Some(1400), None));
}

#[test]
fn absent_values_are_null_in_json() {
    let json = serde_json::to_value(GpuSample::default()).expect("plain data");
    for key in ["util", "mem_used_mib", "temp_c", "power_w", "fan", "pstate", "throttle", "processes"] {
        assert!(json[key].is_null() && json.get(key).is_some(), "{key}");
    }
}
