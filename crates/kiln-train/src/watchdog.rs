//! Notices when a run doesn't get on, and says what it waits for.
//!
//! In: what the training thread is about to wait for, each time it is. Out: a warning when it has waited for longer than
//! makes sense, and again after as long. A stuck driver or file system can't be talked to: the process has to be ended, and
//! the run goes on from its newest checkpoint.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What the training thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The next batch.
    Loader,
    /// A step or a validation batch.
    Device,
}

impl Waiting {
    /// A warning for a person.
    fn warning(self, minutes: f64) -> String {
        let (what, advice) = match self {
            Self::Loader => ("pictures", "is the disk or the network drive that they are on still there?"),
            Self::Device => ("the device", "`kiln doctor`, `sudo dmesg` or the event log may know why."),
        };
        format!(
            "no step for {minutes:.0} minutes: the run waits for {what}; {advice} If it stays like that, end the process \
             (Ctrl-C twice): --resume goes on from the newest checkpoint"
        )
    }
}

/// Watches one run; ends with it.
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: Waiting,
    since: Instant,
    over: bool,
}

impl Watchdog {
    /// Warns through `warn` whenever the run has waited for another `limit`. `None` watches nothing.
    pub(crate) fn start(limit: Option<Duration>, warn: impl Fn(String) + Send + 'static) -> Self {
        let state = State { waiting: Waiting::Device, since: Instant::now(), over: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let watched = shared.clone();
        let builder = thread::Builder::new().name("kiln-watchdog".into());
        // A run without its watchdog is as good as one with.
        let thread = limit.and_then(|limit| builder.spawn(move || watched.watch(limit, warn)).ok());
        Self { shared, thread }
    }

    /// The training thread is about to wait.
    pub(crate) fn waits_for(&self, waiting: Waiting) {
        let mut state = self.shared.lock();
        (state.waiting, state.since) = (waiting, Instant::now());
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, limit: Duration, warn: impl Fn(String)) {
        let mut state = self.lock();
        let mut warned = 0;
        while !state.over {
            let waited = state.since.elapsed();
            let limits = (waited.as_secs_f64() / limit.as_secs_f64()) as u32;
            if limits > warned {
                warn(state.waiting.warning(waited.as_secs_f64() / 60.0));
            }
            warned = limits;
            let next = limit * (limits + 1);
            state = match self.changed.wait_timeout(state, next.saturating_sub(waited)) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_run_that_waits_too_long_is_told_for_what_again_and_again() {
        let (sender, receiver) = channel();
        let watchdog = Watchdog::start(Some(Duration::from_millis(1)), move |text| {
            let _ = sender.send(text);
        });
        watchdog.waits_for(Waiting::Loader);
        let loader = receiver.iter().find(|text| text.contains("waits for pictures"));
        assert!(loader.is_some_and(|text| text.contains("--resume")));
        watchdog.waits_for(Waiting::Device);
        assert!(receiver.iter().any(|text| text.contains("waits for the device")));
        drop(watchdog);
        // Ends, since the thread does.
        receiver.iter().for_each(drop);
    }

    #[test]
    fn a_run_that_gets_on_is_left_alone() {
        let (sender, receiver) = channel();
        let watchdog = Watchdog::start(Some(Duration::from_secs(3600)), move |text| {
            let _ = sender.send(text);
        });
        watchdog.waits_for(Waiting::Device);
        drop(watchdog);
        assert!(receiver.recv().is_err(), "no warning, and the thread is over");
    }
}
