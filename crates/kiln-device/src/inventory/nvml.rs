//! NVIDIA's management library, by our own `dlopen`: what the monitor reads and the doctor asks.
//!
//! In: `libnvidia-ml.so.1` / `nvml.dll`, which comes with the driver. Out: [`Nvml`], whose questions give
//! `Err(code)` for everything a card can't tell (laptops lack fans and power meters). Each question tries the
//! newest function first and older names after it: NVIDIA renames them (temperature and throttle reasons in
//! 13.0). Source: NVML API reference, `nvml.h`. `nvmlInit` wakes a sleeping card and keeps it awake: whoever
//! calls [`Nvml::open`] has looked at the power state first. Dropping it ends that.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void},
    path::{Path, PathBuf},
    ptr,
};

use libloading::Library;
use serde::{Deserialize, Serialize};

use super::{
    load::{LoadError, load},
    pci::PciAddress,
};

/// NVML's return code.
pub(crate) type Code = c_int;

pub(crate) const NOT_SUPPORTED: Code = 3;
pub(crate) const NO_PERMISSION: Code = 4;
pub(crate) const LIBRARY_MISSING: Code = 12;
pub(crate) const FUNCTION_MISSING: Code = 13;
pub(crate) const GPU_LOST: Code = 15;
pub(crate) const VERSION_MISMATCH: Code = 18;
const DEPRECATED: Code = 26;

/// Ours, for a library that is there and doesn't load.
pub(crate) const LIBRARY_BROKEN: Code = -1;

/// A card, as NVML hands it out.
#[derive(Clone, Copy)]
pub(crate) struct Handle(*mut c_void);

// SAFETY: the pointer is only ever given back to NVML, which may be called from any thread.
#[expect(unsafe_code, reason = "the monitor samples from a thread of its own")]
unsafe impl Send for Handle {}

/// The loaded and started library.
pub(crate) struct Nvml {
    library: Library,
}

/// Why there is no NVML.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// NVML's code, or one of ours.
    pub(crate) code: Code,
    /// What it means.
    pub(crate) text: String,
}

/// A process that computes on a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GpuProcess {
    /// Its number.
    pub pid: u32,
    /// Its program's name, where the system tells.
    pub name: Option<String>,
    /// Memory it holds on the card, MiB.
    pub mem_mib: Option<u64>,
}

impl Nvml {
    /// Loads and starts the library. Wakes sleeping cards.
    ///
    /// # Errors
    /// The library is missing or broken, or the driver doesn't answer it.
    pub(crate) fn open() -> Result<Self, Failure> {
        let nvml = Self { library: load_nvml()? };
        type Init = unsafe extern "C" fn() -> Code;
        let init = nvml.function::<Init>(c"nvmlInit_v2").or_else(|_| nvml.function::<Init>(c"nvmlInit"));
        let code = match init {
            // SAFETY: no arguments.
            #[expect(unsafe_code, reason = "a call into the driver")]
            Ok(init) => unsafe { init() },
            Err(code) => code,
        };
        if code == 0 { Ok(nvml) } else { Err(Failure { code, text: meaning(code) }) }
    }

    /// Version of the driver, such as 550.90.07.
    pub(crate) fn driver_version(&self) -> Option<String> {
        type Get = unsafe extern "C" fn(*mut c_char, c_uint) -> Code;
        let get = self.function::<Get>(c"nvmlSystemGetDriverVersion").ok()?;
        // SAFETY: writes at most as many bytes as it is told.
        #[expect(unsafe_code, reason = "a call into the driver")]
        string(|buffer, length| unsafe { get(buffer, length) })
    }

    /// Newest CUDA version of the driver, 1000 × major + 10 × minor.
    pub(crate) fn cuda_version(&self) -> Option<c_int> {
        type Get = unsafe extern "C" fn(*mut c_int) -> Code;
        let names = [c"nvmlSystemGetCudaDriverVersion_v2", c"nvmlSystemGetCudaDriverVersion"];
        first(names, |name| {
            let get = self.function::<Get>(name)?;
            let mut version = 0;
            // SAFETY: writes one int.
            #[expect(unsafe_code, reason = "a call into the driver")]
            checked(unsafe { get(&mut version) }, version)
        })
        .ok()
    }

    /// All cards, in the order of their PCI addresses. `CUDA_VISIBLE_DEVICES` hides none of them.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        type Count = unsafe extern "C" fn(*mut c_uint) -> Code;
        type ByIndex = unsafe extern "C" fn(c_uint, *mut *mut c_void) -> Code;
        let (Ok(count), Ok(by_index)) = (
            self.function::<Count>(c"nvmlDeviceGetCount_v2"),
            self.function::<ByIndex>(c"nvmlDeviceGetHandleByIndex_v2"),
        ) else {
            return Vec::new();
        };
        let mut num: c_uint = 0;
        // SAFETY: writes one int.
        #[expect(unsafe_code, reason = "a call into the driver")]
        let code = unsafe { count(&mut num) };
        let num = if code == 0 { num } else { 0 };
        (0..num)
            .filter_map(|index| {
                let mut handle = ptr::null_mut();
                // SAFETY: writes one pointer.
                #[expect(unsafe_code, reason = "a call into the driver")]
                let code = unsafe { by_index(index, &mut handle) };
                (code == 0).then_some(Handle(handle))
            })
            .collect()
    }

    /// The first of `names` that the library has and that isn't withdrawn: a question with one number as answer.
    pub(crate) fn number<const N: usize>(&self, card: Handle, names: [&CStr; N]) -> Result<c_uint, Code> {
        type Get = unsafe extern "C" fn(*mut c_void, *mut c_uint) -> Code;
        first(names, |name| {
            let get = self.function::<Get>(name)?;
            let mut value = 0;
            // SAFETY: every name given here takes a card and writes one unsigned int.
            #[expect(unsafe_code, reason = "a call into the driver")]
            checked(unsafe { get(card.0, &mut value) }, value)
        })
    }

    /// As [`Self::number`] for a question about one of several kinds (a clock, a counter, a threshold).
    pub(crate) fn number_of(&self, card: Handle, name: &CStr, kind: c_uint) -> Result<c_uint, Code> {
        type Get = unsafe extern "C" fn(*mut c_void, c_uint, *mut c_uint) -> Code;
        let get = self.function::<Get>(name)?;
        let mut value = 0;
        // SAFETY: every name given here takes a card and an enum, and writes one unsigned int.
        #[expect(unsafe_code, reason = "a call into the driver")]
        checked(unsafe { get(card.0, kind, &mut value) }, value)
    }

    /// Why the clocks are lowered, as bits.
    pub(crate) fn throttle_bits(&self, card: Handle) -> Result<u64, Code> {
        type Get = unsafe extern "C" fn(*mut c_void, *mut c_ulonglong) -> Code;
        let names = [c"nvmlDeviceGetCurrentClocksEventReasons", c"nvmlDeviceGetCurrentClocksThrottleReasons"];
        first(names, |name| {
            let get = self.function::<Get>(name)?;
            let mut bits = 0;
            // SAFETY: writes one 64-bit number.
            #[expect(unsafe_code, reason = "a call into the driver")]
            checked(unsafe { get(card.0, &mut bits) }, bits)
        })
    }

    /// Temperature, °C.
    pub(crate) fn temperature(&self, card: Handle) -> Result<i32, Code> {
        #[repr(C)]
        struct Temperature {
            version: c_uint,
            sensor: c_int,
            celsius: c_int,
        }
        type Get = unsafe extern "C" fn(*mut c_void, *mut Temperature) -> Code;
        let new = self.function::<Get>(c"nvmlDeviceGetTemperatureV").and_then(|get| {
            let mut value = Temperature { version: version_of::<Temperature>(1), sensor: 0, celsius: 0 };
            // SAFETY: reads and writes one such struct, whose version says its size.
            #[expect(unsafe_code, reason = "a call into the driver")]
            checked(unsafe { get(card.0, &mut value) }, value.celsius)
        });
        new.or_else(|_| Ok(self.number_of(card, c"nvmlDeviceGetTemperature", 0)?.cast_signed()))
    }

    /// Used and total memory, bytes.
    pub(crate) fn memory(&self, card: Handle) -> Result<(u64, u64), Code> {
        #[repr(C)]
        struct New {
            version: c_uint,
            total: c_ulonglong,
            reserved: c_ulonglong,
            free: c_ulonglong,
            used: c_ulonglong,
        }
        #[repr(C)]
        struct Old {
            total: c_ulonglong,
            free: c_ulonglong,
            used: c_ulonglong,
        }
        type GetNew = unsafe extern "C" fn(*mut c_void, *mut New) -> Code;
        type GetOld = unsafe extern "C" fn(*mut c_void, *mut Old) -> Code;
        let new = self.function::<GetNew>(c"nvmlDeviceGetMemoryInfo_v2").and_then(|get| {
            let mut value = New { version: version_of::<New>(2), total: 0, reserved: 0, free: 0, used: 0 };
            // SAFETY: reads and writes one such struct, whose version says its size.
            #[expect(unsafe_code, reason = "a call into the driver")]
            checked(unsafe { get(card.0, &mut value) }, (value.used, value.total))
        });
        new.or_else(|_| {
            let get = self.function::<GetOld>(c"nvmlDeviceGetMemoryInfo")?;
            let mut value = Old { total: 0, free: 0, used: 0 };
            // SAFETY: writes one such struct.
            #[expect(unsafe_code, reason = "a call into the driver")]
            checked(unsafe { get(card.0, &mut value) }, (value.used, value.total))
        })
    }

    /// Shares of the last sample period in which kernels ran, and in which memory was accessed, percent.
    pub(crate) fn utilisation(&self, card: Handle) -> Result<(u32, u32), Code> {
        #[repr(C)]
        struct Rates {
            gpu: c_uint,
            memory: c_uint,
        }
        type Get = unsafe extern "C" fn(*mut c_void, *mut Rates) -> Code;
        let get = self.function::<Get>(c"nvmlDeviceGetUtilizationRates")?;
        let mut rates = Rates { gpu: 0, memory: 0 };
        // SAFETY: writes one such struct.
        #[expect(unsafe_code, reason = "a call into the driver")]
        checked(unsafe { get(card.0, &mut rates) }, (rates.gpu, rates.memory))
    }

    /// The card's name.
    pub(crate) fn name(&self, card: Handle) -> Option<String> {
        self.string(card, c"nvmlDeviceGetName")
    }

    /// The card's identifier, `GPU-...`.
    pub(crate) fn uuid(&self, card: Handle) -> Option<String> {
        self.string(card, c"nvmlDeviceGetUUID")
    }

    fn string(&self, card: Handle, name: &CStr) -> Option<String> {
        type Get = unsafe extern "C" fn(*mut c_void, *mut c_char, c_uint) -> Code;
        let get = self.function::<Get>(name).ok()?;
        // SAFETY: writes at most as many bytes as it is told.
        #[expect(unsafe_code, reason = "a call into the driver")]
        string(|buffer, length| unsafe { get(card.0, buffer, length) })
    }

    /// The card's address: what joins it to the other sources.
    pub(crate) fn pci_address(&self, card: Handle) -> Option<PciAddress> {
        #[repr(C)]
        struct Pci {
            legacy: [u8; 16],
            numbers: [c_uint; 5],
            bus_id: [u8; 32],
        }
        type Get = unsafe extern "C" fn(*mut c_void, *mut Pci) -> Code;
        let names = [c"nvmlDeviceGetPciInfo_v3", c"nvmlDeviceGetPciInfo_v2"];
        let bus_id = first(names, |name| {
            let get = self.function::<Get>(name)?;
            let mut pci = Pci { legacy: [0; 16], numbers: [0; 5], bus_id: [0; 32] };
            // SAFETY: writes one such struct.
            #[expect(unsafe_code, reason = "a call into the driver")]
            checked(unsafe { get(card.0, &mut pci) }, pci.bus_id)
        });
        CStr::from_bytes_until_nul(&bus_id.ok()?).ok()?.to_str().ok()?.parse().ok()
    }

    /// The processes that compute on the card.
    pub(crate) fn processes(&self, card: Handle) -> Result<Vec<GpuProcess>, Code> {
        const MOST: usize = 64;
        #[repr(C)]
        #[derive(Clone, Copy)]
        struct Info {
            pid: c_uint,
            memory: c_ulonglong,
            instances: [c_uint; 2],
        }
        type Get = unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut Info) -> Code;
        let get = self.function::<Get>(c"nvmlDeviceGetComputeRunningProcesses_v3")?;
        let mut infos = [Info { pid: 0, memory: 0, instances: [0; 2] }; MOST];
        let mut count = MOST as c_uint;
        // SAFETY: writes at most `count` structs.
        #[expect(unsafe_code, reason = "a call into the driver")]
        checked(unsafe { get(card.0, &mut count, infos.as_mut_ptr()) }, ())?;
        // The driver writes all ones where it doesn't know, as on Windows.
        let known = |bytes: u64| (bytes != u64::MAX).then_some(bytes >> 20);
        let found = infos.iter().take(count as usize);
        Ok(found.map(|i| GpuProcess { pid: i.pid, name: process_name(i.pid), mem_mib: known(i.memory) }).collect())
    }

    fn function<T>(&self, name: &CStr) -> Result<libloading::Symbol<'_, T>, Code> {
        // SAFETY: every caller names the type that nvml.h gives to the function.
        #[expect(unsafe_code, reason = "a symbol's type can't be checked")]
        unsafe { self.library.get(name.to_bytes_with_nul()) }.map_err(|_| FUNCTION_MISSING)
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        type Shutdown = unsafe extern "C" fn() -> Code;
        if let Ok(shutdown) = self.function::<Shutdown>(c"nvmlShutdown") {
            // SAFETY: no arguments; no handle outlives this value's user.
            #[expect(unsafe_code, reason = "a call into the driver")]
            unsafe {
                shutdown();
            }
        }
    }
}

fn load_nvml() -> Result<Library, Failure> {
    let mut broken = None;
    for candidate in candidates(cfg!(windows)) {
        match load(Path::new(candidate)) {
            Ok(library) => return Ok(library),
            Err(LoadError::Absent) => {}
            Err(LoadError::Broken(text)) => {
                broken.get_or_insert(text);
            }
        }
    }
    Err(match broken {
        Some(text) => Failure { code: LIBRARY_BROKEN, text: format!("its library can't be loaded ({text})") },
        None => Failure { code: LIBRARY_MISSING, text: meaning(LIBRARY_MISSING) },
    })
}

/// Where the library is looked for. Windows' drivers before 2016 put it into a folder of their own.
fn candidates(on_windows: bool) -> &'static [&'static str] {
    if on_windows {
        &["nvml.dll", "C:\\Windows\\System32\\nvml.dll", "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvml.dll"]
    } else {
        &["libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1", "/run/opengl-driver/lib/libnvidia-ml.so.1"]
    }
}

/// What a code means, for a person.
pub(crate) fn meaning(code: Code) -> String {
    let text = match code {
        NOT_SUPPORTED => "not supported",
        NO_PERMISSION => "no permission",
        9 => "the NVIDIA kernel driver is not loaded",
        LIBRARY_MISSING => "NVIDIA's management library (libnvidia-ml.so.1, nvml.dll) is not installed",
        FUNCTION_MISSING => "the library lacks a function",
        GPU_LOST => "GPU is lost",
        VERSION_MISMATCH => "the driver's library and its kernel module differ in version",
        _ => return format!("error {code}"),
    };
    text.to_owned()
}

fn checked<T>(code: Code, value: T) -> Result<T, Code> {
    if code == 0 { Ok(value) } else { Err(code) }
}

/// The answer of the first function that exists and isn't withdrawn.
fn first<T, const N: usize>(names: [&CStr; N], ask: impl Fn(&CStr) -> Result<T, Code>) -> Result<T, Code> {
    let mut answer = Err(FUNCTION_MISSING);
    for name in names {
        answer = ask(name);
        if !matches!(answer, Err(FUNCTION_MISSING | DEPRECATED)) {
            break;
        }
    }
    answer
}

fn string(get: impl Fn(*mut c_char, c_uint) -> Code) -> Option<String> {
    let mut buffer = [0_u8; 96];
    let length = buffer.len() as c_uint;
    if get(buffer.as_mut_ptr().cast(), length) != 0 {
        return None;
    }
    let text = CStr::from_bytes_until_nul(&buffer).ok()?.to_string_lossy().into_owned();
    (!text.is_empty()).then_some(text)
}

/// NVML's version tag of a struct: its size and a number.
const fn version_of<T>(number: c_uint) -> c_uint {
    size_of::<T>() as c_uint | number << 24
}

fn process_name(pid: u32) -> Option<String> {
    super::bus::text(&PathBuf::from(format!("/proc/{pid}/comm")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_withdrawn_function_leaves_the_question_to_the_older_one() {
        let names = [c"new", c"old"];
        let ask = |code| move |name: &CStr| if name == c"new" { Err(code) } else { Ok(1) };
        assert_eq!(first(names, ask(DEPRECATED)), Ok(1));
        assert_eq!(first(names, ask(FUNCTION_MISSING)), Ok(1));
        // "Not supported" is the card's answer, and the older function would say the same.
        assert_eq!(first(names, ask(NOT_SUPPORTED)), Err(NOT_SUPPORTED));
    }

    #[test]
    fn versions_of_structs_are_those_of_nvml() {
        #[repr(C)]
        struct Memory(c_uint, [c_ulonglong; 4]);
        assert_eq!(version_of::<Memory>(2), 0x0200_0028);
        assert_eq!(version_of::<[c_uint; 3]>(1), 0x0100_000c);
    }
}
