//! A data set in memory, for embedders and tests: samples from anywhere, with their classes.

use std::io;

use super::{Content, Dataset, Sample};
use crate::error::DataError;

/// Samples that a program made or fetched itself. For more than memory holds, implement [`Dataset`].
///
/// ```
/// use kiln_data::{Content, Dataset, MemoryDataset, RgbImage, Sample};
///
/// let red = RgbImage { width: 2, height: 1, pixels: vec![255, 0, 0, 255, 0, 0] };
/// let samples = vec![Sample { content: Content::Rgb(red), label: 1 }];
/// let dataset = MemoryDataset::new(vec!["blue".into(), "red".into()], samples)?;
/// assert_eq!(dataset.len(), 1);
/// # Ok::<(), kiln_data::DataError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryDataset {
    classes: Vec<String>,
    samples: Vec<Sample>,
}

impl MemoryDataset {
    /// Takes samples whose labels are indices into `classes`.
    ///
    /// # Errors
    /// [`DataError::Config`] with the first label beyond the classes, and the first image whose pixels aren't
    /// `width * height * 3` bytes or that has none.
    pub fn new(classes: Vec<String>, samples: Vec<Sample>) -> Result<Self, DataError> {
        let beyond = |sample: &Sample| sample.label as usize >= classes.len();
        let mut problems = Vec::new();
        if let Some(index) = samples.iter().position(beyond) {
            let (label, most) = (samples[index].label, classes.len());
            problems.push(format!("sample {index} has the label {label}; there are {most} classes"));
        }
        if let Some(index) = samples.iter().position(is_malformed) {
            problems.push(format!("the pixels of sample {index} aren't width * height * 3 bytes"));
        }
        match problems.is_empty() {
            true => Ok(Self { classes, samples }),
            false => Err(DataError::Config { what: "data set in memory", problems }),
        }
    }
}

fn is_malformed(sample: &Sample) -> bool {
    match &sample.content {
        Content::Encoded(_) => false,
        Content::Rgb(image) => {
            // Two sizes of 32 bits and three channels take 66 bits.
            let wanted = u128::from(image.width) * u128::from(image.height) * 3;
            wanted == 0 || wanted != image.pixels.len() as u128
        }
    }
}

impl Dataset for MemoryDataset {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        self.samples.get(index).cloned().ok_or_else(|| DataError::Read {
            name: self.name(index),
            sample: index,
            reason: io::Error::new(io::ErrorKind::NotFound, "there is no such sample"),
        })
    }

    fn name(&self, index: usize) -> String {
        format!("sample {index}")
    }

    fn label(&self, index: usize) -> u32 {
        self.samples[index].label
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::RgbImage;

    #[test]
    fn labels_and_pixels_that_do_not_fit_are_refused_together() {
        let image = RgbImage { width: 2, height: 2, pixels: vec![0; 11] };
        let samples = vec![Sample::encoded(Vec::new(), 0), Sample { content: Content::Rgb(image), label: 1 }];
        let error = MemoryDataset::new(vec!["one".into()], samples).expect_err("two problems").to_string();
        assert!(error.contains("sample 1 has the label 1") && error.contains("pixels of sample 1"), "{error}");
    }

    #[test]
    fn a_size_beyond_64_bits_is_refused() {
        // Their product is 2^64 + 983.
        let image = RgbImage { width: 1_908_090_649, height: 3_222_548_517, pixels: vec![0; 983] };
        let samples = vec![Sample { content: Content::Rgb(image), label: 0 }];
        let error = MemoryDataset::new(vec!["one".into()], samples).expect_err("no such image").to_string();
        assert!(error.contains("pixels of sample 0"), "{error}");
    }
}
