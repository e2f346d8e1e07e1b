//! Files of weights that other programs wrote: PyTorch's, of any age and wrapping, and safetensors.
//!
//! In: a file. Out: its sets of tensors (a training checkpoint holds several: the model, its average, the optimiser's
//! state) and, once one is chosen, a state by torchvision's names.
//! Nothing in a file is run. Types, shapes and places are checked against the file before anything is allocated for
//! them, and what is allocated for reading is bounded by the file's size.
//! Source: `torch/serialization.py` (2.14); the wrappings of torchvision's references, timm, Lightning and
//! `DistributedDataParallel`. burn-store reads plain `.pth` and safetensors files too; it needs burn features that
//! nothing else here does, copies a view that repeats one number out in full before its shape is known, and knows
//! neither the wrappings nor the refusals by name.
//! Not done: TorchScript programs, tar files from before PyTorch 0.1.10, big-endian files.

mod pickle;
mod strided;
mod torch;
mod zip;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn::tensor::{BoolStore, DType, TensorData};
use safetensors::{Dtype, SafeTensors};

use crate::{Arch, Metadata, ModelError, ResNetConfig, State};

pub use strided::StridedTensor;

/// A file of weights, its tensors not yet read.
pub struct WeightsFile {
    name: String,
    bytes: Vec<u8>,
    sets: Vec<TensorSet>,
    metadata: Metadata,
}

/// Tensors that lie under one key of a file.
#[derive(Clone, Debug)]
pub struct TensorSet {
    /// The path of keys that leads to it, joined by dots; empty for the file's own top level.
    pub name: String,
    tensors: Vec<(String, StridedTensor)>,
}

/// The tensors of one set, under the names a model expects.
#[derive(Clone, Debug)]
pub struct Chosen<'a> {
    /// The set's name.
    pub set: &'a str,
    /// What was taken off every name: `module.`, `model.`, ...; often nothing.
    pub prefix: String,
    /// By name, without the prefix.
    pub tensors: BTreeMap<&'a str, &'a StridedTensor>,
    /// Names without the prefix: another module's, or the wrapper's own counters.
    pub foreign: Vec<&'a str>,
}

/// Why a file can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// The file isn't of a kind that is read here.
    #[error("it is {what}; Kiln reads safetensors and PyTorch's .pth")]
    Unrecognised {
        /// What it seems to be.
        what: String,
    },
    /// The file isn't as its writer left it.
    #[error("{what}; the file is damaged, fetch or save it again")]
    Damaged {
        /// What is wrong, and where.
        what: String,
    },
    /// The file's pickle asks for something that isn't plain data.
    #[error(
        "its pickle asks for {name}, which could run code and is not needed for weights; save them with \
         torch.save(model.state_dict(), ...) or as safetensors"
    )]
    UnknownGlobal {
        /// Module and name of it, in Python's spelling.
        name: String,
    },
    /// The file uses something that isn't read here.
    #[error("{what} cannot be read")]
    Unsupported {
        /// What.
        what: String,
    },
    /// The file describes more than a file of its size can hold.
    #[error("it describes more than a file of its size can hold; the file is damaged")]
    TooMuch,
    /// There are no tensors in the file.
    #[error("it holds no tensors by name")]
    Empty,
    /// The set that was asked for isn't there.
    #[error("it has no tensors under {wanted:?}; it has some under {}", list(.found))]
    NoSuchSet {
        /// What was asked for.
        wanted: String,
        /// The names of the sets that are there.
        found: Vec<String>,
    },
}

/// Names under which programs store the weights to use, the likeliest first.
const USUAL_SETS: [&str; 9] =
    ["state_dict", "model", "model_state_dict", "model_state", "net", "network", "weights", "params", "teacher"];

/// A name that every network of the family has, by its stem.
const ANCHORS: [&str; 2] = ["conv1.weight", "conv1.0.weight"];

impl WeightsFile {
    /// Reads a file and finds its tensors.
    ///
    /// # Errors
    /// [`ModelError::ReadFile`], or [`ModelError::UnreadableWeights`] with the reason.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let bytes = fs::read(path).map_err(|source| ModelError::ReadFile { path: path.to_path_buf(), source })?;
        Self::parse(bytes, &path.display().to_string())
    }

    /// Finds the tensors in the bytes of a file; `name` stands for it in errors.
    ///
    /// # Errors
    /// [`ModelError::UnreadableWeights`] with the reason.
    pub fn parse(bytes: Vec<u8>, name: &str) -> Result<Self, ModelError> {
        let unreadable = |problem| ModelError::UnreadableWeights { file: name.to_string(), problem };
        let (sets, metadata) = parsed(&bytes).map_err(unreadable)?;
        if sets.is_empty() {
            return Err(unreadable(FileProblem::Empty));
        }
        Ok(Self { name: name.to_string(), bytes, sets, metadata })
    }

    /// The file's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// String metadata; only safetensors have any.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The classes the file says it tells apart, in the order of the network's outputs.
    pub fn classes(&self) -> Option<Vec<String>> {
        serde_json::from_str(self.metadata.get("classes")?).ok()
    }

    /// The network the file's weights are for: what its metadata says, or `arch` with as many classes as the last layer
    /// of `set` has outputs.
    ///
    /// # Errors
    /// [`ModelError::Metadata`] if neither the file nor `arch` says which network; those of [`choose`](Self::choose).
    pub fn config(&self, arch: Option<Arch>, set: Option<&str>) -> Result<ResNetConfig, ModelError> {
        let Some(arch) = arch else {
            return ResNetConfig::from_metadata(&self.metadata).map_err(|error| match error {
                ModelError::Metadata { reason } => {
                    ModelError::Metadata { reason: format!("{}: {reason}; name the network with --arch", self.name) }
                }
                other => other,
            });
        };
        let chosen = self.choose(set)?;
        let outputs = chosen.tensors.get("fc.weight").and_then(|head| head.shape().first().copied());
        let published = ResNetConfig::new(arch);
        let config = ResNetConfig { num_classes: outputs.unwrap_or(published.num_classes), ..published };
        config.validate()?;
        Ok(config)
    }

    /// The sets of tensors, in the file's order.
    pub fn sets(&self) -> impl Iterator<Item = &TensorSet> {
        self.sets.iter()
    }

    /// The tensors of the set called `wanted`, or of the likeliest one, without the wrapper's prefix.
    ///
    /// # Errors
    /// [`ModelError::UnreadableWeights`] if there is no such set.
    pub fn choose(&self, wanted: Option<&str>) -> Result<Chosen<'_>, ModelError> {
        let named = |name: &str| self.sets.iter().find(|set| set.name == name);
        let set = match wanted {
            Some(wanted) => named(wanted).ok_or_else(|| {
                let found = self.sets.iter().map(|set| set.name.clone()).collect();
                let problem = FileProblem::NoSuchSet { wanted: wanted.to_string(), found };
                ModelError::UnreadableWeights { file: self.name.clone(), problem }
            })?,
            None => {
                let usual = USUAL_SETS.into_iter().find_map(named);
                let largest = || self.sets.iter().max_by_key(|set| set.tensors.len());
                usual.or_else(largest).expect("a file without sets isn't opened")
            }
        };
        Ok(set.chosen())
    }

    /// The numbers of a tensor of this file.
    pub fn read(&self, tensor: &StridedTensor) -> TensorData {
        tensor.read(&self.bytes)
    }

    /// The numbers of all tensors of a set.
    ///
    /// # Errors
    /// [`ModelError::UnreadableWeights`] if they would take more than twice the file: views that repeat numbers can
    /// claim any size. [`ResNet::load_weights`](crate::ResNet::load_weights) reads those whose shape the model expects.
    pub fn state(&self, chosen: &Chosen<'_>) -> Result<State, ModelError> {
        let sizes = chosen.tensors.values().map(|tensor| tensor.num_bytes());
        let size = sizes.fold(0usize, usize::saturating_add);
        if size > self.bytes.len().saturating_mul(2) {
            return Err(ModelError::UnreadableWeights { file: self.name.clone(), problem: FileProblem::TooMuch });
        }
        Ok(chosen.tensors.iter().map(|(name, tensor)| (name.to_string(), self.read(tensor))).collect())
    }
}

impl TensorSet {
    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    fn chosen(&self) -> Chosen<'_> {
        let prefix = self.prefix();
        let mut chosen =
            Chosen { set: &self.name, prefix: prefix.to_string(), tensors: BTreeMap::new(), foreign: Vec::new() };
        for (name, tensor) in &self.tensors {
            match name.strip_prefix(prefix) {
                Some(name) => {
                    chosen.tensors.insert(name, tensor);
                }
                None => chosen.foreign.push(name),
            }
        }
        chosen
    }

    /// What stands before the stem's name: the shortest, if there are several networks in the set.
    fn prefix(&self) -> &str {
        let prefix_of = |name: &'_ str| {
            let prefix = ANCHORS.iter().find_map(|anchor| name.strip_suffix(anchor))?;
            // `layer1.0.conv1.weight` ends like the stem's name too.
            let in_a_stage = prefix.split('.').any(|part| part.starts_with("layer"));
            (!in_a_stage && (prefix.is_empty() || prefix.ends_with('.'))).then_some(prefix.len())
        };
        let found = self.tensors.iter().filter_map(|(name, _)| Some(&name[..prefix_of(name)?]));
        found.min_by_key(|prefix| prefix.len()).unwrap_or("")
    }
}

fn parsed(bytes: &[u8]) -> Result<(Vec<TensorSet>, Metadata), FileProblem> {
    if bytes.starts_with(b"PK\x03\x04") {
        return Ok((torch::sets_from_zip(bytes)?, Metadata::new()));
    }
    if bytes.starts_with(&torch::LEGACY_MAGIC) {
        return Ok((torch::sets_from_legacy(bytes)?, Metadata::new()));
    }
    if bytes.len() >= 9 && bytes[8] == b'{' {
        return sets_from_safetensors(bytes);
    }
    Err(FileProblem::Unrecognised { what: kind_of(bytes).to_string() })
}

fn sets_from_safetensors(bytes: &[u8]) -> Result<(Vec<TensorSet>, Metadata), FileProblem> {
    let damaged = |error: safetensors::SafeTensorError| FileProblem::Damaged { what: error.to_string() };
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    let metadata = header.metadata().iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
    let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let tensor = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        let unsupported = || FileProblem::Unsupported { what: format!("numbers of {} in {name:?}", view.dtype()) };
        let dtype = dtype(view.dtype()).ok_or_else(unsupported)?;
        let start = view.data().as_ptr() as usize - bytes.as_ptr() as usize;
        let range = start..start + view.data().len();
        let outside = || FileProblem::Damaged { what: format!("{name:?} reaches beyond its end") };
        let tensor = StridedTensor::contiguous(dtype, view.shape().to_vec(), range).ok_or_else(outside)?;
        Ok((name.to_string(), tensor))
    };
    let tensors = file.iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
    let sets = if tensors.is_empty() { Vec::new() } else { vec![TensorSet { name: String::new(), tensors }] };
    Ok((sets, metadata))
}

fn dtype(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::I8 => DType::I8,
        Dtype::U8 => DType::U8,
        Dtype::BOOL => DType::Bool(BoolStore::Native),
        _ => return None,
    })
}

/// What a file seems to be that is no weights file; downloads that went wrong are the usual ones.
fn kind_of(bytes: &[u8]) -> &'static str {
    let begins = |with: &str| bytes.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with.as_bytes()));
    match () {
        _ if bytes.is_empty() => "empty",
        _ if begins("version https://git-lfs") => "a Git LFS pointer, not the file itself (run git lfs pull)",
        _ if begins("<!doctype") || begins("<html") || begins("<?xml") => "a web page, so the download failed",
        _ if bytes.starts_with(&[0x1F, 0x8B]) => "gzip-compressed",
        _ if bytes.starts_with(b"\x89HDF") => "an HDF5 (Keras) file",
        _ if bytes.get(257..262) == Some(b"ustar") => "a tar file",
        _ if bytes.first() == Some(&0x80) => "a pickle that PyTorch didn't write",
        _ => "of no known format",
    }
}

fn list(names: &[String]) -> String {
    let quoted = names.iter().map(|name| if name.is_empty() { "its top level".into() } else { format!("{name:?}") });
    quoted.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
