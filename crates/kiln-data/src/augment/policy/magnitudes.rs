//! Magnitudes: how strongly torchvision's policies apply each operation.
//!
//! In: a policy, an operation, and which of the policy's steps of strength. Out: the magnitude, without its sign.
//! Source: torchvision 0.29, the tables of `AutoAugment`, `RandAugment`, `TrivialAugmentWide` and `AugMix`: evenly
//! spaced from doing nothing to the most that is given here. Solarize counts levels, 0–255.
//! Not done here: timm's, which are formulas of their own (`timm.rs`).

use super::operation::Operation;

/// The policies, whose tables differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    AutoAugment,
    RandAugment,
    TrivialAugmentWide,
    AugMix,
}

/// What RandAugment and TrivialAugment choose from.
const ALL_BUT_INVERT: [Operation; 14] = [
    Operation::Identity,
    Operation::ShearX,
    Operation::ShearY,
    Operation::TranslateX,
    Operation::TranslateY,
    Operation::Rotate,
    Operation::Brightness,
    Operation::Color,
    Operation::Contrast,
    Operation::Sharpness,
    Operation::Posterize,
    Operation::Solarize,
    Operation::AutoContrast,
    Operation::Equalize,
];

/// What AugMix chooses from; without the last four if not all operations are asked for.
pub(crate) const AUG_MIX: [Operation; 13] = [
    Operation::ShearX,
    Operation::ShearY,
    Operation::TranslateX,
    Operation::TranslateY,
    Operation::Rotate,
    Operation::Posterize,
    Operation::Solarize,
    Operation::AutoContrast,
    Operation::Equalize,
    Operation::Brightness,
    Operation::Color,
    Operation::Contrast,
    Operation::Sharpness,
];

/// Operations of [`AUG_MIX`] that aren't the ones of the benchmarks of corruptions, as the paper has it.
pub(crate) const NUM_PARTIAL_AUG_MIX: usize = 9;

impl Space {
    /// What the policy chooses from; AutoAugment has lists of its own.
    pub(crate) fn operations(self) -> &'static [Operation] {
        match self {
            Self::AugMix => &AUG_MIX,
            _ => &ALL_BUT_INVERT,
        }
    }

    /// Magnitude `bin` of `num_bins` for an image of `height` × `width`; 0 for an operation that has none.
    pub(crate) fn magnitude(self, operation: Operation, [bin, num_bins]: [u32; 2], [height, width]: [u32; 2]) -> f64 {
        let last = num_bins.saturating_sub(1).max(1);
        let share = f64::from(bin.min(last)) / f64::from(last);
        let is_wide = self == Self::TrivialAugmentWide;
        let most = match operation {
            Operation::ShearX | Operation::ShearY => {
                if is_wide {
                    0.99
                } else {
                    0.3
                }
            }
            Operation::TranslateX => self.furthest(width),
            Operation::TranslateY => self.furthest(height),
            Operation::Rotate => {
                if is_wide {
                    135.0
                } else {
                    30.0
                }
            }
            _ if operation.is_enhancement() => {
                if is_wide {
                    0.99
                } else {
                    0.9
                }
            }
            Operation::Solarize => return 255.0 * (1.0 - share),
            Operation::Posterize => {
                let (first, range) = match self {
                    Self::TrivialAugmentWide => (8.0, 6.0),
                    Self::AugMix => (4.0, 4.0),
                    Self::AutoAugment | Self::RandAugment => (8.0, 4.0),
                };
                return (first - share * range).round_ties_even();
            }
            _ => 0.0,
        };
        share * most
    }

    /// Pixels that an image with this side is moved at most.
    fn furthest(self, side: u32) -> f64 {
        match self {
            Self::TrivialAugmentWide => 32.0,
            Self::AugMix => f64::from(side) / 3.0,
            // 150 of the 331 pixels that the paper on AutoAugment trains with.
            Self::AutoAugment | Self::RandAugment => f64::from(side) * 150.0 / 331.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn magnitudes(space: Space, operation: Operation, bins: &[u32]) -> Vec<f64> {
        bins.iter().map(|bin| space.magnitude(operation, [*bin, 31], [331, 662])).collect()
    }

    #[test]
    fn magnitudes_go_from_nothing_to_the_most() {
        let bins = [0, 15, 30, 31, u32::MAX];
        assert_eq!(magnitudes(Space::RandAugment, Operation::Rotate, &bins), [0.0, 15.0, 30.0, 30.0, 30.0]);
        assert_eq!(magnitudes(Space::TrivialAugmentWide, Operation::Rotate, &bins)[..3], [0.0, 67.5, 135.0]);
        assert_eq!(magnitudes(Space::AutoAugment, Operation::TranslateX, &bins)[..3], [0.0, 150.0, 300.0]);
        assert_eq!(magnitudes(Space::AutoAugment, Operation::TranslateY, &bins)[..3], [0.0, 75.0, 150.0]);
        assert_eq!(magnitudes(Space::RandAugment, Operation::Solarize, &bins)[..3], [255.0, 127.5, 0.0]);
        assert_eq!(magnitudes(Space::RandAugment, Operation::Posterize, &bins)[..3], [8.0, 6.0, 4.0]);
        assert_eq!(magnitudes(Space::RandAugment, Operation::Equalize, &bins)[..3], [0.0; 3]);
    }

    #[test]
    fn one_bin_or_none_is_no_division_by_zero() {
        for num_bins in [0, 1] {
            assert_eq!(Space::RandAugment.magnitude(Operation::Rotate, [0, num_bins], [1, 1]), 0.0);
        }
    }
}
