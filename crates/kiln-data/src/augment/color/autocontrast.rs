//! Autocontrast: stretches each channel so that its darkest value is black and its brightest white.
//!
//! Source: torchvision 0.29 `v2.functional.autocontrast`.
//! Differs from torchvision: a channel that spans less than one level stays as it is, where torchvision asks for
//! none at all; on bytes that is the same.
//! Draws: whether at all.

use serde::{Deserialize, Serialize};

use crate::augment::levels::{LEVEL, ONE, WHITE, clamp, scale};
use crate::augment::philox::Draws;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step, chance_problem};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomAutocontrast {
    /// Chance per image, 0–1. Default 0.5, torchvision's.
    pub probability: f64,
}

impl Default for RandomAutocontrast {
    fn default() -> Self {
        Self { probability: 0.5 }
    }
}

impl Step for RandomAutocontrast {
    fn problems(&self) -> Vec<String> {
        chance_problem(self.probability).into_iter().collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if draws.chance(self.probability) {
            program.push(PixelOp::Autocontrast);
        }
    }
}

/// Words of the statistic: per channel the darkest value and what to scale by.
pub(crate) const NUM_WORDS: usize = 6;

/// What to scale a channel by whose values lie between `least` and `most`, and what to subtract first.
pub(crate) fn stretch(least: i32, most: i32) -> (i32, u32) {
    let range = (most - least) as u32;
    if range < LEVEL as u32 {
        return (0, ONE);
    }
    // WHITE / range to 24 binary places.
    let mut quotient = WHITE as u32 / range;
    let mut rest = WHITE as u32 % range;
    for _ in 0..24 {
        rest *= 2;
        quotient = quotient * 2 + u32::from(rest >= range);
        if rest >= range {
            rest -= range;
        }
    }
    (least, quotient)
}

/// Applies what [`stretch`] found to a value of the channel.
pub(crate) fn autocontrast(value: i32, least: i32, factor: u32) -> i32 {
    clamp(scale((value - least).max(0), factor))
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::{LEVEL, ONE, WHITE};
    use crate::augment::levels::device::{limit, scale};

    /// The factor of [`super::stretch`]; without any stretch to do it is [`ONE`], and nothing is to be subtracted.
    #[cube]
    pub(crate) fn stretch(least: u32, most: u32) -> u32 {
        let range = most - least;
        let mut quotient = comptime!(ONE).runtime();
        if range >= comptime!(LEVEL as u32) {
            quotient = comptime!(WHITE as u32) / range;
            let mut rest = comptime!(WHITE as u32) % range;
            for _ in 0..24 {
                rest *= 2;
                quotient = quotient * 2 + select(rest >= range, 1u32, 0u32);
                rest -= select(rest >= range, range, 0u32);
            }
        }
        quotient
    }

    /// [`super::autocontrast`].
    #[cube]
    pub(crate) fn autocontrast(value: i32, least: i32, factor: u32) -> i32 {
        limit(scale(max(value - least, 0i32), factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::tests::{applied_to, pinned};

    #[test]
    fn is_applied_as_often_as_asked() {
        applied_to(&RandomAutocontrast { probability: 0.3 }, 0.3);
        applied_to(&RandomAutocontrast::default(), 0.5);
    }

    #[test]
    fn draws_are_pinned() {
        let step = RandomAutocontrast { probability: 0.3 };
        assert_eq!(pinned(&step, &PixelOp::Autocontrast), [5, 8]);
    }

    #[test]
    fn a_chance_is_between_nothing_and_certainty() {
        let problems = |probability| RandomAutocontrast { probability }.problems().len();
        assert_eq!([0.0, 1.0, 1.5, f64::NAN].map(problems), [0, 0, 1, 1]);
    }
}
