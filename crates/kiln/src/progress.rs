//! The progress of a run on a terminal: a bar that moves, and one line an epoch that stays.
//!
//! Everything goes to standard error. Where that isn't a terminal there is no bar, only the lines.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kiln_train::{EpochReport, Notice, Observer, Started, StepReport, ValidationReport};
use std::fmt::Write;

/// Draws a run on standard error.
pub struct TerminalProgress {
    bar: ProgressBar,
}

impl TerminalProgress {
    /// A bar that appears with the first step.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len}  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar }
    }

    /// Writes a line above the bar.
    fn line(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    fn show(&self, prefix: String, position: usize, length: usize, message: String) {
        self.bar.set_length(length as u64);
        self.bar.set_position(position as u64);
        self.bar.set_prefix(prefix);
        self.bar.set_message(message);
    }
}

impl Default for TerminalProgress {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for TerminalProgress {
    fn started(&mut self, started: &Started) {
        self.line(&format!("device   {}", started.device));
        self.line(&format!(
            "data     {} training and {} validation images, {} classes: {}",
            started.num_train_images,
            started.num_val_images,
            started.classes.len(),
            abridged(&started.classes)
        ));
        self.line(&format!(
            "run      {} epochs of {} steps of {} images; {:.1} M parameters; results in {}",
            started.num_epochs,
            started.steps_per_epoch,
            started.batch_size,
            started.num_parameters as f64 / 1e6,
            started.output.display()
        ));
        if let Some(resumed) = &started.resumed {
            for damaged in &resumed.damaged {
                self.line(&format!("warning  {damaged}"));
            }
            for changed in &resumed.changed {
                self.line(&format!("warning  the recipe has changed since: {changed}"));
            }
            let step = match resumed.num_batches_done {
                0 => String::new(),
                steps => format!(" and {steps} steps"),
            };
            self.line(&format!("resumed  after epoch {}{step}", resumed.num_epochs_done));
        }
    }

    fn step(&mut self, report: &StepReport) {
        let mut message = String::new();
        if let Some(loss) = report.loss {
            let _ = write!(message, "loss {loss:.3}  ");
        }
        if let Some(speed) = report.images_per_sec {
            let _ = write!(message, "{speed:.1} img/s  ");
        }
        let _ = write!(message, "waiting for data {:.0} %  ", 100.0 * report.data_wait_fraction);
        if let Some(eta) = report.epoch_eta_secs {
            let _ = write!(message, "{} left", duration(eta));
        }
        if report.compiling {
            message = "compiling kernels for this device (first run only; may take minutes)".into();
        }
        let prefix = format!("epoch {}/{}", report.epoch, report.num_epochs);
        self.show(prefix, report.step, report.num_steps, message);
    }

    fn validation_step(&mut self, report: &ValidationReport) {
        self.show("validating".into(), report.step, report.num_steps, String::new());
    }

    fn notice(&mut self, notice: &Notice) {
        self.line(&format!("notice   {notice}"));
    }

    fn epoch(&mut self, report: &EpochReport) {
        let m = &report.metrics;
        self.line(&format!(
            "epoch {}/{}  loss {:.3}  train {:.1} %  val {:.1} % (top-5 {:.1} %)  {:.1} img/s  waiting for data {:.0} %  {}{}",
            m.epoch,
            report.num_epochs,
            m.train_loss,
            100.0 * m.train_top1,
            100.0 * m.val_top1,
            100.0 * m.val_top5,
            m.images_per_sec,
            100.0 * m.data_wait_fraction,
            duration(m.train_secs + m.val_secs),
            if report.best { "  best" } else { "" }
        ));
        if let Some(held_back) = &m.held_back {
            self.line(&format!("          {held_back}"));
        }
        for skipped in &report.skipped {
            self.line(&format!("skipped  {}: {}", skipped.name, skipped.reason));
        }
        if report.metrics.epoch == report.num_epochs {
            self.bar.finish_and_clear();
        }
    }
}

/// The first few names, and how many more there are.
fn abridged(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let more = names.len().saturating_sub(SHOWN);
    let shown = names[..names.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// `58 s`, `4 min 05 s`, `2 h 13 min`.
fn duration(secs: f64) -> String {
    let total = secs.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {seconds:02} s"),
        _ => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::{abridged, duration};

    #[test]
    fn durations_are_written_as_people_say_them() {
        assert_eq!(duration(57.6), "58 s");
        assert_eq!(duration(245.0), "4 min 05 s");
        assert_eq!(duration(7980.0), "2 h 13 min");
    }

    #[test]
    fn long_lists_of_classes_are_abridged() {
        let names: Vec<String> = (0..12).map(|i| i.to_string()).collect();
        assert_eq!(abridged(&names[..2]), "0, 1");
        assert!(abridged(&names).ends_with("9 and 2 more"));
    }
}
