//! `kiln train`: trains a ResNet on a folder of pictures.

use anyhow::ensure;
use clap::Args;
use kiln::{Outcome, TerminalProgress, TrainArgs, restart_after, stop_on_ctrl_c};
use kiln_data::{InspectConfig, inspect};
use kiln_train::{StartRecorder, Trainer};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln train --data photos                       what suits the device
  kiln train --data photos --recipe fine-tune.toml --weights resnet50.pth --reinit-head
  kiln train --data photos --set optimizer.lr=0.01 --set ema.decay=0.999
  kiln train --data photos --resume              go on where the last run ended
  kiln train --data photos --strict              no file may be left out: look at all of them first

Exit code: 0 if all went well, 1 if not, 2 for a mistyped command line, 130 after Ctrl-C.";

/// Trains a ResNet on a folder of pictures.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Train {
    #[command(flatten)]
    options: TrainArgs,
    /// Decode every picture before the first epoch; name those that can't be used, and end if there are any
    #[arg(long, requires = "data")]
    strict: bool,
}

pub(crate) fn run(args: &Train) -> anyhow::Result<ExitCode> {
    if let Some(data) = args.options.data.as_deref().filter(|_| args.strict) {
        refuse_unusable_files(data)?;
    }
    train(&args.options)
}

/// Names every file that training would leave out.
fn refuse_unusable_files(data: &Path) -> anyhow::Result<()> {
    let skipped = inspect(data, &InspectConfig::default())?.skipped;
    for file in &skipped {
        eprintln!("unusable {}: {}", file.path.escape_debug(), file.reason);
    }
    let number = skipped.len();
    ensure!(number == 0, "{number} files of {} can't be used, and --strict allows none", data.display());
    Ok(())
}

/// Trains as `options` say; how it ended goes to standard output.
pub(crate) fn train(options: &TrainArgs) -> anyhow::Result<ExitCode> {
    let device = kiln_device::open(&options.device)?;
    let (mut recipe, why) = options.recipe(&device)?;
    eprintln!("recipe   {why}");
    let data = options.open_data()?;

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
