//! Reads and decodes an epoch on several threads and delivers it in order, as batches of bytes.
//!
//! In: a [`Dataset`]. Out: [`HostBatch`]es, the same for any number of workers.
//!
//! A batch covers a fixed range of positions of the epoch's order, so that any batch can be named without
//! reading those before it. The workers and the bound on memory are in `loader/queue.rs`.
//!
//! **Damaged files** ([`OnError::Skip`]) are left out, counted and named; their batch is that much shorter, and
//! one of which nothing is left is passed over.
//!
//! **A batch of one image** can't train BatchNorm (its variance divides by zero where the picture has shrunk to one pixel).
//! A last batch of one joins the batch before it, in training and in validation alike. If damaged files leave
//! one image of a batch, a shuffled epoch (training) leaves that one out too and says so in
//! [`EpochBatches::skipped`]; an unshuffled one (validation) delivers it. Only a data set of one image or a
//! batch size of one gives a batch of one in training.
//!
//! Not done here: decoding (`decode.rs`), copies to a device (`upload.rs`), a cache of decoded pictures.

mod queue;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};

pub(crate) use queue::Queue;

use crate::batch::HostBatch;
use crate::dataset::Dataset;
use crate::decode::DecodeLimits;
use crate::error::DataError;
use crate::order::EpochOrder;

/// More threads than any machine has cores; beyond it a typing error starts threads until the system gives up.
const MAX_WORKERS: usize = 1024;

/// What to do with a file that can't be read or decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// Leave it out, count it and name it: one bad file doesn't end a night of training.
    #[default]
    Skip,
    /// End the epoch with the first one, in the order of the epoch.
    Fail,
}

/// How an epoch is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoaderConfig {
    /// Images in a batch. Default 32.
    pub batch_size: usize,
    /// Decoding threads; 0, the default, takes one per core.
    pub workers: usize,
    /// Random order of the samples, another one each epoch. Default true; false for validation.
    pub shuffle: bool,
    /// Determines the order together with the epoch. Default 0.
    pub seed: u64,
    /// Leave out a last batch that isn't full, unless it is the only one. Default false.
    pub drop_last: bool,
    /// End every epoch after this many batches. Default `None`: never.
    pub limit_batches: Option<usize>,
    /// Bytes that decoded pictures may take while they wait for their turn. Default 256 MiB: two batches of 256
    /// pictures of 500x375.
    pub queue_bytes: usize,
    /// What to do with a damaged file. Default: skip it.
    pub on_error: OnError,
    /// What a file may cost.
    pub decode: DecodeLimits,
}

impl Default for LoaderConfig {
    fn default() -> Self {
        Self {
            batch_size: 32,
            workers: 0,
            shuffle: true,
            seed: 0,
            drop_last: false,
            limit_batches: None,
            queue_bytes: 256 << 20,
            on_error: OnError::Skip,
            decode: DecodeLimits::default(),
        }
    }
}

impl LoaderConfig {
    /// Finds every option that can't work.
    ///
    /// # Errors
    /// One sentence a problem.
    pub fn validate(&self) -> Result<(), Vec<String>> {
        let positive = [
            ("batch_size", self.batch_size),
            ("limit_batches", self.limit_batches.unwrap_or(1)),
            ("queue_bytes", self.queue_bytes),
            ("decode.max_pixels", usize::try_from(self.decode.max_pixels).unwrap_or(usize::MAX)),
        ];
        let mut problems: Vec<_> =
            positive.iter().filter(|(_, value)| *value == 0).map(|(name, _)| format!("{name} is 0")).collect();
        if self.workers > MAX_WORKERS {
            problems.push(format!("workers is {}; at most {MAX_WORKERS} make sense", self.workers));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// A file that was left out of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Path within the data set.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What an epoch has cost so far. Seconds of different threads add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LoaderCounters {
    /// Pictures decoded.
    pub images: u64,
    /// Files left out.
    pub skipped: u64,
    /// Encoded bytes read.
    pub encoded_bytes: u64,
    /// Decoded bytes, three a pixel.
    pub decoded_bytes: u64,
    /// Seconds spent in [`Dataset::sample`], over all workers.
    pub read_secs: f64,
    /// Seconds spent decoding, over all workers.
    pub decode_secs: f64,
    /// Seconds [`EpochBatches::next`] waited for a picture.
    pub wait_secs: f64,
}

/// Delivers epochs of a data set.
pub struct Loader {
    dataset: Arc<dyn Dataset>,
    config: LoaderConfig,
}

impl Loader {
    /// Checks the options; starts nothing.
    ///
    /// # Errors
    /// [`DataError::Config`] with every problem, also if the data set is empty.
    pub fn new(dataset: Arc<dyn Dataset>, config: LoaderConfig) -> Result<Self, DataError> {
        let mut problems = config.validate().err().unwrap_or_default();
        if dataset.is_empty() {
            problems.push("the data set has no images".into());
        }
        match problems.is_empty() {
            true => Ok(Self { dataset, config }),
            false => Err(DataError::Config { what: "loader options", problems }),
        }
    }

    /// The data set the batches come from.
    pub fn dataset(&self) -> &Arc<dyn Dataset> {
        &self.dataset
    }

    /// The options in force.
    pub fn config(&self) -> &LoaderConfig {
        &self.config
    }

    /// Batches in an epoch in which no file is damaged.
    pub fn num_batches(&self) -> usize {
        self.batches().len()
    }

    /// Images in an epoch in which no file is damaged.
    pub fn num_samples(&self) -> usize {
        self.batches().last().map_or(0, |range| range.end)
    }

    /// Starts the workers on one epoch. Dropping the result stops them.
    pub fn epoch(&self, epoch: u32) -> EpochBatches {
        let (num_samples, seed) = (self.dataset.len(), self.config.seed);
        let order = match self.config.shuffle {
            true => EpochOrder::shuffled(num_samples, seed, epoch),
            false => EpochOrder::sequential(num_samples),
        };
        EpochBatches::start(self, epoch, order)
    }

    /// The positions of each batch.
    fn batches(&self) -> Vec<Range<usize>> {
        let (num_samples, size) = (self.dataset.len(), self.config.batch_size);
        let (full, rest) = (num_samples / size, num_samples % size);
        let mut batches: Vec<_> = (0..full).map(|index| index * size..(index + 1) * size).collect();
        match (batches.last_mut(), rest) {
            (_, 0) => {}
            (Some(_), _) if self.config.drop_last => {}
            (Some(last), 1) => last.end += 1,
            _ => batches.push(full * size..num_samples),
        }
        batches.truncate(self.config.limit_batches.unwrap_or(usize::MAX));
        batches
    }

    fn num_workers(&self, num_positions: usize) -> usize {
        let wanted = match self.config.workers {
            0 => thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        };
        wanted.min(num_positions)
    }
}

/// The batches of one epoch, in order.
///
/// After an error the iterator ends. Dropping it stops the workers: each finishes the picture in its hands.
pub struct EpochBatches {
    queue: Arc<Queue>,
    batches: std::vec::IntoIter<Range<usize>>,
    workers: Vec<JoinHandle<()>>,
    epoch: u32,
    /// Bytes of the largest batch so far: what the next one reserves.
    batch_bytes: usize,
    /// Something was returned: a batch or an error.
    has_answered: bool,
    /// Kept until the first call of `next`, because starting an epoch can't fail for its caller.
    start_error: Option<DataError>,
}

impl EpochBatches {
    fn start(loader: &Loader, epoch: u32, order: EpochOrder) -> Self {
        let batches = loader.batches();
        let num_positions = batches.last().map_or(0, |range| range.end);
        let queue = Arc::new(Queue::new(loader, order, num_positions));
        let mut started = Self {
            queue,
            batches: batches.into_iter(),
            workers: Vec::new(),
            epoch,
            batch_bytes: 0,
            has_answered: false,
            start_error: None,
        };
        for index in 0..loader.num_workers(num_positions) {
            let queue = started.queue.clone();
            let builder = thread::Builder::new().name(format!("kiln-decode-{index}"));
            match builder.spawn(move || queue.work()) {
                Ok(worker) => started.workers.push(worker),
                Err(error) => {
                    started.cannot_start_more(&error);
                    break;
                }
            }
        }
        started
    }

    /// Fewer workers than wanted are slower, none is an error.
    fn cannot_start_more(&mut self, error: &io::Error) {
        match self.workers.len() {
            0 => self.start_error = Some(queue::worker_error(error.to_string())),
            workers => tracing::warn!(%error, workers, "cannot start more decoding threads"),
        }
    }

    /// The files left out so far, in the order of the epoch.
    pub fn skipped(&self) -> Vec<Skipped> {
        self.queue.skipped()
    }

    /// What the epoch has cost so far.
    pub fn counters(&self) -> LoaderCounters {
        self.queue.counters()
    }

    pub(crate) fn queue(&self) -> Arc<Queue> {
        self.queue.clone()
    }

    /// Puts one batch together; `None` if nothing is left of it.
    fn assemble(&mut self, positions: Range<usize>) -> Result<Option<HostBatch>, DataError> {
        let mut batch = HostBatch::new(self.epoch);
        batch.pixels.reserve_exact(self.batch_bytes);
        for position in positions {
            let sample = self.queue.sample(position);
            match self.queue.take(position)? {
                Ok(picture) => batch.push(&picture.image, picture.label, sample as u64),
                Err(error) => self.leave_out(sample, error)?,
            }
        }
        self.batch_bytes = self.batch_bytes.max(batch.pixels.len());
        let config = self.queue.config();
        if batch.len() == 1 && config.shuffle && config.batch_size > 1 && self.queue.num_positions() > 1 {
            let reason = "the other files of its batch were skipped, and one image can't train BatchNorm";
            self.queue.record_skip(batch.samples[0] as usize, reason.into());
            return Ok(None);
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
        self.batches = Vec::new().into_iter();
        self.has_answered = true;
        self.queue.cancel();
        Some(Err(error))
    }
}

impl Iterator for EpochBatches {
    type Item = Result<HostBatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.start_error.take() {
            return self.fail(error);
        }
        while let Some(positions) = self.batches.next() {
            match self.assemble(positions) {
                Ok(Some(batch)) => {
                    self.has_answered = true;
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

#[cfg(test)]
mod tests;
