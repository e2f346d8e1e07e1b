//! Invert: black becomes white.
//!
//! Source: torchvision 0.29 `v2.functional.invert`.
//! Draws: whether at all.

use serde::{Deserialize, Serialize};

use crate::augment::levels::{Levels, WHITE};
use crate::augment::philox::Draws;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step, chance_problem};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomInvert {
    /// Chance per image, 0–1. Default 0.5, torchvision's.
    pub probability: f64,
}

impl Default for RandomInvert {
    fn default() -> Self {
        Self { probability: 0.5 }
    }
}

impl Step for RandomInvert {
    fn problems(&self) -> Vec<String> {
        chance_problem(self.probability).into_iter().collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if draws.chance(self.probability) {
            program.push(PixelOp::Invert);
        }
    }
}

/// White less the colour.
pub(crate) fn invert(rgb: Levels) -> Levels {
    rgb.map(|value| WHITE - value)
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::WHITE;
    use crate::augment::levels::device::Rgb;

    /// [`super::invert`].
    #[cube]
    pub(crate) fn invert(rgb: &Rgb) -> Rgb {
        Rgb { red: WHITE - rgb.red, green: WHITE - rgb.green, blue: WHITE - rgb.blue }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::tests::{applied_to, pinned};

    #[test]
    fn is_applied_as_often_as_asked() {
        applied_to(&RandomInvert { probability: 0.3 }, 0.3);
        applied_to(&RandomInvert::default(), 0.5);
    }

    #[test]
    fn draws_are_pinned() {
        let step = RandomInvert { probability: 0.3 };
        assert_eq!(pinned(&step, &PixelOp::Invert), [5, 8]);
    }

    #[test]
    fn a_chance_is_between_nothing_and_certainty() {
        let problems = |probability| RandomInvert { probability }.problems().len();
        assert_eq!([0.0, 1.0, 1.5, f64::NAN].map(problems), [0, 0, 1, 1]);
    }
}
