//! What is told about a run: to its observer, in its record, in its checkpoints.

use super::{Run, Trained, Trainer, Validated};
use crate::error::TrainError;
use crate::metrics::{Meter, MeterError, StepId};
use crate::report::{EpochMetrics, Started, StepReport, Stopped, Summary};
use crate::sgd::Residence;
use crate::throughput::Throughput;
use crate::verdict::{Pace, held_back};
use kiln_device::Trouble;

impl Trainer {
    pub(super) fn started(&self, run: &Run) -> Started {
        let started = Started {
            device: self.device_summary.clone(),
            compiles_kernels: self.residence == Residence::Device,
            num_train_images: self.train.dataset().len(),
            num_val_images: self.val.dataset().len(),
            classes: self.classes.clone(),
            batch_size: self.recipe.data.batch_size.min(self.train.num_samples()),
            steps_per_epoch: self.train.num_batches(),
            val_steps: self.val.num_batches(),
            num_epochs: self.recipe.run.epochs,
            first_epoch: run.num_epochs_done + 1,
            num_parameters: run.model.num_parameters(),
            output: self.folder.path().to_owned(),
            resumed: run.resumed.clone(),
        };
        tracing::info!(
            device = started.device,
            train_images = started.num_train_images,
            val_images = started.num_val_images,
            classes = started.classes.len(),
            output = %started.output.display(),
            first_epoch = started.first_epoch,
            "training"
        );
        started
    }

    pub(super) fn step_report(
        &self,
        run: &Run,
        StepId { step, lr }: StepId,
        meter: &Meter,
        speed: &Throughput,
        data_wait_fraction: f64,
    ) -> StepReport {
        let totals = meter.totals();
        let known = totals.num_samples > 0;
        let (num_steps, num_epochs) = (self.train.num_batches(), self.recipe.run.epochs);
        let left = (self.train.num_samples() as u64).saturating_sub(totals.num_samples);
        let epoch_eta_secs = speed.secs_for(left);
        let epochs_left = (num_epochs - run.num_epochs_done - 1) as f64;
        let val_secs = run.last.as_ref().map_or(0.0, |last| last.val_secs);
        let epoch_secs = speed.secs_for(self.train.num_samples() as u64);
        let rest = epoch_secs.map(|secs| epochs_left * (secs + val_secs) + val_secs);
        StepReport {
            epoch: run.num_epochs_done + 1,
            num_epochs,
            step,
            num_steps,
            lr,
            loss: known.then(|| totals.loss()),
            top1: known.then(|| totals.top1()),
            images_per_sec: speed.images_per_sec(),
            epoch_eta_secs,
            run_eta_secs: epoch_eta_secs.zip(rest).map(|(epoch, rest)| epoch + rest),
            data_wait_fraction,
            compiling: self.residence == Residence::Device && speed.warming_up(),
        }
    }

    pub(super) fn metrics(&self, run: &Run, trained: &Trained, validated: &Validated, skipped: usize) -> EpochMetrics {
        EpochMetrics {
            epoch: run.num_epochs_done,
            step: run.num_steps_done,
            lr: trained.lr,
            train_loss: trained.totals.loss(),
            train_top1: trained.totals.top1(),
            val_loss: validated.totals.loss(),
            val_top1: validated.totals.top1(),
            val_top5: validated.totals.top5(),
            val_f1_macro: validated.answers.confusion.f1_macro(),
            val_balanced_accuracy: validated.answers.confusion.balanced_accuracy(),
            val_ece: validated.answers.calibration.error(),
            images_per_sec: trained.images_per_sec,
            data_wait_fraction: trained.data_wait_fraction,
            train_secs: trained.secs,
            val_secs: validated.secs,
            held_back: held_back(&Pace {
                train_secs: trained.secs,
                data_wait_fraction: trained.data_wait_fraction,
                loader: *trained.loader,
                workers: self.recipe.data.workers,
                num_threads: std::thread::available_parallelism().map_or(1, usize::from),
                on_device: self.residence == Residence::Device,
                alerts: &trained.alerts,
            }),
            skipped,
            device: self.device_name.clone(),
        }
    }

    /// `recent` are the images of the steps that were read.
    pub(super) fn meter_error(
        &self,
        error: MeterError,
        split: &'static str,
        recent: &[(StepId, Vec<u64>)],
    ) -> TrainError {
        let checkpoint = self.saved.as_ref().map(|saved| saved.path.clone());
        match error {
            MeterError::NonFinite { step: StepId { step, lr }, loss } => {
                let samples =
                    recent.iter().rev().find(|(id, _)| id.step == step).map(|(_, samples)| samples.as_slice());
                let images = self.image_names(samples.unwrap_or_default());
                TrainError::NonFiniteLoss { split, epoch: self.epoch, step, lr, loss, images, checkpoint }
            }
            MeterError::Device(reason) => {
                let trouble = Trouble::of(&reason);
                TrainError::Device { epoch: self.epoch, reason, trouble, checkpoint }
            }
        }
    }

    pub(super) fn summary(&self, run: Run, stopped_after: Option<usize>) -> Summary {
        let stopped = stopped_after.map(|steps_done| Stopped { epoch: run.num_epochs_done + 1, steps_done });
        let best_model = self.folder.checkpoints().best_model();
        Summary {
            model: run.model,
            num_epochs_done: run.num_epochs_done,
            best: run.best,
            last: run.last,
            stopped,
            checkpoint: self.saved.as_ref().map(|saved| saved.path.clone()),
            best_model: best_model.exists().then_some(best_model),
        }
    }
}
