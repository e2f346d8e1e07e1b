//! 3-Augment: grey, solarized or blurred, then colour jitter.
//!
//! Draws: which of the three; then what it draws; then what colour jitter draws.
//! Source: Touvron et al., "DeiT III", arXiv 2204.07118, section 3.2, and its published code: solarize from level 128,
//! a blur of 0.1 to 2 pixels, and a colour jitter of 0.3 in brightness, contrast and saturation.
//! Differs from it: the blur is Gaussian, where Pillow's is three boxes.

use serde::{Deserialize, Serialize};

use crate::augment::color::color_jitter::ColorJitter;
use crate::augment::neighbourhood::gaussian_blur::GaussianBlur;
use crate::augment::philox::Draws;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;
use crate::augment::spread::Spread;
use crate::augment::step::{Output, Step, range_problem};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ThreeAugment {
    /// How far the factors of brightness, contrast and saturation are from 1 at most, 0–1. Default 0.3, the paper's.
    pub color_jitter: f64,
}

impl Default for ThreeAugment {
    fn default() -> Self {
        Self { color_jitter: 0.3 }
    }
}

impl Step for ThreeAugment {
    fn problems(&self) -> Vec<String> {
        range_problem("color_jitter", [self.color_jitter; 2], [0.0, 1.0]).into_iter().collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, output: &Output) {
        match draws.below(3) {
            0 => program.push(PixelOp::Grayscale),
            1 => program.push(PixelOp::Solarize { threshold: 128.0 }),
            _ => GaussianBlur::default().draw(draws, program, output),
        }
        let spread = Spread::Within(self.color_jitter);
        let jitter = ColorJitter { brightness: spread, contrast: spread, saturation: spread, hue: Spread::NONE };
        jitter.draw(draws, program, output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::tests::drawn_ops;

    #[test]
    fn the_three_are_equally_likely_and_jitter_follows() {
        let mut counts = [0u32; 3];
        for sample in 0..9_000 {
            let ops = drawn_ops(&ThreeAugment::default(), sample);
            assert_eq!(ops.len(), 4, "{ops:?}");
            counts[match &ops[0] {
                PixelOp::Grayscale => 0,
                PixelOp::Solarize { threshold: 128.0 } => 1,
                PixelOp::GaussianBlur { sigma: [sigma, _], .. } if (0.1..2.0).contains(sigma) => 2,
                other => panic!("{other:?}"),
            }] += 1;
        }
        // Standard error of a count of 3,000 among 9,000: 45.
        assert!(counts.iter().all(|count| count.abs_diff(3000) < 4 * 45), "{counts:?}");
    }

    #[test]
    fn draws_are_pinned() {
        let found: Vec<String> =
            (0..2).map(|sample| format!("{:.3?}", drawn_ops(&ThreeAugment::default(), sample))).collect();
        let want = [
            "[Solarize { threshold: 128.000 }, Brightness { factor: 0.812 }, Saturation { factor: 1.010 }, \
             Contrast { factor: 0.744 }]",
            "[Grayscale, Brightness { factor: 1.201 }, Saturation { factor: 1.256 }, Contrast { factor: 0.740 }]",
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn a_jitter_is_between_nothing_and_everything() {
        let problems = |color_jitter| ThreeAugment { color_jitter }.problems().len();
        assert_eq!([0.0, 1.0, -0.1, 1.5, f64::NAN].map(problems), [0, 0, 1, 1, 1]);
        assert_eq!(drawn_ops(&ThreeAugment { color_jitter: 0.0 }, 0).len(), 1);
    }
}
