//! What a failing device does to the thread that uses it: it panics, somewhere within burn. This makes an error of it.
//!
//! In: work on a device. Out: its result, or what the device reported, as text and as what it means.
//! burn has no errors for launches; a backend that can't allocate, or whose device is gone, panics in the caller or in its
//! own thread, or fails the next read. A panic that isn't about a device passes through: it is a mistake of ours.

use kiln_device::Trouble;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What a device reported.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    pub(crate) trouble: Trouble,
}

/// Runs `work`, and catches the panic of a failing device.
///
/// What `work` borrowed mutably may be left half-changed: the caller puts it back or drops it.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).or_else(|panic| {
        let reason = message(panic.as_ref());
        match Trouble::of(&reason) {
            Some(trouble) => Err(Failure { reason: one_line(&reason), trouble }),
            None => resume_unwind(panic),
        }
    })
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Without the backtrace that a backend puts behind its message.
fn one_line(reason: &str) -> String {
    let lines =
        reason.lines().map(str::trim).take_while(|line| !line.starts_with("Backtrace") && !line.starts_with("0:"));
    lines.filter(|line| !line.is_empty() && *line != "Caused by:").collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_s_panic_is_a_failure_and_any_other_goes_on() {
        let text = "An out-of-memory error happened during launch\nCaused by:\n  pool is full\nBacktrace\n  0: main";
        let failure = guarded(|| panic!("{text}")).expect_err("a failure");
        assert_eq!(failure.trouble, Trouble::OutOfMemory);
        assert_eq!(failure.reason, "An out-of-memory error happened during launch: pool is full");
        assert_eq!(guarded(|| 3), Ok(3));
        let other = catch_unwind(|| guarded(|| panic!("index 3 of a list of 2")));
        assert!(other.is_err_and(|panic| message(panic.as_ref()).starts_with("index 3")));
    }
}
