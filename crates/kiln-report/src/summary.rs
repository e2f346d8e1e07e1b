//! The page of one run: how it ended, its curves, where its time went, how good the network is, and what it ran on.

use crate::chart::{Bar, Figure, Line, LineChart, bar_chart, line_chart};
use crate::error::ReportError;
use crate::ink::Ink;
use crate::markdown;
use crate::page::{charts, escaped, jpeg, page, section, table, tiles};
use crate::photo;
use crate::run::{Epoch, Run};
use crate::write::{date, duration, percent};
use kiln_data::{OpenOptions, PreviewConfig, Splits, preview_grid, scenes};
use kiln_train::{Recipe, Start};
use std::path::{Path, PathBuf};

/// A report, in both of its forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// One page that needs nothing else.
    pub html: String,
    /// The same without pictures.
    pub markdown: String,
    /// What was left out although it was on record, and why.
    pub left_out: Vec<String>,
}

/// What a run's folder doesn't hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportConfig {
    /// The data set, if it isn't where it was when the run started.
    pub data: Option<PathBuf>,
    /// Leave the grid of augmented pictures out, for which the data set is read. Default false.
    pub without_grid: bool,
}

/// Reports on the run in `path`.
///
/// # Errors
/// [`ReportError::NoRun`] if there is none; [`ReportError::Malformed`], [`ReportError::Train`] if its record can't be read.
pub fn report(path: &Path, config: &ReportConfig) -> Result<Report, ReportError> {
    let run = Run::read(path)?;
    let mut left_out = Vec::new();
    let grid = if config.without_grid { None } else { grid(&run, config, &mut left_out) };
    let evaluation = run.evaluation.as_ref().map(|saved| saved.html()).transpose()?.unwrap_or_default();
    let sections = [
        heading(&run),
        section("What ran on what, and why", &starts(&run.starts)),
        section("Curves", &charts(&curves(&run)?)),
        section("Where the time went", &time(&run)?),
        section("How good the network is", &evaluation),
        section("What the network saw in training", &grid.unwrap_or_default()),
        section("Recipe", &recipe(run.recipe.as_ref())),
        section("Epochs", &epochs(&run.epochs)),
    ];
    Ok(Report { html: page(&run.name(), &sections), markdown: markdown::report(&run), left_out })
}

/// How far the run came, in words.
pub(crate) fn progress(run: &Run) -> String {
    let done = run.epochs.last().map_or(0, |epoch| epoch.epoch);
    match run.num_epochs() {
        Some(asked) if done as usize >= asked => format!("all {asked} epochs"),
        Some(asked) => format!("{done} of {asked} epochs"),
        None => format!("{done} epochs"),
    }
}

/// The figures worth a look at once: value and meaning.
pub(crate) fn key_figures(run: &Run) -> Vec<(String, String)> {
    let mut tiles = Vec::new();
    if let Some(best) = run.best() {
        let of = |value: Option<f64>, what: String| value.map(|value| (percent(value), what));
        tiles.extend(of(best.val_top1, format!("best top-1, epoch {}", best.epoch)));
        tiles.extend(of(best.val_top5, "its top-5".to_owned()));
        tiles.extend(best.val_loss.map(|loss| (format!("{loss:.3}"), "its validation loss".to_owned())));
    }
    if let Some(last) = run.epochs.last() {
        tiles.extend(last.images_per_sec.map(|speed| (format!("{speed:.1}"), "images a second".to_owned())));
        tiles.extend(last.data_wait_fraction.map(|share| (percent(share), "waiting for data".to_owned())));
    }
    if run.secs() > 0.0 {
        tiles.push((duration(run.secs()), "training and validating".to_owned()));
    }
    tiles
}

fn heading(run: &Run) -> String {
    let network = run.recipe.as_ref().map(|recipe| {
        let (model, data) = (&recipe.model, &recipe.data);
        format!("{}, images of {} px, batches of {}; ", model.arch, recipe.augment.image_size, data.batch_size)
    });
    let line = format!("{}{}", network.unwrap_or_default(), progress(run));
    format!(
        "<h1>{}</h1>\n<p class=\"quiet\">{}</p>\n{}",
        escaped(&run.name()),
        escaped(&line),
        tiles(&key_figures(run))
    )
}

/// Each start as rows of name and value.
pub(crate) fn start_rows(start: &Start) -> Vec<Vec<String>> {
    let data =
        start.data.as_ref().map_or_else(|| "the set that Kiln draws itself".into(), |path| path.display().to_string());
    let images = format!(
        "{} to train, {} to validate, {} classes",
        start.num_train_images, start.num_val_images, start.num_classes
    );
    let rows = [
        ("started", date(start.unix_secs)),
        ("device", start.device.clone()),
        ("machine", format!("{}, {} threads", start.system, start.num_threads)),
        ("data", data),
        ("images", images),
        ("network", format!("{:.2} M parameters", start.num_parameters as f64 / 1e6)),
        (
            "steps",
            format!(
                "{} of {} images an epoch, from epoch {}",
                start.steps_per_epoch, start.batch_size, start.first_epoch
            ),
        ),
        ("command", start.command.join(" ")),
        ("Kiln", start.kiln.clone()),
    ];
    rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
}

fn starts(starts: &[Start]) -> String {
    let tables = starts.iter().map(|start| table(&[], &start_rows(start), false));
    tables.collect::<Vec<_>>().join("\n<p class=\"quiet\">and again, resumed:</p>\n")
}

pub(crate) fn curves(run: &Run) -> Result<Vec<Figure>, ReportError> {
    let line =
        |name: &str, ink, value: fn(&Epoch) -> Option<f64>| Line { name: name.into(), ink, points: run.curve(value) };
    let whole_percent: fn(&f64) -> String = |value| format!("{value:.0} %");
    let as_percent =
        |line: Line| Line { points: line.points.into_iter().map(|(x, y)| (x, 100.0 * y)).collect(), ..line };
    let plots = [
        LineChart {
            title: "Accuracy",
            lines: vec![
                as_percent(line("validation", Ink::Blue, |epoch| epoch.val_top1)),
                as_percent(line("top-5", Ink::Green, |epoch| epoch.val_top5)),
                as_percent(line("training", Ink::Orange, |epoch| epoch.train_top1)),
            ],
            range: Some(0.0..100.0),
            label: whole_percent,
        },
        LineChart {
            title: "Loss",
            lines: vec![
                line("validation", Ink::Blue, |epoch| epoch.val_loss),
                line("training", Ink::Orange, |epoch| epoch.train_loss),
            ],
            range: None,
            label: |value| format!("{value:.2}"),
        },
        LineChart {
            title: "Learning rate",
            lines: vec![line("at the epoch's end", Ink::Purple, |epoch| epoch.lr)],
            range: None,
            label: |value| if *value == 0.0 || *value >= 0.01 { format!("{value:.3}") } else { format!("{value:.0e}") },
        },
        LineChart {
            title: "Images a second",
            lines: vec![line("in training", Ink::Blue, |epoch| epoch.images_per_sec)],
            range: None,
            label: |value| if *value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") },
        },
        LineChart {
            title: "Waiting for data",
            lines: vec![as_percent(line("of the time", Ink::Red, |epoch| epoch.data_wait_fraction))],
            range: Some(0.0..100.0),
            label: whole_percent,
        },
    ];
    plots.iter().filter_map(|plot| line_chart(plot).transpose()).collect()
}

/// Parts of a step that a record may have, as seconds of the epoch, in the order in which a batch passes them.
const STAGES: [(&str, &str); 7] = [
    ("upload_secs", "upload"),
    ("augment_secs", "augment"),
    ("forward_secs", "forward"),
    ("loss_secs", "loss"),
    ("backward_secs", "backward"),
    ("optimizer_secs", "optimiser"),
    ("checkpoint_secs", "checkpoint"),
];

/// Parts of the recorded time and their seconds, over all epochs.
pub(crate) fn time_parts(run: &Run) -> Vec<(String, f64)> {
    let sum = |value: &dyn Fn(&Epoch) -> Option<f64>| run.epochs.iter().filter_map(value).sum::<f64>();
    let train = sum(&|epoch| epoch.train_secs);
    let wait = sum(&|epoch| Some(epoch.train_secs? * epoch.data_wait_fraction?));
    let stage = |key: &str| sum(&|epoch: &Epoch| epoch.more.get(key)?.as_f64());
    let stages: Vec<(String, f64)> =
        STAGES.iter().map(|(key, name)| (name.to_string(), stage(key))).filter(|part| part.1 > 0.0).collect();
    let rest = (train - wait - stages.iter().map(|part| part.1).sum::<f64>()).max(0.0);
    let rest_name = if stages.is_empty() { "training steps" } else { "other" };
    let mut parts = vec![("waiting for data".to_owned(), wait)];
    parts.extend(stages);
    parts.push((rest_name.to_owned(), rest));
    parts.push(("validation".to_owned(), sum(&|epoch| epoch.val_secs)));
    parts
}

fn time(run: &Run) -> Result<String, ReportError> {
    let parts = time_parts(run);
    let total: f64 = parts.iter().map(|part| part.1).sum();
    let bar = |(name, secs): &(String, f64)| {
        let ink = match name.as_str() {
            "waiting for data" => Ink::Red,
            "validation" => Ink::Green,
            _ => Ink::Blue,
        };
        Bar { name: name.clone(), value: *secs, label: percent(secs / total), ink }
    };
    let bars: Vec<Bar> = parts.iter().map(bar).collect();
    let title = format!("Of {}", duration(total));
    let figure = bar_chart(&title, &bars)?;
    let verdicts = run
        .epochs
        .iter()
        .filter_map(|epoch| Some(format!("<p>Epoch {}: {}</p>", epoch.epoch, escaped(epoch.held_back.as_ref()?))));
    Ok(charts(&figure.into_iter().collect::<Vec<_>>()) + &verdicts.take(3).collect::<String>())
}

fn recipe(recipe: Option<&Recipe>) -> String {
    let text = recipe.and_then(|recipe| recipe.to_toml().ok());
    let text = text.map(|text| {
        format!("<details><summary>Every setting, as resolved</summary><pre>{}</pre></details>", escaped(&text))
    });
    text.unwrap_or_default()
}

/// A row an epoch: epoch, losses, accuracies, speed, files left out.
pub(crate) fn epoch_rows(epochs: &[Epoch]) -> Vec<Vec<String>> {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    let share = |value: Option<f64>| value.map_or_else(String::new, percent);
    let row = |epoch: &Epoch| {
        vec![
            epoch.epoch.to_string(),
            number(epoch.train_loss),
            number(epoch.val_loss),
            share(epoch.train_top1),
            share(epoch.val_top1),
            epoch.images_per_sec.map_or_else(String::new, |speed| format!("{speed:.1}")),
            epoch.skipped.to_string(),
        ]
    };
    epochs.iter().map(row).collect()
}

/// What the columns of [`epoch_rows`] are.
pub(crate) const EPOCH_HEAD: [&str; 7] =
    ["epoch", "train loss", "val loss", "train top-1", "val top-1", "img/s", "skipped"];

fn epochs(epochs: &[Epoch]) -> String {
    if epochs.is_empty() {
        return String::new();
    }
    let devices: std::collections::BTreeSet<&str> = epochs.iter().filter_map(|epoch| epoch.device.as_deref()).collect();
    let devices = devices.into_iter().collect::<Vec<_>>().join("; ");
    let table = table(&EPOCH_HEAD, &epoch_rows(epochs), true);
    format!("<p class=\"quiet\">{}</p><details><summary>All figures</summary>{table}</details>", escaped(&devices))
}

/// Pictures beside draws of the recipe's augmentation, if the data set can still be read.
fn grid(run: &Run, config: &ReportConfig, left_out: &mut Vec<String>) -> Option<String> {
    let recipe = run.recipe.as_ref()?;
    let data = match &config.data {
        Some(path) => Some(path),
        None => run.starts.last()?.data.as_ref(),
    };
    let opened: Result<Splits, _> = match data {
        Some(path) => kiln_data::open(path, &OpenOptions::default()),
        None => scenes::open_or_create(None, &scenes::ScenesConfig::default()),
    };
    let preview = PreviewConfig { images: 6, draws: 4, seed: recipe.run.seed, epoch: 0 };
    let drawn = opened.and_then(|splits| {
        preview_grid(splits.train.as_ref(), &recipe.augment.training(), &preview, &kiln_device::cpu())
    });
    match drawn {
        Ok(drawn) => photo::jpeg(drawn.picture, None)
            .map(|bytes| jpeg(&bytes, "grid", "pictures beside what training makes of them in its first epochs")),
        Err(error) => {
            left_out.push(format!("the grid of augmented pictures: {error}"));
            None
        }
    }
}
