//! The decoding threads of one epoch and the pictures they have finished.
//!
//! In: positions of the epoch's order. Out: a picture or an error for each, taken in order.
//!
//! A worker takes the next position, makes the picture and leaves it here until its turn comes. It takes a
//! position only while the waiting pictures hold less than the bound, `queue_bytes` at most. Positions are taken in
//! order, so the picture the consumer waits for is always under way and the bound can't lock up. Beyond the bound there
//! is one picture per worker, and the batch the consumer is putting together.
//!
//! The bound and the number of workers may change while they work (`loader/tuning.rs`): a worker too many leaves when it
//! would take its next position.
//!
//! One lock and two condition variables: they are taken twice per picture, which takes milliseconds to make.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::cache::Cache;
use super::counters::Costs;
use super::sampling::{Chosen, EpochSamples};
use super::shorter_side::shrink;
use super::tuning::Effort;
use super::{Loader, LoaderConfig, LoaderCounters, Skipped};
use crate::dataset::{Dataset, Sample};
use crate::decode::{RgbImage, View, Window, panic_message};
use crate::error::DataError;

/// A picture that waits for its turn, perhaps in the cache as well.
#[derive(Clone)]
pub(super) struct Picture {
    pub(super) image: Arc<RgbImage>,
    /// What of the picture that is.
    pub(super) view: View,
    pub(super) label: u32,
}

/// Says what a draw will look at of a picture of this width and height.
pub(crate) type Crop = Box<dyn Fn(u64, u32, u32) -> Window + Send + Sync>;

/// What a worker made of one position. The outer error is fatal, the inner one is about the file.
pub(super) type Outcome = Result<Result<Picture, DataError>, DataError>;

/// The pictures of one epoch between the workers that make them and the consumer that takes them.
pub(crate) struct Queue {
    dataset: Arc<dyn Dataset>,
    config: LoaderConfig,
    samples: EpochSamples,
    cache: Option<Arc<Cache>>,
    /// Position after the last.
    end: usize,
    /// Set before the workers start, or never: then pictures are decoded wholly.
    crop: OnceLock<Crop>,
    state: Mutex<State>,
    /// Signals workers: there is room, or the epoch is over.
    room: Condvar,
    /// Signals the consumer: a picture is finished.
    finished: Condvar,
    skipped: Mutex<Vec<Skipped>>,
    costs: Costs,
}

struct State {
    next_position: usize,
    finished: BTreeMap<usize, Outcome>,
    /// Decoded bytes in `finished`.
    bytes: usize,
    /// The largest `bytes` has been.
    peak_bytes: usize,
    cancelled: bool,
    /// Workers there are, and the bound on `bytes` and the number of workers there should be.
    num_workers: usize,
    effort: Effort,
}

impl Queue {
    pub(super) fn new(loader: &Loader, samples: EpochSamples, positions: Range<usize>) -> Self {
        let state = State {
            next_position: positions.start,
            finished: BTreeMap::new(),
            bytes: 0,
            peak_bytes: 0,
            cancelled: false,
            num_workers: 0,
            effort: loader.tuning.effort(),
        };
        Self {
            dataset: loader.dataset.clone(),
            config: loader.config.clone(),
            samples,
            cache: loader.cache.clone(),
            end: positions.end,
            crop: OnceLock::new(),
            state: Mutex::new(state),
            room: Condvar::new(),
            finished: Condvar::new(),
            skipped: Mutex::default(),
            costs: Costs::default(),
        }
    }

    /// Has the workers decode no more than `crop` says. Before they start: all pictures of an epoch are made alike.
    ///
    /// Pictures that are kept in the cache serve other crops too, and those to be shrunk are drawn for when they are.
    pub(super) fn fit_to(&self, crop: Crop) {
        if self.config.decode.fit_to_crop && self.cache.is_none() && self.config.shorter_side == 0 {
            let _ = self.crop.set(crop);
        }
    }

    pub(super) fn config(&self) -> &LoaderConfig {
        &self.config
    }

    /// What stands at a position of the epoch.
    pub(super) fn chosen(&self, position: usize) -> Chosen {
        self.samples.at(position)
    }

    /// The most bytes that have waited at once.
    #[cfg(test)]
    pub(super) fn peak_bytes(&self) -> usize {
        lock(&self.state).peak_bytes
    }

    /// A worker's life: take a position, make a picture, hand it over.
    pub(super) fn work(&self) {
        while let Some(position) = self.next_position() {
            let outcome = catch_unwind(AssertUnwindSafe(|| self.picture(self.chosen(position))));
            let outcome = outcome.map_err(|panic| worker_error(panic_message(&*panic)));
            let mut state = lock(&self.state);
            if let Ok(Ok(picture)) = &outcome {
                state.bytes += picture.image.pixels.len();
                state.peak_bytes = state.peak_bytes.max(state.bytes);
            }
            state.finished.insert(position, outcome);
            drop(state);
            self.finished.notify_one();
        }
    }

    /// Counts a worker that is about to start, or didn't.
    pub(super) fn count_worker(&self, started: bool) {
        let mut state = lock(&self.state);
        state.num_workers = if started { state.num_workers + 1 } else { state.num_workers.saturating_sub(1) };
    }

    /// Changes the bound and the number of workers; says how many workers are missing. Those too many leave by themselves.
    pub(super) fn set_effort(&self, effort: Effort) -> usize {
        let mut state = lock(&self.state);
        state.effort = effort;
        let left = self.end - state.next_position;
        let missing = effort.workers.saturating_sub(state.num_workers).min(left);
        drop(state);
        self.room.notify_all();
        missing
    }

    /// Waits for room and takes the next position; `None` at the end of the epoch, or if there are workers enough.
    fn next_position(&self) -> Option<usize> {
        let mut state = lock(&self.state);
        loop {
            if state.cancelled || state.next_position == self.end || state.num_workers > state.effort.workers {
                state.num_workers -= 1;
                return None;
            }
            if state.bytes < state.effort.read_ahead {
                state.next_position += 1;
                return Some(state.next_position - 1);
            }
            let start = Instant::now();
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            self.costs.queue.add_time(start.elapsed());
        }
    }

    /// The picture of one sample: from the cache, or read and decoded.
    fn picture(&self, chosen: Chosen) -> Result<Picture, DataError> {
        let sample = chosen.sample;
        let start = Instant::now();
        if let Some(picture) = self.cache.as_ref().and_then(|cache| cache.get(sample)) {
            self.costs.cache.add(1, picture.image.pixels.len(), start.elapsed());
            return Ok(picture);
        }
        let read = self.dataset.sample(sample);
        let took = start.elapsed();
        let Sample { content, label } = read.inspect_err(|_| self.costs.read.add_time(took))?;
        self.costs.read.add(1, content.bytes().len(), took);

        let start = Instant::now();
        let wanted = |width, height| match self.crop.get() {
            Some(crop) => crop(chosen.draw, width, height),
            None => Window::whole(width, height),
        };
        let decoded = content.into_view(&self.config.decode, wanted);
        let decoded = decoded.map(|(image, view)| {
            let is_whole = view == View::whole(image.width, image.height);
            let image = shrink(image, self.config.shorter_side);
            let view = if is_whole { View::whole(image.width, image.height) } else { view };
            (Arc::new(image), view)
        });
        let took = start.elapsed();
        let (image, view) = decoded.map_err(|verdict| {
            self.costs.decode.add_time(took);
            DataError::Decode { name: self.dataset.name(sample), sample, verdict }
        })?;
        self.costs.decode.add(1, image.pixels.len(), took);
        let picture = Picture { image, view, label };
        if let Some(cache) = &self.cache {
            cache.offer(sample, &picture);
        }
        Ok(picture)
    }

    /// Waits for the picture at `position` and takes it out of the state.
    pub(super) fn take(&self, position: usize) -> Outcome {
        let mut state = lock(&self.state);
        let outcome = loop {
            match state.finished.remove(&position) {
                Some(outcome) => break outcome,
                // Only a consumer that was told to stop from outside gets here: nobody will make the picture.
                None if state.cancelled => break Err(worker_error("the epoch was stopped".into())),
                None => state = self.finished.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        if let Ok(Ok(picture)) = &outcome {
            let bytes = picture.image.pixels.len();
            state.bytes -= bytes;
            self.costs.queue.add(1, bytes, Duration::ZERO);
        }
        drop(state);
        self.room.notify_all();
        outcome
    }

    /// Tells workers and consumer to stop.
    pub(crate) fn cancel(&self) {
        lock(&self.state).cancelled = true;
        self.room.notify_all();
        self.finished.notify_all();
    }

    pub(super) fn record_skip(&self, sample: usize, reason: String) {
        lock(&self.skipped).push(Skipped { name: self.dataset.name(sample), reason });
    }

    pub(crate) fn skipped(&self) -> Vec<Skipped> {
        lock(&self.skipped).clone()
    }

    /// The counts, for stages outside of this file to add to.
    pub(crate) fn costs(&self) -> &Costs {
        &self.costs
    }

    pub(crate) fn counters(&self) -> LoaderCounters {
        self.costs.now(lock(&self.skipped).len(), lock(&self.state).effort.workers)
    }
}

/// Locks, also after a panic elsewhere: every critical section above leaves its data whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn worker_error(message: String) -> DataError {
    DataError::Worker { thread: "decoding", message }
}
