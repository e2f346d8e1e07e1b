//! Where samples come from: [`Dataset`], the trait, and [`open`], which recognises what lies at a path.
//!
//! In: a path. Out: a training and a validation set with the same list of classes. A data set gives encoded
//! bytes and a label; it decodes nothing and starts no threads.
//! A format is one file in this folder and one arm in [`open`].

pub(crate) mod folder_scan;
pub(crate) mod image_folder;
pub mod scenes;

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
pub use folder_scan::picture_files;

/// Samples with labels, read by index from any thread.
pub trait Dataset: Send + Sync {
    /// Number of samples.
    fn len(&self) -> usize;

    /// Says whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names of the classes; a label is an index into them.
    fn classes(&self) -> &[String];

    /// Reads the sample at `index`, below [`len`](Self::len).
    ///
    /// # Errors
    /// [`DataError::Read`] if this one sample can't be read: the loader may then skip it. Any other error ends the epoch.
    fn sample(&self, index: usize) -> Result<Sample, DataError>;

    /// What to call the sample at `index` in a message: its path within the data set.
    fn name(&self, index: usize) -> String;

    /// The class of the sample at `index`.
    fn label(&self, index: usize) -> u32;
}

/// One encoded picture and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The bytes of a JPEG, PNG, WebP, BMP or GIF file.
    pub encoded: Vec<u8>,
    /// Index into the list of classes.
    pub label: u32,
}

/// Training and validation set. Both have the class list that the training set defines.
#[derive(Clone)]
pub struct Splits {
    /// What the weights are fitted to.
    pub train: Arc<dyn Dataset>,
    /// What they are judged by.
    pub val: Arc<dyn Dataset>,
}

/// What [`open`] can't see from the files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OpenOptions {
    /// Share of each class that becomes the validation set if the data has none, 0–1. Default 0.2.
    pub val_fraction: f64,
    /// Determines which samples those are. Default 0.
    pub seed: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { val_fraction: 0.2, seed: 0 }
    }
}

/// Opens the data set at `path`: a folder with `train/` and `val/`, or a folder of class folders.
///
/// Reads folder lists, not files: 100,000 files take a fraction of a second.
///
/// # Errors
/// [`DataError::Layout`], [`DataError::EmptyClasses`], [`DataError::UnknownClasses`] or
/// [`DataError::ReadFolder`], each with the folder and the remedy; [`DataError::Config`] for options out of range.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Splits, DataError> {
    image_folder::open(path, options)
}
