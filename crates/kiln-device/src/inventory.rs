//! The inventory: every device of this machine that Kiln could train on, and why others are missing.
//!
//! In: what each source found, [`cuda`] (the CUDA driver), [`wgpu`] (Vulkan, DirectX 12, Metal) and [`cpu`].
//! Out: an [`Inventory`], one [`PhysicalDevice`] per card, each with the [`Route`]s that lead to it. A card
//! that CUDA and Vulkan both list is one device with two routes, joined by PCI address; sources that don't give
//! one are joined by vendor, device id and name. Building it opens no device and never panics: a source that
//! fails is a sentence in [`Inventory::notes`].
//!
//! Not done here: choosing ([`choose`](crate::choose)), and what sysfs and NVML know (power state, display,
//! PCIe link); they become two more files beside these three.

pub(crate) mod cpu;
pub(crate) mod cuda;
pub(crate) mod join;
pub(crate) mod pci;
pub(crate) mod probe;
pub(crate) mod wgpu;

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

pub use self::pci::PciAddress;
use crate::{nvrtc::Installation, request::DeviceRequest};

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
    /// The ways to reach it, best first.
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
/// if a driver hangs.
///
/// Costs a few tenths of a second: the CUDA driver and the graphics drivers are loaded and asked, in a child
/// process if the program called [`probe_child`](crate::probe_child) first.
///
/// On Linux it sets the environment variable `XDG_RUNTIME_DIR` to a private temporary folder if it isn't set,
/// since Mesa's drivers complain otherwise. Call it before starting threads that read the environment through
/// C's `getenv`.
pub fn inventory() -> Inventory {
    crate::environment::set_runtime_dir();
    // Both questions at once: each waits for a driver.
    let (cuda, wgpu) = std::thread::scope(|scope| {
        let cuda = scope.spawn(cuda::listing);
        let wgpu = wgpu::listing();
        (cuda.join(), wgpu)
    });
    let mut cuda = cuda.unwrap_or_else(|_| cuda::Listing::failed("asking the CUDA driver panicked"));
    crate::nvrtc::find_problems(&mut cuda);
    join::join(&cuda, &wgpu, &cpu::this_processor())
}
