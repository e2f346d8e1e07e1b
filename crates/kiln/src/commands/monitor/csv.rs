//! Comma-separated values as RFC 4180 has them: a header, then one line a GPU and reading.

use super::View;
use kiln_device::{GpuSample, Reading};
use std::io::{self, Write};

#[derive(Default)]
pub(super) struct Csv {
    has_header: bool,
}

/// A column's name and its text.
type Column = (&'static str, fn(&GpuSample) -> Option<String>);

const COLUMNS: [Column; 19] = [
    ("pci_address", |gpu| text(gpu.pci_address)),
    ("name", |gpu| Some(gpu.name.clone())),
    ("state", |gpu| Some(format!("{:?}", gpu.state).to_lowercase())),
    ("util", |gpu| text(gpu.util)),
    ("mem_busy", |gpu| text(gpu.mem_busy)),
    ("mem_used_mib", |gpu| text(gpu.mem_used_mib)),
    ("mem_total_mib", |gpu| text(gpu.mem_total_mib)),
    ("temp_c", |gpu| text(gpu.temp_c)),
    ("power_w", |gpu| text(gpu.power_w)),
    ("power_limit_w", |gpu| text(gpu.power_limit_w)),
    ("fan", |gpu| text(gpu.fan)),
    ("clock_mhz", |gpu| text(gpu.clock_mhz)),
    ("mem_clock_mhz", |gpu| text(gpu.mem_clock_mhz)),
    ("pstate", |gpu| text(gpu.pstate)),
    ("throttle", |gpu| gpu.throttle.as_ref().map(|names| names.join("+"))),
    ("pcie", |gpu| gpu.pcie.clone()),
    ("pcie_rx_mib_s", |gpu| text(gpu.pcie_rx_mib_s)),
    ("pcie_tx_mib_s", |gpu| text(gpu.pcie_tx_mib_s)),
    ("alerts", |gpu| Some(gpu.alerts.join("; "))),
];

fn text(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}

impl View for Csv {
    fn show(&mut self, reading: &Reading) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if !std::mem::replace(&mut self.has_header, true) {
            writeln!(out, "{}", header())?;
        }
        for gpu in &reading.gpus {
            writeln!(out, "{:.1},{}", reading.elapsed_secs, row(gpu))?;
        }
        out.flush()
    }
}

fn header() -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    format!("elapsed_secs,{}", names.join(","))
}

fn row(gpu: &GpuSample) -> String {
    COLUMNS.iter().map(|(_, value)| quoted(&value(gpu).unwrap_or_default())).collect::<Vec<_>>().join(",")
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{header, row};
    use kiln_device::GpuSample;

    #[test]
    fn an_unknown_value_is_empty_and_a_comma_is_quoted() {
        let mut gpu = GpuSample::default();
        gpu.name = "A \"fast\", large card".to_owned();
        gpu.util = Some(0.0);
        let row = row(&gpu);
        assert_eq!(row, ",\"A \"\"fast\"\", large card\",active,0,,,,,,,,,,,,,,,");
        assert_eq!(row.replace(", large", "").matches(',').count() + 1, header().matches(',').count());
    }
}
