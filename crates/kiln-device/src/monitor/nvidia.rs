//! NVIDIA cards through NVML, asked only while no NVIDIA card sleeps.
//!
//! `nvmlInit` wakes every NVIDIA card, and as long as NVML is in use none falls asleep: that costs a laptop 5–7 W.
//! So the kernel's power state is read before each reading, NVML is let go as soon as a card sleeps, and a card
//! that idles and may sleep is left alone for [`REST_SECS`]. A lost card is told once and not asked again.

use std::{collections::HashSet, time::Duration};

use serde::{Deserialize, Serialize};

use super::sample::{GpuSample, GpuState};
use crate::inventory::{
    PciAddress,
    bus::{BusDevice, VENDOR_NVIDIA},
    nvml::{self, Failure, Handle, Nvml},
    probe,
};

/// Readings without work after which a card is left alone.
const IDLE_READINGS: u32 = 5;

/// How long it is left alone; the driver puts an unused card to sleep after a few seconds.
const REST_SECS: f64 = 20.0;

/// How long the library may take to start when it is first tried, in a child process.
const START_DEADLINE: Duration = Duration::from_secs(5);

/// How long a library that failed isn't tried again.
const RETRY_SECS: f64 = 30.0;

// nvmlClockType_t, nvmlPcieUtilCounter_t and nvmlTemperatureThresholds_t, from nvml.h.
const CLOCK_SM: u32 = 1;
const CLOCK_MEMORY: u32 = 2;
const PCIE_TX: u32 = 0;
const PCIE_RX: u32 = 1;
const THRESHOLD_SLOWDOWN: u32 = 1;

/// What NVML said once, for the doctor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NvmlListing {
    /// Version of the driver.
    pub(crate) driver: Option<String>,
    /// Newest CUDA version of the driver, 1000 × major + 10 × minor.
    pub(crate) cuda: Option<i32>,
    /// The cards.
    pub(crate) gpus: Vec<GpuSample>,
    /// Why there are none.
    pub(crate) failure: Option<Failure>,
}

/// Asks NVML everything once. Wakes sleeping cards.
pub(crate) fn ask_nvml() -> NvmlListing {
    match Nvml::open() {
        Err(failure) => NvmlListing { failure: Some(failure), ..NvmlListing::default() },
        Ok(nvml) => NvmlListing {
            driver: nvml.driver_version(),
            cuda: nvml.cuda_version(),
            gpus: nvml.handles().into_iter().map(|card| sample(&nvml, card)).collect(),
            failure: None,
        },
    }
}

/// Starts NVML and lets it go.
pub(crate) fn start_nvml() -> Result<(), Failure> {
    Nvml::open().map(drop)
}

/// As [`ask_nvml`], asked from a child process or a thread within a deadline.
pub(crate) fn nvml_listing(deadline: Duration) -> NvmlListing {
    let failed =
        |text| NvmlListing { failure: Some(Failure { code: nvml::LIBRARY_BROKEN, text }), ..NvmlListing::default() };
    probe::ask(probe::Question::Nvml, deadline, &[], ask_nvml).unwrap_or_else(failed)
}

/// NVML, and what has been learnt while reading it.
#[derive(Default)]
pub(super) struct NvidiaSource {
    session: Option<Session>,
    /// Whether the library has been seen to start, so that it may be loaded into this process.
    starts: bool,
    failure: Option<(Failure, f64)>,
    idle_readings: u32,
    rests_until: f64,
    lost: HashSet<PciAddress>,
}

struct Session {
    nvml: Nvml,
    handles: Vec<Handle>,
}

impl NvidiaSource {
    /// One sample a card, and what to tell a person.
    pub(super) fn read(&mut self, cards: &[BusDevice], now_secs: f64) -> (Vec<GpuSample>, Vec<String>) {
        let cards: Vec<&BusDevice> = cards.iter().filter(|card| card.vendor == VENDOR_NVIDIA).collect();
        let of_all = |state: Option<GpuState>| -> Vec<GpuSample> {
            let with_state = |mut sample: GpuSample| {
                sample.state = state.filter(|_| sample.state == GpuState::Active).unwrap_or(sample.state);
                sample
            };
            cards.iter().map(|card| with_state(GpuSample::of(card))).collect()
        };
        // The kernel's word, which costs the card nothing.
        if cards.iter().any(|card| card.is_asleep()) {
            self.session = None;
            let awake = cards.iter().any(|card| !card.is_asleep());
            let note = "an NVIDIA GPU sleeps, and asking about the others would wake it".to_owned();
            return (of_all(Some(GpuState::Unknown)), if awake { vec![note] } else { Vec::new() });
        }
        if now_secs < self.rests_until {
            return (of_all(Some(GpuState::Resting)), Vec::new());
        }
        if let Some((failure, until)) = &self.failure
            && now_secs < *until
        {
            return (of_all(Some(GpuState::Unknown)), note_of(failure, !cards.is_empty()));
        }
        let session = match self.session.take().map_or_else(|| self.open(), Ok) {
            Ok(session) => session,
            Err(failure) => {
                let notes = note_of(&failure, !cards.is_empty());
                self.failure = Some((failure, now_secs + RETRY_SECS));
                return (of_all(Some(GpuState::Unknown)), notes);
            }
        };
        let (samples, notes) = self.sample_all(&session, &cards);
        let may_sleep = cards.iter().all(|card| card.power_control.as_deref() == Some("auto") && !card.drives_display);
        let idle = samples.iter().all(is_idle);
        self.idle_readings = if idle && may_sleep && !cards.is_empty() { self.idle_readings + 1 } else { 0 };
        if self.idle_readings >= IDLE_READINGS {
            self.idle_readings = 0;
            self.rests_until = now_secs + REST_SECS;
        } else if self.lost.is_empty() {
            self.session = Some(session);
        }
        (samples, notes)
    }

    /// Loads the library here only after another process has: one that hangs or crashes is a failure like others.
    fn open(&mut self) -> Result<Session, Failure> {
        if !self.starts {
            let failed = |text| Failure { code: nvml::LIBRARY_BROKEN, text };
            probe::ask(probe::Question::NvmlStart, START_DEADLINE, &[], start_nvml).map_err(failed)??;
            self.starts = true;
        }
        Session::open()
    }

    fn sample_all(&mut self, session: &Session, cards: &[&BusDevice]) -> (Vec<GpuSample>, Vec<String>) {
        let mut notes = Vec::new();
        let mut samples: Vec<GpuSample> = Vec::new();
        for &handle in &session.handles {
            let address = session.nvml.pci_address(handle);
            let card = cards.iter().find(|card| Some(card.address) == address);
            if address.is_some_and(|address| self.lost.contains(&address)) {
                let known = card.map_or_else(GpuSample::default, |card| GpuSample::of(card));
                samples.push(GpuSample { state: GpuState::Lost, pci_address: address, ..known });
                continue;
            }
            let sample = sample(&session.nvml, handle);
            if sample.state == GpuState::Lost {
                notes.push(format!("{}: {}; restart the machine", sample.name, nvml::meaning(nvml::GPU_LOST)));
                self.lost.extend(address);
            }
            samples.push(sample);
        }
        let missing = cards.iter().filter(|card| samples.iter().all(|sample| sample.pci_address != Some(card.address)));
        let missing: Vec<GpuSample> =
            missing.map(|card| GpuSample { state: GpuState::Unknown, ..GpuSample::of(card) }).collect();
        samples.extend(missing);
        (samples, notes)
    }
}

impl Session {
    fn open() -> Result<Self, Failure> {
        let nvml = Nvml::open()?;
        let handles = nvml.handles();
        Ok(Self { nvml, handles })
    }
}

/// A machine without an NVIDIA card needs no word about NVIDIA's library.
fn note_of(failure: &Failure, has_card: bool) -> Vec<String> {
    if has_card || failure.code != nvml::LIBRARY_MISSING {
        return vec![format!("no readings from NVIDIA's driver: {}", failure.text)];
    }
    Vec::new()
}

fn is_idle(sample: &GpuSample) -> bool {
    sample.util.unwrap_or(0.0) == 0.0 && sample.processes.as_ref().is_none_or(Vec::is_empty)
}

/// Asks everything about one card.
fn sample(nvml: &Nvml, card: Handle) -> GpuSample {
    let util = nvml.utilisation(card);
    let memory = nvml.memory(card).ok();
    let mib = |bytes: u64| bytes >> 20;
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
    let link = |generation, width| Some(format!("gen {} x{}", generation?, width?));
    let traffic = |counter| nvml.number_of(card, c"nvmlDeviceGetPcieThroughput", counter).ok();
    let number = |name| nvml.number(card, [name]).ok();
    GpuSample {
        name: nvml.name(card).unwrap_or_else(|| "NVIDIA GPU".to_owned()),
        pci_address: nvml.pci_address(card),
        uuid: nvml.uuid(card),
        state: if util == Err(nvml::GPU_LOST) { GpuState::Lost } else { GpuState::Active },
        util: util.ok().map(|(gpu, _)| gpu as f32),
        mem_busy: util.ok().map(|(_, memory)| memory as f32),
        mem_used_mib: memory.map(|(used, _)| mib(used)),
        mem_total_mib: memory.map(|(_, total)| mib(total)),
        temp_c: nvml.temperature(card).ok().map(|celsius| celsius as f32),
        temp_slowdown_c: nvml
            .number_of(card, c"nvmlDeviceGetTemperatureThreshold", THRESHOLD_SLOWDOWN)
            .ok()
            .map(|celsius| celsius as f32),
        power_w: number(c"nvmlDeviceGetPowerUsage").map(watts),
        power_limit_w: nvml
            .number(card, [c"nvmlDeviceGetEnforcedPowerLimit"])
            .or_else(|_| nvml.number(card, [c"nvmlDeviceGetPowerManagementLimit"]))
            .ok()
            .map(watts),
        fan: number(c"nvmlDeviceGetFanSpeed"),
        clock_mhz: nvml.number_of(card, c"nvmlDeviceGetClockInfo", CLOCK_SM).ok(),
        clock_max_mhz: nvml.number_of(card, c"nvmlDeviceGetMaxClockInfo", CLOCK_SM).ok(),
        mem_clock_mhz: nvml.number_of(card, c"nvmlDeviceGetClockInfo", CLOCK_MEMORY).ok(),
        // 32 is NVML's "unknown".
        pstate: number(c"nvmlDeviceGetPerformanceState").filter(|state| *state < 32),
        throttle: nvml.throttle_bits(card).ok().map(throttle_names),
        pcie: link(number(c"nvmlDeviceGetCurrPcieLinkGeneration"), number(c"nvmlDeviceGetCurrPcieLinkWidth")),
        pcie_max: link(number(c"nvmlDeviceGetMaxPcieLinkGeneration"), number(c"nvmlDeviceGetMaxPcieLinkWidth")),
        pcie_rx_mib_s: traffic(PCIE_RX).map(|kib| kib as f32 / 1024.0),
        pcie_tx_mib_s: traffic(PCIE_TX).map(|kib| kib as f32 / 1024.0),
        processes: nvml.processes(card).ok(),
        ..GpuSample::default()
    }
}

/// The names of what lowers the clocks. Idling isn't among them. Source: `nvmlClocksEventReasons`, nvml.h.
pub fn throttle_names(bits: u64) -> Vec<String> {
    const NAMES: [(u64, &str); 8] = [
        (0x2, "applications_clocks"),
        (0x4, "sw_power_cap"),
        (0x8, "hw_slowdown"),
        (0x10, "sync_boost"),
        (0x20, "sw_thermal"),
        (0x40, "hw_thermal"),
        (0x80, "hw_power_brake"),
        (0x100, "display_clock"),
    ];
    NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_names_and_idling_is_none() {
        assert_eq!(throttle_names(0x24), ["sw_power_cap", "sw_thermal"]);
        assert!(throttle_names(1).is_empty());
    }

    #[test]
    fn a_sleeping_card_is_listed_and_not_asked() {
        let card = |status: &str, bus: u8| BusDevice {
            vendor: VENDOR_NVIDIA,
            address: PciAddress { bus, ..PciAddress::default() },
            runtime_status: Some(status.to_owned()),
            ..BusDevice::default()
        };
        let mut source = NvidiaSource::default();
        let (samples, notes) = source.read(&[card("suspended", 1)], 0.0);
        assert_eq!((samples[0].state, samples[0].util), (GpuState::Asleep, None));
        assert!(notes.is_empty() && source.failure.is_none());
        // Its neighbour isn't asked either: that would wake both.
        let (samples, notes) = source.read(&[card("suspended", 1), card("active", 2)], 1.0);
        assert_eq!(
            samples.iter().map(|sample| sample.state).collect::<Vec<_>>(),
            [GpuState::Asleep, GpuState::Unknown]
        );
        assert_eq!(notes.len(), 1);
    }
}
