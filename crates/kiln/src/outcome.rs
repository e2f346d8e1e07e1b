//! How a run ended, in the words for whoever started it, and as an exit code.

use crate::interrupt::INTERRUPTED;
use kiln_train::Summary;
use std::fmt;
use std::process::ExitCode;

/// How a run ended. Prints as a line or two.
pub struct Outcome<'a>(pub &'a Summary);

impl Outcome<'_> {
    /// Success, or 130 if the run was stopped by Ctrl-C.
    pub fn exit_code(&self) -> ExitCode {
        if self.0.stopped.is_some() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS }
    }
}

impl fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = self.0;
        if let Some(last) = &summary.last {
            writeln!(f, "val top-1 {:.1} % after epoch {}", 100.0 * last.val_top1, last.epoch)?;
        }
        if let (Some(best), Some(model)) = (&summary.best, &summary.best_model) {
            writeln!(f, "best {:.1} % in epoch {}: {}", 100.0 * best.val_top1, best.epoch, model.display())?;
        }
        match summary.stopped {
            Some(stopped) if stopped.steps_done > 0 => writeln!(
                f,
                "stopped and saved after step {} of epoch {}; --resume goes on from there",
                stopped.steps_done, stopped.epoch
            ),
            Some(stopped) => writeln!(f, "stopped before epoch {}; --resume goes on from there", stopped.epoch),
            None if summary.last.is_none() => {
                writeln!(f, "nothing to do: all {} epochs are done", summary.num_epochs_done)
            }
            None => Ok(()),
        }
    }
}
