//! Weights as safetensors files.
//!
//! In and out: a state (torchvision's names and layout) and string metadata. A file carries the model's
//! configuration in its metadata, so it can be rebuilt from the file alone; torchvision's and timm's
//! `load_state_dict(strict=True)` take it as it is.
//! Source: the safetensors format, <https://github.com/huggingface/safetensors>, through its own crate for
//! reading. The header is written here, because the crate's writer puts the metadata in random order and
//! the same weights should give the same bytes.
//! Not done here: files of other programs (`weights_file.rs`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use burn::tensor::{DType, TensorData, bf16, f16};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{Arch, ModelError, ResNet, ResNetConfig, State};

/// String metadata of a file.
pub type Metadata = BTreeMap<String, String>;

/// Key of the metadata under which the whole [`ResNetConfig`] stands as JSON.
const CONFIG_KEY: &str = "kiln.config";

/// Writes a model's weights, and its configuration beside `metadata`, to a file.
///
/// The file appears whole or not at all: it is written under another name in the same folder, synced, then
/// renamed.
///
/// # Errors
/// [`ModelError::WriteFile`].
pub fn save_safetensors(path: &Path, model: &ResNet, metadata: &Metadata) -> Result<(), ModelError> {
    let mut metadata = metadata.clone();
    metadata.extend(model.config().to_metadata());
    let bytes = safetensors_from_state(&model.state(), &metadata)?;
    replace_file(path, &bytes).map_err(|source| ModelError::WriteFile { path: path.to_path_buf(), source })
}

/// Reads every tensor and the metadata of a file.
///
/// # Errors
/// [`ModelError::ReadFile`], [`ModelError::MalformedFile`] or [`ModelError::UnsupportedDtype`], each naming
/// the file.
pub fn load_safetensors(path: &Path) -> Result<(State, Metadata), ModelError> {
    let read_error = |source| ModelError::ReadFile { path: path.to_path_buf(), source };
    let bytes = fs::read(path).map_err(read_error)?;
    state_from_safetensors(&bytes, &path.display().to_string())
}

/// The bytes of a safetensors file with these tensors and this metadata.
///
/// The same input gives the same bytes. Tensors lie in the given order, those of eight bytes per value
/// first, so that every one is aligned.
///
/// # Errors
/// [`ModelError::Encode`] for a tensor of a data type that no model here holds.
pub fn safetensors_from_state(state: &[(String, TensorData)], metadata: &Metadata) -> Result<Vec<u8>, ModelError> {
    let mut ordered: Vec<&(String, TensorData)> = state.iter().collect();
    ordered.sort_by_key(|(_, value)| std::cmp::Reverse(value.dtype().size()));

    let mut entries = vec![format!("\"__metadata__\":{}", json(metadata)?)];
    let mut end = 0;
    for (name, value) in &ordered {
        let begin = end;
        end += value.as_bytes().len();
        let (dtype, shape) = (dtype_name(name, value.dtype())?, value.shape().as_slice());
        entries.push(format!(
            "{}:{{\"dtype\":\"{dtype}\",\"shape\":{},\"data_offsets\":[{begin},{end}]}}",
            json(name)?,
            json(&shape)?,
        ));
    }
    let mut header = format!("{{{}}}", entries.join(","));
    let padding = header.len().next_multiple_of(8) - header.len();
    header.push_str(&" ".repeat(padding));

    let mut bytes = Vec::with_capacity(8 + header.len() + end);
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend(header.as_bytes());
    for (_, value) in ordered {
        bytes.extend(value.as_bytes());
    }
    Ok(bytes)
}

/// Reads every tensor and the metadata from the bytes of a safetensors file; `file` names them in errors.
///
/// Sizes are checked against the bytes that are there before anything is allocated for them.
///
/// # Errors
/// [`ModelError::MalformedFile`] or [`ModelError::UnsupportedDtype`].
pub fn state_from_safetensors(bytes: &[u8], file: &str) -> Result<(State, Metadata), ModelError> {
    let malformed = |source| ModelError::MalformedFile { file: file.to_string(), source };
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(malformed)?;
    let metadata = header.metadata().clone().unwrap_or_default().into_iter().collect();
    let tensors = SafeTensors::deserialize(bytes).map_err(malformed)?;
    let state = tensors.iter().map(|(name, view)| match tensor_data(&view) {
        Some(data) => Ok((name.to_string(), data)),
        None => Err(ModelError::UnsupportedDtype {
            file: file.to_string(),
            tensor: name.to_string(),
            dtype: view.dtype().to_string(),
        }),
    });
    Ok((state.collect::<Result<State, _>>()?, metadata))
}

impl ResNetConfig {
    /// What a weights file says about its model: `format`, `arch`, `num_classes` for other programs, and the
    /// whole configuration for [`from_metadata`](Self::from_metadata).
    pub fn to_metadata(&self) -> Metadata {
        let config = serde_json::to_string(self).expect("plain fields always make JSON");
        [
            // `transformers` refuses a safetensors file that doesn't say which framework it is for.
            ("format", "pt".to_string()),
            ("arch", self.arch.to_string()),
            ("num_classes", self.num_classes.to_string()),
            (CONFIG_KEY, config),
        ]
        .map(|(key, value)| (key.to_string(), value))
        .into()
    }

    /// The configuration that a weights file's metadata describes.
    ///
    /// # Errors
    /// [`ModelError::Metadata`] if the file wasn't written by Kiln or says neither `arch` nor the whole
    /// configuration; [`ModelError::UnknownArch`] or [`ModelError::InvalidConfig`] if it says nonsense.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, ModelError> {
        let problem = |reason: String| ModelError::Metadata { reason };
        let config = if let Some(json) = metadata.get(CONFIG_KEY) {
            serde_json::from_str(json).map_err(|error| problem(format!("{CONFIG_KEY}: {error}")))?
        } else {
            let arch = metadata.get("arch").ok_or_else(|| problem("no \"arch\" in it".into()))?;
            let mut config = ResNetConfig::new(arch.parse::<Arch>()?);
            if let Some(classes) = metadata.get("num_classes") {
                config.num_classes =
                    classes.parse().map_err(|error| problem(format!("num_classes {classes:?}: {error}")))?;
            }
            config
        };
        config.validate()?;
        Ok(config)
    }
}

fn json(value: &impl serde::Serialize) -> Result<String, ModelError> {
    serde_json::to_string(value).map_err(|error| ModelError::Encode { reason: error.to_string() })
}

fn dtype_name(tensor: &str, dtype: DType) -> Result<Dtype, ModelError> {
    match dtype {
        DType::F64 => Ok(Dtype::F64),
        DType::F32 => Ok(Dtype::F32),
        DType::F16 => Ok(Dtype::F16),
        DType::BF16 => Ok(Dtype::BF16),
        DType::I64 => Ok(Dtype::I64),
        DType::I32 => Ok(Dtype::I32),
        DType::U8 => Ok(Dtype::U8),
        _ => Err(ModelError::Encode { reason: format!("{tensor:?} is of type {dtype:?}") }),
    }
}

/// The values of a tensor, in memory aligned for their type; `None` if no model here holds such values.
fn tensor_data(view: &TensorView<'_>) -> Option<TensorData> {
    let (bytes, shape) = (view.data(), view.shape());
    Some(match view.dtype() {
        Dtype::F64 => TensorData::new(numbers(bytes, f64::from_le_bytes), shape),
        Dtype::F32 => TensorData::new(numbers(bytes, f32::from_le_bytes), shape),
        Dtype::F16 => TensorData::new(numbers(bytes, f16::from_le_bytes), shape),
        Dtype::BF16 => TensorData::new(numbers(bytes, bf16::from_le_bytes), shape),
        Dtype::I64 => TensorData::new(numbers(bytes, i64::from_le_bytes), shape),
        Dtype::I32 => TensorData::new(numbers(bytes, i32::from_le_bytes), shape),
        Dtype::U8 => TensorData::new(bytes.to_vec(), shape),
        Dtype::BOOL => TensorData::new(numbers(bytes, |[byte]: [u8; 1]| byte != 0), shape),
        _ => return None,
    })
}

fn numbers<T, const N: usize>(bytes: &[u8], from_le_bytes: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (values, _) = bytes.as_chunks::<N>();
    values.iter().map(|&value| from_le_bytes(value)).collect()
}

/// Writes beside `path`, syncs, then renames over it.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary: PathBuf = path.with_file_name(name);
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to report; a leftover is harmless.
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::split_mix64;
    use burn::tensor::{Device, Tensor};

    fn narrow(seed: u64, device: &Device) -> ResNet {
        ResNetConfig { width: 8, num_classes: 5, ..ResNetConfig::new(Arch::ResNet18) }.init(seed, device)
    }

    fn note() -> Metadata {
        [("mean", "[0.5,0.5,0.5]"), ("classes", "[\"Bär\\n\",\"cat\"]")]
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .into()
    }

    #[test]
    fn a_saved_model_comes_back_from_its_file_alone() {
        let device = kiln_device::cpu();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("model.safetensors");
        let model = narrow(1, &device);
        save_safetensors(&path, &model, &note()).expect("a writable folder");

        let (state, metadata) = load_safetensors(&path).expect("its own file");
        assert_eq!(metadata["classes"], note()["classes"]);
        let config = ResNetConfig::from_metadata(&metadata).expect("its own metadata");
        let loaded = config.init(2, &device).load_state(&state).expect("its own weights");

        let images = Tensor::<4>::ones([1, 3, 32, 32], &device);
        let logits = |model: &ResNet| model.forward(images.clone()).into_data();
        assert_eq!(logits(&loaded), logits(&model));
        let files: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
        assert_eq!(files.len(), 1, "{files:?}");
    }

    #[test]
    fn the_same_weights_give_the_same_bytes() {
        let device = kiln_device::cpu();
        let first = safetensors_from_state(&narrow(1, &device).state(), &note()).expect("plain types");
        let (state, metadata) = state_from_safetensors(&first, "memory").expect("its own bytes");
        let loaded = narrow(2, &device).load_state(&state).expect("its own weights");
        assert_eq!(safetensors_from_state(&loaded.state(), &metadata).expect("plain types"), first);
    }

    #[test]
    fn every_tensor_is_aligned_to_its_values() {
        let state = narrow(1, &kiln_device::cpu()).state();
        let bytes = safetensors_from_state(&state, &note()).expect("plain types");
        let tensors = SafeTensors::deserialize(&bytes).expect("its own bytes");
        for (name, view) in tensors.iter() {
            let offset = view.data().as_ptr() as usize - bytes.as_ptr() as usize;
            assert_eq!(offset % (view.dtype().bitsize() / 8), 0, "{name}");
        }
    }

    #[test]
    fn damaged_files_are_refused_by_name() {
        let state = narrow(1, &kiln_device::cpu()).state();
        let whole = safetensors_from_state(&state[..3], &note()).expect("plain types");
        let header = u64::from_le_bytes(whole[..8].try_into().expect("eight bytes")) as usize;
        let mut lying = whole.clone();
        // Ten times as many channels as there are bytes for.
        let text = String::from_utf8_lossy(&lying[8..8 + header]).replacen("[8]", "[80]", 1);
        lying.splice(8..8 + header, text.trim_end().bytes());
        lying[..8].copy_from_slice(&(text.trim_end().len() as u64).to_le_bytes());
        let mut huge = whole.clone();
        huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        let damaged = [whole[..whole.len() - 1].to_vec(), whole[..5].to_vec(), lying, huge, Vec::new()];
        for bytes in damaged {
            let error = state_from_safetensors(&bytes, "broken.safetensors").expect_err("damaged");
            assert!(matches!(error, ModelError::MalformedFile { .. }), "{error:?}");
            assert!(error.to_string().contains("broken.safetensors"), "{error}");
        }
    }

    #[test]
    fn random_damage_never_panics() {
        let state = narrow(1, &kiln_device::cpu()).state();
        let whole = safetensors_from_state(&state[..6], &note()).expect("plain types");
        let header = 8 + u64::from_le_bytes(whole[..8].try_into().expect("eight bytes")) as usize;
        let mut refused = 0;
        for round in 0..2000 {
            let random = split_mix64(1, round);
            let mut bytes = whole.clone();
            // Most of the damage goes where it can do harm.
            let end = if round % 8 == 0 { bytes.len() } else { header };
            bytes[random as usize % end] ^= (random >> 32) as u8 | 1;
            if round % 16 == 1 {
                bytes.truncate((random >> 40) as usize % bytes.len());
            }
            refused += usize::from(state_from_safetensors(&bytes, "memory").is_err());
        }
        assert!(refused > 1000, "only {refused} of 2000 were refused");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load_safetensors(Path::new("no/such.safetensors")).expect_err("no such file");
        assert_eq!(error.to_string(), "cannot read weights from no/such.safetensors");
    }

    #[test]
    fn metadata_of_other_programs_is_enough_with_an_arch() {
        let metadata =
            [("arch", "resnet34"), ("num_classes", "7")].map(|(key, value)| (key.to_string(), value.to_string()));
        let config = ResNetConfig::from_metadata(&metadata.into()).expect("arch and classes");
        assert_eq!((config.arch, config.num_classes), (Arch::ResNet34, 7));
        let error = ResNetConfig::from_metadata(&Metadata::new()).expect_err("nothing in it");
        assert!(error.to_string().contains("no \"arch\""), "{error}");
    }
}
