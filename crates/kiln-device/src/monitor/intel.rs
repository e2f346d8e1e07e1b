//! Intel GPUs, as far as the kernel offers anything to everyone.
//!
//! i915 and xe have no counter of busy time that a user may read. What they have is the time spent in the idle
//! state RC6; the rest of the time the GPU was on, which is at least the time it computed. Clocks come from the
//! same place. Source: docs.kernel.org, "i915" and "xe", sysfs of a GT.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Instant,
};

use super::sample::GpuSample;
use crate::inventory::{
    PciAddress,
    bus::{BusDevice, number},
};

/// Remembers the idle time of the last reading.
#[derive(Default)]
pub(super) struct IntelSource {
    idle: HashMap<PciAddress, (Instant, u64)>,
}

impl IntelSource {
    /// Fills in what the files of `card` say. The busy share needs a reading before.
    pub(super) fn read(&mut self, card: &BusDevice, sample: &mut GpuSample) {
        let Some(folder) = &card.card_folder else { return };
        sample.clock_mhz = first(folder, &["gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz"])
            .or_else(|| first(&card.folder, &["tile0/gt0/freq0/act_freq"]))
            .map(|value| value as u32);
        sample.clock_max_mhz = first(folder, &["gt/gt0/rps_RP0_freq_mhz", "gt_RP0_freq_mhz"])
            .or_else(|| first(&card.folder, &["tile0/gt0/freq0/rp0_freq"]))
            .map(|value| value as u32);
        let idle_ms = first(folder, &["gt/gt0/rc6_residency_ms", "power/rc6_residency_ms"])
            .or_else(|| first(&card.folder, &["tile0/gt0/gtidle/idle_residency_ms"]));
        let now = Instant::now();
        sample.util = idle_ms.and_then(|idle_ms| {
            let (then, before) = self.idle.insert(card.address, (now, idle_ms))?;
            busy_percent(now.duration_since(then).as_secs_f64() * 1e3, idle_ms.checked_sub(before)?)
        });
    }
}

fn first(folder: &Path, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| number(&PathBuf::from(folder).join(name)))
}

/// The share of `elapsed_ms` that wasn't spent idle. The counter runs ahead of our clock by a little.
fn busy_percent(elapsed_ms: f64, idle_ms: u64) -> Option<f32> {
    (elapsed_ms >= 1.0).then(|| (100.0 * (1.0 - idle_ms as f64 / elapsed_ms)).clamp(0.0, 100.0) as f32)
}

#[cfg(test)]
mod tests {
    use super::busy_percent;

    #[test]
    fn busy_is_what_was_not_idle() {
        assert_eq!(busy_percent(1000.0, 250), Some(75.0));
        assert_eq!(busy_percent(1000.0, 1003), Some(0.0));
        assert_eq!(busy_percent(0.0, 0), None);
    }
}
