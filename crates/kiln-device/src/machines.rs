//! Hand-written machines for the tests of this crate: listings as real drivers give them.

use crate::inventory::{
    Api, Inventory,
    cpu::Processor,
    cuda::{self, CudaDevice, CudaVersion},
    join::join,
    wgpu::{self, Adapter, AdapterKind},
};

/// A processor with a fixed name.
pub(crate) fn processor() -> Processor {
    Processor { name: "AMD Ryzen 7 5800H, 16 threads".to_owned(), memory_bytes: Some(16 << 30) }
}

/// An NVIDIA card as the CUDA driver describes it, 4 GiB, usable.
pub(crate) fn cuda_card(name: &str, pci: &str, capability: (u32, u32)) -> CudaDevice {
    CudaDevice {
        name: name.to_owned(),
        memory_bytes: Some(4 << 30),
        compute_capability: Some(capability),
        integrated: false,
        pci_address: pci.parse().ok(),
        uuid: None,
        compiler: None,
        problem: None,
        warning: None,
    }
}

/// An adapter as wgpu describes it, memory unknown. `id` is the PCI vendor and device number; an empty `pci` is
/// no address.
pub(crate) fn adapter(api: Api, kind: AdapterKind, name: &str, id: (u32, u32), pci: &str, driver: &str) -> Adapter {
    Adapter {
        name: name.to_owned(),
        api,
        kind,
        vendor: id.0,
        device: id.1,
        pci_address: pci.parse().ok(),
        driver: driver.to_owned(),
        driver_info: String::new(),
        memory_bytes: None,
        spirv: Some(true),
        limits: None,
    }
}

/// The CUDA half of a machine.
pub(crate) fn cuda_listing(devices: Vec<CudaDevice>) -> cuda::Listing {
    cuda::Listing {
        library: "libcuda.so.1".into(),
        driver_version: Some(CudaVersion { major: 12, minor: 4 }),
        driver_release: Some("550.90.07".to_owned()),
        finding: devices.is_empty().then(|| "no NVIDIA driver (libcuda.so.1 is not installed)".to_owned()),
        devices,
        init_code: None,
    }
}

/// What the case called `name` expects, from the folder `KILN_CASES_DIR`; without it, `None`, said aloud.
#[expect(clippy::print_stderr, reason = "whoever runs the tests is to see that one did nothing")]
pub(crate) fn expectation(name: &str) -> Option<serde_json::Value> {
    let Some(cases) = std::env::var_os("KILN_CASES_DIR").filter(|value| !value.is_empty()) else {
        assert!(std::env::var_os("KILN_REQUIRE_CASES").is_none(), "KILN_CASES_DIR is not set");
        eprintln!("skipped: KILN_CASES_DIR is not set");
        return None;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut script = std::process::Command::new("python3");
    script.arg(std::path::Path::new(&cases).join("gen_env.py")).arg(folder.path());
    let made = script.env("PYTHONDONTWRITEBYTECODE", "1").output().expect("python3 starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = std::fs::read_to_string(folder.path().join(name).join("expected.json")).expect("the expectation");
    Some(serde_json::from_str(&text).expect("JSON"))
}

/// A machine with these cards and adapters.
pub(crate) fn machine(cuda: Vec<CudaDevice>, adapters: Vec<Adapter>) -> Inventory {
    let wgpu = wgpu::Listing { finding: adapters.is_empty().then(|| "no Vulkan driver".to_owned()), adapters };
    join(&[], &[], &cuda_listing(cuda), &wgpu, &processor())
}
