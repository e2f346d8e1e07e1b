//! `kiln weights`: published weights that fit, and fetching one of them.

use clap::Args;
use kiln_model::{Arch, PretrainedList};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(feature = "fetch")]
const EXAMPLES: &str = "\
Examples:
  kiln weights --arch resnet50         what there is for ResNet-50, and how accurate it is
  kiln weights fetch resnet50-v2       writes ./resnet50-11ad3fa6.pth, its checksum compared
  kiln train --data photos --weights resnet50-11ad3fa6.pth --reinit-head

Exit code: 0 if all went well, 1 if not, 2 for a mistyped command line.";

#[cfg(not(feature = "fetch"))]
const EXAMPLES: &str = "\
Examples:
  kiln weights --arch resnet50         what there is for ResNet-50, and how accurate it is
  kiln train --data photos --weights resnet50-11ad3fa6.pth --reinit-head

Exit code: 0 if all went well, 1 if not, 2 for a mistyped command line.";

/// Lists published weights that `--weights` takes; `fetch` downloads one, and nothing else does.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Weights {
    #[command(subcommand)]
    action: Option<Action>,
    /// Only for this network
    #[arg(long, value_name = "NAME")]
    arch: Option<Arch>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// List these instead of what Kiln knows (TOML, in the form of crates/kiln-model/weights.toml)
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Action {
    #[cfg(feature = "fetch")]
    Fetch(Fetch),
}

/// Downloads a file of weights through curl or wget and compares its checksum. What was cut off is gone on with.
#[cfg(feature = "fetch")]
#[derive(Args)]
#[command(after_help = EXAMPLES)]
struct Fetch {
    /// Which, as `kiln weights` lists them
    #[arg(value_name = "NAME")]
    name: String,
    /// The folder to put it into
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Print path, SHA-256 and length as JSON instead of the path
    #[arg(long)]
    json: bool,
    /// Look NAME up in this list instead of what Kiln knows (TOML, in the form of crates/kiln-model/weights.toml)
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
}

pub(crate) fn run(args: &Weights) -> anyhow::Result<ExitCode> {
    match &args.action {
        #[cfg(feature = "fetch")]
        Some(Action::Fetch(args)) => fetch(args),
        _ => list(args),
    }
}

fn list(args: &Weights) -> anyhow::Result<ExitCode> {
    let mut list = open(args.list.as_ref())?;
    list.weights.retain(|weights| args.arch.is_none_or(|arch| arch == weights.arch));
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{:20} {:>6}  from", "name", "top-1")?;
    for weights in &list.weights {
        writeln!(out, "{:20} {:>6.2}  {}{}", weights.name, weights.top1, list.folder, weights.file)?;
    }
    writeln!(out, "\nTrained on ImageNet-1k; {}.\nSource: {}", list.licence, list.page)?;
    if cfg!(feature = "fetch") {
        writeln!(out, "`kiln weights fetch NAME` downloads one.")?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "fetch")]
fn fetch(args: &Fetch) -> anyhow::Result<ExitCode> {
    use std::io::IsTerminal;
    let list = open(args.list.as_ref())?;
    let weights = list.find(&args.name)?;
    eprintln!("{}: {}", weights.name, list.licence);
    let fetched = list.fetch(weights, &args.output, std::io::stderr().is_terminal())?;
    let how = if fetched.was_there { "there already" } else { "fetched" };
    let mib = fetched.bytes as f64 / f64::from(1 << 20);
    eprintln!("{how}, {mib:.1} MiB, SHA-256 {} begins as published", fetched.sha256);
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&fetched)?)?,
        false => writeln!(out, "{}", fetched.path.display())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn open(list: Option<&PathBuf>) -> anyhow::Result<PretrainedList> {
    Ok(list.map_or_else(PretrainedList::built_in, |path| PretrainedList::read(path))?)
}
