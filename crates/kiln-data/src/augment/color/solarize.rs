//! Solarize: inverts what is bright; and timm's variant that brightens what is dark.
//!
//! Source: torchvision 0.29 `v2.functional.solarize`; timm 1.0 `auto_augment.solarize_add`.
//! Draws: whether at all.

use serde::{Deserialize, Serialize};

use crate::augment::levels::{Levels, WHITE};
use crate::augment::philox::Draws;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step, chance_problem};

/// Options of inverting what is bright.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomSolarize {
    /// The darkest level that is inverted, 0–255; 256 inverts nothing. Default 128, Pillow's.
    pub threshold: f64,
    /// Chance per image, 0–1. Default 0.5, torchvision's.
    pub probability: f64,
}

impl Default for RandomSolarize {
    fn default() -> Self {
        Self { threshold: 128.0, probability: 0.5 }
    }
}

impl Step for RandomSolarize {
    fn problems(&self) -> Vec<String> {
        let threshold = self.threshold;
        let possible = (0.0..=256.0).contains(&threshold);
        let problem = (!possible).then(|| format!("threshold is {threshold}; it must be a level between 0 and 256"));
        problem.into_iter().chain(chance_problem(self.probability)).collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if draws.chance(self.probability) {
            program.push(PixelOp::Solarize { threshold: self.threshold });
        }
    }
}

/// Inverts values of at least `threshold`.
pub(crate) fn solarize(rgb: Levels, threshold: i32) -> Levels {
    rgb.map(|value| if value >= threshold { WHITE - value } else { value })
}

/// Adds `addend` to values below `threshold`.
pub(crate) fn solarize_add(rgb: Levels, addend: i32, threshold: i32) -> Levels {
    rgb.map(|value| if value < threshold { (value + addend).min(WHITE) } else { value })
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::WHITE;
    use crate::augment::levels::device::Rgb;

    /// [`super::solarize`].
    #[cube]
    pub(crate) fn solarize(rgb: &Rgb, threshold: i32) -> Rgb {
        Rgb {
            red: select(rgb.red >= threshold, WHITE - rgb.red, rgb.red),
            green: select(rgb.green >= threshold, WHITE - rgb.green, rgb.green),
            blue: select(rgb.blue >= threshold, WHITE - rgb.blue, rgb.blue),
        }
    }

    /// [`super::solarize_add`].
    #[cube]
    pub(crate) fn solarize_add(rgb: &Rgb, addend: i32, threshold: i32) -> Rgb {
        Rgb {
            red: select(rgb.red < threshold, min(rgb.red + addend, comptime!(WHITE)), rgb.red),
            green: select(rgb.green < threshold, min(rgb.green + addend, comptime!(WHITE)), rgb.green),
            blue: select(rgb.blue < threshold, min(rgb.blue + addend, comptime!(WHITE)), rgb.blue),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::tests::{applied_to, pinned};

    #[test]
    fn is_applied_as_often_as_asked() {
        applied_to(&RandomSolarize { probability: 0.2, ..Default::default() }, 0.2);
        applied_to(&RandomSolarize::default(), 0.5);
    }

    #[test]
    fn draws_are_pinned() {
        let step = RandomSolarize { threshold: 200.0, probability: 0.3 };
        assert_eq!(pinned(&step, &PixelOp::Solarize { threshold: 200.0 }), [5, 8]);
    }

    #[test]
    fn options_out_of_range_are_reported() {
        let problems = |threshold, probability| RandomSolarize { threshold, probability }.problems().len();
        assert_eq!((problems(0.0, 0.0), problems(256.0, 1.0)), (0, 0));
        assert_eq!((problems(f64::NAN, -1.0), problems(257.0, 0.5)), (2, 1));
    }
}
