//! `kiln bench`: how fast a part of Kiln is on this machine.

use anyhow::ensure;
use clap::{Args, Subcommand};
use kiln::TrainArgs;
use kiln_data::{Augment, ByteSize, Loader, LoaderConfig, MeasureConfig};
use kiln_device::DeviceRequest;
use serde_json::{json, to_value};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  kiln bench loader photos                          what bounds it, and which GPU it would feed
  kiln bench loader photos --workers 1              what one core does
  kiln bench loader photos --cache 8GiB --seconds 60
  kiln bench loader photos --device auto            with upload and augmentation on the GPU
  kiln bench loader photos --epochs 10 --json       for programs, with the memory after each

Exit code: 0 if all went well, 1 if not, 2 for a mistyped command line.";

/// Measures a part of Kiln on this machine.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    Loader(LoaderArgs),
}

/// Reads and decodes a data set as fast as it goes; says what bounds it and which GPU it would feed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
struct LoaderArgs {
    /// Folder with train/ and val/, or a folder of class folders. Default: the small set Kiln draws itself
    #[arg(value_name = "DATA")]
    data: Option<PathBuf>,
    /// Side of a training image in pixels
    #[arg(long, value_name = "PX", default_value_t = 224)]
    image_size: usize,
    /// Images in a batch
    #[arg(long, value_name = "N", default_value_t = 64)]
    batch_size: usize,
    /// Decoding threads; 0 begins with one per core and adapts
    #[arg(long, value_name = "N", default_value_t = 0)]
    workers: usize,
    /// Seconds to measure
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,
    /// End after this many epochs, if that is sooner
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    epochs: Option<u32>,
    /// Memory for decoded pictures, such as 8GiB: later epochs take them from there
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(0))]
    cache: ByteSize,
    /// Upload and augment as well, on auto, cuda, wgpu or cpu. Default: the host's share alone
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceRequest>,
    /// Print JSON: opened_secs, images_per_sec, bound, shares, counters, resident_bytes, feeds
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Bench) -> anyhow::Result<ExitCode> {
    let Part::Loader(args) = &args.part;
    let valid = args.seconds > 0.0 && args.seconds <= MOST_SECONDS;
    ensure!(valid, "--seconds {}: must be above 0 and at most {MOST_SECONDS}", args.seconds);
    let start = Instant::now();
    let data = TrainArgs { data: args.data.clone(), ..TrainArgs::default() }.open_data()?;
    let opened_secs = start.elapsed().as_secs_f64();
    let loader = Loader::new(data.train, args.loader())?;
    let augment = Augment::train(args.image_size);
    let device = args.device.map(|request| kiln_device::open(&request)).transpose()?;
    let (dataset, config) = (loader.dataset(), loader.config());
    if !args.json {
        let place = device.as_ref().map_or("the host's share alone".to_owned(), |device| device.summary());
        let (images, classes) = (dataset.len(), dataset.classes().len());
        eprintln!("data     {images} training images, {classes} classes, opened in {opened_secs:.2} s");
        eprintln!("loader   batches of {}, {} px; {place}", config.batch_size, args.image_size);
    }
    let report = loader.measure(&MeasureConfig {
        duration: Duration::from_secs_f64(args.seconds),
        epochs: args.epochs,
        device: device.map(|device| (device.device, augment)),
    })?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => {
            let mut report = to_value(&report)?;
            report["opened_secs"] = json!(opened_secs);
            writeln!(out, "{report:#}")?;
        }
        false => writeln!(out, "{report}")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A week; a number that isn't meant would overflow the clock.
const MOST_SECONDS: f64 = 604_800.0;

impl LoaderArgs {
    fn loader(&self) -> LoaderConfig {
        LoaderConfig {
            batch_size: self.batch_size,
            workers: self.workers,
            cache_bytes: usize::try_from(self.cache.0).unwrap_or(usize::MAX),
            ..LoaderConfig::default()
        }
    }
}
