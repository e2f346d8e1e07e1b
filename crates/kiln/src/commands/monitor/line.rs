//! One line a GPU and reading: only what is known.

use super::View;
use kiln_device::{GpuSample, GpuState, Reading};
use std::io::{self, Write};

pub(super) struct Lines;

impl View for Lines {
    fn show(&mut self, reading: &Reading) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if reading.gpus.is_empty() {
            writeln!(out, "{:7.1} s  no GPU", reading.elapsed_secs)?;
        }
        for gpu in &reading.gpus {
            writeln!(out, "{:7.1} s  {}", reading.elapsed_secs, line(gpu))?;
        }
        for note in &reading.notes {
            writeln!(out, "{:7.1} s  note: {note}", reading.elapsed_secs)?;
        }
        out.flush()
    }
}

/// `NVIDIA RTX 3050  87 % busy  3072/4096 MiB  71 °C  P8  ! clocks are lowered: heat`.
fn line(gpu: &GpuSample) -> String {
    let mut parts = vec![gpu.name.clone()];
    match gpu.state {
        GpuState::Active => {}
        state => parts.push(state_word(state).to_owned()),
    }
    parts.extend(gpu.util.map(|util| format!("{util:.0} % busy")));
    parts.extend(memory(gpu));
    parts.extend(gpu.temp_c.map(|temp| format!("{temp:.0} °C")));
    parts.extend(power(gpu));
    parts.extend(gpu.clock_mhz.map(|clock| format!("{clock} MHz")));
    parts.extend(gpu.pstate.map(|state| format!("P{state}")));
    parts.extend(traffic(gpu));
    parts.extend(gpu.alerts.iter().map(|alert| format!("! {alert}")));
    parts.join("  ")
}

pub(super) fn state_word(state: GpuState) -> &'static str {
    match state {
        GpuState::Active => "active",
        GpuState::Asleep => "asleep",
        GpuState::Resting => "idle, left alone so that it can sleep",
        GpuState::Lost => "lost",
        GpuState::Unknown => "no readings",
    }
}

pub(super) fn memory(gpu: &GpuSample) -> Option<String> {
    match (gpu.mem_used_mib, gpu.mem_total_mib) {
        (Some(used), Some(total)) => Some(format!("{used}/{total} MiB")),
        (Some(used), None) => Some(format!("{used} MiB used")),
        (None, Some(total)) => Some(format!("{total} MiB")),
        (None, None) => None,
    }
}

pub(super) fn power(gpu: &GpuSample) -> Option<String> {
    let watts = gpu.power_w?;
    Some(gpu.power_limit_w.map_or_else(|| format!("{watts:.1} W"), |limit| format!("{watts:.1}/{limit:.0} W")))
}

/// Traffic to and from the card.
pub(super) fn traffic(gpu: &GpuSample) -> Option<String> {
    Some(format!("PCIe {:.0} in, {:.0} out MiB/s", gpu.pcie_rx_mib_s?, gpu.pcie_tx_mib_s?))
}

#[cfg(test)]
mod tests {
    use super::line;
    use kiln_device::{GpuSample, GpuState};

    #[test]
    fn only_what_is_known_is_told() {
        let mut gpu = GpuSample::default();
        gpu.name = "NVIDIA RTX 3050".to_owned();
        gpu.util = Some(87.0);
        gpu.mem_used_mib = Some(3072);
        gpu.mem_total_mib = Some(4096);
        gpu.temp_c = Some(71.0);
        gpu.alerts = vec!["clocks are lowered: heat".to_owned()];
        assert_eq!(line(&gpu), "NVIDIA RTX 3050  87 % busy  3072/4096 MiB  71 °C  ! clocks are lowered: heat");
        let mut asleep = GpuSample::default();
        asleep.name = "A card".to_owned();
        asleep.state = GpuState::Asleep;
        assert_eq!(line(&asleep), "A card  asleep");
    }
}
