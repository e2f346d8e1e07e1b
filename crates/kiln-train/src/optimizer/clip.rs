//! Shortens gradients by the norm of all of them together.
//!
//! In: a model and its gradients. Out: one factor, at most 1, which stays on the device: nothing waits for it.
//! Source: `torch.nn.utils.clip_grad_norm_` (2.14), `factor = min(1, limit / (norm + 1e-6))`. timm's Lamb leaves the
//! 1e-6 out, which changes the factor by a millionth of it.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};

/// Added to the norm, PyTorch's.
const EPSILON: f64 = 1e-6;

/// The factor that shortens the gradients of `model` to `limit`; `None` if there are none.
pub(super) fn shortening<M: Module>(model: &M, grads: &Gradients, limit: f64) -> Option<Tensor<1>> {
    let mut sum = SquareSum { grads, sum: None };
    model.visit(&mut sum);
    Some((sum.sum?.sqrt().add_scalar(EPSILON).recip() * limit).clamp_max(1.0))
}

/// Adds up the squares of all gradients.
struct SquareSum<'a> {
    grads: &'a Gradients,
    sum: Option<Tensor<1>>,
}

impl ModuleVisitor for SquareSum<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = param.val().grad(self.grads) {
            let square = grad.square().sum();
            self.sum = Some(match self.sum.take() {
                Some(sum) => sum + square,
                None => square,
            });
        }
    }
}
