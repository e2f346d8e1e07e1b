//! A table of machines and what is chosen on them.
//!
//! Only the last few tests depend on the features of this build: a request by name is refused before anything
//! else if the backend isn't compiled in.

use super::*;
use crate::{
    inventory::{
        Problem,
        cuda::CudaDevice,
        wgpu::{
            Adapter,
            AdapterKind::{self, Cpu, DiscreteGpu, IntegratedGpu, Other, VirtualGpu},
        },
    },
    machines::{adapter, cuda_card, machine},
};

const RTX_3050: &str = "NVIDIA GeForce RTX 3050 Laptop GPU";
const IRIS: &str = "Intel(R) Iris(R) Xe Graphics";

fn vulkan(kind: AdapterKind, name: &str, id: (u32, u32), pci: &str, driver: &str) -> Adapter {
    adapter(Api::Vulkan, kind, name, id, pci, driver)
}

fn rtx_3050() -> CudaDevice {
    cuda_card(RTX_3050, "0000:01:00.0", (8, 6))
}

fn rtx_3050_without_nvrtc() -> CudaDevice {
    CudaDevice { problem: Some(Problem::new("NVRTC is missing").with_remedy("pip install it")), ..rtx_3050() }
}

fn rtx_3050_vulkan() -> Adapter {
    vulkan(DiscreteGpu, RTX_3050, (0x10de, 0x25a2), "0000:01:00.0", "NVIDIA")
}

fn iris() -> Adapter {
    vulkan(IntegratedGpu, IRIS, (0x8086, 0x46a6), "0000:00:02.0", "Intel")
}

fn llvmpipe() -> Adapter {
    vulkan(Cpu, "llvmpipe (LLVM 15.0.6, 256 bits)", (0x10005, 0), "", "llvmpipe")
}

fn vega() -> Adapter {
    vulkan(IntegratedGpu, "AMD Radeon Vega 8 Graphics (RADV RAVEN)", (0x1002, 0x15d8), "0000:05:00.0", "radv")
}

fn rx_6600m(driver: &str, pci: &str) -> Adapter {
    vulkan(DiscreteGpu, "AMD Radeon RX 6600M", (0x1002, 0x73ff), pci, driver)
}

fn rx_7900(pci: &str) -> Adapter {
    vulkan(DiscreteGpu, "AMD Radeon RX 7900 XTX", (0x1002, 0x744c), pci, "radv")
}

fn arc(api: Api, pci: &str) -> Adapter {
    adapter(api, DiscreteGpu, "Intel(R) Arc(TM) A770 Graphics", (0x8086, 0x56a0), pci, "Intel")
}

fn with_memory(mut adapter: Adapter, gib: u64) -> Adapter {
    adapter.memory_bytes = Some(gib << 30);
    adapter
}

/// One row: the machine, what `auto` takes on it, and how many devices it has without software and processor.
struct Row {
    machine: &'static str,
    cuda: Vec<CudaDevice>,
    adapters: Vec<Adapter>,
    chosen: (&'static str, Api),
    num_gpus: usize,
}

#[rustfmt::skip]
fn table() -> Vec<Row> {
    let row = |machine, cuda, adapters, chosen, num_gpus| Row { machine, cuda, adapters, chosen, num_gpus };
    let processor = ("AMD Ryzen 7 5800H, 16 threads", Api::Native);
    let amd_igpu = |api, kind, pci| adapter(api, kind, "AMD Radeon(TM) Graphics", (0x1002, 0x1638), pci, "AMD");
    let dx12 = |kind, name: &str, id| adapter(Api::Dx12, kind, name, id, "", "");
    vec![
        row("hybrid laptop, CUDA works", vec![rtx_3050()], vec![iris(), rtx_3050_vulkan()], (RTX_3050, Api::Cuda), 2),
        row("hybrid laptop, NVRTC missing", vec![rtx_3050_without_nvrtc()], vec![iris(), rtx_3050_vulkan()], (RTX_3050, Api::Vulkan), 2),
        row("hybrid laptop, no CUDA driver", vec![], vec![iris(), rtx_3050_vulkan()], (RTX_3050, Api::Vulkan), 2),
        row("hybrid laptop, NVRTC and NVIDIA's Vulkan missing", vec![rtx_3050_without_nvrtc()], vec![iris()], (IRIS, Api::Vulkan), 2),
        row("AMD laptop with NVIDIA", vec![rtx_3050()], vec![vega(), rtx_3050_vulkan(), llvmpipe()], (RTX_3050, Api::Cuda), 2),
        row("WSL: CUDA, only llvmpipe for Vulkan", vec![cuda_card("NVIDIA GeForce RTX 3060", "0000:01:00.0", (8, 6))], vec![llvmpipe()], ("NVIDIA GeForce RTX 3060", Api::Cuda), 1),
        row("WSL without NVRTC", vec![rtx_3050_without_nvrtc()], vec![llvmpipe()], processor, 1),
        row("WSL: a Dozen adapter", vec![], vec![llvmpipe(), vulkan(DiscreteGpu, "Microsoft Direct3D12 (NVIDIA GeForce RTX 3060)", (0x10de, 0x2503), "", "Dozen")], ("Microsoft Direct3D12 (NVIDIA GeForce RTX 3060)", Api::Vulkan), 1),
        row("two equal NVIDIA cards", vec![cuda_card("NVIDIA RTX A1000", "0000:01:00.0", (8, 6)), cuda_card("NVIDIA RTX A1000", "0000:41:00.0", (8, 6))],
            vec![vulkan(DiscreteGpu, "NVIDIA RTX A1000", (0x10de, 0x25b9), "0000:01:00.0", "NVIDIA"), vulkan(DiscreteGpu, "NVIDIA RTX A1000", (0x10de, 0x25b9), "0000:41:00.0", "NVIDIA")], ("NVIDIA RTX A1000", Api::Cuda), 2),
        row("the CUDA driver puts the fast card first", vec![cuda_card("NVIDIA GeForce RTX 4090", "0000:41:00.0", (8, 9)), CudaDevice { memory_bytes: Some(48 << 30), ..cuda_card("Tesla P40", "0000:01:00.0", (6, 1)) }], vec![], ("NVIDIA GeForce RTX 4090", Api::Cuda), 2),
        row("first NVIDIA card too old for the compiler", vec![CudaDevice { problem: Some(Problem::new("too old")), ..cuda_card("Tesla P40", "0000:01:00.0", (6, 1)) }, cuda_card("NVIDIA GeForce RTX 4090", "0000:41:00.0", (8, 9))], vec![], ("NVIDIA GeForce RTX 4090", Api::Cuda), 2),
        row("AMD desktop card beside an AMD APU", vec![], vec![vega(), rx_6600m("radv", "0000:03:00.0")], ("AMD Radeon RX 6600M", Api::Vulkan), 2),
        row("AMD APU alone", vec![], vec![vega(), llvmpipe()], ("AMD Radeon Vega 8 Graphics (RADV RAVEN)", Api::Vulkan), 1),
        row("Intel alone, lavapipe listed first", vec![], vec![llvmpipe(), iris()], (IRIS, Api::Vulkan), 1),
        row("only llvmpipe", vec![], vec![llvmpipe()], processor, 0),
        row("nothing at all", vec![], vec![], processor, 0),
        row("RADV and AMDVLK list one card", vec![], vec![rx_6600m("AMD open-source driver", "0000:03:00.0"), rx_6600m("radv", "0000:03:00.0")], ("AMD Radeon RX 6600M", Api::Vulkan), 1),
        row("eGPU with more memory than the internal card", vec![], vec![with_memory(rx_6600m("radv", "0000:03:00.0"), 8), with_memory(vulkan(DiscreteGpu, "AMD Radeon RX 7900 XTX", (0x1002, 0x744c), "0000:2f:00.0", "radv"), 24)], ("AMD Radeon RX 7900 XTX", Api::Vulkan), 2),
        row("NVIDIA and AMD cards of unknown memory, no CUDA", vec![], vec![rx_6600m("AMD", ""), vulkan(DiscreteGpu, RTX_3050, (0x10de, 0x25a2), "", "NVIDIA")], (RTX_3050, Api::Vulkan), 2),
        row("Windows: DirectX calls the AMD iGPU discrete", vec![], vec![amd_igpu(Api::Dx12, DiscreteGpu, ""), dx12(DiscreteGpu, RTX_3050, (0x10de, 0x25a2)), amd_igpu(Api::Vulkan, IntegratedGpu, "0000:05:00.0"), rtx_3050_vulkan()], (RTX_3050, Api::Vulkan), 2),
        row("Windows: the same with DirectX only", vec![], vec![amd_igpu(Api::Dx12, DiscreteGpu, ""), dx12(DiscreteGpu, RTX_3050, (0x10de, 0x25a2))], (RTX_3050, Api::Dx12), 2),
        row("Windows: NVIDIA and Intel, each listed twice", vec![], vec![iris(), rtx_3050_vulkan(), dx12(DiscreteGpu, RTX_3050, (0x10de, 0x25a2)), dx12(IntegratedGpu, IRIS, (0x8086, 0x46a6)), dx12(Cpu, "Microsoft Basic Render Driver", (0x1414, 0x8c))], (RTX_3050, Api::Vulkan), 2),
        row("Windows virtual machine without a GPU", vec![], vec![dx12(Cpu, "Microsoft Basic Render Driver", (0x1414, 0x8c))], processor, 0),
        row("virtual machine with a passed-on GPU", vec![], vec![vulkan(VirtualGpu, "Virtio-GPU Venus (AMD Radeon RX 6600)", (0x1af4, 0x1050), "", "venus"), llvmpipe()], ("Virtio-GPU Venus (AMD Radeon RX 6600)", Api::Vulkan), 1),
        row("NVK beside an Intel GPU", vec![], vec![vulkan(DiscreteGpu, "NVIDIA GeForce MX150 (NVK GP108)", (0x10de, 0x1d10), "0000:01:00.0", "NVK"), vulkan(IntegratedGpu, "Mesa Intel(R) UHD Graphics 620", (0x8086, 0x5917), "0000:00:02.0", "Intel")], ("Mesa Intel(R) UHD Graphics 620", Api::Vulkan), 2),
        row("an adapter of no known kind", vec![], vec![vulkan(Other, "Mystery GPU", (0x1234, 1), "", "mystery")], processor, 1),
        row("Apple silicon", vec![], vec![adapter(Api::Metal, IntegratedGpu, "Apple M2", (0, 0), "", "")], ("Apple M2", Api::Metal), 1),
        row("Jetson: integrated, over CUDA", vec![CudaDevice { integrated: true, ..cuda_card("Orin", "0000:00:00.0", (8, 7)) }], vec![], ("Orin", Api::Cuda), 1),
        // What the reports of other frameworks' users add; the numbers are those of gfx-rs/wgpu's issues where there is one.
        row("NVK alone", vec![], vec![vulkan(DiscreteGpu, "NVIDIA GeForce MX150 (NVK GP108)", (0x10de, 0x1d10), "0000:01:00.0", "NVK")], processor, 1),
        row("NVK beside an AMD card", vec![], vec![vulkan(DiscreteGpu, "NVIDIA GeForce RTX 2060 (NVK TU106)", (0x10de, 0x1f08), "0000:01:00.0", "NVK"), rx_6600m("radv", "0000:03:00.0")], ("AMD Radeon RX 6600M", Api::Vulkan), 2),
        row("NVIDIA and a larger AMD card, CUDA works", vec![rtx_3050()], vec![with_memory(rx_7900("0000:2f:00.0"), 24), rtx_3050_vulkan()], (RTX_3050, Api::Cuda), 2),
        row("NVIDIA and a larger AMD card, NVRTC missing", vec![rtx_3050_without_nvrtc()], vec![with_memory(rtx_3050_vulkan(), 4), with_memory(rx_7900("0000:2f:00.0"), 24)], ("AMD Radeon RX 7900 XTX", Api::Vulkan), 2),
        row("Intel Arc beside an Intel iGPU, which is listed first (3464)", vec![], vec![iris(), arc(Api::Vulkan, "0000:03:00.0")], ("Intel(R) Arc(TM) A770 Graphics", Api::Vulkan), 2),
        row("Optimus: NVIDIA's adapter hidden, CUDA works (257)", vec![rtx_3050()], vec![iris()], (RTX_3050, Api::Cuda), 2),
        row("cards hidden by CUDA_VISIBLE_DEVICES, Vulkan sees them", vec![], vec![rtx_3050_vulkan()], (RTX_3050, Api::Vulkan), 1),
        row("a small, old NVIDIA card over CUDA beside Intel", vec![CudaDevice { memory_bytes: Some(2 << 30), ..cuda_card("NVIDIA GeForce MX150", "0000:01:00.0", (6, 1)) }], vec![iris()], ("NVIDIA GeForce MX150", Api::Cuda), 2),
        row("server with eight cards", (0..8).map(|n| cuda_card("NVIDIA H100 80GB HBM3", &format!("0000:{n:x}b:00.0"), (9, 0))).collect(), vec![], ("NVIDIA H100 80GB HBM3", Api::Cuda), 8),
        row("AMDVLK alone", vec![], vec![rx_6600m("AMD open-source driver", "0000:03:00.0")], ("AMD Radeon RX 6600M", Api::Vulkan), 1),
        row("three AMD drivers list one card", vec![], vec![rx_6600m("AMD proprietary driver", "0000:03:00.0"), rx_6600m("AMD open-source driver", "0000:03:00.0"), rx_6600m("radv", "0000:03:00.0")], ("AMD Radeon RX 6600M", Api::Vulkan), 1),
        row("eGPU of the same model as the internal card", vec![], vec![rx_6600m("radv", "0000:03:00.0"), rx_6600m("radv", "0000:2f:00.0")], ("AMD Radeon RX 6600M", Api::Vulkan), 2),
        row("lavapipe and SwiftShader only", vec![], vec![llvmpipe(), vulkan(Cpu, "SwiftShader Device (LLVM 10.0.0)", (0x1ae0, 0xc0de), "", "SwiftShader driver")], processor, 0),
        row("virtual machine whose GPU is llvmpipe behind Venus", vec![], vec![vulkan(VirtualGpu, "Virtio-GPU Venus (llvmpipe (LLVM 15.0.7, 256 bits))", (0x1af4, 0x1050), "", "venus")], processor, 0),
        row("WSL: CUDA, and Dozen's view of the same card", vec![cuda_card("NVIDIA GeForce RTX 3060", "0000:01:00.0", (8, 6))], vec![llvmpipe(), vulkan(DiscreteGpu, "Microsoft Direct3D12 (NVIDIA GeForce RTX 3060)", (0x10de, 0x2503), "", "Dozen")], ("NVIDIA GeForce RTX 3060", Api::Cuda), 1),
        row("Raspberry Pi", vec![], vec![vulkan(IntegratedGpu, "V3D 7.1.7", (0x14e4, 0x55701c33), "", "V3DV Mesa"), llvmpipe()], ("V3D 7.1.7", Api::Vulkan), 1),
        row("Intel Mac with an AMD card", vec![], vec![adapter(Api::Metal, IntegratedGpu, "Intel UHD Graphics 630", (0, 0), "", ""), adapter(Api::Metal, DiscreteGpu, "AMD Radeon Pro 5500M", (0, 0), "", "")], ("AMD Radeon Pro 5500M", Api::Metal), 2),
        row("Windows: CUDA, Vulkan and DirectX 12 list one NVIDIA card", vec![rtx_3050()], vec![iris(), rtx_3050_vulkan(), dx12(DiscreteGpu, RTX_3050, (0x10de, 0x25a2)), dx12(IntegratedGpu, IRIS, (0x8086, 0x46a6))], (RTX_3050, Api::Cuda), 2),
        row("Windows: NVIDIA under DirectX 12 only, Intel under both (1416)", vec![], vec![iris(), dx12(DiscreteGpu, RTX_3050, (0x10de, 0x25a2)), dx12(IntegratedGpu, IRIS, (0x8086, 0x46a6))], (RTX_3050, Api::Dx12), 2),
        row("Windows: the renderer of Windows goes first", vec![], vec![dx12(Cpu, "Microsoft Basic Render Driver", (0x1414, 0x8c)), dx12(IntegratedGpu, IRIS, (0x8086, 0x46a6))], (IRIS, Api::Dx12), 1),
        row("Windows: Ryzen laptop, DirectX 12 alone calls its GPU discrete (2304)", vec![], vec![dx12(DiscreteGpu, "AMD Radeon 780M", (0x1002, 0x15bf)), dx12(Cpu, "Microsoft Basic Render Driver", (0x1414, 0x8c))], ("AMD Radeon 780M", Api::Dx12), 1),
        row("Windows: Ryzen laptop with a Radeon card, both called discrete", vec![], vec![dx12(DiscreteGpu, "AMD Radeon(TM) Graphics", (0x1002, 0x1638)), dx12(DiscreteGpu, "AMD Radeon RX 6600M", (0x1002, 0x73ff))], ("AMD Radeon RX 6600M", Api::Dx12), 2),
        row("Windows: Ryzen desktop with an NVIDIA card and NVRTC missing", vec![rtx_3050_without_nvrtc()], vec![amd_igpu(Api::Dx12, DiscreteGpu, ""), dx12(DiscreteGpu, RTX_3050, (0x10de, 0x25a2)), amd_igpu(Api::Vulkan, IntegratedGpu, "0000:05:00.0"), rtx_3050_vulkan()], (RTX_3050, Api::Vulkan), 2),
        row("Windows: two equal NVIDIA cards, each listed twice", vec![], vec![dx12(DiscreteGpu, "NVIDIA RTX A1000", (0x10de, 0x25b9)), dx12(DiscreteGpu, "NVIDIA RTX A1000", (0x10de, 0x25b9)), vulkan(DiscreteGpu, "NVIDIA RTX A1000", (0x10de, 0x25b9), "0000:01:00.0", "NVIDIA"), vulkan(DiscreteGpu, "NVIDIA RTX A1000", (0x10de, 0x25b9), "0000:41:00.0", "NVIDIA")], ("NVIDIA RTX A1000", Api::Vulkan), 2),
        row("Windows: Intel Arc beside an Intel iGPU", vec![], vec![iris(), arc(Api::Vulkan, "0000:03:00.0"), arc(Api::Dx12, ""), dx12(IntegratedGpu, IRIS, (0x8086, 0x46a6))], ("Intel(R) Arc(TM) A770 Graphics", Api::Vulkan), 2),
        row("Windows on ARM", vec![], vec![dx12(IntegratedGpu, "Qualcomm(R) Adreno(TM) X1-85 GPU", (0x4d4f_4351, 0x3643_3031)), dx12(Cpu, "Microsoft Basic Render Driver", (0x1414, 0x8c))], ("Qualcomm(R) Adreno(TM) X1-85 GPU", Api::Dx12), 1),
        row("Windows: a remote desktop's adapter beside NVIDIA", vec![], vec![dx12(Other, "Microsoft Remote Display Adapter", (0x1414, 0x8d)), dx12(DiscreteGpu, RTX_3050, (0x10de, 0x25a2))], (RTX_3050, Api::Dx12), 2),
    ]
}

#[test]
fn auto_takes_the_right_device_on_every_machine_of_the_table() {
    for row in table() {
        let inventory = machine(row.cuda, row.adapters);
        let choice = choose(&inventory, &DeviceRequest::Auto).expect("auto always finds something");
        let (name, api) = row.chosen;
        assert_eq!(choice.chosen.name, name, "{}", row.machine);
        assert_eq!(choice.chosen.api, api, "{}", row.machine);
        let is_gpu = |device: &&PhysicalDevice| !matches!(device.kind, HardwareKind::Software | HardwareKind::Cpu);
        let num_gpus = inventory.devices.iter().filter(is_gpu).count();
        assert_eq!(num_gpus, row.num_gpus, "{}", row.machine);
    }
}

#[test]
fn every_other_candidate_has_a_reason() {
    for row in table() {
        let inventory = machine(row.cuda, row.adapters);
        let choice = choose(&inventory, &DeviceRequest::Auto).expect("auto always finds something");
        assert_eq!(choice.lost.len() + 1, inventory.routes().count(), "{}", row.machine);
        for lost in &choice.lost {
            assert!(!lost.reason.is_empty(), "{}", row.machine);
        }
    }
}

#[test]
fn auto_never_takes_software() {
    for row in table() {
        let inventory = machine(row.cuda, row.adapters);
        let choice = choose(&inventory, &DeviceRequest::Auto).expect("auto always finds something");
        assert_ne!(choice.chosen.kind, HardwareKind::Software, "{}", row.machine);
    }
}

#[test]
fn the_adapter_lists_of_the_cases_are_chosen_from_as_expected() {
    let Some(expected) = crate::machines::expectation("p04_adapters") else { return };
    for (name, case) in expected.as_object().expect("a table") {
        let all = case["adapters"].as_array().expect("a list");
        // OpenGL is never asked.
        let adapters: Vec<Adapter> = all.iter().filter(|json| json["backend"] != "Gl").map(adapter_of).collect();
        let inventory = machine(vec![], adapters);
        let choice = choose(&inventory, &DeviceRequest::Auto).expect("auto always finds something");
        match case["selected_index"].as_u64() {
            None => assert_eq!(choice.chosen.api, Api::Native, "{name}"),
            Some(index) => {
                let wanted = adapter_of(&all[index as usize]);
                assert_eq!((choice.chosen.name, choice.chosen.api), (wanted.name, wanted.api), "{name}");
            }
        }
        let is_gpu = |device: &&PhysicalDevice| !matches!(device.kind, HardwareKind::Software | HardwareKind::Cpu);
        let num_gpus = inventory.devices.iter().filter(is_gpu).count() as u64;
        assert_eq!(Some(num_gpus), case["physical_gpus_after_dedupe"].as_u64(), "{name}");
    }
}

/// An adapter as the case writes it.
fn adapter_of(json: &serde_json::Value) -> Adapter {
    let text = |key: &str| json[key].as_str().expect("text");
    let number = |key: &str| json[key].as_u64().expect("a number") as u32;
    let api = match text("backend") {
        "Vulkan" => Api::Vulkan,
        "Dx12" => Api::Dx12,
        other => panic!("an interface we ask, not {other}"),
    };
    let kind = match text("device_type") {
        "DiscreteGpu" => DiscreteGpu,
        "IntegratedGpu" => IntegratedGpu,
        "Cpu" => Cpu,
        _ => Other,
    };
    adapter(api, kind, text("name"), (number("vendor"), number("device")), text("device_pci_bus_id"), text("driver"))
}

/// The reason `name` lost on `choice`.
fn reason<'a>(choice: &'a Choice, request: &str) -> &'a Lost {
    choice.lost.iter().find(|lost| lost.candidate.request.to_string() == request).expect("a loser of that name")
}

#[test]
fn reasons_say_what_a_person_wants_to_know() {
    let inventory = machine(vec![rtx_3050()], vec![iris(), rtx_3050_vulkan(), llvmpipe()]);
    let choice = choose(&inventory, &DeviceRequest::Auto).expect("auto always finds something");
    assert_eq!(choice.reason, "discrete GPU over CUDA");
    assert_eq!(reason(&choice, "wgpu:0").reason, "same card; CUDA is preferred");
    assert_eq!(reason(&choice, "wgpu:1").reason, "integrated GPU; a discrete GPU over CUDA goes first");
    if !cfg!(feature = "vulkan") {
        assert!(reason(&choice, "wgpu:software").reason.contains("no GPU"));
    }
    assert_eq!(reason(&choice, "cpu").reason, "slower than a GPU");
}

#[test]
fn a_missing_compiler_costs_cuda_with_the_remedy() {
    let inventory = machine(vec![rtx_3050_without_nvrtc()], vec![rtx_3050_vulkan()]);
    let choice = choose(&inventory, &DeviceRequest::Auto).expect("auto always finds something");
    let lost = reason(&choice, "cuda:0");
    assert_eq!(lost.reason, "NVRTC is missing");
    assert_eq!(lost.remedy.as_deref(), Some("pip install it"));
}

#[test]
fn the_processor_can_always_be_asked_for() {
    let inventory = machine(vec![rtx_3050()], vec![iris()]);
    let choice = choose(&inventory, &DeviceRequest::Cpu).expect("always there");
    assert_eq!(choice.chosen.backend, Backend::Cpu);
    assert_eq!(choice.reason, "as asked");
    assert_eq!(reason(&choice, "cuda:0").reason, "\"cpu\" was asked for");
}

#[test]
fn a_route_that_failed_when_opened_is_passed_over_next_time() {
    let mut inventory = machine(vec![rtx_3050()], vec![rtx_3050_vulkan()]);
    inventory.set_problem(DeviceRequest::Cuda(Some(0)), Problem::new("smoke test failed"));
    let choice = choose(&inventory, &DeviceRequest::Auto).expect("auto always finds something");
    assert_eq!(choice.chosen.request, DeviceRequest::Wgpu(Some(0)));
    assert_eq!(reason(&choice, "cuda:0").reason, "smoke test failed");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_build_without_cuda_says_so() {
    let inventory = machine(vec![], vec![]);
    let error = choose(&inventory, &DeviceRequest::Cuda(None)).expect_err("not built");
    assert!(error.to_string().contains("Cargo feature `cuda`"), "{error}");
}

#[cfg(feature = "cuda")]
#[test]
fn a_named_cuda_device_that_is_not_there_is_an_error_listing_what_is() {
    let inventory = machine(vec![rtx_3050()], vec![iris()]);
    let error = choose(&inventory, &DeviceRequest::Cuda(Some(1))).expect_err("only one card");
    let text = error.to_string();
    for part in ["\"cuda:1\"", "cuda:0 (NVIDIA GeForce RTX 3050", "wgpu:0 (Intel", "cpu ("] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[cfg(feature = "cuda")]
#[test]
fn a_named_cuda_device_that_cannot_work_is_an_error_with_the_remedy() {
    let inventory = machine(vec![rtx_3050_without_nvrtc()], vec![rtx_3050_vulkan()]);
    for request in [DeviceRequest::Cuda(None), DeviceRequest::Cuda(Some(0))] {
        let error = choose(&inventory, &request).expect_err("no compiler");
        let text = error.to_string();
        assert!(text.contains("NVRTC is missing"), "{text}");
        assert!(text.contains("pip install it"), "{text}");
    }
}

#[cfg(feature = "cuda")]
#[test]
fn no_driver_is_said_when_cuda_is_asked_for() {
    let inventory = machine(vec![], vec![]);
    let error = choose(&inventory, &DeviceRequest::Cuda(None)).expect_err("no card");
    assert!(error.to_string().contains("no NVIDIA driver"), "{error}");
}

#[cfg(feature = "wgpu")]
#[test]
fn wgpu_by_name_takes_the_best_gpu_and_never_software() {
    let inventory = machine(vec![rtx_3050()], vec![llvmpipe(), iris(), rtx_3050_vulkan()]);
    let choice = choose(&inventory, &DeviceRequest::Wgpu(None)).expect("two GPUs");
    assert_eq!(choice.chosen.name, RTX_3050);
    assert_eq!(choice.reason, "best for \"wgpu\"");

    let inventory = machine(vec![], vec![llvmpipe()]);
    let error = choose(&inventory, &DeviceRequest::Wgpu(None)).expect_err("software is no GPU");
    assert!(error.to_string().contains("wgpu:software (llvmpipe"), "{error}");
}

#[cfg(all(feature = "wgpu", not(feature = "vulkan")))]
#[test]
fn software_and_nvk_can_be_asked_for() {
    let inventory = machine(
        vec![],
        vec![
            llvmpipe(),
            vulkan(DiscreteGpu, "NVIDIA GeForce MX150 (NVK GP108)", (0x10de, 0x1d10), "0000:01:00.0", "NVK"),
        ],
    );
    let choice = choose(&inventory, &DeviceRequest::WgpuSoftware).expect("llvmpipe is there");
    assert_eq!(choice.chosen.kind, HardwareKind::Software);
    let choice = choose(&inventory, &DeviceRequest::Wgpu(Some(0))).expect("the card is there");
    assert!(choice.chosen.name.contains("NVK"));
}
