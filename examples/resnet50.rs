//! Trains ResNet-50 on the right GPU of this machine, and says which and why.
//!
//! `cargo run --release --example resnet50` needs nothing: without `--data` it draws a small data set itself.
//! `cargo run --release --example resnet50 -- --data photos --epochs 90` trains on your own pictures.
//!
//! ```text
//! files ─> bytes ─> RGB ─> batch of bytes ─> device: crop, flip, normalise ─> ResNet ─> loss ─> weights
//!        worker threads       one copy                one launch
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use clap::Parser;
use kiln::train::Trainer;
use kiln::{Outcome, TerminalProgress, TrainArgs, device, log_to_stderr, restart_after, stop_on_ctrl_c};
use std::process::ExitCode;

/// Trains ResNet-50 on the right GPU of this machine.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    options: TrainArgs,
}

fn main() -> anyhow::Result<ExitCode> {
    device::probe_child();
    log_to_stderr();
    let Args { options } = Args::parse();

    // The device: the one asked for, or the best that works, with the reason.
    let device = device::open(&options.device)?;

    // Files on disk; encoded pictures and labels, read and decoded later by worker threads.
    let data = options.open_data()?;

    // The recipe: sizes that fit the device, unless options or a recipe file say otherwise.
    let (mut recipe, why) = options.recipe(&device)?;
    eprintln!("recipe   {why}");
    let output = options.output(&recipe)?;
    if let Some(found) = options.fit_batch(&mut recipe, &data, &device, &output)? {
        eprintln!("batch    {found}");
    }

    // The network, with the same first weights on every device, or with those of --weights.
    let (model, loaded) = options.model(&recipe, data.train.classes(), &device)?;
    if let Some(report) = loaded {
        eprintln!("weights  {report}");
    }

    // The loop: batch → augment on the device → forward → loss → backward → step; then validation and a checkpoint.
    let mut trainer = Trainer::new(recipe, &device, data, &output)?.stop_with(stop_on_ctrl_c());
    if let Some(from) = &options.resume {
        trainer = trainer.resume(from.clone());
    }
    let summary = match trainer.run(model, &mut TerminalProgress::new()) {
        Ok(summary) => summary,
        // A device that was lost can't be used again in this process.
        Err(error) => return restart_after(error, &output),
    };

    let outcome = Outcome(&summary);
    print!("{outcome}");
    Ok(outcome.exit_code())
}
