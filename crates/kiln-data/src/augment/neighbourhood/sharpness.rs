//! Sharpness: every pixel moved towards or away from a smoothed one.
//!
//! Source: torchvision 0.29 `v2.functional.adjust_sharpness`: the smooth pixel is the mean of 3 × 3 with the middle
//! counted five times; pixels at the border stay; 0 is smooth, 1 the image, 2 as sharp as smoothing is smooth.
//! Draws: whether at all.

use serde::{Deserialize, Serialize};

use crate::augment::levels::{Levels, blend, clamp};
use crate::augment::philox::Draws;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step, chance_problem, range_problem};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomAdjustSharpness {
    /// 0 is smoothed, 1 the image, 2 sharper; no default.
    pub sharpness_factor: f64,
    /// Chance per image, 0–1. Default 0.5, torchvision's.
    #[serde(default = "half")]
    pub probability: f64,
}

fn half() -> f64 {
    0.5
}

impl RandomAdjustSharpness {
    /// Sharpens half of the images by `sharpness_factor`.
    pub fn new(sharpness_factor: f64) -> Self {
        Self { sharpness_factor, probability: half() }
    }
}

/// Beyond, every edge is black and white.
const MAX_FACTOR: f64 = 100.0;

impl Step for RandomAdjustSharpness {
    fn problems(&self) -> Vec<String> {
        let factor = self.sharpness_factor;
        let problem = range_problem("sharpness_factor", [factor, factor], [0.0, MAX_FACTOR]);
        problem.into_iter().chain(chance_problem(self.probability)).collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if draws.chance(self.probability) {
            program.push(PixelOp::Sharpness { factor: self.sharpness_factor });
        }
    }
}

/// What the weights of the smooth pixel sum to.
const TOTAL: i32 = 13;

/// Pixel `[row, column]` of `image`, `[height, width]`, blended from smooth by `factor`.
pub(crate) fn sharpness(
    image: &[Levels],
    [height, width]: [usize; 2],
    [row, column]: [usize; 2],
    factor: u32,
) -> Levels {
    let middle = image[row * width + column];
    if row == 0 || column == 0 || row + 1 >= height || column + 1 >= width {
        return middle;
    }
    std::array::from_fn(|channel| {
        let at = |y: usize, x: usize| image[(row + y - 1) * width + column + x - 1][channel];
        let sum: i32 = (0..3).flat_map(|y| (0..3).map(move |x| (y, x))).map(|(y, x)| at(y, x)).sum();
        let smooth = (sum + 4 * middle[channel] + TOTAL / 2) / TOTAL;
        clamp(blend(smooth, middle[channel], factor))
    })
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::TOTAL;
    use crate::augment::levels::device::{Rgb, blend, limit};
    use crate::augment::neighbourhood::device::read;

    /// [`super::sharpness`]; the image begins at word `place` of `scratch`.
    #[cube]
    pub(crate) fn sharpness(
        scratch: &[u32],
        place: usize,
        height: u32,
        width: u32,
        row: u32,
        column: u32,
        factor: u32,
    ) -> Rgb {
        let middle = read(scratch, place, row * width + column);
        let mut result = Rgb { red: middle.red, green: middle.green, blue: middle.blue };
        if row > 0 && column > 0 && row + 1 < height && column + 1 < width {
            let mut sum = Rgb { red: 4 * middle.red, green: 4 * middle.green, blue: 4 * middle.blue };
            for y in 0..3u32 {
                for x in 0..3u32 {
                    let pixel = read(scratch, place, (row + y - 1) * width + column + x - 1);
                    sum.red += pixel.red;
                    sum.green += pixel.green;
                    sum.blue += pixel.blue;
                }
            }
            result = Rgb {
                red: limit(blend((sum.red + TOTAL / 2) / TOTAL, middle.red, factor)),
                green: limit(blend((sum.green + TOTAL / 2) / TOTAL, middle.green, factor)),
                blue: limit(blend((sum.blue + TOTAL / 2) / TOTAL, middle.blue, factor)),
            };
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::tests::{applied_to, pinned};

    #[test]
    fn is_applied_as_often_as_asked() {
        applied_to(&RandomAdjustSharpness { probability: 0.2, ..RandomAdjustSharpness::new(2.0) }, 0.2);
        applied_to(&RandomAdjustSharpness::new(2.0), 0.5);
    }

    #[test]
    fn draws_are_pinned() {
        let step = RandomAdjustSharpness { sharpness_factor: 2.0, probability: 0.3 };
        assert_eq!(pinned(&step, &PixelOp::Sharpness { factor: 2.0 }), [5, 8]);
    }

    #[test]
    fn options_out_of_range_are_reported() {
        let problems =
            |sharpness_factor, probability| RandomAdjustSharpness { sharpness_factor, probability }.problems().len();
        assert_eq!((problems(0.0, 0.0), problems(-1.0, 0.5), problems(f64::INFINITY, 2.0)), (0, 1, 2));
    }
}
