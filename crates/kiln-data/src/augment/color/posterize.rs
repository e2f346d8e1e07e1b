//! Posterize: fewer steps between black and white.
//!
//! Source: torchvision 0.29 `v2.functional.posterize`. On bytes it clears all but the highest bits, so that the brightest
//! step is darker than white; on floats it divides 0–1 evenly and names each step by its lower end.
//! Draws: whether at all.

use serde::{Deserialize, Serialize};

use crate::augment::levels::{LEVEL, Levels, WHITE};
use crate::augment::philox::Draws;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step, chance_problem};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPosterize {
    /// Highest bits that stay of each byte, 0–8; no default. With 0 the image is black.
    pub bits: u32,
    /// Chance per image, 0–1. Default 0.5, torchvision's.
    #[serde(default = "half")]
    pub probability: f64,
}

fn half() -> f64 {
    0.5
}

impl RandomPosterize {
    /// Keeps `bits` of half of the images.
    pub fn new(bits: u32) -> Self {
        Self { bits, probability: half() }
    }
}

impl Step for RandomPosterize {
    fn problems(&self) -> Vec<String> {
        let bits = self.bits;
        let problem = (bits > 8).then(|| format!("bits is {bits}; a byte has 8"));
        problem.into_iter().chain(chance_problem(self.probability)).collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if draws.chance(self.probability) {
            program.push(PixelOp::Posterize { bits: self.bits, range: PosterizeRange::Bytes });
        }
    }
}

/// What is divided into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PosterizeRange {
    /// Bytes, 0–255, of which the highest bits stay; what policies are published with.
    Bytes,
    /// Fractions, 0–1, as torchvision does with float images.
    #[cfg_attr(not(test), expect(dead_code, reason = "the scalar twin is compared with torchvision in both forms"))]
    Fractions,
}

/// Size of a step, and the number of steps, that `bits` give: all of 8 or more, one of none.
pub(crate) fn steps(bits: u32, range: PosterizeRange) -> [i32; 2] {
    let count = 1 << bits.min(8);
    match range {
        PosterizeRange::Bytes => [(256 / count) * LEVEL, count],
        PosterizeRange::Fractions => [WHITE / count, count],
    }
}

/// Rounds down to a multiple of `step`, at most the `count`-th.
pub(crate) fn posterize(rgb: Levels, [step, count]: [i32; 2]) -> Levels {
    rgb.map(|value| (value / step).min(count - 1) * step)
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use crate::augment::levels::device::Rgb;

    /// [`super::posterize`].
    #[cube]
    pub(crate) fn posterize(rgb: &Rgb, step: i32, count: i32) -> Rgb {
        Rgb {
            red: min(rgb.red / step, count - 1) * step,
            green: min(rgb.green / step, count - 1) * step,
            blue: min(rgb.blue / step, count - 1) * step,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::tests::{applied_to, pinned};

    #[test]
    fn is_applied_as_often_as_asked() {
        applied_to(&RandomPosterize { probability: 0.2, ..RandomPosterize::new(3) }, 0.2);
        applied_to(&RandomPosterize::new(3), 0.5);
    }

    #[test]
    fn draws_are_pinned() {
        let step = RandomPosterize { bits: 3, probability: 0.3 };
        assert_eq!(pinned(&step, &PixelOp::Posterize { bits: 3, range: PosterizeRange::Bytes }), [5, 8]);
    }

    #[test]
    fn options_out_of_range_are_reported() {
        let problems = |bits, probability| RandomPosterize { bits, probability }.problems().len();
        assert_eq!((problems(0, 0.0), problems(8, 1.0), problems(9, f64::NAN)), (0, 0, 2));
    }
}
