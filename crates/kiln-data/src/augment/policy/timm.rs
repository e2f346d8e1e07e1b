//! RandAugment as timm has it: every operation is applied with a probability, and with a strength that varies.
//!
//! Draws: for each, the operation; whether it is applied; then its level, if levels vary; then its sign, if it has one.
//! Source: timm 1.0 `auto_augment.py`, `rand_augment_transform`; its strings are read in `timm_string.rs`.
//! Differs from timm: rotations and shears are bilinear, where timm tosses a coin between bilinear and bicubic unless
//! told; and images are sampled once, as everywhere here.

use serde::{Deserialize, Serialize};

use super::operation::Operation;
use super::rand_augment::MAX_OPS;
use super::timm_string::{TimmRandAugmentConfig, TimmWeights};
use super::{Drawn, Sampling, add, any_of};
use crate::augment::interpolation::Interpolation;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step};

/// What timm divides levels by.
pub(super) const MAX_LEVEL: f64 = 10.0;

/// What timm chooses from.
pub(crate) const OPERATIONS: [Operation; 15] = [
    Operation::AutoContrast,
    Operation::Equalize,
    Operation::Invert,
    Operation::Rotate,
    Operation::Posterize,
    Operation::Solarize,
    Operation::SolarizeAdd,
    Operation::Color,
    Operation::Contrast,
    Operation::Brightness,
    Operation::Sharpness,
    Operation::ShearX,
    Operation::ShearY,
    Operation::TranslateX,
    Operation::TranslateY,
];

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimmRandAugment {
    /// timm's string, such as `rand-m9-mstd0.5-inc1`. Default `rand`, all of timm's defaults.
    pub config: TimmRandAugmentConfig,
    /// How rotations and shears weigh source pixels: `bilinear` or one of the nearest. Default bilinear.
    pub interpolation: Interpolation,
    /// Red, green and blue, 0–255, of what lies outside. Default the mean of the list, as timm's training has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<[u8; 3]>,
}

impl Default for TimmRandAugment {
    fn default() -> Self {
        Self { config: TimmRandAugmentConfig::default(), interpolation: Interpolation::Bilinear, fill: None }
    }
}

impl TimmRandAugment {
    /// What is applied to an image of `height` × `width`.
    fn choose(&self, draws: &mut Draws, size: [u32; 2]) -> Vec<Drawn> {
        let chosen = self.operations(draws);
        chosen.into_iter().filter_map(|operation| self.strength(operation, draws, size)).collect()
    }

    fn operations(&self, draws: &mut Draws) -> Vec<Operation> {
        let count = self.config.num_ops.min(MAX_OPS);
        match self.config.weights {
            TimmWeights::Equal => (0..count).map(|_| any_of(&OPERATIONS, draws)).collect(),
            weighted => weighted_sample(&mut weights(weighted), count, draws),
        }
    }

    /// The argument of an operation, if it is applied at all.
    fn strength(&self, operation: Operation, draws: &mut Draws, size: [u32; 2]) -> Option<Drawn> {
        let config = &self.config;
        if !draws.chance(config.probability) {
            return None;
        }
        let level = match config.magnitude_std {
            std if std.is_infinite() => draws.uniform_in([0.0, config.magnitude]),
            std if std > 0.0 => config.magnitude + std * draws.normal(),
            _ => config.magnitude,
        };
        let level = level.clamp(0.0, config.magnitude_max.unwrap_or(MAX_LEVEL).max(0.0));
        let is_signed = operation.is_geometric() || (config.is_increasing && operation.is_enhancement());
        let is_negative = is_signed && draws.chance(0.5);
        Some((operation, argument(operation, config.is_increasing, level, is_negative, size)))
    }
}

/// The argument of an operation at a level, 0–10 or more.
pub(crate) fn argument(
    operation: Operation,
    is_increasing: bool,
    level: f64,
    is_negative: bool,
    [height, width]: [u32; 2],
) -> f64 {
    let share = level / MAX_LEVEL;
    let signed = |value: f64| if is_negative { -value } else { value };
    match operation {
        Operation::Rotate => signed(share * 30.0),
        Operation::ShearX | Operation::ShearY => signed(share * 0.3),
        // As PIL's, a positive one moves to the left and up.
        Operation::TranslateX => -signed(share * 0.45) * f64::from(width),
        Operation::TranslateY => -signed(share * 0.45) * f64::from(height),
        Operation::Posterize => from_end(4.0, (share * 4.0).trunc(), is_increasing),
        Operation::Solarize => from_end(256.0, (share * 256.0).trunc(), is_increasing),
        Operation::SolarizeAdd => (share * 110.0).trunc(),
        _ if operation.is_enhancement() && is_increasing => (1.0 + signed(share * 0.9)).max(0.1),
        _ if operation.is_enhancement() => share * 1.8 + 0.1,
        _ => 0.0,
    }
}

/// `value`, or what it leaves of `end`.
fn from_end(end: f64, value: f64, is_increasing: bool) -> f64 {
    if is_increasing { (end - value).max(0.0) } else { value }
}

/// The probabilities of [`OPERATIONS`], in any unit.
fn weights(of: TimmWeights) -> [f64; 15] {
    OPERATIONS.map(|operation| match (of, operation) {
        (TimmWeights::Equal, _) => 1.0,
        (_, Operation::Rotate) => 3.0,
        (_, Operation::ShearX | Operation::ShearY) => 2.0,
        (_, Operation::TranslateX | Operation::TranslateY) => 1.0,
        (_, Operation::Color | Operation::Sharpness | Operation::AutoContrast) => 0.25,
        (TimmWeights::First, Operation::Posterize | Operation::Invert) => 0.0,
        _ => 0.05,
    })
}

/// Draws operations without replacement, each time by the weights of those that are left.
fn weighted_sample(weights: &mut [f64; 15], count: u32, draws: &mut Draws) -> Vec<Operation> {
    let mut chosen = Vec::new();
    for _ in 0..count {
        let total: f64 = weights.iter().sum();
        let mut place = draws.uniform() * total;
        let last = weights.iter().rposition(|weight| *weight > 0.0);
        let found = weights.iter().position(|weight| {
            place -= weight;
            place < 0.0
        });
        let Some(index) = found.or(last) else { break };
        weights[index] = 0.0;
        chosen.push(OPERATIONS[index]);
    }
    chosen
}

impl Step for TimmRandAugment {
    fn problems(&self) -> Vec<String> {
        self.config.problems().into_iter().chain(self.interpolation.warping_problem()).collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, output: &Output) {
        let drawn = self.choose(draws, program.size());
        let fill = self.fill.unwrap_or(output.mean_color);
        add(&drawn, Sampling::new(self.interpolation, Some(fill)), program);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{assert_frequencies, frequencies};
    use super::*;
    use crate::augment::tests::drawn_program;

    fn step(config: &str) -> TimmRandAugment {
        TimmRandAugment { config: config.parse().expect(config), ..Default::default() }
    }

    fn drawn(config: &str, sample: u64) -> Vec<Drawn> {
        step(config).choose(&mut Draws::new(2024, 0, sample, 0), [200, 100])
    }

    #[test]
    fn every_operation_is_equally_likely_and_applied_as_often_as_asked() {
        let found: Vec<Operation> =
            (0..100_000).flat_map(|sample| drawn("rand-m9-n1-mstd0.5-inc1", sample)).map(|it| it.0).collect();
        // One in two is applied.
        assert!((found.len() as f64 - 5e4).abs() <= 3.0 * (1e5f64 * 0.25).sqrt(), "{}", found.len());
        let num_draws = found.len() as f64;
        assert_frequencies(
            &frequencies(found.into_iter()),
            OPERATIONS.into_iter().map(|it| (it, 1.0 / 15.0)),
            num_draws,
        );
    }

    #[test]
    fn weighted_operations_have_their_weights() {
        let found = frequencies((0..100_000).flat_map(|sample| drawn("rand-n1-p1-tweights", sample)).map(|it| it.0));
        let weights = weights(TimmWeights::Second);
        let total: f64 = weights.iter().sum();
        let want = OPERATIONS.into_iter().zip(weights).map(|(operation, weight)| (operation, weight / total));
        assert_frequencies(&found, want, 1e5);
    }

    #[test]
    fn weighted_operations_come_once_each_and_the_first_set_lacks_two() {
        let mut found: Vec<Operation> = drawn("rand-n30-p1-w0", 0).into_iter().map(|it| it.0).collect();
        found.sort();
        let mut want: Vec<Operation> = OPERATIONS.to_vec();
        want.retain(|operation| ![Operation::Posterize, Operation::Invert].contains(operation));
        want.sort();
        assert_eq!(found, want);
    }

    #[test]
    fn levels_vary_normally_and_end_at_the_most() {
        let levels = |config: &str| -> Vec<f64> {
            let shears = (0..40_000).flat_map(|sample| drawn(config, sample)).filter(|it| it.0 == Operation::ShearX);
            shears.map(|it| it.1.abs() / 0.03).collect()
        };
        let found = levels("rand-m5-mstd0.5");
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        let std = (found.iter().map(|level| (level - mean).powi(2)).sum::<f64>() / found.len() as f64).sqrt();
        let error = 0.5 / (found.len() as f64).sqrt();
        assert!((mean - 5.0).abs() < 4.0 * error && (std - 0.5).abs() < 4.0 * error, "{mean} ± {std}");
        let clamped = levels("rand-m9-mstd2");
        assert!(clamped.iter().all(|level| *level <= 10.0 + 1e-9));
        assert!(clamped.iter().filter(|level| **level > 10.0 - 1e-9).count() > clamped.len() / 4);
        assert!(levels("rand-m15-mmax20").iter().all(|level| (level - 15.0).abs() < 1e-9));
        let uniform = levels("rand-m8-mstd101");
        let mean = uniform.iter().sum::<f64>() / uniform.len() as f64;
        assert!((mean - 4.0).abs() < 4.0 * 8.0 / 12f64.sqrt() / (uniform.len() as f64).sqrt(), "{mean}");
    }

    #[test]
    fn draws_are_pinned() {
        let found: Vec<String> =
            (0..4).map(|sample| format!("{:.3?}", drawn("rand-m9-mstd0.5-inc1", sample))).collect();
        let want = ["[(Equalize, 0.000)]", "[(SolarizeAdd, 95.000)]", "[]", "[(Color, 0.177), (Rotate, -26.129)]"];
        assert_eq!(found, want);
    }

    #[test]
    fn what_lies_outside_is_the_mean_unless_named() {
        let fill = |step: &TimmRandAugment| {
            let programs = (0..50).map(|sample| drawn_program(step, sample));
            let fill = programs.map(|program| program.layers[0].geometry.fill).find(|fill| fill.is_named);
            fill.expect("a rotation or shear among fifty").color
        };
        assert_eq!(fill(&step("rand")), [124.0, 116.0, 104.0]);
        assert_eq!(fill(&TimmRandAugment { fill: Some([1, 2, 3]), ..step("rand") }), [1.0, 2.0, 3.0]);
    }
}
