//! Asks a trained network about pictures.
//!
//! In: picture files or decoded pictures, and a [`TrainedModel`]. Out: for each picture the probability of every class.
//! A picture is prepared as validation prepares it, whatever batch it is in. A file that can't be used is a result too,
//! so that one bad file doesn't end a folder of thousands.

use crate::error::TrainError;
use crate::trained_model::TrainedModel;
use burn::module::Module;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use kiln_data::{Augment, DecodeOptions, HostBatch, RgbImage, augment, batch_to_device, rgb_from_bytes};
use rayon::prelude::*;
use std::fs;
use std::path::PathBuf;

/// Most bytes of one activation of a batch chosen by itself: a fraction of the smallest GPU's memory.
const LARGEST_ACTIVATION: usize = 64 << 20;

/// Most images of a batch chosen by itself: beyond it a GPU gains nothing, and a person waits longer for the first line.
const LARGEST_BATCH: usize = 64;

/// A class and how probable it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    /// Index among the classes.
    pub class: usize,
    /// 0–1.
    pub probability: f32,
}

/// Reads and decodes picture files, several at once; the results are in the order of `files`, each a picture or the reason
/// why there is none.
pub fn read_pictures(files: &[PathBuf]) -> Vec<Result<RgbImage, String>> {
    let read = |file: &PathBuf| {
        let encoded = fs::read(file).map_err(|error| error.to_string())?;
        rgb_from_bytes(&encoded, &DecodeOptions::default()).map_err(|verdict| verdict.to_string())
    };
    files.par_iter().map(read).collect()
}

/// The `k` likeliest classes, the likeliest first; ties go to the lower index.
pub fn top_k(probabilities: &[f32], k: usize) -> Vec<Guess> {
    let mut guesses: Vec<Guess> =
        probabilities.iter().enumerate().map(|(class, &probability)| Guess { class, probability }).collect();
    guesses.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    guesses.truncate(k);
    guesses
}

impl TrainedModel {
    /// The probability of every class for each picture. Waits for the device.
    ///
    /// # Errors
    /// [`TrainError::Asking`] if the device doesn't answer.
    ///
    /// # Panics
    /// If there are no pictures.
    pub fn predict(&self, pictures: &[RgbImage]) -> Result<Vec<Vec<f32>>, TrainError> {
        probabilities(self.model.forward(self.prepare(pictures)))
    }

    /// A batch size that suits the network's images, for as long as nobody names one.
    pub fn batch_size(&self) -> usize {
        let [height, width] = self.augment.size;
        let stem = height * width / 4 * self.model.config().width * size_of::<f32>();
        (LARGEST_ACTIVATION / stem.max(1)).clamp(1, LARGEST_BATCH)
    }

    /// What the network sees of pictures: float `[B, 3, H, W]`, normalised, on its device.
    pub(crate) fn prepare(&self, pictures: &[RgbImage]) -> Tensor<4> {
        prepare(pictures, &self.augment, &self.device())
    }

    /// Where the network is.
    pub(crate) fn device(&self) -> Device {
        self.model.devices().into_iter().next().unwrap_or_else(kiln_device::cpu)
    }
}

fn prepare(pictures: &[RgbImage], how: &Augment, device: &Device) -> Tensor<4> {
    let mut batch = HostBatch::new(0);
    for (picture, sample) in pictures.iter().zip(0..) {
        batch.push(picture, 0, sample);
    }
    augment(batch_to_device(batch, how, 0, device), how).images
}

/// Softmax of logits `[B, K]`, row by row, on the host.
pub(crate) fn probabilities(logits: Tensor<2>) -> Result<Vec<Vec<f32>>, TrainError> {
    let [_, classes] = logits.dims();
    let values = softmax(logits, 1).try_into_vec_as::<f32>().map_err(TrainError::asking)?;
    Ok(values.chunks_exact(classes).map(<[f32]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_model::{Arch, ResNetConfig};

    pub(crate) fn model() -> TrainedModel {
        let config = ResNetConfig { width: 8, num_classes: 7, ..ResNetConfig::new(Arch::ResNet18) };
        let model = config.init(5, &kiln_device::cpu());
        TrainedModel { model, classes: None, augment: Augment::eval(32), weights: PathBuf::new() }
    }

    fn picture(width: u32, height: u32) -> RgbImage {
        let pixels = (0..3 * width * height).map(|at| (at * 7 % 251) as u8).collect();
        RgbImage { width, height, pixels }
    }

    #[test]
    fn the_likeliest_come_first_and_ties_keep_their_order() {
        let top = top_k(&[0.1, 0.4, 0.1, 0.4], 3);
        assert_eq!(top.iter().map(|guess| guess.class).collect::<Vec<_>>(), [1, 3, 0]);
        assert_eq!(top_k(&[1.0], 5).len(), 1);
    }

    #[test]
    fn a_picture_is_answered_alike_in_any_batch() {
        let model = model();
        let (a, b) = (picture(40, 30), picture(20, 50));
        let both = model.predict(&[a.clone(), b.clone()]).expect("answers");
        let alone = model.predict(&[b]).expect("an answer");
        assert_eq!(both[0].len(), 7);
        assert!((both[0].iter().sum::<f32>() - 1.0).abs() < 1e-5);
        let largest = both[1].iter().zip(&alone[0]).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
        assert!(largest < 1e-6, "differs by {largest}");
        assert_ne!(both[0], both[1]);
    }

    #[test]
    fn a_bad_file_is_a_reason_and_the_others_are_pictures() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (good, bad, missing) = (folder.path().join("a.png"), folder.path().join("b.jpg"), folder.path().join("c"));
        picture(3, 2).write_png(&good).expect("written");
        fs::write(&bad, b"GIF89a but not really").expect("written");
        let read = read_pictures(&[good, bad, missing]);
        assert_eq!(read[0].as_ref().expect("a picture"), &picture(3, 2));
        assert!(read[1].is_err() && read[2].is_err(), "{:?}", &read[1..]);
    }

    #[test]
    fn larger_images_make_smaller_batches() {
        let of = |side| TrainedModel { augment: Augment::eval(side), ..model() }.batch_size();
        assert!(of(32) == LARGEST_BATCH && of(1024) < of(512) && of(8192) >= 1);
    }
}
