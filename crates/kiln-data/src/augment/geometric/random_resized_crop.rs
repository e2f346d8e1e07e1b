//! Random resized crop: a random part of the image, stretched to the size that the model wants.
//!
//! Draws: per attempt an area fraction and a logarithm of the aspect ratio, both uniform; then, for the attempt that
//! fits, top and left.
//! Source: Szegedy et al., arXiv 1409.4842, section 6; the algorithm is torchvision 0.29 `v2.RandomResizedCrop`: ten
//! attempts, halves rounded to even, then the largest box of an allowed ratio in the centre.
//! Differs from torchvision: the generator, and f64 where it has f32; the law of the boxes is the same.

use serde::{Deserialize, Serialize};

use crate::augment::interpolation::Interpolation;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step};

/// Attempts before the box in the centre is taken; torchvision's number.
const NUM_ATTEMPTS: usize = 10;

/// Options; the output has the size of the [`Augment`](crate::augment::Augment) it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomResizedCrop {
    /// Share of the image's area, lowest and highest, above 0 and at most 1. Default 0.08–1, as in the paper. Large
    /// boxes are rarer than small ones, because one that doesn't fit is drawn again.
    pub scale: [f64; 2],
    /// Width over height of the box, lowest and highest. Default 3/4–4/3, as in the paper.
    pub ratio: [f64; 2],
    /// How source pixels are weighed. Default bilinear, as in torchvision.
    pub interpolation: Interpolation,
    /// Widen the filter when making smaller, so that every source pixel counts. Default true, as in torchvision.
    pub antialias: bool,
}

impl Default for RandomResizedCrop {
    fn default() -> Self {
        let interpolation = Interpolation::default();
        Self { scale: [0.08, 1.0], ratio: [3.0 / 4.0, 4.0 / 3.0], interpolation, antialias: true }
    }
}

impl Step for RandomResizedCrop {
    fn problems(&self) -> Vec<String> {
        let [scale, ratio] = [self.scale, self.ratio];
        let mut problems = Vec::new();
        if !(scale[0] > 0.0 && scale[0] <= scale[1] && scale[1] <= 1.0) {
            problems.push(format!("scale is {scale:?}; it must be a lowest and a highest share above 0 and at most 1"));
        }
        if !(ratio[0] > 0.0 && ratio[0] <= ratio[1] && ratio[1].is_finite()) {
            problems.push(format!("ratio is {ratio:?}; it must be a lowest and a highest width over height above 0"));
        }
        problems
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, output: &Output) {
        let CropBox { top, left, height, width } = self.crop_box(draws, program.size());
        program.crop([i64::from(top), i64::from(left)], [height, width]);
        program.resize(output.size, self.interpolation.resizing(self.antialias));
    }
}

impl RandomResizedCrop {
    /// Draws the box to cut out of an image of `height` × `width`.
    pub(crate) fn crop_box(&self, draws: &mut Draws, [height, width]: [u32; 2]) -> CropBox {
        let area = f64::from(height) * f64::from(width);
        let log_ratio = self.ratio.map(f64::ln);
        for _ in 0..NUM_ATTEMPTS {
            let box_area = area * draws.uniform_in(self.scale);
            let ratio = draws.uniform_in(log_ratio).exp();
            let box_width = (box_area * ratio).sqrt().round_ties_even();
            let box_height = (box_area / ratio).sqrt().round_ties_even();
            if box_width >= 1.0 && box_height >= 1.0 && box_width <= f64::from(width) && box_height <= f64::from(height)
            {
                let (box_height, box_width) = (box_height as u32, box_width as u32);
                let top = draws.below(u64::from(height - box_height) + 1) as u32;
                let left = draws.below(u64::from(width - box_width) + 1) as u32;
                return CropBox { top, left, height: box_height, width: box_width };
            }
        }
        self.centre_box([height, width])
    }

    /// The largest box of an allowed ratio, in the centre.
    fn centre_box(&self, [height, width]: [u32; 2]) -> CropBox {
        let ratio = f64::from(width) / f64::from(height);
        let side = |length: f64, whole: u32| (length.round_ties_even() as u32).clamp(1, whole.max(1));
        let (box_height, box_width) = if ratio < self.ratio[0] {
            (side(f64::from(width) / self.ratio[0], height), width)
        } else if ratio > self.ratio[1] {
            (height, side(f64::from(height) * self.ratio[1], width))
        } else {
            (height, width)
        };
        CropBox { top: (height - box_height) / 2, left: (width - box_width) / 2, height: box_height, width: box_width }
    }
}

/// A part of an image, in whole pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CropBox {
    pub(crate) top: u32,
    pub(crate) left: u32,
    pub(crate) height: u32,
    pub(crate) width: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crop_box(sample: u64, size: [u32; 2]) -> CropBox {
        RandomResizedCrop::default().crop_box(&mut Draws::new(42, 0, sample, 0), size)
    }

    #[test]
    fn boxes_lie_inside_the_image() {
        for size in [[1, 1], [1, 20_000], [20_000, 1], [3, 2], [375, 500]] {
            for sample in 0..200 {
                let found = crop_box(sample, size);
                assert!(found.height >= 1 && found.top + found.height <= size[0], "{found:?} in {size:?}");
                assert!(found.width >= 1 && found.left + found.width <= size[1], "{found:?} in {size:?}");
            }
        }
    }

    #[test]
    fn an_extreme_image_gives_the_box_in_the_centre() {
        let found = |height, width| {
            let CropBox { top, left, height, width } = crop_box(0, [height, width]);
            [top, left, height, width]
        };
        // What torchvision gives for these sizes.
        assert_eq!(found(10, 1000), [0, 493, 10, 13]);
        assert_eq!(found(1000, 10), [493, 0, 13, 10]);
        assert_eq!(found(40, 1200), [0, 573, 40, 53]);
    }

    #[test]
    fn draws_are_pinned() {
        let boxes = [crop_box(0, [375, 500]), crop_box(1, [375, 500]), crop_box(2, [375, 500])];
        let want = [(30, 160, 324, 296), (37, 135, 271, 264), (26, 4, 331, 388)];
        assert_eq!(boxes.map(|found| (found.top, found.left, found.height, found.width)), want);
    }

    #[test]
    fn options_that_are_no_numbers_still_give_a_box() {
        let bad = RandomResizedCrop { scale: [f64::NAN, 2.0], ratio: [f64::NAN, f64::INFINITY], ..Default::default() };
        assert_eq!(bad.problems().len(), 2);
        let found = bad.crop_box(&mut Draws::new(0, 0, 0, 0), [4, 6]);
        assert_eq!(found, CropBox { top: 0, left: 0, height: 4, width: 6 });
    }
}
