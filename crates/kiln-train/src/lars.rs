//! LARS: SGD whose step is in proportion to the norm of each layer's weights.
//!
//! In: a parameter, its gradient, its momentum buffer; all of one shape. Out: parameter and buffer after the step.
//! Source: You et al., arXiv 1708.03888, as timm (1.0) writes it:
//!
//! ```text
//! ratio = trust_coefficient * |p| / (|grad| + weight_decay * |p| + epsilon)   1 if |p| or |grad| is 0
//! g = ratio * (grad + weight_decay * p), then SGD with momentum
//! ```
//!
//! A parameter without decay (norms, biases) takes SGD's plain step, as in timm and in the paper's experiments.

use crate::sgd::{Sgd, SgdState};
use burn::optim::{LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};

/// Options of one update; the learning rate comes with each step.
#[derive(Clone, Debug, PartialEq)]
pub struct Lars {
    /// Momentum; its own weight decay is 0.
    pub sgd: Sgd,
    /// Share of the parameter added to its gradient; 0 takes SGD's step.
    pub weight_decay: f64,
    /// The layer's step over its weights' norm. The paper's is 0.001.
    pub trust_coefficient: f64,
    /// Added to the denominator. timm's is 1e-8.
    pub epsilon: f64,
}

/// The momentum buffer of one parameter.
pub type LarsState<const D: usize> = SgdState<D>;

impl Optimizer for Lars {
    type State<const D: usize> = LarsState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let grad = if self.weight_decay == 0.0 { grad } else { self.scaled(&tensor, grad) };
        self.sgd.step(lr, tensor, grad, state)
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        Sgd::to_device(state, device)
    }
}

impl Lars {
    fn scaled<const D: usize>(&self, tensor: &Tensor<D>, grad: Tensor<D>) -> Tensor<D> {
        let norm = |tensor: Tensor<D>| tensor.square().sum().sqrt();
        let (of_weights, of_grad) = (norm(tensor.clone()), norm(grad.clone()));
        let denominator = of_grad.clone() + of_weights.clone().mul_scalar(self.weight_decay) + self.epsilon;
        let vanishes = of_weights.clone().equal_scalar(0.0).bool_or(of_grad.equal_scalar(0.0));
        let ratio = (of_weights.mul_scalar(self.trust_coefficient) / denominator).mask_fill(vanishes, 1.0);
        (grad + tensor.clone().mul_scalar(self.weight_decay)) * ratio.reshape([1; D])
    }
}
