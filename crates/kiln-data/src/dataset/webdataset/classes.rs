//! The classes of shards: numbers to names, the same for training and validation.
//!
//! Names come from a file beside the shards: `classes.txt` or `classnames.txt` with a name a line, the first of class
//! 0, or `dataset.json` with a list `classes` or `classnames`. Without one the classes are those that the training
//! samples have, in the order of their numbers: named by the samples' own JSON if that gives each number a name of its
//! own, else by the number. The training set defines the classes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use super::samples::Label;
use crate::dataset::{Findings, UnusableClasses, layout_error};
use crate::error::DataError;

const NAMES_FILES: [&str; 2] = ["classes.txt", "classnames.txt"];
const DESCRIPTION: &str = "dataset.json";

/// The class list of a data set and how labels map to it.
pub(super) struct Classes {
    pub(super) names: Vec<String>,
    by_number: HashMap<u32, u32>,
    by_name: HashMap<String, u32>,
}

impl Classes {
    /// Those named in a file in one of `folders`, else those of the training labels.
    ///
    /// # Errors
    /// [`DataError::Layout`] for a file of names that can't be used, or fewer than two classes.
    pub(super) fn define<'l>(
        path: &Path,
        folders: &[PathBuf],
        labels: impl Iterator<Item = &'l Label> + Clone,
    ) -> Result<Self, DataError> {
        let named = folders.iter().find_map(|folder| names_in(folder).transpose()).transpose()?;
        let classes = match named {
            Some(names) => Self::from_list(names),
            None => Self::from_labels(path, labels)?,
        };
        match classes.names.as_slice() {
            [] => {
                Err(layout_error(path, "its shards hold no labelled picture", "add samples with a picture and a .cls"))
            }
            [only] => {
                let problem = format!("there is one class only, {only:?}");
                Err(layout_error(path, problem, "give shards with the samples of at least two classes"))
            }
            _ => Ok(classes),
        }
    }

    fn from_list(names: Vec<String>) -> Self {
        let by_number = (0..names.len() as u32).map(|number| (number, number)).collect();
        Self { by_number, by_name: names.iter().cloned().zip(0..).collect(), names }
    }

    fn from_labels<'l>(path: &Path, labels: impl Iterator<Item = &'l Label> + Clone) -> Result<Self, DataError> {
        if let Some(Label { name: Some(name), .. }) = labels.clone().find(|label| label.number.is_none()) {
            if labels.clone().any(|label| label.number.is_some()) {
                let problem = format!("some labels are numbers and others, such as {name:?}, are names");
                return Err(layout_error(path, problem, "add a classes.txt with a name a line"));
            }
            let mut names: Vec<_> = labels.filter_map(|label| label.name.as_deref().map(str::to_owned)).collect();
            names.sort_unstable();
            names.dedup();
            return Ok(Self::from_list(names));
        }
        let mut names_of: BTreeMap<u32, Vec<Option<&str>>> = BTreeMap::new();
        for label in labels {
            let names = names_of.entry(label.number.unwrap_or_default()).or_default();
            // Two are enough to know that the number has no name of its own.
            if names.len() < 2 && !names.contains(&label.name.as_deref()) {
                names.push(label.name.as_deref());
            }
        }
        let by_number = names_of.keys().copied().zip(0..).collect();
        let names = own_names(&names_of).unwrap_or_else(|| names_of.keys().map(u32::to_string).collect());
        Ok(Self { by_number, by_name: names.iter().cloned().zip(0..).collect(), names })
    }

    /// The class of a label.
    pub(super) fn index(&self, label: &Label) -> Option<u32> {
        match (label.number, &label.name) {
            (Some(number), _) => self.by_number.get(&number).copied(),
            (None, Some(name)) => self.by_name.get(&**name).copied(),
            (None, None) => None,
        }
    }

    /// What to do about labels that are no class: an error, or a remark if they may be dropped.
    pub(super) fn unknown(
        &self,
        path: &Path,
        unknown: Vec<String>,
        policy: UnusableClasses,
        findings: &mut Findings,
    ) -> Result<(), DataError> {
        let error = DataError::UnknownClasses { path: path.to_path_buf(), unknown, known: self.names.clone() };
        match policy {
            UnusableClasses::Refuse => Err(error),
            UnusableClasses::Drop => {
                findings.remark(error.to_string());
                Ok(())
            }
        }
    }
}

/// The samples' own names, if each number has exactly one and no two share it.
fn own_names(names_of: &BTreeMap<u32, Vec<Option<&str>>>) -> Option<Vec<String>> {
    let names: Option<Vec<String>> = names_of
        .values()
        .map(|names| match names.as_slice() {
            [Some(only)] => Some((*only).to_owned()),
            _ => None,
        })
        .collect();
    names.filter(|names| first_twice(names).is_none())
}

/// The names that a file in `folder` gives, if there is such a file.
fn names_in(folder: &Path) -> Result<Option<Vec<String>>, DataError> {
    for file in NAMES_FILES {
        let path = folder.join(file);
        if path.is_file() {
            let text = fs::read_to_string(&path).map_err(|reason| unreadable(&path, &reason.to_string()))?;
            let names: Vec<String> = text.lines().map(str::to_owned).collect();
            return checked(&path, names).map(Some);
        }
    }
    let path = folder.join(DESCRIPTION);
    match path.is_file() {
        true => described(&path),
        false => Ok(None),
    }
}

fn described(path: &Path) -> Result<Option<Vec<String>>, DataError> {
    let text = fs::read_to_string(path).map_err(|reason| unreadable(path, &reason.to_string()))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|reason| unreadable(path, &reason.to_string()))?;
    let list = json.get("classes").or_else(|| json.get("classnames")).and_then(|list| list.as_array());
    let names = list.and_then(|list| list.iter().map(|name| name.as_str().map(str::to_owned)).collect());
    names.map(|names| checked(path, names)).transpose()
}

fn checked(path: &Path, names: Vec<String>) -> Result<Vec<String>, DataError> {
    if let Some(line) = names.iter().position(|name| name.trim().is_empty()) {
        return Err(unreadable(path, &format!("the name of class {line} is empty")));
    }
    match first_twice(&names) {
        Some(name) => Err(unreadable(path, &format!("it names {name:?} twice"))),
        None => Ok(names),
    }
}

fn unreadable(path: &Path, problem: &str) -> DataError {
    layout_error(path, problem, "it must give every class a name of its own, in the order of the numbers")
}

fn first_twice(names: &[String]) -> Option<&str> {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}
