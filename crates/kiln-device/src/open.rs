//! Opens a device: inventory, choice, burn device, smoke test, in that order.
//!
//! A device asked for by name that doesn't work is an error. Only `auto` goes on to the next candidate, and the
//! [`Choice`] it ends with carries the reason why the one before was lost.

use std::{sync::OnceLock, time::Duration};

use burn::tensor::{Device, FloatDType};

use crate::{
    attempt::attempt,
    choose::{Choice, choose},
    error::DeviceError,
    inventory::{Backend, Handle, HardwareKind, Inventory, Problem, Route, inventory, passive_inventory},
    request::DeviceRequest,
    smoke::{Depth, float_name, float_test, smoke_test},
};

/// How long opening and testing a device may take. Compiling the test's kernels takes a GPU 1–20 s; a software
/// driver on a busy machine is slower.
const DEADLINE: Duration = Duration::from_secs(180);

/// A device that has passed its smoke test.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenDevice {
    /// The burn device, without autodiff.
    pub device: Device,
    /// The backend behind it.
    pub backend: Backend,
    /// The device's own name.
    pub name: String,
    /// Whether it is a software driver, which is no GPU.
    pub software: bool,
    /// How it came to be chosen.
    pub choice: Choice,
}

impl OpenDevice {
    /// Whether it is a GPU.
    pub fn is_gpu(&self) -> bool {
        self.backend != Backend::Cpu && !self.software
    }

    /// Sees if the device computes right in `float`, as [`open`] did in f32: whoever wants to train in f16 or bf16 asks
    /// before, and stays with f32 if it can't. Waits for the device; the first time its kernels are compiled.
    ///
    /// # Errors
    /// [`DeviceError::NoFloat`] if it has no such type, or computes wrong in it.
    pub fn check_float(&self, float: FloatDType) -> Result<(), DeviceError> {
        let (device, depth) = (self.device.clone(), if self.software { Depth::Quick } else { Depth::Thorough });
        attempt(DEADLINE, move || float_test(&device, float, depth)).and_then(|tested| tested).map_err(|reason| {
            DeviceError::NoFloat {
                request: self.choice.chosen.request,
                name: self.name.clone(),
                float: float_name(float),
                reason,
            }
        })
    }

    /// One line: what was chosen, why, and why the others weren't.
    pub fn summary(&self) -> String {
        self.choice.summary()
    }
}

/// Opens what `request` asks for.
///
/// Takes a few tenths of a second for the processor; a GPU compiles the kernels of its smoke test first, which
/// takes seconds. Like [`inventory`] it may set environment variables: call it before starting threads that
/// read the environment through C's `getenv`.
///
/// # Errors
/// See [`choose`]; and [`DeviceError::Unusable`] if a device asked for by name doesn't start or fails the smoke
/// test.
pub fn open(request: &DeviceRequest) -> Result<OpenDevice, DeviceError> {
    // The processor needs no driver, and a GPU may go on sleeping.
    let inventory = if *request == DeviceRequest::Cpu { passive_inventory() } else { inventory() };
    open_from(inventory, request)
}

/// Opens what `request` asks for out of an inventory at hand.
///
/// # Errors
/// As [`open`].
pub fn open_from(mut inventory: Inventory, request: &DeviceRequest) -> Result<OpenDevice, DeviceError> {
    // Ends: every failure rules one route out, and the processor is always usable.
    loop {
        let choice = choose(&inventory, request)?;
        let chosen = choice.chosen.clone();
        let route = inventory.routes().map(|(_, route)| route).find(|route| route.request == chosen.request);
        let problem = match route.map(|route| open_route(route, &chosen.name, chosen.kind)) {
            Some(Ok(device)) => {
                return Ok(OpenDevice {
                    device,
                    backend: chosen.backend,
                    software: chosen.kind == HardwareKind::Software,
                    name: chosen.name,
                    choice,
                });
            }
            Some(Err(problem)) => problem,
            None => Problem::new("it is not in the inventory"),
        };
        if *request != DeviceRequest::Auto || chosen.backend == Backend::Cpu {
            return Err(DeviceError::Unusable {
                request: *request,
                name: chosen.name,
                reason: problem.reason,
                remedy: problem.remedy,
            });
        }
        tracing::warn!(
            "{} ({}) can't be used and the next device is tried: {}",
            chosen.name,
            chosen.request,
            problem.reason
        );
        inventory.set_problem(chosen.request, problem);
    }
}

/// The processor as a burn device, for tests and for work on the host.
pub fn cpu() -> Device {
    Device::flex()
}

/// The devices that kernels are tested on: the processor, and every other route of this machine that the
/// inventory calls usable, software drivers included. The name is the one to ask for the device by.
///
/// Opened once per process and shared, since burn opens a device only once. A machine without drivers has the
/// processor only.
///
/// # Panics
/// If a device that should work doesn't: a test must not pass because the device it is about was left out.
pub fn parity_devices() -> Vec<(String, Device)> {
    static DEVICES: OnceLock<Vec<(String, Device)>> = OnceLock::new();
    DEVICES.get_or_init(open_all).clone()
}

fn open_all() -> Vec<(String, Device)> {
    let inventory = inventory();
    let usable = inventory.routes().filter(|(_, route)| route.problem.is_none());
    let mut devices: Vec<_> = usable
        .map(|(device, route)| match open_route(route, &device.name, device.kind) {
            Ok(opened) => (route.request.to_string(), opened),
            Err(problem) => panic!("{} ({}): {}", route.request, device.name, problem.reason),
        })
        .collect();
    // The reference goes first.
    devices.rotate_right(1);
    devices
}

/// Opens and tests one route; panics and hangs of the backend come back as problems.
fn open_route(route: &Route, name: &str, kind: HardwareKind) -> Result<Device, Problem> {
    // Nothing outside Rust is involved, and the backend is what everything else is compared with.
    if route.handle == Handle::Cpu {
        return Ok(cpu());
    }
    #[cfg(feature = "wgpu")]
    if kind == HardwareKind::Software {
        crate::environment::set_software_tuning();
    }
    let (handle, api, name) = (route.handle.clone(), route.api, name.to_owned());
    let depth = if kind == HardwareKind::Software { Depth::Quick } else { Depth::Thorough };
    attempt(DEADLINE, move || {
        let device = start(&handle, api, &name)?;
        smoke_test(&device, depth).map_err(|error| Problem::new(format!("failed the smoke test: {error}")))?;
        Ok(device)
    })
    .unwrap_or_else(|reason| Err(Problem::new(format!("failed when it was opened: {reason}"))))
}

/// Starts burn's backend on a route.
fn start(handle: &Handle, api: crate::inventory::Api, name: &str) -> Result<Device, Problem> {
    match handle {
        Handle::Cpu => Ok(cpu()),
        #[cfg(feature = "cuda")]
        Handle::Cuda { index, driver, compiler } => cuda::start(*index, driver, compiler.as_ref()),
        #[cfg(feature = "wgpu")]
        Handle::Wgpu { kind, nth } => wgpu::start(api, *kind, *nth, name),
        #[allow(unreachable_patterns, reason = "reachable only in builds that lack a backend")]
        _ => Err(Problem::new(format!("{name} needs {api} support, which this build lacks"))),
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    //! The part that names CUDA.

    use std::path::Path;

    use burn::tensor::Device;

    use crate::{
        environment,
        inventory::Problem,
        nvrtc::{self, Installation},
    };

    /// The device with this index, after its driver and compiler have been put where burn looks for them.
    pub(super) fn start(index: usize, driver: &Path, compiler: Option<&Installation>) -> Result<Device, Problem> {
        let compiler = compiler.ok_or_else(|| Problem::new("no run-time compiler (NVRTC) was found for it"))?;
        // cudarc looks for the driver by name only, and would take a toolkit's stub before what we found.
        environment::preload(driver).map_err(Problem::new)?;
        nvrtc::prepare(compiler)?;
        Ok(Device::cuda(index))
    }
}

#[cfg(feature = "wgpu")]
mod wgpu {
    //! The part that names wgpu.

    use std::sync::{Mutex, PoisonError};

    use burn::tensor::{Device, DeviceKind, wgpu::WgpuBackend};

    use crate::inventory::{Api, Problem, wgpu::AdapterKind};

    /// A device's place among the adapters.
    type Place = (Api, AdapterKind, usize);

    /// Devices started before: burn starts each only once.
    static STARTED: Mutex<Vec<(Place, Device)>> = Mutex::new(Vec::new());

    /// The `nth` adapter of its kind on `api`, which must be the one called `name`.
    pub(super) fn start(api: Api, kind: AdapterKind, nth: usize, name: &str) -> Result<Device, Problem> {
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (api, kind, nth);
        if let Some((_, device)) = started.iter().find(|(known, _)| *known == place) {
            return Ok(device.clone());
        }
        let burn_kind = match kind {
            AdapterKind::DiscreteGpu => DeviceKind::DiscreteGpu(nth),
            AdapterKind::IntegratedGpu => DeviceKind::IntegratedGpu(nth),
            AdapterKind::VirtualGpu => DeviceKind::VirtualGpu(nth),
            AdapterKind::Cpu => DeviceKind::Cpu,
            AdapterKind::Other => return Err(Problem::new("burn can't address it")),
        };
        let backend = match api {
            Api::Vulkan => WgpuBackend::Vulkan,
            Api::Metal => WgpuBackend::Metal,
            Api::Dx12 => WgpuBackend::Dx12,
            Api::Cuda | Api::Native => return Err(Problem::new("not an interface of wgpu")),
        };
        // The interface is pinned: burn's automatic choice goes on to OpenGL.
        let device = Device::wgpu_options()
            .device_kind(burn_kind)
            .graphics_api(backend)
            .init()
            .map_err(|error| Problem::new(format!("its driver refuses: {error}")))?;
        // Adapters come and go (a dock, a driver that crashed): check that the count still leads to the same
        // one.
        if let Some(found) = device.identity().map(|identity| identity.name)
            && found != name
        {
            return Err(Problem::new(format!("{found} answered in its place")));
        }
        started.push((place, device.clone()));
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_opens() {
        let opened = open(&DeviceRequest::Cpu).expect("always there");
        assert_eq!(opened.backend, Backend::Cpu);
        assert!(!opened.is_gpu() && !opened.software);
        assert!(opened.summary().contains("as asked"), "{}", opened.summary());
        opened.check_float(FloatDType::BF16).expect("the processor computes in everything");
        let error = opened.check_float(FloatDType::Flex32).expect_err("a type of GPUs").to_string();
        assert!(error.contains("flex32") && error.contains("f32"), "{error}");
    }

    #[test]
    fn auto_opens_something_and_never_software() {
        let opened = open(&DeviceRequest::Auto).expect("auto always finds something");
        assert!(!opened.software, "{}", opened.summary());
    }

    #[test]
    fn every_parity_device_computes() {
        let devices = parity_devices();
        assert_eq!(devices[0].0, "cpu");
        for (name, device) in devices {
            assert_eq!(smoke_test(&device, Depth::Quick), Ok(()), "{name}");
        }
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn auto_falls_back_with_the_reason_when_a_driver_lies() {
        use crate::machines::{cuda_card, machine};
        // A card whose driver library doesn't exist: opening it fails, and the processor is next.
        let mut inventory = machine(vec![cuda_card("a card", "0000:01:00.0", (8, 6))], vec![]);
        inventory.devices[0].routes[0].handle =
            Handle::Cuda { index: 0, driver: "/nowhere/libcuda.so.1".into(), compiler: None };
        let opened = open_from(inventory.clone(), &DeviceRequest::Auto).expect("falls back");
        assert_eq!(opened.backend, Backend::Cpu);
        let lost = &opened.choice.lost[0];
        assert!(lost.reason.contains("NVRTC"), "{}", lost.reason);

        let error = open_from(inventory, &DeviceRequest::Cuda(Some(0))).expect_err("no fallback");
        assert!(matches!(error, DeviceError::Unusable { .. }), "{error}");
    }
}
