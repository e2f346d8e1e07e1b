//! AutoAugment: one of 25 pairs of operations that were searched for, each applied with its own probability.
//!
//! Draws: the pair; for each of its operations whether it is applied, then its sign, if it has one.
//! Source: Cubuk et al., arXiv 1805.09501, tables 7 (CIFAR-10), 8 (SVHN) and 9 (ImageNet), with the magnitudes of
//! torchvision 0.29 `v2.AutoAugment`, ten of them.

use serde::{Deserialize, Serialize};

use super::magnitudes::Space;
use super::operation::Operation::{
    self, AutoContrast, Brightness, Color, Contrast, Equalize, Invert, Posterize, Rotate, Sharpness, ShearX, ShearY,
    Solarize, TranslateX, TranslateY,
};
use super::{Drawn, Sampling, add, nearest, signed};
use crate::augment::interpolation::Interpolation;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step};

/// Magnitudes of every operation.
const NUM_BINS: u32 = 10;

/// Operation, probability in tenths, and number of its magnitude.
type Choice = (Operation, u8, u32);

/// The data set that the policy was searched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoAugmentPolicy {
    /// ImageNet.
    #[default]
    Imagenet,
    /// CIFAR-10.
    Cifar10,
    /// Street View House Numbers.
    Svhn,
}

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AutoAugment {
    /// `imagenet`, `cifar10` or `svhn`. Default ImageNet's.
    pub policy: AutoAugmentPolicy,
    /// How rotations and shears weigh source pixels: `bilinear` or one of the nearest. Default nearest, torchvision's.
    #[serde(default = "nearest")]
    pub interpolation: Interpolation,
    /// Red, green and blue, 0–255, of what lies outside. Default black.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<[u8; 3]>,
}

impl Default for AutoAugment {
    fn default() -> Self {
        Self { policy: AutoAugmentPolicy::Imagenet, interpolation: nearest(), fill: None }
    }
}

impl AutoAugment {
    fn choose(&self, draws: &mut Draws, size: [u32; 2]) -> Vec<Drawn> {
        let pairs = self.policy.pairs();
        let pair = &pairs[draws.below(pairs.len() as u64) as usize];
        let mut drawn = Vec::new();
        for (operation, tenths, bin) in pair {
            if draws.chance(f64::from(*tenths) / 10.0) {
                drawn.push(signed(Space::AutoAugment, *operation, [*bin, NUM_BINS], draws, size));
            }
        }
        drawn
    }
}

impl Step for AutoAugment {
    fn problems(&self) -> Vec<String> {
        self.interpolation.warping_problem().into_iter().collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        let drawn = self.choose(draws, program.size());
        add(&drawn, Sampling::new(self.interpolation, self.fill), program);
    }
}

impl AutoAugmentPolicy {
    pub(crate) fn pairs(self) -> &'static [[Choice; 2]; 25] {
        match self {
            Self::Imagenet => &IMAGENET,
            Self::Cifar10 => &CIFAR10,
            Self::Svhn => &SVHN,
        }
    }
}

/// Table 9.
const IMAGENET: [[Choice; 2]; 25] = [
    [(Posterize, 4, 8), (Rotate, 6, 9)],
    [(Solarize, 6, 5), (AutoContrast, 6, 0)],
    [(Equalize, 8, 0), (Equalize, 6, 0)],
    [(Posterize, 6, 7), (Posterize, 6, 6)],
    [(Equalize, 4, 0), (Solarize, 2, 4)],
    [(Equalize, 4, 0), (Rotate, 8, 8)],
    [(Solarize, 6, 3), (Equalize, 6, 0)],
    [(Posterize, 8, 5), (Equalize, 10, 0)],
    [(Rotate, 2, 3), (Solarize, 6, 8)],
    [(Equalize, 6, 0), (Posterize, 4, 6)],
    [(Rotate, 8, 8), (Color, 4, 0)],
    [(Rotate, 4, 9), (Equalize, 6, 0)],
    [(Equalize, 0, 0), (Equalize, 8, 0)],
    [(Invert, 6, 0), (Equalize, 10, 0)],
    [(Color, 6, 4), (Contrast, 10, 8)],
    [(Rotate, 8, 8), (Color, 10, 2)],
    [(Color, 8, 8), (Solarize, 8, 7)],
    [(Sharpness, 4, 7), (Invert, 6, 0)],
    [(ShearX, 6, 5), (Equalize, 10, 0)],
    [(Color, 4, 0), (Equalize, 6, 0)],
    [(Equalize, 4, 0), (Solarize, 2, 4)],
    [(Solarize, 6, 5), (AutoContrast, 6, 0)],
    [(Invert, 6, 0), (Equalize, 10, 0)],
    [(Color, 6, 4), (Contrast, 10, 8)],
    [(Equalize, 8, 0), (Equalize, 6, 0)],
];

/// Table 7.
const CIFAR10: [[Choice; 2]; 25] = [
    [(Invert, 1, 0), (Contrast, 2, 6)],
    [(Rotate, 7, 2), (TranslateX, 3, 9)],
    [(Sharpness, 8, 1), (Sharpness, 9, 3)],
    [(ShearY, 5, 8), (TranslateY, 7, 9)],
    [(AutoContrast, 5, 0), (Equalize, 9, 0)],
    [(ShearY, 2, 7), (Posterize, 3, 7)],
    [(Color, 4, 3), (Brightness, 6, 7)],
    [(Sharpness, 3, 9), (Brightness, 7, 9)],
    [(Equalize, 6, 0), (Equalize, 5, 0)],
    [(Contrast, 6, 7), (Sharpness, 6, 5)],
    [(Color, 7, 7), (TranslateX, 5, 8)],
    [(Equalize, 3, 0), (AutoContrast, 4, 0)],
    [(TranslateY, 4, 3), (Sharpness, 2, 6)],
    [(Brightness, 9, 6), (Color, 2, 8)],
    [(Solarize, 5, 2), (Invert, 0, 0)],
    [(Equalize, 2, 0), (AutoContrast, 6, 0)],
    [(Equalize, 2, 0), (Equalize, 6, 0)],
    [(Color, 9, 9), (Equalize, 6, 0)],
    [(AutoContrast, 8, 0), (Solarize, 2, 8)],
    [(Brightness, 1, 3), (Color, 7, 0)],
    [(Solarize, 4, 5), (AutoContrast, 9, 0)],
    [(TranslateY, 9, 9), (TranslateY, 7, 9)],
    [(AutoContrast, 9, 0), (Solarize, 8, 3)],
    [(Equalize, 8, 0), (Invert, 1, 0)],
    [(TranslateY, 7, 9), (AutoContrast, 9, 0)],
];

/// Table 8.
const SVHN: [[Choice; 2]; 25] = [
    [(ShearX, 9, 4), (Invert, 2, 0)],
    [(ShearY, 9, 8), (Invert, 7, 0)],
    [(Equalize, 6, 0), (Solarize, 6, 6)],
    [(Invert, 9, 0), (Equalize, 6, 0)],
    [(Equalize, 6, 0), (Rotate, 9, 3)],
    [(ShearX, 9, 4), (AutoContrast, 8, 0)],
    [(ShearY, 9, 8), (Invert, 4, 0)],
    [(ShearY, 9, 5), (Solarize, 2, 6)],
    [(Invert, 9, 0), (AutoContrast, 8, 0)],
    [(Equalize, 6, 0), (Rotate, 9, 3)],
    [(ShearX, 9, 4), (Solarize, 3, 3)],
    [(ShearY, 8, 8), (Invert, 7, 0)],
    [(Equalize, 9, 0), (TranslateY, 6, 6)],
    [(Invert, 9, 0), (Equalize, 6, 0)],
    [(Contrast, 3, 3), (Rotate, 8, 4)],
    [(Invert, 8, 0), (TranslateY, 0, 2)],
    [(ShearY, 7, 6), (Solarize, 4, 8)],
    [(Invert, 6, 0), (Rotate, 8, 4)],
    [(ShearY, 3, 7), (TranslateX, 9, 3)],
    [(ShearX, 1, 6), (Invert, 6, 0)],
    [(Solarize, 7, 2), (TranslateY, 6, 7)],
    [(ShearY, 8, 4), (Invert, 8, 0)],
    [(ShearX, 7, 9), (TranslateY, 8, 3)],
    [(ShearY, 8, 5), (AutoContrast, 7, 0)],
    [(ShearX, 7, 2), (Invert, 1, 0)],
];

#[cfg(test)]
mod tests {
    use super::super::{assert_frequencies, frequencies};
    use super::*;
    use std::collections::BTreeMap;

    fn drawn(policy: AutoAugmentPolicy, sample: u64) -> Vec<Drawn> {
        let step = AutoAugment { policy, ..Default::default() };
        step.choose(&mut Draws::new(2024, 0, sample, 0), [224, 224])
    }

    #[test]
    fn every_operation_is_as_frequent_as_its_pairs_make_it() {
        for policy in [AutoAugmentPolicy::Imagenet, AutoAugmentPolicy::Cifar10, AutoAugmentPolicy::Svhn] {
            let mut expected: BTreeMap<Operation, f64> = BTreeMap::new();
            for (operation, tenths, _) in policy.pairs().as_flattened() {
                *expected.entry(*operation).or_default() += f64::from(*tenths) / 10.0;
            }
            let total: f64 = expected.values().sum();
            let operations: Vec<Operation> =
                (0..100_000).flat_map(|sample| drawn(policy, sample)).map(|it| it.0).collect();
            let num_draws = operations.len() as f64;
            let rate = num_draws / 1e5;
            // A pair gives at most two; the standard error of their mean is below 0.7 / sqrt(1e5).
            assert!((rate - total / 25.0).abs() < 3.0 * 0.0023, "{policy:?}: {rate} an image");
            let want = expected.into_iter().map(|(operation, weight)| (operation, weight / total));
            assert_frequencies(&frequencies(operations.into_iter()), want, num_draws);
        }
    }

    #[test]
    fn half_of_the_magnitudes_are_negative() {
        let angles: Vec<f64> = (0..20_000)
            .flat_map(|sample| drawn(AutoAugmentPolicy::Imagenet, sample))
            .filter(|it| it.0 == Rotate)
            .map(|it| it.1)
            .collect();
        let share = angles.iter().filter(|angle| **angle < 0.0).count() as f64 / angles.len() as f64;
        assert!((share - 0.5).abs() < 4.0 * 0.5 / (angles.len() as f64).sqrt(), "{share}");
    }

    #[test]
    fn draws_are_pinned() {
        let found: Vec<String> =
            (0..4).map(|sample| format!("{:.3?}", drawn(AutoAugmentPolicy::Cifar10, sample))).collect();
        let want = [
            "[(Color, 1.300), (Brightness, 0.300)]",
            "[(Color, 0.300)]",
            "[(Rotate, 6.667)]",
            "[(TranslateY, -33.000), (Sharpness, 0.400)]",
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn a_recipe_names_the_policy() {
        let read = |json| serde_json::from_str::<AutoAugment>(json);
        let svhn = read(r#"{"policy": "svhn"}"#).expect("a policy");
        assert_eq!(svhn, AutoAugment { policy: AutoAugmentPolicy::Svhn, ..Default::default() });
        assert!(read(r#"{"policy": "mnist"}"#).is_err());
        let bicubic = AutoAugment { interpolation: Interpolation::Bicubic, ..Default::default() };
        assert_eq!((svhn.problems().len(), bicubic.problems().len()), (0, 1));
    }
}
