//! Finds and prepares what burn's CUDA backend compiles kernels with: the NVRTC library and the CUDA headers.
//!
//! The NVIDIA driver contains neither. They come with the CUDA toolkit, a conda environment, or a few
//! `nvidia-*` wheels in a Python (which PyTorch brings along); [`places`] looks in all of these without running
//! anything. Out: an [`Installation`] that fits the driver and the card, or the [`Problem`] with one `pip
//! install` line as remedy. [`prepare`] then makes burn use exactly that one: it loads the library by its full
//! path, and points `CUDA_PATH` to its headers.
//!
//! What has to fit: NVRTC's version must not exceed the driver's (the driver refuses newer PTX, error 222), and
//! NVRTC must know the card's compute capability; it is asked (`nvrtcGetSupportedArchs`), since every release
//! adds and drops some. `mma.h` needs `crt/mma.h`, which NVIDIA keeps in a wheel of its own; without it kernels
//! for tensor cores don't compile, and matrix products fall back to slower ones.

// A build without CUDA looks for the compiler all the same, so that the search is tested everywhere; only using
// it is left out.
#[cfg(all(any(feature = "cuda", test), target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
mod alias;
#[cfg(any(feature = "cuda", test))]
mod headers;
mod places;
#[cfg(feature = "cuda")]
mod prepare;

use std::{
    ffi::c_int,
    path::{Path, PathBuf},
    time::Duration,
};

use libloading::Library;
use serde::{Deserialize, Serialize};

use self::places::{Found, Places};
#[cfg(feature = "cuda")]
pub(crate) use self::prepare::prepare;
use crate::inventory::{
    Problem,
    cuda::{CudaDevice, CudaVersion, Listing, OLDEST_DRIVER},
    probe,
};

/// The major version of NVRTC that cudarc can find by name, where that is limited to one.
///
/// cudarc derives the names it tries from the CUDA version its bindings are made for: `CUDARC_CUDA_VERSION`
/// when it was compiled, else the newest it knows. On Linux [`alias`] offers it the right library whatever its
/// version.
const LOADABLE_MAJOR: Option<u32> = if cfg!(target_os = "linux") {
    None
} else {
    match option_env!("CUDARC_CUDA_VERSION") {
        Some(version) if version.as_bytes()[1] == b'2' => Some(12),
        _ => Some(13),
    }
};

/// An NVRTC library with headers, and what it can do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Installation {
    /// The library's full path.
    pub(crate) library: PathBuf,
    /// Its version.
    pub(crate) version: CudaVersion,
    /// Compute capabilities it compiles for, as 10 × major + minor. Empty if it can't say.
    pub(crate) architectures: Vec<u32>,
    /// Folders of headers that belong to it.
    pub(crate) includes: Vec<PathBuf>,
}

impl Installation {
    fn has_header(&self, name: &str) -> bool {
        self.includes.iter().any(|folder| folder.join(name).exists())
    }

    fn has_headers(&self) -> bool {
        self.has_header("cuda_runtime.h") && self.has_header("cuda_fp16.h")
    }

    /// Headers that cubecl's fastest kernels for a card of `capability` include and that are not there.
    fn missing_headers(&self, capability: Option<(u32, u32)>) -> Vec<&'static str> {
        // Tensor cores came with 7.0, the copy engine (TMA) that `cuda/barrier` is for with 9.0.
        let mut missing = Vec::new();
        if capability >= Some((7, 0)) && !self.has_header("crt/mma.h") {
            missing.push("crt/mma.h");
        }
        if capability >= Some((9, 0)) && !self.has_header("cuda/barrier") && !self.has_header("cccl/cuda/barrier") {
            missing.push("cuda/barrier");
        }
        missing
    }

    /// One line for listings: version and path.
    pub(crate) fn describe(&self) -> String {
        format!("NVRTC {} ({})", self.version, self.library.display())
    }
}

/// What the search for compilers found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Compilers {
    /// Those that load.
    pub(crate) installations: Vec<Installation>,
    /// Sentences about those that don't.
    pub(crate) broken: Vec<String>,
}

/// Loads every compiler found and asks what it is.
pub(crate) fn installed() -> Compilers {
    let (installations, broken) = inspect_all(Places::of_this_process().installations());
    Compilers { installations, broken }
}

/// As [`installed`], asked from a child process or a thread within a deadline.
pub(crate) fn compilers(deadline: Duration) -> Compilers {
    probe::ask(probe::Question::Compilers, deadline, &[], installed).unwrap_or_else(|reason| Compilers {
        installations: Vec::new(),
        broken: vec![format!("looking for NVRTC failed: {reason}")],
    })
}

/// Fills in, for every card, the compiler to use or the problem that there is none.
pub(crate) fn find_problems(listing: &mut Listing, compilers: &Compilers) {
    let Compilers { installations, broken } = compilers;
    let driver = listing.driver_version;
    for device in &mut listing.devices {
        match pick(installations, broken, driver, device) {
            Ok(installation) => {
                device.warning = header_warning(&installation, driver, device);
                device.compiler = Some(installation);
            }
            Err(problem) => device.problem = Some(problem),
        }
    }
}

/// Loads each library found and asks what it is; those that don't load come back as sentences.
fn inspect_all(found: Vec<Found>) -> (Vec<Installation>, Vec<String>) {
    let mut installations = Vec::new();
    let mut broken = Vec::new();
    for Found { library, includes } in found {
        match inspect(&library) {
            Ok((version, architectures)) => {
                installations.push(Installation { library, version, architectures, includes })
            }
            Err(reason) => broken.push(format!("{} does not load ({reason})", library.display())),
        }
    }
    (installations, broken)
}

/// Version and architectures of the NVRTC library at `path`.
fn inspect(path: &Path) -> Result<(CudaVersion, Vec<u32>), String> {
    type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    type Count = unsafe extern "C" fn(*mut c_int) -> c_int;
    type List = unsafe extern "C" fn(*mut c_int) -> c_int;
    // SAFETY: NVRTC's initialisers only set up its own memory; the signatures are those of nvrtc.h, and the
    // list is as long as the count says.
    #[expect(unsafe_code, reason = "asking a shared library runs code in it")]
    unsafe {
        let library = Library::new(path).map_err(|error| {
            std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
        })?;
        let version = library.get::<Version>(b"nvrtcVersion\0").map_err(|_| "it is not NVRTC".to_owned())?;
        let (mut major, mut minor) = (0, 0);
        if version(&mut major, &mut minor) != 0 {
            return Err("it doesn't tell its version".to_owned());
        }
        let mut architectures = Vec::new();
        // Since NVRTC 11.2.
        if let (Ok(count), Ok(list)) =
            (library.get::<Count>(b"nvrtcGetNumSupportedArchs\0"), library.get::<List>(b"nvrtcGetSupportedArchs\0"))
        {
            let mut num = 0;
            if count(&mut num) == 0 {
                architectures = vec![0; usize::try_from(num).unwrap_or(0)];
                list(architectures.as_mut_ptr());
            }
        }
        Ok((
            CudaVersion { major: major.unsigned_abs(), minor: minor.unsigned_abs() },
            architectures.into_iter().map(c_int::unsigned_abs).collect(),
        ))
    }
}

/// The installation to use for `device`: the first that fits, one that can use tensor cores before one that
/// can't.
fn pick(
    installations: &[Installation],
    broken: &[String],
    driver: Option<CudaVersion>,
    device: &CudaDevice,
) -> Result<Installation, Problem> {
    if let Some(version) = driver.filter(|version| *version < OLDEST_DRIVER) {
        return Err(Problem::new(format!("its driver supports CUDA {version}, and Kiln needs {OLDEST_DRIVER}"))
            .with_remedy("install NVIDIA driver 525.60.13 or newer (Windows: 527.41), 580 or newer for CUDA 13"));
    }
    let mut unfit: Vec<String> = Vec::new();
    let mut fitting: Vec<&Installation> = Vec::new();
    for installation in installations {
        match misfit(installation, driver, device.compute_capability) {
            None => fitting.push(installation),
            Some(reason) => unfit.push(format!("{} {reason}", installation.describe())),
        }
    }
    fitting.sort_by_key(|installation| installation.missing_headers(device.compute_capability).len());
    if let Some(best) = fitting.first() {
        return Ok((*best).clone());
    }
    unfit.extend_from_slice(broken);
    let reason = if unfit.is_empty() {
        "CUDA's run-time compiler (NVRTC) is not installed; the driver alone can't compile kernels".to_owned()
    } else {
        format!("no usable run-time compiler for CUDA (NVRTC): {}", unfit.join("; "))
    };
    Err(Problem::new(reason).with_remedy(remedy(driver, device.compute_capability)))
}

/// Why `installation` can't compile for a card of `capability` under `driver`, if it can't.
fn misfit(installation: &Installation, driver: Option<CudaVersion>, capability: Option<(u32, u32)>) -> Option<String> {
    if let Some(driver) = driver.filter(|driver| installation.version > *driver) {
        return Some(format!("is newer than the driver (CUDA {driver})"));
    }
    if let Some((major, minor)) = capability
        && !installation.architectures.is_empty()
        && !installation.architectures.contains(&(10 * major + minor))
    {
        return Some(format!("does not know compute capability {major}.{minor}"));
    }
    if let Some(major) = LOADABLE_MAJOR.filter(|major| installation.version.major != *major) {
        return Some(format!("is not the CUDA {major} this program can load"));
    }
    (!installation.has_headers()).then(|| "lacks the CUDA headers (cuda_runtime.h)".to_owned())
}

fn header_warning(installation: &Installation, driver: Option<CudaVersion>, device: &CudaDevice) -> Option<String> {
    let missing = installation.missing_headers(device.compute_capability);
    (!missing.is_empty()).then(|| {
        format!(
            "CUDA: the kernels for tensor cores can't be compiled, because {} is not among the headers; to get them: {}",
            missing.join(" or "),
            remedy(driver, device.compute_capability)
        )
    })
}

/// One line that installs a compiler fitting the driver and the card.
pub(crate) fn remedy(driver: Option<CudaVersion>, capability: Option<(u32, u32)>) -> String {
    // CUDA 12 compiles for everything from Maxwell to Blackwell; what came after is CUDA 13's alone.
    let new_card =
        capability.is_some_and(|capability| capability > (12, 1) || [(8, 8), (10, 7), (11, 0)].contains(&capability));
    let (major, suffix, headers) =
        if new_card { (13, "", "nvidia-cuda-crt") } else { (12, "-cu12", "nvidia-cuda-nvcc") };
    // Wheels newer than the driver don't work; a driver of a later major takes them all.
    let bound = match driver {
        Some(driver) if driver.major == major && !(major == 12 && driver.minor >= 9) => {
            format!("<{major}.{}", driver.minor + 1)
        }
        _ => String::new(),
    };
    let barriers = capability.is_none_or(|capability| capability >= (9, 0));
    ["nvidia-cuda-nvrtc", "nvidia-cuda-runtime", headers]
        .into_iter()
        .chain(barriers.then_some("nvidia-cuda-cccl"))
        .fold("pip install".to_owned(), |line, wheel| {
            if bound.is_empty() {
                format!("{line} {wheel}{suffix}")
            } else {
                format!("{line} \"{wheel}{suffix}{bound}\"")
            }
        })
}

#[cfg(test)]
mod tests;
