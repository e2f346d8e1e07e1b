//! What the loop uses, made of a recipe: loaders, network, schedule, augmentations.

use super::{
    AugmentConfig, DataConfig, ModelConfig, OptimizerConfig, OptimizerKind, ProgressiveResize, Recipe, ScheduleConfig,
    ScheduleKind,
};
use crate::schedule::{AfterWarmup, Curve, OneCycle, Schedule, Warmup};
use crate::weight_average::AverageRule;
use kiln_data::{Augment, Augmentation, LoaderConfig, Sampling};
use kiln_model::ResNetConfig;

impl Recipe {
    /// The highest learning rate of the run, scaled to the images of a step if the recipe says so.
    pub fn peak_lr(&self) -> f64 {
        match self.optimizer.lr_base_size {
            0 => self.optimizer.lr,
            base => self.optimizer.lr * self.data.batch_size as f64 / base as f64,
        }
    }

    /// The learning rate over the run's steps.
    pub fn lr_schedule(&self, steps_per_epoch: usize) -> Schedule {
        let schedule = self.schedule.schedule(self.peak_lr(), self.run.epochs, steps_per_epoch);
        let averaging_from = self.swa.start_epoch.checked_sub(1).filter(|_| self.swa.lr > 0.0);
        let tail = averaging_from.map(|epochs| ((epochs * steps_per_epoch) as u64, self.swa.lr));
        Schedule { tail, ..schedule }
    }

    /// How weights are averaged, if they are.
    pub fn average_rule(&self, steps_per_epoch: usize) -> Option<AverageRule> {
        self.ema.rule(steps_per_epoch).or_else(|| self.swa.rule())
    }
}

impl DataConfig {
    /// How training images are loaded.
    pub fn train_loader(&self, seed: u64) -> LoaderConfig {
        LoaderConfig {
            batch_size: self.batch_size,
            workers: self.workers,
            shuffle: true,
            seed,
            drop_last: self.drop_last,
            limit_batches: (self.limit_batches > 0).then_some(self.limit_batches),
            queue_bytes: self.queue_mib << 20,
            cache_bytes: usize::try_from(self.cache.0).unwrap_or(usize::MAX),
            shorter_side: self.shorter_side,
            on_error: self.on_error,
            sampling: self.sampling.clone(),
            ..LoaderConfig::default()
        }
    }

    /// How validation images are loaded: all of them, in their order.
    pub fn val_loader(&self) -> LoaderConfig {
        LoaderConfig {
            batch_size: self.val_batch(),
            shuffle: false,
            drop_last: false,
            cache_bytes: 0,
            sampling: Sampling::EverySample,
            limit_batches: (self.limit_val_batches > 0).then_some(self.limit_val_batches),
            ..self.train_loader(0)
        }
    }

    pub(super) fn val_batch(&self) -> usize {
        if self.val_batch_size == 0 { self.batch_size } else { self.val_batch_size }
    }
}

impl ModelConfig {
    /// The network for `num_classes` classes.
    pub fn resnet(&self, num_classes: usize) -> ResNetConfig {
        let published = ResNetConfig::new(self.arch);
        ResNetConfig {
            num_classes,
            width: self.width,
            zero_init_last_gamma: self.zero_init_last_gamma,
            stem: self.stem.unwrap_or(published.stem),
            drop_path: self.drop_path,
            antialias: self.antialias,
            ..published
        }
    }
}

impl OptimizerConfig {
    /// What is added to the denominator.
    pub fn epsilon(&self) -> f64 {
        self.eps.unwrap_or(if self.kind == OptimizerKind::Lamb { 1e-6 } else { 1e-8 })
    }

    /// The largest value of a single gradient, if there is a limit.
    pub fn max_grad_value(&self) -> Option<f64> {
        (self.clip_grad_value > 0.0).then_some(self.clip_grad_value)
    }

    /// The largest norm of all gradients taken together, if there is a limit.
    pub fn max_grad_norm(&self) -> Option<f64> {
        match self.clip_grad_norm {
            0.0 if self.kind == OptimizerKind::Lamb => Some(1.0),
            0.0 => None,
            limit => Some(limit),
        }
    }
}

impl ScheduleConfig {
    /// The schedule of a run of `epochs` epochs of `steps_per_epoch` steps.
    pub fn schedule(&self, base_lr: f64, epochs: usize, steps_per_epoch: usize) -> Schedule {
        let steps = |epochs: f64| (epochs * steps_per_epoch as f64).round() as u64;
        // One cycle begins with a rise of its own.
        let has_warmup = self.kind != ScheduleKind::OneCycle;
        let warmup_steps = if has_warmup { steps(self.warmup_epochs) } else { 0 };
        let all_steps = steps(epochs as f64);
        let curve_steps = if self.warmup_overlaps { all_steps } else { all_steps.saturating_sub(warmup_steps) };
        let (gamma, final_lr) = (self.gamma, self.final_lr);
        let curve = match self.kind {
            ScheduleKind::Cosine => Curve::Cosine { steps: curve_steps, final_lr },
            ScheduleKind::Constant => Curve::Constant,
            ScheduleKind::Step => Curve::Step { every: steps(self.step_epochs), gamma },
            ScheduleKind::MultiStep => {
                Curve::MultiStep { milestones: self.milestones.iter().map(|&at| steps(at)).collect(), gamma }
            }
            ScheduleKind::Exponential => Curve::Exponential { gamma: gamma.powf(1.0 / steps_per_epoch.max(1) as f64) },
            ScheduleKind::Linear => Curve::Polynomial { steps: curve_steps, power: 1.0, final_lr },
            ScheduleKind::Polynomial => Curve::Polynomial { steps: curve_steps, power: self.power, final_lr },
            ScheduleKind::WarmRestarts => Curve::WarmRestarts {
                first: steps(self.cycle_epochs),
                growth: self.cycle_growth,
                decay: self.cycle_decay,
                cycles: None,
                final_lr,
            },
            ScheduleKind::OneCycle => Curve::OneCycle(OneCycle {
                total_steps: all_steps,
                pct_start: self.pct_start,
                anneal: self.anneal,
                div_factor: self.div_factor,
                final_div_factor: self.final_div_factor,
                phases: self.phases,
                momentum: self.momentum_range,
            }),
        };
        let warmup = Warmup {
            steps: warmup_steps,
            start_lr: base_lr * self.warmup_start,
            shape: self.warmup_shape,
            then: if self.warmup_overlaps { AfterWarmup::JoinCurve } else { AfterWarmup::StartCurve },
        };
        Schedule { base_lr, warmup, curve, tail: None }
    }
}

impl AugmentConfig {
    /// What happens to a training image, at its full size.
    pub fn training(&self) -> Augment {
        self.training_of(self.image_size)
    }

    /// What happens to a training image in `epoch`, counted from 0: images may grow during the run.
    pub fn training_in(&self, epoch: usize) -> Augment {
        let resize = |resize: &ProgressiveResize| resize.size(epoch, self.image_size);
        self.training_of(self.progressive.as_ref().map_or(self.image_size, resize))
    }

    fn training_of(&self, size: usize) -> Augment {
        Augment { mix: self.mix.clone(), ..self.with_norm(Augment::train(size), &self.train) }
    }

    /// What happens to a validation image.
    pub fn validation(&self) -> Augment {
        self.with_norm(Augment::eval(self.val_size()), &self.val)
    }

    pub(super) fn val_size(&self) -> usize {
        if self.val_image_size == 0 { self.image_size } else { self.val_image_size }
    }

    fn with_norm(&self, default: Augment, steps: &Option<Vec<Augmentation>>) -> Augment {
        let (mean, std) = (self.mean, self.std);
        let steps = steps.clone().unwrap_or_else(|| default.steps.clone());
        Augment { steps, mean, std, ..default }
    }
}
