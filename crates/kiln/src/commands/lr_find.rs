//! `kiln lr-find`: which learning rate suits the data, from a short run, with a plot.

mod plot;

use anyhow::Context;
use clap::Args;
use kiln::TrainArgs;
use kiln_train::{LrCurve, LrSweep, lr_find};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln lr-find                                       on the small set Kiln draws itself
  kiln lr-find --data photos --recipe my.toml --plot my.svg
  kiln lr-find --data photos --weights resnet50.pth --reinit-head --end-lr 1    before fine-tuning

Exit code: 0 if all went well, 1 if not, 2 for a mistyped command line.";

/// Finds a learning rate: trains for a few steps with growing ones, and plots the loss
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LrFind {
    #[command(flatten)]
    options: TrainArgs,
    /// First learning rate
    #[arg(long, value_name = "RATE", default_value_t = LrSweep::default().start_lr)]
    start_lr: f64,
    /// Last learning rate
    #[arg(long, value_name = "RATE", default_value_t = LrSweep::default().end_lr)]
    end_lr: f64,
    /// Steps from one to the other
    #[arg(long, value_name = "N", default_value_t = LrSweep::default().steps)]
    steps: usize,
    /// Where the plot goes, an SVG picture
    #[arg(long, value_name = "FILE", default_value = "lr-find.svg")]
    plot: PathBuf,
}

pub(crate) fn run(args: &LrFind) -> anyhow::Result<ExitCode> {
    let options = &args.options;
    let device = kiln_device::open(&options.device)?;
    let (recipe, why) = options.recipe(&device)?;
    eprintln!("recipe   {why}");
    let data = options.open_data()?;
    eprintln!("device   {}", device.summary());
    let (model, loaded) = options.model(&recipe, data.train.classes(), &device)?;
    if let Some(report) = loaded {
        eprintln!("weights  {report}");
    }
    let sweep = LrSweep { start_lr: args.start_lr, end_lr: args.end_lr, steps: args.steps };
    let curve = lr_find(&recipe, &device, data.train, model, &sweep, &mut |point| {
        eprintln!("lr {:.3e}  loss {:.4}  smoothed {:.4}", point.lr, point.loss, point.smoothed);
    })?;
    let plotted = plot::svg(&curve)?;
    std::fs::write(&args.plot, plotted).with_context(|| format!("cannot write the plot {}", args.plot.display()))?;
    writeln!(std::io::stdout().lock(), "{}\nwrote {}", verdict(&curve), args.plot.display())?;
    Ok(ExitCode::SUCCESS)
}

/// What to make of a curve, in a sentence.
fn verdict(curve: &LrCurve) -> String {
    let end = if curve.diverged { ", after which the loss exploded" } else { "" };
    match (curve.steepest(), curve.lowest()) {
        (Some(steepest), Some(lowest)) => format!(
            "suggested learning rate {} (--lr {}): there the loss falls fastest; it was lowest at {lowest:.1e}{end}",
            rounded(steepest),
            rounded(steepest)
        ),
        _ => format!("no suggestion: the loss never fell{end}; start lower (--start-lr), or take more --steps"),
    }
}

/// Two digits are more than a sweep knows.
fn rounded(lr: f64) -> f64 {
    format!("{lr:.1e}").parse().unwrap_or(lr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_is_given_as_the_option_that_takes_it() {
        let mut curve = LrCurve::default();
        for (lr, loss) in [(0.01, 2.0), (0.1, 1.0), (1.0, 2.0)] {
            curve.push(lr, loss);
        }
        let text = verdict(&curve);
        assert!(text.contains("--lr 0.032"), "{text}");
        assert!(verdict(&LrCurve::default()).contains("--start-lr"));
    }
}
