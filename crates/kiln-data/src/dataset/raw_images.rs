//! Images of one size that files keep as plain bytes, and their labels: what CIFAR and IDX have in common.
//!
//! In: whole files in memory, and where in them images lie. Out: a [`Dataset`] of pixels; grey becomes RGB.
//! A class without a training image would be a phantom among the indices, so the labels that occur in training are the
//! classes, in numeric order.

use std::path::{Path, PathBuf};

use super::{Content, Dataset, Sample, layout_error};
use crate::decode::RgbImage;
use crate::error::DataError;

/// How the bytes of an image lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PixelOrder {
    /// One byte a pixel, `[height, width]`.
    Grey,
    /// `[3, height, width]`.
    Planes,
}

/// One file of images, each as many bytes after the one before.
#[derive(Debug)]
pub(super) struct RawFile {
    /// The file.
    pub(super) path: PathBuf,
    /// What stands before the number of an image in its name.
    pub(super) name: String,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// Where the first image begins.
    pub(super) first: usize,
    /// From one image to the next.
    pub(super) stride: usize,
    /// The labels as the files have them, one for each image.
    pub(super) labels: Vec<u8>,
}

/// The images of some files.
#[derive(Debug)]
pub(super) struct RawImages {
    files: Vec<RawFile>,
    /// Index of the first image of each file.
    starts: Vec<usize>,
    classes: Vec<String>,
    /// Index of the class by label.
    class_of: [Option<u32>; 256],
    size: [u32; 2],
    order: PixelOrder,
    len: usize,
}

impl RawImages {
    /// The training set, whose labels define the classes. `name` says what a label is called.
    ///
    /// # Errors
    /// [`DataError::Layout`] with fewer than two classes.
    pub(super) fn training_set(
        path: &Path,
        files: Vec<RawFile>,
        size: [u32; 2],
        order: PixelOrder,
        name: impl Fn(u8) -> String,
    ) -> Result<Self, DataError> {
        let (mut class_of, mut classes) = ([None; 256], Vec::new());
        for label in 0..=u8::MAX {
            if files.iter().any(|file| file.labels.contains(&label)) {
                class_of[usize::from(label)] = Some(classes.len() as u32);
                classes.push(name(label));
            }
        }
        if classes.len() < 2 {
            let problem = format!("its labels are all the same, {classes:?}");
            return Err(layout_error(path, problem, "give a data set of at least two classes"));
        }
        Ok(Self::new(files, size, order, classes, class_of))
    }

    /// Other images with the classes of this set.
    ///
    /// # Errors
    /// [`DataError::Layout`] naming a label that this set lacks, or another size.
    pub(super) fn with_same_classes(&self, files: Vec<RawFile>, size: [u32; 2]) -> Result<Self, DataError> {
        for file in &files {
            if size != self.size {
                let ([height, width], [own_height, own_width]) = (size, self.size);
                let problem =
                    format!("its images have {width}x{height} pixels, those for training {own_width}x{own_height}");
                return Err(layout_error(&file.path, problem, "take both files from the same data set"));
            }
            if let Some(label) = file.labels.iter().find(|label| self.class_of[usize::from(**label)].is_none()) {
                let problem = format!("it has images of label {label}, which no training image has");
                return Err(layout_error(&file.path, problem, "take both files from the same data set"));
            }
        }
        Ok(Self::new(files, size, self.order, self.classes.clone(), self.class_of))
    }

    fn new(
        files: Vec<RawFile>,
        size: [u32; 2],
        order: PixelOrder,
        classes: Vec<String>,
        class_of: [Option<u32>; 256],
    ) -> Self {
        let (mut len, mut starts) = (0, Vec::new());
        for file in &files {
            starts.push(len);
            len += file.labels.len();
        }
        Self { files, starts, classes, class_of, size, order, len }
    }

    /// The file of an image, and its place in it.
    fn place(&self, index: usize) -> (&RawFile, usize) {
        let file = self.starts.partition_point(|&start| start <= index) - 1;
        (&self.files[file], index - self.starts[file])
    }
}

impl Dataset for RawImages {
    fn len(&self) -> usize {
        self.len
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let [height, width] = self.size;
        let area = height as usize * width as usize;
        let (file, number) = self.place(index);
        let begin = file.first + number * file.stride;
        let pixels = match self.order {
            PixelOrder::Grey => file.bytes[begin..begin + area].iter().flat_map(|&grey| [grey; 3]).collect(),
            PixelOrder::Planes => {
                let planes = &file.bytes[begin..begin + 3 * area];
                (0..area).flat_map(|at| [planes[at], planes[area + at], planes[2 * area + at]]).collect()
            }
        };
        Ok(Sample { content: Content::Rgb(RgbImage { width, height, pixels }), label: self.label(index) })
    }

    /// The file, and the number of the image in it.
    fn name(&self, index: usize) -> String {
        let (file, number) = self.place(index);
        format!("{}[{number}]", file.name)
    }

    fn label(&self, index: usize) -> u32 {
        let (file, number) = self.place(index);
        // Checked when the files were opened.
        self.class_of[usize::from(file.labels[number])].unwrap_or_default()
    }
}
