//! Several runs on one page: their figures side by side, their curves over each other, and the settings they differ in.

use crate::chart::{Figure, Line, LineChart, line_chart};
use crate::error::ReportError;
use crate::ink::Ink;
use crate::markdown;
use crate::page::{charts, escaped, page, section, table};
use crate::run::{Epoch, Run};
use crate::summary::{Report, progress};
use crate::write::{duration, percent};
use std::path::PathBuf;

/// Colours of the runs; more runs begin again.
const INKS: [Ink; 5] = [Ink::Blue, Ink::Orange, Ink::Green, Ink::Purple, Ink::Red];

/// Compares runs; the first is the one that settings are told against.
///
/// # Errors
/// As of [`report`](crate::report), for any of them.
pub fn compare(runs: &[PathBuf]) -> Result<Report, ReportError> {
    let runs: Vec<Run> = runs.iter().map(|path| Run::read(path)).collect::<Result<_, _>>()?;
    let names: Vec<String> = runs.iter().map(Run::name).collect();
    let head: Vec<&str> = std::iter::once("").chain(names.iter().map(String::as_str)).collect();
    let (figures, settings) = (figures(&runs), settings(&runs));
    let title = names.join(" and ");
    let sections = [
        format!("<h1>{}</h1>", escaped(&title)),
        section("Figures", &table(&head, &figures, true)),
        section("Curves", &charts(&curves(&runs, &names)?)),
        section(
            "Settings that differ",
            &if settings.is_empty() { String::new() } else { table(&["run", "setting"], &settings, false) },
        ),
    ];
    let mut text = format!("# {title}\n{}", markdown::table(&head, &figures));
    if !settings.is_empty() {
        text += &format!("\n## Settings that differ\n{}", markdown::table(&["run", "setting"], &settings));
    }
    Ok(Report { html: page(&title, &sections), markdown: text, left_out: Vec::new() })
}

/// A row a figure, a column a run; what isn't on record is empty.
fn figures(runs: &[Run]) -> Vec<Vec<String>> {
    let best = |value: fn(&Epoch) -> Option<f64>| move |run: &Run| run.best().and_then(value);
    let share = |value: Option<f64>| value.map_or_else(String::new, percent);
    let row = |name: &str, of: &dyn Fn(&Run) -> String| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(runs.iter().map(of)).collect()
    };
    vec![
        row("done", &progress),
        row("best top-1", &|run| share(best(|epoch| epoch.val_top1)(run))),
        row("its top-5", &|run| share(best(|epoch| epoch.val_top5)(run))),
        row("its loss", &|run| best(|epoch| epoch.val_loss)(run).map_or_else(String::new, |loss| format!("{loss:.3}"))),
        row("its epoch", &|run| run.best().map_or_else(String::new, |epoch| epoch.epoch.to_string())),
        row("images a second", &|run| {
            run.epochs
                .last()
                .and_then(|epoch| epoch.images_per_sec)
                .map_or_else(String::new, |speed| format!("{speed:.1}"))
        }),
        row("waiting for data", &|run| share(run.epochs.last().and_then(|epoch| epoch.data_wait_fraction))),
        row("time", &|run| duration(run.secs())),
        row("device", &|run| run.epochs.last().and_then(|epoch| epoch.device.clone()).unwrap_or_default()),
    ]
}

fn curves(runs: &[Run], names: &[String]) -> Result<Vec<Figure>, ReportError> {
    let lines = |value: fn(&Epoch) -> Option<f64>, factor: f64| -> Vec<Line> {
        let line = |(index, run): (usize, &Run)| {
            let points = run.curve(value).into_iter().map(|(x, y)| (x, factor * y)).collect();
            Line { name: names[index].clone(), ink: INKS[index % INKS.len()], points }
        };
        runs.iter().enumerate().map(line).collect()
    };
    let plots = [
        LineChart {
            title: "Validation accuracy",
            lines: lines(|epoch| epoch.val_top1, 100.0),
            range: Some(0.0..100.0),
            label: |value| format!("{value:.0} %"),
        },
        LineChart {
            title: "Validation loss",
            lines: lines(|epoch| epoch.val_loss, 1.0),
            range: None,
            label: |value| format!("{value:.2}"),
        },
        LineChart {
            title: "Training loss",
            lines: lines(|epoch| epoch.train_loss, 1.0),
            range: None,
            label: |value| format!("{value:.2}"),
        },
        LineChart {
            title: "Images a second",
            lines: lines(|epoch| epoch.images_per_sec, 1.0),
            range: None,
            label: |value| if *value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") },
        },
    ];
    plots.iter().filter_map(|plot| line_chart(plot).transpose()).collect()
}

/// Each run's settings that aren't the first's.
fn settings(runs: &[Run]) -> Vec<Vec<String>> {
    let Some(first) = runs.first().and_then(|run| run.recipe.as_ref()) else { return Vec::new() };
    let others = runs.iter().skip(1).filter_map(|run| Some((run.name(), run.recipe.as_ref()?.differences(first))));
    others.flat_map(|(name, differences)| differences.into_iter().map(move |line| vec![name.clone(), line])).collect()
}
