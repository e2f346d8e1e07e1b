//! The batches of one epoch: pictures taken from the queue in order and put together.
//!
//! In: a [`Loader`] and the batch to begin with. Out: [`HostBatch`]es, or the error that ends the epoch.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::queue::{self, Crop, Picture, Queue};
use super::sampling::EpochSamples;
use super::tuning::{Decision, Stretch, Tuning};
use super::{Loader, LoaderCounters, OnError, Plan, Skipped};
use crate::batch::HostBatch;
use crate::error::DataError;

/// Shorter stretches say little about who waits for whom.
const SHORTEST_STRETCH: Duration = Duration::from_secs(2);

/// The batches of one epoch, in order.
///
/// After an error the iterator ends. Dropping it stops the workers: each finishes the picture in its hands.
pub struct EpochBatches {
    pub(super) queue: Arc<Queue>,
    plan: Plan,
    /// The batch to put together next.
    next_step: usize,
    /// Workers to start with the first batch asked for.
    num_workers: usize,
    workers: Vec<JoinHandle<()>>,
    tuning: Arc<Tuning>,
    /// When the stretch began that is learnt from, and the counts then.
    stretch: Option<(Instant, LoaderCounters)>,
    /// The caller of `next` is who must not wait; an upload thread may.
    serves_consumer: bool,
    epoch: u32,
    /// Bytes of the largest batch so far: what the next one reserves.
    batch_bytes: usize,
    /// Something was returned: a batch or an error.
    has_answered: bool,
    /// Kept until the first call of `next`, because starting an epoch can't fail for its caller.
    start_error: Option<DataError>,
}

impl EpochBatches {
    pub(super) fn new(loader: &Loader, epoch: u32, step: usize, samples: EpochSamples) -> Self {
        let plan = loader.plan;
        let positions = plan.positions(step).start..plan.num_positions();
        let num_workers = loader.num_workers(positions.len());
        Self {
            queue: Arc::new(Queue::new(loader, samples, positions)),
            plan,
            next_step: step.min(plan.num_batches()),
            num_workers,
            workers: Vec::new(),
            tuning: loader.tuning.clone(),
            stretch: None,
            serves_consumer: true,
            epoch,
            batch_bytes: 0,
            // An epoch that goes on has given batches before.
            has_answered: step > 0,
            start_error: None,
        }
    }

    /// Has pictures decoded no further than `crop` says, if the options allow it and no batch was asked for yet.
    pub(crate) fn fit_to(&self, crop: Crop) {
        if self.workers.is_empty() {
            self.queue.fit_to(crop);
        }
    }

    /// Which epoch it is.
    pub(crate) fn number(&self) -> u32 {
        self.epoch
    }

    /// Starts the workers, once.
    pub(super) fn start(&mut self) {
        let num_workers = std::mem::take(&mut self.num_workers);
        self.start_workers(num_workers);
    }

    pub(super) fn start_workers(&mut self, num_workers: usize) {
        for _ in 0..num_workers {
            let queue = self.queue.clone();
            let builder = thread::Builder::new().name(format!("kiln-decode-{}", self.workers.len()));
            queue.count_worker(true);
            match builder.spawn(move || queue.work()) {
                Ok(worker) => self.workers.push(worker),
                Err(error) => {
                    self.queue.count_worker(false);
                    self.cannot_start_more(&error);
                    break;
                }
            }
        }
    }

    /// Fewer workers than wanted are slower, none is an error.
    fn cannot_start_more(&mut self, error: &io::Error) {
        match self.workers.len() {
            0 => self.start_error = Some(queue::worker_error(error.to_string())),
            workers => tracing::warn!(%error, workers, "cannot start more decoding threads"),
        }
    }

    /// The batch that follows those returned so far: [`Loader::epoch_from`] goes on with it.
    ///
    /// Counts batches as planned, so it is ahead of the number returned if damaged files left nothing of one.
    pub fn next_step(&self) -> usize {
        self.next_step
    }

    /// The files left out so far, in the order of the epoch; of an epoch begun midway, those of its part.
    pub fn skipped(&self) -> Vec<Skipped> {
        self.queue.skipped()
    }

    /// What the epoch has cost so far.
    pub fn counters(&self) -> LoaderCounters {
        self.queue.counters()
    }

    /// The queue, for a thread that hands the batches on; whoever it hands them to counts the waiting from now on.
    pub(crate) fn hand_over(&mut self) -> Arc<Queue> {
        self.serves_consumer = false;
        self.queue.clone()
    }

    /// Ends a stretch if it is long enough, and learns from it.
    fn learn(&mut self) {
        let (now, counters) = (Instant::now(), self.counters());
        let Some((began, before)) = self.stretch else {
            // The first batch of an epoch is waited for whatever one does, so that the first stretch begins behind it.
            self.stretch = (counters.wait.images > 0).then_some((now, counters));
            return;
        };
        let took = now.duration_since(began);
        if took < SHORTEST_STRETCH {
            return;
        }
        self.stretch = Some((now, counters));
        let learnt = self.tuning.learn(&Stretch::between(&before, &counters, took.as_secs_f64()));
        if let Some(Decision { effort, why, starved }) = learnt {
            let waiting_percent = (100.0 * starved).round();
            let read_ahead_mib = effort.read_ahead >> 20;
            tracing::info!(workers = effort.workers, read_ahead_mib, waiting_percent, "the loader adapts: {why}");
            let missing = self.queue.set_effort(effort);
            self.start_workers(missing);
        }
    }

    /// Puts one batch together; `None` if nothing is left of it.
    fn assemble(&mut self, positions: Range<usize>) -> Result<Option<HostBatch>, DataError> {
        let mut batch = HostBatch::new(self.epoch);
        batch.pixels.reserve_exact(self.batch_bytes);
        let mut waited = Duration::ZERO;
        for position in positions {
            let chosen = self.queue.chosen(position);
            let start = Instant::now();
            let taken = self.queue.take(position)?;
            waited += start.elapsed();
            match taken {
                Ok(Picture { image, view, label }) => {
                    batch.push_view(&image, view, label, chosen.sample as u64, chosen.draw)
                }
                Err(error) => self.leave_out(chosen.sample, error)?,
            }
        }
        self.batch_bytes = self.batch_bytes.max(batch.pixels.len());
        let config = self.queue.config();
        if batch.len() == 1 && config.shuffle && config.batch_size > 1 && self.plan.num_positions() > 1 {
            let reason = "the other files of its batch were skipped, and one image can't train BatchNorm";
            self.queue.record_skip(batch.samples[0] as usize, reason.into());
            return Ok(None);
        }
        if self.serves_consumer {
            self.queue.costs().wait.add(batch.len(), batch.pixels.len(), waited);
        }
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// Counts and names a damaged file, or passes the error on.
    fn leave_out(&self, sample: usize, error: DataError) -> Result<(), DataError> {
        if self.queue.config().on_error == OnError::Fail || !error.is_about_one_file() {
            return Err(error);
        }
        let reason = match error {
            DataError::Read { reason, .. } => reason.to_string(),
            DataError::Decode { verdict, .. } => verdict.to_string(),
            other => other.to_string(),
        };
        self.queue.record_skip(sample, reason);
        Ok(())
    }

    /// The error of an epoch that delivered nothing.
    fn nothing_left(&self) -> Option<DataError> {
        let skipped = self.queue.skipped();
        let first = skipped.first().filter(|_| !self.has_answered)?;
        let first = format!("{:?} ({})", first.name, first.reason);
        Some(DataError::NothingLeft { num_skipped: skipped.len(), first })
    }

    /// Ends the iteration with an error.
    fn fail(&mut self, error: DataError) -> Option<Result<HostBatch, DataError>> {
        self.next_step = self.plan.num_batches();
        self.has_answered = true;
        self.queue.cancel();
        Some(Err(error))
    }
}

impl Iterator for EpochBatches {
    type Item = Result<HostBatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.start();
        if let Some(error) = self.start_error.take() {
            return self.fail(error);
        }
        while self.next_step < self.plan.num_batches() {
            let positions = self.plan.positions(self.next_step);
            self.next_step += 1;
            match self.assemble(positions) {
                Ok(Some(batch)) => {
                    self.has_answered = true;
                    self.learn();
                    return Some(Ok(batch));
                }
                Ok(None) => {}
                Err(error) => return self.fail(error),
            }
        }
        let error = self.nothing_left()?;
        self.fail(error)
    }
}

impl Drop for EpochBatches {
    fn drop(&mut self) {
        self.queue.cancel();
        for worker in self.workers.drain(..) {
            // A worker catches panics; what it can't catch was reported by `take`.
            let _ = worker.join();
        }
    }
}
