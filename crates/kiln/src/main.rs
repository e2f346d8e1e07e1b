//! The `kiln` command. A subcommand is a page in `commands/` that calls the crates.

mod commands;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln devices                               what could train here, and what would be chosen
  kiln train                                 ResNet-50 on a small data set that Kiln draws itself
  kiln train --data photos --epochs 90       the same on your pictures
  kiln train --data photos --resume          go on where the last run ended
  kiln preview photos --recipe my.toml       a picture of what the model would see";

/// Trains image classifiers on whatever GPU this machine has.
#[derive(Parser)]
#[command(version, about, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Devices(commands::devices::Devices),
    Preview(commands::preview::Preview),
    Train(Box<commands::train::Train>),
}

fn main() -> ExitCode {
    kiln_device::probe_child();
    kiln::log_to_stderr();
    let result = match Cli::parse().command {
        Command::Devices(args) => commands::devices::run(&args),
        Command::Preview(args) => commands::preview::run(&args),
        Command::Train(args) => commands::train::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
