//! Live readings of the GPUs: how busy, how much memory, how warm, how fast, and what holds them back.
//!
//! In: NVML for NVIDIA, sysfs for AMD, what the kernel offers for Intel. Out: a [`Reading`] of [`GpuSample`]s.
//! What a card or its driver doesn't tell is absent, never 0, and never an error. One row per physical card,
//! joined by PCI address. A sleeping card isn't asked, and an idle one that could sleep is left alone for a while
//! ([`NvidiaSource`]). Sampling once a second costs well under a hundredth of a core.
//! Not done here: drawing (that is the `kiln` command's).

mod alerts;
mod amd;
mod glance;
mod intel;
mod nvidia;
mod sample;

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use serde::Serialize;

use self::{alerts::History, intel::IntelSource, nvidia::NvidiaSource};
pub(crate) use self::{
    alerts::judge_once,
    nvidia::{NvmlListing, ask_nvml, nvml_listing, start_nvml},
};
pub use self::{
    glance::Glance,
    nvidia::throttle_names,
    sample::{GpuSample, GpuState},
};
use crate::inventory::bus::{self, BusDevice, VENDOR_AMD, VENDOR_INTEL, VENDOR_NVIDIA};
pub use crate::inventory::nvml::GpuProcess;

/// All cards at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Reading {
    /// Seconds since the monitor was made.
    pub elapsed_secs: f64,
    /// One entry a card, by PCI address.
    pub gpus: Vec<GpuSample>,
    /// Why something is absent that a person would expect.
    pub notes: Vec<String>,
}

/// Reads all cards again and again.
pub struct Monitor {
    root: PathBuf,
    started: Instant,
    nvidia: NvidiaSource,
    intel: IntelSource,
    history: History,
}

impl Monitor {
    /// A monitor of this machine. Asks nothing yet.
    pub fn new() -> Self {
        Self::below(Path::new("/"))
    }

    /// A monitor of the machine whose `/sys` and `/proc` lie below `root`.
    fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            started: Instant::now(),
            nvidia: NvidiaSource::default(),
            intel: IntelSource::default(),
            history: History::default(),
        }
    }

    /// Reads every card once. Takes milliseconds, and the first time up to five seconds for a driver that hangs; one
    /// that hangs later makes it hang.
    pub fn read(&mut self) -> Reading {
        let elapsed_secs = self.started.elapsed().as_secs_f64();
        let cards = bus::gpus(&self.root);
        let (mut gpus, notes) = self.nvidia.read(&cards, elapsed_secs);
        gpus.extend(cards.iter().filter(|card| card.vendor != VENDOR_NVIDIA).map(|card| self.read_other(card)));
        gpus.sort_by_key(|gpu| gpu.pci_address);
        self.history.judge(&mut gpus);
        Reading { elapsed_secs, gpus, notes }
    }

    /// Reads the cards below `root` that can be read without NVML.
    pub(crate) fn read_passively(root: &Path) -> Vec<GpuSample> {
        let mut monitor = Self::below(root);
        let cards = bus::gpus(root);
        let readable = cards.iter().filter(|card| card.vendor != VENDOR_NVIDIA || card.is_asleep());
        readable.map(|card| monitor.read_other(card)).collect()
    }

    fn read_other(&mut self, card: &BusDevice) -> GpuSample {
        let mut sample = GpuSample::of(card);
        match card.vendor {
            _ if card.is_asleep() => {}
            VENDOR_AMD => amd::read(card, &mut sample),
            VENDOR_INTEL => self.intel.read(card, &mut sample),
            _ => {}
        }
        sample
    }
}

impl Default for Monitor {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, unix))]
mod tests;
