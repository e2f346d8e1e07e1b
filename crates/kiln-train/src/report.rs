//! What a run tells whoever watches it, and what it leaves on record.
//!
//! In: nothing. Out: [`Observer`], the calls a progress bar needs, and [`EpochMetrics`], a line of `metrics.jsonl`.
//! Epochs and steps are counted from 1 here, as people do. Accuracies and shares are fractions, 0–1.
//! Nothing here prints.

use crate::error::Damaged;
use crate::precision::Precision;
use kiln_data::Skipped;
use kiln_model::ResNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Watches a run. Every call is made on the training thread and holds the run up while it lasts.
pub trait Observer {
    /// The run is about to begin: device, data, model and, if resumed, where from.
    fn started(&mut self, started: &Started) {
        let _ = started;
    }

    /// A training step was launched.
    fn step(&mut self, report: &StepReport) {
        let _ = report;
    }

    /// A validation batch was launched.
    fn validation_step(&mut self, report: &ValidationReport) {
        let _ = report;
    }

    /// An epoch is over: trained, validated, written.
    fn epoch(&mut self, report: &EpochReport) {
        let _ = report;
    }

    /// The run goes on, not quite as asked.
    fn notice(&mut self, notice: &Notice) {
        let _ = notice;
    }
}

/// Watches nothing.
impl Observer for () {}

/// Two watch, the first first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn started(&mut self, started: &Started) {
        self.0.started(started);
        self.1.started(started);
    }

    fn step(&mut self, report: &StepReport) {
        self.0.step(report);
        self.1.step(report);
    }

    fn validation_step(&mut self, report: &ValidationReport) {
        self.0.validation_step(report);
        self.1.validation_step(report);
    }

    fn notice(&mut self, notice: &Notice) {
        self.0.notice(notice);
        self.1.notice(notice);
    }

    fn epoch(&mut self, report: &EpochReport) {
        self.0.epoch(report);
        self.1.epoch(report);
    }
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Started {
    /// The device in one line: which, why, and why the others lost.
    pub device: String,
    /// Whether the first steps compile kernels, which takes minutes the first time on a machine.
    pub compiles_kernels: bool,
    /// Training images; damaged ones are only found when their turn comes.
    pub num_train_images: usize,
    /// Validation images.
    pub num_val_images: usize,
    /// The classes, in the order of the network's outputs.
    pub classes: Vec<String>,
    /// Images in a step.
    pub batch_size: usize,
    /// Steps in an epoch.
    pub steps_per_epoch: usize,
    /// Batches of a validation.
    pub val_steps: usize,
    /// Epochs of the whole run.
    pub num_epochs: usize,
    /// The epoch that begins now, from 1.
    pub first_epoch: usize,
    /// Learnable numbers of the network.
    pub num_parameters: usize,
    /// The run folder.
    pub output: PathBuf,
    /// Where the run continues from; `None` for a new run.
    pub resumed: Option<Resumed>,
}

/// Where a run continues from.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// The checkpoint; `None` if the earlier run was ended before its first.
    pub checkpoint: Option<PathBuf>,
    /// Finished epochs.
    pub num_epochs_done: usize,
    /// Batches trained of the epoch after those.
    pub num_batches_done: usize,
    /// Newer checkpoints that can't be used, and other damaged files that were repaired.
    pub damaged: Vec<Damaged>,
    /// Keys of the recipe that changed: `key: now, not before`.
    pub changed: Vec<String>,
}

/// Where a run stands after a training step.
#[derive(Clone, Copy, Debug)]
pub struct StepReport {
    /// Epoch, from 1.
    pub epoch: usize,
    /// Epochs of the whole run.
    pub num_epochs: usize,
    /// Step in the epoch, from 1.
    pub step: usize,
    /// Steps in the epoch.
    pub num_steps: usize,
    /// Learning rate of this step.
    pub lr: f64,
    /// Mean loss of the epoch so far. A device that works in the background reports it up to a second late; `None`
    /// before the first.
    pub loss: Option<f64>,
    /// Top-1 accuracy of the epoch so far, on augmented images, as late as the loss. A mixed image counts for the label
    /// of its larger share.
    pub top1: Option<f64>,
    /// Training images per second, without the steps in which kernels were compiled; `None` before it can be told.
    pub images_per_sec: Option<f64>,
    /// Seconds to the end of the epoch's steps.
    pub epoch_eta_secs: Option<f64>,
    /// Seconds to the end of the run, validations as long as the last one.
    pub run_eta_secs: Option<f64>,
    /// Share of the epoch so far spent waiting for the loader, 0–1.
    pub data_wait_fraction: f64,
    /// The next step may take minutes: kernels are being compiled and tuned. Never on a CPU.
    pub compiling: bool,
}

/// Where a validation stands.
#[derive(Clone, Copy, Debug)]
pub struct ValidationReport {
    /// Epoch, from 1.
    pub epoch: usize,
    /// Batch, from 1.
    pub step: usize,
    /// Batches of the validation.
    pub num_steps: usize,
}

/// A finished epoch.
#[derive(Clone, Debug)]
pub struct EpochReport {
    /// Its line of `metrics.jsonl`.
    pub metrics: EpochMetrics,
    /// Epochs of the whole run.
    pub num_epochs: usize,
    /// Whether no earlier epoch had a higher `val_top1`.
    pub best: bool,
    /// The newest checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// Files that could not be used in this epoch, of both splits.
    pub skipped: Vec<Skipped>,
}

/// One line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpochMetrics {
    /// Epoch, from 1.
    pub epoch: usize,
    /// Optimiser steps since the beginning of the run.
    pub step: u64,
    /// Learning rate of the epoch's last step.
    pub lr: f64,
    /// Mean training loss, label smoothing included, of the weights as they were at each step.
    pub train_loss: f64,
    /// Top-1 accuracy on the augmented training images, 0–1. A mixed image counts for the label of its larger share.
    pub train_top1: f64,
    /// Mean validation loss, without label smoothing.
    pub val_loss: f64,
    /// Top-1 accuracy on the validation images, 0–1.
    pub val_top1: f64,
    /// Top-5 accuracy on the validation images, 0–1; top-K with K < 5 classes.
    pub val_top5: f64,
    /// Mean over the classes of the F1 score on the validation images, 0–1.
    pub val_f1_macro: f64,
    /// Mean over the classes of the recall on the validation images, 0–1.
    pub val_balanced_accuracy: f64,
    /// Expected calibration error on the validation images, 0–1: how far the network's confidence is off.
    pub val_ece: f64,
    /// Training images per second, without the first steps of a process, in which kernels are compiled.
    pub images_per_sec: f64,
    /// Share of the training time spent waiting for the loader, 0–1.
    pub data_wait_fraction: f64,
    /// Seconds of the epoch's training.
    pub train_secs: f64,
    /// Seconds of the epoch's validation.
    pub val_secs: f64,
    /// What held the epoch back, in one line, if anything did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_back: Option<String>,
    /// Files that could not be used, of both splits.
    pub skipped: usize,
    /// The device, such as `CUDA (NVIDIA GeForce RTX 4060)`.
    pub device: String,
}

/// The best epoch by the recipe's measure; the earliest of several.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// Epoch, from 1.
    pub epoch: usize,
    /// Its top-1 accuracy on the validation images, 0–1.
    pub val_top1: f64,
    /// What it was chosen by, higher being better; `None`, of older checkpoints, is `val_top1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

impl Best {
    /// What it was chosen by; higher is better.
    pub fn score(&self) -> f64 {
        self.score.unwrap_or(self.val_top1)
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Summary {
    /// The model as it is now.
    pub model: ResNet,
    /// Finished epochs.
    pub num_epochs_done: usize,
    /// The best of them.
    pub best: Option<Best>,
    /// The last epoch finished in this process.
    pub last: Option<EpochMetrics>,
    /// Where the run was stopped, if it was.
    pub stopped: Option<Stopped>,
    /// The newest checkpoint: where the run would continue from.
    pub checkpoint: Option<PathBuf>,
    /// The weights of the best epoch.
    pub best_model: Option<PathBuf>,
}

/// Where a run was stopped. Nothing is lost: the newest checkpoint is of that very step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The epoch that resuming goes on with, from 1.
    pub epoch: usize,
    /// Steps of it that are done.
    pub steps_done: usize,
}

/// Something the person should know about a run that goes on. Prints as a sentence.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// The device ran out of memory and works on fewer images at once; a step still learns from as many.
    SmallerMicroBatch {
        /// Images at once from now on.
        micro_batch_size: usize,
        /// Images in a step, as before.
        batch_size: usize,
    },
    /// The run went back to a checkpoint after a failure of the device.
    Recovered {
        /// What failed.
        reason: String,
        /// Where the run goes on from.
        checkpoint: PathBuf,
    },
    /// The device isn't trusted with the type that the recipe asks for.
    FellBackToF32 {
        /// The type.
        precision: Precision,
        /// Why not.
        reason: String,
    },
    /// The training loss has risen far above its lowest.
    Diverging {
        /// The epoch's mean.
        loss: f64,
        /// The lowest of the epochs before.
        lowest: f64,
        /// Learning rate of the epoch's last step.
        lr: f64,
    },
    /// A step's gradients overflowed f16, and it was left out.
    SkippedStep {
        /// Epoch, from 1.
        epoch: usize,
        /// Step in the epoch, from 1.
        step: usize,
        /// What the loss is multiplied with from now on.
        scale: f64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SmallerMicroBatch { micro_batch_size, batch_size } => write!(
                f,
                "the device is out of memory with more; it now works on {micro_batch_size} images at once and adds up \
                 the gradients of each step's {batch_size} (run.micro_batch_size = {micro_batch_size} starts that way)"
            ),
            Self::Recovered { reason, checkpoint } => {
                write!(f, "the device failed ({reason}); the run goes on from {}", checkpoint.display())
            }
            Self::FellBackToF32 { precision, reason } => write!(f, "f32 instead of {precision}: {reason}"),
            Self::Diverging { loss, lowest, lr } => write!(
                f,
                "the training loss has risen to {loss:.3} from {lowest:.3}: the run may be diverging; a lower learning \
                 rate than {lr:.3e}, a longer warm-up or gradient clipping usually helps"
            ),
            Self::SkippedStep { epoch, step, scale } => write!(
                f,
                "step {step} of epoch {epoch} overflowed f16 and is left out; the loss is scaled by {scale} from now on"
            ),
        }
    }
}
