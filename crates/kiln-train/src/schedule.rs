//! Learning-rate schedules: the learning rate as a pure function of the step.
//!
//! In: a step counted from 0 over the whole run. Out: the learning rate of that step, absolute.
//! Source: `torch.optim.lr_scheduler` 2.14 and torchvision's `references/classification/train.py` for the shapes,
//! timm 1.0 `CosineLRScheduler` for warm-up that overlaps the curve and for decaying cycles. Those schedulers are
//! stepped once an epoch and keep state; ours takes the unit the caller counts in (the trainer: optimiser steps), keeps
//! none, and so can't be off by one after a resume.
//! Not done here: turning epochs into steps (`recipe.rs`), several learning rates (`optimizer.rs`, groups).

use std::f64::consts::PI;

/// The learning rate over a run: a warm-up, then a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Learning rate the curve starts from and the warm-up leads to.
    pub base_lr: f64,
    /// How the run begins.
    pub warmup: Warmup,
    /// How the learning rate goes on.
    pub curve: Curve,
    /// A step and the learning rate from there on, whatever the curve says.
    pub tail: Option<(u64, f64)>,
}

/// The first steps of a run, in which the learning rate doesn't follow the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmup {
    /// Number of steps; 0 is none.
    pub steps: u64,
    /// Learning rate of step 0.
    pub start_lr: f64,
    /// How it gets from `start_lr` to the base learning rate.
    pub shape: WarmupShape,
    /// Where the curve is when the warm-up ends.
    pub then: AfterWarmup,
}

/// How the learning rate rises during the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmupShape {
    /// A straight line from the start to the base learning rate (Goyal et al., arXiv 1706.02677, section 2.2).
    #[default]
    Linear,
    /// The start learning rate throughout.
    Constant,
}

/// Which step of the curve follows a warm-up of `n` steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterWarmup {
    /// Step 0: the curve is as long as the rest of the run (torchvision, timm's `warmup_prefix`).
    #[default]
    StartCurve,
    /// Step `n`: the warm-up covers the beginning of the curve (timm's default).
    JoinCurve,
}

/// The learning rate after the warm-up. `t` below is the step counted from where the curve starts.
#[derive(Clone, Debug, PartialEq)]
pub enum Curve {
    /// The base learning rate.
    Constant,
    /// Half a cosine from the base learning rate to `final_lr` over `steps`.
    ///
    /// Past `steps` it rises again, as PyTorch's does; the trainer never gets there.
    Cosine {
        /// Length of the half wave.
        steps: u64,
        /// Lowest learning rate, reached at `t = steps`.
        final_lr: f64,
    },
    /// Multiplied by `gamma` every `every` steps.
    Step {
        /// Steps between two drops.
        every: u64,
        /// Factor of one drop.
        gamma: f64,
    },
    /// Multiplied by `gamma` at each of the given steps.
    MultiStep {
        /// Steps at which the learning rate drops.
        milestones: Vec<u64>,
        /// Factor of one drop.
        gamma: f64,
    },
    /// Multiplied by `gamma` each step.
    Exponential {
        /// Factor of one step.
        gamma: f64,
    },
    /// `(1 - t / steps)^power` of the way from `final_lr` to the base learning rate; power 1 is a straight line.
    Polynomial {
        /// Length; afterwards `final_lr`.
        steps: u64,
        /// Exponent.
        power: f64,
        /// Learning rate at the end.
        final_lr: f64,
    },
    /// Cosine cycles, each beginning at (a share of) the base learning rate (Loshchilov & Hutter, arXiv 1608.03983).
    WarmRestarts {
        /// Steps of the first cycle.
        first: u64,
        /// Length of a cycle over the length of the one before.
        growth: f64,
        /// Peak of a cycle over the peak of the one before; 1 in PyTorch, timm's `cycle_decay`.
        decay: f64,
        /// Number of cycles, then `final_lr`; `None` goes on for ever.
        cycles: Option<u32>,
        /// Lowest learning rate.
        final_lr: f64,
    },
    /// One rise and one long fall (Smith & Topin, arXiv 1708.07120), with the momentum cycled against it.
    OneCycle(OneCycle),
}

/// Options of [`Curve::OneCycle`], named as in PyTorch; the base learning rate is the peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneCycle {
    /// Length of the run.
    pub total_steps: u64,
    /// Share of the run spent rising. PyTorch's default is 0.3.
    pub pct_start: f64,
    /// Shape of rise and fall.
    pub anneal: Anneal,
    /// Peak over first learning rate. PyTorch's default is 25.
    pub div_factor: f64,
    /// First over last learning rate. PyTorch's default is 1e4.
    pub final_div_factor: f64,
    /// Number of stages.
    pub phases: Phases,
    /// Lowest momentum, at the peak, and highest; `None` leaves it alone. PyTorch's default is 0.85 and 0.95.
    pub momentum: Option<[f64; 2]>,
}

/// How [`OneCycle`] goes from one value to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anneal {
    /// Half a cosine.
    #[default]
    Cosine,
    /// A straight line.
    Linear,
}

/// Stages of [`OneCycle`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phases {
    /// Up, then down to the last learning rate.
    #[default]
    Two,
    /// Up, down to the first learning rate, then on to the last.
    Three,
}

impl Default for Warmup {
    /// No warm-up.
    fn default() -> Self {
        Self { steps: 0, start_lr: 0.0, shape: WarmupShape::Linear, then: AfterWarmup::StartCurve }
    }
}

impl Schedule {
    /// The learning rate of `step`, counted from 0.
    pub fn lr(&self, step: u64) -> f64 {
        if let Some((_, lr)) = self.tail.filter(|(from, _)| step >= *from) {
            return lr;
        }
        let warmup = &self.warmup;
        if step < warmup.steps {
            return match warmup.shape {
                WarmupShape::Linear => lerp(warmup.start_lr, self.base_lr, fraction(step, warmup.steps)),
                WarmupShape::Constant => warmup.start_lr,
            };
        }
        self.curve.lr(self.base_lr, self.curve_step(step))
    }

    /// The momentum of `step`, for the curves that cycle it.
    pub fn momentum(&self, step: u64) -> Option<f64> {
        match &self.curve {
            Curve::OneCycle(cycle) => cycle.momentum(self.curve_step(step)),
            _ => None,
        }
    }

    fn curve_step(&self, step: u64) -> u64 {
        match self.warmup.then {
            AfterWarmup::StartCurve => step.saturating_sub(self.warmup.steps),
            AfterWarmup::JoinCurve => step,
        }
    }
}

impl Curve {
    /// The learning rate `t` steps into the curve.
    fn lr(&self, base_lr: f64, t: u64) -> f64 {
        match self {
            Self::Constant => base_lr,
            Self::Cosine { steps, final_lr } => cosine(base_lr, *final_lr, fraction(t, *steps)),
            Self::Step { every, gamma } => base_lr * gamma.powf((t / (*every).max(1)) as f64),
            Self::MultiStep { milestones, gamma } => {
                base_lr * gamma.powf(milestones.iter().filter(|&&m| m <= t).count() as f64)
            }
            Self::Exponential { gamma } => base_lr * gamma.powf(t as f64),
            Self::Polynomial { steps, power, final_lr } => {
                let left = 1.0 - fraction(t.min(*steps), *steps);
                final_lr + (base_lr - final_lr) * left.powf(*power)
            }
            Self::WarmRestarts { first, growth, decay, cycles, final_lr } => {
                let (cycle, done) = cycle_at(t, *first, *growth);
                match cycles {
                    Some(limit) if cycle >= *limit => *final_lr,
                    _ => cosine(base_lr * decay.powf(f64::from(cycle)), *final_lr, done),
                }
            }
            Self::OneCycle(cycle) => cycle.lr(base_lr, t),
        }
    }
}

impl OneCycle {
    fn lr(&self, peak: f64, t: u64) -> f64 {
        let first = peak / self.div_factor;
        let last = first / self.final_div_factor;
        let stops: &[f64] = match self.phases {
            Phases::Two => &[first, peak, last],
            Phases::Three => &[first, peak, first, last],
        };
        self.at(stops, t)
    }

    fn momentum(&self, t: u64) -> Option<f64> {
        let [low, high] = self.momentum?;
        let stops: &[f64] = match self.phases {
            Phases::Two => &[high, low, high],
            Phases::Three => &[high, low, high, high],
        };
        Some(self.at(stops, t))
    }

    /// Goes from stop to stop; the ends of the stages are PyTorch's, which counts steps from 0.
    fn at(&self, stops: &[f64], t: u64) -> f64 {
        let total = self.total_steps as f64;
        let peak_at = self.pct_start * total - 1.0;
        let ends: &[f64] = match self.phases {
            Phases::Two => &[peak_at, total - 1.0],
            Phases::Three => &[peak_at, 2.0 * self.pct_start * total - 2.0, total - 1.0],
        };
        let t = (t as f64).min(total - 1.0);
        let stage = ends.iter().position(|&end| t <= end).unwrap_or(ends.len() - 1);
        let start = if stage == 0 { 0.0 } else { ends[stage - 1] };
        let length = ends[stage] - start;
        let done = if length > 0.0 { (t - start) / length } else { 1.0 };
        match self.anneal {
            Anneal::Cosine => cosine(stops[stage], stops[stage + 1], done),
            Anneal::Linear => lerp(stops[stage], stops[stage + 1], done),
        }
    }
}

/// Which cycle step `t` lies in, and how far into it, 0–1, when each is `growth` times the one before.
fn cycle_at(t: u64, first: u64, growth: f64) -> (u32, f64) {
    let mut start = 0.0;
    let mut length = first.max(1) as f64;
    let mut cycle = 0;
    // Lengths never fall below one step, so the loop ends after at most `t` rounds.
    while t as f64 >= start + length {
        start += length;
        length = (length * growth).max(1.0);
        cycle += 1;
    }
    (cycle, (t as f64 - start) / length)
}

/// Half a cosine from `from` (`done` = 0) to `to` (`done` = 1).
fn cosine(from: f64, to: f64, done: f64) -> f64 {
    to + (from - to) * 0.5 * (1.0 + (PI * done).cos())
}

fn lerp(from: f64, to: f64, done: f64) -> f64 {
    from + (to - from) * done
}

/// `t / steps`; a curve of no length is over at once.
fn fraction(t: u64, steps: u64) -> f64 {
    if steps == 0 { 1.0 } else { t as f64 / steps as f64 }
}

#[cfg(test)]
mod tests;
