//! How many threads decode and how far they read ahead, learnt from who waits for whom.
//!
//! In: what the stages took over the last seconds. Out: another number of threads, another bound on waiting pictures, or
//! neither. It decides how fast batches come, never what is in them.
//!
//! | the step waits | workers wait for room | then |
//! | --- | --- | --- |
//! | yes | yes | pictures are of uneven cost: let more of them wait |
//! | yes | no | more threads, if there are idle cores or the threads are mostly waiting for storage; back again if it brought nothing |
//! | no | most of the time | after a while one thread less: it only competes for caches and memory |
//!
//! A number of threads that proved too small isn't tried again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::LoaderCounters;

/// Share of its time from which on a step counts as waiting.
const STARVED: f64 = 0.05;
/// Share of their time from which on workers count as waiting for room now and then.
const BLOCKED: f64 = 0.05;
/// Share of their time from which on workers count as idle.
const IDLE: f64 = 0.6;
/// Stretches in a row with idle workers before one of them goes.
const PATIENCE: u32 = 3;
/// What more threads have to bring, as a factor of the images per second.
const GAIN: f64 = 1.05;
/// Threads per core where they wait for storage, and the fewest and most that this may mean.
const PER_CORE: usize = 8;
const MOST_WORKERS: [usize; 2] = [8, 64];
/// The share of the bound on waiting pictures to begin with.
const FIRST_SHARE: usize = 4;

/// How hard the loader works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effort {
    /// Decoding threads.
    pub(super) workers: usize,
    /// Bytes of pictures that may wait for their turn.
    pub(super) read_ahead: usize,
}

/// What the stages did over a stretch of an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    secs: f64,
    images: f64,
    /// Seconds the step waited.
    starved_secs: f64,
    /// Seconds of all workers.
    read_secs: f64,
    decode_secs: f64,
    blocked_secs: f64,
}

/// What was decided, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Decision {
    pub(super) effort: Effort,
    pub(super) why: &'static str,
    /// Share of the stretch that the step waited, 0–1.
    pub(super) starved: f64,
}

/// What a loader has learnt; it lasts from epoch to epoch.
pub(super) struct Tuning(Mutex<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    effort: Effort,
    cores: usize,
    most_read_ahead: usize,
    /// Fewest and most threads still worth trying; the same if the number was given.
    fewest: usize,
    most: usize,
    /// The number before the last increase, and the images per second it gave.
    before: Option<(usize, f64)>,
    calm: u32,
}

impl Stretch {
    /// The difference of two snapshots that are `secs` apart.
    pub(super) fn between(before: &LoaderCounters, now: &LoaderCounters, secs: f64) -> Self {
        Self {
            secs,
            images: now.queue.since(&before.queue).images as f64,
            starved_secs: now.wait.since(&before.wait).secs,
            read_secs: now.read.since(&before.read).secs,
            decode_secs: now.decode.since(&before.decode).secs,
            blocked_secs: now.queue.since(&before.queue).secs,
        }
    }
}

impl Tuning {
    /// Begins with one thread a core, or stays with `workers` if it isn't 0; at most `most_read_ahead` bytes may wait.
    pub(super) fn new(workers: usize, cores: usize, most_read_ahead: usize) -> Self {
        let [least, most] = MOST_WORKERS;
        let (first, fewest, most) = match workers {
            0 => (cores, 1, (cores * PER_CORE).clamp(least, most).max(cores)),
            fixed => (fixed, fixed, fixed),
        };
        let effort = Effort { workers: first, read_ahead: (most_read_ahead / FIRST_SHARE).max(1) };
        Self(Mutex::new(State { effort, cores, most_read_ahead, fewest, most, before: None, calm: 0 }))
    }

    pub(super) fn effort(&self) -> Effort {
        self.state().effort
    }

    /// Learns from a stretch; says what to change.
    pub(super) fn learn(&self, stretch: &Stretch) -> Option<Decision> {
        let mut state = self.state();
        let before = state.effort;
        let why = state.learn(stretch)?;
        let effort = state.effort;
        (effort != before).then_some(Decision { effort, why, starved: stretch.starved_secs / stretch.secs })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Numbers: whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn learn(&mut self, stretch: &Stretch) -> Option<&'static str> {
        let blocked = stretch.blocked_secs / (stretch.secs * self.effort.workers as f64);
        let rate = stretch.images / stretch.secs;
        let starved = stretch.starved_secs / stretch.secs;
        let calm = std::mem::take(&mut self.calm);
        if starved >= STARVED {
            return match blocked >= BLOCKED {
                true => self.read_further_ahead(),
                false => self.hire(rate, stretch.read_secs > stretch.decode_secs),
            };
        }
        self.before = None;
        if blocked < IDLE || starved > STARVED / 5.0 || self.effort.workers <= self.fewest {
            return None;
        }
        self.calm = calm + 1;
        if self.calm < PATIENCE {
            return None;
        }
        self.calm = 0;
        self.effort.workers -= 1;
        Some("its threads are mostly idle")
    }

    fn read_further_ahead(&mut self) -> Option<&'static str> {
        self.effort.read_ahead = self.effort.read_ahead.saturating_mul(2).min(self.most_read_ahead);
        Some("the step waits although threads are idle at times")
    }

    fn hire(&mut self, rate: f64, waits_for_storage: bool) -> Option<&'static str> {
        let workers = self.effort.workers;
        let before = self.before.take();
        if let Some((fewer, _)) = before.filter(|(_, rate_before)| rate < GAIN * rate_before) {
            self.effort.workers = fewer;
            (self.fewest, self.most) = (self.fewest.min(fewer), fewer);
            return Some("more threads brought nothing");
        }
        let most = if waits_for_storage { self.most } else { self.most.min(self.cores) };
        if workers >= most {
            return None;
        }
        self.before = Some((workers, rate));
        self.effort.workers = (workers + workers.div_ceil(2)).min(most);
        // What is too few once isn't tried again.
        self.fewest = self.fewest.max(workers + 1);
        Some(if waits_for_storage { "the step waits, and the threads for storage" } else { "the step waits" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds of two-core work: shares of the step's and of each worker's time.
    fn stretch(tuning: &Tuning, starved: f64, [read, decode, blocked]: [f64; 3], images: f64) -> Option<Decision> {
        let worker_secs = 10.0 * tuning.effort().workers as f64;
        tuning.learn(&Stretch {
            secs: 10.0,
            images,
            starved_secs: 10.0 * starved,
            read_secs: read * worker_secs,
            decode_secs: decode * worker_secs,
            blocked_secs: blocked * worker_secs,
        })
    }

    const READING: [f64; 3] = [0.9, 0.1, 0.0];
    const DECODING: [f64; 3] = [0.1, 0.9, 0.0];
    const IDLING: [f64; 3] = [0.1, 0.1, 0.8];

    #[test]
    fn threads_that_wait_for_storage_get_company_as_long_as_it_helps() {
        let tuning = Tuning::new(0, 2, 1000);
        let mut found = vec![tuning.effort().workers];
        for images in [100.0, 150.0, 250.0, 252.0, 250.0, 250.0] {
            stretch(&tuning, 0.5, READING, images);
            found.push(tuning.effort().workers);
        }
        assert_eq!(found, [2, 3, 5, 8, 5, 5, 5]);
    }

    #[test]
    fn threads_that_keep_all_cores_busy_get_none() {
        let tuning = Tuning::new(0, 2, 1000);
        assert_eq!(stretch(&tuning, 0.9, DECODING, 100.0), None);
    }

    #[test]
    fn idle_threads_go_one_by_one_and_come_back_once_they_are_missed() {
        let tuning = Tuning::new(0, 4, 1000);
        let mut found = Vec::new();
        for _ in 0..9 {
            stretch(&tuning, 0.0, IDLING, 100.0);
            found.push(tuning.effort().workers);
        }
        assert_eq!(found, [4, 4, 3, 3, 3, 2, 2, 2, 1]);
        let decision = stretch(&tuning, 0.3, DECODING, 100.0).expect("a core is free");
        assert_eq!((decision.effort.workers, decision.why), (2, "the step waits"));
        for _ in 0..9 {
            assert_eq!(stretch(&tuning, 0.0, IDLING, 200.0), None, "one was too few");
        }
    }

    #[test]
    fn pictures_of_uneven_cost_may_wait_in_larger_numbers_up_to_the_bound() {
        let tuning = Tuning::new(0, 2, 1000);
        let found: Vec<_> = (0..4)
            .map(|_| {
                stretch(&tuning, 0.2, [0.1, 0.6, 0.3], 100.0);
                tuning.effort().read_ahead
            })
            .collect();
        assert_eq!(found, [500, 1000, 1000, 1000]);
        assert_eq!(tuning.effort().workers, 2);
    }

    #[test]
    fn a_number_of_threads_that_was_asked_for_stays() {
        let tuning = Tuning::new(5, 2, 1000);
        for shares in [READING, DECODING] {
            assert_eq!(stretch(&tuning, 0.5, shares, 100.0), None);
        }
        (0..9).for_each(|_| assert_eq!(stretch(&tuning, 0.0, IDLING, 100.0), None));
        assert_eq!(tuning.effort().workers, 5);
    }

    #[test]
    fn a_loader_that_keeps_up_is_left_alone() {
        let tuning = Tuning::new(0, 2, 1000);
        (0..9).for_each(|_| assert_eq!(stretch(&tuning, 0.02, [0.2, 0.5, 0.3], 100.0), None));
    }
}
