//! Stochastic depth: leaves whole residual branches out of training, by image.
//!
//! In and out: a residual branch, float `[B, C, H, W]`. In training each image keeps its branch with probability
//! `1 - rate`, and a kept branch is divided by that, so that its mean stays; in evaluation nothing happens.
//! Source: Huang et al., arXiv 1603.09382; timm (1.0) `DropPath` with `scale_by_keep`. The rate grows linearly from 0 at
//! the first block to the network's at the last, as in timm.
//! Chance is drawn on the host from (seed, block, batches the block has trained on, image's place in the batch): a run
//! that is resumed draws what it would have drawn, since the count is part of the state. It costs one upload of B
//! numbers per block and step.

use burn::tensor::{Tensor, TensorData};

use crate::init::{fnv1a64, mix, split_mix64, unit};

/// Drops the residual branch of one block.
#[derive(Clone, Debug)]
pub(crate) struct DropPath {
    rate: f64,
    key: u64,
}

impl DropPath {
    /// For the block `name` of a network drawn from `seed`.
    pub(crate) fn new(rate: f64, seed: u64, name: &str) -> Self {
        Self { rate, key: mix(mix(seed) ^ fnv1a64(name.as_bytes())) }
    }

    /// Whether anything is ever dropped.
    pub(crate) fn is_active(&self) -> bool {
        self.rate > 0.0
    }

    /// The branch, in the `batch`-th batch that the block trains on.
    pub(crate) fn apply(&self, branch: Tensor<4>, batch: i64) -> Tensor<4> {
        let images = branch.dims()[0];
        let factors = TensorData::new(self.factors(images, batch), [images, 1, 1, 1]);
        let device = branch.device().without_autodiff();
        let factors = Tensor::<4>::from_data(factors, &device).cast(branch.dtype());
        branch * factors
    }

    /// What each image's branch is multiplied with: 0, or one over the share kept.
    fn factors(&self, images: usize, batch: i64) -> Vec<f32> {
        let start = mix(self.key ^ batch as u64);
        let kept = 1.0 - self.rate;
        (0..images)
            .map(|image| if unit(split_mix64(start, image as u64)) < kept { (1.0 / kept) as f32 } else { 0.0 })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, ResNetConfig};

    #[test]
    fn branches_are_kept_at_their_rate_and_scaled_to_keep_the_mean() {
        let factors = DropPath::new(0.25, 7, "layer1.0").factors(10_000, 3);
        let mean = factors.iter().sum::<f32>() / 10_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!(factors.iter().all(|&factor| factor == 0.0 || factor == 1.0 / 0.75));
    }

    #[test]
    fn a_draw_depends_on_seed_block_and_batch_alone() {
        let draw = |seed, name, batch| DropPath::new(0.5, seed, name).factors(64, batch);
        assert_eq!(draw(1, "layer1.0", 0), draw(1, "layer1.0", 0));
        for other in [draw(2, "layer1.0", 0), draw(1, "layer1.1", 0), draw(1, "layer1.0", 1)] {
            assert_ne!(draw(1, "layer1.0", 0), other);
        }
    }

    #[test]
    fn evaluation_and_a_rate_of_zero_drop_nothing_and_training_does() {
        let config = ResNetConfig {
            width: 4,
            num_classes: 3,
            zero_init_last_gamma: false,
            drop_path: 0.9,
            ..ResNetConfig::new(Arch::ResNet18)
        };
        let plain = ResNetConfig { drop_path: 0.0, ..config.clone() };
        let logits = |config: &ResNetConfig, device: &burn::tensor::Device| {
            let ramp = Tensor::<1, burn::tensor::Int>::arange(0..4 * 3 * 32 * 32, device).float();
            config.init(1, device).forward((ramp.reshape([4, 3, 32, 32]) * 0.7).sin()).into_data()
        };
        let (eval, train) = (kiln_device::cpu(), kiln_device::cpu().autodiff());
        assert_eq!(logits(&config, &eval), logits(&plain, &eval));
        assert_ne!(logits(&config, &train), logits(&plain, &train));
        assert_eq!(logits(&config, &train), logits(&config, &train));
    }
}
