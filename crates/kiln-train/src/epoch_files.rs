//! What each epoch leaves beside `metrics.jsonl`, for other programs.
//!
//! ```text
//! metrics.csv             the same record as a table
//! tensorboard/events.*    the same numbers for TensorBoard; a resumed run begins a second file
//! classes.csv             images, precision, recall and F1 of each class, of the best epoch
//! confusion.csv           who is taken for whom, of the best epoch: a row for each true class, up to 1,000 of them
//! ```

use crate::atomic_file;
use crate::confusion::ConfusionMatrix;
use crate::error::TrainError;
use crate::report::EpochMetrics;
use crate::tensorboard::{Event, EventFile, What};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Classes in a table of pairs: what a spreadsheet still opens, 2 MB.
const MAX_TABLE: usize = 1000;

/// The folder of the event files.
const TENSORBOARD: &str = "tensorboard";

/// Writes what an epoch leaves.
#[derive(Debug)]
pub(crate) struct EpochFiles {
    folder: PathBuf,
    /// Steps taken before the first epoch that is written.
    begun_at: u64,
    /// Begun with the first epoch, so that a run with nothing to do leaves nothing.
    events: Option<EventFile>,
}

impl EpochFiles {
    /// Files of the run in `folder`, which goes on after `step` steps.
    pub(crate) fn new(folder: &Path, step: u64) -> Self {
        Self { folder: folder.to_owned(), begun_at: step, events: None }
    }

    /// Adds an epoch; `lines` is the whole of `metrics.jsonl`.
    pub(crate) fn write_epoch(&mut self, metrics: &EpochMetrics, lines: &str) -> Result<(), TrainError> {
        self.file("metrics.csv", &csv_from_lines(lines))?;
        let events = match &mut self.events {
            Some(events) => events,
            none => none.insert(EventFile::begin(&self.folder.join(TENSORBOARD), now_secs(), self.begun_at)?),
        };
        let what = What::Scalars(scalars(metrics)?);
        events.append(&Event { wall_time: now_secs(), step: metrics.step, what })
    }

    /// Replaces the figures of the classes, which are named `classes`.
    pub(crate) fn write_classes(&self, confusion: &ConfusionMatrix, classes: &[String]) -> Result<(), TrainError> {
        self.file("classes.csv", &classes_csv(confusion, classes))?;
        match classes.len() <= MAX_TABLE {
            true => self.file("confusion.csv", &confusion_csv(confusion, classes)),
            false => Ok(()),
        }
    }

    fn file(&self, name: &str, text: &str) -> Result<(), TrainError> {
        atomic_file::write(&self.folder.join(name), text.as_bytes())
    }
}

fn now_secs() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Every number of an epoch; `train_loss` becomes `train/loss`, so that TensorBoard puts it beside its like.
fn scalars(metrics: &EpochMetrics) -> Result<Vec<(String, f32)>, TrainError> {
    let value = serde_json::to_value(metrics).map_err(|error| TrainError::Internal(error.to_string()))?;
    let tag = |name: &str| match name.split_once('_') {
        Some((group @ ("train" | "val"), rest)) => format!("{group}/{rest}"),
        _ => name.to_owned(),
    };
    let fields = value.as_object().into_iter().flatten();
    let numbers = fields.filter(|(name, _)| *name != "step");
    Ok(numbers.filter_map(|(name, value)| Some((tag(name), value.as_f64()? as f32))).collect())
}

/// The record as a table: a column for each name, in the order of the names but `epoch` first.
fn csv_from_lines(lines: &str) -> String {
    let rows: Vec<Map<String, Value>> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut columns: Vec<&str> = Vec::new();
    for row in &rows {
        let new = row.keys().filter(|name| !columns.contains(&name.as_str())).map(String::as_str);
        columns.extend(new.collect::<Vec<_>>());
    }
    columns.sort_by_key(|name| (*name != "epoch", *name));
    let cell = |row: &Map<String, Value>, name: &str| match row.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => quoted(text),
        Some(value) => quoted(&value.to_string()),
    };
    let mut text = columns.join(",") + "\n";
    for row in &rows {
        let cells: Vec<String> = columns.iter().map(|name| cell(row, name)).collect();
        text += &(cells.join(",") + "\n");
    }
    text
}

fn classes_csv(confusion: &ConfusionMatrix, classes: &[String]) -> String {
    let mut text = "class,images,precision,recall,f1\n".to_owned();
    for (name, class) in classes.iter().zip(confusion.classes()) {
        let (images, f1) = (class.support, class.f1);
        text += &format!("{},{images},{:.6},{:.6},{f1:.6}\n", quoted(name), class.precision, class.recall);
    }
    text
}

fn confusion_csv(confusion: &ConfusionMatrix, classes: &[String]) -> String {
    let names: Vec<String> = classes.iter().map(|name| quoted(name)).collect();
    let mut text = format!("true class \\ prediction,{}\n", names.join(","));
    for (truth, name) in names.iter().enumerate() {
        let counts = (0..names.len()).map(|predicted| confusion.count(truth, predicted).to_string());
        text += &format!("{name},{}\n", counts.collect::<Vec<_>>().join(","));
    }
    text
}

/// A cell as RFC 4180 writes it.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_becomes_a_table_whatever_a_line_lacks() {
        let lines = "{\"epoch\":1,\"loss\":0.5}\n{\"device\":\"CPU (a, b)\",\"epoch\":2,\"loss\":null}\n";
        assert_eq!(csv_from_lines(lines), "epoch,device,loss\n1,,0.5\n2,\"CPU (a, b)\",\n");
    }

    #[test]
    fn names_of_classes_are_quoted_where_they_must() {
        let mut confusion = ConfusionMatrix::new(2);
        confusion.add(0, 0);
        confusion.add(0, 1);
        let classes = ["cat, \"tabby\"".to_owned(), "dog".to_owned()];
        assert_eq!(
            confusion_csv(&confusion, &classes),
            "true class \\ prediction,\"cat, \"\"tabby\"\"\",dog\n\"cat, \"\"tabby\"\"\",1,1\ndog,0,0\n"
        );
        assert_eq!(
            classes_csv(&confusion, &classes).lines().nth(1),
            Some("\"cat, \"\"tabby\"\"\",2,1.000000,0.500000,0.666667")
        );
    }
}
