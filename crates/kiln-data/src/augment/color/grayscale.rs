//! Grayscale: every channel becomes the grey of the colour.
//!
//! Source: torchvision 0.29 `v2.functional.rgb_to_grayscale`; the weights are ITU-R BT.601's, of which the sum is 0.9999.
//! Draws: whether at all.

use serde::{Deserialize, Serialize};

use crate::augment::levels::{Levels, gray};
use crate::augment::philox::Draws;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step, chance_problem};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomGrayscale {
    /// Chance per image, 0–1. Default 0.1, torchvision's.
    pub probability: f64,
}

impl Default for RandomGrayscale {
    fn default() -> Self {
        Self { probability: 0.1 }
    }
}

impl Step for RandomGrayscale {
    fn problems(&self) -> Vec<String> {
        chance_problem(self.probability).into_iter().collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if draws.chance(self.probability) {
            program.push(PixelOp::Grayscale);
        }
    }
}

/// The grey of the colour, three times.
pub(crate) fn grayscale(rgb: Levels) -> Levels {
    [gray(rgb); 3]
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use crate::augment::levels::device::{Rgb, gray};

    /// [`super::grayscale`].
    #[cube]
    pub(crate) fn grayscale(rgb: &Rgb) -> Rgb {
        let gray = gray(rgb);
        Rgb { red: gray, green: gray, blue: gray }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::tests::{applied_to, pinned};

    #[test]
    fn is_applied_as_often_as_asked() {
        applied_to(&RandomGrayscale { probability: 0.3 }, 0.3);
        applied_to(&RandomGrayscale::default(), 0.1);
    }

    #[test]
    fn draws_are_pinned() {
        let step = RandomGrayscale { probability: 0.3 };
        assert_eq!(pinned(&step, &PixelOp::Grayscale), [5, 8]);
    }

    #[test]
    fn a_chance_is_between_nothing_and_certainty() {
        let problems = |probability| RandomGrayscale { probability }.problems().len();
        assert_eq!([0.0, 1.0, 1.5, f64::NAN].map(problems), [0, 0, 1, 1]);
    }
}
