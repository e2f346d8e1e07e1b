//! When checkpoints are written, and of what.
//!
//! At the run's very beginning, so that a run which can't write ends before it has cost anything and one that is killed
//! early keeps its first weights; every few minutes within an epoch; after every few epochs, the best and the last; and
//! when the run is stopped. A checkpoint is only written of numbers: one that couldn't be gone on from ends the run instead,
//! and the newest good one stays.

use super::{Run, TRAINING, Trainer};
use crate::checkpoint::{Checkpoint, RunState};
use crate::error::TrainError;
use crate::metrics::{Meter, StepId};
use crate::position::Position;
use crate::report::Summary;
use kiln_data::{DeviceBatches, Skipped};
use kiln_model::State;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The newest checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub(super) position: Position,
    pub(super) path: PathBuf,
    at: Instant,
}

impl Saved {
    pub(super) fn now(position: Position, path: PathBuf) -> Self {
        Self { position, path, at: Instant::now() }
    }
}

impl Trainer {
    /// Whether the last checkpoint is so old that one is written within the epoch.
    pub(super) fn checkpoint_is_due(&self) -> bool {
        let minutes = self.recipe.run.checkpoint_minutes;
        let every = Duration::try_from_secs_f64(60.0 * minutes).unwrap_or(Duration::MAX);
        minutes > 0.0 && self.saved.as_ref().is_none_or(|saved| saved.at.elapsed() >= every)
    }

    /// Whether the end of that many epochs gets a checkpoint, best or not.
    pub(super) fn epoch_has_checkpoint(&self, num_epochs_done: usize) -> bool {
        let run = &self.recipe.run;
        num_epochs_done.is_multiple_of(run.checkpoint_epochs) || num_epochs_done == run.epochs
    }

    /// Writes a checkpoint within an epoch.
    pub(super) fn save_under_way(
        &mut self,
        run: &mut Run,
        meter: &mut Meter,
        batches: &DeviceBatches,
    ) -> Result<(), TrainError> {
        self.read(run, meter)?;
        self.note_under_way(run, meter, batches);
        self.save(run)
    }

    /// Notes what a checkpoint says of the epoch under way.
    pub(super) fn note_under_way(&self, run: &mut Run, meter: &Meter, batches: &DeviceBatches) {
        run.under_way.totals = meter.totals();
        // The loader is ahead and names the files of later batches too: a resumed epoch names them again.
        let new = |found: &Skipped| !run.under_way.skipped.iter().any(|known| known.name == found.name);
        let new: Vec<_> = batches.skipped().into_iter().filter(new).collect();
        run.under_way.skipped.extend(new);
    }

    /// Writes a checkpoint of where the run stands, unless the newest is of that very place.
    pub(super) fn save(&mut self, run: &Run) -> Result<(), TrainError> {
        let checkpoint = self.checkpoint(run);
        let position = checkpoint.state.position();
        if self.saved.as_ref().is_some_and(|saved| saved.position == position) {
            return Ok(());
        }
        if let Some(tensor) = checkpoint.first_not_finite() {
            return Err(self.not_finite(run, format!("{tensor} is no longer finite")));
        }
        let path = self.folder.checkpoints().write(&checkpoint, self.recipe.run.keep_checkpoints)?;
        self.saved = Some(Saved::now(position, path));
        Ok(())
    }

    /// The end of a run that was asked to stop: saved at the very step.
    pub(super) fn stopped(&mut self, run: Run) -> Result<Summary, TrainError> {
        self.save(&run)?;
        let steps_done = run.under_way.num_batches_done;
        Ok(self.summary(run, Some(steps_done)))
    }

    /// Reads the model and the optimiser's state from the device.
    fn checkpoint(&self, run: &Run) -> Checkpoint {
        let between_epochs = run.under_way.num_batches_done == 0;
        let state = RunState {
            num_epochs_done: run.num_epochs_done,
            num_steps_done: run.num_steps_done,
            best: run.best,
            loss_scale: run.loss_scale,
            under_way: (!between_epochs).then(|| run.under_way.clone()),
            ..RunState::new(&self.recipe, run.model.config(), &self.classes)
        };
        Checkpoint {
            state,
            model: run.model.state(),
            optimizer: run.optimizer.state(),
            ema: run.averaged_model().map_or_else(State::new, |model| model.state().into_iter().collect()),
            metrics: run.metrics.clone(),
        }
    }

    /// Waits for the losses of the steps so far.
    pub(super) fn read(&self, run: &mut Run, meter: &mut Meter) -> Result<(), TrainError> {
        meter.read().map_err(|error| self.meter_error(error, TRAINING, &run.recent))?;
        // The last step's images stay: its gradients may turn out not to be finite.
        run.recent.drain(..run.recent.len().saturating_sub(1));
        Ok(())
    }

    pub(super) fn not_finite(&self, run: &Run, what: String) -> TrainError {
        let (StepId { step, lr }, samples) = run.recent.last().cloned().unwrap_or_default();
        TrainError::NonFinite {
            what,
            epoch: self.epoch,
            step,
            lr,
            images: self.image_names(&samples),
            checkpoint: self.saved.as_ref().map(|saved| saved.path.clone()),
        }
    }

    /// The names of training images.
    pub(super) fn image_names(&self, samples: &[u64]) -> Vec<String> {
        samples.iter().map(|&sample| self.train.dataset().name(sample as usize)).collect()
    }
}
