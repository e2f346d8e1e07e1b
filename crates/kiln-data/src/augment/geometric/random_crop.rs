//! Random crop: a part of the image in its own scale, after padding.
//!
//! Draws: top, then left, both uniform over where the crop fits.
//! Source: torchvision 0.29 `v2.RandomCrop`; CIFAR is trained with a padding of 4 (He et al., arXiv 1512.03385, section 4.2).
//! Differs from torchvision: an image smaller than the crop is always padded, as with `pad_if_needed`: by what is
//! missing on either side.

use serde::{Deserialize, Serialize};

use super::center_crop::crop_problem;
use super::pad::{Padding, PaddingMode};
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step};

/// Sides of a crop that is filled with anything but a colour: a resize reads all of it.
const MAX_MIRRORED: u32 = 4096;

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomCrop {
    /// Height and width in pixels. Default: the size of the [`Augment`](crate::augment::Augment) it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<[u32; 2]>,
    /// Pixels that are added around the image first. Default none, as in torchvision.
    pub padding: Padding,
    /// What is added. Default the fill, as in torchvision.
    pub padding_mode: PaddingMode,
    /// Red, green and blue, 0–255. Default black, as in torchvision.
    pub fill: [u8; 3],
}

impl Default for RandomCrop {
    fn default() -> Self {
        Self { size: None, padding: Padding::All(0), padding_mode: PaddingMode::default(), fill: [0; 3] }
    }
}

impl Step for RandomCrop {
    fn problems(&self) -> Vec<String> {
        let mode = self.padding_mode;
        let is_large = |size: &[u32; 2]| mode != PaddingMode::Constant && size.iter().any(|side| *side > MAX_MIRRORED);
        let large = self.size.filter(is_large);
        let large = large.map(|size| format!("size is {size:?}; with this padding_mode at most {MAX_MIRRORED} pixels"));
        self.size.and_then(crop_problem).or(large).into_iter().chain(self.padding.problem()).collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, output: &Output) {
        let crop = self.size.unwrap_or(output.size);
        let [before, after] = self.padding.before_and_after();
        let image = program.size();
        // One padding of both, since an image has one border.
        let missing = |axis: usize| {
            let padded = image[axis].saturating_add(before[axis]).saturating_add(after[axis]);
            let missing = crop[axis].saturating_sub(padded);
            if self.padding_mode == PaddingMode::Constant { missing } else { missing.min(MAX_MIRRORED) }
        };
        let [before, after] = [before, after].map(|sides| [0, 1].map(|axis| sides[axis].saturating_add(missing(axis))));
        self.padding_mode.pad(program, before, after, self.fill);
        let image = program.size();
        let corner = [0, 1].map(|axis| draws.below(u64::from(image[axis].saturating_sub(crop[axis])) + 1) as i64);
        program.crop(corner, crop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Top and left of a crop of 32 × 32 of an image of that size, padded by 4.
    fn corner(sample: u64) -> [f64; 2] {
        let crop = RandomCrop { padding: Padding::All(4), ..Default::default() };
        let mut program = Program::new(32, 32);
        crop.draw(&mut Draws::new(42, 0, sample, 0), &mut program, &Output::of_size([32, 32]));
        assert_eq!(program.size(), [32, 32]);
        [0, 1].map(|axis| program.source_box()[axis])
    }

    #[test]
    fn every_place_is_equally_likely() {
        let mut counts = [[0u32; 9]; 2];
        for sample in 0..9_000 {
            let corner = corner(sample);
            (0..2).for_each(|axis| counts[axis][(corner[axis] + 4.0) as usize] += 1);
        }
        // Standard error of a count of 1,000 among 9,000: 30.
        assert!(counts.as_flattened().iter().all(|count| count.abs_diff(1000) < 4 * 30), "{counts:?}");
    }

    #[test]
    fn draws_are_pinned() {
        assert_eq!([0, 1, 2, 3].map(corner), [[0.0, -1.0], [-2.0, 0.0], [1.0, 2.0], [2.0, -1.0]]);
    }

    #[test]
    fn a_smaller_image_is_padded_by_what_is_missing_on_either_side() {
        let mut tops = std::collections::BTreeSet::new();
        for sample in 0..200 {
            let mut program = Program::new(20, 5);
            RandomCrop::default().draw(&mut Draws::new(1, 0, sample, 0), &mut program, &Output::of_size([8, 8]));
            assert_eq!(program.size(), [8, 8]);
            tops.insert(program.source_box()[0] as i64);
        }
        assert_eq!(tops.into_iter().collect::<Vec<_>>(), [-3, -2, -1, 0]);
    }

    #[test]
    fn sizes_and_paddings_have_limits() {
        let problems = |size, padding| RandomCrop { size, padding, ..Default::default() }.problems().len();
        assert_eq!(problems(Some([0, 3]), Padding::All(70_000)), 2);
        assert_eq!(problems(Some([3, 70_000]), Padding::All(0)), 1);
        assert_eq!(problems(None, Padding::Sides([4, 4])), 0);
        let mirrored = RandomCrop { size: Some([3, 5000]), padding_mode: PaddingMode::Reflect, ..Default::default() };
        assert_eq!(mirrored.problems().len(), 1);
    }
}
