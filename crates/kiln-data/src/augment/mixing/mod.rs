//! Mixing: an output made of two images of a batch, as mixup and cutmix want it.
//!
//! In: options, and the samples of a batch. Out: a [`Mix`] per image, which the kernel follows, and by which the targets
//! are mixed ([`MixedTargets`]).
//! Draws, of each sample's stream [`Draws::MIXING`]: a uniform value for the chance, one for the switch, the share
//! (`beta.rs`), and for cutmix column and row of the middle of the box.
//! Whom an image is mixed with is a matter of the batch, not of chance: image `i` of `B` with image `B - 1 - i`, so that an
//! odd batch leaves its middle image alone. Everything else depends on seed, epoch and sample alone.
//! Source: Zhang et al., arXiv 1710.09412 (mixup); Yun et al., arXiv 1905.04899 (cutmix); pairs, chance and switch are
//! those of timm 1.0 `Mixup` in its mode `elem`, the box is torchvision 0.29 `v2.CutMix`.
//! Differs from timm: an odd batch is no error; `cutmix_minmax` isn't there.

mod beta;
mod targets;

use serde::{Deserialize, Serialize};

pub use targets::MixedTargets;
pub(crate) use targets::{labels_on_device, one_hot};

use crate::augment::philox::Draws;

/// Options; with both alphas above 0, one of the two is chosen for each image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mixing {
    /// Mixup: an image's share is drawn from Beta(alpha, alpha). Default 0, none; the paper has 0.2 for ImageNet.
    pub mixup_alpha: f64,
    /// Cutmix: the share of the area likewise, before the box is cut off at the edges. Default 0, none; the paper has 1.
    pub cutmix_alpha: f64,
    /// Chance per image that it is mixed at all, 0–1. Default 1, timm's.
    pub probability: f64,
    /// Chance of cutmix instead of mixup where both are on, 0–1. Default 0.5, timm's.
    pub switch_probability: f64,
}

impl Default for Mixing {
    fn default() -> Self {
        Self { mixup_alpha: 0.0, cutmix_alpha: 0.0, probability: 1.0, switch_probability: 0.5 }
    }
}

impl Mixing {
    /// Every option that can't work, as a sentence.
    pub(crate) fn problems(&self) -> Vec<String> {
        let Self { mixup_alpha, cutmix_alpha, probability, switch_probability } = self;
        let mut problems = Vec::new();
        for (name, alpha) in [("mixup_alpha", mixup_alpha), ("cutmix_alpha", cutmix_alpha)] {
            if !(alpha.is_finite() && *alpha >= 0.0) {
                problems.push(format!("{name} is {alpha}; it must be a finite number, 0 or more"));
            }
        }
        for (name, chance) in [("probability", probability), ("switch_probability", switch_probability)] {
            if !(0.0..=1.0).contains(chance) {
                problems.push(format!("{name} is {chance}; it must be between 0 and 1"));
            }
        }
        if [*mixup_alpha, *cutmix_alpha] == [0.0; 2] {
            problems.push("mixup_alpha and cutmix_alpha are 0, which mixes nothing; set one, or leave mix out".into());
        }
        problems
    }

    /// Draws what each image of a batch is mixed with; `size` is that of the output, height and width.
    pub(crate) fn draw(&self, seed: u64, epoch: u32, samples: &[u64], size: [u32; 2]) -> Vec<Mix> {
        let mix = |(index, &sample)| {
            let partner = samples.len() - 1 - index;
            let drawn = self.draw_share(&mut Draws::new(seed, epoch, sample, Draws::MIXING), size);
            match drawn {
                Some((share, pasted)) if partner != index => Mix { partner, share, pasted },
                _ => Mix::none(index),
            }
        };
        samples.iter().enumerate().map(mix).collect()
    }

    /// The share of an image's own label, and where another is pasted; `None` if it remains as it is.
    fn draw_share(&self, draws: &mut Draws, size: [u32; 2]) -> Option<(f64, Option<[u32; 4]>)> {
        let is_mixed = draws.uniform() < self.probability;
        let is_switched = draws.uniform() < self.switch_probability;
        if !is_mixed {
            return None;
        }
        let is_cutmix = match [self.mixup_alpha, self.cutmix_alpha].map(|alpha| alpha > 0.0) {
            [false, false] => return None,
            [true, true] => is_switched,
            [_, is_cutmix] => is_cutmix,
        };
        let share = beta::beta(draws, if is_cutmix { self.cutmix_alpha } else { self.mixup_alpha });
        let pasted = is_cutmix.then(|| cut_box(draws, share, size));
        let share = pasted.map_or(share, |pasted| share_outside(pasted, size));
        (share < 1.0).then_some((share, pasted))
    }
}

/// Top, left, bottom and right of a box that takes `1 - share` of the area unless the edges cut it off.
fn cut_box(draws: &mut Draws, share: f64, [height, width]: [u32; 2]) -> [u32; 4] {
    let half = 0.5 * (1.0 - share).sqrt();
    let [half_width, half_height] = [width, height].map(|side| (half * f64::from(side)) as u32);
    let column = draws.below(width.into()) as u32;
    let row = draws.below(height.into()) as u32;
    let [top, left] = [row.saturating_sub(half_height), column.saturating_sub(half_width)];
    [top, left, (row + half_height).min(height), (column + half_width).min(width)]
}

/// The share of the area that a box leaves.
fn share_outside([top, left, bottom, right]: [u32; 4], [height, width]: [u32; 2]) -> f64 {
    let area = |[height, width]: [u32; 2]| f64::from(height) * f64::from(width);
    1.0 - area([bottom - top, right - left]) / area([height, width])
}

/// A part of the output, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// All of it.
    Everywhere,
    /// Top, left, bottom and right; the last two are outside.
    Inside([u32; 4]),
    /// What [`Region::Inside`] leaves.
    Outside([u32; 4]),
}

/// What one output of a batch is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Index in the batch of the other image; the image's own if nothing is mixed.
    pub(crate) partner: usize,
    /// Share of the image's own target, 0–1.
    pub(crate) share: f64,
    /// Where the partner is seen instead of the image; `None` if the two are blended.
    pub(crate) pasted: Option<[u32; 4]>,
}

impl Mix {
    /// Image `index` alone.
    pub(crate) fn none(index: usize) -> Self {
        Self { partner: index, share: 1.0, pasted: None }
    }

    /// The images that output `index` is made of, how much each weighs, and where.
    pub(crate) fn parts(&self, index: usize) -> Vec<(usize, f64, Region)> {
        if self.partner == index {
            return vec![(index, 1.0, Region::Everywhere)];
        }
        match self.pasted {
            Some(edges) => {
                vec![(index, 1.0, Region::Outside(edges)), (self.partner, 1.0, Region::Inside(edges))]
            }
            None => {
                vec![(index, self.share, Region::Everywhere), (self.partner, 1.0 - self.share, Region::Everywhere)]
            }
        }
    }
}

#[cfg(test)]
mod tests;
