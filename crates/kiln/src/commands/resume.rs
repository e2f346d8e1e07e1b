//! `kiln resume`: goes on with a run as it was started.

use anyhow::bail;
use clap::Args;
use kiln::TrainArgs;
use kiln_device::DeviceRequest;
use kiln_train::{ResumeFrom, RunFolder};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln resume runs/resnet50-1                       where it ended, on the data it was started with
  kiln resume runs/resnet50-1 --epochs 120          and longer than planned
  kiln resume runs/resnet50-1 --data /mnt/photos    if the data set has moved

Exit code: 0 if the run is finished, 1 if it failed, 130 after Ctrl-C.";

/// Continues a run from its newest checkpoint, with its own recipe and data: `kiln train --resume` without repeating it all.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Resume {
    /// The run folder
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The data set. Default: where it was when the run was started
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Passes over the training images. Default: as planned
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// auto, cuda, cuda:1, wgpu, wgpu:0, wgpu:software or cpu
    #[arg(long, value_name = "DEVICE", env = "KILN_DEVICE", default_value = "auto")]
    device: DeviceRequest,
}

pub(crate) fn run(args: &Resume) -> anyhow::Result<ExitCode> {
    let folder = RunFolder::new(&args.run);
    let recipe = args.run.join("recipe.toml");
    if !recipe.is_file() {
        bail!(
            "there is no run in {}: it has no recipe.toml; give the folder that kiln train wrote",
            args.run.display()
        );
    }
    let data = match (&args.data, folder.starts()?.pop()) {
        (Some(data), _) => Some(data.clone()),
        (None, Some(start)) => start.data,
        (None, None) => {
            bail!("{} doesn't say which data it was started with; name it with --data", args.run.display())
        }
    };
    let options = TrainArgs {
        data,
        device: args.device,
        recipe: Some(recipe),
        epochs: args.epochs,
        output: Some(args.run.clone()),
        resume: Some(ResumeFrom::Auto),
        ..TrainArgs::default()
    };
    super::train::train(&options)
}
