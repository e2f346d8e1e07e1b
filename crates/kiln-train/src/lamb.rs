//! Lamb: Adam's direction with a step in proportion to the norm of each layer's weights.
//!
//! In: a parameter, its gradient, its running moments; all of one shape. Out: parameter and moments after the step.
//! Source: You et al., arXiv 1904.00962, as timm (1.0) writes it:
//!
//! ```text
//! u = Adam's direction + weight_decay * p
//! p = p - lr * |p| / |u| * u              the ratio is 1 if either norm is 0
//! ```
//!
//! A parameter without decay (norms, biases) takes Adam's step, as in timm. timm's Lamb also shortens the gradients to a
//! common norm of 1; the recipe's `clip_grad_norm` does that here.

use crate::adam::AdamState;
use burn::optim::{LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};

/// Options of one update; the learning rate comes with each step.
#[derive(Clone, Debug, PartialEq)]
pub struct Lamb {
    /// Shares kept of the mean and of the mean square, each below 1. The usual values are 0.9 and 0.999.
    pub betas: [f64; 2],
    /// Added to the denominator. timm's is 1e-6.
    pub epsilon: f64,
    /// Share of the parameter added to the direction. timm's is 0.01.
    pub weight_decay: f64,
}

impl Optimizer for Lamb {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let state = AdamState::advanced(state, grad, self.betas, false);
        let mut direction = state.direction(self.betas, self.epsilon);
        if self.weight_decay != 0.0 {
            direction = direction + tensor.clone().mul_scalar(self.weight_decay);
            let norm = |tensor: Tensor<D>| tensor.square().sum().sqrt();
            let (of_weights, of_direction) = (norm(tensor.clone()), norm(direction.clone()));
            let vanishes = of_weights.clone().equal_scalar(0.0).bool_or(of_direction.clone().equal_scalar(0.0));
            let ratio = (of_weights / of_direction).mask_fill(vanishes, 1.0);
            direction = direction * ratio.reshape([1; D]);
        }
        (tensor - direction.mul_scalar(lr), Some(state))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        state.to_device(device)
    }
}
