//! `kiln inspect`: what a data set is, and what is wrong with it.

use anyhow::{Context, ensure};
use clap::Args;
use kiln_data::{
    DecodeOptions, DeepInspection, InspectConfig, Inspection, OpenOptions, SkippedFile, inspect, inspection_page,
};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln inspect photos                                format, classes, files that can't be used
  kiln inspect photos --deep --page photos.png       copies, sizes, colours, pictures to look at
  kiln inspect photos --quarantine bad.jsonl         the files that training will skip, as a list
  kiln inspect labels.csv --strict --json            exit code 1 if anything can't be used

Exit code: 0 if all went well, 1 if not or if --strict finds a file, 2 for a mistyped command line.";

/// Says what a data set is, how many pictures each class has, and which files can't be used and why.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    /// Folder or file: class folders, a CSV or JSONL table beside pictures, CIFAR, IDX (MNIST), parquet, tar shards
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Measure and compare the pictures too: sizes, colours, imbalance, copies and near copies across the sets
    #[arg(long)]
    deep: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// End with an error if any file can't be used
    #[arg(long)]
    strict: bool,
    /// Write the files that can't be used to this list, a JSON object a line; nothing is moved or deleted
    #[arg(long, value_name = "FILE")]
    quarantine: Option<PathBuf>,
    /// Write a page of pictures of every class, and with --deep of copies, to this PNG
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Most pixels a picture may declare
    #[arg(long, value_name = "N", default_value_t = DecodeOptions::default().max_pixels)]
    max_pixels: u64,
}

/// Classes that the text lists; more scroll away.
const SHOWN_CLASSES: usize = 60;
/// Pairs of copies that the text lists.
const SHOWN_COPIES: usize = 10;

pub(crate) fn run(args: &Inspect) -> anyhow::Result<ExitCode> {
    if let Some(page) = &args.page {
        let is_png = page.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
        ensure!(is_png, "cannot write {}: the page is a PNG; give its name the ending .png", page.display());
    }
    let decode = DecodeOptions { max_pixels: args.max_pixels, ..Default::default() };
    let config = InspectConfig { deep: args.deep, open: OpenOptions::default(), decode };
    let inspection = inspect(&args.data, &config)?;

    let text = match args.json {
        true => serde_json::to_string_pretty(&inspection)? + "\n",
        false => described(&inspection),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    if let Some(list) = &args.quarantine {
        quarantine(list, &inspection.skipped)?;
        eprintln!("listed {} files in {}; none was touched", inspection.skipped.len(), list.display());
    }
    if let Some(page) = &args.page {
        inspection_page(&args.data, &config, &inspection)?.write_png(page)?;
        eprintln!("wrote {}", page.display());
    }
    let num_bad = inspection.skipped.len();
    if args.strict && num_bad > 0 {
        eprintln!("error: {num_bad} files can't be used, and --strict allows none");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the list aside, then gives it its name.
fn quarantine(path: &Path, skipped: &[SkippedFile]) -> anyhow::Result<()> {
    let mut text = String::new();
    for file in skipped {
        writeln!(text, "{}", serde_json::to_string(file)?)?;
    }
    let failed = || format!("cannot write the list {}", path.display());
    let name = path.file_name().with_context(failed)?.to_string_lossy();
    let aside = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    std::fs::write(&aside, text).and_then(|()| std::fs::rename(&aside, path)).with_context(failed)
}

fn described(inspection: &Inspection) -> String {
    let Inspection { format, classes, readable, train, val, skipped, remarks, deep } = inspection;
    let mut lines = vec![
        format!("format    {format}"),
        format!("readable  {readable} pictures: {train} for training, {val} for validation"),
        format!("classes   {}", classes.len()),
    ];
    let width = classes.iter().take(SHOWN_CLASSES).map(|class| shown(&class.name).chars().count()).max().unwrap_or(0);
    for class in classes.iter().take(SHOWN_CLASSES) {
        let name = shown(&class.name);
        lines.push(format!("  {name:<width$}  {:>8} {:>8} train {:>8} val", class.images, class.train, class.val));
    }
    if let Some(more) = classes.len().checked_sub(SHOWN_CLASSES).filter(|more| *more > 0) {
        lines.push(format!("  and {more} more; --json lists them all"));
    }
    lines.push(format!("skipped   {}", skipped.len()));
    lines.extend(skipped.iter().map(listed));
    lines.extend(remarks.iter().map(|remark| format!("note      {remark}")));
    if let Some(deep) = deep {
        lines.extend(described_deep(deep));
    }
    lines.join("\n") + "\n"
}

fn listed(file: &SkippedFile) -> String {
    format!("  {}: {}", shown(&file.path), file.reason)
}

/// A name on one line.
fn shown(name: &str) -> String {
    name.chars()
        .flat_map(|letter| if letter.is_control() { letter.escape_default().collect() } else { vec![letter] })
        .collect()
}

fn described_deep(deep: &DeepInspection) -> Vec<String> {
    let DeepInspection { imbalance, sizes, mean, std, odd, duplicates, near_duplicates, near_method } = deep;
    let size = |[width, height]: [u32; 2]| format!("{width}x{height}");
    let numbers = |numbers: &[f64; 3]| numbers.map(|number| format!("{number:.4}")).join(", ");
    let mut lines = vec![match imbalance {
        Some(ratio) => {
            format!("balance   the largest class has {ratio:.1} times the training pictures of the smallest")
        }
        None => "balance   a class has no training picture".to_owned(),
    }];
    let (smallest, largest, median) = (size(sizes.smallest), size(sizes.largest), sizes.median_side);
    lines.push(format!("sizes     {smallest} to {largest}; half have a shorter side of {median} px or more"));
    for range in &sizes.histogram {
        let to = range.to.map_or("...".to_owned(), |to| to.to_string());
        lines.push(format!("  {:>5} to {to:>5} px {:>8}", range.from, range.images));
    }
    lines.push(format!("mean      {}   std {}   (of the training pictures, 0 to 1)", numbers(mean), numbers(std)));
    lines.push(format!("odd       {}", odd.len()));
    lines.extend(odd.iter().take(SHOWN_COPIES).map(listed));
    let across = duplicates.iter().filter(|group| group.across).count();
    lines.push(format!("copies    {} groups of the same bytes, {across} of them in both sets", duplicates.len()));
    for group in duplicates.iter().take(SHOWN_COPIES) {
        lines.push(format!("  {}{}", paths(&group.paths), warning(group.labels_differ)));
    }
    let across = near_duplicates.iter().filter(|pair| pair.across).count();
    lines.push(format!("alike     {} pairs, {across} of them across the sets ({near_method})", near_duplicates.len()));
    for pair in near_duplicates.iter().take(SHOWN_COPIES) {
        lines.push(format!("  {} ({} bits){}", paths(&pair.paths), pair.distance, warning(pair.labels_differ)));
    }
    lines
}

fn paths(paths: &[String]) -> String {
    paths.iter().map(|path| shown(path)).collect::<Vec<_>>().join(" = ")
}

fn warning(labels_differ: bool) -> &'static str {
    if labels_differ { ", under different labels" } else { "" }
}
