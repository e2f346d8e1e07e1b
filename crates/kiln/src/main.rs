//! The `kiln` command. A subcommand is a page in `commands/` that calls the crates.

mod commands;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln devices                               what could train here, and what would be chosen
  kiln doctor                                what keeps a GPU from being used, and what to do
  kiln monitor                               the GPUs while they work
  kiln inspect photos --deep                 what a data set is, and what is wrong with it
  kiln models --image-size 224 --batch 32    the networks, and the memory each takes
  kiln train                                 ResNet-50 on a small data set that Kiln draws itself
  kiln train --data photos --epochs 90       the same on your pictures
  kiln train --data photos --resume          go on where the last run ended
  kiln resume runs/resnet50-1                the same, by its folder
  kiln eval runs/resnet50-1                  how good the network is, and its worst pictures
  kiln report runs/resnet50-1                the run as one page
  kiln pack photos -o packed                 the same, no larger than needed, in shards
  kiln bench loader photos                   whether reading and decoding keep up with a GPU
  kiln predict runs/resnet50-1 photo.jpg     what is in a picture
  kiln train --recipe fine-tune --set optimizer.lr=0.005 --data photos
  kiln lr-find --data photos                 which learning rate suits the data, with a plot
  kiln preview photos --recipe my.toml       a picture of what the model would see
  kiln train --data photos --weights resnet50.pth --reinit-head    begin with weights you have
  kiln export runs/resnet50-1/checkpoints/best.safetensors --onnx model.onnx

Every subcommand's --help ends with examples of its own.

Exit code: 0 if all went well, 1 if not, 2 for a mistyped command line, 3 if some pictures couldn't be read and the rest are answered, 130 after Ctrl-C; `kiln doctor` has its own.
NO_COLOR=1 turns colours off; away from a terminal there are none. KILN_LOG=debug says what happens inside.";

/// Trains image classifiers on whatever GPU this machine has.
#[derive(Parser)]
#[command(version, about, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(commands::bench::Bench),
    Completions(commands::completions::Completions),
    Devices(commands::devices::Devices),
    Doctor(commands::doctor::Doctor),
    Monitor(commands::monitor::Monitor),
    Eval(commands::eval::Eval),
    Export(commands::export::Export),
    Inspect(commands::inspect::Inspect),
    LrFind(Box<commands::lr_find::LrFind>),
    Man(commands::completions::Man),
    Models(commands::models::Models),
    Pack(commands::pack::Pack),
    Predict(commands::predict::Predict),
    Preview(commands::preview::Preview),
    Recipes(commands::recipes::Recipes),
    Report(commands::report::ReportArgs),
    Resume(commands::resume::Resume),
    Train(Box<commands::train::Train>),
    Weights(commands::weights::Weights),
}

fn main() -> ExitCode {
    kiln_device::probe_child();
    kiln::log_to_stderr();
    let result = match Cli::parse().command {
        Command::Bench(args) => commands::bench::run(&args),
        Command::Completions(args) => commands::completions::run(&args, Cli::command()),
        Command::Devices(args) => commands::devices::run(&args),
        Command::Doctor(args) => Ok(commands::doctor::run(&args)),
        Command::Monitor(args) => commands::monitor::run(&args),
        Command::Eval(args) => commands::eval::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::LrFind(args) => commands::lr_find::run(&args),
        Command::Man(args) => commands::completions::man(&args, Cli::command()),
        Command::Models(args) => commands::models::run(&args),
        Command::Pack(args) => commands::pack::run(&args),
        Command::Predict(args) => commands::predict::run(&args),
        Command::Preview(args) => commands::preview::run(&args),
        Command::Recipes(args) => commands::recipes::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Resume(args) => commands::resume::run(&args),
        Command::Train(args) => commands::train::run(&args),
        Command::Weights(args) => commands::weights::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
