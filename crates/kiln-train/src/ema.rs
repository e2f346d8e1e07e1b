//! Exponential moving average of the weights: how much of the new weights enters the average, as a function of the step.
//!
//! In: the number of optimiser steps taken. Out: a share, 0–1, or nothing to do.
//! Source: timm 1.0 `ModelEmaV3` and torchvision's `references/classification/utils.py` (`ExponentialMovingAverage`), which
//! agree on what matters: the average begins as a copy of the weights, and running statistics are averaged too.
//!
//! ```text
//! average = (1 - share) * average + share * weights
//! share   = 1 - decay                               1 up to and with the first update after `start`: a copy
//! decay   = min(decay, 1 - (1 + n)^(-2/3))          with warm-up, n updates after that copy
//! ```
//!
//! It touches no tensor; `weight_average.rs` does. It keeps no count either: the step says everything, so a resumed run
//! can't be off by one. torchvision's trainer widens its `--model-ema-decay` by `batch * steps / epochs`; a recipe gives
//! the decay of an update as it is used.

/// When the average takes the weights in, and how much of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ema {
    /// Share of the average kept at an update, below 1.
    pub decay: f64,
    /// Optimiser steps between updates, at least 1: torchvision's `--model-ema-steps`.
    pub every: u64,
    /// Updates that copy the weights: timm's `update_after_step`.
    pub start: u64,
    /// Let the decay grow to its value: timm's `--model-ema-warmup`.
    pub warmup: bool,
}

/// Exponent of the warm-up, timm's.
const WARMUP_POWER: f64 = 2.0 / 3.0;

impl Ema {
    /// The share of the weights that enters the average after `step` steps, counted from 1; `None` for none.
    pub fn share(&self, step: u64) -> Option<f64> {
        let every = self.every.max(1);
        if step == 0 || !step.is_multiple_of(every) {
            return None;
        }
        let since_copy = (step / every).saturating_sub(self.start + 1);
        let decay = match (since_copy, self.warmup) {
            (0, _) => 0.0,
            (_, false) => self.decay,
            (n, true) => (1.0 - (1.0 + n as f64).powf(-WARMUP_POWER)).clamp(0.0, self.decay),
        };
        Some(1.0 - decay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;

    #[test]
    fn decays_equal_those_of_timm() {
        let golden = Golden::open();
        let Some(entry) = golden.entry("ema.safetensors") else { return };
        let decay = entry["decay"].as_f64().expect("a decay");
        let plain = Ema { decay, every: 1, start: 0, warmup: false };
        let kinds = [
            ("timm_v3", plain),
            ("timm_v3_warmup", Ema { decay: 0.9998, warmup: true, ..plain }),
            ("timm_v3_update_after2", Ema { start: 2, ..plain }),
        ];
        for (kind, ema) in kinds {
            for (step, want) in (1..).zip(entry["decays"][kind].as_array().expect("a list")) {
                let (got, want) = (1.0 - ema.share(step).expect("an update"), want.as_f64().expect("a number"));
                assert!((got - want).abs() < 1e-12, "{kind} update {step}: {got}, want {want}");
            }
        }
    }

    #[test]
    fn steps_between_updates_change_nothing() {
        let ema = Ema { decay: 0.75, every: 3, start: 0, warmup: false };
        let shares: Vec<_> = (0..=9).map(|step| ema.share(step)).collect();
        let none = None;
        assert_eq!(shares, [none, none, none, Some(1.0), none, none, Some(0.25), none, none, Some(0.25)]);
    }
}
