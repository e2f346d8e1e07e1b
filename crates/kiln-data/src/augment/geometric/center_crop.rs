//! Centre crop: the middle of the image; a smaller image gets black around it.
//!
//! Source: torchvision 0.29 `v2.CenterCrop`: with an odd remainder the offset is rounded to the nearest even pixel;
//! of padding, the odd pixel goes right and below.

use serde::{Deserialize, Serialize};

use crate::augment::MAX_SIDE;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step};

/// Options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CenterCrop {
    /// Height and width in pixels. Default: the size of the [`Augment`](crate::augment::Augment) it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<[u32; 2]>,
}

impl Step for CenterCrop {
    fn problems(&self) -> Vec<String> {
        self.size.and_then(crop_problem).into_iter().collect()
    }

    fn draw(&self, _: &mut Draws, program: &mut Program, output: &Output) {
        self.apply(program, output.size);
    }
}

/// The problem of the size of a crop, if it is one.
pub(crate) fn crop_problem(size: [u32; 2]) -> Option<String> {
    let possible = size.iter().all(|side| (1..=MAX_SIDE as u32).contains(side));
    (!possible).then(|| format!("size is {size:?}; a side has 1 to {MAX_SIDE} pixels"))
}

impl CenterCrop {
    /// Adds the step to `program`; nothing is drawn.
    pub(crate) fn apply(&self, program: &mut Program, size: [u32; 2]) {
        let crop = self.size.unwrap_or(size);
        let image = program.size();
        let start = |axis: usize| centre_offset(image[axis], crop[axis]);
        program.crop([start(0), start(1)], crop);
    }
}

/// Where a crop of `crop` pixels begins in an image of `image` pixels; below zero if the image is the smaller.
fn centre_offset(image: u32, crop: u32) -> i64 {
    let (image, crop) = (i64::from(image), i64::from(crop));
    if crop > image {
        return -((crop - image) / 2);
    }
    ((image - crop) as f64 / 2.0).round_ties_even() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_remainder_is_rounded_to_even() {
        let offsets = [4, 5, 6, 7, 8, 9].map(|image| centre_offset(image, 4));
        assert_eq!(offsets, [0, 0, 1, 2, 2, 2]);
    }

    #[test]
    fn a_smaller_image_is_padded_more_on_the_right() {
        assert_eq!([4, 5, 6, 7].map(|crop| centre_offset(4, crop)), [0, 0, -1, -1]);
    }

    #[test]
    fn the_default_is_the_size_of_the_output() {
        let mut program = Program::new(10, 8);
        CenterCrop::default().apply(&mut program, [4, 2]);
        assert_eq!((program.size(), program.source_box()), ([4, 2], [2.0, 4.0, 6.0, 6.0]));
        CenterCrop { size: Some([2, 2]) }.apply(&mut program, [4, 2]);
        assert_eq!((program.size(), program.source_box()), ([2, 2], [3.0, 4.0, 5.0, 6.0]));
    }
}
