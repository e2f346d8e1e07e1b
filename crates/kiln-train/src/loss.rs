//! What is minimised: cross entropy, binary cross entropy or focal loss, each with soft targets, smoothing and weights.
//!
//! In: logits, float `[B, K]`; targets, class indices `[B]` or probabilities `[B, K]`. Out: the mean loss of the
//! batch, float `[1]`, differentiable in the logits.
//! Source: PyTorch's `CrossEntropyLoss` (2.14), which smooths as Szegedy et al., arXiv 1512.00567, section 7: a share
//! `label_smoothing` of the target goes to all K classes alike, the right one included; timm 1.0 `BinaryCrossEntropy`;
//! Lin et al., arXiv 1708.02002, section 3.2, for several classes instead of two.
//! With class weights the mean is weighted, as PyTorch's is for class indices: a batch of light classes counts as much as
//! one of heavy ones. The parts of a step that is split for memory are therefore weighed by their images alone.

use crate::recipe::{LossConfig, LossKind};
use burn::tensor::activation::{log_sigmoid, log_softmax};
use burn::tensor::{Device, Int, Tensor, TensorData};
use kiln_data::Dataset;

/// The loss of a recipe, for training.
#[derive(Clone, Debug)]
pub struct Loss {
    config: LossConfig,
    /// Float `[1, K]`.
    class_weights: Option<Tensor<2>>,
}

impl Loss {
    /// The loss that `config` describes, for training on `data`, whose labels are counted if classes are to be balanced.
    pub fn new(config: &LossConfig, data: &dyn Dataset, device: &Device) -> Self {
        let images_per_class = if config.balance_classes { images_per_class(data) } else { Vec::new() };
        Self::with_counts(config, &images_per_class, device)
    }

    fn with_counts(config: &LossConfig, images_per_class: &[usize], device: &Device) -> Self {
        let weights = match config.balance_classes {
            true => balancing_weights(images_per_class),
            false => config.class_weights.clone(),
        };
        let shape = [1, weights.len()];
        let weights: Vec<f32> = weights.into_iter().map(|weight| weight as f32).collect();
        let class_weights = (!weights.is_empty()).then(|| Tensor::from_data(TensorData::new(weights, shape), device));
        Self { config: config.clone(), class_weights }
    }

    /// The mean loss of a batch. It smooths `targets` itself.
    ///
    /// # Shapes
    /// `logits`: float `[B, K]`; `targets`: float `[B, K]`, probabilities, not smoothed. Returns float `[1]`.
    ///
    /// # Panics
    /// If the shapes differ, or there are weights for another number of classes.
    pub fn of(&self, logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        assert_eq!(logits.dims(), targets.dims(), "logits and targets of one batch");
        if self.config.kind == LossKind::CrossEntropy && self.class_weights.is_none() {
            return cross_entropy_soft(logits, targets, self.config.label_smoothing);
        }
        let [batch, classes] = logits.dims();
        let smooth = smoothed(targets.clone(), self.config.label_smoothing);
        // What each logit adds to the loss, and how many of them make the mean.
        let (of_logits, count) = match self.config.kind {
            LossKind::CrossEntropy => (log_softmax(logits, 1).neg() * smooth, batch),
            LossKind::Focal => (focal(logits, self.config.focal_gamma) * smooth, batch),
            LossKind::Bce => (binary(logits, above(smooth, self.config.target_threshold)), batch * classes),
        };
        match (&self.class_weights, self.config.kind) {
            (None, _) => of_logits.sum().div_scalar(count as f64),
            (Some(weights), LossKind::Bce) => {
                let weights = weights.clone().expand([batch, classes]);
                (of_logits * weights).sum().div_scalar(count as f64)
            }
            (Some(weights), _) => {
                let weights = weights.clone().expand([batch, classes]);
                // A batch of classes that all weigh nothing costs nothing.
                let weight = (targets * weights.clone()).sum().clamp_min(f32::MIN_POSITIVE);
                (of_logits * weights).sum() / weight
            }
        }
    }
}

/// Training images of each class.
fn images_per_class(data: &dyn Dataset) -> Vec<usize> {
    let mut counts = vec![0; data.classes().len()];
    for index in 0..data.len() {
        counts[data.label(index) as usize] += 1;
    }
    counts
}

/// Weights that let each class count alike: inverse to its images, 1 in the mean over the images.
fn balancing_weights(images_per_class: &[usize]) -> Vec<f64> {
    let images: usize = images_per_class.iter().sum();
    let share = images as f64 / images_per_class.iter().filter(|&&count| count > 0).count().max(1) as f64;
    images_per_class.iter().map(|&count| if count == 0 { 0.0 } else { share / count as f64 }).collect()
}

fn smoothed(targets: Tensor<2>, label_smoothing: f64) -> Tensor<2> {
    let classes = targets.dims()[1];
    match label_smoothing {
        0.0 => targets,
        share => targets.mul_scalar(1.0 - share).add_scalar(share / classes as f64),
    }
}

/// 1 for targets above the threshold, else 0; a threshold of 0 leaves them alone.
fn above(targets: Tensor<2>, threshold: f64) -> Tensor<2> {
    if threshold == 0.0 { targets } else { targets.greater_scalar(threshold).float() }
}

/// `-(t ln s(x) + (1 - t) ln s(-x))` of each logit, s being the logistic function.
fn binary(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<2> {
    targets.neg().add_scalar(1.0) * logits.clone() - log_sigmoid(logits)
}

/// `-(1 - p)^gamma ln p` of each class.
fn focal(logits: Tensor<2>, gamma: f64) -> Tensor<2> {
    let log_p = log_softmax(logits, 1);
    let p = log_p.clone().exp();
    // Rounding may leave p a little above 1, where a power is not a number.
    let away = p.neg().add_scalar(1.0).clamp_min(0.0);
    let factor = if gamma == 2.0 { away.square() } else { away.powf_scalar(gamma) };
    factor * log_p.neg()
}

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
    let batch = logits.dims()[0];
    let targets = smoothed(targets, label_smoothing);
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
