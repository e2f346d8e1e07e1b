//! `kiln monitor`: the GPUs while they work.
//!
//! A table that renews itself on a terminal, lines elsewhere, JSON or CSV for programs.

mod csv;
mod line;
mod screen;
mod table;

use clap::{Args, ValueEnum};
use kiln_device::{Monitor as GpuMonitor, Reading};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  kiln monitor                             a live table; Ctrl-C ends it
  kiln monitor --interval 5 --csv > gpus.csv
  kiln monitor --samples 1 --json          one reading for a program

Exit code: 0 however it is ended, 1 if the output can't be written, 2 for a mistyped command line.";

/// Shows load, memory, heat, power and clocks of the GPUs, and warns of what holds them back.
///
/// What a card doesn't tell is left out. A sleeping card is left asleep, and an idle one that could sleep is left alone.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Monitor {
    /// Seconds between readings
    #[arg(long, value_name = "SECS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
    /// End after so many readings
    #[arg(long, value_name = "COUNT")]
    samples: Option<u64>,
    /// One JSON object a reading and line
    #[arg(long, conflicts_with_all = ["csv", "form"])]
    json: bool,
    /// Comma-separated values, one line a GPU and reading; a value that isn't known is empty
    #[arg(long, conflicts_with = "form")]
    csv: bool,
    /// Table or lines; a table on a terminal, lines elsewhere unless told
    #[arg(long, value_enum)]
    form: Option<Form>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    Table,
    Lines,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(secs) if (0.1..=3600.0).contains(&secs) => Ok(secs),
        _ => Err("a number of seconds from 0.1 to 3600 is needed".to_owned()),
    }
}

/// Shows a reading.
trait View {
    fn show(&mut self, reading: &Reading) -> io::Result<()>;
}

pub(crate) fn run(args: &Monitor) -> anyhow::Result<ExitCode> {
    let mut view = args.view()?;
    let stop = stop_on_ctrl_c();
    let mut monitor = GpuMonitor::new();
    let pause = Duration::from_secs_f64(args.interval);
    let mut next = Instant::now();
    let mut left = args.samples;
    while left != Some(0) && !stop.load(Ordering::SeqCst) {
        match view.show(&monitor.read()) {
            // Whoever read the lines has enough of them.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            shown => shown?,
        }
        left = left.map(|left| left - 1);
        if left == Some(0) {
            break;
        }
        // Readings that took too long aren't made up for.
        next = (next + pause).max(Instant::now());
        while !stop.load(Ordering::SeqCst) && Instant::now() < next {
            thread::park_timeout(next.saturating_duration_since(Instant::now()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Monitor {
    fn view(&self) -> io::Result<Box<dyn View>> {
        let out = io::stdout();
        let table = match self.form {
            Some(Form::Table) => true,
            Some(Form::Lines) => false,
            None => out.is_terminal(),
        };
        Ok(match (self.json, self.csv, table) {
            (true, _, _) => Box::new(Json),
            (_, true, _) => Box::new(csv::Csv::default()),
            (_, _, true) => Box::new(table::Table::new()?),
            _ => Box::new(line::Lines),
        })
    }
}

struct Json;

impl View for Json {
    fn show(&mut self, reading: &Reading) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(reading)?)?;
        out.flush()
    }
}

/// A flag that the first Ctrl-C sets, waking this thread; a second one ends the program, should a driver hang.
fn stop_on_ctrl_c() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, sleeper) = (stop.clone(), thread::current());
    let installed = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(kiln::INTERRUPTED.into());
        }
        sleeper.unpark();
    });
    if let Err(error) = installed {
        tracing::debug!("Ctrl-C ends the monitor at once: {error}");
    }
    stop
}
