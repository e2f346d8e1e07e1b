//! `kiln train`: trains a ResNet on a folder of pictures.

use clap::Args;
use kiln::{Outcome, TerminalProgress, TrainArgs, restart_after, stop_on_ctrl_c};
use kiln_train::{StartRecorder, Trainer};
use std::io::Write;
use std::process::ExitCode;

/// Trains a ResNet on a folder of pictures.
#[derive(Args)]
pub(crate) struct Train {
    #[command(flatten)]
    options: TrainArgs,
}

pub(crate) fn run(args: &Train) -> anyhow::Result<ExitCode> {
    let options = &args.options;
    let device = kiln_device::open(&options.device)?;
    let data = options.open_data()?;
    let (mut recipe, why) = options.recipe(&device)?;
    eprintln!("recipe   {why}");

    let output = options.output(&recipe)?;
    if let Some(found) = options.fit_batch(&mut recipe, &data, &device, &output)? {
        eprintln!("batch    {found}");
    }
    let (model, loaded) = options.model(&recipe, data.train.classes(), &device)?;
    if let Some(report) = loaded {
        eprintln!("weights  {report}");
    }
    let mut trainer = Trainer::new(recipe, &device, data, &output)?.stop_with(stop_on_ctrl_c());
    if let Some(from) = &options.resume {
        trainer = trainer.resume(from.clone());
    }
    let record = StartRecorder::new(options.data.as_deref());
    let summary = match trainer.run(model, &mut (TerminalProgress::new(), record)) {
        Ok(summary) => summary,
        Err(error) => return restart_after(error, &output),
    };
    let outcome = Outcome(&summary);
    write!(std::io::stdout().lock(), "{outcome}")?;
    Ok(outcome.exit_code())
}
