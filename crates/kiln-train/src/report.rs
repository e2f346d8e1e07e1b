//! What a run tells whoever watches it, and what it leaves on record.
//!
//! In: nothing. Out: [`Observer`], the calls a progress bar needs, and [`EpochMetrics`], a line of `metrics.jsonl`.
//! Epochs and steps are counted from 1 here, as people do. Accuracies and shares are fractions, 0–1.
//! Nothing here prints.

use crate::error::Damaged;
use kiln_data::Skipped;
use kiln_model::ResNet;
use serde::{Deserialize, Serialize};
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
    /// The checkpoint that was written.
    pub checkpoint: PathBuf,
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

/// Where a run was stopped. Steps of an unfinished epoch are lost: resuming begins that epoch anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The epoch that resuming begins with, from 1.
    pub epoch: usize,
    /// Steps of it that were taken and are lost.
    pub steps_lost: usize,
}
