//! `kiln devices`: what could train here, what would be chosen, and why the rest would not.

use clap::Args;
use kiln_device::{DeviceReport, DeviceRequest, inventory, measure, passive_inventory};
use std::io::Write;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln devices                         what could train here, and what would be chosen
  kiln devices --device cuda:1         could this one be had, and why the others would lose
  kiln devices --measure               is another device faster here than the chosen one?
  kiln devices --json                  the same for programs

Exit code: 0 if all went well, 1 if not, 2 for a mistyped command line.";

/// Lists the devices that can train here, and says which would be chosen and why.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Devices {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Ask sleeping GPUs too, which wakes them
    #[arg(long)]
    wake: bool,
    /// Measure each device (copy, matrix product, convolution, launch) and say if another one is faster than the
    /// chosen. Takes minutes for a new GPU, whose kernels are compiled and tuned first; the figures are kept. Wakes
    /// sleeping GPUs
    #[arg(long)]
    measure: bool,
    /// Measure anew what was measured before
    #[arg(long, requires = "measure")]
    again: bool,
    /// Explain the choice for this request
    #[arg(long, value_name = "DEVICE", env = "KILN_DEVICE", default_value = "auto")]
    device: DeviceRequest,
}

pub(crate) fn run(args: &Devices) -> anyhow::Result<ExitCode> {
    let inventory = if args.wake || args.measure { inventory() } else { passive_inventory() };
    let mut report = DeviceReport::new(&inventory, &args.device)?;
    if args.measure {
        let measuring = |device: &str| eprintln!("measuring {device}");
        report = report.with_measured(measure(&inventory, args.again, measuring));
    }
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        false => writeln!(out, "{report}")?,
    }
    Ok(ExitCode::SUCCESS)
}
