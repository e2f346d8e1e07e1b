//! Chooses a device. Pure: an [`Inventory`] and a [`DeviceRequest`] in, a [`Choice`] out.
//!
//! The order for `auto`: discrete GPU over CUDA, discrete GPU over wgpu, virtual GPU, integrated GPU over CUDA
//! (a Jetson), integrated GPU over wgpu, processor. Between equals: more memory, then NVIDIA, then the order of
//! the list; the CUDA driver's own order (fastest first) stands. Software drivers and NVK are passed over by
//! `auto` and can be asked for. Whatever loses gets its reason.

use std::cmp::Reverse;

use serde::Serialize;

use crate::{
    error::DeviceError,
    inventory::{Api, Backend, HardwareKind, Inventory, PciAddress, PhysicalDevice, Route},
    request::DeviceRequest,
};

/// One device reached one way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Candidate {
    /// The name to ask for it by.
    pub request: DeviceRequest,
    /// The device's own name.
    pub name: String,
    /// What kind of hardware it is.
    pub kind: HardwareKind,
    /// The backend that runs it.
    pub backend: Backend,
    /// The interface it is reached through.
    pub api: Api,
    /// Its address on the PCI bus, if it has one that is known.
    pub pci_address: Option<PciAddress>,
}

/// A candidate that wasn't taken, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Lost {
    /// The candidate.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// Why it wasn't taken.
    pub reason: String,
    /// What would make it usable, if that is known.
    pub remedy: Option<String>,
}

/// The outcome: one candidate, and every other with the reason it lost.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Choice {
    /// What was asked for.
    pub requested: DeviceRequest,
    /// What was chosen.
    pub chosen: Candidate,
    /// Why.
    pub reason: String,
    /// All the others, in the order of the inventory.
    pub lost: Vec<Lost>,
    /// What the inventory says about devices it doesn't have.
    pub notes: Vec<String>,
}

/// Chooses among `inventory` what `request` asks for.
///
/// # Errors
/// [`DeviceError::NotBuilt`] if this build lacks the backend, [`DeviceError::NotFound`] if the machine has no
/// such device, [`DeviceError::Unusable`] if it has one that can't be used. `Auto` and `Cpu` always succeed:
/// the processor is always there.
pub fn choose(inventory: &Inventory, request: &DeviceRequest) -> Result<Choice, DeviceError> {
    check_built(*request)?;
    let mut ranked: Vec<(&PhysicalDevice, &Route)> =
        inventory.routes().filter(|(_, route)| answers(route, *request)).collect();
    ranked.sort_by_key(|(device, route)| rank(device, route));

    let usable = ranked.iter().find(|(_, route)| route.problem.is_none() && !is_passed_over(route, *request));
    let Some(&(device, route)) = usable else {
        return Err(failure(inventory, *request, ranked.first().copied()));
    };
    let lost = inventory
        .routes()
        .filter(|(_, other)| !std::ptr::eq(*other, route))
        .map(|(other_device, other)| {
            let (reason, remedy) = why_lost((other_device, other), (device, route), *request);
            Lost { candidate: candidate(other_device, other), reason, remedy }
        })
        .collect();
    Ok(Choice {
        requested: *request,
        chosen: candidate(device, route),
        reason: why_chosen(device, route, *request),
        lost,
        notes: inventory.notes.clone(),
    })
}

fn candidate(device: &PhysicalDevice, route: &Route) -> Candidate {
    Candidate {
        request: route.request,
        name: device.name.clone(),
        kind: device.kind,
        backend: route.backend,
        api: route.api,
        pci_address: device.pci_address,
    }
}

/// Refuses a request for a backend that wasn't compiled in.
fn check_built(request: DeviceRequest) -> Result<(), DeviceError> {
    let feature = match request {
        DeviceRequest::Cuda(_) if !cfg!(feature = "cuda") => "cuda",
        DeviceRequest::Wgpu(_) | DeviceRequest::WgpuSoftware if !cfg!(feature = "wgpu") => "wgpu",
        _ => return Ok(()),
    };
    Err(DeviceError::NotBuilt { request, feature })
}

/// Whether `request` can mean `route`.
fn answers(route: &Route, request: DeviceRequest) -> bool {
    match request {
        DeviceRequest::Auto => true,
        DeviceRequest::Cuda(None) => route.backend == Backend::Cuda,
        DeviceRequest::Wgpu(None) => matches!(route.request, DeviceRequest::Wgpu(_)),
        exact => route.request == exact,
    }
}

/// Whether the route has to be asked for by its own name.
fn is_passed_over(route: &Route, request: DeviceRequest) -> bool {
    request == DeviceRequest::Auto && route.only_by_name.is_some()
}

/// The smaller, the better.
fn rank(device: &PhysicalDevice, route: &Route) -> (u8, Reverse<u64>, bool) {
    let tier = tier(device, route);
    if route.backend == Backend::Cuda {
        // The driver's own order stands.
        return (tier, Reverse(0), false);
    }
    let memory = device.memory_bytes.unwrap_or(0);
    (tier, Reverse(memory), !is_nvidia(device))
}

fn tier(device: &PhysicalDevice, route: &Route) -> u8 {
    match (device.kind, route.backend) {
        (_, _) if route.only_by_name.is_some() => 6,
        (HardwareKind::Discrete | HardwareKind::Virtual, Backend::Cuda) => 0,
        (HardwareKind::Discrete, _) => 1,
        (HardwareKind::Virtual, _) => 2,
        (HardwareKind::Integrated, Backend::Cuda) => 3,
        (HardwareKind::Integrated, _) => 4,
        (HardwareKind::Cpu, _) => 5,
        (HardwareKind::Software, _) => 6,
    }
}

fn is_nvidia(device: &PhysicalDevice) -> bool {
    const VENDOR_NVIDIA: u32 = 0x10de;
    device.compute_capability.is_some() || device.pci_id.is_some_and(|(vendor, _)| vendor == VENDOR_NVIDIA)
}

fn why_chosen(device: &PhysicalDevice, route: &Route, request: DeviceRequest) -> String {
    match request {
        DeviceRequest::Auto if device.kind == HardwareKind::Cpu => "no usable GPU".to_owned(),
        DeviceRequest::Auto => format!("{} over {}", device.kind, route.api),
        asked if asked == route.request => "as asked".to_owned(),
        asked => format!("best for \"{asked}\""),
    }
}

/// Why `loser` lost against `winner`, and what would make it usable.
fn why_lost(
    (device, route): (&PhysicalDevice, &Route),
    (winner, winning_route): (&PhysicalDevice, &Route),
    request: DeviceRequest,
) -> (String, Option<String>) {
    if let Some(problem) = &route.problem {
        return (problem.reason.clone(), problem.remedy.clone());
    }
    let reason = if !answers(route, request) {
        format!("\"{request}\" was asked for")
    } else if let Some(reason) = route.only_by_name.as_ref().filter(|_| is_passed_over(route, request)) {
        reason.clone()
    } else if std::ptr::eq(device, winner) {
        format!("same card; {} is preferred", winning_route.api)
    } else if device.kind == HardwareKind::Cpu {
        "slower than a GPU".to_owned()
    } else if tier(device, route) != tier(winner, winning_route) {
        format!("{}; {} goes first", device.kind, kind_and_api(winner, winning_route))
    } else if route.backend != Backend::Cuda && device.memory_bytes < winner.memory_bytes {
        "has less memory".to_owned()
    } else {
        format!("as good; ask for it with --device {}", route.request)
    };
    (reason, None)
}

fn kind_and_api(device: &PhysicalDevice, route: &Route) -> String {
    let article = if device.kind == HardwareKind::Integrated { "an" } else { "a" };
    format!("{article} {} over {}", device.kind, route.api)
}

/// The error for a request that nothing usable answers. `best` is the best of what does answer.
fn failure(inventory: &Inventory, request: DeviceRequest, best: Option<(&PhysicalDevice, &Route)>) -> DeviceError {
    if let Some((device, route)) = best
        && let Some(problem) = &route.problem
    {
        return DeviceError::Unusable {
            request,
            name: device.name.clone(),
            reason: problem.reason.clone(),
            remedy: problem.remedy.clone(),
        };
    }
    DeviceError::NotFound {
        request,
        available: inventory.routes().map(|(device, route)| format!("{} ({})", route.request, device.name)).collect(),
        why: inventory.notes.clone(),
    }
}

#[cfg(test)]
mod tests;
