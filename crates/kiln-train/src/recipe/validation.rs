//! `[validation]`: how an epoch is judged, which one is the best, and when to give up.

use crate::report::EpochMetrics;
use serde::{Deserialize, Serialize};

/// `[validation]`: how an epoch is judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationConfig {
    /// What makes an epoch the best: `top1` (the default), `top5`, `loss`, `f1_macro` or `balanced_accuracy`.
    pub best_by: BestBy,
    /// End the run after this many epochs without a new best; 0, the default, is never.
    pub patience: usize,
    /// Judge each image and its mirror image together, by the mean of their logits. Default false; FFCV's recipes do.
    pub flip: bool,
}

/// What makes an epoch the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BestBy {
    /// Share of images whose class has the highest logit.
    #[default]
    Top1,
    /// Share of images whose class is among the five highest.
    Top5,
    /// The mean loss, the lower the better.
    Loss,
    /// The mean over the classes of their F1 score: every class counts alike.
    F1Macro,
    /// The mean over the classes of their recall.
    BalancedAccuracy,
}

impl BestBy {
    /// How good an epoch is; higher is better.
    pub fn score(self, metrics: &EpochMetrics) -> f64 {
        match self {
            Self::Top1 => metrics.val_top1,
            Self::Top5 => metrics.val_top5,
            Self::Loss => -metrics.val_loss,
            Self::F1Macro => metrics.val_f1_macro,
            Self::BalancedAccuracy => metrics.val_balanced_accuracy,
        }
    }
}
