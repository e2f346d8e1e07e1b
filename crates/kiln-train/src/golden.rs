//! Reads the golden numbers that tests compare against; compiled for tests only.
//!
//! In: `KILN_GOLDEN_DIR`, or the small subset in `tests/golden` when it isn't set. Out: entries of the folder's
//! `manifest.json`, its tables and tensors, and inputs rebuilt from the folder's portable formulas.
//! Source: `formula.py` of the golden set, whose hash and roundings are followed to the bit.

use safetensors::SafeTensors;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// One folder of golden numbers.
pub(crate) struct Golden {
    folder: PathBuf,
    manifest: Value,
}

impl Golden {
    pub(crate) fn open() -> Self {
        let subset = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let folder = std::env::var_os("KILN_GOLDEN_DIR").map_or(subset, PathBuf::from);
        let text = std::fs::read_to_string(folder.join("manifest.json"))
            .unwrap_or_else(|error| panic!("manifest.json in {}: {error}", folder.display()));
        let manifest = serde_json::from_str(&text).expect("a JSON manifest");
        Self { folder, manifest }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the manifest says of `file`; `None` if the folder doesn't have it.
    pub(crate) fn entry(&self, file: &str) -> Option<&Value> {
        self.manifest["files"].get(file)
    }

    pub(crate) fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder.join(file)).expect("a file the manifest names")
    }

    pub(crate) fn bytes(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.folder.join(file)).expect("a file the manifest names")
    }

    /// Salt of parameter names and tag of images, from the manifest's `formula` line.
    pub(crate) fn formula(&self) -> (String, String) {
        let line = self.manifest["formula"].as_str().expect("a formula line");
        let quoted = |key: &str| {
            let rest = line.split_once(key).unwrap_or_else(|| panic!("{key} in {line:?}")).1;
            rest.split('\'').nth(1).expect("a quoted value").to_owned()
        };
        (quoted("salt="), quoted("tag="))
    }
}

/// `(relative, absolute)` of a tolerance such as `rel 1e-6, abs 1e-12`.
pub(crate) fn tolerances(text: &str) -> (f64, f64) {
    let after = |key: &str| {
        let rest = text.split_once(key)?.1.trim_start();
        rest.split([',', ' ', ';']).next()?.parse().ok()
    };
    (after("rel").unwrap_or(0.0), after("abs").unwrap_or(0.0))
}

/// A tensor of a safetensors file as f64, row-major.
pub(crate) fn tensor_f64(file: &SafeTensors<'_>, name: &str) -> Vec<f64> {
    let view = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let data = view.data();
    match view.dtype() {
        safetensors::Dtype::F64 => {
            data.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("8 bytes"))).collect()
        }
        safetensors::Dtype::F32 => {
            let number = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("4 bytes"));
            data.chunks_exact(4).map(|b| f64::from(number(b))).collect()
        }
        safetensors::Dtype::I64 => {
            let number = |b: &[u8]| i64::from_le_bytes(b.try_into().expect("8 bytes"));
            data.chunks_exact(8).map(|b| number(b) as f64).collect()
        }
        other => panic!("{name} is {other:?}"),
    }
}

fn fnv1a32(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn fmix32(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85EB_CA6B);
    x = (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35);
    x ^ (x >> 16)
}

fn hash_u32(name_hash: u32, index: usize) -> u32 {
    fmix32((index as u32).wrapping_mul(0x9E37_79B1).wrapping_add(name_hash))
}

/// `offset + scale * s(name, i)` for `i` below `len`, rounded once to f32.
pub(crate) fn tens(name: &str, len: usize, scale: f64, offset: f64) -> Vec<f32> {
    let name = fnv1a32(name);
    let s = |i| f64::from(hash_u32(name, i) >> 8) * f64::powi(2.0, -23) - 1.0;
    (0..len).map(|i| (offset + scale * s(i)) as f32).collect()
}

/// The value of the state-dict entry `name`.
pub(crate) fn parameter(salt: &str, name: &str, shape: &[usize]) -> Vec<f32> {
    let len = shape.iter().product();
    let hashed = format!("{salt}{name}");
    let (scale, offset) = if name.ends_with("running_mean") {
        (0.1, 0.0)
    } else if name.ends_with("running_var") {
        (0.5, 1.0)
    } else if shape.len() >= 2 {
        let fan_in: usize = shape[1..].iter().product();
        ((3.0 / fan_in as f64).sqrt(), 0.0)
    } else if name.ends_with("bn3.weight") {
        (0.0625, 0.25)
    } else if name.ends_with(".weight") {
        (0.25, 1.0)
    } else {
        (0.1, 0.0)
    };
    tens(&hashed, len, scale, offset)
}

/// `[n, 3, size, size]` of images `first..first + n` of `tag`, `(byte - 127.5) / 64`.
pub(crate) fn net_input(tag: &str, first: usize, n: usize, size: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(n * 3 * size * size);
    for image in first..first + n {
        let noise = fnv1a32(&format!("{tag}:{image}"));
        let grid = fnv1a32(&format!("{tag}:{image}:grid"));
        for channel in 0..3 {
            for y in 0..size {
                for x in 0..size {
                    let a = (x * (3 + channel) + y * (5 - channel) + 37 * channel + 61 * image) % 512;
                    let triangle = if a < 256 { a } else { 511 - a } as u32;
                    let b = hash_u32(noise, (y * size + x) * 3 + channel) >> 24;
                    let cell = ((y * 5 / size) * 5 + x * 5 / size) * 3 + channel;
                    let g = hash_u32(grid, cell) >> 24;
                    let byte = ((4 * g + triangle + 3 * b) >> 3) as u8;
                    out.push((f32::from(byte) - 127.5) / 64.0);
                }
            }
        }
    }
    out
}

/// Labels of images `first..first + n`.
pub(crate) fn labels(first: usize, n: usize, classes: usize) -> Vec<i64> {
    (first..first + n).map(|image| ((image * 317 + 11) % classes) as i64).collect()
}
