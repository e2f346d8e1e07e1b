//! The float type a network's convolutions compute in, and whether a device can be trusted with it.
//!
//! In: images, float `[B, 3, H, W]`. Out: the same in the type. Convolutions follow the type of what they are given, with
//! f32 weights rounded on the way; batch norms and their statistics, the last layer, the loss, gradients of weights and the
//! optimiser stay f32 (`kiln-model`'s `resnet.rs` and `batch_norm.rs`).
//! Source: Micikevicius et al., arXiv 1710.03740: f32 master weights, f32 sums, and for f16 a scaled loss
//! (`loss_scale.rs`).
//! A device has to say that it computes in the type, and to train a small network in it nearly as in f32.

use crate::failure::guarded;
use crate::loss::cross_entropy;
use crate::loss_scale::{LossScale, unscaled};
use crate::optimizer::ModelOptimizer;
use crate::recipe::OptimizerConfig;
use crate::sgd::Residence;
use burn::module::Module;
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use kiln_model::{Arch, ResNetConfig};
use serde::{Deserialize, Serialize};

/// The type convolutions compute in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits, as far-ranging as f32 and coarser than f16. NVIDIA cards from the RTX 30 on.
    Bf16,
    /// 16 bits, finer than bf16 and of little range, which scaling the loss makes up for.
    F16,
}

/// Steps of the check, and how far its losses may be from those of f32, as a share of them. Rounding to 8 bits changes
/// the loss of a small network by less than a hundredth; a device that computes nonsense is off by far more.
const STEPS: usize = 3;
const ALLOWED: f64 = 0.1;

impl Precision {
    /// `images` in this type.
    ///
    /// # Shapes
    /// Float `[B, 3, H, W]`, in and out.
    pub fn of(self, images: Tensor<4>) -> Tensor<4> {
        match self {
            Self::F32 => images,
            Self::Bf16 => images.cast(FloatDType::BF16),
            Self::F16 => images.cast(FloatDType::F16),
        }
    }

    /// The scale that losses begin with, if they need one.
    pub fn loss_scale(self) -> Option<LossScale> {
        (self == Self::F16).then(LossScale::default)
    }

    /// Whether `device` computes in this type, and nearly as in f32.
    ///
    /// # Errors
    /// Why it isn't used there.
    pub(crate) fn check(self, device: &Device) -> Result<(), String> {
        let dtype = match self {
            Self::F32 => return Ok(()),
            Self::Bf16 => FloatDType::BF16,
            Self::F16 => FloatDType::F16,
        };
        if !device.supports_dtype(dtype) {
            return Err(format!("the device doesn't compute in {self}"));
        }
        let trial = |precision| guarded(|| losses(precision, device)).map_err(|failure| failure.reason);
        let (found, wanted) = (trial(self)?, trial(Self::F32)?);
        let close = |(found, wanted): (&f64, &f64)| (found - wanted).abs() <= ALLOWED * wanted.abs();
        match found.iter().zip(&wanted).all(close) {
            true => Ok(()),
            false => Err(format!("the device computes otherwise in {self}: losses {found:.3?}, in f32 {wanted:.3?}")),
        }
    }
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        })
    }
}

/// Losses of a few steps of a small network on a small batch.
fn losses(precision: Precision, device: &Device) -> Vec<f64> {
    const BATCH: usize = 8;
    const SIDE: usize = 32;
    const CLASSES: usize = 4;
    let network = ResNetConfig { width: 8, num_classes: CLASSES, ..ResNetConfig::new(Arch::ResNet18) };
    let mut model = network.init(1, device).fork(device).train();
    let mut optimizer = ModelOptimizer::new(&OptimizerConfig::default(), model.parameter_names(), Residence::Device);
    let waves = (0..BATCH * 3 * SIDE * SIDE).map(|i| (i as f32 * 0.37 + (i / (3 * SIDE * SIDE)) as f32).sin());
    let images = TensorData::new(waves.collect::<Vec<f32>>(), [BATCH, 3, SIDE, SIDE]);
    let images = precision.of(Tensor::from_data(images, device));
    let targets = Tensor::<1, Int>::arange(0..BATCH as i64, device).remainder_scalar(CLASSES as i64);
    let scale = precision.loss_scale().map_or(1.0, |loss| loss.scale / 256.0);
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        let loss = cross_entropy(model.forward(images.clone()), targets.clone(), 0.0);
        losses.push(f64::from(loss.clone().into_scalar::<f32>()));
        let Some(gradients) = unscaled(&model, loss.mul_scalar(scale).backward(), scale) else { break };
        model = optimizer.step(0.01, model, gradients);
    }
    losses.resize(STEPS, f64::NAN);
    losses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_trusted_with_every_type() {
        for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
            assert_eq!(precision.check(&kiln_device::cpu()), Ok(()), "{precision}");
        }
    }

    #[test]
    fn sixteen_bits_are_really_computed_in() {
        let device = kiln_device::cpu();
        let in_f32 = losses(Precision::F32, &device);
        for precision in [Precision::Bf16, Precision::F16] {
            assert_ne!(losses(precision, &device), in_f32, "{precision}");
        }
    }
}
