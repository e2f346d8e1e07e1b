//! AMD cards, read from amdgpu's files in sysfs.
//!
//! Any file may be missing, and any read may fail (a busy counter answers `EOPNOTSUPP` on some firmware): each is
//! read by itself, and what can't be read is absent. Source: docs.kernel.org, "amdgpu thermal control" and
//! "driver-misc".

use std::{fs, path::PathBuf};

use super::sample::GpuSample;
use crate::inventory::bus::{BusDevice, number, text};

const MIB: u64 = 1 << 20;

/// Fills in what the files of `card` say.
pub(super) fn read(card: &BusDevice, sample: &mut GpuSample) {
    let file = |name: &str| number(&card.folder.join(name));
    let percent = |name: &str| file(name).filter(|value| *value <= 100).map(|value| value as f32);
    sample.util = percent("gpu_busy_percent");
    sample.mem_busy = percent("mem_busy_percent");
    sample.vram_mib = file("mem_info_vram_total").map(|bytes| bytes / MIB);
    sample.gtt_mib = file("mem_info_gtt_total").map(|bytes| bytes / MIB);
    let (vram, gtt) = (file("mem_info_vram_used"), file("mem_info_gtt_used"));
    sample.mem_used_mib = if card.integrated { sum(vram, gtt) } else { vram }.map(|bytes| bytes / MIB);
    sample.mem_total_mib = card.budget_bytes().map(|bytes| bytes / MIB);
    sample.clock_mhz = current_clock(card, "pp_dpm_sclk");
    sample.clock_max_mhz = highest_clock(card, "pp_dpm_sclk");
    sample.mem_clock_mhz = current_clock(card, "pp_dpm_mclk");

    let Some(sensors) = sensors(card) else { return };
    let sensor = |name: &str| number(&sensors.join(name));
    sample.temp_c = sensor("temp1_input").map(|milli| milli as f32 / 1e3);
    sample.temp_slowdown_c = sensor("temp1_crit").map(|milli| milli as f32 / 1e3);
    // Newer kernels give the present value instead of an average.
    sample.power_w = sensor("power1_average").or_else(|| sensor("power1_input")).map(|micro| micro as f64 / 1e6);
    sample.power_limit_w = sensor("power1_cap").map(|micro| micro as f64 / 1e6);
    sample.fan = sensor("pwm1").map(|value| (value * 100 / 255) as u32);
    let clock = || sensor("freq1_input").map(|hertz| (hertz / 1_000_000) as u32);
    sample.clock_mhz = sample.clock_mhz.or_else(clock);
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a? + b.unwrap_or(0))
}

/// The folder of the card's sensors; its number has no meaning.
fn sensors(card: &BusDevice) -> Option<PathBuf> {
    let mut entries = fs::read_dir(card.folder.join("hwmon")).ok()?.flatten();
    entries.next().map(|entry| entry.path())
}

/// The clock marked as current in a list like `1: 1100Mhz *`.
fn current_clock(card: &BusDevice, name: &str) -> Option<u32> {
    let list = text(&card.folder.join(name))?;
    list.lines().find(|line| line.trim_end().ends_with('*')).and_then(clock_of)
}

fn highest_clock(card: &BusDevice, name: &str) -> Option<u32> {
    text(&card.folder.join(name))?.lines().filter_map(clock_of).max()
}

fn clock_of(line: &str) -> Option<u32> {
    let (_, value) = line.split_once(':')?;
    let value = value.trim().trim_end_matches('*').trim().to_ascii_lowercase();
    value.strip_suffix("mhz")?.parse().ok()
}
