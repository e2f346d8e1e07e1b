//! `[ema]` and `[swa]`: averaged weights beside the trained ones.

use crate::ema::Ema;
use crate::swa::Swa;
use crate::weight_average::AverageRule;
use serde::{Deserialize, Serialize};

/// `[ema]`: an exponential moving average of the weights, which is then what is validated and called the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmaConfig {
    /// Share of the average kept at an update, as used: torchvision's `--model-ema-decay` of `d` is
    /// `1 - (1 - d) * batch_size * every / epochs` here. 0, the default, is no average; usual values are 0.999 to 0.9999.
    pub decay: f64,
    /// Steps between updates. Default 1; torchvision's recipes take 32.
    pub every: usize,
    /// Epochs during which the average is a copy. Default 0; torchvision's trainer takes the warm-up.
    pub start_epochs: f64,
    /// Let the decay grow to its value with the number of updates, as timm's `--model-ema-warmup`. Default false.
    pub warmup: bool,
}

/// `[swa]`: the mean of the weights at the ends of the last epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SwaConfig {
    /// First epoch, from 1, whose final weights count; 0, the default, is no average. The paper takes the last quarter.
    pub start_epoch: usize,
    /// Learning rate from there on, constant; 0, the default, lets the schedule go on.
    pub lr: f64,
}

impl Default for EmaConfig {
    fn default() -> Self {
        Self { decay: 0.0, every: 1, start_epochs: 0.0, warmup: false }
    }
}

impl EmaConfig {
    /// The rule in steps; `None` without an average.
    pub fn rule(&self, steps_per_epoch: usize) -> Option<AverageRule> {
        let every = self.every.max(1) as u64;
        let start = (self.start_epochs * steps_per_epoch as f64 / every as f64).round() as u64;
        (self.decay > 0.0).then_some(AverageRule::Ema(Ema { decay: self.decay, every, start, warmup: self.warmup }))
    }
}

impl SwaConfig {
    /// The rule; `None` without an average.
    pub fn rule(&self) -> Option<AverageRule> {
        (self.start_epoch > 0).then_some(AverageRule::Swa(Swa { start_epoch: self.start_epoch as u64 }))
    }
}
