//! Reads a table of paths and labels: CSV and TSV with or without a head, or JSON lines.
//!
//! In: a file, read whole. Out: [`Table`], a row a picture. Columns go by their usual names, in any case; a column that is
//! called otherwise is named in the error, with the name it may be meant for.
//! Quoting: RFC 4180 (csv-core).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use csv_core::{ReadRecordResult, ReaderBuilder};
use serde_json::Value;

use super::Names;
use crate::dataset::folder_scan::is_picture;
use crate::dataset::image_folder::{TRAIN_NAMES, VAL_NAMES};
use crate::dataset::{Findings, layout_error};
use crate::error::DataError;
use crate::nearest_name::nearest_name;

/// Endings of tables, the likeliest first.
const ENDINGS: [&str; 4] = ["csv", "tsv", "jsonl", "ndjson"];

/// What the column of paths is called, the first that is there.
pub(in crate::dataset) const FILE_COLUMNS: [&str; 13] = [
    "file_name",
    "filename",
    "file",
    "image",
    "image_path",
    "image_file",
    "image_name",
    "filepath",
    "file_path",
    "path",
    "img",
    "img_path",
    "image_id",
];

/// What the column of labels is called.
pub(in crate::dataset) const LABEL_COLUMNS: [&str; 9] =
    ["label", "labels", "class", "class_name", "category", "target", "species", "breed", "y"];

/// What the column that tells training rows from validation rows is called.
const SPLIT_COLUMNS: [&str; 4] = ["split", "set", "subset", "partition"];

/// Which of the two sets a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Train,
    Val,
}

/// The rows of a table.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) names: Names,
    /// Index into `label_names`, a row each.
    pub(super) labels: Vec<u32>,
    /// All `Train` if no column says otherwise.
    pub(super) sides: Vec<Side>,
    /// In the order they first occur.
    pub(super) label_names: Vec<String>,
}

impl Table {
    /// Reads `path`; rows without a path or a label go into `findings`.
    ///
    /// # Errors
    /// [`DataError::Layout`] with the line and the remedy.
    pub(super) fn read(path: &Path, findings: &mut Findings) -> Result<Self, DataError> {
        let mut rows = Rows { path, columns: None, table: Self::default(), label_index: HashMap::new(), findings };
        let text = fs::read(path).map_err(|reason| layout_error(path, reason.to_string(), "check the file"))?;
        match delimiter(path) {
            Some(delimiter) => {
                each_record(path, &text, delimiter, |line, cells| rows.record(line, cells).map(|()| true))?
            }
            None => each_object(path, &text, |line, object| rows.object(line, object).map(|()| true))?,
        }
        match rows.table.labels.is_empty() {
            true => {
                Err(layout_error(path, "it lists no picture", "give a line for each picture: its path and its label"))
            }
            false => Ok(rows.table),
        }
    }

    /// Says whether some rows are for validation.
    pub(super) fn has_sides(&self) -> bool {
        self.sides.contains(&Side::Val)
    }
}

/// Says whether a file is named like a table.
pub(super) fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|found| ENDINGS.iter().any(|ending| found.eq_ignore_ascii_case(ending)))
}

/// The table called `name` in a folder.
pub(super) fn named(folder: &Path, name: &str) -> Option<PathBuf> {
    ENDINGS.iter().map(|ending| folder.join(format!("{name}.{ending}"))).find(|path| path.is_file())
}

/// Says whether the first line of a table has columns for paths and labels.
pub(super) fn has_columns(path: &Path) -> bool {
    /// More than any head.
    const HEAD_BYTES: u64 = 1 << 16;
    let mut head = Vec::new();
    let read = fs::File::open(path)
        .and_then(|file| std::io::Read::read_to_end(&mut std::io::Read::take(file, HEAD_BYTES), &mut head));
    let mut found = false;
    let mut look = |names: Vec<String>| {
        found = Columns::find(path, &names).is_ok();
        // One line is enough.
        Ok(false)
    };
    let looked = match delimiter(path) {
        Some(delimiter) => each_record(path, &head, delimiter, |_, cells| look(owned(cells))),
        None => each_object(path, &head, |_, object| look(object.keys().cloned().collect())),
    };
    read.is_ok() && looked.is_ok() && found
}

/// The separator of a CSV or TSV file; JSON lines have none.
fn delimiter(path: &Path) -> Option<u8> {
    let is = |ending| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending));
    match (is("csv"), is("tsv")) {
        (true, _) => Some(b','),
        (_, true) => Some(b'\t'),
        _ => None,
    }
}

fn owned(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| cell.to_string()).collect()
}

/// Where a row has what.
struct Columns {
    names: Vec<String>,
    file: usize,
    label: usize,
    split: Option<usize>,
}

impl Columns {
    /// Finds the columns by name. A first row that begins with a picture's name is no head: `path,label`.
    fn find(path: &Path, names: &[String]) -> Result<Self, DataError> {
        if let [first, _, ..] = names
            && is_picture(first.as_ref())
        {
            return Ok(Self { names: Vec::new(), file: 0, label: 1, split: None });
        }
        let position =
            |known: &[&str]| known.iter().find_map(|known| names.iter().position(|name| plain(name) == *known));
        let (file, label) = (position(&FILE_COLUMNS), position(&LABEL_COLUMNS));
        match (file, label) {
            (Some(file), Some(label)) => {
                Ok(Self { names: names.to_vec(), file, label, split: position(&SPLIT_COLUMNS) })
            }
            (None, _) => Err(no_column(path, names, "the pictures' paths", &FILE_COLUMNS, label)),
            (_, None) => Err(no_column(path, names, "the labels", &LABEL_COLUMNS, file)),
        }
    }
}

/// A column's name as it is compared.
pub(in crate::dataset) fn plain(name: &str) -> String {
    name.trim().to_lowercase().replace([' ', '-'], "_")
}

pub(in crate::dataset) fn no_column(
    path: &Path,
    names: &[String],
    what: &str,
    known: &[&str],
    taken: Option<usize>,
) -> DataError {
    let others = names.iter().enumerate().filter(|(index, _)| Some(*index) != taken).map(|(_, name)| name);
    let near = others.into_iter().find_map(|name| Some((name, nearest_name(&plain(name), known.iter().copied())?)));
    let problem = format!("none of its columns {names:?} is one of {what}");
    let remedy = match near {
        Some((name, meant)) => format!("did you mean {meant:?} by {name:?}? Rename that column"),
        None => format!("call that column {:?}, or one of {}", known[0], known[1..].join(", ")),
    };
    layout_error(path, problem, remedy)
}

/// Puts rows together.
struct Rows<'a> {
    path: &'a Path,
    columns: Option<Columns>,
    table: Table,
    label_index: HashMap<String, u32>,
    findings: &'a mut Findings,
}

impl Rows<'_> {
    fn record(&mut self, line: u64, cells: &[&str]) -> Result<(), DataError> {
        let Some(columns) = &self.columns else {
            let columns = Columns::find(self.path, &owned(cells))?;
            let has_head = !columns.names.is_empty();
            self.columns = Some(columns);
            return if has_head { Ok(()) } else { self.record(line, cells) };
        };
        let wanted = columns.file.max(columns.label).max(columns.split.unwrap_or(0));
        if cells.len() <= wanted {
            let problem = format!("line {line} has {} cells where {} are needed", cells.len(), wanted + 1);
            return Err(layout_error(self.path, problem, "complete the line or remove it"));
        }
        let split = columns.split.map(|split| cells[split]);
        self.push(line, cells[columns.file], cells[columns.label], split)
    }

    fn object(&mut self, line: u64, object: &serde_json::Map<String, Value>) -> Result<(), DataError> {
        let columns = match &self.columns {
            Some(columns) => columns,
            None => {
                let names: Vec<_> = object.keys().cloned().collect();
                self.columns.insert(Columns::find(self.path, &names)?)
            }
        };
        let text = |column: usize| columns.names.get(column).and_then(|name| object.get(name)).map(text_from_value);
        let (file, label) = (text(columns.file).unwrap_or_default(), text(columns.label).unwrap_or_default());
        let split = columns.split.map(|split| text(split).unwrap_or_default());
        self.push(line, &file, &label, split.as_deref())
    }

    fn push(&mut self, line: u64, file: &str, label: &str, split: Option<&str>) -> Result<(), DataError> {
        let (file, label) = (file.trim(), label.trim());
        if file.is_empty() || label.is_empty() {
            let missing = if file.is_empty() { "path" } else { "label" };
            let name = if file.is_empty() { format!("line {line}") } else { file.to_owned() };
            self.findings.leave_out(name, format!("line {line} of the table has no {missing}"));
            return Ok(());
        }
        let side = match split.map(str::trim) {
            None => Side::Train,
            Some(split) => side(split).ok_or_else(|| {
                let problem = format!("line {line} belongs to the split {split:?}, which is neither train nor val");
                layout_error(self.path, problem, "write train or val")
            })?,
        };
        let next = self.table.label_names.len() as u32;
        let index = match self.label_index.get(label) {
            Some(&index) => index,
            None => {
                self.table.label_names.push(label.to_owned());
                self.label_index.insert(label.to_owned(), next);
                next
            }
        };
        self.table.names.push(file);
        self.table.labels.push(index);
        self.table.sides.push(side);
        Ok(())
    }
}

fn side(split: &str) -> Option<Side> {
    let is = |names: &[&str]| names.iter().any(|name| split.eq_ignore_ascii_case(name));
    match (is(&TRAIN_NAMES), is(&VAL_NAMES)) {
        (true, _) => Some(Side::Train),
        (_, true) => Some(Side::Val),
        _ => None,
    }
}

/// Strings as they are; anything else as JSON writes it.
fn text_from_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Calls `each` with the line and the cells of every record, until it says false.
fn each_record(
    path: &Path,
    text: &[u8],
    delimiter: u8,
    mut each: impl FnMut(u64, &[&str]) -> Result<bool, DataError>,
) -> Result<(), DataError> {
    let mut text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
    let (mut content, mut ends) = (vec![0; 256], vec![0; 16]);
    let (mut num_content, mut num_ends) = (0, 0);
    loop {
        let line = reader.line();
        let (result, read, written, ended) =
            reader.read_record(text, &mut content[num_content..], &mut ends[num_ends..]);
        text = &text[read..];
        (num_content, num_ends) = (num_content + written, num_ends + ended);
        match result {
            // The next call, with nothing, ends the last record.
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::OutputFull => content.resize(2 * content.len(), 0),
            ReadRecordResult::OutputEndsFull => ends.resize(2 * ends.len(), 0),
            ReadRecordResult::End => return Ok(()),
            ReadRecordResult::Record => {
                let record = std::str::from_utf8(&content[..num_content]).map_err(|_| not_utf8(path, line))?;
                let begins = std::iter::once(0).chain(ends.iter().copied());
                let cells: Option<Vec<_>> =
                    begins.zip(&ends[..num_ends]).map(|(begin, &end)| record.get(begin..end)).collect();
                let cells = cells.ok_or_else(|| not_utf8(path, line))?;
                (num_content, num_ends) = (0, 0);
                if !each(line, &cells)? {
                    return Ok(());
                }
            }
        }
    }
}

fn not_utf8(path: &Path, line: u64) -> DataError {
    layout_error(path, format!("line {line} isn't UTF-8"), "save it as UTF-8")
}

/// Calls `each` with the line and the object on it, until it says false.
fn each_object(
    path: &Path,
    text: &[u8],
    mut each: impl FnMut(u64, &serde_json::Map<String, Value>) -> Result<bool, DataError>,
) -> Result<(), DataError> {
    for (line, bytes) in (1u64..).zip(text.split(|&byte| byte == b'\n')) {
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let object = serde_json::from_slice(bytes).map_err(|error| {
            layout_error(path, format!("line {line} isn't a JSON object: {error}"), "write one object a line")
        })?;
        if !each(line, &object)? {
            return Ok(());
        }
    }
    Ok(())
}
