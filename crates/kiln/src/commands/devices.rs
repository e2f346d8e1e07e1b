//! `kiln devices`: what could train here, what would be chosen, and why the rest would not.

use clap::Args;
use kiln_device::{DeviceReport, DeviceRequest, inventory, passive_inventory};
use std::io::Write;
use std::process::ExitCode;

/// Lists the devices that can train here, and says which would be chosen and why.
#[derive(Args)]
pub(crate) struct Devices {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Ask sleeping GPUs too, which wakes them
    #[arg(long)]
    wake: bool,
    /// Explain the choice for this request
    #[arg(long, value_name = "DEVICE", env = "KILN_DEVICE", default_value = "auto")]
    device: DeviceRequest,
}

pub(crate) fn run(args: &Devices) -> anyhow::Result<ExitCode> {
    let inventory = if args.wake { inventory() } else { passive_inventory() };
    let report = DeviceReport::new(&inventory, &args.device)?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        false => writeln!(out, "{report}")?,
    }
    Ok(ExitCode::SUCCESS)
}
