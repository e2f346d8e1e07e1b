//! Corner crop: a corner of the image; one of the views that predictions are averaged over.
//!
//! Source: torchvision 0.29 `v2.FiveCrop`, which are the four corners and the centre.
//! Differs from torchvision: an image smaller than the crop gets black beside it, where torchvision refuses.

use serde::{Deserialize, Serialize};

use super::center_crop::crop_problem;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step};

/// Which corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Corner {
    /// Above and left.
    TopLeft,
    /// Above and right.
    TopRight,
    /// Below and left.
    BottomLeft,
    /// Below and right.
    BottomRight,
}

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CornerCrop {
    /// Which corner; no default.
    pub corner: Corner,
    /// Height and width in pixels. Default: the size of the [`Augment`](crate::augment::Augment) it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[u32; 2]>,
}

impl Step for CornerCrop {
    fn problems(&self) -> Vec<String> {
        self.size.and_then(crop_problem).into_iter().collect()
    }

    fn draw(&self, _: &mut Draws, program: &mut Program, output: &Output) {
        let (crop, image) = (self.size.unwrap_or(output.size), program.size());
        let [is_below, is_right] = match self.corner {
            Corner::TopLeft => [false, false],
            Corner::TopRight => [false, true],
            Corner::BottomLeft => [true, false],
            Corner::BottomRight => [true, true],
        };
        let start = |is_last: bool, axis: usize| {
            if is_last { i64::from(image[axis]) - i64::from(crop[axis]) } else { 0 }
        };
        program.crop([start(is_below, 0), start(is_right, 1)], crop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corner_is_where_its_name_says() {
        let found = |corner| {
            let mut program = Program::new(10, 8);
            let crop = CornerCrop { corner, size: None };
            crop.draw(&mut Draws::new(0, 0, 0, 0), &mut program, &Output::of_size([2, 3]));
            program.source_box()
        };
        assert_eq!(found(Corner::TopLeft), [0.0, 0.0, 2.0, 3.0]);
        assert_eq!(found(Corner::TopRight), [0.0, 7.0, 2.0, 10.0]);
        assert_eq!(found(Corner::BottomLeft), [6.0, 0.0, 8.0, 3.0]);
        assert_eq!(found(Corner::BottomRight), [6.0, 7.0, 8.0, 10.0]);
    }

    #[test]
    fn a_crop_of_nothing_is_a_problem() {
        assert_eq!(CornerCrop { corner: Corner::TopLeft, size: Some([0, 1]) }.problems().len(), 1);
        assert_eq!(CornerCrop { corner: Corner::TopLeft, size: None }.problems().len(), 0);
    }
}
