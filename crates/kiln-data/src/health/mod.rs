//! The health of a data set: what it is, which files can't be used and why, and what is wrong with those that can.
//!
//! In: a path. Out: [`Inspection`], for people and as JSON. Every picture is decoded, in the order and with the verdicts of
//! training; with [`InspectConfig::deep`] it is measured, hashed and compared with all the others as well.
//! Memory: one decoded picture a thread, and about a hundred bytes a sample.
//! Nothing is changed or deleted. Not done here: decoding (`decode.rs`), formats (`dataset`), the picture (`health/page.rs`).

mod deep;
mod duplicates;
mod measure;
mod page;
mod perceptual_hash;

use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;

use crate::dataset::{Dataset, OpenOptions, Opened, UnusableClasses, open_with_findings};
use crate::decode::DecodeOptions;
use crate::error::DataError;
use crate::loader::Skipped;
pub use deep::{DeepInspection, SizeRange, SizeStatistics};
pub use duplicates::{DuplicateGroup, NearDuplicates};
use measure::Measured;
pub use page::{InspectionPage, inspection_page};

/// What to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InspectConfig {
    /// Measure and compare the pictures too. Default false.
    pub deep: bool,
    /// How the validation set is split off, if there is none. Unusable classes are always left out and named.
    pub open: OpenOptions,
    /// What a file may cost.
    pub decode: DecodeOptions,
}

/// What a data set is and which of its files are of no use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inspection {
    /// What people call its format.
    pub format: &'static str,
    /// The classes in the order of their indices.
    pub classes: Vec<ClassCount>,
    /// Pictures that can be decoded, in both sets.
    pub readable: usize,
    /// Those of the training set.
    pub train: usize,
    /// Those of the validation set, which may have been split off.
    pub val: usize,
    /// Files that can't be used, by path.
    pub skipped: Vec<SkippedFile>,
    /// What else is to be said, a sentence each.
    pub remarks: Vec<String>,
    /// What measuring and comparing found; absent if it wasn't asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep: Option<DeepInspection>,
}

/// One class, with its readable pictures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassCount {
    /// Its name.
    pub name: String,
    /// In both sets.
    pub images: usize,
    /// In the training set.
    pub train: usize,
    /// In the validation set.
    pub val: usize,
}

/// A file that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SkippedFile {
    /// Its path within the data set; bytes that aren't UTF-8 are written `\xE9`.
    pub path: String,
    /// Why.
    pub reason: String,
}

impl From<Skipped> for SkippedFile {
    fn from(Skipped { name, reason }: Skipped) -> Self {
        Self { path: name, reason }
    }
}

/// Opens the data set at `path` and looks at every picture, on all cores.
///
/// # Errors
/// As of [`open`](crate::open), and whatever isn't about one file.
pub fn inspect(path: &Path, config: &InspectConfig) -> Result<Inspection, DataError> {
    let open = OpenOptions { unusable_classes: UnusableClasses::Drop, ..config.open };
    let Opened { format, splits, findings } = open_with_findings(path, &open)?;
    let mut skipped: Vec<_> = findings.left_out.into_iter().map(SkippedFile::from).collect();
    let mut looked = Vec::new();
    for split in [&*splits.train, &*splits.val] {
        looked.push(look(split, config, &mut skipped)?);
    }
    skipped.sort();
    let classes = counted(splits.train.classes(), &looked);
    let mut remarks = findings.remarks;
    for class in classes.iter().filter(|class| class.train == 0) {
        remarks.push(format!("no picture for training of class {:?} can be decoded", class.name));
    }
    let sizes: Vec<_> = looked.iter().map(Vec::len).collect();
    let names = |split: usize, index: u32| {
        if split == 0 { splits.train.name(index as usize) } else { splits.val.name(index as usize) }
    };
    let deep = config.deep.then(|| deep::deep(&classes, &looked, names));
    Ok(Inspection {
        format,
        classes,
        readable: sizes.iter().sum(),
        train: sizes[0],
        val: sizes[1],
        skipped,
        remarks,
        deep,
    })
}

/// A sample that can be decoded.
#[derive(Clone, Debug)]
struct Looked {
    index: u32,
    label: u32,
    /// Absent if only the verdict was asked for.
    measured: Option<Box<Measured>>,
}

/// Decodes every sample of a set; what can't be goes into `skipped`.
fn look(
    dataset: &dyn Dataset,
    config: &InspectConfig,
    skipped: &mut Vec<SkippedFile>,
) -> Result<Vec<Looked>, DataError> {
    let verdicts: Result<Vec<_>, DataError> =
        (0..dataset.len()).into_par_iter().map(|index| look_at(dataset, index, config)).collect();
    let mut looked = Vec::new();
    for verdict in verdicts? {
        match verdict {
            Ok(one) => looked.push(one),
            Err(file) => skipped.push(file),
        }
    }
    Ok(looked)
}

fn look_at(
    dataset: &dyn Dataset,
    index: usize,
    config: &InspectConfig,
) -> Result<Result<Looked, SkippedFile>, DataError> {
    let refused = |reason: String| Ok(Err(SkippedFile { path: dataset.name(index), reason }));
    let sample = match dataset.sample(index) {
        Ok(sample) => sample,
        Err(DataError::Read { reason, .. }) => return refused(reason.to_string()),
        Err(error) if error.is_about_one_file() => return refused(error.to_string()),
        Err(error) => return Err(error),
    };
    let label = sample.label;
    let hash = config.deep.then(|| measure::content_hash(sample.content.bytes()));
    match sample.content.into_rgb(&config.decode) {
        Ok(image) => {
            let measured = hash.map(|hash| Box::new(Measured::of(&image, hash)));
            Ok(Ok(Looked { index: index as u32, label, measured }))
        }
        Err(verdict) => refused(verdict.to_string()),
    }
}

fn counted(names: &[String], looked: &[Vec<Looked>]) -> Vec<ClassCount> {
    let count = |split: &[Looked]| {
        let mut counts = vec![0usize; names.len()];
        split.iter().for_each(|one| counts[one.label as usize] += 1);
        counts
    };
    let (train, val) = (count(&looked[0]), count(&looked[1]));
    let counts = train.into_iter().zip(val);
    names
        .iter()
        .zip(counts)
        .map(|(name, (train, val))| ClassCount { name: name.clone(), images: train + val, train, val })
        .collect()
}

#[cfg(test)]
mod tests;
