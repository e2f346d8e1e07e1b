//! Checkpoints: everything a run needs to go on as if it had never stopped, and proof that it is undamaged.
//!
//! A checkpoint is a folder that appears whole or not at all, `epoch-0003` after three epochs and
//! `epoch-0003-step-000120` 120 steps later:
//!
//! ```text
//! model.safetensors      weights and running statistics, torchvision's names; opens in torchvision and timm
//! optimizer.safetensors  momentum buffers by parameter name
//! ema.safetensors        averaged weights, if the recipe keeps some
//! state.toml             epochs and steps done, the epoch under way, loss scale, best epoch, classes, model, recipe,
//!                        Kiln's version
//! metrics.jsonl          the run's record up to here
//! SHA256SUMS             checksums of the above, written last; `sha256sum -c SHA256SUMS` checks them by hand
//! ```
//!
//! Beside them, `best.safetensors` is a copy of the best epoch's weights as they were validated, for use: the averaged ones
//! if there are some, else `model.safetensors`. The best epoch's checkpoint
//! itself is kept, so the copy can be made again if a crash or damage spoilt it.
//! Nothing else of a run has state: order, draws and learning rate are functions of seed, epoch and step, and what is
//! drawn within the network counts batches that are part of the model's state.
//! Not done here: when one is written (`trainer/save.rs`).

use crate::atomic_file;
use crate::error::{Damaged, TrainError};
use crate::loss_scale::LossScale;
use crate::metrics::Totals;
use crate::position::Position;
use crate::recipe::Recipe;
use crate::report::Best;
use burn::tensor::TensorData;
use kiln_data::Skipped;
use kiln_model::{Metadata, ResNetConfig, State, safetensors_from_state, state_from_safetensors};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Layout of a checkpoint; raised when an older Kiln couldn't read what this one writes.
const FORMAT: u32 = 2;

/// The oldest layout that this version reads: it has no epoch under way, loss scale or averaged weights.
const OLDEST_FORMAT: u32 = 1;

pub(crate) const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
pub(crate) const EMA: &str = "ema.safetensors";
const STATE: &str = "state.toml";
const METRICS: &str = "metrics.jsonl";
const SUMS: &str = "SHA256SUMS";
const BEST: &str = "best.safetensors";

/// Key of the model's metadata under which stands how validation prepares a picture.
pub(crate) const PREPARATION: &str = "kiln.augment";

/// Where to continue from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResumeFrom {
    /// The newest usable checkpoint of the output folder; a fresh start if it has none at all.
    Auto,
    /// A checkpoint (`.../checkpoints/epoch-0007`), or another run's folder: its newest usable one.
    Path(PathBuf),
}

impl std::str::FromStr for ResumeFrom {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "auto" { Self::Auto } else { Self::Path(text.into()) })
    }
}

/// What a checkpoint says about the run, beside tensors: `state.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// Layout of the checkpoint.
    pub format: u32,
    /// Version of Kiln that wrote it.
    pub kiln: String,
    /// Finished epochs.
    pub num_epochs_done: usize,
    /// Optimiser steps taken.
    pub num_steps_done: u64,
    /// The classes, in the order of the network's outputs.
    pub classes: Vec<String>,
    /// The best epoch so far.
    pub best: Option<Best>,
    /// The epoch under way; `None` between two epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<UnderWay>,
    /// The loss scale, in f16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<LossScale>,
    /// The network.
    pub model: ResNetConfig,
    /// The recipe as resolved.
    pub recipe: Recipe,
}

/// An epoch that isn't finished. Its order and draws are functions of seed, epoch and sample, so where it stands is all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnderWay {
    /// Batches trained: where the loader goes on.
    pub num_batches_done: usize,
    /// Loss and hits so far.
    pub totals: Totals,
    /// Files left out so far.
    pub skipped: Vec<Skipped>,
}

/// A checkpoint in memory.
pub struct Checkpoint {
    /// Everything beside tensors.
    pub state: RunState,
    /// Weights and running statistics by torchvision's names.
    pub model: Vec<(String, TensorData)>,
    /// The optimiser's state by parameter name.
    pub optimizer: BTreeMap<String, TensorData>,
    /// Averaged weights by torchvision's names; empty if there are none.
    pub ema: State,
    /// The lines of `metrics.jsonl` up to this epoch.
    pub metrics: String,
}

/// The usable checkpoint that [`Checkpoints::newest`] found.
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// What it holds.
    pub checkpoint: Checkpoint,
    /// Newer ones that can't be used.
    pub damaged: Vec<Damaged>,
}

/// The folder of a run's checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoint {
    /// Reads a checkpoint and checks every byte of it.
    ///
    /// # Errors
    /// The file that is damaged, missing or unreadable, and why.
    pub fn read(path: &Path) -> Result<Self, Damaged> {
        let files = Files::read(path)?;
        let text = |name| String::from_utf8(files.bytes(name).to_vec()).map_err(|e| damaged(path, name, e));
        let tensors = |name| -> Result<State, Damaged> {
            let file = path.join(name).display().to_string();
            Ok(state_from_safetensors(files.bytes(name), &file).map_err(|e| damaged(path, name, e))?.0)
        };
        let state: RunState = toml::from_str(&text(STATE)?).map_err(|e| damaged(path, STATE, e.message()))?;
        if !(OLDEST_FORMAT..=FORMAT).contains(&state.format) {
            let reason = format!(
                "format {}, written by Kiln {}; this one reads {OLDEST_FORMAT} to {FORMAT}",
                state.format, state.kiln
            );
            return Err(damaged(path, STATE, reason));
        }
        Ok(Self {
            state,
            model: tensors(MODEL)?.into_iter().collect(),
            optimizer: tensors(OPTIMIZER)?,
            ema: if files.has(EMA) { tensors(EMA)? } else { State::new() },
            metrics: text(METRICS)?,
        })
    }

    /// Whether `path` looks like a checkpoint, damaged or not.
    pub fn is_at(path: &Path) -> bool {
        [STATE, SUMS, MODEL].iter().any(|name| path.join(name).exists())
    }

    /// Refuses a checkpoint of other classes or another network.
    ///
    /// # Errors
    /// [`TrainError::OtherClasses`] or [`TrainError::OtherModel`], with both sides.
    pub fn check(&self, path: &Path, classes: &[String], model: &ResNetConfig) -> Result<(), TrainError> {
        if self.state.classes != classes {
            return Err(TrainError::OtherClasses {
                path: path.to_owned(),
                checkpoint: self.state.classes.clone(),
                data: classes.to_vec(),
            });
        }
        let (checkpoint, recipe) = (described(&self.state.model), described(model));
        if checkpoint != recipe {
            return Err(TrainError::OtherModel { path: path.to_owned(), checkpoint, recipe });
        }
        Ok(())
    }

    fn files(&self) -> Result<Files, TrainError> {
        let named = |state: &State| state.iter().map(|(name, data)| (name.clone(), data.clone())).collect::<Vec<_>>();
        let state = toml::to_string(&self.state).map_err(|error| TrainError::Internal(error.to_string()))?;
        let mut files = vec![
            (MODEL, safetensors_from_state(&self.model, &self.metadata())?),
            (OPTIMIZER, safetensors_from_state(&named(&self.optimizer), &Metadata::new())?),
            (STATE, state.into_bytes()),
            (METRICS, self.metrics.clone().into_bytes()),
        ];
        if !self.ema.is_empty() {
            files.push((EMA, safetensors_from_state(&named(&self.ema), &self.metadata())?));
        }
        Ok(Files(files))
    }

    /// The first tensor that has a value which isn't finite: such a checkpoint is of no use to anyone.
    pub(crate) fn first_not_finite(&self) -> Option<&str> {
        let named = self.model.iter().map(|(name, data)| (name, data)).chain(&self.optimizer).chain(&self.ema);
        let broken =
            |data: &TensorData| data.as_slice::<f32>().is_ok_and(|values| !values.iter().all(|v| v.is_finite()));
        named.into_iter().find(|(_, data)| broken(data)).map(|(name, _)| name.as_str())
    }

    /// What `model.safetensors` says about itself, enough to evaluate and predict with it alone.
    fn metadata(&self) -> Metadata {
        let (state, augment) = (&self.state, &self.state.recipe.augment);
        let mut metadata = state.model.to_metadata();
        metadata.extend(
            [
                ("classes", json(&state.classes)),
                ("mean", json(&augment.mean)),
                ("std", json(&augment.std)),
                ("input_size", json(&augment.validation().size)),
                ("interpolation", "bilinear".to_owned()),
                (PREPARATION, json(&augment.validation())),
                ("recipe_sha256", state.recipe.sha256()),
                ("epoch", state.num_epochs_done.to_string()),
                ("kiln", state.kiln.clone()),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        metadata
    }
}

impl RunState {
    /// The state after `num_epochs_done` epochs, written by this version of Kiln.
    pub fn new(recipe: &Recipe, model: &ResNetConfig, classes: &[String]) -> Self {
        Self {
            format: FORMAT,
            kiln: env!("CARGO_PKG_VERSION").to_owned(),
            num_epochs_done: 0,
            num_steps_done: 0,
            classes: classes.to_vec(),
            best: None,
            under_way: None,
            loss_scale: None,
            model: model.clone(),
            recipe: recipe.resolved(),
        }
    }

    /// Where the run stands.
    pub fn position(&self) -> Position {
        let batches = self.under_way.as_ref().map_or(0, |epoch| epoch.num_batches_done);
        Position { epochs: self.num_epochs_done, batches }
    }
}

impl Checkpoints {
    /// The checkpoints in `folder`.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where the checkpoint at `position` is or would be.
    pub fn path(&self, position: Position) -> PathBuf {
        self.folder.join(position.to_string())
    }

    /// The weights of the best epoch.
    pub fn best_model(&self) -> PathBuf {
        self.folder.join(BEST)
    }

    /// Whether the checkpoint at `path` is one of these.
    pub fn contains(&self, path: &Path) -> bool {
        let folder = path.parent().and_then(|parent| parent.canonicalize().ok());
        folder.is_some() && folder == self.folder.canonicalize().ok()
    }

    /// Positions that have a checkpoint, in order.
    ///
    /// # Errors
    /// [`TrainError::Io`] if the folder can't be listed. No folder is no checkpoint.
    pub fn positions(&self) -> Result<Vec<Position>, TrainError> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let mut positions = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(TrainError::io("list", &self.folder))? {
            let name = entry.map_err(TrainError::io("list", &self.folder))?.file_name();
            positions.extend(name.to_str().and_then(|name| name.parse::<Position>().ok()));
        }
        positions.sort_unstable();
        Ok(positions)
    }

    /// The newest checkpoint whose bytes are all as they were written, and the newer ones that aren't.
    ///
    /// # Errors
    /// [`TrainError::AllDamaged`] if there are checkpoints and none is usable: starting again from nothing is for
    /// the person to decide.
    pub fn newest(&self) -> Result<Option<Found>, TrainError> {
        let mut damaged = Vec::new();
        for position in self.positions()?.into_iter().rev() {
            let path = self.path(position);
            match Checkpoint::read(&path) {
                Ok(checkpoint) => return Ok(Some(Found { path, checkpoint, damaged })),
                Err(found) => damaged.push(found),
            }
        }
        match damaged.is_empty() {
            true => Ok(None),
            false => Err(TrainError::AllDamaged { path: self.folder.clone(), damaged }),
        }
    }

    /// Writes a checkpoint, then the best model if it is the best, then removes those no longer needed: all but the
    /// newest `keep` and the best epoch's.
    ///
    /// In this order: at any moment the newest folder is whole and the best epoch's is there.
    ///
    /// # Errors
    /// [`TrainError::Write`] with the file and its size, [`TrainError::Io`]; what was there before is still there.
    pub fn write(&self, checkpoint: &Checkpoint, keep: usize) -> Result<PathBuf, TrainError> {
        let position = checkpoint.state.position();
        let files = checkpoint.files()?;
        let path = self.path(position);
        if path.exists() {
            self.set_aside(position)?;
        }
        let sums = files.sums();
        let mut named: Vec<(&str, &[u8])> = files.0.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        named.push((SUMS, sums.as_bytes()));
        atomic_file::write_folder(&path, &named)?;
        let best = checkpoint.state.best.map(|best| Position::after_epochs(best.epoch));
        if best == Some(position) {
            atomic_file::write(&self.best_model(), files.validated())?;
        }
        self.prune(keep, best)?;
        Ok(path)
    }

    /// Makes `best.safetensors` the best epoch's model again. Returns what was wrong with it, if anything.
    ///
    /// # Errors
    /// [`TrainError::Io`] if it can't be written.
    pub fn repair_best(&self, best: Option<Best>) -> Result<Option<Damaged>, TrainError> {
        let Some(best) = best else { return Ok(None) };
        let (path, source) = (self.best_model(), self.path(Position::after_epochs(best.epoch)));
        let wanted = match Files::read(&source) {
            Ok(files) => files,
            // The best epoch's checkpoint is damaged or was removed by hand: the copy is all there is.
            Err(found) => return Ok(Some(found)),
        };
        let wanted = wanted.validated();
        let reason = match fs::read(&path) {
            Ok(bytes) if bytes == wanted => return Ok(None),
            Ok(_) => format!("not the model of epoch {}; written again", best.epoch),
            Err(error) => format!("{error}; written again"),
        };
        atomic_file::write(&path, wanted)?;
        Ok(Some(Damaged { path, reason }))
    }

    /// Renames every checkpoint after `position`, so that the run's next ones can't be confused with them.
    ///
    /// # Errors
    /// [`TrainError::Io`].
    pub fn set_aside_after(&self, position: Position) -> Result<(), TrainError> {
        self.positions()?.into_iter().filter(|&later| later > position).try_for_each(|later| self.set_aside(later))
    }

    /// Renames a checkpoint to `set-aside-epoch-...`, replacing an earlier one of that name.
    fn set_aside(&self, position: Position) -> Result<(), TrainError> {
        let (from, to) = (self.path(position), self.folder.join(format!("set-aside-{position}")));
        atomic_file::remove(&to)?;
        atomic_file::rename(&from, &to)
    }

    fn prune(&self, keep: usize, best: Option<Position>) -> Result<(), TrainError> {
        let positions = self.positions()?;
        let old = &positions[..positions.len().saturating_sub(keep)];
        let unneeded = old.iter().filter(|&&position| Some(position) != best);
        unneeded.into_iter().try_for_each(|&position| atomic_file::remove_folder(&self.path(position)))
    }
}

/// The files of a checkpoint except the checksums, the model first.
struct Files(Vec<(&'static str, Vec<u8>)>);

impl Files {
    /// Reads the files of `folder` and compares their checksums.
    fn read(folder: &Path) -> Result<Self, Damaged> {
        let read = |name: &'static str| {
            let path = folder.join(name);
            fs::read(&path).map_err(|error| Damaged { path, reason: error.to_string() })
        };
        let sums = read(SUMS)?;
        let averaged = contains(&sums, EMA.as_bytes()).then_some(EMA);
        let files = [MODEL, OPTIMIZER, STATE, METRICS].into_iter().chain(averaged);
        let files = Self(files.map(|name| Ok((name, read(name)?))).collect::<Result<_, Damaged>>()?);
        if files.sums().as_bytes() == sums {
            return Ok(files);
        }
        let unlisted = |(name, bytes): &&(&'static str, Vec<u8>)| !contains(&sums, sum_line(name, bytes).as_bytes());
        let changed = files.0.iter().find(unlisted).map_or(SUMS, |(name, _)| name);
        let well_formed = sums.len() == files.sums().len() && sums.is_ascii();
        Err(damaged(folder, if well_formed { changed } else { SUMS }, "its checksum doesn't match"))
    }

    /// The weights that validation judged.
    fn validated(&self) -> &[u8] {
        self.bytes(if self.has(EMA) { EMA } else { MODEL })
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(of, _)| *of == name)
    }

    fn bytes(&self, name: &str) -> &[u8] {
        let file = self.0.iter().find(|(of, _)| *of == name);
        file.map(|(_, bytes)| bytes.as_slice()).unwrap_or_default()
    }

    /// The lines `sha256sum` prints.
    fn sums(&self) -> String {
        self.0.iter().map(|(name, bytes)| sum_line(name, bytes)).collect()
    }
}

fn contains(text: &[u8], line: &[u8]) -> bool {
    text.windows(line.len()).any(|window| window == line)
}

fn sum_line(name: &str, bytes: &[u8]) -> String {
    format!("{}  {name}\n", sha256_hex(bytes))
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn damaged(folder: &Path, name: &str, reason: impl std::fmt::Display) -> Damaged {
    Damaged { path: folder.join(name), reason: reason.to_string() }
}

/// Lists of strings and finite numbers always make JSON.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A network in a few words, complete enough that two different ones never read the same.
pub(crate) fn described(model: &ResNetConfig) -> String {
    let published = ResNetConfig::new(model.arch);
    let ResNetConfig { arch, num_classes, width, block, depths, groups, width_per_group, stem, shortcut, .. } = model;
    let mut text = format!("{arch} of width {width} for {num_classes} classes");
    let shape = (block, depths, groups, width_per_group, shortcut);
    let as_published =
        (&published.block, &published.depths, &published.groups, &published.width_per_group, &published.shortcut);
    if *stem != published.stem {
        text += &format!(" with stem {stem:?}");
    }
    if model.antialias {
        text += " with blurred strides";
    }
    if shape != as_published {
        text += &format!(" built as {shape:?}");
    }
    text
}

#[cfg(test)]
mod tests;
