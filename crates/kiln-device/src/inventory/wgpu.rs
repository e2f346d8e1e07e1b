//! What the graphics drivers list, through wgpu: Vulkan, DirectX 12 on Windows, Metal on Apple's systems; never
//! OpenGL.
//!
//! In: `wgpu::Instance::enumerate_adapters` of the very wgpu that burn uses. Out: a [`Listing`] of [`Adapter`]s
//! in the order burn counts them in, or the sentence that says why there are none. Asking creates no device.
//! Linux's Vulkan adapters also tell their memory and one extension, through wgpu's HAL.

use std::{ffi::OsString, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Api, pci::PciAddress, probe};

/// How long the drivers may take. llvmpipe loads LLVM, and a busy machine is slow at that.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The extension without which burn's SPIR-V compiler can't run (its kernels crash the driver).
#[cfg(all(feature = "wgpu", not(target_vendor = "apple")))]
const SPIRV_EXTENSION: &std::ffi::CStr = c"VK_KHR_workgroup_memory_explicit_layout";

/// wgpu's classification of an adapter; burn counts adapters of each kind from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum AdapterKind {
    DiscreteGpu,
    IntegratedGpu,
    VirtualGpu,
    Cpu,
    Other,
}

/// One adapter of one graphics interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Adapter {
    pub(crate) name: String,
    pub(crate) api: Api,
    pub(crate) kind: AdapterKind,
    /// PCI vendor number, or one of the Khronos numbers above 0xffff.
    pub(crate) vendor: u32,
    pub(crate) device: u32,
    pub(crate) pci_address: Option<PciAddress>,
    pub(crate) driver: String,
    pub(crate) driver_info: String,
    /// Memory the adapter can use, bytes.
    pub(crate) memory_bytes: Option<u64>,
    /// Whether burn's SPIR-V compiler can run on it, where the interface tells.
    pub(crate) spirv: Option<bool>,
    /// What its shaders may use.
    #[serde(default)]
    pub(crate) limits: Option<Limits>,
}

/// The limits of an adapter that kernels meet first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Buffers one kernel may use.
    pub(crate) storage_buffers: u32,
    /// Largest part of a buffer a kernel may use, bytes.
    pub(crate) binding_bytes: u64,
    /// Largest buffer, bytes.
    pub(crate) buffer_bytes: u64,
    /// Threads in a workgroup.
    pub(crate) threads: u32,
    /// Workgroups along one axis of a launch.
    pub(crate) workgroups: u32,
    /// Whether shaders may compute in f16.
    pub(crate) f16: bool,
}

impl Adapter {
    /// Whether the "GPU" is this machine's processor.
    pub(crate) fn is_software(&self) -> bool {
        const MESA_SOFTWARE: u32 = 0x10005;
        const NAMES: [&str; 5] = ["llvmpipe", "lavapipe", "swiftshader", "basic render driver", "softpipe"];
        let text = format!("{} {}", self.name, self.driver).to_ascii_lowercase();
        self.kind == AdapterKind::Cpu || self.vendor == MESA_SOFTWARE || NAMES.iter().any(|name| text.contains(name))
    }

    /// Whether the driver is NVK, Mesa's driver for NVIDIA cards.
    pub(crate) fn is_nvk(&self) -> bool {
        self.driver.eq_ignore_ascii_case("nvk") || self.name.contains("(NVK ")
    }
}

/// What the graphics drivers answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// Adapters in wgpu's order, one interface after the other.
    pub(crate) adapters: Vec<Adapter>,
    /// Why there are none.
    pub(crate) finding: Option<String>,
}

impl Listing {
    /// A listing that holds nothing but the reason why.
    pub(crate) fn failed(finding: impl Into<String>) -> Self {
        Self { adapters: Vec::new(), finding: Some(finding.into()) }
    }
}

/// Asks the drivers, from a child process or a thread, within a deadline. Empty in a build without wgpu.
/// `variables` are set for the child.
pub(crate) fn listing(deadline: Duration, variables: &[(&str, OsString)]) -> Listing {
    if !cfg!(feature = "wgpu") {
        return Listing::failed("this build has no Vulkan, DirectX 12 or Metal support (Cargo feature `wgpu`)");
    }
    probe::ask(probe::Question::Wgpu, deadline, variables, ask_drivers)
        .unwrap_or_else(|finding| Listing::failed(format!("{}: {finding}", api_names())))
}

fn api_names() -> &'static str {
    if cfg!(target_vendor = "apple") {
        "Metal"
    } else if cfg!(windows) {
        "Vulkan and DirectX 12"
    } else {
        "Vulkan"
    }
}

/// Asks the drivers of this platform's interfaces.
#[cfg(feature = "wgpu")]
pub(crate) fn ask_drivers() -> Listing {
    let adapters = enumerate::adapters();
    let finding = adapters.is_empty().then(|| no_adapter(&hiding_variables()));
    Listing { adapters, finding }
}

/// A build without wgpu asks nobody.
#[cfg(not(feature = "wgpu"))]
pub(crate) fn ask_drivers() -> Listing {
    Listing::default()
}

/// The Vulkan loader's variables that can hide a driver, as they are set.
#[cfg(feature = "wgpu")]
fn hiding_variables() -> Vec<(String, String)> {
    ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE"]
        .into_iter()
        .filter_map(|name| {
            let value = std::env::var_os(name)?.to_string_lossy().into_owned();
            Some((name.to_owned(), value))
        })
        .collect()
}

#[cfg(any(feature = "wgpu", test))]
fn no_adapter(hiding: &[(String, String)]) -> String {
    let names = api_names();
    if hiding.is_empty() {
        return format!("no {names} driver (for AMD and Intel on Linux: install mesa-vulkan-drivers)");
    }
    let set: Vec<_> = hiding.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("no {names} driver answers, and {} may hide those installed", set.join(", "))
}

#[cfg(feature = "wgpu")]
mod enumerate {
    //! The part that names wgpu.

    use std::{
        pin::pin,
        sync::{Mutex, PoisonError},
        task::{Context, Poll, Waker},
    };

    use burn::tensor::wgpu::wgpu;

    use super::{Adapter, AdapterKind, Api, Limits};

    /// Interfaces in the order of preference: where a card has two, the first is its main route.
    const APIS: [(wgpu::Backend, Api); 3] =
        [(wgpu::Backend::Vulkan, Api::Vulkan), (wgpu::Backend::Metal, Api::Metal), (wgpu::Backend::Dx12, Api::Dx12)];

    /// Held while instances come and go: some Vulkan loaders crash if two threads do that at once.
    static INSTANCES: Mutex<()> = Mutex::new(());

    pub(super) fn adapters() -> Vec<Adapter> {
        let _guard = INSTANCES.lock().unwrap_or_else(PoisonError::into_inner);
        APIS.into_iter()
            .filter(|(backend, api)| {
                // On Apple's systems Vulkan is a layer over Metal and would list everything twice.
                let wanted = !(cfg!(target_vendor = "apple") && *api == Api::Vulkan);
                wanted && wgpu::Instance::enabled_backend_features().contains((*backend).into())
            })
            .flat_map(|(backend, api)| adapters_of(backend, api))
            .collect()
    }

    fn adapters_of(backend: wgpu::Backend, api: Api) -> Vec<Adapter> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: backend.into(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        ready(instance.enumerate_adapters(backend.into())).iter().map(|adapter| describe(adapter, api)).collect()
    }

    /// The result of a future that on native platforms never waits.
    fn ready<T: Default>(future: impl Future<Output = T>) -> T {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(future).poll(&mut context) {
            Poll::Ready(value) => value,
            Poll::Pending => T::default(),
        }
    }

    fn describe(adapter: &wgpu::Adapter, api: Api) -> Adapter {
        let info = adapter.get_info();
        let (memory_bytes, spirv) = vulkan_details(adapter, info.device_type);
        Adapter {
            name: info.name,
            api,
            kind: match info.device_type {
                wgpu::DeviceType::DiscreteGpu => AdapterKind::DiscreteGpu,
                wgpu::DeviceType::IntegratedGpu => AdapterKind::IntegratedGpu,
                wgpu::DeviceType::VirtualGpu => AdapterKind::VirtualGpu,
                wgpu::DeviceType::Cpu => AdapterKind::Cpu,
                wgpu::DeviceType::Other => AdapterKind::Other,
            },
            vendor: info.vendor,
            device: info.device,
            pci_address: info.device_pci_bus_id.parse().ok(),
            driver: info.driver,
            driver_info: info.driver_info,
            memory_bytes,
            spirv,
            limits: Some(limits(adapter)),
        }
    }

    fn limits(adapter: &wgpu::Adapter) -> Limits {
        let limits = adapter.limits();
        Limits {
            storage_buffers: limits.max_storage_buffers_per_shader_stage,
            binding_bytes: limits.max_storage_buffer_binding_size,
            buffer_bytes: limits.max_buffer_size,
            threads: limits.max_compute_invocations_per_workgroup,
            workgroups: limits.max_compute_workgroups_per_dimension,
            f16: adapter.features().contains(wgpu::Features::SHADER_F16),
        }
    }

    /// Memory and SPIR-V support of a Vulkan adapter.
    ///
    /// A discrete GPU's memory is its largest device-local heap: a second one, if there is one, is a window
    /// into the first. Other adapters share the machine's memory, and all heaps count.
    #[cfg(not(target_vendor = "apple"))]
    fn vulkan_details(adapter: &wgpu::Adapter, kind: wgpu::DeviceType) -> (Option<u64>, Option<bool>) {
        // VK_MEMORY_HEAP_DEVICE_LOCAL_BIT
        const DEVICE_LOCAL: u32 = 1;
        // SAFETY: the handle is only read, and lives as long as the borrowed adapter.
        #[expect(unsafe_code, reason = "wgpu's way to the Vulkan handle")]
        let Some(hal) = (unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }) else {
            return (None, None);
        };
        // SAFETY: the physical device belongs to this instance.
        #[expect(unsafe_code, reason = "a call into the Vulkan driver")]
        let memory = unsafe {
            hal.shared_instance().raw_instance().get_physical_device_memory_properties(hal.raw_physical_device())
        };
        let heaps = memory.memory_heaps_as_slice();
        let bytes = if kind == wgpu::DeviceType::DiscreteGpu {
            heaps.iter().filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
        } else {
            heaps.iter().map(|heap| heap.size).reduce(|a, b| a + b)
        };
        let spirv = hal.physical_device_capabilities().supports_extension(super::SPIRV_EXTENSION);
        (bytes, Some(spirv))
    }

    #[cfg(target_vendor = "apple")]
    fn vulkan_details(_: &wgpu::Adapter, _: wgpu::DeviceType) -> (Option<u64>, Option<bool>) {
        (None, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, kind: AdapterKind, vendor: u32, driver: &str) -> Adapter {
        Adapter {
            name: name.to_owned(),
            api: Api::Vulkan,
            kind,
            vendor,
            device: 0,
            pci_address: None,
            driver: driver.to_owned(),
            driver_info: String::new(),
            memory_bytes: None,
            spirv: None,
            limits: None,
        }
    }

    #[test]
    fn software_drivers_are_recognised_by_kind_vendor_or_name() {
        use AdapterKind::{Cpu, DiscreteGpu, Other};
        for (name, kind, vendor, driver) in [
            ("llvmpipe (LLVM 15.0.6, 256 bits)", Cpu, 0x10005, "llvmpipe"),
            ("some new rasteriser", Cpu, 0, ""),
            ("SwiftShader Device (LLVM 10.0.0)", Other, 0x1ae0, ""),
            ("Microsoft Basic Render Driver", DiscreteGpu, 0x1414, ""),
            ("Mesa", Other, 0x10005, "softpipe"),
        ] {
            assert!(adapter(name, kind, vendor, driver).is_software(), "{name}");
        }
        assert!(!adapter("AMD Radeon RX 6600M", DiscreteGpu, 0x1002, "radv").is_software());
    }

    #[test]
    fn a_variable_that_hides_drivers_is_named() {
        let text = no_adapter(&[("VK_DRIVER_FILES".into(), "/dev/null".into())]);
        assert!(text.contains("VK_DRIVER_FILES=/dev/null may hide"), "{text}");
        assert!(no_adapter(&[]).contains("install mesa-vulkan-drivers"));
    }
}
