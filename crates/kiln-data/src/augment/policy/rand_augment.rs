//! RandAugment: a few operations in a row, all of the same strength.
//!
//! Draws: for each, the operation, with replacement; then its sign, if it has one.
//! Source: Cubuk et al., arXiv 1909.13719; torchvision 0.29 `v2.RandAugment`. timm's is another one, see `timm.rs`.

use serde::{Deserialize, Serialize};

use super::magnitudes::Space;
use super::trivial_augment_wide::bins_problem;
use super::{Drawn, Sampling, add, any_of, nearest, signed};
use crate::augment::interpolation::Interpolation;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step};

/// Operations in a row; far more than anybody can use.
pub(super) const MAX_OPS: u32 = 64;

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandAugment {
    /// Operations in a row. Default 2, torchvision's.
    pub num_ops: u32,
    /// Number of the magnitude, counted from 0. Default 9, torchvision's.
    pub magnitude: u32,
    /// Magnitudes between nothing and the most, both included. Default 31, torchvision's.
    pub num_magnitude_bins: u32,
    /// How rotations and shears weigh source pixels: `bilinear` or one of the nearest. Default nearest, torchvision's.
    #[serde(default = "nearest")]
    pub interpolation: Interpolation,
    /// Red, green and blue, 0–255, of what lies outside. Default black.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<[u8; 3]>,
}

impl Default for RandAugment {
    fn default() -> Self {
        Self { num_ops: 2, magnitude: 9, num_magnitude_bins: 31, interpolation: nearest(), fill: None }
    }
}

impl RandAugment {
    fn choose(&self, draws: &mut Draws, size: [u32; 2]) -> Vec<Drawn> {
        let bin = [self.magnitude, self.num_magnitude_bins];
        let mut one = || {
            let operation = any_of(Space::RandAugment.operations(), draws);
            signed(Space::RandAugment, operation, bin, draws, size)
        };
        (0..self.num_ops.min(MAX_OPS)).map(|_| one()).collect()
    }
}

impl Step for RandAugment {
    fn problems(&self) -> Vec<String> {
        let Self { num_ops, magnitude, num_magnitude_bins, .. } = self;
        let mut problems = Vec::new();
        if *num_ops > MAX_OPS {
            problems.push(format!("num_ops is {num_ops}; at most {MAX_OPS} make sense"));
        }
        problems.extend(bins_problem(*num_magnitude_bins));
        if magnitude >= num_magnitude_bins {
            problems.push(format!("magnitude is {magnitude}; it counts from 0 and must be below {num_magnitude_bins}"));
        }
        problems.extend(self.interpolation.warping_problem());
        problems
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        let drawn = self.choose(draws, program.size());
        add(&drawn, Sampling::new(self.interpolation, self.fill), program);
    }
}

#[cfg(test)]
mod tests {
    use super::super::operation::Operation;
    use super::super::{assert_frequencies, frequencies};
    use super::*;
    use crate::augment::tests::drawn_program;

    fn drawn(sample: u64) -> Vec<Drawn> {
        RandAugment::default().choose(&mut Draws::new(2024, 0, sample, 0), [224, 224])
    }

    #[test]
    fn every_operation_is_equally_likely_at_every_place() {
        for place in 0..2 {
            let found = frequencies((0..100_000).map(|sample| drawn(sample)[place].0));
            let want = Space::RandAugment.operations().iter().map(|operation| (*operation, 1.0 / 14.0));
            assert_frequencies(&found, want, 1e5);
        }
    }

    #[test]
    fn half_of_the_magnitudes_are_negative() {
        let angles: Vec<f64> =
            (0..20_000).flat_map(drawn).filter(|it| it.0 == Operation::Rotate).map(|it| it.1).collect();
        assert!(angles.iter().all(|angle| (angle.abs() - 9.0).abs() < 1e-12));
        let share = angles.iter().filter(|angle| **angle < 0.0).count() as f64 / angles.len() as f64;
        assert!((share - 0.5).abs() < 4.0 * 0.5 / (angles.len() as f64).sqrt(), "{share}");
    }

    #[test]
    fn draws_are_pinned() {
        let found: Vec<String> = (0..4).map(|sample| format!("{:.3?}", drawn(sample))).collect();
        let want = [
            "[(TranslateX, -30.000), (Color, 0.730)]",
            "[(Brightness, 0.730), (Identity, 0.000)]",
            "[(Identity, 0.000), (ShearX, 0.090)]",
            "[(Brightness, 0.730), (ShearX, -0.090)]",
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn options_out_of_range_are_reported() {
        let bad = RandAugment {
            num_ops: u32::MAX,
            magnitude: 1,
            num_magnitude_bins: 1,
            interpolation: Interpolation::Bicubic,
            ..Default::default()
        };
        assert_eq!(bad.problems().len(), 4);
        let program = drawn_program(&bad, 0);
        assert!(program.layers[0].ops.len() <= MAX_OPS as usize);
        assert_eq!(RandAugment::default().problems(), [""; 0]);
    }
}
