//! What a person asks for: the grammar of `--device` and of the environment variable `KILN_DEVICE`.
//!
//! In: text such as `auto`, `cuda`, `cuda:1`, `wgpu:0`, `wgpu:software`, `cpu`. Out: a [`DeviceRequest`], or
//! [`DeviceError::UnknownName`] listing what is valid and the nearest name.
//! Not done here: whether the machine has such a device; that is [`choose`](crate::choose)'s question.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::DeviceError;

/// Name of the environment variable [`DeviceRequest::from_env`] reads.
pub const DEVICE_VARIABLE: &str = "KILN_DEVICE";

/// Which device to use; prints and parses as the text of `--device`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceRequest {
    /// The best usable device, software Vulkan excepted. Falls back to the next one, and says why.
    #[default]
    Auto,
    /// An NVIDIA GPU over CUDA: the n-th in the driver's order, or the first usable one.
    Cuda(Option<usize>),
    /// A GPU over Vulkan, DirectX 12 or Metal: the n-th in Kiln's list, or the best one.
    Wgpu(Option<usize>),
    /// A software Vulkan driver such as llvmpipe. Slower than [`Self::Cpu`]; for tests and comparisons.
    WgpuSoftware,
    /// The native CPU backend.
    Cpu,
}

impl DeviceRequest {
    /// Reads `KILN_DEVICE`; unset or blank is `None`.
    ///
    /// # Errors
    /// [`DeviceError::UnknownName`] if the variable is set to something that isn't a device name.
    pub fn from_env() -> Result<Option<Self>, DeviceError> {
        match std::env::var_os(DEVICE_VARIABLE) {
            Some(value) if !value.to_string_lossy().trim().is_empty() => value.to_string_lossy().parse().map(Some),
            _ => Ok(None),
        }
    }
}

impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Cuda(None) => f.pad("cuda"),
            Self::Cuda(Some(index)) => f.pad(&format!("cuda:{index}")),
            Self::Wgpu(None) => f.pad("wgpu"),
            Self::Wgpu(Some(index)) => f.pad(&format!("wgpu:{index}")),
            Self::WgpuSoftware => f.pad("wgpu:software"),
            Self::Cpu => f.pad("cpu"),
        }
    }
}

impl FromStr for DeviceRequest {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.trim().to_ascii_lowercase();
        let index = |digits: &str| {
            // `parse` alone would take "+1".
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten()
        };
        match name.split_once(':') {
            None => match name.as_str() {
                "auto" => return Ok(Self::Auto),
                "cuda" => return Ok(Self::Cuda(None)),
                "wgpu" => return Ok(Self::Wgpu(None)),
                "cpu" => return Ok(Self::Cpu),
                _ => {}
            },
            Some(("wgpu", "software")) => return Ok(Self::WgpuSoftware),
            Some(("cuda", digits)) => {
                if let Some(index) = index(digits) {
                    return Ok(Self::Cuda(Some(index)));
                }
            }
            Some(("wgpu", digits)) => {
                if let Some(index) = index(digits) {
                    return Ok(Self::Wgpu(Some(index)));
                }
            }
            Some(_) => {}
        }
        Err(DeviceError::UnknownName { name: text.to_owned(), nearest: nearest_name(&name) })
    }
}

impl Serialize for DeviceRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Words people bring from other programs, and what they mean here.
const OTHER_WORDS: [(&str, &str); 14] = [
    ("gpu", "auto"),
    ("best", "auto"),
    ("nvidia", "cuda"),
    ("gpu:0", "cuda:0"),
    ("vulkan", "wgpu"),
    ("metal", "wgpu"),
    ("mps", "wgpu"),
    ("dx12", "wgpu"),
    ("amd", "wgpu"),
    ("rocm", "wgpu"),
    ("intel", "wgpu"),
    ("llvmpipe", "wgpu:software"),
    ("software", "wgpu:software"),
    ("flex", "cpu"),
];

/// The valid name closest to `name`, if any is close enough to be what was meant.
fn nearest_name(name: &str) -> Option<&'static str> {
    const NAMES: [&str; 7] = ["auto", "cuda", "cuda:0", "wgpu", "wgpu:0", "wgpu:software", "cpu"];
    if let Some((_, meant)) = OTHER_WORDS.iter().find(|(word, _)| *word == name) {
        return Some(meant);
    }
    NAMES
        .into_iter()
        .map(|valid| (strsim::levenshtein(name, valid), valid))
        // One letter in three may be wrong, three at most; a transposition counts as two.
        .filter(|(distance, valid)| *distance <= valid.len().div_ceil(3).min(3))
        .min()
        .map(|(_, valid)| valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_prints_as_it_parses() {
        for text in ["auto", "cuda", "cuda:0", "cuda:11", "wgpu", "wgpu:3", "wgpu:software", "cpu"] {
            let request: DeviceRequest = text.parse().expect("a valid name");
            assert_eq!(request.to_string(), text);
            let json = serde_json::to_string(&request).expect("a string");
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<DeviceRequest>(&json).expect("the same string"), request);
        }
    }

    #[test]
    fn case_and_surrounding_space_are_forgiven() {
        assert_eq!(" CUDA:1 ".parse::<DeviceRequest>().expect("valid"), DeviceRequest::Cuda(Some(1)));
        assert_eq!("Wgpu:Software".parse::<DeviceRequest>().expect("valid"), DeviceRequest::WgpuSoftware);
    }

    #[test]
    fn a_wrong_name_lists_the_valid_ones_and_suggests_the_nearest() {
        let error = "cudda".parse::<DeviceRequest>().expect_err("not a name");
        let text = error.to_string();
        assert!(text.contains("did you mean \"cuda\""), "{text}");
        assert!(text.contains("wgpu:software"), "{text}");
        assert!(text.contains("\"cudda\""), "{text}");
    }

    #[test]
    fn suggestions_cover_typing_errors_and_words_of_other_programs() {
        for (typed, meant) in [
            ("cdua:0", Some("cuda:0")),
            ("wgup", Some("wgpu")),
            ("wgpu:sofware", Some("wgpu:software")),
            ("cpuu", Some("cpu")),
            ("gpu", Some("auto")),
            ("nvidia", Some("cuda")),
            ("mps", Some("wgpu")),
            ("llvmpipe", Some("wgpu:software")),
            ("", None),
            ("tpu", Some("cpu")),
            ("banana", None),
        ] {
            assert_eq!(nearest_name(typed), meant, "{typed:?}");
        }
    }

    #[test]
    fn malformed_indices_are_errors() {
        for text in [
            "cuda:",
            "cuda:-1",
            "cuda:+1",
            "cuda:one",
            "cuda:0:1",
            "wgpu:1.5",
            "cpu:0",
            "auto:1",
            "cuda:99999999999999999999999",
            ":",
        ] {
            assert!(text.parse::<DeviceRequest>().is_err(), "{text:?}");
        }
    }
}
