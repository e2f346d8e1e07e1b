//! Where samples come from: [`Dataset`], the trait, and [`open`], which recognises what lies at a path.
//!
//! In: a path. Out: a training and a validation set with the same list of classes. A data set gives encoded
//! bytes or pixels, and a label; it decodes no picture and starts no threads.
//! A format is one file in this folder that implements [`Format`], and one entry of [`FORMATS`]. It says by names and first
//! bytes whether a path is its own; the first that does opens it.

mod cifar;
mod findings;
pub(crate) mod folder_scan;
mod idx;
pub(crate) mod image_folder;
mod label_file;
mod memory;
#[cfg(feature = "parquet")]
mod parquet;
mod raw_images;
pub mod scenes;
mod subset;
pub(crate) mod webdataset;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decode::{DecodeError, DecodeOptions, RgbImage, View, Window, view_from_bytes};
use crate::error::DataError;
pub use findings::{Findings, Opened};
pub use folder_scan::picture_files;
pub use memory::MemoryDataset;
pub use subset::Subset;

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

/// One picture and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The picture.
    pub content: Content,
    /// Index into the list of classes.
    pub label: u32,
}

/// A picture the way its data set keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The bytes of a file: JPEG, PNG, or another format that Kiln decodes.
    Encoded(Vec<u8>),
    /// Pixels, of sets that store nothing else (CIFAR, MNIST).
    Rgb(RgbImage),
}

impl Sample {
    /// A sample of encoded bytes.
    pub fn encoded(bytes: Vec<u8>, label: u32) -> Self {
        Self { content: Content::Encoded(bytes), label }
    }
}

impl Content {
    /// The bytes as they are kept: what reading the sample cost.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Encoded(bytes) => bytes,
            Self::Rgb(image) => &image.pixels,
        }
    }

    /// The pixels; decodes them if need be.
    ///
    /// # Errors
    /// [`DecodeError`], the verdict on encoded bytes.
    pub fn into_rgb(self, options: &DecodeOptions) -> Result<RgbImage, DecodeError> {
        self.into_view(options, Window::whole).map(|(image, _)| image)
    }

    /// The pixels of at least what is `wanted` of a picture of this width and height, see [`view_from_bytes`].
    ///
    /// # Errors
    /// [`DecodeError`], the verdict on encoded bytes.
    pub fn into_view(
        self,
        options: &DecodeOptions,
        wanted: impl Fn(u32, u32) -> Window,
    ) -> Result<(RgbImage, View), DecodeError> {
        match self {
            Self::Encoded(bytes) => view_from_bytes(&bytes, options, wanted),
            Self::Rgb(image) => {
                let view = View::whole(image.width, image.height);
                Ok((image, view))
            }
        }
    }
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
    /// What to do with a class that can't be learned or judged. Default: refuse the data set.
    pub unusable_classes: UnusableClasses,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { val_fraction: 0.2, seed: 0, unusable_classes: UnusableClasses::Refuse }
    }
}

impl OpenOptions {
    fn validate(&self) -> Result<(), DataError> {
        if self.val_fraction > 0.0 && self.val_fraction < 1.0 {
            return Ok(());
        }
        let problem = format!("val_fraction is {}; it must lie between 0 and 1", self.val_fraction);
        Err(DataError::Config { what: "data set options", problems: vec![problem] })
    }
}

/// What to do with a class that has no usable training image, or that only the validation set has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnusableClasses {
    /// Refuse the data set and name them: left out silently, they would shift the indices of the others.
    #[default]
    Refuse,
    /// Leave them out and name them in [`Findings::remarks`].
    Drop,
}

/// One way in which pictures and labels lie on disk.
pub(crate) trait Format: Sync {
    /// What people call it.
    fn name(&self) -> &'static str;

    /// Says by names and first bytes whether `path`, which exists, is of this format. Never fails: what can't be read isn't.
    fn recognises(&self, path: &Path) -> bool;

    /// Opens what it recognised; what it passes over goes into `findings`.
    ///
    /// # Errors
    /// Any that names a file or folder and the remedy.
    fn open(&self, path: &Path, options: &OpenOptions, findings: &mut Findings) -> Result<Splits, DataError>;
}

/// All formats. The first that recognises a path opens it: those with their own signature first, any folder last.
const FORMATS: &[&dyn Format] = &[
    &idx::Idx,
    &cifar::CIFAR_10,
    &cifar::CIFAR_100,
    #[cfg(feature = "parquet")]
    &parquet::Parquet,
    &webdataset::Shards,
    &label_file::LabelFile,
    &image_folder::ClassFolders,
];

/// Opens the data set at `path`, whatever its format.
///
/// Reads lists and headers, not pictures: 100,000 files take a fraction of a second. What it passes over is logged.
///
/// # Errors
/// [`DataError::Layout`], [`DataError::EmptyClasses`], [`DataError::UnknownClasses`] or
/// [`DataError::ReadFolder`], each with the folder and the remedy; [`DataError::Config`] for options out of range.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Splits, DataError> {
    let Opened { format, splits, findings } = open_with_findings(path, options)?;
    findings.log();
    for (split, found) in [("train", &splits.train), ("val", &splits.val)] {
        tracing::info!(split, format, ?path, images = found.len(), classes = found.classes().len(), "opened");
    }
    Ok(splits)
}

/// [`open`], with the name of the format and what was passed over.
///
/// # Errors
/// As of [`open`].
pub fn open_with_findings(path: &Path, options: &OpenOptions) -> Result<Opened, DataError> {
    options.validate()?;
    fs::metadata(path).map_err(|reason| layout_error(path, reason.to_string(), "check the path"))?;
    let Some(format) = FORMATS.iter().find(|format| format.recognises(path)) else {
        let names: Vec<_> = FORMATS.iter().map(|format| format.name()).collect();
        let problem = format!("it is a file of none of the known formats ({})", names.join(", "));
        return Err(layout_error(path, problem, "give the folder that holds the class folders, or one of those files"));
    };
    let mut findings = Findings::default();
    let splits = format.open(path, options, &mut findings)?;
    Ok(Opened { format: format.name(), splits, findings })
}

/// `path` isn't laid out in a way we know.
pub(crate) fn layout_error(path: &Path, problem: impl Into<String>, remedy: impl Into<String>) -> DataError {
    DataError::Layout { path: path.to_path_buf(), problem: problem.into(), remedy: remedy.into() }
}

#[cfg(test)]
mod tests;
