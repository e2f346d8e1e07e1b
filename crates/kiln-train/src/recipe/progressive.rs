//! `[augment.progressive]`: images that grow during the run.
//!
//! Early epochs learn as much from small images, at a fraction of the cost; a GPU compiles kernels once for each size.
//! Source: Howard et al.'s DAWNBench entries; the ramp is FFCV's (`rn50_configs`).

use serde::{Deserialize, Serialize};

/// `[augment.progressive]`: a ramp from a smaller image to `augment.image_size`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProgressiveResize {
    /// Side of the images until the ramp, in pixels. Default 128.
    pub start_size: usize,
    /// Epochs that are over when the ramp begins. Default 0.
    pub start_epoch: f64,
    /// Epochs that are over when images have their full size. Default 10.
    pub end_epoch: f64,
    /// Sizes on the way are multiples of this. Default 32, as the network halves them five times.
    pub multiple: usize,
}

impl Default for ProgressiveResize {
    fn default() -> Self {
        Self { start_size: 128, start_epoch: 0.0, end_epoch: 10.0, multiple: 32 }
    }
}

impl ProgressiveResize {
    /// Side of a training image in `epoch`, counted from 0, on the way to `image_size`.
    pub fn size(&self, epoch: usize, image_size: usize) -> usize {
        let epoch = epoch as f64;
        if epoch >= self.end_epoch {
            return image_size;
        }
        let share = (epoch - self.start_epoch) / (self.end_epoch - self.start_epoch);
        let (from, to) = (self.start_size as f64, image_size as f64);
        let size = from + (to - from) * share.clamp(0.0, 1.0);
        let multiple = self.multiple.max(1) as f64;
        match size == from {
            true => self.start_size,
            false => ((size / multiple).round_ties_even() * multiple) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_grow_along_ffcv_s_ramp() {
        let ramp = ProgressiveResize { start_size: 160, start_epoch: 11.0, end_epoch: 13.0, multiple: 32 };
        let sizes: Vec<_> = [0, 10, 11, 12, 13, 15].iter().map(|&epoch| ramp.size(epoch, 192)).collect();
        assert_eq!(sizes, [160, 160, 160, 192, 192, 192]);
        let slow = ProgressiveResize { start_size: 96, start_epoch: 0.0, end_epoch: 8.0, multiple: 32 };
        let sizes: Vec<_> = (0..9).map(|epoch| slow.size(epoch, 224)).collect();
        assert_eq!(sizes, [96, 128, 128, 128, 160, 192, 192, 192, 224]);
    }

    #[test]
    fn a_ramp_of_no_length_is_a_step() {
        let step = ProgressiveResize { start_size: 100, start_epoch: 3.0, end_epoch: 3.0, multiple: 32 };
        assert_eq!([2, 3].map(|epoch| step.size(epoch, 150)), [100, 150]);
    }
}
