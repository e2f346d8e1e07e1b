//! The three forms a batch takes on its way: bytes on the host, the same bytes on the device, floats.
//!
//! In and out: images of different sizes lie in one buffer, RGB8, rows tightly packed, each image beginning
//! at a multiple of four bytes; a table of [`ImageSlot`] says where. The buffer's length is a multiple of
//! four too, so that a device reads it as `u32` words (WGSL has no `u8`).
//! Not done here: decoding (`decode.rs`), threads (`loader.rs`, `upload.rs`), arithmetic (`augment`).

use burn::tensor::{Int, Tensor};

use crate::augment::{Mix, MixedTargets, Program, labels_on_device, one_hot};
use crate::decode::{RgbImage, View};

/// Images begin at multiples of this, the size of the word a kernel reads.
const WORD_BYTES: usize = 4;

/// Where one image of a ragged batch lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSlot {
    /// Byte at which the image begins, a multiple of four.
    pub offset: usize,
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Which part of its picture that is, and at which scale.
    pub view: View,
}

impl ImageSlot {
    /// The slot of a whole picture.
    pub fn whole(offset: usize, width: u32, height: u32) -> Self {
        Self { offset, width, height, view: View::whole(width, height) }
    }

    /// Bytes of the image without padding: `width * height * 3`.
    pub fn num_bytes(&self) -> usize {
        self.width as usize * self.height as usize * 3
    }
}

/// A decoded batch in host memory: bytes, still of different sizes.
///
/// `images`, `labels`, `samples` and `draws` have one entry per image, in the order of the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostBatch {
    /// RGB8 of all images, each at its slot; the length is a multiple of four, gaps are zero.
    pub pixels: Vec<u8>,
    /// Where each image lies in `pixels`.
    pub images: Vec<ImageSlot>,
    /// Class index of each image.
    pub labels: Vec<u32>,
    /// Index of each image in its data set.
    pub samples: Vec<u64>,
    /// What determines every random draw of an image, with seed and epoch: its index, or another number where the same
    /// image may come twice in an epoch.
    pub draws: Vec<u64>,
    /// Epoch the batch belongs to, from 0.
    pub epoch: u32,
}

impl HostBatch {
    /// Makes an empty batch of `epoch`.
    pub fn new(epoch: u32) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// Appends one image, a whole picture: a copy of its bytes. Its random draws are those of its index.
    ///
    /// # Panics
    /// If `image.pixels` isn't `width * height * 3` bytes.
    pub fn push(&mut self, image: &RgbImage, label: u32, sample: u64) {
        let view = View::whole(image.width, image.height);
        self.push_view(image, view, label, sample, sample);
    }

    /// Appends one image that is `view` of its picture and whose random draws are those of `draw`.
    ///
    /// # Panics
    /// As [`push`](Self::push).
    pub fn push_view(&mut self, image: &RgbImage, view: View, label: u32, sample: u64, draw: u64) {
        let slot = ImageSlot { offset: self.pixels.len(), width: image.width, height: image.height, view };
        assert_eq!(image.pixels.len(), slot.num_bytes(), "an RGB image of {}x{}", image.width, image.height);
        self.pixels.extend_from_slice(&image.pixels);
        self.pixels.resize(self.pixels.len().next_multiple_of(WORD_BYTES), 0);
        self.images.push(slot);
        self.labels.push(label);
        self.samples.push(sample);
        self.draws.push(draw);
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Says whether the batch holds no image. The loader never delivers such a batch.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// The bytes of image `index`: `[height, width, 3]`, rows tightly packed.
    ///
    /// # Panics
    /// If there is no image `index`.
    pub fn image(&self, index: usize) -> &[u8] {
        let slot = self.images[index];
        &self.pixels[slot.offset..slot.offset + slot.num_bytes()]
    }
}

/// The bytes of a [`HostBatch`] on a device, with the program each image is to run.
#[derive(Clone, Debug)]
pub struct DeviceBatch {
    /// u32 `[pixels.len() / 4]`: the host's bytes as little-endian words.
    pub pixels: Tensor<1, Int>,
    /// Where each image lies, in bytes.
    pub images: Vec<ImageSlot>,
    /// Class index of each image.
    pub labels: Vec<u32>,
    /// Index of each image in its data set.
    pub samples: Vec<u64>,
    /// What determines every random draw of an image, see [`HostBatch::draws`].
    pub draws: Vec<u64>,
    /// Epoch the batch belongs to, from 0.
    pub epoch: u32,
    /// What to do to each image, drawn from seed, epoch and `draws`.
    pub programs: Vec<Program>,
    /// What each image is mixed with; empty if nothing is mixed.
    pub mixes: Vec<Mix>,
}

/// What the model sees.
///
/// # Shapes
/// `images`: float `[B, 3, H, W]`, normalised; `targets`: int `[B]`, class indices. Where images are mixed these are of the
/// image that each row of the batch began with; [`Batch::soft_targets`] and [`Batch::main_targets`] know of both.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Float `[B, 3, H, W]`, normalised, of the type and order in memory that [`Augment`](crate::Augment) asks for.
    pub images: Tensor<4>,
    /// int `[B]`: `labels` on the device.
    pub targets: Tensor<1, Int>,
    /// Class index of each image, on the host.
    pub labels: Vec<u32>,
    /// Index of each image in its data set.
    pub samples: Vec<u64>,
    /// The other label of each image and its share; `None` if no image of the batch is mixed.
    pub mix: Option<MixedTargets>,
}

impl Batch {
    /// The probability of each class: one or, of a mixed image, two by their shares, smoothed by giving a share of
    /// `label_smoothing` to all classes alike. A loss that is given these must not smooth again.
    ///
    /// # Shapes
    /// Returns float `[B, K]` for K = `num_classes`; rows sum to 1.
    pub fn soft_targets(&self, num_classes: usize, label_smoothing: f64) -> Tensor<2> {
        let own = one_hot(self.targets.clone(), num_classes);
        let targets = match &self.mix {
            Some(mix) => mix.mix(own),
            None => own,
        };
        match label_smoothing {
            0.0 => targets,
            share => targets.mul_scalar(1.0 - share).add_scalar(share / num_classes as f64),
        }
    }

    /// The class of the larger share of each image, for accuracies: `targets` unless something is mixed.
    ///
    /// # Shapes
    /// Returns int `[B]`.
    pub fn main_targets(&self) -> Tensor<1, Int> {
        match &self.mix {
            Some(mix) => labels_on_device(&mix.main_labels(&self.labels), &self.targets.device()),
            None => self.targets.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_begins_at_a_word() {
        let mut batch = HostBatch::new(7);
        batch.push(&RgbImage { width: 1, height: 1, pixels: vec![1, 2, 3] }, 4, 40);
        batch.push(&RgbImage { width: 2, height: 1, pixels: vec![5, 6, 7, 8, 9, 10] }, 5, 50);
        assert_eq!(batch.pixels, [1, 2, 3, 0, 5, 6, 7, 8, 9, 10, 0, 0]);
        assert_eq!(batch.images[1], ImageSlot::whole(4, 2, 1));
        assert_eq!(batch.image(1), [5, 6, 7, 8, 9, 10]);
        assert_eq!((batch.labels, batch.samples, batch.epoch), (vec![4, 5], vec![40, 50], 7));
    }

    #[test]
    #[should_panic(expected = "an RGB image of 2x1")]
    fn an_image_whose_bytes_do_not_fit_its_size_is_our_mistake() {
        HostBatch::new(0).push(&RgbImage { width: 2, height: 1, pixels: vec![0; 5] }, 0, 0);
    }
}
