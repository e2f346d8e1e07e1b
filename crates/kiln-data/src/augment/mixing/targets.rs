//! Soft targets: what an output that is made of two images should be taken for.
//!
//! In: what was drawn for a batch. Out: labels and shares, and with class indices float `[B, K]`.
//! Source: timm 1.0 `mixup_target`: both targets are smoothed, then mixed; that is the mixture smoothed once.

use burn::tensor::{Int, Tensor, TensorData};

use crate::augment::mixing::Mix;

/// Labels of a mixed batch, beside each image's own.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedTargets {
    /// Class index of the image that each one is mixed with; its own if nothing is mixed.
    pub partner_labels: Vec<u32>,
    /// Share of the image's own label, 0–1; the partner's is the rest.
    pub shares: Vec<f64>,
}

impl MixedTargets {
    /// The targets of a batch; `None` if no image of it is mixed.
    pub(crate) fn new(mixes: &[Mix], labels: &[u32]) -> Option<Self> {
        let is_mixed = mixes.iter().enumerate().any(|(index, mix)| mix.partner != index);
        is_mixed.then(|| Self {
            partner_labels: mixes.iter().map(|mix| labels[mix.partner]).collect(),
            shares: mixes.iter().map(|mix| mix.share).collect(),
        })
    }

    /// The label of the larger share of each image, its own if they are equal.
    pub fn main_labels(&self, labels: &[u32]) -> Vec<u32> {
        let pairs = labels.iter().zip(&self.partner_labels).zip(&self.shares);
        pairs.map(|((&own, &partner), &share)| if share < 0.5 { partner } else { own }).collect()
    }

    /// Moves the partners' shares to their classes. One small copy to the device each for labels and shares.
    ///
    /// # Shapes
    /// `own`: float `[B, K]`, the images' own classes. Returns float `[B, K]`.
    pub(crate) fn mix(&self, own: Tensor<2>) -> Tensor<2> {
        let ([batch, classes], device) = (own.dims(), own.device());
        let partners = one_hot(labels_on_device(&self.partner_labels, &device), classes);
        let shares = self.shares.iter().map(|&share| share as f32).collect();
        let shares = Tensor::<2>::from_data(TensorData::new(shares, [batch, 1]), &device).expand([batch, classes]);
        // Equal to the bit where both are of one class, at any share.
        partners.clone() + (own - partners) * shares
    }
}

/// Class indices as int `[B]`.
pub(crate) fn labels_on_device(labels: &[u32], device: &burn::tensor::Device) -> Tensor<1, Int> {
    let indices = labels.iter().map(|&label| i64::from(label)).collect();
    Tensor::from_data(TensorData::new(indices, [labels.len()]), device)
}

/// 1 at each image's class, 0 elsewhere: float `[B, K]`.
pub(crate) fn one_hot(targets: Tensor<1, Int>, classes: usize) -> Tensor<2> {
    let batch = targets.dims()[0];
    let options = (&targets.device(), targets.dtype());
    let index: Tensor<2, Int> = Tensor::<1, Int>::arange(0..classes as i64, options).unsqueeze_dim(0);
    let targets: Tensor<2, Int> = targets.unsqueeze_dim(1);
    index.expand([batch, classes]).equal(targets.expand([batch, classes])).float()
}
