//! Gamma: every value raised to a power.
//!
//! Source: torchvision 0.29 `v2.functional.adjust_gamma`, `255 gain (v / 255)^gamma`. Powers differ between devices, so
//! the host makes a table of all bytes, and a value between two bytes lies on the straight line between their results.
//! Draws: whether at all; then the power, uniform.

use serde::{Deserialize, Serialize};

use crate::augment::levels::{LEVEL, Levels, blend, clamp, level};
use crate::augment::philox::Draws;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step, chance_problem, range_problem};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomGamma {
    /// Lowest and highest power; below 1 is brighter. Default 0.8–1.2, albumentations'.
    pub gamma: [f64; 2],
    /// What every value is multiplied with then. Default 1.
    pub gain: f64,
    /// Chance per image, 0–1. Default 0.5, albumentations'.
    pub probability: f64,
}

impl Default for RandomGamma {
    fn default() -> Self {
        Self { gamma: [0.8, 1.2], gain: 1.0, probability: 0.5 }
    }
}

impl Step for RandomGamma {
    fn problems(&self) -> Vec<String> {
        [
            range_problem("gamma", self.gamma, [0.0, MAX_GAMMA]),
            range_problem("gain", [self.gain, self.gain], [0.0, MAX_GAMMA]),
            chance_problem(self.probability),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if draws.chance(self.probability) {
            program.push(PixelOp::Gamma { gamma: draws.uniform_in(self.gamma), gain: self.gain });
        }
    }
}

/// Beyond, an image is black or white.
const MAX_GAMMA: f64 = 100.0;

/// Words of a table: all bytes, and one more so that every byte has a neighbour.
pub(crate) const NUM_WORDS: usize = 257;

/// The result for every byte.
pub(crate) fn curve(gamma: f64, gain: f64) -> [i32; NUM_WORDS] {
    std::array::from_fn(|byte| level(255.0 * gain * (byte.min(255) as f64 / 255.0).powf(gamma)))
}

/// Looks the values up in `curve`.
pub(crate) fn apply_curve(rgb: Levels, curve: impl Fn(usize) -> i32) -> Levels {
    rgb.map(|value| {
        let byte = (value / LEVEL) as usize;
        clamp(blend(curve(byte), curve(byte + 1), ((value % LEVEL) as u32) << 8))
    })
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::LEVEL;
    use crate::augment::levels::device::{Rgb, blend, limit};

    /// [`super::apply_curve`]; the curve begins at word `start`.
    #[cube]
    pub(crate) fn apply_curve(rgb: &Rgb, words: &[u32], start: usize) -> Rgb {
        Rgb {
            red: look_up(rgb.red, words, start),
            green: look_up(rgb.green, words, start),
            blue: look_up(rgb.blue, words, start),
        }
    }

    #[cube]
    fn look_up(value: i32, words: &[u32], start: usize) -> i32 {
        let value = u32::reinterpret(value);
        let byte = start + (value / comptime!(LEVEL as u32)) as usize;
        let low = i32::reinterpret(words[byte]);
        let high = i32::reinterpret(words[byte + 1]);
        limit(blend(low, high, (value % comptime!(LEVEL as u32)) << 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::tests::{applied_to, drawn_ops};

    #[test]
    fn is_applied_as_often_as_asked() {
        applied_to(&RandomGamma { probability: 0.2, ..Default::default() }, 0.2);
        applied_to(&RandomGamma::default(), 0.5);
    }

    #[test]
    fn powers_are_evenly_spread() {
        let step = RandomGamma { gamma: [0.5, 2.5], probability: 1.0, ..Default::default() };
        let powers: Vec<f64> = (0..10_000).map(|sample| power(&step, sample)).collect();
        let mean = powers.iter().sum::<f64>() / 1e4;
        assert!(powers.iter().all(|power| (0.5..2.5).contains(power)));
        // Standard error: 2 / sqrt(12) / 100.
        assert!((mean - 1.5).abs() < 4.0 * 0.0058, "mean {mean}");
    }

    fn power(step: &RandomGamma, sample: u64) -> f64 {
        match drawn_ops(step, sample)[..] {
            [PixelOp::Gamma { gamma, gain: 1.0 }] => gamma,
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn draws_are_pinned() {
        let step = RandomGamma { probability: 1.0, ..Default::default() };
        let found = [0, 1, 2].map(|sample| power(&step, sample));
        let want: [f64; 3] = [0.936_344_619_754_071_5, 0.981_726_240_693_955_3, 1.109_433_873_892_086];
        assert!(found.iter().zip(want).all(|(found, want)| (found - want).abs() < 1e-12), "{found:?}");
    }

    #[test]
    fn options_out_of_range_are_reported() {
        let bad = RandomGamma { gamma: [1.0, f64::INFINITY], gain: f64::NAN, probability: 7.0 };
        assert_eq!(bad.problems().len(), 3);
        assert_eq!(RandomGamma::default().problems(), [""; 0]);
    }
}
