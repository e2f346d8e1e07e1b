//! The training loop, to be read from top to bottom.
//!
//! In: a recipe, a device, data, a model. Out: a trained model, and a run folder with its record and checkpoints.
//! Everything random is a function of (seed, epoch, sample) and the learning rate one of the step, so a run that is
//! killed after any epoch and resumed ends with the same bits as one that wasn't, wherever arithmetic itself repeats
//! (it does on the CPU).
//! Batches are uploaded and augmented on the plain device; only the model's parameters are on its autodiff side, and an
//! operation that meets both takes the batch as a constant.
//! Not done here: how a run begins (`trainer/begin.rs`), what is told about it (`trainer/reports.rs`); resuming within an
//! epoch, accumulation, lower precision, EMA, recovery from a lost device (issue 7).

mod begin;
mod reports;

use crate::checkpoint::ResumeFrom;
use crate::epoch_files::EpochFiles;
use crate::error::TrainError;
use crate::loss::{Loss, cross_entropy};
use crate::metrics::{Answers, Meter, StepId, Totals};
use crate::optimizer::ModelOptimizer;
use crate::recipe::Recipe;
use crate::report::{Best, EpochMetrics, EpochReport, Observer, Resumed, Summary, ValidationReport};
use crate::run_folder::{RunFolder, metrics_line};
use crate::schedule::Schedule;
use crate::sgd::Residence;
use crate::stop::StopFlag;
use crate::throughput::Throughput;
use crate::weight_average::WeightAverage;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kiln_data::{Augment, DeviceBatches, Loader, LoaderCounters, Skipped};
use kiln_device::{Glance, PciAddress};
use kiln_model::ResNet;
use std::path::PathBuf;
use std::time::Instant;

/// The two splits, in messages.
const TRAINING: &str = "training";
const VALIDATION: &str = "validation";

/// Trains one model on one data set.
pub struct Trainer {
    recipe: Recipe,
    device: Device,
    device_name: String,
    device_summary: String,
    /// Where the card is, to read its state while it works.
    pci_address: Option<PciAddress>,
    residence: Residence,
    classes: Vec<String>,
    train: Loader,
    val: Loader,
    val_augment: Augment,
    loss: Loss,
    schedule: Schedule,
    folder: RunFolder,
    resume: Option<ResumeFrom>,
    stop: StopFlag,
}

/// What changes while a run goes on.
struct Run {
    model: ResNet,
    optimizer: ModelOptimizer,
    /// Averaged weights, if the recipe keeps some: what is validated and called the best.
    average: Option<WeightAverage>,
    files: EpochFiles,
    num_epochs_done: usize,
    num_steps_done: u64,
    best: Option<Best>,
    /// The lines of `metrics.jsonl`.
    metrics: String,
    resumed: Option<Resumed>,
    checkpoint: Option<PathBuf>,
    last: Option<EpochMetrics>,
    /// Steps that still compile kernels.
    warmup_left: usize,
}

/// How an epoch's training ended.
enum Outcome {
    Trained(Trained),
    Stopped { steps_lost: usize },
}

/// A trained epoch, not yet validated.
struct Trained {
    totals: Totals,
    skipped: Vec<Skipped>,
    lr: f64,
    secs: f64,
    images_per_sec: f64,
    data_wait_fraction: f64,
    /// What the loader did.
    loader: Box<LoaderCounters>,
    /// What the card said in the epoch's middle.
    alerts: Vec<String>,
}

/// A validation.
struct Validated {
    totals: Totals,
    answers: Answers,
    skipped: Vec<Skipped>,
    secs: f64,
}

impl Trainer {
    /// Trains `model`, whose weights are replaced if the run is resumed.
    ///
    /// # Errors
    /// [`TrainError::RunExists`] if the output folder holds a run and this isn't to resume it; those of resuming;
    /// [`TrainError::NonFiniteLoss`]; [`TrainError::Io`] if something can't be written. Checkpoints of finished
    /// epochs are still there after any error.
    pub fn run(self, model: ResNet, observer: &mut dyn Observer) -> Result<Summary, TrainError> {
        let mut run = self.begin(model)?;
        observer.started(&self.started(&run));
        while run.num_epochs_done < self.recipe.run.epochs && !self.gives_up(&run) {
            let outcome;
            (run, outcome) = self.train_epoch(run, observer)?;
            match outcome {
                Outcome::Trained(trained) => {
                    let validated = self.validate(&run, trained.lr, observer)?;
                    let report = self.finish_epoch(&mut run, trained, validated)?;
                    observer.epoch(&report);
                }
                Outcome::Stopped { steps_lost } => return Ok(self.summary(run, Some(steps_lost))),
            }
        }
        Ok(self.summary(run, None))
    }

    /// One pass over the training images.
    fn train_epoch(&self, mut run: Run, observer: &mut dyn Observer) -> Result<(Run, Outcome), TrainError> {
        let begin = Instant::now();
        let augment = self.recipe.augment.training_in(run.num_epochs_done);
        let mut batches = self.batches(&self.train, &augment, run.num_epochs_done);
        let mut meter = self.meter();
        let mut speed = Throughput::new(run.warmup_left);
        let (mut step, mut lr) = (0, 0.0);
        let mut glance = None;
        while let Some(batch) = batches.next() {
            if self.stop.is_stopped() {
                return Ok((run, Outcome::Stopped { steps_lost: step }));
            }
            let batch = batch?;
            lr = self.schedule.lr(run.num_steps_done);
            step += 1;

            // Of two labels where images are mixed; the loss smooths them.
            let soft_targets = batch.soft_targets(self.classes.len(), 0.0);
            let main_targets = batch.main_targets();
            let logits = run.model.forward(batch.images);
            let loss = self.loss.of(logits.clone(), soft_targets);
            let gradients = loss.backward();
            if let Some(momentum) = self.schedule.momentum(run.num_steps_done) {
                run.optimizer.set_momentum(momentum);
            }
            run.model = run.optimizer.step(lr, run.model, gradients);
            run.num_steps_done += 1;
            if let Some(average) = &mut run.average {
                average.after_step(run.num_steps_done, &run.model);
            }

            if step == self.train.num_batches().div_ceil(2) {
                glance = self.pci_address.map(Glance::at);
            }
            meter.push(StepId { step, lr }, loss, logits, main_targets);
            if speed.warming_up() || meter.is_due() {
                meter.read().map_err(|error| self.meter_error(error, TRAINING, &run))?;
                speed.done(meter.totals().num_samples, begin.elapsed().as_secs_f64());
            }
            let waited = batches.wait_secs() / begin.elapsed().as_secs_f64();
            observer.step(&self.step_report(&run, StepId { step, lr }, &meter, &speed, waited));
        }
        meter.read().map_err(|error| self.meter_error(error, TRAINING, &run))?;
        if let Some(average) = &mut run.average {
            average.after_epoch(run.num_epochs_done as u64 + 1, &run.model);
        }
        let secs = begin.elapsed().as_secs_f64();
        speed.finish(meter.totals().num_samples, secs);
        run.warmup_left = speed.warmup_left();
        let trained = Trained {
            totals: meter.totals(),
            skipped: batches.skipped(),
            lr,
            secs,
            images_per_sec: speed.epoch_images_per_sec(),
            data_wait_fraction: batches.wait_secs() / secs,
            loader: Box::new(batches.counters()),
            alerts: glance.map_or_else(Vec::new, |glance| glance.alerts()),
        };
        Ok((run, Outcome::Trained(trained)))
    }

    /// One pass over the validation images, without augmentation, gradients or label smoothing.
    ///
    /// `lr` is that of the last step, for the message if the loss isn't finite.
    fn validate(&self, run: &Run, lr: f64, observer: &mut dyn Observer) -> Result<Validated, TrainError> {
        let begin = Instant::now();
        let model = run.judged_model();
        let mut batches = self.batches(&self.val, &self.val_augment, 0);
        let mut meter = self.meter();
        for (step, batch) in (1..).zip(batches.by_ref()) {
            let batch = batch?;
            let logits = self.judge(&model, batch.images);
            let loss = cross_entropy(logits.clone(), batch.targets.clone(), 0.0);
            meter.push_answers(StepId { step, lr }, loss, logits, batch.targets, &batch.labels);
            if meter.is_due() {
                meter.read().map_err(|error| self.meter_error(error, VALIDATION, run))?;
            }
            let (epoch, num_steps) = (run.num_epochs_done + 1, self.val.num_batches());
            observer.validation_step(&ValidationReport { epoch, step, num_steps });
        }
        meter.read().map_err(|error| self.meter_error(error, VALIDATION, run))?;
        let secs = begin.elapsed().as_secs_f64();
        let (totals, answers) = (meter.totals(), meter.answers().clone());
        Ok(Validated { totals, answers, skipped: batches.skipped(), secs })
    }

    /// Counts the epoch as done and writes its record, its checkpoint and, if it is the best so far, its model.
    fn finish_epoch(&self, run: &mut Run, trained: Trained, validated: Validated) -> Result<EpochReport, TrainError> {
        run.num_epochs_done += 1;
        // An epoch that lost whole batches to damaged files still ends at its planned step, as a resumed run assumes.
        run.num_steps_done = (run.num_epochs_done * self.train.num_batches()) as u64;
        let skipped = [trained.skipped.as_slice(), &validated.skipped].concat();
        let metrics = self.metrics(run, &trained, &validated, skipped.len());
        let score = self.recipe.validation.best_by.score(&metrics);
        let best = run.best.is_none_or(|best| score > best.score());
        if best {
            run.best = Some(Best { epoch: metrics.epoch, val_top1: metrics.val_top1, score: Some(score) });
        }
        run.metrics += &metrics_line(&metrics)?;
        run.last = Some(metrics.clone());

        self.folder.write_metrics(&run.metrics)?;
        run.files.write_epoch(&metrics, &run.metrics)?;
        if best {
            run.files.write_classes(&validated.answers.confusion, &self.classes)?;
        }
        let checkpoint = self.checkpoint(run);
        let checkpoint = self.folder.checkpoints().write(&checkpoint, self.recipe.run.keep_checkpoints)?;
        run.checkpoint = Some(checkpoint.clone());
        Ok(EpochReport { metrics, num_epochs: self.recipe.run.epochs, best, checkpoint, skipped })
    }

    /// Logits of validation images, with the recipe's `flip` of them and their mirror images together.
    fn judge(&self, model: &ResNet, images: Tensor<4>) -> Tensor<2> {
        match self.recipe.validation.flip {
            true => (model.forward(images.clone()) + model.forward(images.flip([3]))).div_scalar(2.0),
            false => model.forward(images),
        }
    }

    /// Whether no epoch has been better for as long as the recipe is patient.
    fn gives_up(&self, run: &Run) -> bool {
        let patience = self.recipe.validation.patience;
        let since_best = run.best.map_or(0, |best| run.num_epochs_done.saturating_sub(best.epoch));
        patience > 0 && since_best >= patience
    }

    fn batches(&self, loader: &Loader, augment: &Augment, epoch: usize) -> DeviceBatches {
        loader.epoch(epoch as u32).upload(&self.device, augment, self.recipe.run.seed)
    }

    fn meter(&self) -> Meter {
        Meter::new(self.classes.len(), self.residence == Residence::Host)
    }
}

impl Run {
    /// The weights that count: the averaged ones, once there are some.
    fn judged_model(&self) -> ResNet {
        match self.average.as_ref().filter(|average| average.has_begun()) {
            Some(average) => average.model(&self.model),
            None => self.model.valid(),
        }
    }
}

#[cfg(test)]
mod tests;
