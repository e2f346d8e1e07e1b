//! Ctrl-C and SIGTERM: the first asks the run to stop after its step, the second ends the program.

use kiln_train::StopFlag;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a program ended by Ctrl-C: 128 + SIGINT.
pub const INTERRUPTED: u8 = 130;

/// A flag that the first Ctrl-C or SIGTERM sets; a second one ends the program with code [`INTERRUPTED`].
///
/// The run then finishes its step and saves it, and its program ends with that code too. Call this once in a program. If no
/// handler can be installed, Ctrl-C ends the program as usual, and the run loses what it did since its last checkpoint.
pub fn stop_on_ctrl_c() -> StopFlag {
    let stop = StopFlag::default();
    let flag = stop.clone();
    let asked = AtomicBool::new(false);
    let installed = ctrlc::set_handler(move || {
        if asked.swap(true, Ordering::SeqCst) {
            std::process::exit(INTERRUPTED.into());
        }
        eprintln!("\nstopping after this step, which is saved; press Ctrl-C again to end at once");
        flag.stop();
    });
    if let Err(error) = installed {
        tracing::warn!("Ctrl-C will end the run at once, and what it did since its last checkpoint is lost: {error}");
    }
    stop
}
