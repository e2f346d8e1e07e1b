//! Pictures in a folder and a table that says what each shows: CSV, TSV or JSON lines.
//!
//! In: the table, or the folder with it under a usual name (`labels.csv`, `metadata.jsonl`, ...), or with `train.csv` and
//! `val.csv`, or with a table in each of `train/` and `val/`. Out: [`Splits`]. A column `split` sorts rows into the two; with
//! neither, a seeded share of every class becomes the validation set.
//! Paths are relative to the table's folder, or to a folder in it, whichever has the pictures. Classes are sorted as
//! bytes, or as numbers if they all are.
//! Not done here: reading a table (`label_file/table.rs`), looking into the pictures (`decode.rs`).

mod table;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder_scan::{self, PassedOver, text_from_path};
use super::image_folder::{TRAIN_NAMES, VAL_NAMES, named};
use super::{Dataset, Findings, Format, OpenOptions, Sample, Splits, Subset, UnusableClasses, layout_error, subset};
use crate::error::DataError;
#[cfg(feature = "parquet")]
pub(super) use table::{FILE_COLUMNS, LABEL_COLUMNS, no_column, plain};
use table::{Side, Table};

/// Names of a table of the whole set, without the ending.
const WHOLE_NAMES: [&str; 5] = ["labels", "metadata", "annotations", "data", "index"];

/// A table of pictures and labels.
pub(super) struct LabelFile;

impl Format for LabelFile {
    fn name(&self) -> &'static str {
        "label file"
    }

    fn recognises(&self, path: &Path) -> bool {
        match path.is_file() {
            true => table::is_table(path),
            false => tables_in(path).is_some_and(|tables| is_meant(path, &tables)),
        }
    }

    fn open(&self, path: &Path, options: &OpenOptions, findings: &mut Findings) -> Result<Splits, DataError> {
        let tables = match path.is_file() {
            true => Tables { train: path.to_path_buf(), val: None },
            false => tables_in(path).ok_or_else(|| layout_error(path, "its table is gone", "check the folder"))?,
        };
        let root = if path.is_file() { path.parent().unwrap_or(Path::new("")) } else { path };
        let mut reader = Reader { root, unusable: options.unusable_classes, findings };
        let train = Table::read(&tables.train, reader.findings)?;
        match tables.val {
            Some(val) => reader.two(train, &tables.train, &val),
            None if train.has_sides() => reader.sorted(train, &tables.train),
            None => {
                let classes = reader.classes_of(&tables.train, &train, Side::Train)?;
                let whole: Arc<dyn Dataset> = Arc::new(reader.listed(train, &tables.train, classes)?);
                subset::split(whole.clone(), &tables.train, options, |index| whole.name(index))
            }
        }
    }
}

/// The tables of a folder.
struct Tables {
    train: PathBuf,
    val: Option<PathBuf>,
}

fn tables_in(folder: &Path) -> Option<Tables> {
    let find = |folder: &Path, names: &[&str]| names.iter().find_map(|name| table::named(folder, name));
    if let Some(train) = find(folder, &TRAIN_NAMES) {
        // A table of test pictures often has no labels: that is what a competition asks for.
        let val = find(folder, &VAL_NAMES).filter(|val| table::has_columns(val));
        return Some(Tables { train, val });
    }
    if let Some(train) = find(folder, &WHOLE_NAMES) {
        return Some(Tables { train, val: None });
    }
    let listing = folder_scan::list(folder, &mut PassedOver::default()).ok()?;
    let below = |names: &[&str]| find(&named(&listing, names)?.path, &WHOLE_NAMES);
    Some(Tables { train: below(&TRAIN_NAMES)?, val: below(&VAL_NAMES) })
}

/// Says whether the tables are what the folder is about, and not something beside class folders.
fn is_meant(folder: &Path, tables: &Tables) -> bool {
    let Ok(listing) = folder_scan::list(folder, &mut PassedOver::default()) else { return false };
    let train = named(&listing, &TRAIN_NAMES);
    let classes = train.and_then(|train| folder_scan::list(&train.path, &mut PassedOver::default()).ok());
    if classes.is_some_and(|classes| classes.subfolders.len() >= 2) {
        return false;
    }
    listing.subfolders.len() < 2 || table::has_columns(&tables.train)
}

struct Reader<'a> {
    root: &'a Path,
    unusable: UnusableClasses,
    findings: &'a mut Findings,
}

impl Reader<'_> {
    /// One table for each of the two.
    fn two(&mut self, train: Table, train_path: &Path, val_path: &Path) -> Result<Splits, DataError> {
        let val = Table::read(val_path, self.findings)?;
        let classes = self.classes_of(train_path, &train, Side::Train)?;
        let train = self.listed(train, train_path, classes.clone())?;
        let val = self.listed(val, val_path, classes)?;
        Ok(Splits { train: Arc::new(train), val: Arc::new(val) })
    }

    /// One table with a column that sorts.
    fn sorted(&mut self, table: Table, path: &Path) -> Result<Splits, DataError> {
        let classes = self.classes_of(path, &table, Side::Train)?;
        let listed = self.listed(table, path, classes)?;
        let side =
            |wanted: Side| (0..listed.len() as u32).filter(|&index| listed.sides[index as usize] == wanted).collect();
        let (train, val): (Vec<_>, Vec<_>) = (side(Side::Train), side(Side::Val));
        if train.is_empty() || val.is_empty() {
            let problem = format!("its split column gives {} rows to train and {} to val", train.len(), val.len());
            return Err(layout_error(path, problem, "give rows to both, or remove the column"));
        }
        let listed: Arc<dyn Dataset> = Arc::new(listed);
        let half = |indices| Subset::new(listed.clone(), indices).map(Arc::new);
        Ok(Splits { train: half(train)?, val: half(val)? })
    }

    /// The classes that the rows of one side name.
    fn classes_of(&self, path: &Path, table: &Table, side: Side) -> Result<Vec<String>, DataError> {
        let mut used = vec![false; table.label_names.len()];
        for (label, _) in table.labels.iter().zip(&table.sides).filter(|(_, found)| **found == side) {
            used[*label as usize] = true;
        }
        let mut classes: Vec<_> =
            table.label_names.iter().zip(used).filter(|(_, used)| *used).map(|(name, _)| name.clone()).collect();
        match classes.iter().map(|class| class.parse::<u64>()).collect::<Result<Vec<_>, _>>() {
            Ok(_) => classes.sort_by_key(|class| (class.parse::<u64>().unwrap_or(u64::MAX), class.clone())),
            Err(_) => classes.sort(),
        }
        match classes.as_slice() {
            [] | [_] => {
                let problem = format!("its training rows name {} class(es), {classes:?}", classes.len());
                Err(layout_error(path, problem, "give rows of at least two classes"))
            }
            _ => Ok(classes),
        }
    }

    /// The rows of a table with `classes`; rows of others are refused or left out.
    fn listed(&mut self, table: Table, path: &Path, classes: Vec<String>) -> Result<Listed, DataError> {
        let base = base_folder(path, &table)?;
        let index: HashMap<_, _> = classes.iter().zip(0u32..).map(|(class, label)| (class.as_str(), label)).collect();
        let label_of: Vec<_> = table.label_names.iter().map(|name| index.get(name.as_str()).copied()).collect();
        let unknown: Vec<_> =
            table.label_names.iter().filter(|name| !index.contains_key(name.as_str())).cloned().collect();
        if !unknown.is_empty() {
            let error = DataError::UnknownClasses { path: path.to_path_buf(), unknown, known: classes.clone() };
            match self.unusable {
                UnusableClasses::Refuse => return Err(error),
                UnusableClasses::Drop => self.findings.remark(error.to_string()),
            }
        }
        let mut listed = Listed {
            prefix: base.strip_prefix(self.root).map(text_from_path).unwrap_or_default(),
            base,
            classes,
            names: Names::default(),
            labels: Vec::new(),
            sides: Vec::new(),
        };
        for row in 0..table.labels.len() {
            if let Some(label) = label_of[table.labels[row] as usize] {
                listed.names.push(table.names.get(row));
                listed.labels.push(label);
                listed.sides.push(table.sides[row]);
            }
        }
        Ok(listed)
    }
}

/// The folder that the paths of a table start from: the table's own or one in it, whichever has any of the first files.
fn base_folder(path: &Path, table: &Table) -> Result<PathBuf, DataError> {
    /// Some of the first may be missing.
    const LOOKED_AT: usize = 20;
    let own = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let own = if own.as_os_str().is_empty() { PathBuf::from(".") } else { own };
    let inner = folder_scan::list(&own, &mut PassedOver::default())?.subfolders;
    let candidates = std::iter::once(own.clone()).chain(inner.into_iter().map(|folder| folder.path));
    let first: Vec<_> = (0..table.labels.len().min(LOOKED_AT)).map(|row| table.names.get(row)).collect();
    let has_any = |folder: &PathBuf| first.iter().any(|name| folder.join(name).is_file());
    candidates.into_iter().find(has_any).ok_or_else(|| {
        let problem = match first.first() {
            Some(name) => {
                format!("the pictures it lists, the first {name:?}, are neither beside it nor in a folder beside it")
            }
            None => "it lists no picture".into(),
        };
        layout_error(path, problem, "put the table beside its pictures, or correct its paths")
    })
}

/// Many strings in one.
#[derive(Debug, Default)]
struct Names {
    text: String,
    ends: Vec<usize>,
}

impl Names {
    fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    fn get(&self, index: usize) -> &str {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin..self.ends[index]]
    }
}

/// The rows of a table.
struct Listed {
    base: PathBuf,
    /// `base` as it stands in names.
    prefix: String,
    classes: Vec<String>,
    names: Names,
    labels: Vec<u32>,
    sides: Vec<Side>,
}

impl Dataset for Listed {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let encoded = fs::read(self.base.join(self.names.get(index)));
        let encoded = encoded.map_err(|reason| DataError::Read { name: self.name(index), sample: index, reason })?;
        Ok(Sample::encoded(encoded, self.label(index)))
    }

    /// The path from the folder opened.
    fn name(&self, index: usize) -> String {
        match self.prefix.as_str() {
            "" => self.names.get(index).to_owned(),
            prefix => format!("{prefix}/{}", self.names.get(index)),
        }
    }

    fn label(&self, index: usize) -> u32 {
        self.labels[index]
    }
}

#[cfg(test)]
mod tests;
