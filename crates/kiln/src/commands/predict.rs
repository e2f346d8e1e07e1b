//! `kiln predict`: asks a trained network about pictures.
//!
//! A table for people, JSON lines or CSV for programs; a file that can't be used is a line of its own.

mod form;
mod gradcam;
mod inputs;

use anyhow::bail;
use clap::Args;
use form::Form;
use gradcam::GradCam;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kiln_device::DeviceRequest;
use kiln_model::Arch;
use kiln_train::{OpenModel, TrainedModel, read_pictures, top_k};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Some files were answered and some couldn't be used.
const SOME_UNREADABLE: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  kiln predict runs/resnet50-1 photo.jpg              the five likeliest classes
  kiln predict runs/resnet50-1 photos/ --top 1        every picture in a folder and below
  kiln predict best.safetensors 'shots/*.png' --csv   a pattern, as comma-separated values
  find . -name '*.jpg' | kiln predict runs/resnet50-1 - --json      a list, as JSON lines
  kiln predict runs/resnet50-1 photo.jpg --gradcam out    where the network looked, as pictures
  kiln predict resnet50.pth photo.jpg --arch resnet50     weights of another program

Exit code: 0 if every file was answered, 3 if some couldn't be read (each is named), 1 if none could or the network can't be used.";

/// Tells what is in pictures.
///
/// A file that can't be read or decoded is named and doesn't keep the others from being answered.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Predict {
    /// A run folder, one of its checkpoints, or a weights file
    #[arg(value_name = "RUN_OR_WEIGHTS")]
    model: PathBuf,
    /// Picture files, folders, patterns such as 'photos/*.jpg', or - for a list of files on standard input
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// Classes told for each picture, the likeliest first
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// One JSON object a picture and line: file, predictions (class, index, probability); or file, error
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Comma-separated values, one line a picture and class: file, rank, class, index, probability, error
    #[arg(long)]
    csv: bool,
    /// Also write to this folder, for each picture, where the network looked for its first guess (Grad-CAM)
    #[arg(long, value_name = "DIR")]
    gradcam: Option<PathBuf>,
    /// Pictures at a time. Default: what suits their size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    batch_size: Option<u32>,
    /// Side of the images in pixels. Default: that of the training's validation
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u16).range(1..=8192))]
    image_size: Option<u16>,
    /// auto, cuda, cuda:1, wgpu, wgpu:0, wgpu:software or cpu
    #[arg(long, value_name = "DEVICE", env = "KILN_DEVICE", default_value = "auto")]
    device: DeviceRequest,
    /// The network, if the weights file doesn't say
    #[arg(long, value_name = "NAME")]
    arch: Option<Arch>,
    /// The key in the weights file under which the weights lie, such as model_ema, instead of the likeliest
    #[arg(long, value_name = "KEY")]
    weights_key: Option<String>,
}

pub(crate) fn run(args: &Predict) -> anyhow::Result<ExitCode> {
    let files = inputs::files(&args.inputs)?;
    let device = kiln_device::open(&args.device)?;
    let options =
        OpenModel { arch: args.arch, set: args.weights_key.as_deref(), image_size: args.image_size.map(usize::from) };
    let model = TrainedModel::open(&args.model, &options, &device.device)?;
    let gradcam = args.gradcam.as_deref().map(GradCam::into_folder).transpose()?;
    let answered = match answer(args, &model, &files, gradcam) {
        // Whoever read the answers has enough of them.
        Err(error) if is_broken_pipe(&error) => return Ok(ExitCode::SUCCESS),
        answered => answered?,
    };
    if answered == 0 {
        bail!("none of the {} files is a picture that can be read", files.len());
    }
    Ok(if answered < files.len() { ExitCode::from(SOME_UNREADABLE) } else { ExitCode::SUCCESS })
}

/// Answers `files` a batch at a time, in their order; how many of them could be.
fn answer(
    args: &Predict,
    model: &TrainedModel,
    files: &[PathBuf],
    mut gradcam: Option<GradCam>,
) -> anyhow::Result<usize> {
    let batch_size = args.batch_size.map_or_else(|| model.batch_size(), |size| size as usize);
    let mut form = args.form(model, files);
    let bar = progress(files.len(), batch_size);
    let mut answered = 0;
    let mut out = std::io::stdout().lock();
    for files in files.chunks(batch_size) {
        let read = read_pictures(files);
        let pictures: Vec<_> = read.iter().filter_map(|read| read.as_ref().ok().cloned()).collect();
        let (probabilities, maps) = match (&gradcam, pictures.as_slice()) {
            (_, []) => Default::default(),
            (Some(_), pictures) => model.explain(pictures)?,
            (None, pictures) => (model.predict(pictures)?, Vec::new()),
        };
        answered += pictures.len();
        let (mut probabilities, mut maps) = (probabilities.iter(), maps.iter());
        let mut lines = Vec::new();
        for (file, read) in files.iter().zip(&read) {
            match (read, &mut gradcam) {
                (Err(reason), _) => form.unreadable(&mut lines, file, reason)?,
                (Ok(_), gradcam) => {
                    let top = probabilities.next().map(|row| top_k(row, args.top as usize)).unwrap_or_default();
                    form.answered(&mut lines, file, &top)?;
                    if let (Some(gradcam), Some(map)) = (gradcam, maps.next()) {
                        gradcam.write(file, map)?;
                    }
                }
            }
        }
        bar.suspend(|| out.write_all(&lines).and_then(|()| out.flush()))?;
        bar.inc(files.len() as u64);
    }
    bar.finish_and_clear();
    Ok(answered)
}

impl Predict {
    fn form<'a>(&self, model: &'a TrainedModel, files: &[PathBuf]) -> Form<'a> {
        match (self.json, self.csv) {
            (true, _) => Form::json(model),
            (_, true) => Form::csv(model),
            _ => Form::table(model, files),
        }
    }
}

/// A bar on standard error for more than one batch; nothing where that isn't a terminal.
fn progress(num_files: usize, batch_size: usize) -> ProgressBar {
    if num_files <= batch_size {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(num_files as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {per_sec}  {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
