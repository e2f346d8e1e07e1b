//! `kiln report`: what a run did, as a page.

use clap::Args;
use kiln_report::{Report, ReportConfig, compare, report};
use kiln_train::RunFolder;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln report runs/resnet50-1                              report.html and report.md
  kiln report runs/resnet50-1 --data /mnt/photos           if the data set has moved
  kiln report runs/resnet50-1 --output /tmp                somewhere else
  kiln report --compare runs/resnet50-1 runs/resnet50-2    side by side
`kiln eval RUN` adds the confusion matrix, each class and pictures.

Exit code: 0 if the report was written, 1 if not.";

/// Writes what a run did as one HTML page that needs nothing else, and as Markdown.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// The run folder
    #[arg(value_name = "RUN", required_unless_present = "compare", conflicts_with = "compare")]
    run: Option<PathBuf>,
    /// Compare runs instead
    #[arg(long, value_name = "RUN", num_args = 2..)]
    compare: Vec<PathBuf>,
    /// Folder to write to. Default: the run folder; of a comparison, the current one
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The data set, for the pictures, if it isn't where it was
    #[arg(long, value_name = "DIR", conflicts_with = "compare")]
    data: Option<PathBuf>,
    /// Print JSON: html, markdown (paths), left_out
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let (made, folder, name) = match &args.run {
        Some(run) => {
            let config = ReportConfig { data: args.data.clone(), ..ReportConfig::default() };
            (report(run, &config)?, run.clone(), "report")
        }
        None => (compare(&args.compare)?, PathBuf::from("."), "comparison"),
    };
    let folder = args.output.clone().unwrap_or(folder);
    let [html, markdown] = write(&made, &folder, name)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let paths = serde_json::json!({ "html": html, "markdown": markdown, "left_out": made.left_out });
        writeln!(out, "{paths}")?;
        return Ok(ExitCode::SUCCESS);
    }
    for left_out in &made.left_out {
        eprintln!("left out  {left_out}");
    }
    writeln!(out, "{}\n{}", html.display(), markdown.display())?;
    Ok(ExitCode::SUCCESS)
}

fn write(made: &Report, folder: &Path, name: &str) -> anyhow::Result<[PathBuf; 2]> {
    let files = [(format!("{name}.html"), &made.html), (format!("{name}.md"), &made.markdown)];
    let out = RunFolder::new(folder);
    for (name, text) in &files {
        out.write_file(name, text.as_bytes())?;
    }
    Ok(files.map(|(name, _)| folder.join(name)))
}
