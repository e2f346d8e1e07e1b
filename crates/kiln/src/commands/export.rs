//! `kiln export`: trained weights in a form for other programs.

use anyhow::Context;
use clap::Args;
use kiln_model::{Arch, LoadOptions, Norms, OnnxOptions, WeightsFile};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln export runs/resnet50-1/checkpoints/best.safetensors --onnx model.onnx
  kiln export resnet50-11ad3fa6.pth --arch resnet50 --onnx model.onnx --image-size 224
  kiln export checkpoint.pth --weights-key model_ema --onnx model.onnx    its averaged weights

Exit code: 0 if all went well, 1 if not, 2 for a mistyped command line.";

/// Writes a network as ONNX, for inference elsewhere.
///
/// The file takes normalised float images [batch, 3, height, width] and gives logits [batch, classes]; mean, standard
/// deviation and classes stand in its metadata, if the weights file has them.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    /// The weights: safetensors, or PyTorch's .pth, timm's and Lightning's checkpoints
    #[arg(value_name = "FILE", required_unless_present = "weights")]
    file: Option<PathBuf>,
    /// The same, as an option
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    weights: Option<PathBuf>,
    /// The ONNX file to write
    #[arg(long, value_name = "FILE")]
    onnx: PathBuf,
    /// The network, if the weights file doesn't say
    #[arg(long, value_name = "NAME")]
    arch: Option<Arch>,
    /// The key in the weights file under which the weights lie, such as model_ema, instead of the likeliest
    #[arg(long, value_name = "KEY")]
    weights_key: Option<String>,
    /// Keep the norms as operators instead of folding them into the convolutions
    #[arg(long)]
    keep_norms: bool,
    /// Accept square images of this side only, instead of any size
    #[arg(long, value_name = "PX")]
    image_size: Option<usize>,
}

pub(crate) fn run(args: &Export) -> anyhow::Result<ExitCode> {
    // clap asks for one of them.
    let weights = args.weights.as_ref().or(args.file.as_ref()).context("name a weights file")?;
    let file = WeightsFile::open(weights)?;
    let set = args.weights_key.as_deref();
    let model = file.config(args.arch, set)?.init(0, &kiln_device::cpu());
    let (model, report) = model.load_weights(&file, &LoadOptions { set, ..LoadOptions::default() })?;
    eprintln!("weights  {report}");
    let options = OnnxOptions {
        norms: if args.keep_norms { Norms::Kept } else { Norms::Folded },
        image_size: args.image_size.map(|side| [side, side]),
    };
    model.save_onnx(&args.onnx, &options, file.metadata())?;
    writeln!(std::io::stdout().lock(), "{}", args.onnx.display())?;
    Ok(ExitCode::SUCCESS)
}
