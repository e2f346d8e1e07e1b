//! What is known about one card at one moment.

use serde::{Deserialize, Serialize};

use crate::inventory::{BusDevice, PciAddress, nvml::GpuProcess};

/// What a card does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuState {
    /// It is on.
    #[default]
    Active,
    /// It sleeps, and wasn't asked.
    Asleep,
    /// It idles and may fall asleep; it is left alone meanwhile.
    Resting,
    /// The driver has lost it; only a restart brings it back.
    Lost,
    /// Its driver doesn't answer.
    Unknown,
}

/// One card at one moment. What isn't known is `None`, and `null` in JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GpuSample {
    /// The card's name.
    pub name: String,
    /// Its place on the PCI bus.
    pub pci_address: Option<PciAddress>,
    /// NVIDIA's identifier.
    pub uuid: Option<String>,
    /// What it does.
    pub state: GpuState,
    /// Share of time in which it computed, percent. Intel: in which it wasn't in its idle state.
    pub util: Option<f32>,
    /// Share of time in which its memory was accessed, percent.
    pub mem_busy: Option<f32>,
    /// Memory in use, MiB.
    pub mem_used_mib: Option<u64>,
    /// Memory there is, MiB: for a part of the processor its own and what it may share.
    pub mem_total_mib: Option<u64>,
    /// Memory of its own, MiB (amdgpu).
    pub vram_mib: Option<u64>,
    /// Memory of the machine that it may use, MiB (amdgpu).
    pub gtt_mib: Option<u64>,
    /// Temperature, °C.
    pub temp_c: Option<f32>,
    /// Temperature at which it slows down, °C.
    pub temp_slowdown_c: Option<f32>,
    /// Power drawn, W.
    pub power_w: Option<f64>,
    /// Power it may draw now, W.
    pub power_limit_w: Option<f64>,
    /// Fan speed, percent.
    pub fan: Option<u32>,
    /// Clock of its compute units, MHz.
    pub clock_mhz: Option<u32>,
    /// The highest such clock, MHz.
    pub clock_max_mhz: Option<u32>,
    /// Clock of its memory, MHz.
    pub mem_clock_mhz: Option<u32>,
    /// Performance state, 0 (fastest) to 15.
    pub pstate: Option<u32>,
    /// What lowers its clocks; empty if nothing does.
    pub throttle: Option<Vec<String>>,
    /// PCIe generation and lanes now.
    pub pcie: Option<String>,
    /// PCIe generation and lanes at best.
    pub pcie_max: Option<String>,
    /// Traffic to the card, MiB/s.
    pub pcie_rx_mib_s: Option<f32>,
    /// Traffic from the card, MiB/s.
    pub pcie_tx_mib_s: Option<f32>,
    /// Processes that compute on it.
    pub processes: Option<Vec<GpuProcess>>,
    /// What a person should know.
    pub alerts: Vec<String>,
}

impl GpuSample {
    /// What the kernel knows of a card without asking it.
    pub(super) fn of(card: &BusDevice) -> Self {
        let link = |link: &Option<crate::inventory::PcieLink>| {
            link.as_ref().map(|link| format!("{} x{}", link.speed, link.width))
        };
        Self {
            name: card.name(),
            pci_address: Some(card.address),
            state: if card.is_asleep() { GpuState::Asleep } else { GpuState::Active },
            pcie: link(&card.link),
            pcie_max: link(&card.max_link),
            ..Self::default()
        }
    }
}
