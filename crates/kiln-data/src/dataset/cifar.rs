//! CIFAR-10 and CIFAR-100 in their binary version.
//!
//! In: the folder with `data_batch_1.bin` ... and `test_batch.bin` (CIFAR-10), or with `train.bin` and `test.bin` beside
//! `fine_label_names.txt` (CIFAR-100, its fine labels); or the folder that holds such a folder under its usual name.
//! Out: [`Splits`] of 32x32 pixels, the files in memory (180 MB).
//! Source: A. Krizhevsky's page of the two sets: a record is its label (CIFAR-100: coarse, then fine) and three planes.
//! Not done here: the Python version, which is a pickle; it is recognised and refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder_scan::text_from_path;
use super::raw_images::{PixelOrder, RawFile, RawImages};
use super::{Dataset, Findings, Format, OpenOptions, Splits, layout_error, subset};
use crate::error::DataError;

const SIDE: u32 = 32;
const PIXEL_BYTES: usize = 3 * (SIDE * SIDE) as usize;

/// One of the two sets.
pub(super) struct Cifar {
    name: &'static str,
    /// Bytes of labels in a record; the last of them counts.
    label_bytes: usize,
    num_classes: usize,
    /// The list of names in the folder, and what the names are without it.
    names: (&'static str, &'static [&'static str]),
    /// Beginning of the names of training files.
    train: &'static str,
    /// The validation file.
    test: &'static str,
    /// Usual name of the folder, and of the Python version's.
    folders: [&'static str; 2],
    /// A file of the Python version.
    pickle: &'static str,
}

/// Ten classes.
pub(super) const CIFAR_10: Cifar = Cifar {
    name: "CIFAR-10",
    label_bytes: 1,
    num_classes: 10,
    names: (
        "batches.meta.txt",
        &["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
    ),
    train: "data_batch_",
    test: "test_batch.bin",
    folders: ["cifar-10-batches-bin", "cifar-10-batches-py"],
    pickle: "data_batch_1",
};

/// A hundred classes.
pub(super) const CIFAR_100: Cifar = Cifar {
    name: "CIFAR-100",
    label_bytes: 2,
    num_classes: 100,
    names: ("fine_label_names.txt", &[]),
    train: "train",
    test: "test.bin",
    folders: ["cifar-100-binary", "cifar-100-python"],
    pickle: "train",
};

impl Format for Cifar {
    fn name(&self) -> &'static str {
        self.name
    }

    fn recognises(&self, path: &Path) -> bool {
        self.folder(path).is_some() || self.is_pickled(path)
    }

    fn open(&self, path: &Path, options: &OpenOptions, _: &mut Findings) -> Result<Splits, DataError> {
        let Some(folder) = self.folder(path) else {
            let problem = format!("it is the Python version of {}, a pickle, which can hold any program", self.name);
            return Err(layout_error(path, problem, "fetch the binary version"));
        };
        let read = |paths: Vec<PathBuf>| paths.iter().map(|file| self.read(path, file)).collect::<Result<Vec<_>, _>>();
        let names = self.class_names(&folder)?;
        let name = |label: u8| names.get(usize::from(label)).cloned().unwrap_or_else(|| label.to_string());
        let train = read(self.training_files(&folder))?;
        let train = RawImages::training_set(path, train, [SIDE; 2], PixelOrder::Planes, name)?;
        let test = folder.join(self.test);
        if !test.is_file() {
            let train: Arc<dyn Dataset> = Arc::new(train);
            return subset::split(train.clone(), path, options, |index| index.to_string());
        }
        let val = train.with_same_classes(read(vec![test])?, [SIDE; 2])?;
        Ok(Splits { train: Arc::new(train), val: Arc::new(val) })
    }
}

impl Cifar {
    /// `path`, or its subfolder of the usual name.
    fn folder(&self, path: &Path) -> Option<PathBuf> {
        let candidates = [path.to_path_buf(), path.join(self.folders[0])];
        candidates.into_iter().find(|folder| !self.training_files(folder).is_empty() && self.has_names(folder))
    }

    /// `train.bin` alone says nothing.
    fn has_names(&self, folder: &Path) -> bool {
        let (list, built_in) = self.names;
        !built_in.is_empty() || folder.join(list).is_file()
    }

    fn is_pickled(&self, path: &Path) -> bool {
        let is = |folder: &Path| {
            let meta = ["batches.meta", "meta"].iter().any(|meta| folder.join(meta).is_file());
            meta && folder.join(self.pickle).is_file()
        };
        is(path) || is(&path.join(self.folders[1]))
    }

    fn training_files(&self, folder: &Path) -> Vec<PathBuf> {
        let is_one = |name: &str| {
            let middle = name.strip_prefix(self.train).and_then(|rest| rest.strip_suffix(".bin"));
            middle.is_some_and(|middle| middle.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_one));
        let mut files: Vec<_> = named.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        files.sort();
        files
    }

    fn class_names(&self, folder: &Path) -> Result<Vec<String>, DataError> {
        let (list, built_in) = self.names;
        let list = folder.join(list);
        if !list.is_file() {
            return Ok(built_in.iter().map(|name| name.to_string()).collect());
        }
        let text = fs::read_to_string(&list);
        let text = text.map_err(|reason| layout_error(&list, reason.to_string(), "write one name a line, as UTF-8"))?;
        Ok(text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
    }

    fn read(&self, root: &Path, path: &Path) -> Result<RawFile, DataError> {
        let bytes = fs::read(path).map_err(|reason| layout_error(path, reason.to_string(), "check the file"))?;
        let stride = self.label_bytes + PIXEL_BYTES;
        if bytes.is_empty() || bytes.len() % stride != 0 {
            let problem = format!("its {} bytes aren't a whole number of records of {stride}", bytes.len());
            return Err(layout_error(path, problem, "fetch it again"));
        }
        let labels: Vec<_> = bytes.iter().skip(self.label_bytes - 1).step_by(stride).copied().collect();
        if let Some(record) = labels.iter().position(|&label| usize::from(label) >= self.num_classes) {
            let problem =
                format!("record {record} has the label {}; there are {} classes", labels[record], self.num_classes);
            return Err(layout_error(path, problem, "fetch it again"));
        }
        let name = text_from_path(path.strip_prefix(root).unwrap_or(path));
        Ok(RawFile { path: path.to_path_buf(), name, bytes, first: self.label_bytes, stride, labels })
    }
}

#[cfg(test)]
mod tests;
