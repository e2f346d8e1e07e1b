//! What can go wrong in training, by whose fault it is.

use kiln_device::Trouble;
use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The recipe's text isn't TOML, or has a key or value that no recipe has.
    #[error("cannot read the recipe{}: {problem}", line.map_or(String::new(), |line| format!(", line {line}")))]
    RecipeSyntax {
        /// Line of the text, from 1.
        line: Option<usize>,
        /// What is wrong, with the nearest valid name where there is one.
        problem: String,
    },
    /// The recipe's values can't be trained with.
    #[error("unusable recipe: {}", .problems.join("; "))]
    InvalidRecipe {
        /// One sentence for each problem.
        problems: Vec<String>,
    },
    /// The model handed over isn't the one the recipe and the data ask for.
    #[error("cannot train this model: it is {given}, the recipe and the data ask for {asked}")]
    WrongModel {
        /// The model handed over.
        given: String,
        /// The one asked for.
        asked: String,
    },
    /// The output folder holds a run already.
    #[error(
        "{} holds a run already ({found}); continue it with --resume, or choose another --output",
        path.display()
    )]
    RunExists {
        /// The output folder.
        path: PathBuf,
        /// The first file of a run that was found.
        found: &'static str,
    },
    /// There is nothing to resume from where the caller pointed.
    #[error("cannot resume: {} is neither a checkpoint nor a run with checkpoints", path.display())]
    NoCheckpoint {
        /// Where the caller pointed.
        path: PathBuf,
    },
    /// Checkpoints exist and none can be used.
    #[error("cannot resume: no usable checkpoint in {}: {}", path.display(), list(.damaged))]
    AllDamaged {
        /// The folder of checkpoints, or the checkpoint asked for.
        path: PathBuf,
        /// Each checkpoint and what is wrong with it.
        damaged: Vec<Damaged>,
    },
    /// The checkpoint was made with other classes, or the same in another order.
    #[error(
        "cannot resume from {}: it was trained on {} classes ({}), the data has {} ({})",
        path.display(), checkpoint.len(), shortened(.checkpoint), data.len(), shortened(.data)
    )]
    OtherClasses {
        /// The checkpoint.
        path: PathBuf,
        /// Its classes.
        checkpoint: Vec<String>,
        /// The data's classes.
        data: Vec<String>,
    },
    /// The checkpoint holds another model than the recipe asks for.
    #[error("cannot resume from {}: it holds {checkpoint}, the recipe asks for {recipe}", path.display())]
    OtherModel {
        /// The checkpoint.
        path: PathBuf,
        /// Its model.
        checkpoint: String,
        /// The recipe's model.
        recipe: String,
    },
    /// The checkpoint's optimiser state is another model's.
    #[error("cannot resume from {}: {problem}", path.display())]
    OptimizerState {
        /// The checkpoint.
        path: PathBuf,
        /// What doesn't fit.
        problem: crate::optimizer::StateError,
    },
    /// The loss stopped being a number.
    #[error(
        "the {split} loss is {loss} in epoch {epoch}, step {step} (learning rate {lr}{}); lower the learning rate or \
         warm up longer; {}", of(.images), kept(.checkpoint)
    )]
    NonFiniteLoss {
        /// Whose loss: "training" or "validation".
        split: &'static str,
        /// Epoch, from 1.
        epoch: usize,
        /// Step in the epoch, from 1.
        step: usize,
        /// Learning rate of that step, or of the last one before the validation.
        lr: f64,
        /// The loss: infinite or NaN.
        loss: f64,
        /// The files of that step; none in validation.
        images: Vec<String>,
        /// The last good checkpoint, which is still there.
        checkpoint: Option<PathBuf>,
    },
    /// Gradients or weights stopped being numbers although the loss was one.
    #[error(
        "{what} in epoch {epoch}, step {step} (learning rate {lr}{}); lower the learning rate or warm up longer; {}",
        of(.images), kept(.checkpoint)
    )]
    NonFinite {
        /// What isn't finite, as a sentence's beginning.
        what: String,
        /// Epoch, from 1.
        epoch: usize,
        /// Step in the epoch, from 1.
        step: usize,
        /// Learning rate of that step.
        lr: f64,
        /// The files of that step.
        images: Vec<String>,
        /// The last good checkpoint, which is still there.
        checkpoint: Option<PathBuf>,
    },
    /// The device failed.
    #[error("the device failed in epoch {epoch}: {reason}; {}", advice(.trouble, .checkpoint))]
    Device {
        /// Epoch, from 1.
        epoch: usize,
        /// What the device reported.
        reason: String,
        /// What that means, if it is known.
        trouble: Option<Trouble>,
        /// Where the run would continue from.
        checkpoint: Option<PathBuf>,
    },
    /// A file of the run can't be written.
    #[error("cannot write {num_bytes} bytes to {}: {reason}; earlier checkpoints are untouched", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Its size.
        num_bytes: usize,
        /// What the operating system said. Not `source`: a program that prints the causes would say it twice.
        reason: io::Error,
    },
    /// A folder holds no trained network.
    #[error(
        "no trained network in {}: neither checkpoints/best.safetensors, best.safetensors or model.safetensors nor a \
         checkpoint is there; give a run folder of kiln train, or a weights file",
        path.display()
    )]
    NoWeights {
        /// The folder.
        path: PathBuf,
    },
    /// What a weights file says about preparing pictures can't be done.
    #[error("cannot use {}: it asks for {}", path.display(), .problems.join("; "))]
    UnusableWeights {
        /// The file.
        path: PathBuf,
        /// One sentence a problem.
        problems: Vec<String>,
    },
    /// The data has classes that the network doesn't tell apart.
    #[error(
        "cannot evaluate {} on this data: it has classes that the network doesn't tell apart ({}); the network's are {}",
        weights.display(), shortened(.unknown), shortened(.known)
    )]
    ForeignClasses {
        /// The network's weights.
        weights: PathBuf,
        /// Classes of the data that the network lacks.
        unknown: Vec<String>,
        /// The network's classes.
        known: Vec<String>,
    },
    /// The device didn't answer while a network was asked.
    #[error("the device failed: {reason}; a smaller --batch-size takes less memory, --device cpu needs no GPU")]
    Asking {
        /// What the device reported.
        reason: String,
    },
    /// A file of the run can't be read or written.
    #[error("cannot {action} {}: {reason}", path.display())]
    Io {
        /// What was attempted: "write", "create", ...
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        reason: io::Error,
    },
    /// The data set or a file of it can't be used.
    #[error(transparent)]
    Data(#[from] kiln_data::DataError),
    /// The model can't be built, or weights don't fit it.
    #[error(transparent)]
    Model(#[from] kiln_model::ModelError),
    /// A promise between Kiln's own parts was broken.
    #[error("internal error: {0}; please report it")]
    Internal(String),
}

/// A checkpoint that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The checkpoint, or the file of it that is damaged.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl TrainError {
    /// An I/O error of `action` on `path`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |reason| Self::Io { action, path, reason }
    }

    /// A device that doesn't answer.
    pub(crate) fn asking(error: impl std::fmt::Display) -> Self {
        Self::Asking { reason: error.to_string() }
    }
}

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.path.display(), self.reason)
    }
}

fn list(damaged: &[Damaged]) -> String {
    damaged.iter().map(Damaged::to_string).collect::<Vec<_>>().join(", ")
}

fn kept(checkpoint: &Option<PathBuf>) -> String {
    match checkpoint {
        Some(path) => format!("the last good checkpoint is {}", path.display()),
        None => "no epoch was finished before".into(),
    }
}

/// The files of a batch, in brackets with what is before.
fn of(images: &[String]) -> String {
    match images {
        [] => String::new(),
        images => format!("; images {}", shortened(images)),
    }
}

fn advice(trouble: &Option<Trouble>, checkpoint: &Option<PathBuf>) -> String {
    let kept = kept(checkpoint);
    trouble.map_or(kept.clone(), |trouble| format!("{}; {kept}", trouble.advice()))
}

/// At most ten names: both lists are to be seen side by side.
fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
