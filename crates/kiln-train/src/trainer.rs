//! The training loop, to be read from top to bottom.
//!
//! In: a recipe, a device, data, a model. Out: a trained model, and a run folder with its record and checkpoints.
//! Everything random is a function of (seed, epoch, sample) and the learning rate one of the step, so a run that is
//! killed after any step and resumed ends with the same bits as one that wasn't, wherever arithmetic itself repeats
//! (it does on the CPU).
//! Batches are uploaded and augmented on the plain device; only the model's parameters are on its autodiff side, and an
//! operation that meets both takes the batch as a constant.
//! Not done here: how a run begins (`trainer/begin.rs`), a step's way through the network (`trainer/step.rs`), when
//! checkpoints are written (`trainer/save.rs`), what follows a failing device (`trainer/recover.rs`), what is told
//! (`trainer/reports.rs`).

mod begin;
mod faults;
mod recover;
mod reports;
mod save;
mod step;

use crate::checkpoint::{ResumeFrom, UnderWay};
use crate::divergence::risen_from;
use crate::epoch_files::EpochFiles;
use crate::error::TrainError;
use crate::failure::guarded;
use crate::loss::{Loss, cross_entropy};
use crate::loss_scale::LossScale;
use crate::metrics::{Answers, Meter, StepId, Totals};
use crate::optimizer::ModelOptimizer;
use crate::precision::Precision;
use crate::recipe::Recipe;
use crate::report::{Best, EpochMetrics, EpochReport, Notice, Observer, Resumed, Summary, ValidationReport};
use crate::run_folder::{RunFolder, metrics_line};
use crate::schedule::Schedule;
use crate::sgd::Residence;
use crate::stop::StopFlag;
use crate::throughput::Throughput;
use crate::watchdog::{Waiting, Watchdog};
use crate::weight_average::WeightAverage;
use burn::module::Module;
use burn::tensor::Device;
use faults::{Faults, Phase};
use kiln_data::{Augment, DeviceBatches, Loader, LoaderCounters, Skipped};
use kiln_device::{Glance, PciAddress};
use kiln_model::ResNet;
use recover::{Recoveries, Reopen};
use save::Saved;
use std::time::Instant;
use step::Pass;

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
    schedule: Schedule,
    folder: RunFolder,
    resume: Option<ResumeFrom>,
    stop: StopFlag,
    /// Images the device works on at once; 0 is a whole batch. It shrinks when memory runs out.
    micro_batch: usize,
    /// Fewest images that can train the network's batch norms.
    smallest_part: usize,
    /// What convolutions compute in: the recipe's type, if the device can be trusted with it.
    precision: Precision,
    /// The epoch under way, from 1, for messages.
    epoch: usize,
    /// The newest checkpoint.
    saved: Option<Saved>,
    watchdog: Watchdog,
    reopen: Reopen,
    recoveries: Recoveries,
    faults: Faults,
}

/// What changes while a run goes on.
struct Run {
    model: ResNet,
    optimizer: ModelOptimizer,
    loss: Loss,
    /// Averaged weights, if the recipe keeps some: what is validated and called the best.
    average: Option<WeightAverage>,
    files: EpochFiles,
    num_epochs_done: usize,
    num_steps_done: u64,
    /// The epoch after those.
    under_way: UnderWay,
    /// In f16.
    loss_scale: Option<LossScale>,
    best: Option<Best>,
    /// The lines of `metrics.jsonl`.
    metrics: String,
    resumed: Option<Resumed>,
    last: Option<EpochMetrics>,
    /// Steps that still compile kernels.
    warmup_left: usize,
    /// The images of the steps whose loss isn't known yet.
    recent: Vec<(StepId, Vec<u64>)>,
}

/// How an epoch's training ended.
enum Outcome {
    Trained(Trained),
    Stopped,
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
    /// A device that runs out of memory works on fewer images at once; one that is lost is opened again, and the run goes
    /// on from its newest checkpoint.
    ///
    /// # Errors
    /// [`TrainError::RunExists`] if the output folder holds a run and this isn't to resume it; those of resuming;
    /// [`TrainError::NonFiniteLoss`], [`TrainError::NonFinite`]; [`TrainError::Device`] if it can't be used any more;
    /// [`TrainError::Write`] and [`TrainError::Io`] if something can't be written. Checkpoints are still there after any
    /// error.
    pub fn run(mut self, model: ResNet, observer: &mut dyn Observer) -> Result<Summary, TrainError> {
        self.settle_precision(observer);
        let mut run = self.begin(model)?;
        observer.started(&self.started(&run));
        loop {
            let ended = guarded(|| self.train(run, observer)).unwrap_or_else(|failure| Err(self.failed(failure)));
            match ended {
                Ok(summary) => return Ok(summary),
                Err(error) => run = self.recover(error, observer)?,
            }
        }
    }

    /// From where the run stands to its end.
    fn train(&mut self, mut run: Run, observer: &mut dyn Observer) -> Result<Summary, TrainError> {
        while run.num_epochs_done < self.recipe.run.epochs && !self.gives_up(&run) {
            self.epoch = run.num_epochs_done + 1;
            let outcome;
            (run, outcome) = self.train_epoch(run, observer)?;
            let Outcome::Trained(trained) = outcome else { return self.stopped(run) };
            let Some(validated) = self.validate(&run, trained.lr, observer)? else { return self.stopped(run) };
            let report = self.finish_epoch(&mut run, trained, validated)?;
            observer.epoch(&report);
            if let Some(lowest) = risen_from(&run.metrics) {
                observer.notice(&Notice::Diverging { loss: report.metrics.train_loss, lowest, lr: report.metrics.lr });
            }
        }
        Ok(self.summary(run, None))
    }

    /// One pass over the training images, or what is left of it.
    fn train_epoch(&mut self, mut run: Run, observer: &mut dyn Observer) -> Result<(Run, Outcome), TrainError> {
        let begin = Instant::now();
        let (done, num_batches) = (run.under_way.num_batches_done, self.train.num_batches());
        let augment = self.recipe.augment.training_in(run.num_epochs_done);
        let mut batches = self.batches(&self.train, &augment, run.num_epochs_done, done);
        let mut meter = self.meter().with_totals(run.under_way.totals);
        let mut speed = Throughput::new(run.warmup_left, run.under_way.totals.num_samples);
        let mut lr = self.schedule.lr(run.num_steps_done.saturating_sub(1));
        let mut glance = None;
        while !self.stop.is_stopped() {
            self.watchdog.waits_for(Waiting::Loader);
            let Some(batch) = batches.next() else {
                // Damaged files may have left nothing of the last batches.
                run.under_way.num_batches_done = num_batches;
                break;
            };
            let batch = batch?;
            self.watchdog.waits_for(Waiting::Device);
            // As planned: a batch of which damaged files left nothing counts.
            let step = batches.next_step();
            run.num_steps_done = (run.num_epochs_done * num_batches + step - 1) as u64;
            lr = self.schedule.lr(run.num_steps_done);
            let id = StepId { step, lr };
            run.recent.push((id, batch.samples.clone()));

            // Forward, loss, backward (`trainer/step.rs`); then the optimiser and the averaged weights, unless the
            // gradients overflowed f16.
            let main_targets = batch.main_targets();
            let Pass { gradients, loss, logits } = self.pass(&mut run, &batch, observer)?;
            if let Some(gradients) = self.usable(&mut run, gradients, id, observer)? {
                self.faults.strike(Phase::Optimizer, run.num_steps_done, batch.labels.len());
                if let Some(momentum) = self.schedule.momentum(run.num_steps_done) {
                    run.optimizer.set_momentum(momentum);
                }
                run.model = run.optimizer.step(lr, run.model, gradients);
                if let Some(average) = &mut run.average {
                    average.after_step(run.num_steps_done + 1, &run.model);
                }
                meter.push(id, loss, logits, main_targets);
            }
            run.num_steps_done += 1;
            run.under_way.num_batches_done = step;

            if step == num_batches.div_ceil(2) {
                glance = self.pci_address.map(Glance::at);
            }
            if speed.warming_up() || meter.is_due() {
                self.read(&mut run, &mut meter)?;
                speed.done(meter.totals().num_samples, begin.elapsed().as_secs_f64());
            }
            let waited = batches.wait_secs() / begin.elapsed().as_secs_f64();
            observer.step(&self.step_report(&run, id, &meter, &speed, waited));
            if step < num_batches && self.checkpoint_is_due() {
                self.save_under_way(&mut run, &mut meter, &batches)?;
            }
        }
        self.read(&mut run, &mut meter)?;
        self.note_under_way(&mut run, &meter, &batches);
        // Once: a run that is resumed before its validation comes here again.
        let just_trained = done < num_batches && run.under_way.num_batches_done == num_batches;
        if let Some(average) = run.average.as_mut().filter(|_| just_trained) {
            average.after_epoch(run.num_epochs_done as u64 + 1, &run.model);
        }
        if self.stop.is_stopped() {
            return Ok((run, Outcome::Stopped));
        }
        if just_trained && self.checkpoint_is_due() {
            self.save(&run)?;
        }
        let secs = begin.elapsed().as_secs_f64();
        speed.finish(meter.totals().num_samples, secs);
        run.warmup_left = speed.warmup_left();
        let trained = Trained {
            totals: meter.totals(),
            skipped: run.under_way.skipped.clone(),
            lr,
            secs,
            images_per_sec: speed.epoch_images_per_sec(),
            data_wait_fraction: batches.wait_secs() / secs,
            loader: Box::new(batches.counters()),
            alerts: glance.map_or_else(Vec::new, |glance| glance.alerts()),
        };
        Ok((run, Outcome::Trained(trained)))
    }

    /// One pass over the validation images, without augmentation, gradients or label smoothing; `None` if it was stopped.
    ///
    /// `lr` is that of the last step, for the message if the loss isn't finite.
    fn validate(&mut self, run: &Run, lr: f64, observer: &mut dyn Observer) -> Result<Option<Validated>, TrainError> {
        let begin = Instant::now();
        let model = run.judged_model();
        let mut batches = self.batches(&self.val, &self.val_augment, 0, 0);
        let mut meter = self.meter();
        self.watchdog.waits_for(Waiting::Loader);
        for (step, batch) in (1..).zip(batches.by_ref()) {
            self.watchdog.waits_for(Waiting::Device);
            if self.stop.is_stopped() {
                return Ok(None);
            }
            let batch = batch?;
            let logits = self.logits(&model, &batch.images, observer).map_err(|failure| self.failed(failure))?;
            let loss = cross_entropy(logits.clone(), batch.targets.clone(), 0.0);
            meter.push_answers(StepId { step, lr }, loss, logits, batch.targets, &batch.labels);
            if meter.is_due() {
                meter.read().map_err(|error| self.meter_error(error, VALIDATION, &[]))?;
            }
            let (epoch, num_steps) = (run.num_epochs_done + 1, self.val.num_batches());
            observer.validation_step(&ValidationReport { epoch, step, num_steps });
            self.watchdog.waits_for(Waiting::Loader);
        }
        meter.read().map_err(|error| self.meter_error(error, VALIDATION, &[]))?;
        let secs = begin.elapsed().as_secs_f64();
        let (totals, answers) = (meter.totals(), meter.answers().clone());
        Ok(Some(Validated { totals, answers, skipped: batches.skipped(), secs }))
    }

    /// Counts the epoch as done and writes its record, its checkpoint and, if it is the best so far, its model.
    fn finish_epoch(
        &mut self,
        run: &mut Run,
        trained: Trained,
        validated: Validated,
    ) -> Result<EpochReport, TrainError> {
        run.num_epochs_done += 1;
        run.under_way = UnderWay::default();
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
        if best || self.epoch_has_checkpoint(run.num_epochs_done) || self.gives_up(run) {
            self.save(run)?;
        }
        let checkpoint = self.saved.as_ref().map(|saved| saved.path.clone());
        Ok(EpochReport { metrics, num_epochs: self.recipe.run.epochs, best, checkpoint, skipped })
    }

    /// Whether no epoch has been better for as long as the recipe is patient.
    fn gives_up(&self, run: &Run) -> bool {
        let patience = self.recipe.validation.patience;
        let since_best = run.best.map_or(0, |best| run.num_epochs_done.saturating_sub(best.epoch));
        patience > 0 && since_best >= patience
    }

    /// Batches of an epoch, without the first `done`.
    fn batches(&self, loader: &Loader, augment: &Augment, epoch: usize, done: usize) -> DeviceBatches {
        loader.epoch_from(epoch as u32, done).upload(&self.device, augment, self.recipe.run.seed)
    }

    fn meter(&self) -> Meter {
        Meter::new(self.classes.len(), self.residence == Residence::Host)
    }
}

impl Run {
    /// The weights that count: the averaged ones, once there are some.
    fn judged_model(&self) -> ResNet {
        self.averaged_model().unwrap_or_else(|| self.model.valid())
    }

    /// The averaged weights, once there are some.
    fn averaged_model(&self) -> Option<ResNet> {
        let begun = self.average.as_ref().filter(|average| average.has_begun());
        begun.map(|average| average.model(&self.model))
    }
}

#[cfg(test)]
mod tests;
