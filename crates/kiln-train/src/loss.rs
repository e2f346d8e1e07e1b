//! Cross entropy, with label smoothing and with soft targets.
//!
//! In: logits, float `[B, K]`; targets, class indices `[B]` or probabilities `[B, K]`. Out: the mean loss of the
//! batch, float `[1]`, differentiable in the logits.
//! Source: PyTorch's `CrossEntropyLoss` (2.14), which smooths as Szegedy et al., arXiv 1512.00567, section 7: a share
//! `label_smoothing` of the target goes to all K classes alike, the right one included.
//! Not done here: class weights, binary cross entropy, focal loss (issue 7).

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};

/// Mean cross entropy against class indices.
///
/// # Shapes
/// `logits`: float `[B, K]`; `targets`: int `[B]`, 0 to K - 1. Returns float `[1]`.
///
/// # Panics
/// If `logits` and `targets` differ in `B`.
pub fn cross_entropy(logits: Tensor<2>, targets: Tensor<1, Int>, label_smoothing: f64) -> Tensor<1> {
    let [batch, classes] = logits.dims();
    assert_eq!(batch, targets.dims()[0], "logits and targets of one batch");
    // Comparing instead of gathering keeps the backward pass element by element: no scatter.
    let one_hot = is_target(targets, classes).float();
    cross_entropy_soft(logits, one_hot, label_smoothing)
}

/// Mean cross entropy against probabilities, such as mixup's.
///
/// # Shapes
/// `logits`: float `[B, K]`; `targets`: float `[B, K]`, each row summing to 1. Returns float `[1]`.
///
/// # Panics
/// If the shapes differ.
pub fn cross_entropy_soft(logits: Tensor<2>, targets: Tensor<2>, label_smoothing: f64) -> Tensor<1> {
    assert_eq!(logits.dims(), targets.dims(), "logits and soft targets of one batch");
    let [batch, classes] = logits.dims();
    let targets = match label_smoothing {
        0.0 => targets,
        share => targets.mul_scalar(1.0 - share).add_scalar(share / classes as f64),
    };
    let log_probabilities = log_softmax(logits, 1);
    log_probabilities.mul(targets).sum().mul_scalar(-1.0 / batch as f64)
}

/// Where the class axis meets the target: bool `[B, K]`.
pub(crate) fn is_target(targets: Tensor<1, Int>, classes: usize) -> Tensor<2, burn::tensor::Bool> {
    let batch = targets.dims()[0];
    let index = class_index(&targets, classes).expand([batch, classes]);
    let targets: Tensor<2, Int> = targets.unsqueeze_dim(1);
    index.equal(targets.expand([batch, classes]))
}

/// `0..classes` as int `[1, K]`, beside `targets` on its device and in its dtype.
pub(crate) fn class_index(targets: &Tensor<1, Int>, classes: usize) -> Tensor<2, Int> {
    let options = (&targets.device(), targets.dtype());
    Tensor::<1, Int>::arange(0..classes as i64, options).unsqueeze_dim(0)
}

#[cfg(test)]
mod tests;
