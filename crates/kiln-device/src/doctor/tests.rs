//! Machines as recorded, and what the doctor says of them.

use std::time::Instant;

use super::{
    facts::{Node, NodeState, auto},
    platform::{Family, Platform, System},
    trial::{Outcome, Trial},
    *,
};
use crate::{
    inventory::{
        Api, BusDevice, PciAddress, Problem, Sources,
        bus::{VENDOR_AMD, VENDOR_INTEL, VENDOR_NVIDIA},
        cpu,
        cuda::{CudaDevice, CudaVersion, Listing},
        nvml,
        wgpu::{self, Adapter, AdapterKind},
    },
    machines::{adapter, cuda_card, cuda_listing},
    monitor::NvmlListing,
};

fn card(vendor: u32, device: u32, bus: u8, driver: Option<&str>) -> BusDevice {
    BusDevice {
        vendor,
        device,
        address: PciAddress { bus, ..PciAddress::default() },
        driver: driver.map(str::to_owned),
        integrated: bus == 0,
        ..BusDevice::default()
    }
}

fn nvidia(driver: Option<&str>) -> BusDevice {
    card(VENDOR_NVIDIA, 0x25a2, 1, driver)
}

fn linux(family: Family) -> Platform {
    Platform { system: System::Linux(family), name: "a Linux".to_owned(), container: false }
}

/// A machine as its sources describe it; the rest is as on a healthy desktop.
fn facts(platform: Platform, bus: Vec<BusDevice>, cuda: Listing, adapters: Vec<Adapter>) -> Facts {
    let wgpu = wgpu::Listing { finding: adapters.is_empty().then(|| "no Vulkan driver".to_owned()), adapters };
    let sources = Sources { bus, cuda, compilers: Default::default(), wgpu, nvml: Some(NvmlListing::default()) };
    let inventory = sources.inventory();
    let choice = auto(&inventory).expect("the processor");
    let passed = Trial { request: choice.chosen.request, name: choice.chosen.name.clone(), outcome: Outcome::Passed };
    Facts {
        platform,
        nvidia_module: sources.cuda.driver_release.clone(),
        other_gpus: Vec::new(),
        nvidia_nodes: Vec::new(),
        render_nodes: Vec::new(),
        dxg: false,
        cuda_defects: Vec::new(),
        nvml_defects: Vec::new(),
        vulkan_loader: vec!["/usr/lib/libvulkan.so.1".into()],
        vulkan_defects: Vec::new(),
        manifests: Vec::new(),
        visible_devices: None,
        trials: vec![passed],
        num_threads: 16,
        memory_bytes: cpu::this_processor().memory_bytes,
        load: Some(0.5),
        on_battery: false,
        tdr_delay_secs: None,
        sources,
        inventory,
        choice,
    }
}

/// A machine without NVIDIA's library.
fn no_cuda() -> Listing {
    Listing::failed("no NVIDIA driver (libcuda.so.1 is not installed)")
}

fn find<'a>(diagnosis: &'a Diagnosis, id: &str) -> &'a Check {
    diagnosis.checks.iter().find(|check| check.id == id).expect("a check of that name")
}

/// Code and remedy of the first failure.
fn cause(facts: &Facts) -> (&'static str, String) {
    let diagnosis = examine(facts);
    let failed = diagnosis.checks.iter().find(|check| check.status == Status::Fail);
    let failed = failed.unwrap_or_else(|| panic!("a failure in {diagnosis}"));
    (failed.code.expect("a code"), failed.remedy.clone().unwrap_or_default())
}

#[test]
fn a_machine_without_a_gpu_is_not_broken() {
    let diagnosis = examine(&facts(linux(Family::Debian), vec![], no_cuda(), vec![]));
    assert!(!diagnosis.has_problem(), "{diagnosis}");
    assert_eq!(find(&diagnosis, "hardware").code, Some("no_gpu"));
    assert_eq!(diagnosis.chosen.device, DeviceRequest::Cpu);
    assert!(
        diagnosis.verdict.sentence.ends_with("training would run on the processor."),
        "{}",
        diagnosis.verdict.sentence
    );
}

#[test]
fn a_healthy_card_leaves_nothing_to_do() {
    let cuda = cuda_listing(vec![CudaDevice {
        compiler: Some(crate::nvrtc::Installation {
            library: "/venv/libnvrtc.so.12".into(),
            version: CudaVersion { major: 12, minor: 4 },
            architectures: vec![86],
            includes: vec!["/venv/include".into()],
        }),
        ..cuda_card("NVIDIA GeForce RTX 3050", "0000:01:00.0", (8, 6))
    }]);
    let mut facts = facts(linux(Family::Ubuntu), vec![nvidia(Some("nvidia"))], cuda, vec![]);
    facts.num_threads = 16;
    let diagnosis = examine(&facts);
    assert!(!diagnosis.has_problem(), "{diagnosis}");
    assert_eq!(
        diagnosis.verdict.sentence,
        "Nothing is wrong: training would run on NVIDIA GeForce RTX 3050 over CUDA."
    );
}

#[test]
fn a_card_without_a_driver_gets_the_distribution_s_command() {
    for (family, part) in
        [(Family::Ubuntu, "ubuntu-drivers"), (Family::Fedora, "akmod-nvidia"), (Family::Arch, "pacman")]
    {
        let (code, remedy) = cause(&facts(linux(family), vec![nvidia(None)], no_cuda(), vec![]));
        assert_eq!(code, "nvidia_driver_missing");
        assert!(remedy.contains(part), "{remedy}");
    }
}

#[test]
fn a_card_given_to_a_virtual_machine_is_said_to_be() {
    let (code, _) = cause(&facts(linux(Family::Arch), vec![nvidia(Some("vfio-pci"))], no_cuda(), vec![]));
    assert_eq!(code, "passed_through");
}

#[test]
fn a_container_without_the_card_is_told_how_to_start() {
    let mut machine = facts(linux(Family::Debian), vec![nvidia(Some("nvidia"))], no_cuda(), vec![]);
    machine.platform.container = true;
    machine.nvidia_nodes = vec![Node { path: "/dev/nvidiactl".into(), state: NodeState::Missing }];
    let (code, remedy) = cause(&machine);
    assert_eq!(code, "container_without_gpu");
    assert!(remedy.contains("--gpus all"), "{remedy}");
}

#[test]
fn a_driver_without_its_library_is_told_the_package() {
    let (code, remedy) = cause(&facts(linux(Family::Debian), vec![nvidia(Some("nvidia"))], no_cuda(), vec![]));
    assert_eq!((code, remedy.as_str()), ("library_missing", "sudo apt install libcuda1"));
}

#[test]
fn failures_of_cuda_have_their_own_causes_and_remedies() {
    for (init_code, code, part) in [
        (34, "stub_library", "/stubs"),
        (802, "not_ready", "fabricmanager"),
        (803, "driver_mismatch", "reboot"),
        (804, "compat_library", "compat"),
        (999, "driver_failed", "modprobe nvidia_uvm"),
        (12_345, "cuda_failed", "ubuntu-drivers"),
    ] {
        let listing =
            Listing { init_code: Some(init_code), finding: Some(format!("code {init_code}")), ..cuda_listing(vec![]) };
        let (found, remedy) = cause(&facts(linux(Family::Ubuntu), vec![nvidia(Some("nvidia"))], listing, vec![]));
        assert_eq!(found, code);
        assert!(remedy.contains(part), "{init_code}: {remedy}");
    }
}

#[test]
fn halves_of_a_driver_that_differ_ask_for_a_restart() {
    let mut machine = facts(linux(Family::Ubuntu), vec![nvidia(Some("nvidia"))], no_cuda(), vec![]);
    let failure = nvml::Failure { code: nvml::VERSION_MISMATCH, text: nvml::meaning(nvml::VERSION_MISMATCH) };
    machine.sources.nvml = Some(NvmlListing { failure: Some(failure), ..NvmlListing::default() });
    machine.nvidia_module = Some("550.90.07".to_owned());
    let version = driver_version::check(&machine);
    assert_eq!(version.code, Some("driver_mismatch"));
    assert!(version.found.contains("550.90.07") && version.remedy.is_some_and(|remedy| remedy.contains("reboot")));
}

#[test]
fn under_wsl_the_missing_pci_card_is_normal_and_llvmpipe_no_gpu() {
    let wsl = Platform { system: System::Wsl, name: "Ubuntu under WSL".to_owned(), container: false };
    let llvmpipe = adapter(Api::Vulkan, AdapterKind::Cpu, "llvmpipe (LLVM 17)", (0x10005, 0), "", "llvmpipe");
    let mut machine = facts(wsl.clone(), vec![], no_cuda(), vec![llvmpipe.clone()]);
    machine.dxg = true;
    let diagnosis = examine(&machine);
    assert_eq!(find(&diagnosis, "hardware").status, Status::Ok);
    assert_eq!(find(&diagnosis, "driver_library").code, Some("library_missing"));
    assert!(
        diagnosis.checks.iter().filter_map(|check| check.remedy.as_ref()).all(|remedy| !remedy.contains("sudo apt"))
    );
    // Without the door to the GPU it is a failure.
    let (code, remedy) = cause(&facts(wsl, vec![], no_cuda(), vec![llvmpipe]));
    assert_eq!(code, "wsl_without_gpu");
    assert!(remedy.contains("wsl --update"), "{remedy}");
}

#[test]
fn windows_gets_the_steps_of_its_control_panels() {
    let windows = Platform { system: System::Windows, name: "Windows".to_owned(), container: false };
    let name = "NVIDIA GeForce RTX 3050 Laptop GPU";
    let card = adapter(Api::Dx12, AdapterKind::DiscreteGpu, name, (0x10de, 0x25a2), "", "");
    let mut machine = facts(windows, vec![], no_cuda(), vec![card]);
    machine.tdr_delay_secs = Some(2);
    machine.on_battery = true;
    let diagnosis = examine(&machine);
    let remedy = |id| find(&diagnosis, id).remedy.clone().unwrap_or_default();
    assert!(remedy("adapter").contains("High performance"), "{diagnosis}");
    assert!(remedy("driver_library").contains("Studio or Game Ready"), "{diagnosis}");
    let found = &find(&diagnosis, "driver_library").found;
    assert!(found.contains("nvcuda.dll") && !found.contains("libcuda"), "{found}");
    assert!(remedy("power").contains("prefer maximum performance"), "{diagnosis}");
    assert!(find(&diagnosis, "power").found.contains("longer than 2 s"), "{diagnosis}");
}

#[test]
fn an_integrated_gpu_that_vulkan_does_not_list_is_a_failure_and_beside_cuda_a_warning() {
    let intel = card(VENDOR_INTEL, 0x46a6, 0, Some("i915"));
    let (code, remedy) = cause(&facts(linux(Family::Fedora), vec![intel.clone()], no_cuda(), vec![]));
    assert_eq!(code, "vulkan_driver_missing");
    assert!(remedy.contains("mesa-vulkan-drivers"), "{remedy}");
    let cuda = cuda_listing(vec![cuda_card("NVIDIA GeForce RTX 3050", "0000:01:00.0", (8, 6))]);
    let machine = facts(linux(Family::Fedora), vec![intel, nvidia(Some("nvidia"))], cuda, vec![]);
    assert_eq!(find(&examine(&machine), "adapter").status, Status::Warn);
}

#[test]
fn a_closed_device_file_names_the_group() {
    let amd = card(VENDOR_AMD, 0x15bf, 4, Some("amdgpu"));
    let mut machine = facts(linux(Family::Arch), vec![amd], no_cuda(), vec![]);
    machine.render_nodes = vec![Node { path: "/dev/dri/renderD128".into(), state: NodeState::Refused }];
    let (code, remedy) = cause(&machine);
    assert_eq!(code, "render_node_refused");
    assert!(remedy.contains("usermod -aG render"), "{remedy}");
}

#[test]
fn a_device_that_computes_wrong_fails_with_what_was_wrong() {
    let mut machine = facts(linux(Family::Debian), vec![], no_cuda(), vec![]);
    let problem = Problem::new("failed the smoke test: a sum is wrong");
    machine.trials.insert(
        0,
        Trial { request: DeviceRequest::Wgpu(Some(0)), name: "Some GPU".to_owned(), outcome: Outcome::Failed(problem) },
    );
    let diagnosis = examine(&machine);
    let smoke = find(&diagnosis, "smoke_test");
    assert_eq!(smoke.status, Status::Fail);
    assert!(smoke.found.starts_with("wgpu:0 (Some GPU): failed the smoke test"), "{}", smoke.found);
}

#[test]
fn the_json_has_the_documented_keys() {
    let diagnosis = examine(&facts(linux(Family::Debian), vec![nvidia(None)], no_cuda(), vec![]));
    let json = serde_json::to_value(&diagnosis).expect("plain data");
    for check in json["checks"].as_array().expect("a list") {
        for key in ["id", "status", "code", "found", "why", "remedy"] {
            assert!(check.get(key).is_some(), "{key} in {check}");
        }
        assert!(["ok", "warn", "fail", "skip"].contains(&check["status"].as_str().expect("text")), "{check}");
    }
    assert_eq!(json["checks"].as_array().map(Vec::len), Some(CHECKS.len()));
    assert_eq!(json["chosen"]["device"], "cpu");
    assert!(json["verdict"]["cause"].is_string() && json["verdict"]["fix"].is_string());
}

#[test]
fn every_failure_and_warning_says_what_to_do() {
    for machine in [
        facts(linux(Family::Other), vec![nvidia(None), card(VENDOR_AMD, 1, 2, None)], no_cuda(), vec![]),
        facts(linux(Family::Suse), vec![nvidia(Some("nouveau"))], no_cuda(), vec![]),
        facts(linux(Family::Debian), vec![nvidia(Some("nvidia"))], Listing::failed("no answer within 9 s"), vec![]),
    ] {
        for check in examine(&machine).checks.iter().filter(|check| check.status >= Status::Warn) {
            assert!(
                check.remedy.as_ref().is_some_and(|remedy| !remedy.is_empty()) && check.code.is_some(),
                "{check:?}"
            );
        }
    }
}

#[test]
fn an_examination_ends_in_time_even_if_nothing_is_left_of_it() {
    let facts = Facts::gather(false, Instant::now()).expect("the processor");
    let diagnosis = examine(&facts);
    assert_eq!(find(&diagnosis, "smoke_test").status, Status::Skip, "{diagnosis}");
}

#[test]
fn lines_are_broken_between_words() {
    let text = "word ".repeat(40);
    let broken = wrapped_from(text.trim(), "    ");
    assert!(broken.lines().all(|line| line.chars().count() <= WIDTH));
    assert_eq!(broken.split_whitespace().count(), 40);
}
