//! `kiln models`: the networks there are, and what each costs.

use clap::Args;
use kiln_model::{Arch, ResNetConfig};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln models                                            all networks, at 224 px and 32 images
  kiln models --arch resnet50 --image-size 288 --batch 64    does that fit into my GPU's memory?
  kiln models --json                                     the same for programs

Exit code: 0 if all went well, 1 if not, 2 for a mistyped command line.";

/// Lists the networks, with parameters, multiplications and the memory that training takes.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Models {
    /// Only this network
    #[arg(long, value_name = "NAME")]
    arch: Option<Arch>,
    /// Side of an image in pixels
    #[arg(long, value_name = "PX", default_value_t = 224, value_parser = clap::value_parser!(u16).range(1..=8192))]
    image_size: u16,
    /// Images in a step
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batch: u32,
    /// Classes told apart
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    classes: u32,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Copies of the weights that SGD with momentum keeps.
const SGD_COPIES: u64 = 1;

pub(crate) fn run(args: &Models) -> anyhow::Result<ExitCode> {
    let side = usize::from(args.image_size);
    let archs = Arch::ALL.into_iter().filter(|arch| args.arch.is_none_or(|wanted| wanted == *arch));
    let costs: Vec<_> = archs
        .map(|arch| {
            let config = ResNetConfig { num_classes: args.classes as usize, ..ResNetConfig::new(arch) };
            (arch, config.cost([side, side], args.batch as usize))
        })
        .collect();
    let mut out = std::io::stdout().lock();
    if args.json {
        let rows: Vec<_> = costs
            .iter()
            .map(|(arch, cost)| {
                json!({
                    "arch": arch.name(),
                    "parameters": cost.parameters,
                    "macs": cost.macs,
                    "activation_bytes": cost.activation_bytes,
                    "training_bytes": cost.training_bytes(SGD_COPIES),
                    "image_size": side,
                    "batch": args.batch,
                    "classes": args.classes,
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{:18} {:>12} {:>10} {:>16} {:>14}",
        "name", "parameters", "GMACs", "activations GiB", "training GiB"
    )?;
    for (arch, cost) in costs {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        writeln!(
            out,
            "{:18} {:>10.2} M {:>10.2} {:>16.2} {:>14.2}",
            arch,
            cost.parameters as f64 / 1e6,
            cost.macs as f64 / 1e9,
            gib(cost.activation_bytes),
            gib(cost.training_bytes(SGD_COPIES)),
        )?;
    }
    writeln!(
        out,
        "\nMultiply-accumulates of one image of {side} px; memory of a training step of {} images in f32 with SGD,\n\
         without the workspace of kernels and what the driver keeps for itself.",
        args.batch
    )?;
    Ok(ExitCode::SUCCESS)
}
