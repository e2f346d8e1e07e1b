//! What people and programs read: the line that says which device was chosen, and the body of `kiln devices`.

use std::fmt::{self, Write};

use serde::Serialize;

use crate::{
    choose::{Candidate, Choice, choose},
    error::DeviceError,
    inventory::{Backend, BusDevice, HardwareKind, Inventory, PhysicalDevice},
    measure::{Measured, advice},
    request::DeviceRequest,
};

impl Choice {
    /// One line for a person: what was chosen, why, and why the others weren't; equal reasons are told once.
    pub fn summary(&self) -> String {
        let chosen = &self.chosen;
        let reason = &self.reason;
        let mut line = match chosen.backend {
            Backend::Cpu => format!("Using the CPU ({}): {reason}.", chosen.name),
            _ if self.requested == DeviceRequest::Auto => format!("Using {} ({reason}).", chosen.name),
            _ => format!("Using {} ({} over {}), {reason}.", chosen.name, chosen.kind, chosen.api),
        };
        // Whoever names a device doesn't ask about the others.
        if self.requested == DeviceRequest::Auto {
            let others = self.others();
            if !others.is_empty() {
                line.push_str(&format!(" Not used: {}.", others.join("; ")));
            }
        }
        line
    }

    /// The losers worth telling: beside a GPU the other GPUs, on the processor also what is only called one.
    fn others(&self) -> Vec<String> {
        let on_cpu = self.chosen.backend == Backend::Cpu;
        let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
        for lost in &self.lost {
            let candidate = &lost.candidate;
            match candidate.kind {
                HardwareKind::Cpu => continue,
                HardwareKind::Software if !on_cpu => continue,
                _ => {}
            }
            let remedy = lost.remedy.as_ref();
            let remedy = remedy.map_or_else(String::new, |remedy| format!("; to fix it: {remedy}"));
            let reason = format!("{}{remedy}", lost.reason);
            let name = format!("{} over {}", candidate.name, candidate.api);
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, names)) => names.push(name),
                None => reasons.push((reason, vec![name])),
            }
        }
        let told = reasons.into_iter().map(|(reason, names)| format!("{} ({reason})", names.join(", ")));
        told.chain(self.notes.iter().cloned()).collect()
    }
}

/// The inventory and what would be chosen: what `kiln devices` shows. `Display` is the table; serialised, it is
/// the JSON: `devices`, `chosen`, `reason`, `lost`, `notes`.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport<'a> {
    devices: &'a [PhysicalDevice],
    requested: DeviceRequest,
    chosen: Candidate,
    reason: String,
    lost: Vec<crate::choose::Lost>,
    notes: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    measured: Vec<Measured>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    #[serde(skip)]
    summary: String,
}

impl<'a> DeviceReport<'a> {
    /// Describes `inventory` and what `request` would choose of it. Opens nothing.
    ///
    /// # Errors
    /// As [`choose`].
    pub fn new(inventory: &'a Inventory, request: &DeviceRequest) -> Result<Self, DeviceError> {
        let choice = choose(inventory, request)?;
        Ok(Self {
            devices: &inventory.devices,
            notes: &inventory.notes,
            summary: choice.summary(),
            requested: choice.requested,
            chosen: choice.chosen,
            reason: choice.reason,
            lost: choice.lost,
            measured: Vec::new(),
            advice: None,
        })
    }

    /// Adds what [`measure`](crate::measure) found, and what it says against the choice.
    #[must_use]
    pub fn with_measured(mut self, measured: Vec<Measured>) -> Self {
        self.advice = advice(&measured, self.chosen.request);
        self.measured = measured;
        self
    }
}

impl fmt::Display for DeviceReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let widths: [usize; 5] = std::array::from_fn(|column| {
            let width = |row: &[String; 5]| row[column].chars().count();
            rows.iter().map(width).max().unwrap_or(0)
        });
        for row in &rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                write!(line, "{cell:<width$}  ")?;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f)?;
        writeln!(f, "{:<13}  would be used: {}", self.chosen.request, self.reason)?;
        for lost in &self.lost {
            writeln!(f, "{:<13}  not used: {}", lost.candidate.request, lost.reason)?;
            if let Some(remedy) = &lost.remedy {
                writeln!(f, "{:<13}  remedy: {remedy}", "")?;
            }
        }
        self.write_measured(f)?;
        for device in self.devices {
            if let Some(bus) = &device.bus {
                writeln!(f, "{}", bus_line(bus))?;
            }
        }
        for note in self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

impl DeviceReport<'_> {
    /// The line that [`Choice::summary`] gives for this choice.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    fn write_measured(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.measured.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{:<13}  {:>9}  {:>12}  {:>12}  {:>9}", "MEASURED", "COPY", "MATMUL", "CONVOLUTION", "LAUNCH")?;
        for of in &self.measured {
            match of.speed {
                Some(speed) => writeln!(
                    f,
                    "{:<13}  {:>4.1} GB/s  {:>5.0} Gflop/s  {:>5.0} Gflop/s  {:>6.0} µs{}",
                    of.request,
                    speed.copy_gb_per_sec,
                    speed.matmul_gflops,
                    speed.conv_gflops,
                    speed.launch_micros,
                    if of.cached { "  (kept from before)" } else { "" }
                )?,
                None => writeln!(f, "{:<13}  {}", of.request, of.problem.as_deref().unwrap_or("not measured"))?,
            }
        }
        if let Some(advice) = &self.advice {
            writeln!(f, "{advice}")?;
        }
        writeln!(f)
    }

    /// One row per route, the chosen one marked; a card's second route repeats its name as a ditto.
    fn rows(&self) -> Vec<[String; 5]> {
        let mut rows = vec![["DEVICE", "NAME", "KIND", "MEMORY", "THROUGH"].map(str::to_owned)];
        for device in self.devices {
            if device.routes.is_empty() {
                rows.push([
                    "-".to_owned(),
                    device.name.clone(),
                    device.kind.to_string(),
                    device.memory_bytes.map_or_else(String::new, gib),
                    device
                        .bus
                        .as_ref()
                        .map_or("nothing", |bus| if bus.is_asleep() { "asleep" } else { "nothing" })
                        .into(),
                ]);
            }
            for (position, route) in device.routes.iter().enumerate() {
                let mark = if route.request == self.chosen.request { "*" } else { "" };
                let first = position == 0;
                let driver = route.driver.as_ref();
                let driver = driver.map_or_else(String::new, |driver| format!(", {driver}"));
                rows.push([
                    format!("{}{mark}", route.request),
                    if first { device.name.clone() } else { "  same card".to_owned() },
                    if first { device.kind.to_string() } else { String::new() },
                    device.memory_bytes.filter(|_| first).map_or_else(String::new, gib),
                    format!("{}{driver}", route.api),
                ]);
            }
        }
        rows
    }
}

/// A card as the kernel sees it: place, driver, power state, display, PCIe link.
fn bus_line(bus: &BusDevice) -> String {
    let mut line = format!("{}: kernel driver {}", bus.name_and_place(), bus.driver.as_deref().unwrap_or("none"));
    if let Some(state) = &bus.power_state {
        line.push_str(&format!(", power state {state}"));
    }
    line.push_str(if bus.drives_display { ", drives a display" } else { "" });
    if let Some(link) = &bus.link {
        line.push_str(&format!(", PCIe {} x{}", link.speed, link.width));
    }
    if let Some(max) = bus.max_link.as_ref().filter(|max| Some(*max) != bus.link.as_ref()) {
        line.push_str(&format!(" (at best {} x{})", max.speed, max.width));
    }
    line
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        inventory::{Api, Problem, cuda::CudaDevice, wgpu::AdapterKind},
        machines::{adapter, cuda_card, machine},
    };

    fn laptop(cuda_problem: Option<Problem>) -> Inventory {
        let name = "NVIDIA GeForce RTX 3050 Laptop GPU";
        let card = CudaDevice { problem: cuda_problem, ..cuda_card(name, "0000:01:00.0", (8, 6)) };
        let vulkan = |kind, name, id, pci, driver| adapter(Api::Vulkan, kind, name, id, pci, driver);
        machine(
            vec![card],
            vec![
                vulkan(
                    AdapterKind::IntegratedGpu,
                    "AMD Radeon Vega 8 Graphics",
                    (0x1002, 0x1638),
                    "0000:05:00.0",
                    "radv",
                ),
                vulkan(AdapterKind::DiscreteGpu, name, (0x10de, 0x25a2), "0000:01:00.0", "NVIDIA"),
            ],
        )
    }

    #[test]
    fn the_summary_says_what_and_why() {
        let choice = choose(&laptop(None), &DeviceRequest::Auto).expect("three routes");
        assert_eq!(
            choice.summary(),
            "Using NVIDIA GeForce RTX 3050 Laptop GPU (discrete GPU over CUDA). Not used: \
             NVIDIA GeForce RTX 3050 Laptop GPU over Vulkan (same card; CUDA is preferred); \
             AMD Radeon Vega 8 Graphics over Vulkan (integrated GPU; a discrete GPU over CUDA goes first)."
        );
    }

    #[test]
    fn a_missing_compiler_and_its_remedy_are_in_the_summary() {
        let problem = Problem::new("NVRTC is not installed").with_remedy("pip install nvrtc");
        let choice = choose(&laptop(Some(problem)), &DeviceRequest::Auto).expect("three routes");
        let summary = choice.summary();
        assert!(summary.contains("over CUDA (NVRTC is not installed; to fix it: pip install nvrtc)"), "{summary}");
    }

    #[test]
    fn without_a_gpu_the_summary_says_why_there_is_none() {
        let choice = choose(&machine(vec![], vec![]), &DeviceRequest::Auto).expect("the processor");
        assert_eq!(
            choice.summary(),
            "Using the CPU (AMD Ryzen 7 5800H, 16 threads): no usable GPU. Not used: CUDA: no NVIDIA driver \
             (libcuda.so.1 is not installed); no Vulkan driver."
        );
        let choice = choose(&machine(vec![], vec![]), &DeviceRequest::Cpu).expect("the processor");
        assert_eq!(choice.summary(), "Using the CPU (AMD Ryzen 7 5800H, 16 threads): as asked.");
    }

    #[test]
    fn the_table_has_one_row_per_route_and_marks_the_chosen() {
        let inventory = laptop(None);
        let report = DeviceReport::new(&inventory, &DeviceRequest::Auto).expect("three routes");
        let table = report.to_string();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("DEVICE"), "{table}");
        assert!(lines[1].starts_with("cuda:0*") && lines[1].contains("4.0 GiB"), "{table}");
        assert!(lines[2].starts_with("wgpu:0 ") && lines[2].contains("same card"), "{table}");
        assert!(lines[3].contains("integrated GPU"), "{table}");
        assert!(table.contains("would be used: discrete GPU over CUDA"), "{table}");
    }

    #[test]
    fn the_json_carries_devices_choice_reasons_and_notes() {
        let inventory = laptop(Some(Problem::new("no compiler").with_remedy("install it")));
        let report = DeviceReport::new(&inventory, &DeviceRequest::Auto).expect("three routes");
        let json = serde_json::to_value(&report).expect("plain data");
        assert_eq!(json["chosen"]["request"], "wgpu:0");
        assert_eq!(json["chosen"]["backend"], "wgpu");
        assert_eq!(json["reason"], "discrete GPU over Vulkan");
        let card = &json["devices"][0];
        assert_eq!(card["kind"], "discrete");
        assert_eq!(card["memory_bytes"], 4_u64 << 30);
        assert_eq!(card["pci_address"], "0000:01:00.0");
        assert_eq!(card["routes"][0]["request"], "cuda:0");
        assert_eq!(card["routes"][0]["driver"], "NVIDIA 550.90.07 (CUDA 12.4)");
        assert_eq!(card["routes"][0]["problem"]["reason"], "no compiler");
        assert_eq!(card["routes"][1]["backend"], "wgpu");
        assert_eq!(json["lost"][0]["request"], "cuda:0");
        assert_eq!(json["lost"][0]["reason"], "no compiler");
        assert_eq!(json["lost"][0]["remedy"], "install it");
        assert!(json["notes"].is_array());
    }
}
