//! Equalize: maps each channel so that its histogram becomes as flat as it can.
//!
//! Source: torchvision 0.29 `v2.functional.equalize`, after Pillow's `ImageOps.equalize`. Like torchvision's for float
//! images, ours works on the nearest byte of each value and gives bytes.
//! Draws: whether at all.

use serde::{Deserialize, Serialize};

use crate::augment::levels::{LEVEL, clamp};
use crate::augment::philox::Draws;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step, chance_problem};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomEqualize {
    /// Chance per image, 0–1. Default 0.5, torchvision's.
    pub probability: f64,
}

impl Default for RandomEqualize {
    fn default() -> Self {
        Self { probability: 0.5 }
    }
}

impl Step for RandomEqualize {
    fn problems(&self) -> Vec<String> {
        chance_problem(self.probability).into_iter().collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if draws.chance(self.probability) {
            program.push(PixelOp::Equalize);
        }
    }
}

/// Words of the statistic: a byte for every byte of every channel.
pub(crate) const NUM_WORDS: usize = 3 * 256;

/// The byte nearest to a value.
#[inline(always)]
pub(crate) fn nearest_byte(value: i32) -> usize {
    ((clamp(value) + LEVEL / 2) / LEVEL) as usize
}

/// The byte that each byte of a channel becomes.
pub(crate) fn equalizing(histogram: &[u32; 256]) -> [u32; 256] {
    let total: u32 = histogram.iter().sum();
    let brightest = histogram.iter().rposition(|count| *count > 0).unwrap_or(0);
    let step = (total - histogram[brightest]) / 255;
    if step == 0 {
        return std::array::from_fn(|byte| byte as u32);
    }
    let mut darker = 0;
    histogram.map(|count| {
        let place = (darker + step / 2) / step;
        darker += count;
        place.min(255)
    })
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::LEVEL;
    use crate::augment::levels::device::limit;

    /// [`super::nearest_byte`].
    #[cube]
    pub(crate) fn nearest_byte(value: i32) -> u32 {
        u32::reinterpret(limit(value) + comptime!(LEVEL / 2)) / comptime!(LEVEL as u32)
    }

    /// [`super::equalizing`], for one byte: `darker` pixels are darker, `brightest` have the brightest byte there is.
    #[cube]
    pub(crate) fn equalized(byte: u32, darker: u32, brightest: u32, total: u32) -> u32 {
        let step = (total - brightest) / 255;
        let place = min((darker + step / 2) / max(step, 1u32), 255u32);
        select(step == 0, byte, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::tests::{applied_to, pinned};

    #[test]
    fn a_flat_histogram_stays() {
        assert_eq!(equalizing(&[3; 256]), std::array::from_fn(|byte| byte as u32));
    }

    #[test]
    fn few_pixels_or_one_brightness_stay() {
        let mut histogram = [0; 256];
        histogram[9] = 100_000;
        assert_eq!(equalizing(&histogram)[9], 9);
        histogram[9] = 1;
        histogram[70] = 100;
        assert_eq!(equalizing(&histogram)[70], 70);
    }

    #[test]
    fn two_brightnesses_are_drawn_apart() {
        let mut histogram = [0; 256];
        (histogram[100], histogram[101]) = (510, 510);
        let map = equalizing(&histogram);
        assert_eq!([map[0], map[100], map[101], map[102]], [0, 0, 255, 255]);
    }

    #[test]
    fn is_applied_as_often_as_asked() {
        applied_to(&RandomEqualize { probability: 0.3 }, 0.3);
        applied_to(&RandomEqualize::default(), 0.5);
    }

    #[test]
    fn draws_are_pinned() {
        let step = RandomEqualize { probability: 0.3 };
        assert_eq!(pinned(&step, &PixelOp::Equalize), [5, 8]);
    }

    #[test]
    fn a_chance_is_between_nothing_and_certainty() {
        let problems = |probability| RandomEqualize { probability }.problems().len();
        assert_eq!([0.0, 1.0, 1.5, f64::NAN].map(problems), [0, 0, 1, 1]);
    }
}
