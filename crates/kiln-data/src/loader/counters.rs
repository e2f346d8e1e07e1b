//! What the stages between a file and the training step have done, and what it has cost.
//!
//! In: each stage adds to its own counts, from any thread, in a few atomic additions a picture or a batch. Out:
//! [`LoaderCounters`], a snapshot; `kiln bench loader` and the trainer's verdict read the same.
//!
//! | stage | who | its seconds |
//! | --- | --- | --- |
//! | read | workers | in [`Dataset::sample`](crate::Dataset::sample) |
//! | decode | workers | from encoded bytes to RGB |
//! | cache | workers | pictures that were in memory; no seconds worth counting |
//! | queue | workers | with nothing to do, because enough pictures wait: what could still be used |
//! | upload | upload thread | to draw the programs and copy the bytes to the device |
//! | wait | consumer | for the next batch: what data costs the training step |

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

/// What one stage has done. Seconds of different threads add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StageCounters {
    /// Pictures that have passed.
    pub images: u64,
    /// Their bytes: encoded ones where files are read, RGB afterwards.
    pub bytes: u64,
    /// Seconds it took, over all threads of the stage.
    pub secs: f64,
}

/// What an epoch has done and cost so far; an epoch begun midway counts its own part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LoaderCounters {
    /// Files read.
    pub read: StageCounters,
    /// Pictures decoded.
    pub decode: StageCounters,
    /// Pictures found in the cache, which were neither read nor decoded.
    pub cache: StageCounters,
    /// Pictures taken out of the queue in order; the seconds are those that workers waited for room in it.
    pub queue: StageCounters,
    /// Pictures copied to the device.
    pub upload: StageCounters,
    /// Pictures handed to the consumer; the seconds are those that it waited for them.
    pub wait: StageCounters,
    /// Files left out.
    pub skipped: u64,
    /// Decoding threads, as wanted last.
    pub workers: u64,
}

impl StageCounters {
    /// Pictures per second of one thread that does nothing else; `None` as long as it took no time.
    pub fn images_per_sec(&self) -> Option<f64> {
        (self.secs > 0.0).then(|| self.images as f64 / self.secs)
    }

    /// What was added since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            images: self.images.saturating_sub(before.images),
            bytes: self.bytes.saturating_sub(before.bytes),
            secs: (self.secs - before.secs).max(0.0),
        }
    }

    fn plus(&self, other: &Self) -> Self {
        Self { images: self.images + other.images, bytes: self.bytes + other.bytes, secs: self.secs + other.secs }
    }
}

impl LoaderCounters {
    /// Share of the pictures that were in the cache, 0–1; 0 before the first.
    pub fn hit_fraction(&self) -> f64 {
        let all = self.cache.images + self.read.images;
        if all == 0 { 0.0 } else { self.cache.images as f64 / all as f64 }
    }

    /// Several epochs taken together; the number of workers is that of `other`.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            read: self.read.plus(&other.read),
            decode: self.decode.plus(&other.decode),
            cache: self.cache.plus(&other.cache),
            queue: self.queue.plus(&other.queue),
            upload: self.upload.plus(&other.upload),
            wait: self.wait.plus(&other.wait),
            skipped: self.skipped + other.skipped,
            workers: other.workers,
        }
    }
}

/// The counts as the threads add to them.
#[derive(Default)]
pub(crate) struct Costs {
    pub(super) read: Stage,
    pub(super) decode: Stage,
    pub(super) cache: Stage,
    pub(super) queue: Stage,
    pub(crate) upload: Stage,
    pub(crate) wait: Stage,
}

/// One stage's counts.
#[derive(Default)]
pub(crate) struct Stage {
    images: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
}

impl Stage {
    /// Counts pictures that have passed, and the time they took.
    pub(crate) fn add(&self, images: usize, bytes: usize, took: Duration) {
        self.images.fetch_add(images as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.add_time(took);
    }

    /// Counts time in which nothing passed.
    pub(crate) fn add_time(&self, took: Duration) {
        self.nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> StageCounters {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let secs = Duration::from_nanos(count(&self.nanos)).as_secs_f64();
        StageCounters { images: count(&self.images), bytes: count(&self.bytes), secs }
    }
}

impl Costs {
    pub(super) fn now(&self, skipped: usize, workers: usize) -> LoaderCounters {
        LoaderCounters {
            read: self.read.now(),
            decode: self.decode.now(),
            cache: self.cache.now(),
            queue: self.queue.now(),
            upload: self.upload.now(),
            wait: self.wait.now(),
            skipped: skipped as u64,
            workers: workers as u64,
        }
    }
}
