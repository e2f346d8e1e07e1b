//! Reads and decodes an epoch on several threads and delivers it in order, as batches of bytes.
//!
//! In: a [`Dataset`]. Out: [`HostBatch`](crate::HostBatch)es, the same for any number of workers.
//!
//! A batch covers a fixed range of positions of the epoch's order, so that an epoch can begin at any batch without reading
//! those before it, and beginning takes the same moment for ten samples as for millions: `loader/plan.rs` computes the
//! range, `loader/sampling.rs` the sample at a position. The batches of an epoch are in `loader/epoch.rs`, the workers and
//! the bound on memory in `loader/queue.rs`.
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
//! **Adapting** (`loader/tuning.rs`): how many threads decode, unless the options say, and how far they read ahead follows
//! from who waits for whom, and is told as an `info` event. **Cache** (`loader/cache.rs`): decoded pictures stay in memory
//! as far as a budget allows. Neither changes what a batch holds.
//!
//! Not done here: decoding (`decode.rs`), copies to a device (`upload.rs`).

mod cache;
mod counters;
mod epoch;
mod measure;
mod plan;
mod queue;
mod sampling;
mod shorter_side;
mod tuning;
mod weighted;

use std::sync::Arc;
use std::thread;

use serde::{Deserialize, Serialize};

use cache::Cache;
pub use counters::{LoaderCounters, StageCounters};
pub use epoch::EpochBatches;
pub use measure::{Bound, Feed, LoaderReport, MeasureConfig, WorkerShares};
use plan::Plan;
pub(crate) use queue::Queue;
use sampling::{EpochSamples, Sampler};
pub use sampling::{Sampling, Shard};
use tuning::Tuning;

use crate::dataset::Dataset;
use crate::decode::DecodeOptions;
use crate::error::DataError;

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoaderConfig {
    /// Images in a batch. Default 32.
    pub batch_size: usize,
    /// Decoding threads; 0, the default, begins with one per core and adapts.
    pub workers: usize,
    /// Random order of the samples, another one each epoch. Default true; false for validation.
    pub shuffle: bool,
    /// Determines the order together with the epoch. Default 0.
    pub seed: u64,
    /// How the samples of a shuffled epoch are chosen. Default: each exactly once.
    pub sampling: Sampling,
    /// The part of every epoch that this process takes. Default: all of it.
    pub shard: Shard,
    /// Leave out a last batch that isn't full, unless it is the only one, and the samples that can't be dealt out evenly
    /// to the processes of `shard`. Default false.
    pub drop_last: bool,
    /// End every epoch after this many batches. Default `None`: never.
    pub limit_batches: Option<usize>,
    /// Most bytes that decoded pictures may take while they wait for their turn; a quarter at first, and as many as it
    /// turns out to need. Default 256 MiB: two batches of 256 pictures of 500x375.
    pub queue_bytes: usize,
    /// Bytes of memory for decoded pictures that later epochs take from there instead of decoding them again. Default 0.
    pub cache_bytes: usize,
    /// Shrink pictures whose shorter side is longer than this many pixels right after decoding, in the cache and beside
    /// it. Default 0: leave them as they are.
    pub shorter_side: u32,
    /// What to do with a damaged file. Default: skip it.
    pub on_error: OnError,
    /// How files are decoded, and what one may cost.
    pub decode: DecodeOptions,
}

impl Default for LoaderConfig {
    fn default() -> Self {
        Self {
            batch_size: 32,
            workers: 0,
            shuffle: true,
            seed: 0,
            sampling: Sampling::EverySample,
            shard: Shard::default(),
            drop_last: false,
            limit_batches: None,
            queue_bytes: 256 << 20,
            cache_bytes: 0,
            shorter_side: 0,
            on_error: OnError::Skip,
            decode: DecodeOptions::default(),
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

/// Delivers epochs of a data set.
pub struct Loader {
    dataset: Arc<dyn Dataset>,
    config: LoaderConfig,
    sampler: Sampler,
    plan: Plan,
    cache: Option<Arc<Cache>>,
    tuning: Arc<Tuning>,
}

impl Loader {
    /// Checks the options and makes the tables of weighted sampling, if asked for; starts nothing.
    ///
    /// # Errors
    /// [`DataError::Config`] with every problem, also if the data set is empty.
    pub fn new(dataset: Arc<dyn Dataset>, config: LoaderConfig) -> Result<Self, DataError> {
        let mut problems = config.validate().err().unwrap_or_default();
        match dataset.is_empty() {
            true => problems.push("the data set has no images".into()),
            false => problems.extend(sampling::problems(dataset.as_ref(), &config)),
        }
        if !problems.is_empty() {
            return Err(DataError::Config { what: "loader options", problems });
        }
        let sampler = Sampler::new(dataset.as_ref(), &config.sampling);
        let plan = Plan::new(config.shard.num_positions(dataset.len(), config.drop_last), &config);
        let cache = (config.cache_bytes > 0).then(|| Arc::new(Cache::new(config.cache_bytes)));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let tuning = Arc::new(Tuning::new(config.workers, cores, config.queue_bytes));
        Ok(Self { dataset, config, sampler, plan, cache, tuning })
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
        self.plan.num_batches()
    }

    /// Images in an epoch in which no file is damaged.
    pub fn num_samples(&self) -> usize {
        self.plan.num_positions()
    }

    /// Begins one epoch. Its workers start with the first batch asked for; dropping the result stops them.
    pub fn epoch(&self, epoch: u32) -> EpochBatches {
        self.epoch_from(epoch, 0)
    }

    /// Begins one epoch at its batch `step`, as if those before it had been taken; nothing of those is read.
    ///
    /// What a run has to keep to go on later is [`EpochBatches::next_step`]. A `step` behind the last gives no batch.
    pub fn epoch_from(&self, epoch: u32, step: usize) -> EpochBatches {
        let samples = EpochSamples::new(self.dataset.len(), self.sampler.clone(), &self.config, epoch);
        EpochBatches::new(self, epoch, step, samples)
    }

    fn num_workers(&self, num_positions: usize) -> usize {
        self.tuning.effort().workers.min(num_positions)
    }
}

#[cfg(test)]
mod tests;
