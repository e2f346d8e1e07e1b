//! Runs a file of weights on a tensor of images and writes the logits: the piece that `tools/interchange` compares other
//! programs with.
//!
//! `cargo run --release --example logits -- best.safetensors --images images.safetensors --output logits.safetensors`
//! takes `images`, float `[B, 3, H, W]`, normalised, and writes `logits`, float `[B, classes]`. A `.pth` needs `--arch`.

use anyhow::Context;
use clap::Parser;
use kiln::device::{self, DeviceRequest};
use kiln::model::{Arch, LoadOptions, Metadata, WeightsFile, safetensors_from_state};
use std::path::PathBuf;

/// Runs a file of weights on a tensor of images.
#[derive(Parser)]
struct Args {
    /// The weights: safetensors, or PyTorch's .pth, timm's and Lightning's checkpoints
    weights: PathBuf,
    /// safetensors with `images`
    #[arg(long)]
    images: PathBuf,
    /// Where `logits` go
    #[arg(long)]
    output: PathBuf,
    /// The network, if the weights file doesn't say
    #[arg(long)]
    arch: Option<Arch>,
    /// The key in the weights file under which the weights lie
    #[arg(long)]
    weights_key: Option<String>,
    /// auto, cuda, wgpu, cpu, ...
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: DeviceRequest,
}

fn main() -> anyhow::Result<()> {
    device::probe_child();
    let args = Args::parse();
    let device = device::open(&args.device)?.device;

    let file = WeightsFile::open(&args.weights)?;
    let set = args.weights_key.as_deref();
    let model = file.config(args.arch, set)?.init(0, &device);
    let (model, report) = model.load_weights(&file, &LoadOptions { set, ..LoadOptions::default() })?;
    eprintln!("weights  {report}");

    let file = WeightsFile::open(&args.images)?;
    let chosen = file.choose(None)?;
    let images = chosen.tensors.get("images").with_context(|| format!("no \"images\" in {}", file.name()))?;
    let images = burn::tensor::Tensor::<4>::from_data(file.read(images), &device);
    let logits = model.forward(images).into_data();
    let bytes = safetensors_from_state(&[("logits".to_string(), logits)], &Metadata::new())?;
    std::fs::write(&args.output, bytes).with_context(|| format!("cannot write {}", args.output.display()))
}
