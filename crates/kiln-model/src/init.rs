//! First weights, drawn on the host.
//!
//! In: seed, parameter name, shape, law. Out: the parameter. A value depends on seed, name and position
//! alone, so the same seed gives the same network on every device, and adding a layer moves no other draw.
//! Source: the laws are PyTorch's (`torch.nn.init`, as torchvision's ResNet uses them); the generator is
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014),
//! which is a hash of a counter, started for each parameter at a hash of seed and name; normal numbers
//! come by Box and Muller's transform in f64.
//! Not done: PyTorch's numbers for the same seed. Its generator isn't ours.

use burn::module::{Param, ParamId};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{Initializer, Linear, PaddingConfig2d};
use burn::tensor::{Device, Shape, Tensor, TensorData};

use crate::batch_norm::{BatchNorm, BatchNormConfig};
use crate::state::transposed;

/// Draws the parameters of one model on one device.
pub(crate) struct Init<'a> {
    pub(crate) seed: u64,
    pub(crate) device: &'a Device,
}

/// How a parameter starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Law {
    Constant(f32),
    Normal { std: f64 },
    Uniform { bound: f64 },
}

/// Shape of a convolution; always square, padded by half its kernel, without bias.
pub(crate) struct ConvShape {
    pub(crate) channels_in: usize,
    pub(crate) channels_out: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) groups: usize,
}

impl Init<'_> {
    /// A convolution with `kaiming_normal_(mode="fan_out", nonlinearity="relu")`.
    ///
    /// PyTorch doesn't divide the fan by the groups, so neither do we.
    pub(crate) fn conv(&self, name: &str, shape: &ConvShape) -> Conv2d {
        let &ConvShape { channels_in, channels_out, kernel, stride, groups } = shape;
        let half = kernel / 2;
        let mut conv = Conv2dConfig::new([channels_in, channels_out], [kernel, kernel])
            .with_stride([stride, stride])
            .with_padding(PaddingConfig2d::Explicit(half, half, half, half))
            .with_groups(groups)
            .with_bias(false)
            .with_initializer(Initializer::Zeros)
            .init(self.device);
        let fan_out = (channels_out * kernel * kernel) as f64;
        let law = Law::Normal { std: (2.0 / fan_out).sqrt() };
        let dims = [channels_out, channels_in / groups, kernel, kernel];
        conv.weight = self.param(format!("{name}.weight"), dims, law);
        conv
    }

    /// A batch norm with gamma 1 (or 0, to silence a residual branch), beta 0, mean 0 and variance 1.
    pub(crate) fn norm(&self, name: &str, channels: usize, gamma: f32) -> BatchNorm {
        let mut norm = BatchNormConfig::new(channels).init(self.device);
        norm.weight = self.param(format!("{name}.weight"), [channels], Law::Constant(gamma));
        norm
    }

    /// A linear layer with `nn.Linear`'s default: weight and bias uniform in ±1/sqrt(inputs).
    pub(crate) fn linear(&self, name: &str, inputs: usize, outputs: usize) -> Linear {
        let law = Law::Uniform { bound: 1.0 / (inputs as f64).sqrt() };
        let (seed, key) = (self.seed, format!("{name}.weight"));
        // Drawn as torchvision stores it, [out, in], so that its state shows the draw in order.
        let weight = move || transposed(&draw(seed, &key, law, inputs * outputs), outputs, inputs);
        Linear {
            weight: lazy(self.device, [inputs, outputs], weight),
            bias: Some(self.param(format!("{name}.bias"), [outputs], law)),
        }
    }

    fn param<const D: usize>(&self, name: String, dims: [usize; D], law: Law) -> Param<Tensor<D>> {
        let seed = self.seed;
        lazy(self.device, dims, move || draw(seed, &name, law, dims.iter().product()))
    }
}

/// A parameter whose values are made at its first use.
fn lazy<const D: usize>(
    device: &Device,
    dims: [usize; D],
    values: impl Fn() -> Vec<f32> + Send + Sync + 'static,
) -> Param<Tensor<D>> {
    let init = move |device: &Device, require_grad: bool| {
        device.memory_persistent_allocations(TensorData::new(values(), dims), |data| {
            Tensor::from_data(data, device).set_require_grad(require_grad)
        })
    };
    Param::uninitialized(ParamId::new(), init, device.clone(), true, Shape::from(dims))
}

/// The first `len` values of the parameter `name`.
pub(crate) fn draw(seed: u64, name: &str, law: Law, len: usize) -> Vec<f32> {
    let start = mix(mix(seed) ^ fnv1a64(name.as_bytes()));
    let uniform = |index: usize| unit(split_mix64(start, index as u64));
    match law {
        Law::Constant(value) => vec![value; len],
        Law::Uniform { bound } => (0..len).map(|i| ((2.0 * uniform(i) - 1.0) * bound) as f32).collect(),
        Law::Normal { std } => {
            let mut values = Vec::with_capacity(len + 1);
            for pair in (0..len).step_by(2) {
                // 1 - u lies in (0, 1], so the logarithm is finite.
                let radius = std * (-2.0 * (1.0 - uniform(pair)).ln()).sqrt();
                let (sin, cos) = (std::f64::consts::TAU * uniform(pair + 1)).sin_cos();
                values.extend([(radius * cos) as f32, (radius * sin) as f32]);
            }
            values.truncate(len);
            values
        }
    }
}

/// Number `index` of the SplitMix64 stream with state `start`.
pub(crate) fn split_mix64(start: u64, index: u64) -> u64 {
    const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
    mix(start.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN_GAMMA)))
}

/// SplitMix64's output function, David Stafford's variant 13 of MurmurHash3's finaliser.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The upper 53 bits as a number in [0, 1).
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// The FNV-1a hash of 64 bits (Fowler, Noll and Vo).
pub(crate) fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // First numbers of java.util.SplittableRandom(1234567) and of every port of SplitMix64.
        let published =
            [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821];
        for (index, expected) in published.into_iter().enumerate() {
            assert_eq!(split_mix64(1234567, index as u64), expected, "number {index}");
        }
        assert_eq!(fnv1a64(b""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(fnv1a64(b"foobar"), 0x8594_4171_F739_67E8);
    }

    #[test]
    fn normal_draws_follow_their_law() {
        let values = draw(1, "conv1.weight", Law::Normal { std: 0.5 }, 100_000);
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / values.len() as f64;
        let within_one_std = values.iter().filter(|v| v.abs() < 0.5).count() as f64 / 1e5;
        // Four standard errors of 100,000 draws.
        assert!(mean.abs() < 4.0 * 0.5 / 316.0, "mean {mean}");
        assert!((square - 0.25).abs() < 4.0 * 0.25 * 2f64.sqrt() / 316.0, "variance {square}");
        assert!((within_one_std - 0.6827).abs() < 4.0 * 0.465 / 316.0, "{within_one_std}");
    }

    #[test]
    fn uniform_draws_stay_in_their_bounds_and_fill_them() {
        let values = draw(1, "fc.weight", Law::Uniform { bound: 0.25 }, 10_000);
        let (low, high) = values.iter().fold((0f32, 0f32), |(l, h), &v| (l.min(v), h.max(v)));
        assert!((-0.25..-0.249).contains(&low) && (0.249..0.25).contains(&high), "{low} {high}");
    }

    #[test]
    fn a_draw_depends_on_seed_and_name_and_on_nothing_else() {
        let law = Law::Normal { std: 1.0 };
        let base = draw(7, "layer1.0.conv1.weight", law, 9);
        assert_eq!(draw(7, "layer1.0.conv1.weight", law, 4), base[..4]);
        assert_ne!(draw(8, "layer1.0.conv1.weight", law, 9), base);
        assert_ne!(draw(7, "layer1.0.conv2.weight", law, 9), base);
    }

    #[test]
    fn the_sequence_is_pinned() {
        let normal = draw(42, "conv1.weight", Law::Normal { std: 1.0 }, 3);
        let uniform = draw(42, "fc.bias", Law::Uniform { bound: 1.0 }, 3);
        assert_eq!(normal, PINNED_NORMAL);
        assert_eq!(uniform, PINNED_UNIFORM);
    }

    const PINNED_NORMAL: [f32; 3] = [-1.329429, -2.1515272, -2.0448442];
    const PINNED_UNIFORM: [f32; 3] = [0.7467971, -0.40242726, -0.5229592];
}
