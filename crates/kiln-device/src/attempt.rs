//! Tries something that may panic or never end, and turns either into a reason.
//!
//! A burn backend that can't start panics twice: in its own device thread with the real message, then in the
//! caller with "the channel is closed". [`attempt`] reports the first, and keeps both off the terminal. What is
//! tried runs in a thread of its own; if it doesn't end in time it is abandoned there.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook},
    sync::{
        Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// How many attempts are under way.
static NUM_ATTEMPTS: AtomicUsize = AtomicUsize::new(0);

/// What panicking device threads said during the attempts under way, in order.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether this thread is an attempt's own.
    static IS_ATTEMPT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `action` in a thread and waits at most `deadline` for its result.
///
/// The first call wraps the process's panic hook; panics that have nothing to do with an attempt pass through
/// to the hook that was there before.
///
/// # Errors
/// The message of the first panic, or that there was no answer in time, as a phrase.
pub(crate) fn attempt<T: Send + 'static>(
    deadline: Duration,
    action: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    wrap_panic_hook();
    if NUM_ATTEMPTS.fetch_add(1, Ordering::SeqCst) == 0 {
        messages().clear();
    }
    let (sender, receiver) = mpsc::channel();
    let started = thread::Builder::new().name("kiln-attempt".to_owned()).spawn(move || {
        IS_ATTEMPT.set(true);
        // The receiver is gone if the deadline has passed.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(action)));
    });
    let outcome = match started {
        Err(error) => Err(format!("no thread could be started ({error})")),
        Ok(_) => match receiver.recv_timeout(deadline) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(payload)) => {
                let first = messages().first().cloned();
                Err(one_line(&first.unwrap_or_else(|| message(payload.as_ref()))))
            }
            Err(_) => Err(no_answer(deadline)),
        },
    };
    NUM_ATTEMPTS.fetch_sub(1, Ordering::SeqCst);
    outcome
}

/// The phrase for an answer that didn't come in time.
pub(crate) fn no_answer(deadline: Duration) -> String {
    format!("no answer within {} s; a restart of the machine usually cures that", deadline.as_secs_f32())
}

fn wrap_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            if is_expected() {
                record(info);
            } else {
                previous(info);
            }
        }));
    });
}

/// Whether the current thread belongs to an attempt: its own, or one of cubecl's device threads (called
/// `DSU-...` and `DSD-...`) while one is under way.
fn is_expected() -> bool {
    if IS_ATTEMPT.try_with(Cell::get).unwrap_or(false) {
        return true;
    }
    let current = thread::current();
    let is_device_thread = current.name().is_some_and(|name| name.starts_with("DSU-") || name.starts_with("DSD-"));
    is_device_thread && NUM_ATTEMPTS.load(Ordering::SeqCst) > 0
}

fn record(info: &PanicHookInfo<'_>) {
    let text = info.payload_as_str().unwrap_or("a panic without a message");
    tracing::debug!("caught a panic: {text}");
    if !IS_ATTEMPT.try_with(Cell::get).unwrap_or(false) {
        messages().push(text.to_owned());
    }
}

fn messages() -> MutexGuard<'static, Vec<String>> {
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The text of a panic's payload.
fn message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

/// Panic messages can be pages of kernel source; a reason is a sentence.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    // What `unwrap` puts before the error itself.
    let text = text.trim_start_matches("called `Result::unwrap()` on an `Err` value: ");
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_panic_becomes_a_reason() {
        assert_eq!(attempt(LONG, || 7), Ok(7));
        let result: Result<(), _> = attempt(LONG, || panic!("no {}\n   device", "such"));
        let reason = result.expect_err("it panicked");
        // Another test's device thread may have panicked meanwhile.
        assert!(reason == "no such device" || reason == "libcuda is missing", "{reason}");
    }

    #[test]
    fn the_device_threads_own_message_is_preferred() {
        let result: Result<(), _> = attempt(LONG, || {
            let thread = thread::Builder::new()
                .name("DSD-0-0".to_owned())
                .spawn(|| panic!("libcuda is missing"))
                .expect("a thread");
            assert!(thread.join().is_ok(), "the channel is closed");
        });
        assert_eq!(result, Err("libcuda is missing".to_owned()));
    }

    #[test]
    fn what_never_ends_is_abandoned() {
        let result: Result<(), _> = attempt(Duration::from_millis(20), || {
            loop {
                thread::park();
            }
        });
        let reason = result.expect_err("nothing answers");
        assert!(reason.starts_with("no answer within 0.02 s"), "{reason}");
    }

    #[test]
    fn long_messages_are_cut() {
        let line = one_line(&"kernel source ".repeat(100));
        assert!(line.len() < 320 && line.ends_with(" ..."), "{line}");
    }
}
