//! AugMix: the image blended with several differently augmented copies of itself.
//!
//! Draws: the share of the image itself, by Dirichlet's law with two equal parameters; the shares of the copies,
//! likewise with one for each; then copy by copy how many operations, if that varies, and for each operation which,
//! the number of its magnitude, and its sign, if it has one.
//! Source: Hendrycks et al., arXiv 1912.02781; torchvision 0.29 `v2.AugMix`. Its loss of consistency isn't part of it.
//! Differs from torchvision: the blend isn't rounded down to bytes; and steps after it, which
//! torchvision applies to the blend, are applied to every copy before blending.

use serde::{Deserialize, Serialize};

use super::magnitudes::{AUG_MIX, NUM_PARTIAL_AUG_MIX, Space};
use super::{Drawn, Sampling, add, any_of, signed};
use crate::augment::interpolation::Interpolation;
use crate::augment::philox::Draws;
use crate::augment::program::{MAX_LAYERS, Program};
use crate::augment::step::{Output, Step, range_problem};

/// Magnitudes of every operation.
const NUM_BINS: u32 = 10;
/// Copies; far more than the three of the paper.
const MAX_WIDTH: u32 = 15;
/// Operations of a copy.
const MAX_DEPTH: u32 = 16;
/// Parameters of Dirichlet's law: beyond, shares are all or nothing, or all equal.
const ALPHAS: [f64; 2] = [1e-3, 1e3];

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AugMix {
    /// How many of the ten magnitudes, the weakest first, are drawn from. Default 3, the paper's.
    pub severity: u32,
    /// Copies. Default 3, the paper's.
    pub mixture_width: u32,
    /// Operations of a copy. Default one to three at random, as in the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_depth: Option<u32>,
    /// Parameter of Dirichlet's law: small ones favour one copy. Default 1, the paper's.
    pub alpha: f64,
    /// Brightness, colour, contrast and sharpness too. Default true, torchvision's.
    pub all_ops: bool,
    /// How rotations and shears weigh source pixels: `bilinear` or one of the nearest. Default bilinear, torchvision's.
    pub interpolation: Interpolation,
    /// Red, green and blue, 0–255, of what lies outside. Default black.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<[u8; 3]>,
}

impl Default for AugMix {
    fn default() -> Self {
        Self {
            severity: 3,
            mixture_width: 3,
            chain_depth: None,
            alpha: 1.0,
            all_ops: true,
            interpolation: Interpolation::Bilinear,
            fill: None,
        }
    }
}

impl AugMix {
    /// Copies of an image, itself included.
    pub(crate) fn num_layers(&self) -> usize {
        self.mixture_width.min(MAX_WIDTH) as usize + 1
    }

    /// Shares of the image itself and of its copies.
    fn shares(&self, draws: &mut Draws) -> Vec<f64> {
        let own = draws.dirichlet(&[self.alpha; 2]);
        let copies = draws.dirichlet(&vec![self.alpha; self.num_layers() - 1]);
        [own[0]].into_iter().chain(copies.into_iter().map(|share| share * own[1])).collect()
    }

    /// The operations of a copy.
    fn chain(&self, draws: &mut Draws, size: [u32; 2]) -> Vec<Drawn> {
        let operations = if self.all_ops { &AUG_MIX[..] } else { &AUG_MIX[..NUM_PARTIAL_AUG_MIX] };
        let depth = self.chain_depth.unwrap_or_else(|| 1 + draws.below(3) as u32).min(MAX_DEPTH);
        let mut one = || {
            let operation = any_of(operations, draws);
            let bin = draws.below(u64::from(self.severity)) as u32;
            signed(Space::AugMix, operation, [bin, NUM_BINS], draws, size)
        };
        (0..depth).map(|_| one()).collect()
    }
}

impl Step for AugMix {
    fn problems(&self) -> Vec<String> {
        let within = |name: &str, value: u32, most: u32| {
            let possible = (1..=most).contains(&value);
            (!possible).then(|| format!("{name} is {value}; it must be between 1 and {most}"))
        };
        [
            within("severity", self.severity, NUM_BINS),
            within("mixture_width", self.mixture_width, MAX_WIDTH),
            self.chain_depth.and_then(|depth| within("chain_depth", depth, MAX_DEPTH)),
            range_problem("alpha", [self.alpha, self.alpha], ALPHAS),
            self.interpolation.warping_problem(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if self.mixture_width == 0 || program.layers.len() * self.num_layers() > MAX_LAYERS {
            return;
        }
        let size = program.size();
        let sampling = Sampling::new(self.interpolation, self.fill);
        let shares = self.shares(draws);
        program.split(&shares, |index, copy| {
            if index > 0 {
                add(&self.chain(draws, size), sampling, copy);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::operation::Operation;
    use super::super::{assert_frequencies, frequencies};
    use super::*;
    use crate::augment::tests::drawn_program;

    fn chain(step: &AugMix, sample: u64) -> Vec<Drawn> {
        step.chain(&mut Draws::new(2024, 0, sample, 0), [224, 224])
    }

    #[test]
    fn every_operation_is_equally_likely() {
        for (all_ops, count) in [(true, 13), (false, 9)] {
            let step = AugMix { all_ops, chain_depth: Some(1), ..Default::default() };
            let found = frequencies((0..100_000).map(|sample| chain(&step, sample)[0].0));
            let want = AUG_MIX[..count].iter().map(|operation| (*operation, 1.0 / count as f64));
            assert_frequencies(&found, want, 1e5);
        }
    }

    #[test]
    fn a_copy_has_one_to_three_operations() {
        let mut counts = [0u32; 4];
        (0..9_000).for_each(|sample| counts[chain(&AugMix::default(), sample).len()] += 1);
        // Standard error of a count of 3,000 among 9,000: 45.
        assert!(counts[0] == 0 && counts[1..].iter().all(|count| count.abs_diff(3000) < 4 * 45), "{counts:?}");
    }

    #[test]
    fn severity_limits_the_magnitudes() {
        let most = |severity| {
            let step = AugMix { severity, ..Default::default() };
            let angles = (0..3_000).flat_map(|sample| chain(&step, sample)).filter(|it| it.0 == Operation::Rotate);
            angles.map(|it| it.1.abs()).fold(0.0, f64::max)
        };
        assert!((most(1), (most(3) - 20.0 / 3.0).abs() < 1e-9, (most(10) - 30.0).abs() < 1e-9) == (0.0, true, true));
    }

    #[test]
    fn shares_have_dirichlets_means() {
        let mut mean = [0.0; 4];
        for sample in 0..10_000 {
            let shares = AugMix::default().shares(&mut Draws::new(42, 0, sample, 0));
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            mean.iter_mut().zip(shares).for_each(|(mean, share)| *mean += share / 1e4);
        }
        // Half for the image, a sixth for each copy; standard errors 0.0029 and at most that.
        assert!((mean[0] - 0.5).abs() < 4.0 * 0.0029, "{mean:?}");
        assert!(mean[1..].iter().all(|mean| (mean - 1.0 / 6.0).abs() < 4.0 * 0.0029), "{mean:?}");
    }

    #[test]
    fn draws_are_pinned() {
        let program = drawn_program(&AugMix::default(), 0);
        let shares: Vec<f64> = program.layers.iter().map(|layer| layer.weight).collect();
        let want: [f64; 4] = [0.170_334_871_561, 0.361_130_741_608, 0.377_763_381_097, 0.090_771_005_733];
        assert!(shares.iter().zip(want).all(|(share, want)| (share - want).abs() < 1e-9), "{shares:?}");
        assert_eq!(program.layers[0].ops, []);
        let ops: Vec<_> = program.layers[1..].iter().map(|layer| format!("{:.3?}", layer.ops)).collect();
        let last = "[Saturation { factor: 0.900 }, Brightness { factor: 0.800 }, Solarize { threshold: 198.333 }]";
        assert_eq!(ops, ["[]", "[Contrast { factor: 1.000 }]", last]);
    }

    #[test]
    fn copies_of_copies_stop_at_what_a_program_can_hold() {
        let step = AugMix { mixture_width: 15, ..Default::default() };
        let mut program = drawn_program(&step, 0);
        assert_eq!(program.layers.len(), 16);
        step.draw(&mut Draws::new(1, 0, 0, 1), &mut program, &Output::of_size([8, 8]));
        assert_eq!(program.layers.len(), 16);
    }

    #[test]
    fn options_out_of_range_are_reported() {
        let bad = AugMix {
            severity: 11,
            mixture_width: u32::MAX,
            chain_depth: Some(u32::MAX),
            alpha: f64::NAN,
            interpolation: Interpolation::Bicubic,
            ..Default::default()
        };
        assert_eq!(bad.problems().len(), 5);
        let program = drawn_program(&bad, 0);
        assert!((program.layers.iter().map(|layer| layer.weight).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(
            AugMix { severity: 0, mixture_width: 0, chain_depth: Some(0), ..Default::default() }.problems().len(),
            3
        );
        assert_eq!(AugMix::default().problems(), [""; 0]);
    }
}
