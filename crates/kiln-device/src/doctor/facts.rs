//! All that the checks look at, gathered once, each driver in a child process with a deadline.
//!
//! The checks are pure functions of [`Facts`], so that a recorded machine can be examined in a test.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{platform::Platform, trial::Trial, variables};
use crate::{
    attempt::attempt,
    choose::{Choice, choose},
    error::DeviceError,
    inventory::{
        HardwareKind, Inventory, Sources, Wake,
        bus::{self, BusDevice, VENDOR_NVIDIA},
        library_file,
        vulkan_files::{self, Manifest},
    },
    monitor::{GpuSample, Monitor},
    nvrtc::Compilers,
    request::DeviceRequest,
};

/// How long each driver may take to answer.
const PROBE_DEADLINE: Duration = Duration::from_secs(9);
/// How long opening a device node may take: the kernel waits for a sick card.
const NODE_DEADLINE: Duration = Duration::from_secs(2);

/// A file through which programs reach a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) path: String,
    pub(crate) state: NodeState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeState {
    Usable,
    Missing,
    Refused,
    /// Its card sleeps, and opening it would wake it.
    Untried,
}

/// Everything known about the machine.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) platform: Platform,
    pub(crate) sources: Sources,
    /// The version of the loaded NVIDIA kernel module.
    pub(crate) nvidia_module: Option<String>,
    /// Readings of the other makers' cards.
    pub(crate) other_gpus: Vec<GpuSample>,
    pub(crate) nvidia_nodes: Vec<Node>,
    pub(crate) render_nodes: Vec<Node>,
    /// Whether WSL's door to the GPU is there.
    pub(crate) dxg: bool,
    pub(crate) cuda_defects: Vec<String>,
    pub(crate) nvml_defects: Vec<String>,
    pub(crate) vulkan_loader: Vec<PathBuf>,
    pub(crate) vulkan_defects: Vec<String>,
    pub(crate) manifests: Vec<Manifest>,
    pub(crate) visible_devices: Option<String>,
    pub(crate) inventory: Inventory,
    pub(crate) choice: Choice,
    pub(crate) trials: Vec<Trial>,
    pub(crate) num_threads: usize,
    pub(crate) memory_bytes: Option<u64>,
    /// Programs that wanted to run during the last minute.
    pub(crate) load: Option<f32>,
    pub(crate) on_battery: bool,
    /// Windows' limit for one kernel, seconds; `Some(0)` never occurs.
    pub(crate) tdr_delay_secs: Option<u32>,
}

impl Facts {
    /// Asks everything; `ends` is when all must be over.
    pub(crate) fn gather(wake: bool, ends: Instant) -> Result<Self, DeviceError> {
        let root = Path::new("/");
        let sources = Sources::ask(if wake { Wake::Yes } else { Wake::No }, Some(PROBE_DEADLINE));
        let (nvidia_nodes, render_nodes) = nodes(&sources.bus, wake);
        let mut inventory = sources.inventory();
        let mut trials = Vec::new();
        let choice = super::trial::choose_and_try(&mut inventory, &mut trials, ends)?;
        Ok(Self {
            platform: Platform::of(root),
            nvidia_module: bus::nvidia_module_version(root),
            other_gpus: others(root),
            nvidia_nodes,
            render_nodes,
            dxg: Path::new("/dev/dxg").exists(),
            cuda_defects: library_file::defects_of("libcuda.so.1"),
            nvml_defects: library_file::defects_of("libnvidia-ml.so.1"),
            vulkan_loader: library_file::places_of("libvulkan.so.1"),
            vulkan_defects: library_file::defects_of("libvulkan.so.1"),
            manifests: vulkan_files::manifests(),
            visible_devices: std::env::var_os("CUDA_VISIBLE_DEVICES").map(|value| value.to_string_lossy().into()),
            num_threads: thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: inventory.devices.last().and_then(|processor| processor.memory_bytes),
            load: bus::text(&root.join("proc/loadavg")).and_then(|text| text.split(' ').next()?.parse().ok()),
            on_battery: on_battery(root),
            tdr_delay_secs: super::windows::tdr_delay_secs(),
            sources,
            inventory,
            choice,
            trials,
        })
    }

    pub(crate) fn cards(&self) -> &[BusDevice] {
        &self.sources.bus
    }

    pub(crate) fn nvidia_cards(&self) -> impl Iterator<Item = &BusDevice> {
        self.cards().iter().filter(|card| card.vendor == VENDOR_NVIDIA)
    }

    /// Whether there is an NVIDIA GPU, as far as anyone tells.
    pub(crate) fn has_nvidia(&self) -> bool {
        self.nvidia_cards().next().is_some()
            || !self.sources.cuda.devices.is_empty()
            || self.sources.nvml.as_ref().is_some_and(|nvml| !nvml.gpus.is_empty())
            || self.sources.wgpu.adapters.iter().any(|adapter| adapter.vendor == VENDOR_NVIDIA)
    }

    /// Whether there is any GPU.
    pub(crate) fn has_gpu(&self) -> bool {
        let is_gpu = |kind| !matches!(kind, HardwareKind::Software | HardwareKind::Cpu);
        self.has_nvidia() || self.inventory.devices.iter().any(|device| is_gpu(device.kind))
    }

    /// Whether NVIDIA's driver was left alone because its card sleeps.
    pub(crate) fn nvidia_sleeps(&self) -> bool {
        self.sources.nvml.is_none() && self.nvidia_cards().any(BusDevice::is_asleep)
    }

    /// A card that sleeps, has a driver, and beats what was chosen among those awake.
    pub(crate) fn sleeping_first_choice(&self) -> Option<String> {
        let discrete_chosen = matches!(self.choice.chosen.kind, HardwareKind::Discrete);
        let mut sleeping = self.cards().iter().filter(|card| card.is_asleep() && card.driver.is_some());
        let unasked = |card: &&BusDevice| {
            let row = self.inventory.devices.iter().find(|device| device.pci_address == Some(card.address));
            row.is_none_or(|device| device.routes.is_empty())
        };
        let card = sleeping.find(unasked)?;
        (!discrete_chosen).then(|| card.name())
    }

    /// Whether NVIDIA's kernel driver runs the card, or the system has no such thing to look at.
    pub(crate) fn nvidia_driver_bound(&self) -> bool {
        self.nvidia_cards().next().is_none() || self.nvidia_cards().any(|card| card.driver.as_deref() == Some("nvidia"))
    }

    /// Version of the NVIDIA driver, from whoever tells it.
    pub(crate) fn nvidia_release(&self) -> Option<String> {
        let nvml = self.sources.nvml.as_ref().and_then(|nvml| nvml.driver.clone());
        self.nvidia_module.clone().or_else(|| self.sources.cuda.driver_release.clone()).or(nvml)
    }

    pub(crate) fn compilers(&self) -> &Compilers {
        &self.sources.compilers
    }

    /// Identifiers of all NVIDIA cards, hidden ones included, in PCI order.
    pub(crate) fn nvidia_uuids(&self) -> Vec<String> {
        self.sources.nvml.iter().flat_map(|nvml| &nvml.gpus).filter_map(|gpu| gpu.uuid.clone()).collect()
    }

    pub(crate) fn variables(&self) -> Vec<variables::Variable> {
        variables::variables(&self.nvidia_uuids())
    }

    /// Readings of all cards.
    pub(crate) fn samples(&self) -> Vec<GpuSample> {
        let nvidia = self.sources.nvml.iter().flat_map(|nvml| nvml.gpus.clone());
        nvidia.chain(self.other_gpus.clone()).collect()
    }
}

/// Readings of AMD's and Intel's cards, and of those of NVIDIA's that sleep.
fn others(root: &Path) -> Vec<GpuSample> {
    Monitor::read_passively(root)
}

fn nodes(cards: &[BusDevice], wake: bool) -> (Vec<Node>, Vec<Node>) {
    if !cfg!(target_os = "linux") {
        return (Vec::new(), Vec::new());
    }
    let untried =
        |nvidia: bool| !wake && cards.iter().any(|card| card.is_asleep() && (card.vendor == VENDOR_NVIDIA) == nvidia);
    let nvidia = ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"].map(str::to_owned);
    let render = cards.iter().filter(|card| card.vendor != VENDOR_NVIDIA).filter_map(|card| card.render_node.clone());
    let render = render.map(|name| format!("/dev/dri/{name}"));
    (try_all(nvidia, untried(true)), try_all(render, untried(false)))
}

/// Tries several files at once: each may take its deadline.
fn try_all(paths: impl IntoIterator<Item = String>, untried: bool) -> Vec<Node> {
    thread::scope(|scope| {
        let started: Vec<_> = paths.into_iter().map(|path| scope.spawn(move || node(path, untried))).collect();
        started.into_iter().filter_map(|started| started.join().ok()).collect()
    })
}

fn node(path: String, untried: bool) -> Node {
    let state = if !Path::new(&path).exists() {
        NodeState::Missing
    } else if untried {
        NodeState::Untried
    } else {
        let tried = path.clone();
        let opened = attempt(NODE_DEADLINE, move || {
            fs::OpenOptions::new().read(true).write(true).open(tried).map(drop).map_err(|error| error.kind())
        });
        match opened {
            Ok(Err(std::io::ErrorKind::PermissionDenied)) => NodeState::Refused,
            _ => NodeState::Usable,
        }
    };
    Node { path, state }
}

/// Whether the machine has mains power and it is unplugged.
fn on_battery(root: &Path) -> bool {
    let supplies = fs::read_dir(root.join("sys/class/power_supply")).into_iter().flatten().flatten();
    let mains: Vec<bool> = supplies
        .map(|entry| entry.path())
        .filter(|path| bus::text(&path.join("type")).as_deref() == Some("Mains"))
        .filter_map(|path| Some(bus::number(&path.join("online"))? == 1))
        .collect();
    !mains.is_empty() && !mains.contains(&true)
}

/// What `auto` takes of an inventory; it always finds the processor.
pub(crate) fn auto(inventory: &Inventory) -> Result<Choice, DeviceError> {
    choose(inventory, &DeviceRequest::Auto)
}
