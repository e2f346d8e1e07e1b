//! Anti-aliased down-sampling: a small blur before every second pixel is dropped.
//!
//! In: float `[B, C, H, W]`. Out: float `[B, C, ceil(H/2), ceil(W/2)]`: each axis filtered with [1, 2, 1] / 4, mirrored at
//! the borders (a border of one pixel is repeated), every second value kept.
//! Source: Zhang, "Making Convolutional Networks Shift-Invariant Again", arXiv 1904.11486; timm (1.0) `BlurPool2d` with
//! its filter of 3. The filter is that of two averages of two, which is how it is computed.

use burn::nn::pool::AvgPool2dConfig;
use burn::tensor::Tensor;

/// Halves the resolution.
pub(crate) fn blur_pool(x: Tensor<4>) -> Tensor<4> {
    let padded = mirrored(mirrored(x, 2), 3);
    let average = |x, stride| AvgPool2dConfig::new([2, 2]).with_strides([stride, stride]).init().forward(x);
    average(average(padded, 1), 2)
}

/// One more value at each end of `axis`, mirrored around the outermost.
fn mirrored(x: Tensor<4>, axis: usize) -> Tensor<4> {
    let len = x.dims()[axis];
    let at = |index: usize| x.clone().narrow(axis, index, 1);
    let (before, after) = (at(1.min(len - 1)), at(len.saturating_sub(2)));
    Tensor::cat(vec![before, x, after], axis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, ResNetConfig};

    #[test]
    fn a_row_is_filtered_and_halved_by_hand() {
        let device = kiln_device::cpu();
        let x = Tensor::<4>::from_floats([[[[0.0, 4.0, 8.0, 0.0, 4.0]]]], &device);
        // Mirrored: 4 | 0 4 8 0 4 | 0, so (4+0+4)/4, (4+16+0)/4, (0+8+0)/4.
        let values: Vec<f32> = blur_pool(x).into_data().iter().collect();
        assert_eq!(values, [2.0, 5.0, 2.0]);
    }

    #[test]
    fn sizes_are_halved_as_a_stride_of_two_does_and_constants_stay() {
        let device = kiln_device::cpu();
        for (size, half) in [(1usize, 1), (2, 1), (5, 3), (8, 4)] {
            let y = blur_pool(Tensor::<4>::ones([1, 2, size, size + 1], &device));
            assert_eq!(y.dims(), [1, 2, half, (size + 1).div_ceil(2)]);
            assert!(y.into_data().iter::<f32>().all(|v| v == 1.0), "{size}");
        }
    }

    #[test]
    fn an_anti_aliased_network_has_the_same_names_and_logits_of_the_same_shape() {
        let device = kiln_device::cpu();
        for arch in [Arch::ResNet18, Arch::ResNet50] {
            let plain = ResNetConfig { width: 8, num_classes: 3, ..ResNetConfig::new(arch) };
            let smooth = ResNetConfig { antialias: true, ..plain.clone() };
            let (plain, smooth) = (plain.init(1, &device), smooth.init(1, &device));
            assert_eq!(plain.state(), smooth.state());
            let mut shapes = [Vec::new(), Vec::new()];
            for (model, shapes) in [&plain, &smooth].into_iter().zip(&mut shapes) {
                let images = Tensor::ones([1, 3, 45, 64], &device);
                model.forward_observed(images, |_, x| shapes.push(x.dims()));
            }
            assert_eq!(shapes[0], shapes[1], "{arch}");
        }
    }
}
