//! `kiln doctor`: what keeps a GPU of this machine from being used, and what to do about it.

use anyhow::Context;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// The examination found something that keeps a GPU from being used.
const PROBLEM: u8 = 1;
/// The examination itself went wrong; clap ends with the same code for a bad command line.
const COULD_NOT_RUN: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  kiln doctor                          the checks, and the cause and the fix in one sentence
  kiln doctor --json                   the same for programs
  kiln doctor --bundle report.txt      all of it for a bug report, without names and private paths

Exit code: 0 if all is well, 1 if something keeps a GPU from being used, 2 if the examination could not run.";

/// Examines the way from the graphics hardware to a device that computes, and says what is wrong.
///
/// Ends with code 0 if all is well, 1 if something keeps a GPU from being used, 2 if the examination could not run.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// Print JSON: `checks` (id, status, code, found, why, remedy), `chosen`, `verdict`, `environment`, `gpus`
    #[arg(long)]
    json: bool,
    /// Also write everything to FILE, without names of people and machines, to attach to a bug report
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Ask sleeping GPUs too, which wakes them
    #[arg(long)]
    wake: bool,
}

pub(crate) fn run(args: &Doctor) -> ExitCode {
    examine(args).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(COULD_NOT_RUN)
    })
}

fn examine(args: &Doctor) -> anyhow::Result<ExitCode> {
    let diagnosis = kiln_device::doctor(args.wake)?;
    if let Some(path) = &args.bundle {
        std::fs::write(path, diagnosis.bundle()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&diagnosis)?)?,
        false => writeln!(out, "{diagnosis}")?,
    }
    Ok(if diagnosis.has_problem() { ExitCode::from(PROBLEM) } else { ExitCode::SUCCESS })
}
