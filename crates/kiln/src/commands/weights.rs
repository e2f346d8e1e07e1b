//! `kiln weights`: published weights that fit, and where to fetch them.

use clap::Args;
use kiln_model::{Arch, PretrainedList};
use std::io::Write;
use std::process::ExitCode;

/// Lists published weights that `--weights` takes. Nothing is downloaded.
#[derive(Args)]
pub(crate) struct Weights {
    /// Only for this network
    #[arg(long, value_name = "NAME")]
    arch: Option<Arch>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Weights) -> anyhow::Result<ExitCode> {
    let mut list = PretrainedList::built_in()?;
    list.weights.retain(|weights| args.arch.is_none_or(|arch| arch == weights.arch));
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{:20} {:>6}  fetch", "name", "top-1")?;
    for weights in &list.weights {
        writeln!(out, "{:20} {:>6.2}  {}{}", weights.name, weights.top1, list.folder, weights.file)?;
    }
    writeln!(out, "\nTrained on ImageNet-1k; {}.\nSource: {}", list.licence, list.page)?;
    Ok(ExitCode::SUCCESS)
}
