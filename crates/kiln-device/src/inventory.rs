//! The inventory: every device of this machine that Kiln could train on, and why others are missing.
//!
//! In: what each source found, [`bus`] (the kernel), [`cuda`] (the CUDA driver), [`wgpu`] (Vulkan, DirectX 12,
//! Metal), [`nvml`] (NVIDIA's management library) and [`cpu`]. Out: an [`Inventory`], one [`PhysicalDevice`] per card, each with the [`Route`]s that lead to it. A card
//! that CUDA and Vulkan both list is one device with two routes, joined by PCI address; sources that don't give
//! one are joined by vendor, device id and name. Building it opens no device and never panics: a source that
//! fails is a sentence in [`Inventory::notes`].
//!
//! Asking a driver about a sleeping card wakes it, so [`passive_inventory`] leaves such a driver alone.
//! Not done here: choosing ([`choose`](crate::choose)), and readings that change ([`Monitor`](crate::Monitor)).

pub(crate) mod bus;
pub(crate) mod cpu;
pub(crate) mod cuda;
pub(crate) mod join;
pub(crate) mod library_file;
pub(crate) mod load;
pub(crate) mod nvml;
pub(crate) mod pci;
pub(crate) mod probe;
pub(crate) mod visible_devices;
pub(crate) mod vulkan_files;
pub(crate) mod wgpu;

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

pub use self::{
    bus::{BusDevice, PcieLink},
    pci::PciAddress,
};
use crate::{
    monitor::{self, NvmlListing},
    nvrtc::{self, Compilers, Installation},
    request::DeviceRequest,
};

/// The family of burn backend that runs a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// NVIDIA's own interface.
    Cuda,
    /// Vulkan, DirectX 12 or Metal.
    Wgpu,
    /// The native CPU backend, flex.
    Cpu,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cuda => "CUDA",
            Self::Wgpu => "wgpu",
            Self::Cpu => "CPU",
        })
    }
}

/// What kind of hardware a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HardwareKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the processor's memory.
    Integrated,
    /// A GPU that a virtual machine's host passes on.
    Virtual,
    /// A driver that draws on the processor (llvmpipe, lavapipe, SwiftShader, WARP); not a GPU.
    Software,
    /// The processor.
    Cpu,
}

impl fmt::Display for HardwareKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Discrete => "discrete GPU",
            Self::Integrated => "integrated GPU",
            Self::Virtual => "virtual GPU",
            Self::Software => "software driver",
            Self::Cpu => "processor",
        })
    }
}

/// The interface through which a route reaches its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// The CUDA driver.
    Cuda,
    /// Vulkan, through wgpu.
    Vulkan,
    /// DirectX 12, through wgpu.
    Dx12,
    /// Metal, through wgpu.
    Metal,
    /// Plain processor code.
    Native,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cuda => "CUDA",
            Self::Vulkan => "Vulkan",
            Self::Dx12 => "DirectX 12",
            Self::Metal => "Metal",
            Self::Native => "native code",
        })
    }
}

/// Why a route can't be used, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What was found.
    pub reason: String,
    /// What to do, as a command or a sentence, if known.
    pub remedy: Option<String>,
}

impl Problem {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: None }
    }

    pub(crate) fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// One way to reach a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Route {
    /// The name to ask for this route by (`--device`).
    pub request: DeviceRequest,
    /// The backend that would run it.
    pub backend: Backend,
    /// The interface it goes through.
    pub api: Api,
    /// What that interface calls the device.
    pub listed_as: String,
    /// The driver and its version, as far as the interface tells.
    pub driver: Option<String>,
    /// What compiles kernels for it, where that is a part of its own (CUDA's NVRTC).
    pub compiler: Option<String>,
    /// Set if the route can't be used at all.
    pub problem: Option<Problem>,
    /// Set if `auto` passes over the route although it can be asked for by name; says why.
    pub only_by_name: Option<String>,
    /// How to open it.
    #[serde(skip)]
    pub(crate) handle: Handle,
}

/// What [`open`](crate::open) needs to open a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Handle {
    /// Index in the CUDA driver's order, the driver library that lists it, and the compiler to use.
    Cuda { index: usize, driver: PathBuf, compiler: Option<Installation> },
    /// Position among the adapters of one kind on one interface, as burn counts them.
    Wgpu { kind: wgpu::AdapterKind, nth: usize },
    /// The CPU backend.
    Cpu,
}

/// One device of the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhysicalDevice {
    /// The device's own name.
    pub name: String,
    /// What kind of hardware it is.
    pub kind: HardwareKind,
    /// Memory it can use, bytes: its own for a discrete GPU, what it may share for an integrated one.
    pub memory_bytes: Option<u64>,
    /// Address on the PCI bus.
    pub pci_address: Option<PciAddress>,
    /// NVIDIA's identifier, `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    pub uuid: Option<String>,
    /// CUDA compute capability, major and minor.
    pub compute_capability: Option<(u32, u32)>,
    /// PCI vendor and device number, where a source gives them.
    pub pci_id: Option<(u32, u32)>,
    /// What the kernel says about it, on Linux: driver, power state, display, PCIe link.
    pub bus: Option<BusDevice>,
    /// The ways to reach it, best first. None for a card that no driver lists.
    pub routes: Vec<Route>,
}

/// Everything Kiln could train on, and why others are missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Inventory {
    /// The devices: GPUs, then software drivers, then the processor.
    pub devices: Vec<PhysicalDevice>,
    /// Why CUDA or wgpu list nothing, and other things worth saying.
    pub notes: Vec<String>,
}

impl Inventory {
    /// Every route with its device, in the order of the list.
    pub fn routes(&self) -> impl Iterator<Item = (&PhysicalDevice, &Route)> {
        self.devices.iter().flat_map(|device| device.routes.iter().map(move |route| (device, route)))
    }

    /// Records that a route failed when it was opened, so that the next choice passes over it.
    pub(crate) fn set_problem(&mut self, request: DeviceRequest, problem: Problem) {
        for device in &mut self.devices {
            for route in &mut device.routes {
                if route.request == request {
                    route.problem = Some(problem.clone());
                }
            }
        }
    }
}

/// Lists the devices of this machine. Opens none of them, never panics, and ends within half a minute even
/// if a driver hangs. Wakes sleeping cards: it is the list to train from.
///
/// Costs a few tenths of a second: the CUDA driver and the graphics drivers are loaded and asked, in a child
/// process if the program called [`probe_child`](crate::probe_child) first.
///
/// On Linux it sets the environment variable `XDG_RUNTIME_DIR` to a private temporary folder if it isn't set,
/// since Mesa's drivers complain otherwise. Call it before starting threads that read the environment through
/// C's `getenv`.
pub fn inventory() -> Inventory {
    Sources::ask(Wake::Yes, None).inventory()
}

/// As [`inventory`], but a card that sleeps is left asleep: it is listed with what the kernel knows of it, its
/// driver isn't asked, and a note says so.
pub fn passive_inventory() -> Inventory {
    Sources::ask(Wake::No, None).inventory()
}

/// Whether drivers of sleeping cards may be asked, which wakes the cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    No,
    Yes,
}

/// What each source says, before it is joined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) bus: Vec<BusDevice>,
    pub(crate) cuda: cuda::Listing,
    pub(crate) compilers: Compilers,
    pub(crate) wgpu: wgpu::Listing,
    /// `None` if it wasn't asked.
    pub(crate) nvml: Option<NvmlListing>,
}

impl Sources {
    /// Asks all sources, each for at most `deadline` or as long as is usual for it.
    pub(crate) fn ask(wake: Wake, deadline: Option<Duration>) -> Self {
        crate::environment::set_runtime_dir();
        let bus = bus::gpus(Path::new("/"));
        let sleeping = |nvidia: bool| {
            bus.iter().any(|card| wake == Wake::No && card.is_asleep() && (card.vendor == bus::VENDOR_NVIDIA) == nvidia)
        };
        let (nvidia_sleeps, other_sleeps) = (sleeping(true), sleeping(false));
        // All questions at once: each waits for a driver.
        let (cuda, nvml, wgpu) = thread::scope(|scope| {
            let cuda = scope.spawn(|| {
                if nvidia_sleeps {
                    return cuda::Listing::failed("not asked, since that would wake the sleeping NVIDIA GPU");
                }
                cuda::listing(deadline.unwrap_or(cuda::DEADLINE))
            });
            let nvml =
                scope.spawn(|| (!nvidia_sleeps).then(|| monitor::nvml_listing(deadline.unwrap_or(cuda::DEADLINE))));
            let wgpu = graphics(nvidia_sleeps, other_sleeps, deadline.unwrap_or(wgpu::DEADLINE));
            (cuda.join(), nvml.join(), wgpu)
        });
        let mut cuda = cuda.unwrap_or_else(|_| cuda::Listing::failed("asking the CUDA driver panicked"));
        let mut compilers = Compilers::default();
        if !cuda.devices.is_empty() {
            compilers = nvrtc::compilers(deadline.unwrap_or(cuda::DEADLINE));
            nvrtc::find_problems(&mut cuda, &compilers);
        }
        Self { bus, cuda, compilers, wgpu, nvml: nvml.unwrap_or_default() }
    }

    /// One row per card.
    pub(crate) fn inventory(&self) -> Inventory {
        let nvml = self.nvml.as_ref().map_or(&[][..], |nvml| &nvml.gpus);
        let mut inventory = join::join(&self.bus, nvml, &self.cuda, &self.wgpu, &cpu::this_processor());
        inventory.notes.extend(self.bus.iter().filter_map(|card| unreachable_note(card, &inventory.devices)));
        inventory
    }
}

/// Asks the graphics drivers, NVIDIA's excepted if its card sleeps.
fn graphics(nvidia_sleeps: bool, other_sleeps: bool, deadline: Duration) -> wgpu::Listing {
    // Mesa's drivers open every card they know.
    if other_sleeps || (nvidia_sleeps && !probe::in_child()) {
        return wgpu::Listing::failed("the graphics drivers were not asked, since that would wake a sleeping GPU");
    }
    if !nvidia_sleeps {
        return wgpu::listing(deadline, &[]);
    }
    let others = vulkan_files::manifests().into_iter().filter(|manifest| !manifest.is_nvidia());
    let files = env::join_paths(others.map(|manifest| manifest.path)).unwrap_or_default();
    // An empty list would mean the usual folders.
    let files = if files.is_empty() { OsString::from("/dev/null") } else { files };
    // The second is the older name.
    wgpu::listing(deadline, &[("VK_DRIVER_FILES", files.clone()), ("VK_ICD_FILENAMES", files)])
}

/// Why a card on the bus has no way to it.
fn unreachable_note(card: &BusDevice, devices: &[PhysicalDevice]) -> Option<String> {
    let row = devices.iter().find(|device| device.pci_address == Some(card.address))?;
    if !row.routes.is_empty() {
        return None;
    }
    let place = card.name_and_place();
    Some(match (card.is_asleep(), &card.driver) {
        (true, _) => format!(
            "{place} is asleep ({}) and was left so; training wakes it, and so does --wake",
            card.power_state.as_deref().unwrap_or("suspended")
        ),
        (false, None) => format!("{place} has no driver; `kiln doctor` says what to do"),
        (false, Some(driver)) => {
            format!("{place} (kernel driver {driver}) can't be reached; `kiln doctor` says why")
        }
    })
}
