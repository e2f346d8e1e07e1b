//! What is on record of a run: its recipe, its epochs, its starts, its evaluation.
//!
//! In: a run folder. Out: [`Run`]. What isn't there is `None` or empty, never guessed: records of older versions lack keys,
//! and a loss that isn't a number is `null`.

use crate::error::ReportError;
use crate::evaluation::{self, SavedEvaluation};
use kiln_train::{Recipe, RunFolder, Start};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The record of a run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) path: PathBuf,
    pub(crate) recipe: Option<Recipe>,
    pub(crate) epochs: Vec<Epoch>,
    pub(crate) starts: Vec<Start>,
    pub(crate) evaluation: Option<SavedEvaluation>,
}

/// A line of `metrics.jsonl`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Epoch {
    pub(crate) epoch: i32,
    pub(crate) lr: Option<f64>,
    pub(crate) train_loss: Option<f64>,
    pub(crate) train_top1: Option<f64>,
    pub(crate) val_loss: Option<f64>,
    pub(crate) val_top1: Option<f64>,
    pub(crate) val_top5: Option<f64>,
    pub(crate) val_ece: Option<f64>,
    pub(crate) images_per_sec: Option<f64>,
    pub(crate) data_wait_fraction: Option<f64>,
    pub(crate) train_secs: Option<f64>,
    pub(crate) val_secs: Option<f64>,
    pub(crate) held_back: Option<String>,
    pub(crate) skipped: u64,
    pub(crate) device: Option<String>,
    /// Everything else that is on record.
    #[serde(flatten)]
    pub(crate) more: BTreeMap<String, Value>,
}

impl Run {
    /// Reads the record in `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, ReportError> {
        let folder = RunFolder::new(path);
        let recipe = folder.recipe()?;
        let lines = folder.metrics()?;
        if recipe.is_none() && lines.is_empty() {
            return Err(ReportError::NoRun { path: path.to_owned() });
        }
        let epochs = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let (starts, evaluation) = (folder.starts()?, evaluation::read(path)?);
        Ok(Self { path: path.to_owned(), recipe, epochs, starts, evaluation })
    }

    /// What the folder is called.
    pub(crate) fn name(&self) -> String {
        let absolute = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        absolute.file_name().map_or_else(|| absolute.display().to_string(), |name| name.to_string_lossy().into_owned())
    }

    /// The epoch with the highest validation accuracy, the earliest of several.
    pub(crate) fn best(&self) -> Option<&Epoch> {
        let known = self.epochs.iter().filter(|epoch| epoch.val_top1.is_some());
        known.reduce(|best, next| if next.val_top1 > best.val_top1 { next } else { best })
    }

    /// Epochs asked for.
    pub(crate) fn num_epochs(&self) -> Option<usize> {
        self.recipe.as_ref().map(|recipe| recipe.run.epochs)
    }

    /// Seconds of all recorded epochs.
    pub(crate) fn secs(&self) -> f64 {
        self.epochs.iter().map(|epoch| epoch.train_secs.unwrap_or(0.0) + epoch.val_secs.unwrap_or(0.0)).sum()
    }

    /// Points of a curve.
    pub(crate) fn curve(&self, value: impl Fn(&Epoch) -> Option<f64>) -> Vec<(i32, f64)> {
        self.epochs.iter().filter_map(|epoch| Some((epoch.epoch, value(epoch)?))).collect()
    }
}
