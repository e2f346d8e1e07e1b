//! Joins what the sources list into one row per physical card. Pure: listings in, [`Inventory`] out.
//!
//! Two listings describe the same card if their PCI addresses are equal. Where one has no address (DirectX 12
//! never has a trustworthy one: wgpu looks it up by model, so two equal cards get the same), the n-th card of a
//! model on one interface is the n-th of that model on the other. Names and indices alone never join.

use super::{
    Api, Backend, Handle, HardwareKind, Inventory, PhysicalDevice, Problem, Route,
    bus::{BusDevice, VENDOR_AMD, VENDOR_NVIDIA},
    cpu::Processor,
    cuda::{self, CudaDevice},
    wgpu::{self, Adapter, AdapterKind, Limits},
};
use crate::{monitor::GpuSample, nvrtc::Installation, request::DeviceRequest};

/// Builds the inventory.
pub(crate) fn join(
    bus: &[BusDevice],
    nvml: &[GpuSample],
    cuda: &cuda::Listing,
    wgpu: &wgpu::Listing,
    processor: &Processor,
) -> Inventory {
    let mut devices: Vec<PhysicalDevice> =
        cuda.devices.iter().enumerate().map(|(index, device)| from_cuda(cuda, index, device)).collect();
    let mut software = Vec::new();
    for (adapter, nth) in in_order_of_preference(&wgpu.adapters) {
        if adapter.is_software() {
            software.push(from_adapter(adapter, nth));
        } else if let Some(device) = devices.iter_mut().find(|device| is_same(adapter, device)) {
            device.memory_bytes = device.memory_bytes.or(adapter.memory_bytes);
            device.pci_id = device.pci_id.or(pci_id(adapter));
            device.routes.push(wgpu_route(adapter, nth));
        } else {
            devices.push(from_adapter(adapter, nth));
        }
    }
    for card in bus {
        add_from_bus(&mut devices, card);
    }
    for card in nvml {
        add_from_nvml(&mut devices, card);
    }
    devices.sort_by_key(|device| display_order(device.kind));
    number_wgpu_routes(&mut devices);

    let mut notes = Vec::new();
    notes.extend(cuda.finding.as_ref().map(|finding| format!("CUDA: {finding}")));
    let warnings = cuda.devices.iter().filter_map(|card| card.warning.clone());
    notes.extend(warnings);
    // Equal cards share their warning.
    notes.dedup();
    notes.extend(wgpu.finding.clone());
    notes.extend(twins(&devices));

    // burn can address only the first software adapter.
    devices.extend(software.into_iter().take(1));
    devices.push(from_processor(processor));
    Inventory { devices, notes }
}

/// Adapters with their position among those of the same kind and interface, the better interface and driver
/// first.
fn in_order_of_preference(adapters: &[Adapter]) -> Vec<(&Adapter, usize)> {
    let mut ordered: Vec<_> = adapters
        .iter()
        .enumerate()
        .map(|(index, adapter)| {
            let same = |other: &&Adapter| (other.api, other.kind) == (adapter.api, adapter.kind);
            (adapter, adapters[..index].iter().filter(same).count())
        })
        .collect();
    ordered.sort_by_key(|(adapter, _)| {
        let api = match adapter.api {
            Api::Vulkan | Api::Metal => 0,
            _ => 1,
        };
        // Of AMD's Vulkan drivers for Linux, RADV (Mesa) is the maintained one.
        let other_amd_driver = adapter.vendor == VENDOR_AMD
            && !adapter.driver.to_ascii_lowercase().contains("radv")
            && !adapter.name.contains("RADV");
        (api, other_amd_driver)
    });
    ordered
}

fn is_same(adapter: &Adapter, device: &PhysicalDevice) -> bool {
    if adapter.api != Api::Dx12
        && let (Some(ours), Some(theirs)) = (adapter.pci_address, device.pci_address)
    {
        return ours == theirs;
    }
    let same_model = match device.pci_id {
        Some(id) => Some(id) == pci_id(adapter),
        // The CUDA driver doesn't tell the PCI id, but it uses the same names as NVIDIA's other drivers.
        // Dozen, WSL's Vulkan, wraps that name: "Microsoft Direct3D12 (NVIDIA GeForce RTX 3060)".
        None => {
            let wrapped = adapter.name.ends_with(&format!("({})", device.name));
            adapter.vendor == VENDOR_NVIDIA && (adapter.name == device.name || wrapped)
        }
    };
    same_model && device.routes.iter().all(|route| route.api != adapter.api)
}

/// Gives a row what the bus says about its card, or makes a row for a card that no driver lists.
fn add_from_bus(devices: &mut Vec<PhysicalDevice>, card: &BusDevice) {
    let id = Some((card.vendor, card.device));
    let by_address = devices.iter().position(|device| device.pci_address == Some(card.address));
    let by_model = || {
        devices.iter().position(|device| device.pci_address.is_none() && device.pci_id == id && device.bus.is_none())
    };
    let Some(index) = by_address.or_else(by_model) else {
        devices.push(PhysicalDevice {
            name: card.name(),
            kind: if card.integrated { HardwareKind::Integrated } else { HardwareKind::Discrete },
            memory_bytes: card.budget_bytes(),
            pci_address: Some(card.address),
            uuid: None,
            compute_capability: None,
            pci_id: id,
            routes: Vec::new(),
            bus: Some(card.clone()),
        });
        return;
    };
    let device = &mut devices[index];
    device.memory_bytes = device.memory_bytes.or(card.budget_bytes());
    device.pci_address = Some(card.address);
    device.pci_id = id;
    device.bus = Some(card.clone());
}

/// Gives a row what NVML says about its card, or makes a row for a card that CUDA is kept from.
fn add_from_nvml(devices: &mut Vec<PhysicalDevice>, card: &GpuSample) {
    let memory_bytes = card.mem_total_mib.map(|mib| mib << 20);
    let same = |device: &&mut PhysicalDevice| match (device.pci_address, card.pci_address) {
        (Some(ours), Some(theirs)) => ours == theirs,
        // DirectX 12 tells no address.
        _ => device.name == card.name,
    };
    let Some(device) = devices.iter_mut().find(same) else {
        devices.push(PhysicalDevice {
            name: card.name.clone(),
            kind: HardwareKind::Discrete,
            memory_bytes,
            pci_address: card.pci_address,
            uuid: card.uuid.clone(),
            compute_capability: None,
            pci_id: None,
            bus: None,
            routes: Vec::new(),
        });
        return;
    };
    if device.routes.is_empty() {
        device.name.clone_from(&card.name);
    }
    device.memory_bytes = device.memory_bytes.or(memory_bytes);
    device.pci_address = device.pci_address.or(card.pci_address);
    device.uuid = device.uuid.take().or_else(|| card.uuid.clone());
}

fn pci_id(adapter: &Adapter) -> Option<(u32, u32)> {
    // Larger numbers are Khronos's, for makers that have none on the bus.
    (adapter.vendor <= 0xffff && adapter.vendor != 0).then_some((adapter.vendor, adapter.device))
}

fn from_cuda(listing: &cuda::Listing, index: usize, device: &CudaDevice) -> PhysicalDevice {
    let driver = match (&listing.driver_release, listing.driver_version) {
        (Some(release), Some(version)) => Some(format!("NVIDIA {release} (CUDA {version})")),
        (None, Some(version)) => Some(format!("NVIDIA (CUDA {version})")),
        (release, None) => release.as_ref().map(|release| format!("NVIDIA {release}")),
    };
    PhysicalDevice {
        name: device.name.clone(),
        kind: if device.integrated { HardwareKind::Integrated } else { HardwareKind::Discrete },
        memory_bytes: device.memory_bytes,
        pci_address: device.pci_address,
        uuid: device.uuid.clone(),
        compute_capability: device.compute_capability,
        pci_id: None,
        bus: None,
        routes: vec![Route {
            request: DeviceRequest::Cuda(Some(index)),
            backend: Backend::Cuda,
            api: Api::Cuda,
            listed_as: device.name.clone(),
            driver,
            problem: device.problem.clone(),
            only_by_name: None,
            compiler: device.compiler.as_ref().map(Installation::describe),
            handle: Handle::Cuda { index, driver: listing.library.clone(), compiler: device.compiler.clone() },
        }],
    }
}

fn from_adapter(adapter: &Adapter, nth: usize) -> PhysicalDevice {
    PhysicalDevice {
        name: adapter.name.clone(),
        kind: kind_of(adapter),
        memory_bytes: adapter.memory_bytes,
        pci_address: adapter.pci_address,
        uuid: None,
        compute_capability: None,
        pci_id: pci_id(adapter),
        bus: None,
        routes: vec![wgpu_route(adapter, nth)],
    }
}

fn kind_of(adapter: &Adapter) -> HardwareKind {
    if adapter.is_software() {
        return HardwareKind::Software;
    }
    match adapter.kind {
        AdapterKind::IntegratedGpu => HardwareKind::Integrated,
        AdapterKind::VirtualGpu => HardwareKind::Virtual,
        // DirectX 12 tells discrete from integrated by cache coherence, and gets AMD's APUs wrong.
        AdapterKind::DiscreteGpu
            if adapter.api == Api::Dx12 && adapter.vendor == VENDOR_AMD && is_amd_apu(&adapter.name) =>
        {
            HardwareKind::Integrated
        }
        AdapterKind::Other => HardwareKind::Virtual,
        AdapterKind::DiscreteGpu | AdapterKind::Cpu => HardwareKind::Discrete,
    }
}

/// Whether AMD sells a GPU of this name only as part of a processor: "AMD Radeon(TM) Graphics", "Radeon RX Vega
/// 10 Graphics", "Radeon 780M", "Radeon 8060S". Cards don't end in "Graphics", and carry "RX", "Pro" or the
/// like before such a number.
fn is_amd_apu(name: &str) -> bool {
    let name = name.replace("(TM)", "");
    let words: Vec<&str> = name.split_ascii_whitespace().collect();
    let card = words.iter().any(|word| matches!(*word, "RX" | "Pro" | "PRO" | "R9" | "HD"));
    let model = words.iter().any(|word| {
        let digits = word.trim_end_matches(['M', 'S']);
        digits != *word && (3..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    words.last() == Some(&"Graphics") || (model && !card)
}

fn wgpu_route(adapter: &Adapter, nth: usize) -> Route {
    let driver = format!("{} {}", adapter.driver, adapter.driver_info);
    let driver = driver.trim();
    Route {
        request: DeviceRequest::WgpuSoftware,
        backend: Backend::Wgpu,
        api: adapter.api,
        listed_as: adapter.name.clone(),
        driver: (!driver.is_empty()).then(|| driver.to_owned()),
        compiler: None,
        problem: problem_of(adapter, cfg!(feature = "vulkan")),
        only_by_name: passed_over_by_auto(adapter),
        handle: Handle::Wgpu { kind: adapter.kind, nth },
    }
}

/// What keeps an adapter from being used at all.
fn problem_of(adapter: &Adapter, spirv_build: bool) -> Option<Problem> {
    if adapter.kind == AdapterKind::Other {
        return Some(Problem::new("its driver does not say what kind of GPU it is, and burn can't address such a one"));
    }
    if let Some(lack) = adapter.limits.and_then(lack_of) {
        let remedy = "update the GPU's driver; `kiln doctor` lists its limits";
        return Some(Problem::new(format!("its driver allows {lack}")).with_remedy(remedy));
    }
    if spirv_build && adapter.api == Api::Vulkan {
        let remedy = "use a build without the Cargo feature `vulkan`: it compiles WGSL, which works everywhere";
        if adapter.is_software() {
            return Some(
                Problem::new("this build compiles SPIR-V, which crashes software drivers").with_remedy(remedy),
            );
        }
        if adapter.spirv == Some(false) {
            return Some(
                Problem::new(
                    "this build compiles SPIR-V, and the driver lacks VK_KHR_workgroup_memory_explicit_layout",
                )
                .with_remedy(remedy),
            );
        }
    }
    None
}

/// What Kiln's own kernels need and an adapter doesn't allow: they use five buffers and cubecl one beside them, 32 × 8
/// threads in a workgroup, and an image in each workgroup along an axis.
fn lack_of(limits: Limits) -> Option<String> {
    const BUFFERS: u32 = 6;
    const THREADS: u32 = 256;
    const WORKGROUPS: u32 = 4096;
    let Limits { storage_buffers, threads, workgroups, .. } = limits;
    [
        ("buffers in a kernel", storage_buffers, BUFFERS),
        ("threads in a workgroup", threads, THREADS),
        ("workgroups along an axis", workgroups, WORKGROUPS),
    ]
    .into_iter()
    .find(|(_, allowed, needed)| allowed < needed)
    .map(|(what, allowed, needed)| format!("{allowed} {what}, and Kiln's kernels need {needed}"))
}

/// Why `auto` leaves a usable adapter alone.
fn passed_over_by_auto(adapter: &Adapter) -> Option<String> {
    if adapter.is_software() {
        return Some("it is no GPU but draws on the processor, where native code is faster".to_owned());
    }
    adapter
        .is_nvk()
        .then(|| "NVK, the open driver for NVIDIA cards, is slow at this; install NVIDIA's driver".to_owned())
}

/// Numbers the routes `wgpu:0`, `wgpu:1`, ...: each card's main one first, in the order of the list, then the
/// others.
fn number_wgpu_routes(devices: &mut [PhysicalDevice]) {
    let mut next = 0;
    for main in [true, false] {
        for device in &mut *devices {
            let routes = device.routes.iter_mut().filter(|route| route.backend == Backend::Wgpu);
            for (position, route) in routes.enumerate() {
                if (position == 0) == main {
                    route.request = DeviceRequest::Wgpu(Some(next));
                    next += 1;
                }
            }
        }
    }
}

fn display_order(kind: HardwareKind) -> u8 {
    match kind {
        HardwareKind::Discrete => 0,
        HardwareKind::Virtual => 1,
        HardwareKind::Integrated => 2,
        HardwareKind::Software => 3,
        HardwareKind::Cpu => 4,
    }
}

/// Devices that look alike and can't be told apart: a driver may have listed one card twice.
fn twins(devices: &[PhysicalDevice]) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        let same = |other: &PhysicalDevice| {
            other.name == device.name && (other.pci_address.is_none() || device.pci_address.is_none())
        };
        if devices[..index].iter().any(same) {
            notes.push(format!(
                "{} is listed twice, without the PCI addresses that would tell whether it is one card or two",
                device.name
            ));
        }
    }
    notes
}

fn from_processor(processor: &Processor) -> PhysicalDevice {
    PhysicalDevice {
        name: processor.name.clone(),
        kind: HardwareKind::Cpu,
        memory_bytes: processor.memory_bytes,
        pci_address: None,
        uuid: None,
        compute_capability: None,
        pci_id: None,
        bus: None,
        routes: vec![Route {
            request: DeviceRequest::Cpu,
            backend: Backend::Cpu,
            api: Api::Native,
            listed_as: processor.name.clone(),
            driver: None,
            compiler: None,
            problem: None,
            only_by_name: None,
            handle: Handle::Cpu,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::{adapter, cuda_card, cuda_listing, machine, processor};

    #[test]
    fn bus_nvml_cuda_and_vulkan_describe_one_card_in_one_row() {
        let address = "0000:01:00.0".parse().ok();
        let name = "NVIDIA RTX A1000";
        let bus = BusDevice {
            address: address.expect("an address"),
            vendor: VENDOR_NVIDIA,
            device: 0x25b9,
            driver: Some("nvidia".to_owned()),
            ..BusDevice::default()
        };
        let nvml = GpuSample {
            name: name.to_owned(),
            pci_address: address,
            uuid: Some("GPU-1".to_owned()),
            ..Default::default()
        };
        let cuda = cuda_listing(vec![cuda_card(name, "0000:01:00.0", (8, 6))]);
        let vulkan = adapter(Api::Vulkan, AdapterKind::DiscreteGpu, name, (0x10de, 0x25b9), "0000:01:00.0", "NVIDIA");
        let wgpu = wgpu::Listing { adapters: vec![vulkan], finding: None };
        let inventory = join(std::slice::from_ref(&bus), std::slice::from_ref(&nvml), &cuda, &wgpu, &processor());
        assert_eq!(inventory.devices.len(), 2, "the card and the processor");
        let card = &inventory.devices[0];
        assert_eq!((card.uuid.as_deref(), card.pci_id, card.routes.len()), (Some("GPU-1"), Some((0x10de, 0x25b9)), 2));
        assert_eq!(card.bus, Some(bus.clone()));

        // Kept from CUDA and Vulkan, it is still a row, with NVML's name and no way to it.
        let nothing = (cuda_listing(vec![]), wgpu::Listing::default());
        let inventory = join(&[bus], &[nvml], &nothing.0, &nothing.1, &processor());
        assert_eq!(inventory.devices.len(), 2);
        assert_eq!((inventory.devices[0].name.as_str(), inventory.devices[0].routes.len()), (name, 0));
    }

    #[test]
    fn one_card_seen_by_cuda_and_vulkan_is_one_row() {
        let inventory = machine(
            vec![cuda_card("NVIDIA RTX A1000", "0000:01:00.0", (8, 6))],
            vec![adapter(
                Api::Vulkan,
                AdapterKind::DiscreteGpu,
                "NVIDIA RTX A1000",
                (0x10de, 0x25b9),
                "0000:01:00.0",
                "NVIDIA",
            )],
        );
        assert_eq!(inventory.devices.len(), 2, "the card and the processor");
        let requests: Vec<_> = inventory.routes().map(|(_, route)| route.request).collect();
        assert_eq!(requests, [DeviceRequest::Cuda(Some(0)), DeviceRequest::Wgpu(Some(0)), DeviceRequest::Cpu]);
    }

    #[test]
    fn equal_cards_are_kept_apart_by_address_whatever_the_order() {
        let nvidia =
            |pci| adapter(Api::Vulkan, AdapterKind::DiscreteGpu, "NVIDIA RTX A1000", (0x10de, 0x25b9), pci, "NVIDIA");
        let inventory = machine(
            vec![
                cuda_card("NVIDIA RTX A1000", "0000:01:00.0", (8, 6)),
                cuda_card("NVIDIA RTX A1000", "0000:41:00.0", (8, 6)),
            ],
            vec![nvidia("0000:41:00.0"), nvidia("0000:01:00.0")],
        );
        assert_eq!(inventory.devices.len(), 3);
        let handles: Vec<_> = inventory
            .routes()
            .filter(|(_, route)| route.backend == Backend::Wgpu)
            .map(|(_, route)| route.handle.clone())
            .collect();
        // wgpu:0 is the card at 01:00.0, which Vulkan lists second.
        let at = |nth| Handle::Wgpu { kind: AdapterKind::DiscreteGpu, nth };
        assert_eq!(handles, [at(1), at(0)]);
    }

    #[test]
    fn directx_joins_by_model_and_gets_the_later_number() {
        let card =
            |api, pci| adapter(api, AdapterKind::DiscreteGpu, "AMD Radeon RX 6600M", (0x1002, 0x73ff), pci, "AMD");
        // wgpu's DirectX address is a guess by model; this one is wrong on purpose.
        let inventory = machine(vec![], vec![card(Api::Dx12, "0000:09:00.0"), card(Api::Vulkan, "0000:03:00.0")]);
        assert_eq!(inventory.devices.len(), 2);
        let apis: Vec<_> = inventory.devices[0].routes.iter().map(|route| (route.api, route.request)).collect();
        assert_eq!(apis, [(Api::Vulkan, DeviceRequest::Wgpu(Some(0))), (Api::Dx12, DeviceRequest::Wgpu(Some(1)))]);
    }

    #[test]
    fn positions_count_adapters_of_one_kind_on_one_interface() {
        let gpu = |api, kind, name: &str, device| adapter(api, kind, name, (0x10de, device), "", "NVIDIA");
        let adapters = [
            gpu(Api::Vulkan, AdapterKind::IntegratedGpu, "a", 1),
            gpu(Api::Vulkan, AdapterKind::DiscreteGpu, "b", 2),
            gpu(Api::Dx12, AdapterKind::DiscreteGpu, "b", 2),
            gpu(Api::Vulkan, AdapterKind::DiscreteGpu, "c", 3),
        ];
        let order: Vec<_> = in_order_of_preference(&adapters)
            .into_iter()
            .map(|(adapter, nth)| (adapter.name.as_str(), adapter.api, nth))
            .collect();
        assert_eq!(order, [("a", Api::Vulkan, 0), ("b", Api::Vulkan, 0), ("c", Api::Vulkan, 1), ("b", Api::Dx12, 0)]);
    }

    #[test]
    fn indistinguishable_twins_are_kept_and_flagged() {
        let twin = || adapter(Api::Vulkan, AdapterKind::DiscreteGpu, "AMD Radeon RX 580", (0x1002, 0x67df), "", "radv");
        let inventory = machine(vec![], vec![twin(), twin()]);
        assert_eq!(inventory.devices.len(), 3);
        assert!(inventory.notes.iter().any(|note| note.contains("listed twice")));
    }

    #[test]
    fn amd_names_tell_processors_from_cards() {
        for name in [
            "AMD Radeon(TM) Graphics",
            "AMD Radeon Graphics",
            "AMD Radeon(TM) Vega 8 Graphics",
            "AMD Radeon(TM) RX Vega 10 Graphics",
            "AMD Radeon(TM) 780M",
            "AMD Radeon 8060S",
            "AMD Radeon 890M Graphics",
        ] {
            assert!(is_amd_apu(name), "{name}");
        }
        for name in [
            "AMD Radeon RX 6600M",
            "AMD Radeon RX 7900 XTX",
            "AMD Radeon Pro W6800",
            "AMD Radeon R9 M370X",
            "AMD Radeon VII",
            "AMD Instinct MI210",
        ] {
            assert!(!is_amd_apu(name), "{name}");
        }
    }

    #[test]
    fn a_spirv_build_refuses_what_would_crash() {
        let mut gpu = adapter(Api::Vulkan, AdapterKind::DiscreteGpu, "a card", (0x1002, 1), "", "old");
        assert_eq!(problem_of(&gpu, false), None);
        gpu.spirv = Some(true);
        assert_eq!(problem_of(&gpu, true), None);
        gpu.spirv = Some(false);
        let problem = problem_of(&gpu, true).expect("refused");
        assert!(problem.reason.contains("VK_KHR_workgroup_memory_explicit_layout"));
        gpu.kind = AdapterKind::Cpu;
        assert!(problem_of(&gpu, true).expect("refused").reason.contains("software"));
        gpu.api = Api::Dx12;
        assert_eq!(problem_of(&gpu, true), None);
    }

    #[test]
    fn an_adapter_that_allows_too_little_is_refused_with_what_it_lacks() {
        let gpu = adapter(Api::Vulkan, AdapterKind::IntegratedGpu, "Some GPU", (0x8086, 1), "", "");
        let enough = Limits {
            storage_buffers: 8,
            binding_bytes: 128 << 20,
            buffer_bytes: 256 << 20,
            threads: 256,
            workgroups: 65_535,
            f16: false,
        };
        let problem = |limits| problem_of(&Adapter { limits: Some(limits), ..gpu.clone() }, false);
        assert_eq!(problem(enough), None, "the least that WebGPU promises is enough");
        for (limits, part) in [
            (Limits { storage_buffers: 4, ..enough }, "4 buffers in a kernel, and Kiln's kernels need 6"),
            (Limits { threads: 128, ..enough }, "128 threads in a workgroup"),
            (Limits { workgroups: 1024, ..enough }, "1024 workgroups"),
        ] {
            let reason = problem(limits).expect("too little").reason;
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[test]
    fn sources_that_find_nothing_leave_notes() {
        let cuda = cuda::Listing { finding: Some("no NVIDIA driver".to_owned()), ..cuda::Listing::default() };
        let wgpu = wgpu::Listing { finding: Some("no Vulkan driver".to_owned()), ..wgpu::Listing::default() };
        let inventory = join(&[], &[], &cuda, &wgpu, &processor());
        assert_eq!(inventory.notes, ["CUDA: no NVIDIA driver", "no Vulkan driver"]);
        assert_eq!(inventory.devices.len(), 1);
    }
}
