//! Resize: the whole image, to a given shorter side or to a given height and width.
//!
//! Source: torchvision 0.29 `v2.Resize`: the longer side is rounded down.
//! Differs from torchvision: a side never falls below one pixel.

use serde::{Deserialize, Serialize};

use crate::augment::interpolation::Interpolation;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step};

/// What an image is resized to; in a recipe a number, or a list of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResizeTo {
    /// The shorter side gets this many pixels, the longer one keeps the aspect ratio.
    ShorterSide(u32),
    /// Height and width; the aspect ratio isn't kept.
    Exactly([u32; 2]),
}

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// Pixels; no default, since it depends on the size of the model's input.
    pub size: ResizeTo,
    /// Pixels that the longer side may have at most; the shorter side follows. Default no limit. Needs a shorter side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
    /// How source pixels are weighed. Default bilinear, as in torchvision.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Widen the filter when making smaller, so that every source pixel counts. Default true, as in torchvision.
    #[serde(default = "antialias_by_default")]
    pub antialias: bool,
}

fn antialias_by_default() -> bool {
    true
}

impl Resize {
    /// Resizes to `size`, with torchvision's other defaults.
    pub fn new(size: ResizeTo) -> Self {
        Self { size, max_size: None, interpolation: Interpolation::default(), antialias: true }
    }

    /// Adds the step to `program`; nothing is drawn.
    pub(crate) fn apply(&self, program: &mut Program) {
        let size = self.output_size(program.size());
        program.resize(size, self.interpolation.resizing(self.antialias));
    }

    /// Height and width that an image of `height` × `width` gets.
    pub(crate) fn output_size(&self, [height, width]: [u32; 2]) -> [u32; 2] {
        let shorter = match self.size {
            ResizeTo::Exactly(size) => return size.map(|side| side.max(1)),
            ResizeTo::ShorterSide(side) => side.max(1),
        };
        let scaled = |of: u32, by: u32, over: u32| u64::from(of) * u64::from(by) / u64::from(over.max(1));
        let side = |length: u64| u32::try_from(length).unwrap_or(u32::MAX).max(1);
        let longer = side(scaled(shorter, height.max(width), height.min(width)));
        let (shorter, longer) = match self.max_size {
            Some(max_size) if longer > max_size => (side(scaled(max_size, shorter, longer)), max_size.max(1)),
            _ => (shorter, longer),
        };
        if width <= height { [longer, shorter] } else { [shorter, longer] }
    }
}

impl Step for Resize {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let sides = match self.size {
            ResizeTo::ShorterSide(side) => [side, side],
            ResizeTo::Exactly(sides) => sides,
        };
        if sides.contains(&0) {
            problems.push("size is 0; a side has at least one pixel".into());
        }
        match (self.size, self.max_size) {
            (ResizeTo::Exactly(_), Some(_)) => {
                problems.push("max_size limits the longer side, so it needs a shorter side as size".into());
            }
            (ResizeTo::ShorterSide(side), Some(max_size)) if max_size < side => {
                problems.push(format!("max_size is {max_size}; it can't be less than the shorter side, {side}"));
            }
            _ => {}
        }
        problems
    }

    fn draw(&self, _: &mut Draws, program: &mut Program, _: &Output) {
        self.apply(program);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shorter(size: u32, max_size: Option<u32>, image: [u32; 2]) -> [u32; 2] {
        Resize { max_size, ..Resize::new(ResizeTo::ShorterSide(size)) }.output_size(image)
    }

    #[test]
    fn the_longer_side_is_rounded_down() {
        // 29 * 53 / 37 = 41.5
        assert_eq!(shorter(29, None, [37, 53]), [29, 41]);
        assert_eq!(shorter(29, None, [53, 37]), [41, 29]);
        assert_eq!(shorter(256, None, [375, 500]), [256, 341]);
        assert_eq!(shorter(7, None, [5, 5]), [7, 7]);
    }

    #[test]
    fn the_longer_side_can_be_limited() {
        assert_eq!(shorter(29, Some(35), [37, 53]), [24, 35]);
        assert_eq!(shorter(29, Some(41), [37, 53]), [29, 41]);
    }

    #[test]
    fn extreme_images_keep_at_least_one_pixel_a_side() {
        assert_eq!(shorter(256, None, [1, 20_000]), [256, 5_120_000]);
        assert_eq!(shorter(2, Some(2), [1, 20_000]), [1, 2]);
        assert_eq!(shorter(u32::MAX, None, [1, u32::MAX]), [u32::MAX, u32::MAX]);
        assert_eq!(shorter(0, Some(0), [3, 4]), [1, 1]);
    }

    #[test]
    fn options_that_contradict_each_other_are_reported() {
        let resize = |size, max_size| Resize { max_size, ..Resize::new(size) }.problems().len();
        assert_eq!(resize(ResizeTo::Exactly([0, 4]), Some(5)), 2);
        assert_eq!(resize(ResizeTo::ShorterSide(6), Some(5)), 1);
        assert_eq!(resize(ResizeTo::ShorterSide(5), Some(5)), 0);
    }

    #[test]
    fn a_recipe_names_one_side_or_two() {
        let read = |json| serde_json::from_str::<Resize>(json).expect("a resize");
        assert_eq!(read(r#"{"size": 256}"#), Resize::new(ResizeTo::ShorterSide(256)));
        assert_eq!(read(r#"{"size": [64, 48]}"#), Resize::new(ResizeTo::Exactly([64, 48])));
    }
}
