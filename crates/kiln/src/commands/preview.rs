//! `kiln preview`: a picture of what the model sees.

use anyhow::ensure;
use clap::Args;
use kiln::TrainArgs;
use kiln_data::{PreviewConfig, preview_grid};
use kiln_device::DeviceRequest;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Shows what the model sees: a PNG with pictures and draws of the recipe's training augmentation beside them.
#[derive(Args)]
pub(crate) struct Preview {
    /// Class folders, pictures with a table, CIFAR, IDX or parquet; `kiln inspect` says. Default: the set Kiln draws itself
    #[arg(value_name = "DATA")]
    data: Option<PathBuf>,
    /// Show this recipe, a file or one of `kiln recipes`, instead of what `kiln train` does without one
    #[arg(long, value_name = "FILE_OR_NAME")]
    recipe: Option<PathBuf>,
    /// Where to write the PNG
    #[arg(short, long, value_name = "FILE", default_value = "preview.png")]
    output: PathBuf,
    /// Rows: pictures, spread over the classes
    #[arg(long, value_name = "N", default_value_t = PreviewConfig::default().images)]
    images: usize,
    /// Columns beside the original, each of one epoch
    #[arg(long, value_name = "N", default_value_t = PreviewConfig::default().draws)]
    draws: usize,
    /// Seed of the run. Default: the recipe's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Epoch of the first draw, counted from 1 as in a run's log
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    epoch: u32,
    /// Side of a training image in pixels. Default: the recipe's
    #[arg(long, value_name = "PX")]
    image_size: Option<usize>,
    /// auto, cuda, cuda:1, wgpu, wgpu:0, wgpu:software or cpu
    #[arg(long, value_name = "DEVICE", env = "KILN_DEVICE", default_value = "auto")]
    device: DeviceRequest,
}

pub(crate) fn run(args: &Preview) -> anyhow::Result<ExitCode> {
    let is_png = args.output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
    ensure!(is_png, "cannot write {}: a preview is a PNG; give its name the ending .png", args.output.display());
    let options = args.options();
    let device = kiln_device::open(&options.device)?;
    let (recipe, _) = options.recipe(&device)?;
    let data = options.open_data()?;

    let (seed, epoch) = (recipe.run.seed, args.epoch - 1);
    let config = PreviewConfig { images: args.images, draws: args.draws, seed, epoch };
    let preview = preview_grid(data.train.as_ref(), &recipe.augment.training(), &config, &device.device)?;
    preview.write_png(&args.output)?;
    for skipped in &preview.skipped {
        eprintln!("skipped  {}: {}", skipped.name, skipped.reason);
    }
    let (file, picture, rows) = (args.output.display(), &preview.picture, preview.samples.len());
    let (width, height, draws) = (picture.width, picture.height, args.draws);
    let mut out = std::io::stdout().lock();
    let shown = format!("{rows} images with {draws} draws each");
    writeln!(out, "wrote {file}: {width}x{height} pixels, {shown}; {}, seed {seed}", args.described())?;
    Ok(ExitCode::SUCCESS)
}

impl Preview {
    /// Whose augmentation is shown, in words.
    fn described(&self) -> String {
        match &self.recipe {
            Some(file) => format!("recipe {}", file.display()),
            None => "no recipe: what kiln train does on this device".into(),
        }
    }

    /// The run to look into, as `kiln train` would understand it.
    fn options(&self) -> TrainArgs {
        TrainArgs {
            data: self.data.clone(),
            device: self.device,
            recipe: self.recipe.clone(),
            seed: self.seed,
            image_size: self.image_size,
            ..TrainArgs::default()
        }
    }
}
