//! What can go wrong with a model or its weights.

use std::fmt;
use std::path::PathBuf;

use crate::{Arch, FileProblem};

/// An error of this crate, by whose fault it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The person asked for a model that doesn't exist.
    #[error("unknown architecture {name:?}: did you mean \"{nearest}\"? Known: {}", known_archs())]
    UnknownArch {
        /// The name as it was typed.
        name: String,
        /// The model with the most similar name.
        nearest: Arch,
    },
    /// The person named a part that networks don't have.
    #[error("unknown part {name:?}: there are stem, layer1, layer2, layer3, layer4 and fc, and body for all but fc")]
    UnknownPart {
        /// The name as it was typed.
        name: String,
    },
    /// The options of a model contradict each other.
    #[error("cannot build {arch}: {}", problems.join("; "))]
    InvalidConfig {
        /// The model.
        arch: Arch,
        /// Every problem, one sentence each.
        problems: Vec<String>,
    },
    /// A training batch leaves some batch norm with a single value per channel, which has no variance.
    #[error(
        "cannot train {arch} on a batch of {batch} at {height}x{width} px: the last stage sees one value per \
         channel, whose variance is undefined; use a larger batch or image, or drop the last batch"
    )]
    BatchTooSmall {
        /// The model.
        arch: Arch,
        /// Images in the batch.
        batch: usize,
        /// Image height in pixels.
        height: usize,
        /// Image width in pixels.
        width: usize,
    },
    /// Weights that belong to another model.
    #[error("cannot load these weights into {arch}: {mismatch}")]
    StateMismatch {
        /// The model they were meant for.
        arch: Arch,
        /// Everything that doesn't fit.
        mismatch: Box<StateMismatch>,
    },
    /// A file that can't be read.
    #[error("cannot read weights from {}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that can't be written.
    #[error("cannot write weights to {}", path.display())]
    WriteFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that isn't safetensors, or is damaged.
    #[error("cannot read weights from {file}: not a whole safetensors file")]
    MalformedFile {
        /// The file, or what the bytes are.
        file: String,
        /// What the reader found.
        source: safetensors::SafeTensorError,
    },
    /// A file of another program that can't be read.
    #[error("cannot read weights from {file}: {problem}")]
    UnreadableWeights {
        /// The file, or what the bytes are.
        file: String,
        /// Why.
        problem: FileProblem,
    },
    /// A file whose tensors belong to another model.
    #[error("cannot load {file} into {arch}: {matched} of its tensors fit, but {mismatch}")]
    OtherWeights {
        /// The file.
        file: String,
        /// The model it was meant for.
        arch: Arch,
        /// Tensors that fit.
        matched: usize,
        /// Everything that doesn't.
        mismatch: Box<StateMismatch>,
    },
    /// A file whose last layer tells other classes apart.
    #[error(
        "cannot load the last layer of {file}: it tells apart {}, the model {}; start that layer anew with \
         --reinit-head, which keeps the rest",
        described(.file_classes), described(.model_classes)
    )]
    OtherHead {
        /// The file.
        file: String,
        /// The file's classes.
        file_classes: Classes,
        /// The model's classes.
        model_classes: Classes,
    },
    /// A tensor of a kind that no model here holds.
    #[error("cannot read tensor {tensor:?} of {file}: data type {dtype} is not supported")]
    UnsupportedDtype {
        /// The file, or what the bytes are.
        file: String,
        /// The tensor's name.
        tensor: String,
        /// Its data type as the file spells it.
        dtype: String,
    },
    /// A file without the description of its model, or with one that doesn't parse.
    #[error("cannot tell the model from the file's metadata: {reason}")]
    Metadata {
        /// What is missing or wrong.
        reason: String,
    },
    /// A list of published weights that isn't one.
    #[error("cannot use {} as a list of weights: {reason}", path.display())]
    WeightsList {
        /// The list.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// The person asked for published weights that aren't listed.
    #[error("no published weights are called {name:?}: did you mean {}? `kiln weights` lists them", meant.join(" or "))]
    UnknownWeights {
        /// The name as it was typed.
        name: String,
        /// Names that may be meant.
        meant: Vec<String>,
    },
    /// Published weights that couldn't be fetched.
    #[error("cannot fetch {source_name}: {reason}; {remedy}")]
    Fetch {
        /// Where they should have come from.
        source_name: String,
        /// What went wrong.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// Weights that can't be put into a file.
    #[error("cannot write the weights as safetensors: {reason}")]
    Encode {
        /// What stands in the way.
        reason: String,
    },
}

/// The classes a last layer tells apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Classes {
    /// By name, in the order of the outputs.
    Named(Vec<String>),
    /// Only their number is known.
    Counted(usize),
    /// There is no last layer.
    None,
}

/// Everything in which a state and a model differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateMismatch {
    /// Names the model has and the state hasn't, in the model's order.
    pub missing: Vec<String>,
    /// Names the state has and the model hasn't, sorted.
    pub unexpected: Vec<String>,
    /// Names both have, with different shapes.
    pub misshaped: Vec<Misshaped>,
    /// Names whose values are of a kind that can't stand in, such as integers for weights.
    pub mistyped: Vec<String>,
}

/// One entry whose shape isn't the model's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misshaped {
    /// The entry, in torchvision's spelling.
    pub name: String,
    /// The model's shape, in torchvision's layout.
    pub expected: Vec<usize>,
    /// The state's shape.
    pub found: Vec<usize>,
}

impl StateMismatch {
    /// Whether there is no difference.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.misshaped.is_empty() && self.mistyped.is_empty()
    }
}

impl fmt::Display for StateMismatch {
    /// Lists every name; a report that stops early hides the one that explains the rest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let misshaped: Vec<String> = self.misshaped.iter().map(Misshaped::to_string).collect();
        let parts = [
            ("missing", &self.missing),
            ("unexpected", &self.unexpected),
            ("of another shape", &misshaped),
            ("of another kind", &self.mistyped),
        ];
        let mut separator = "";
        for (what, names) in parts.iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, "{separator}{} {what}: {}", names.len(), names.join(", "))?;
            separator = "; ";
        }
        Ok(())
    }
}

impl fmt::Display for Misshaped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Misshaped { name, expected, found } = self;
        write!(f, "{name} (the model has {expected:?}, the weights {found:?})")
    }
}

/// At most twelve names: two lists are to be seen side by side.
fn described(classes: &Classes) -> String {
    const SHOWN: usize = 12;
    match classes {
        Classes::None => "nothing, having no such layer".to_string(),
        Classes::Counted(count) => format!("{count} classes that it doesn't name"),
        Classes::Named(names) => {
            let more = names.len().saturating_sub(SHOWN);
            let shown = names[..names.len() - more].join(", ");
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            format!("{} classes ({shown}{more})", names.len())
        }
    }
}

fn known_archs() -> String {
    Arch::ALL.map(Arch::name).join(", ")
}
