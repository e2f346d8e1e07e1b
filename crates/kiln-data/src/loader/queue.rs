//! The decoding threads of one epoch and the pictures they have finished.
//!
//! In: positions of the epoch's order. Out: a picture or an error for each, taken in order.
//!
//! A worker takes the next position, makes the picture and leaves it here until its turn comes. It takes a
//! position only while the waiting pictures hold less than `queue_bytes`. Positions are taken in order, so the
//! picture the consumer waits for is always under way and the bound can't lock up. Beyond the bound there
//! is one picture per worker, and the batch the consumer is putting together.
//!
//! One lock and two condition variables: they are taken twice per picture, which takes milliseconds to make.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::{Loader, LoaderConfig, LoaderCounters, Skipped};
use crate::dataset::Dataset;
use crate::decode::{RgbImage, View, Window, panic_message, view_from_bytes};
use crate::error::DataError;
use crate::order::EpochOrder;

/// A picture that waits for its turn.
pub(super) struct Picture {
    pub(super) image: RgbImage,
    /// What of the picture that is.
    pub(super) view: View,
    pub(super) label: u32,
}

/// Says what will be looked at of the picture of a sample, of this width and height.
pub(crate) type Crop = Box<dyn Fn(u64, u32, u32) -> Window + Send + Sync>;

/// What a worker made of one position. The outer error is fatal, the inner one is about the file.
pub(super) type Outcome = Result<Result<Picture, DataError>, DataError>;

/// The pictures of one epoch between the workers that make them and the consumer that takes them.
pub(crate) struct Queue {
    dataset: Arc<dyn Dataset>,
    config: LoaderConfig,
    order: EpochOrder,
    num_positions: usize,
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

#[derive(Default)]
struct State {
    next_position: usize,
    finished: BTreeMap<usize, Outcome>,
    /// Decoded bytes in `finished`.
    bytes: usize,
    /// The largest `bytes` has been.
    peak_bytes: usize,
    cancelled: bool,
}

#[derive(Default)]
struct Costs {
    images: AtomicU64,
    encoded_bytes: AtomicU64,
    decoded_bytes: AtomicU64,
    read_nanos: AtomicU64,
    decode_nanos: AtomicU64,
    wait_nanos: AtomicU64,
}

impl Queue {
    pub(super) fn new(loader: &Loader, order: EpochOrder, num_positions: usize) -> Self {
        Self {
            dataset: loader.dataset.clone(),
            config: loader.config.clone(),
            order,
            num_positions,
            crop: OnceLock::new(),
            state: Mutex::default(),
            room: Condvar::new(),
            finished: Condvar::new(),
            skipped: Mutex::default(),
            costs: Costs::default(),
        }
    }

    /// Has the workers decode no more than `crop` says. Without effect once they have started.
    pub(super) fn fit_to(&self, crop: Crop) {
        let _ = self.crop.set(crop);
    }

    pub(super) fn config(&self) -> &LoaderConfig {
        &self.config
    }

    pub(super) fn num_positions(&self) -> usize {
        self.num_positions
    }

    /// The sample at a position of the epoch.
    pub(super) fn sample(&self, position: usize) -> usize {
        self.order.sample(position)
    }

    /// The most bytes that have waited at once.
    #[cfg(test)]
    pub(super) fn peak_bytes(&self) -> usize {
        lock(&self.state).peak_bytes
    }

    /// A worker's life: take a position, make a picture, hand it over.
    pub(super) fn work(&self) {
        while let Some(position) = self.next_position() {
            let outcome = catch_unwind(AssertUnwindSafe(|| self.picture(self.order.sample(position))));
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

    /// Waits for room and takes the next position; `None` at the end of the epoch.
    fn next_position(&self) -> Option<usize> {
        let mut state = lock(&self.state);
        loop {
            if state.cancelled || state.next_position == self.num_positions {
                return None;
            }
            if state.bytes < self.config.queue_bytes {
                state.next_position += 1;
                return Some(state.next_position - 1);
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads and decodes one sample.
    fn picture(&self, sample: usize) -> Result<Picture, DataError> {
        let start = Instant::now();
        let read = self.dataset.sample(sample);
        add_time(&self.costs.read_nanos, start);
        let read = read?;
        self.costs.encoded_bytes.fetch_add(read.encoded.len() as u64, Ordering::Relaxed);

        let start = Instant::now();
        let wanted = |width, height| match self.crop.get() {
            Some(crop) => crop(sample as u64, width, height),
            None => Window::whole(width, height),
        };
        let decoded = view_from_bytes(&read.encoded, &self.config.decode, wanted);
        add_time(&self.costs.decode_nanos, start);
        let (image, view) =
            decoded.map_err(|verdict| DataError::Decode { name: self.dataset.name(sample), sample, verdict })?;
        self.costs.images.fetch_add(1, Ordering::Relaxed);
        self.costs.decoded_bytes.fetch_add(image.pixels.len() as u64, Ordering::Relaxed);
        Ok(Picture { image, view, label: read.label })
    }

    /// Waits for the picture at `position` and takes it out of the state.
    pub(super) fn take(&self, position: usize) -> Outcome {
        let start = Instant::now();
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
            state.bytes -= picture.image.pixels.len();
        }
        drop(state);
        self.room.notify_all();
        add_time(&self.costs.wait_nanos, start);
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

    pub(crate) fn counters(&self) -> LoaderCounters {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let secs = |counter: &AtomicU64| Duration::from_nanos(count(counter)).as_secs_f64();
        LoaderCounters {
            images: count(&self.costs.images),
            skipped: lock(&self.skipped).len() as u64,
            encoded_bytes: count(&self.costs.encoded_bytes),
            decoded_bytes: count(&self.costs.decoded_bytes),
            read_secs: secs(&self.costs.read_nanos),
            decode_secs: secs(&self.costs.decode_nanos),
            wait_secs: secs(&self.costs.wait_nanos),
        }
    }
}

/// Locks, also after a panic elsewhere: every critical section above leaves its data whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add_time(counter: &AtomicU64, start: Instant) {
    counter.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
}

pub(super) fn worker_error(message: String) -> DataError {
    DataError::Worker { thread: "decoding", message }
}
