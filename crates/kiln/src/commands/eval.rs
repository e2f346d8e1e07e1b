//! `kiln eval`: how good a trained network is on a data set.

use anyhow::Context;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kiln_data::{OpenOptions, scenes};
use kiln_device::DeviceRequest;
use kiln_model::Arch;
use kiln_report::{evaluation_folder, write_evaluation};
use kiln_train::{EvaluateConfig, Evaluation, OpenModel, RunFolder, TrainedModel, evaluate};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln eval runs/resnet50-1 --data photos          figures, and a page with the worst pictures
  kiln eval runs/resnet50-1 --split train          on the pictures it was trained on
  kiln eval best.safetensors --data photos --json  for a program
  kiln eval runs/resnet50-1 --weights averaged.safetensors    its data, other weights
  kiln eval resnet50.pth --arch resnet50 --data imagenet --image-size 224 --output out

Exit code: 0 if it was evaluated, 1 if not.";

/// Judges a trained network by a data set: loss, top-1, top-5, each class, who is taken for whom, and calibration.
///
/// The classes of the data are mapped to the network's by name. Of a run, what comes out is kept in its folder
/// evaluation/, where `kiln report` finds it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Eval {
    /// A run folder, one of its checkpoints, or a weights file
    #[arg(value_name = "RUN_OR_WEIGHTS", required_unless_present = "weights")]
    model: Option<PathBuf>,
    /// Judge these weights; a run named beside them still says which data, and its evaluation stays
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The key in the weights file under which the weights lie, such as model_ema, instead of the likeliest
    #[arg(long, value_name = "KEY")]
    weights_key: Option<String>,
    /// The data set. Default: what the run was trained on
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Which part of it
    #[arg(long, value_enum, default_value = "val")]
    split: Split,
    /// Folder for the page and the pictures. Default: evaluation/ in the run folder
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Pictures shown of those with the highest loss
    #[arg(long, value_name = "N", default_value_t = EvaluateConfig::default().worst)]
    worst: usize,
    /// Pictures at a time. Default: what suits their size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    batch_size: Option<u32>,
    /// End after this many batches
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit_batches: Option<u32>,
    /// Side of the images in pixels. Default: that of the training's validation
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u16).range(1..=8192))]
    image_size: Option<u16>,
    /// auto, cuda, cuda:1, wgpu, wgpu:0, wgpu:software or cpu
    #[arg(long, value_name = "DEVICE", env = "KILN_DEVICE", default_value = "auto")]
    device: DeviceRequest,
    /// The network, if the weights file doesn't say
    #[arg(long, value_name = "NAME")]
    arch: Option<Arch>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Split {
    /// What it is judged by in training
    Val,
    /// What it was trained on
    Train,
}

pub(crate) fn run(args: &Eval) -> anyhow::Result<ExitCode> {
    // clap asks for at least one of them.
    let weights = args.weights.as_ref().or(args.model.as_ref()).context("name a run or a weights file")?;
    let run = args.model.as_ref().unwrap_or(weights);
    let recorded = RunFolder::new(run).starts()?.pop().map(|start| start.data);
    let splits = match args.data.clone().map(Some).or(recorded) {
        Some(Some(path)) => kiln_data::open(&path, &OpenOptions::default())?,
        Some(None) => scenes::open_or_create(None, &scenes::ScenesConfig::default())?,
        None => {
            anyhow::bail!("{} doesn't say which data it was trained on; name a data set with --data", run.display())
        }
    };
    let data = if args.split == Split::Val { splits.val } else { splits.train };
    let device = kiln_device::open(&args.device)?;
    let image_size = args.image_size.map(usize::from);
    let set = args.weights_key.as_deref();
    let model = TrainedModel::open(weights, &OpenModel { arch: args.arch, set, image_size }, &device.device)?;
    let config = EvaluateConfig {
        batch_size: args.batch_size.map(|size| size as usize),
        limit_batches: args.limit_batches.map(|limit| limit as usize),
        worst: args.worst,
        ..EvaluateConfig::default()
    };
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let evaluation = evaluate(&model, &data, &config, &mut |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    for skipped in &evaluation.skipped {
        eprintln!("skipped  {}: {}", skipped.name, skipped.reason);
    }
    let keeps = args.weights.is_none() && run.join("recipe.toml").is_file();
    let of_run = keeps.then(|| evaluation_folder(run));
    if let Some(folder) = args.output.clone().or(of_run) {
        let page = write_evaluation(&folder, &evaluation, &data)?;
        eprintln!("wrote {}", page.display());
    }
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&evaluation)?)?,
        false => write_table(&mut out, &evaluation)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_table(out: &mut impl Write, found: &Evaluation) -> std::io::Result<()> {
    let Evaluation { num_images, loss, top1, top5, balanced_accuracy, f1_macro, mcc, cohen_kappa, ece, .. } = found;
    let k = found.classes.len().min(5);
    writeln!(out, "{num_images} pictures: top-1 {:.2} %, top-{k} {:.2} %, loss {loss:.4}", 100.0 * top1, 100.0 * top5)?;
    writeln!(
        out,
        "balanced accuracy {:.2} %, mean F1 {:.2} %, calibration error {:.2} %",
        100.0 * balanced_accuracy,
        100.0 * f1_macro,
        100.0 * ece
    )?;
    let area = found.roc_auc.map_or(String::new(), |area| format!(", area under the ROC curve {area:.4}"));
    writeln!(out, "Matthews correlation {mcc:.4}, Cohen's kappa {cohen_kappa:.4}{area}\n")?;
    let width = found.classes.iter().map(|class| class.name.chars().count()).max().unwrap_or(0).max("class".len());
    writeln!(out, "{:width$} {:>9} {:>10} {:>8} {:>8}", "class", "pictures", "precision", "recall", "F1")?;
    for class in &found.classes {
        let [precision, recall, f1] = [class.precision, class.recall, class.f1].map(|share| 100.0 * share);
        let (name, images) = (&class.name, class.images);
        writeln!(out, "{name:width$} {images:>9} {precision:>8.1} % {recall:>6.1} % {f1:>6.1} %")?;
    }
    Ok(())
}
