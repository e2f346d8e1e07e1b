//! `kiln pack`: any data set as WebDataset shards of smaller pictures.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kiln_data::{ByteSize, OnError, OpenOptions, PackConfig, PackForm, PackProgress, PackReport, PackedShard};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln pack photos -o packed                        then kiln train --data packed
  kiln pack photos -o packed --short-side 256       smaller: for training at 160 to 176 pixels
  kiln pack cifar-10 -o packed --raw                pixels as they are: nothing is lost
  kiln pack photos -o packed --shard-size 1GB       fewer, larger shards

Exit code: 0 if the folder is whole, 1 if not, 2 for a mistyped command line.";

/// Packs a data set into WebDataset shards that read faster: pictures no larger than training needs, in a drawn order,
/// with index, checksums and a report.
///
/// A pack that was stopped, killed or out of disk goes on where it was when the same command is run again, and ends
/// with the same bytes.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pack {
    /// Any data set that `kiln train` takes. One without a validation set is split, and stays so
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Folder for the shards, new or empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Make pictures smaller until their shorter side has at most this many pixels
    #[arg(long, value_name = "PX", default_value_t = PackConfig::default().short_side)]
    short_side: u32,
    /// JPEG quality, 1 to 100. JPEGs that are small enough keep their bytes
    #[arg(long, value_name = "Q", default_value_t = 90)]
    quality: u8,
    /// Store pixels (PPM) instead of JPEG: nothing to decode, about ten times the size
    #[arg(long, conflicts_with = "quality")]
    raw: bool,
    /// Most bytes in a shard, such as 256MiB or 1GB
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    shard_size: ByteSize,
    /// Decides the order of the samples
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// End with the first damaged file instead of leaving it out
    #[arg(long)]
    strict: bool,
    /// Print the report as JSON: `plan`, and `train` and `val` with their shards
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Pack) -> anyhow::Result<ExitCode> {
    let opened = kiln_data::open_with_findings(&args.data, &OpenOptions::default())?;
    for remark in &opened.findings.remarks {
        eprintln!("note     {remark}");
    }
    for left_out in &opened.findings.left_out {
        eprintln!("left out {}: {}", left_out.name, left_out.reason);
    }
    let mut bar = Bar::new();
    let report = kiln_data::pack(&opened, &args.output, &args.config(), &mut |progress| bar.show(progress))?;
    bar.finish();
    for skipped in shards(&report).flat_map(|shard| &shard.skipped) {
        eprintln!("skipped  {}: {}", skipped.name, skipped.reason);
    }
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        false => summarise(&mut out, &report, &args.output.display().to_string())?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Pack {
    fn config(&self) -> PackConfig {
        PackConfig {
            short_side: self.short_side,
            form: if self.raw { PackForm::Raw } else { PackForm::Jpeg { quality: self.quality } },
            shard_bytes: self.shard_size.0,
            seed: self.seed,
            on_error: if self.strict { OnError::Fail } else { OnError::Skip },
            ..PackConfig::default()
        }
    }
}

fn shards(report: &PackReport) -> impl Iterator<Item = &PackedShard> {
    report.train.iter().chain(&report.val)
}

/// What is there now, in words.
fn summarise(out: &mut impl Write, report: &PackReport, folder: &str) -> std::io::Result<()> {
    let total = |count: fn(&PackedShard) -> u64| shards(report).map(count).sum::<u64>();
    let (source, pictures) = (total(|shard| shard.source_bytes), total(|shard| shard.picture_bytes));
    for (split, shards) in [("train", &report.train), ("val", &report.val)] {
        let sum = |count: fn(&PackedShard) -> usize| shards.iter().map(count).sum::<usize>();
        let (kept, encoded, skipped) = (sum(|s| s.kept), sum(|s| s.encoded), sum(|s| s.skipped.len()));
        let images = sum(PackedShard::samples);
        writeln!(
            out,
            "{split:8} {images} images in {} {}: {kept} kept as they were, {encoded} encoded, {skipped} skipped",
            shards.len(),
            if shards.len() == 1 { "shard" } else { "shards" }
        )?;
    }
    let share = 100.0 * pictures as f64 / source.max(1) as f64;
    writeln!(out, "size     {} of pictures became {} ({share:.0} %)", megabytes(source), megabytes(pictures))?;
    let bytes = megabytes(total(|shard| shard.bytes));
    writeln!(out, "wrote    {folder}: {bytes} of shards; check with sha256sum -c SHA256SUMS")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// How far packing has come: a bar on a terminal, a line at the start elsewhere.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("packing {bar:24} {pos}/{len}  {per_sec}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    fn show(&mut self, progress: PackProgress) {
        let PackProgress { done, total, resumed } = progress;
        if self.0.length().is_none() {
            let before = if resumed > 0 { format!(", of which {resumed} are done already") } else { String::new() };
            self.0.suspend(|| eprintln!("packing  {total} samples{before}"));
            self.0.set_length(total as u64);
            self.0.set_position(resumed as u64);
            self.0.reset_eta();
        }
        self.0.set_position(done as u64);
    }

    fn finish(&self) {
        self.0.finish_and_clear();
    }
}
