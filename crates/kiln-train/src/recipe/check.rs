//! Judges the values of a recipe, all of them, so that one look is enough to mend it.
//!
//! A problem reads `key = value: must be ...`.

use super::{
    AugmentConfig, DataConfig, LossConfig, ModelConfig, OptimizerConfig, OptimizerKind, Recipe, RunConfig,
    ScheduleConfig, ScheduleKind,
};
use crate::error::TrainError;
use kiln_model::Part;

/// More than anyone means, and small enough that no product of two counts overflows.
const MAX_COUNT: usize = 1 << 24;

/// Wider than any published network (a wide ResNet has 128), and an image larger than any GPU trains on.
const MAX_WIDTH: usize = 4096;
const MAX_IMAGE_SIZE: usize = 8192;

impl Recipe {
    /// Checks every value.
    ///
    /// # Errors
    /// [`TrainError::InvalidRecipe`] with every problem found.
    pub fn validate(&self) -> Result<(), TrainError> {
        let mut problems = Problems::default();
        self.run.check(&mut problems);
        self.data.check(&mut problems);
        self.model.check(&mut problems);
        self.optimizer.check(&mut problems);
        self.schedule.check(&mut problems);
        self.loss.check(&mut problems);
        self.augment.check(&mut problems);
        match problems.0.is_empty() {
            true => Ok(()),
            false => Err(TrainError::InvalidRecipe { problems: problems.0 }),
        }
    }
}

impl RunConfig {
    fn check(&self, problems: &mut Problems) {
        problems.at_least_one("run.epochs", self.epochs);
        problems.at_least_one("run.keep_checkpoints", self.keep_checkpoints);
        problems.at_least_one("run.checkpoint_epochs", self.checkpoint_epochs);
        problems.not_negative("run.checkpoint_minutes", self.checkpoint_minutes);
        problems.not_negative("run.watchdog_minutes", self.watchdog_minutes);
        problems.within_limit("run.micro_batch_size", self.micro_batch_size);
        problems.within_limit("run.max_skipped_steps", self.max_skipped_steps);
        problems.require(i64::try_from(self.seed).is_ok(), "run.seed", self.seed, "below 2^63, TOML's limit");
    }
}

impl DataConfig {
    fn check(&self, problems: &mut Problems) {
        problems.at_least_one("data.batch_size", self.batch_size);
        problems.at_least_one("data.queue_mib", self.queue_mib);
        let counts = [
            ("data.val_batch_size", self.val_batch_size),
            ("data.workers", self.workers),
            ("data.limit_batches", self.limit_batches),
            ("data.limit_val_batches", self.limit_val_batches),
        ];
        for (key, value) in counts {
            problems.within_limit(key, value);
        }
    }
}

impl ModelConfig {
    fn check(&self, problems: &mut Problems) {
        problems.at_most(MAX_WIDTH, "model.width", self.width);
        if Part::ALL.iter().all(|part| self.freeze.contains(part)) {
            problems.0.push("model.freeze names every part, which leaves nothing to train".into());
        }
        if self.width > MAX_WIDTH {
            return;
        }
        if let Err(error) = self.resnet(1).validate() {
            problems.0.push(format!("model: {error}"));
        }
    }
}

impl OptimizerConfig {
    fn check(&self, problems: &mut Problems) {
        problems.positive("optimizer.lr", self.lr);
        problems.below_one("optimizer.momentum", self.momentum);
        problems.not_negative("optimizer.weight_decay", self.weight_decay);
        problems.not_negative("optimizer.norm_bias_weight_decay", self.norm_bias_weight_decay);
        problems.below_one("optimizer.betas[0]", self.betas[0]);
        problems.below_one("optimizer.betas[1]", self.betas[1]);
        problems.positive("optimizer.eps", self.eps.unwrap_or(1.0));
        problems.below_one("optimizer.alpha", self.alpha);
        problems.positive("optimizer.trust_coefficient", self.trust_coefficient);
        problems.not_negative("optimizer.clip_grad_norm", self.clip_grad_norm);
        problems.positive("optimizer.layer_lr_decay", self.layer_lr_decay);
        let has_momentum = matches!(self.kind, OptimizerKind::Sgd | OptimizerKind::Lars);
        if has_momentum && self.nesterov && self.momentum == 0.0 {
            problems.0.push("optimizer.nesterov = true needs a momentum above 0".into());
        }
    }
}

impl ScheduleConfig {
    fn check(&self, problems: &mut Problems) {
        problems.not_negative("schedule.warmup_epochs", self.warmup_epochs);
        problems.not_negative("schedule.warmup_start", self.warmup_start);
        problems.not_negative("schedule.final_lr", self.final_lr);
        problems.positive("schedule.step_epochs", self.step_epochs);
        problems.positive("schedule.gamma", self.gamma);
        problems.positive("schedule.power", self.power);
        problems.positive("schedule.cycle_epochs", self.cycle_epochs);
        problems.positive("schedule.cycle_growth", self.cycle_growth);
        problems.positive("schedule.cycle_decay", self.cycle_decay);
        for &milestone in &self.milestones {
            problems.not_negative("schedule.milestones", milestone);
        }
        if self.kind == ScheduleKind::MultiStep && self.milestones.is_empty() {
            problems.0.push("schedule.kind = \"multi_step\" needs schedule.milestones".into());
        }
    }
}

impl LossConfig {
    fn check(&self, problems: &mut Problems) {
        problems.below_one("loss.label_smoothing", self.label_smoothing);
    }
}

impl AugmentConfig {
    fn check(&self, problems: &mut Problems) {
        problems.require(self.image_size >= 1, "augment.image_size", self.image_size, "at least 1");
        problems.at_most(MAX_IMAGE_SIZE, "augment.image_size", self.image_size);
        problems.at_most(MAX_IMAGE_SIZE, "augment.val_image_size", self.val_image_size);
        if self.image_size == 0 {
            return;
        }
        for (key, augment) in [("augment.train", self.training()), ("augment.val", self.validation())] {
            let found = augment.validate().err().unwrap_or_default();
            let named = |problem: String| match problem.starts_with("mix: ") {
                true => format!("augment.{problem}"),
                false => format!("{key}: {problem}"),
            };
            problems.0.extend(found.into_iter().map(named));
        }
    }
}

/// Collects problems: `key = value: must be ...`.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn require(&mut self, holds: bool, key: &str, value: impl std::fmt::Display, rule: &str) {
        if !holds {
            self.0.push(format!("{key} = {value}: must be {rule}"));
        }
    }

    fn at_least_one(&mut self, key: &str, value: usize) {
        self.require(value >= 1, key, value, "at least 1");
        self.within_limit(key, value);
    }

    fn within_limit(&mut self, key: &str, value: usize) {
        self.at_most(MAX_COUNT, key, value);
    }

    fn at_most(&mut self, limit: usize, key: &str, value: usize) {
        self.require(value <= limit, key, value, &format!("at most {limit}"));
    }

    fn positive(&mut self, key: &str, value: f64) {
        self.require(value.is_finite() && value > 0.0, key, value, "a finite number above 0");
    }

    fn not_negative(&mut self, key: &str, value: f64) {
        self.require(value.is_finite() && value >= 0.0, key, value, "a finite number, 0 or more");
    }

    fn below_one(&mut self, key: &str, value: f64) {
        self.require((0.0..1.0).contains(&value), key, value, "at least 0 and below 1");
    }
}
