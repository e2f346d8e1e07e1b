//! Reads the golden numbers that PyTorch made, and rebuilds the weights and images they were made from.
//!
//! In: the folder `KILN_GOLDEN_DIR`, or the subset in `tests/golden`; everything a test needs to know (salt,
//! image tag, sizes, tolerances) stands in its `manifest.json`. Out: f64 values, and inputs by the folder's
//! formulas: an integer hash, one multiply-add in f64, one rounding, so the same bits everywhere.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use crate::{Arch, ResNet, State};

/// A folder of golden numbers.
pub(crate) struct Golden {
    folder: PathBuf,
    manifest: Value,
}

/// A golden tensor, row-major.
pub(crate) struct Numbers {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

impl Numbers {
    /// Row `index` of a matrix.
    pub(crate) fn row(&self, index: usize) -> &[f64] {
        self.values.chunks(self.shape[1]).nth(index).expect("a row per name")
    }
}

impl Golden {
    pub(crate) fn open() -> Self {
        let subset = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let folder = std::env::var_os("KILN_GOLDEN_DIR").map_or(subset, PathBuf::from);
        let text = std::fs::read_to_string(folder.join("manifest.json")).expect("a manifest");
        let manifest = serde_json::from_str(&text).expect("a manifest in JSON");
        Self { folder, manifest }
    }

    /// Names of the files that begin with `prefix`.
    pub(crate) fn files(&self, prefix: &str) -> Vec<String> {
        let files = self.manifest["files"].as_object().expect("a table of files");
        files.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    /// What the manifest says about a file.
    pub(crate) fn entry(&self, file: &str) -> &Value {
        let entry = &self.manifest["files"][file];
        assert!(entry.is_object(), "{file} isn't in the manifest");
        entry
    }

    /// Names and entries of a file's runs that `wanted` accepts.
    pub(crate) fn runs(&self, file: &str, wanted: impl Fn(&str) -> bool) -> Vec<(String, Value)> {
        let runs = self.entry(file)["runs"].as_object().expect("a table of runs");
        let runs = runs.iter().filter(|(name, _)| wanted(name));
        runs.map(|(name, run)| (name.clone(), run.clone())).collect()
    }

    /// Where a file of the folder is.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    pub(crate) fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder.join(file)).expect("a text file")
    }

    pub(crate) fn tensors(&self, file: &str) -> HashMap<String, Numbers> {
        let bytes = std::fs::read(self.folder.join(file)).expect("a file");
        let tensors = SafeTensors::deserialize(&bytes).expect("safetensors");
        let read = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
            let bytes = view.data();
            let values = match view.dtype() {
                Dtype::F64 => bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect(),
                Dtype::F32 => bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b).into()).collect(),
                other => panic!("{name} is of type {other}"),
            };
            (name.to_string(), Numbers { shape: view.shape().to_vec(), values })
        };
        tensors.iter().map(read).collect()
    }
}

/// The text a manifest quotes after `marker`: `'…'`.
pub(crate) fn quoted_after<'a>(text: &'a str, marker: &str) -> &'a str {
    let rest = after(text, marker);
    let rest = &rest[rest.find('\'').expect("an opening quote") + 1..];
    &rest[..rest.find('\'').expect("a closing quote")]
}

/// The number that follows `marker`.
pub(crate) fn number_after(text: &str, marker: &str) -> f64 {
    let rest = after(text, marker).trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && !".e-".contains(c)).unwrap_or(rest.len());
    let number = rest[..end].trim_end_matches(['.', '-', 'e']);
    number.parse().unwrap_or_else(|_| panic!("no number after {marker:?} in {text:?}"))
}

fn after<'a>(text: &'a str, marker: &str) -> &'a str {
    let at = text.find(marker).unwrap_or_else(|| panic!("no {marker:?} in {text:?}"));
    &text[at + marker.len()..]
}

/// A string field of a manifest entry.
pub(crate) fn text_of<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_else(|| panic!("no text {key:?} in {entry}"))
}

/// A number field of a manifest entry.
pub(crate) fn number_of(entry: &Value, key: &str) -> f64 {
    entry[key].as_f64().unwrap_or_else(|| panic!("no number {key:?} in {entry}"))
}

/// A list of names in a manifest entry.
pub(crate) fn names_of(entry: &Value, key: &str) -> Vec<String> {
    let names = entry[key].as_array().unwrap_or_else(|| panic!("no list {key:?} in {entry}"));
    names.iter().map(|name| name.as_str().expect("a name").to_string()).collect()
}

/// The model a golden name means; timm's are marked by a prefix.
pub(crate) fn arch_of(name: &str) -> Arch {
    name.trim_start_matches("timm_").parse().expect("a known architecture")
}

pub(crate) fn fnv1a32(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

pub(crate) fn fmix32(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85EB_CA6B);
    x = (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35);
    x ^ (x >> 16)
}

/// Hash number `index` of the sequence that starts at `start = fnv1a32(name)`.
fn hash(start: u32, index: u32) -> u32 {
    fmix32(start.wrapping_add(index.wrapping_mul(0x9E37_79B1)))
}

/// `f32(offset + scale * s(name, i))` for the first `len` indices, `s` in [-1, 1).
fn numbers(name: &str, len: usize, scale: f64, offset: f64) -> Vec<f32> {
    let start = fnv1a32(name);
    let s = |i: u32| f64::from(hash(start, i) >> 8) * (1.0 / f64::from(1 << 23)) - 1.0;
    (0..len as u32).map(|i| (offset + scale * s(i)) as f32).collect()
}

/// The formula's value of the state entry `name`.
pub(crate) fn param(name: &str, shape: &[usize], salt: &str) -> TensorData {
    if name.ends_with("num_batches_tracked") {
        return TensorData::new(vec![0i64], shape);
    }
    let fan_in: usize = shape.iter().skip(1).product();
    let (scale, offset) = match name {
        _ if name.ends_with("running_mean") => (0.1, 0.0),
        _ if name.ends_with("running_var") => (0.5, 1.0),
        _ if shape.len() >= 2 => ((3.0 / fan_in as f64).sqrt(), 0.0),
        _ if name.ends_with("bn3.weight") => (0.0625, 0.25),
        _ if name.ends_with(".weight") => (0.25, 1.0),
        _ if name.ends_with(".bias") => (0.1, 0.0),
        _ => panic!("the formula has no rule for {name}"),
    };
    let values = numbers(&format!("{salt}{name}"), shape.iter().product(), scale, offset);
    TensorData::new(values, shape)
}

/// The formula's state for a model.
pub(crate) fn formula_state(model: &ResNet, salt: &str) -> State {
    let entries = model.state_entries().into_iter();
    entries.map(|entry| (entry.name.clone(), param(&entry.name, &entry.shape, salt))).collect()
}

/// Image `index` of the sequence `tag`: u8, `[height, width, 3]`.
pub(crate) fn image_u8(tag: &str, index: usize, height: usize, width: usize) -> Vec<u8> {
    const CHANNELS: usize = 3;
    let noise = fnv1a32(&format!("{tag}:{index}"));
    let grid = fnv1a32(&format!("{tag}:{index}:grid"));
    let mut pixels = Vec::with_capacity(height * width * CHANNELS);
    for y in 0..height {
        for x in 0..width {
            for c in 0..CHANNELS {
                let a = (x * (3 + c) + y * (5 - c) + 37 * c + 61 * index) % 512;
                let triangle = a.min(511 - a) as u32;
                let fine = hash(noise, ((y * width + x) * CHANNELS + c) as u32) >> 24;
                let cell = (y * 5 / height * 5 + x * 5 / width) * CHANNELS + c;
                let coarse = hash(grid, cell as u32) >> 24;
                pixels.push(((4 * coarse + triangle + 3 * fine) >> 3) as u8);
            }
        }
    }
    pixels
}

/// A network input of `batch` images from `first` on: `[batch, 3, height, width]`.
pub(crate) fn net_input(tag: &str, [batch, height, width]: [usize; 3], first: usize, device: &Device) -> Tensor<4> {
    let mut values = Vec::with_capacity(batch * 3 * height * width);
    for index in first..first + batch {
        let image = image_u8(tag, index, height, width);
        for channel in 0..3 {
            let plane = image.iter().skip(channel).step_by(3);
            values.extend(plane.map(|&v| (f32::from(v) - 127.5) / 64.0));
        }
    }
    Tensor::from_data(TensorData::new(values, [batch, 3, height, width]), device)
}

/// Labels by the manifest's text, such as `((n0+8*t+k)*317+11)%10`, of `batch` images from `first` on.
pub(crate) fn labels(formula: &str, batch: usize, first: usize) -> Vec<usize> {
    let factor = number_after(formula, ")*") as usize;
    let offset = number_after(after(formula, ")*"), "+") as usize;
    let classes = number_after(formula, "%") as usize;
    (first..first + batch).map(|image| (image * factor + offset) % classes).collect()
}

/// Mean, population deviation, l2 norm, sum, sum of magnitudes, smallest, largest.
pub(crate) fn stats(values: &[f64]) -> [f64; 7] {
    let count = values.len() as f64;
    let sum: f64 = values.iter().sum();
    let mean = sum / count;
    let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt();
    let l2 = values.iter().map(|v| v * v).sum::<f64>().sqrt();
    let magnitudes = values.iter().map(|v| v.abs()).sum();
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [mean, deviation, l2, sum, magnitudes, smallest, largest]
}

/// `count` values at even strides, padded with zeros.
pub(crate) fn slice(values: &[f64], count: usize) -> Vec<f64> {
    let stride = if values.len() >= count { values.len() / count } else { 1 };
    (0..count).map(|j| values.get(j * stride).copied().unwrap_or(0.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors() -> Value {
        serde_json::from_str(&Golden::open().text("formula.json")).expect("JSON")
    }

    fn table<'a>(vectors: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
        vectors[key].as_object().expect("a table").iter()
    }

    #[test]
    fn hashes_equal_their_test_vectors() {
        let vectors = vectors();
        for (text, expected) in table(&vectors, "fnv1a32") {
            assert_eq!(Some(u64::from(fnv1a32(text))), expected.as_u64(), "{text}");
        }
        for (number, expected) in table(&vectors, "fmix32") {
            let number: u32 = number.parse().expect("a number");
            assert_eq!(Some(u64::from(fmix32(number))), expected.as_u64(), "{number}");
        }
        for (name, expected) in table(&vectors, "hash_u32") {
            for (index, expected) in expected.as_array().expect("a list").iter().enumerate() {
                let found = hash(fnv1a32(name), index as u32);
                assert_eq!(Some(u64::from(found)), expected.as_u64(), "{name} {index}");
            }
        }
    }

    #[test]
    fn parameters_equal_their_test_vectors_to_the_bit() {
        let vectors = vectors();
        for (name, bits) in table(&vectors, "param_f32_bits_hex") {
            let bits = bits.as_array().expect("a list");
            // Shapes of ResNet-18, whose fan-in decides the scale.
            let shape: &[usize] = match name.as_str() {
                "conv1.weight" => &[64, 3, 7, 7],
                "fc.weight" => &[1000, 512],
                _ => &[64],
            };
            let found: Vec<f32> = param(name, shape, "").iter().collect();
            for (index, bits) in bits.iter().enumerate() {
                let bits = bits.as_str().expect("hexadecimal digits");
                assert_eq!(format!("{:08x}", found[index].to_bits()), bits, "{name} {index}");
            }
        }
        for (name, expected) in table(&vectors, "param").filter(|(name, _)| name.contains("bn")) {
            let found: Vec<f32> = param(name, &[512], "").iter().collect();
            for (index, expected) in expected.as_array().expect("a list").iter().enumerate() {
                let expected = expected.as_f64().expect("a number") as f32;
                assert_eq!(found[index], expected, "{name} {index}");
            }
        }
    }

    #[test]
    fn images_equal_their_test_vectors() {
        let vectors = vectors();
        for (key, expected) in table(&vectors, "image_u8") {
            // A key reads "imgA n0=4 1x37x53x3".
            let (tag, first) = (key.split(' ').next().expect("a tag"), number_after(key, "n0="));
            let [count, height, width, _] = sizes(key.rsplit(' ').next().expect("sizes"));
            let pixels: Vec<u8> =
                (0..count).flat_map(|index| image_u8(tag, first as usize + index, height, width)).collect();
            let sum: u64 = pixels.iter().map(|&v| u64::from(v)).sum();
            assert_eq!(Some(sum), expected["sum"].as_u64(), "{key}");
            assert_eq!(serde_json::json!(pixels[..12]), expected["first12"], "{key}");
        }
        let device = kiln_device::cpu();
        for (key, expected) in table(&vectors, "net_input") {
            let tag = key.split(' ').next().expect("a tag");
            let [count, _, height, width] = sizes(key.rsplit(' ').next().expect("sizes"));
            let input = net_input(tag, [count, height, width], 0, &device).into_data();
            let values: Vec<f64> = input.iter().collect();
            assert_eq!(Some(values.iter().sum::<f64>()), expected["sum"].as_f64(), "{key}");
            assert_eq!(serde_json::json!(values[..6]), expected["first6"], "{key}");
        }
    }

    #[test]
    fn manifest_phrases_are_read() {
        assert_eq!(quoted_after("formula_init salt='x y'", "salt="), "x y");
        assert_eq!(quoted_after("step t: net_input('imgB',8,64)", "net_input("), "imgB");
        assert_eq!(number_after("logits: |err| <= 2e-5*max", "<="), 2e-5);
        assert_eq!(labels("((n0+8*t+k)*317+11)%10", 2, 3), [962 % 10, 1279 % 10]);
        assert_eq!(slice(&[1., 2., 3., 4., 5.], 2), [1., 3.]);
        assert_eq!(slice(&[1.], 3), [1., 0., 0.]);
    }

    fn sizes<const N: usize>(text: &str) -> [usize; N] {
        let sizes: Vec<usize> = text.split('x').map(|n| n.parse().expect("a size")).collect();
        sizes.try_into().expect("that many sizes")
    }
}
