//! TrivialAugment, wide: one operation per image, of random strength.
//!
//! Draws: the operation; the number of its magnitude, for all of them; its sign, for those that have one.
//! Source: Müller and Hutter, arXiv 2103.10158 (its wide space); torchvision 0.29 `v2.TrivialAugmentWide`.

use serde::{Deserialize, Serialize};

use super::magnitudes::Space;
use super::{Drawn, Sampling, add, any_of, nearest, signed};
use crate::augment::interpolation::Interpolation;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrivialAugmentWide {
    /// Magnitudes between nothing and the most, both included. Default 31, the paper's.
    pub num_magnitude_bins: u32,
    /// How rotations and shears weigh source pixels: `bilinear` or one of the nearest. Default nearest, torchvision's.
    #[serde(default = "nearest")]
    pub interpolation: Interpolation,
    /// Red, green and blue, 0–255, of what lies outside. Default black.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<[u8; 3]>,
}

impl Default for TrivialAugmentWide {
    fn default() -> Self {
        Self { num_magnitude_bins: 31, interpolation: nearest(), fill: None }
    }
}

impl TrivialAugmentWide {
    fn choose(&self, draws: &mut Draws, size: [u32; 2]) -> Drawn {
        let operation = any_of(Space::TrivialAugmentWide.operations(), draws);
        let bin = draws.below(u64::from(self.num_magnitude_bins)) as u32;
        signed(Space::TrivialAugmentWide, operation, [bin, self.num_magnitude_bins], draws, size)
    }
}

impl Step for TrivialAugmentWide {
    fn problems(&self) -> Vec<String> {
        bins_problem(self.num_magnitude_bins).into_iter().chain(self.interpolation.warping_problem()).collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        let drawn = self.choose(draws, program.size());
        add(&[drawn], Sampling::new(self.interpolation, self.fill), program);
    }
}

/// The problem of a number of magnitudes, if it is one.
pub(super) fn bins_problem(num_bins: u32) -> Option<String> {
    (num_bins < 2).then(|| format!("num_magnitude_bins is {num_bins}; the least and the most are two"))
}

#[cfg(test)]
mod tests {
    use super::super::operation::Operation;
    use super::super::{assert_frequencies, frequencies};
    use super::*;
    use crate::augment::tests::drawn_program;

    fn drawn(sample: u64) -> Drawn {
        TrivialAugmentWide::default().choose(&mut Draws::new(2024, 0, sample, 0), [224, 224])
    }

    #[test]
    fn every_operation_is_equally_likely() {
        let found = frequencies((0..100_000).map(|sample| drawn(sample).0));
        let want = Space::TrivialAugmentWide.operations().iter().map(|operation| (*operation, 1.0 / 14.0));
        assert_frequencies(&found, want, 1e5);
    }

    #[test]
    fn every_magnitude_and_sign_is_equally_likely() {
        let rotations: Vec<f64> =
            (0..100_000).map(drawn).filter(|it| it.0 == Operation::Rotate).map(|it| it.1).collect();
        let mut counts = std::collections::BTreeMap::new();
        rotations.iter().for_each(|angle| *counts.entry((angle / 4.5).round() as i64).or_insert(0u32) += 1);
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), (-30..=30).collect::<Vec<_>>());
        // Zero has both signs, 1 in 31; the others 1 in 62. Standard errors for about 7,143 rotations: 15 and 11.
        let mean = rotations.len() as f64 / 62.0;
        let is_near = |(bin, count): (&i64, &u32)| {
            let mean = if *bin == 0 { 2.0 * mean } else { mean };
            (f64::from(*count) - mean).abs() < 4.0 * mean.sqrt()
        };
        assert!(counts.iter().all(is_near), "{counts:?}");
    }

    #[test]
    fn draws_are_pinned() {
        let found: Vec<String> = (0..6).map(|sample| format!("{:.3?}", drawn(sample))).collect();
        let want = [
            "(TranslateX, 2.000)",
            "(Brightness, 0.538)",
            "(Identity, 0.000)",
            "(Brightness, 0.769)",
            "(Brightness, 0.142)",
            "(Brightness, 1.000)",
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn a_draw_is_at_most_one_operation() {
        for sample in 0..200 {
            let program = drawn_program(&TrivialAugmentWide::default(), sample);
            let layer = &program.layers[0];
            assert!(usize::from(layer.geometry.warp.is_some()) + layer.ops.len() <= 1, "{layer:?}");
        }
    }

    #[test]
    fn one_bin_is_a_problem_and_still_a_draw() {
        for num_magnitude_bins in [0, 1] {
            let step = TrivialAugmentWide { num_magnitude_bins, ..Default::default() };
            assert_eq!(step.problems().len(), 1);
            drawn_program(&step, 0);
        }
    }
}
