//! What the CUDA driver lists, asked by our own `dlopen`.
//!
//! In: `libcuda.so.1` / `nvcuda.dll`, which the NVIDIA driver installs (the CUDA toolkit doesn't contain it).
//! Out: a [`Listing`]: driver version, one [`CudaDevice`] per card in the driver's order, or the sentence that
//! says why there is none. A missing, empty, truncated, foreign, outdated or hanging library is such a
//! sentence. `cudarc`, which burn uses, panics in all those cases; nothing here lets it be the first to touch
//! the driver. Source: CUDA driver API reference, sections "Initialization", "Version Management" and "Device
//! Management". Not done here: contexts or memory; asking creates none, so nothing is allocated on the card.

use std::{
    ffi::{CStr, c_char, c_int, c_uint},
    path::{Path, PathBuf},
    time::Duration,
};

use libloading::Library;
use serde::{Deserialize, Serialize};

use super::{
    Problem, bus,
    load::{LoadError, load},
    pci::PciAddress,
    probe,
};
use crate::nvrtc::Installation;

/// How long the driver may take. Waking a sleeping laptop GPU takes 1–3 s.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// The oldest driver that loads what CUDA 12's compiler produces (NVIDIA's minor-version compatibility: any
/// 12.x toolkit on any driver from 525 on).
pub(crate) const OLDEST_DRIVER: CudaVersion = CudaVersion { major: 12, minor: 0 };

/// A CUDA version, of a driver or a toolkit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct CudaVersion {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl CudaVersion {
    /// From the driver's number, 1000 × major + 10 × minor.
    pub(crate) fn from_driver_number(number: c_int) -> Self {
        let number = number.unsigned_abs();
        Self { major: number / 1000, minor: number % 1000 / 10 }
    }
}

impl std::fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What the CUDA driver answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// The library that answered, as it was opened.
    pub(crate) library: PathBuf,
    /// Newest CUDA version the driver supports.
    pub(crate) driver_version: Option<CudaVersion>,
    /// The driver's own version, such as 550.90.07, where the kernel module says it.
    pub(crate) driver_release: Option<String>,
    /// The cards, in the driver's order.
    pub(crate) devices: Vec<CudaDevice>,
    /// Why there are none, or what is wrong with those there are.
    pub(crate) finding: Option<String>,
    /// What `cuInit` returned, if it was reached and failed.
    #[serde(default)]
    pub(crate) init_code: Option<c_int>,
}

impl Listing {
    /// A listing that holds nothing but the reason why.
    pub(crate) fn failed(finding: impl Into<String>) -> Self {
        Self { finding: Some(finding.into()), ..Self::default() }
    }
}

/// One card as the CUDA driver describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CudaDevice {
    pub(crate) name: String,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) compute_capability: Option<(u32, u32)>,
    pub(crate) integrated: bool,
    pub(crate) pci_address: Option<PciAddress>,
    pub(crate) uuid: Option<String>,
    // The rest is filled in once the run-time compiler has been looked for.
    /// The compiler to use.
    pub(crate) compiler: Option<Installation>,
    /// Why the card can't be used over CUDA.
    pub(crate) problem: Option<Problem>,
    /// What keeps it from its best speed.
    pub(crate) warning: Option<String>,
}

/// Asks the driver, from a child process or a thread, within a deadline. Empty in a build without CUDA.
pub(crate) fn listing(deadline: Duration) -> Listing {
    if !cfg!(feature = "cuda") {
        return Listing::failed("this build has no CUDA support (Cargo feature `cuda`)");
    }
    probe::ask(probe::Question::Cuda, deadline, &[], ask_driver).unwrap_or_else(Listing::failed)
}

/// Asks the driver where it is usually found.
pub(crate) fn ask_driver() -> Listing {
    ask_first_of(&usual_libraries(cfg!(windows)))
}

/// Where the driver's library is looked for: by name first, which follows the loader's own search, then in the
/// folders that some systems leave out of it. `libcuda.so` without a number comes last: the toolkit has a stub
/// of that name.
fn usual_libraries(on_windows: bool) -> Vec<PathBuf> {
    let names: &[&str] = if on_windows {
        &["nvcuda.dll", "C:\\Windows\\System32\\nvcuda.dll"]
    } else {
        &[
            "libcuda.so.1",
            "/usr/lib/wsl/lib/libcuda.so.1",
            "/usr/lib64/libcuda.so.1",
            "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
            "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
            "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1",
            "/run/opengl-driver/lib/libcuda.so.1",
            "libcuda.so",
        ]
    };
    names.iter().map(PathBuf::from).collect()
}

/// Asks the first of `libraries` that loads.
pub(crate) fn ask_first_of(libraries: &[PathBuf]) -> Listing {
    let mut broken = None;
    for path in libraries {
        match load(path) {
            Ok(library) => return ask_library(&library, path),
            Err(LoadError::Absent) => {}
            Err(LoadError::Broken(text)) => {
                broken.get_or_insert(text);
            }
        }
    }
    Listing::failed(match broken {
        Some(text) => format!("the NVIDIA driver's library can't be loaded ({text}); reinstall the driver"),
        None => {
            let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
            format!("no NVIDIA driver ({name} is not installed)")
        }
    })
}

// CUdevice_attribute, from cuda.h.
const INTEGRATED: c_int = 18;
const PCI_BUS: c_int = 33;
const PCI_DEVICE: c_int = 34;
const PCI_DOMAIN: c_int = 50;
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;

/// The driver's functions we call; loading checks that each exists.
struct Driver<'lib> {
    init: libloading::Symbol<'lib, unsafe extern "system" fn(c_uint) -> c_int>,
    version: libloading::Symbol<'lib, unsafe extern "system" fn(*mut c_int) -> c_int>,
    count: libloading::Symbol<'lib, unsafe extern "system" fn(*mut c_int) -> c_int>,
    device: libloading::Symbol<'lib, unsafe extern "system" fn(*mut c_int, c_int) -> c_int>,
    name: libloading::Symbol<'lib, unsafe extern "system" fn(*mut c_char, c_int, c_int) -> c_int>,
    memory: libloading::Symbol<'lib, unsafe extern "system" fn(*mut usize, c_int) -> c_int>,
    attribute: libloading::Symbol<'lib, unsafe extern "system" fn(*mut c_int, c_int, c_int) -> c_int>,
    uuid: libloading::Symbol<'lib, unsafe extern "system" fn(*mut [u8; 16], c_int) -> c_int>,
}

impl<'lib> Driver<'lib> {
    fn of(library: &'lib Library) -> Result<Self, String> {
        // SAFETY: the signatures are those of cuda.h, which never changed for these names.
        #[expect(unsafe_code, reason = "a symbol's type can't be checked")]
        unsafe {
            Ok(Self {
                init: symbol(library, c"cuInit")?,
                version: symbol(library, c"cuDriverGetVersion")?,
                count: symbol(library, c"cuDeviceGetCount")?,
                device: symbol(library, c"cuDeviceGet")?,
                name: symbol(library, c"cuDeviceGetName")?,
                memory: symbol(library, c"cuDeviceTotalMem_v2")?,
                attribute: symbol(library, c"cuDeviceGetAttribute")?,
                uuid: symbol(library, c"cuDeviceGetUuid")?,
            })
        }
    }
}

/// # Safety
/// `T` must be the type of the function `name`.
#[expect(unsafe_code, reason = "a symbol's type can't be checked")]
unsafe fn symbol<'lib, T>(library: &'lib Library, name: &CStr) -> Result<libloading::Symbol<'lib, T>, String> {
    // SAFETY: the caller's promise.
    unsafe { library.get(name.to_bytes_with_nul()) }
        .map_err(|_| format!("the NVIDIA driver is too old or damaged: its library lacks {}", name.to_string_lossy()))
}

fn ask_library(library: &Library, path: &Path) -> Listing {
    let mut listing = Listing {
        library: path.to_owned(),
        driver_release: bus::nvidia_module_version(Path::new("/")),
        ..Listing::default()
    };
    let driver = match Driver::of(library) {
        Ok(driver) => driver,
        Err(finding) => {
            listing.finding = Some(finding);
            return listing;
        }
    };
    listing.driver_version = number(|out| call(&driver.version, out)).map(CudaVersion::from_driver_number);
    // SAFETY: cuInit takes flags, which must be 0.
    #[expect(unsafe_code, reason = "a call into the driver")]
    let code = unsafe { (driver.init)(0) };
    if code != 0 {
        listing.init_code = Some(code);
        listing.finding = Some(init_failure(code, hidden_by().as_deref()));
        return listing;
    }
    let num_devices = number(|out| call(&driver.count, out)).unwrap_or(0);
    listing.devices = (0..num_devices).filter_map(|index| describe(&driver, index)).collect();
    if listing.devices.is_empty() {
        listing.finding = Some(match hidden_by() {
            Some(value) => hidden(&value),
            None => "the NVIDIA driver lists no GPU".to_owned(),
        });
    }
    listing
}

fn describe(driver: &Driver<'_>, index: c_int) -> Option<CudaDevice> {
    let mut device = 0;
    // SAFETY: writes one int.
    #[expect(unsafe_code, reason = "a call into the driver")]
    let code = unsafe { (driver.device)(&mut device, index) };
    if code != 0 {
        return None;
    }
    let attribute = |which| {
        // SAFETY: writes one int.
        #[expect(unsafe_code, reason = "a call into the driver")]
        number(|out| unsafe { (driver.attribute)(out, which, device) }).and_then(|value| u32::try_from(value).ok())
    };
    Some(CudaDevice {
        name: name(driver, device),
        memory_bytes: memory_bytes(driver, device),
        compute_capability: attribute(CAPABILITY_MAJOR).zip(attribute(CAPABILITY_MINOR)),
        integrated: attribute(INTEGRATED) == Some(1),
        pci_address: pci_address(attribute(PCI_DOMAIN), attribute(PCI_BUS), attribute(PCI_DEVICE)),
        uuid: uuid(driver, device),
        compiler: None,
        problem: None,
        warning: None,
    })
}

fn name(driver: &Driver<'_>, device: c_int) -> String {
    let mut buffer = [0_u8; 256];
    let length = buffer.len() as c_int;
    // SAFETY: writes at most `length` bytes.
    #[expect(unsafe_code, reason = "a call into the driver")]
    let code = unsafe { (driver.name)(buffer.as_mut_ptr().cast(), length, device) };
    match CStr::from_bytes_until_nul(&buffer) {
        Ok(name) if code == 0 && !name.is_empty() => name.to_string_lossy().into_owned(),
        _ => "NVIDIA GPU".to_owned(),
    }
}

fn memory_bytes(driver: &Driver<'_>, device: c_int) -> Option<u64> {
    let mut bytes = 0_usize;
    // SAFETY: writes one usize.
    #[expect(unsafe_code, reason = "a call into the driver")]
    let code = unsafe { (driver.memory)(&mut bytes, device) };
    (code == 0).then_some(bytes as u64)
}

fn pci_address(domain: Option<u32>, bus: Option<u32>, device: Option<u32>) -> Option<PciAddress> {
    Some(PciAddress { domain: domain?, bus: bus?.try_into().ok()?, device: device?.try_into().ok()?, function: 0 })
}

/// The identifier as `nvidia-smi` prints it. Any of the 16 bytes may be 0.
fn uuid(driver: &Driver<'_>, device: c_int) -> Option<String> {
    let mut bytes = [0_u8; 16];
    // SAFETY: writes 16 bytes.
    #[expect(unsafe_code, reason = "a call into the driver")]
    let code = unsafe { (driver.uuid)(&mut bytes, device) };
    if code != 0 {
        return None;
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

fn call(function: &unsafe extern "system" fn(*mut c_int) -> c_int, out: *mut c_int) -> c_int {
    // SAFETY: every caller passes a pointer to one int, which the function writes.
    #[expect(unsafe_code, reason = "a call into the driver")]
    unsafe {
        function(out)
    }
}

/// What a call that reports an int wrote, unless it failed.
fn number(call: impl FnOnce(*mut c_int) -> c_int) -> Option<c_int> {
    let mut value = 0;
    (call(&mut value) == 0).then_some(value)
}

/// The variable by which a user hides cards from CUDA, if it is set.
fn hidden_by() -> Option<String> {
    std::env::var("CUDA_VISIBLE_DEVICES").ok()
}

/// What a failed `cuInit` means. Codes: `CUresult` in cuda.h.
fn init_failure(code: c_int, hidden_by: Option<&str>) -> String {
    let meaning = match code {
        34 => "the library found is the toolkit's stub; remove the folder lib64/stubs from LD_LIBRARY_PATH",
        100 => match hidden_by {
            Some(value) => return hidden(value),
            None => "the NVIDIA driver finds no GPU",
        },
        101 => "invalid device",
        802 => "the GPU is not ready; on servers with NVSwitch the service nvidia-fabricmanager must run",
        803 => {
            "the driver's library and its kernel module differ in version; restart the machine after a driver update"
        }
        804 => "the library comes from a forward-compatibility package this GPU doesn't support",
        999 => {
            "the driver failed, often after suspend; run `sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm`, or restart"
        }
        _ => "the NVIDIA driver failed to start",
    };
    format!("{meaning} (cuInit returned {code})")
}

/// The finding for a variable that leaves no card.
fn hidden(value: &str) -> String {
    format!("every NVIDIA GPU is hidden by CUDA_VISIBLE_DEVICES=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_library_is_no_driver() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let listing = ask_first_of(&[folder.path().join("libcuda.so.1")]);
        assert!(listing.devices.is_empty());
        let finding = listing.finding.expect("a finding");
        assert!(finding.starts_with("no NVIDIA driver"), "{finding}");
    }

    #[test]
    fn each_system_has_its_own_places() {
        assert!(usual_libraries(true).iter().all(|path| path.to_string_lossy().ends_with("nvcuda.dll")));
        let linux = usual_libraries(false);
        // Under WSL the library lies where no loader looks by itself.
        assert!(linux.contains(&PathBuf::from("/usr/lib/wsl/lib/libcuda.so.1")), "{linux:?}");
        assert_eq!(linux.last(), Some(&PathBuf::from("libcuda.so")), "a toolkit's stub has that name");
    }

    #[test]
    fn empty_truncated_and_foreign_libraries_are_findings() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("libcuda.so.1");
        let truncated_elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0";
        for contents in [&b""[..], b"this is a text file\n", truncated_elf] {
            std::fs::write(&path, contents).expect("a written file");
            let listing = ask_first_of(std::slice::from_ref(&path));
            assert!(listing.devices.is_empty());
            let finding = listing.finding.expect("a finding");
            assert!(finding.contains("can't be loaded"), "{finding}");
            assert!(finding.contains("libcuda.so.1"), "{finding}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_the_functions_is_too_old() {
        // The C library loads and has no cuInit.
        let listing = ask_first_of(&[PathBuf::from("libc.so.6")]);
        let finding = listing.finding.expect("a finding");
        assert!(finding.contains("lacks cuInit"), "{finding}");
    }

    #[test]
    fn driver_numbers_are_versions() {
        let version = CudaVersion::from_driver_number(12_040);
        assert_eq!(version.to_string(), "12.4");
        assert!(CudaVersion::from_driver_number(11_080) < OLDEST_DRIVER);
        assert!(CudaVersion::from_driver_number(13_000) > version);
    }

    #[test]
    fn init_failures_name_the_cause() {
        assert!(init_failure(803, None).contains("differ in version"));
        assert!(init_failure(100, None).contains("finds no GPU"));
        assert!(init_failure(100, Some("")).contains("hidden by CUDA_VISIBLE_DEVICES=\"\""));
        assert!(init_failure(12_345, None).contains("returned 12345"));
    }
}
