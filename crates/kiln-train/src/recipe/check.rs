//! Judges the values of a recipe, all of them, so that one look is enough to mend it.
//!
//! A problem reads `key = value: must be ...`.

use super::{
    AugmentConfig, DataConfig, EmaConfig, LossConfig, LossKind, ModelConfig, OptimizerConfig, OptimizerKind,
    ProgressiveResize, Recipe, RunConfig, ScheduleConfig, ScheduleKind, SwaConfig, ValidationConfig,
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
        match self.problems() {
            problems if problems.is_empty() => Ok(()),
            problems => Err(TrainError::InvalidRecipe { problems }),
        }
    }

    /// Checks what depends on the number of classes.
    ///
    /// # Errors
    /// [`TrainError::InvalidRecipe`].
    pub fn check_classes(&self, num_classes: usize) -> Result<(), TrainError> {
        let weights = self.loss.class_weights.len();
        if weights == 0 || weights == num_classes {
            return Ok(());
        }
        let problem = format!("loss.class_weights has {weights} values; the data has {num_classes} classes");
        Err(TrainError::InvalidRecipe { problems: vec![problem] })
    }

    /// Every value that can't work, a sentence each.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Problems::default();
        self.run.check(&mut problems);
        self.data.check(&mut problems);
        self.model.check(&mut problems);
        self.optimizer.check(&mut problems);
        self.schedule.check(&mut problems);
        self.loss.check(&mut problems);
        self.ema.check(&mut problems);
        self.swa.check(self.run.epochs, &mut problems);
        self.validation.check(&mut problems);
        self.augment.check(&mut problems);
        if self.ema.decay > 0.0 && self.swa.start_epoch > 0 {
            problems.0.push("ema and swa are both on; one set of averaged weights can be kept".into());
        }
        problems.0
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
        problems.within_limit("optimizer.lr_base_size", self.lr_base_size);
        problems.below_one("optimizer.momentum", self.momentum);
        problems.not_negative("optimizer.weight_decay", self.weight_decay);
        problems.not_negative("optimizer.norm_bias_weight_decay", self.norm_bias_weight_decay);
        problems.below_one("optimizer.betas[0]", self.betas[0]);
        problems.below_one("optimizer.betas[1]", self.betas[1]);
        problems.positive("optimizer.eps", self.eps.unwrap_or(1.0));
        problems.below_one("optimizer.alpha", self.alpha);
        problems.positive("optimizer.trust_coefficient", self.trust_coefficient);
        problems.not_negative("optimizer.clip_grad_value", self.clip_grad_value);
        problems.not_negative("optimizer.clip_grad_norm", self.clip_grad_norm);
        if self.clip_grad_value > 0.0 && self.clip_grad_norm > 0.0 {
            problems.0.push("optimizer.clip_grad_value and clip_grad_norm are both set; choose one".into());
        }
        problems.positive("optimizer.layer_lr_decay", self.layer_lr_decay);
        let has_momentum = matches!(self.kind, OptimizerKind::Sgd | OptimizerKind::Lars | OptimizerKind::Muon);
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
        problems.chance("schedule.pct_start", self.pct_start);
        problems.positive("schedule.div_factor", self.div_factor);
        problems.positive("schedule.final_div_factor", self.final_div_factor);
        for momentum in self.momentum_range.into_iter().flatten() {
            problems.below_one("schedule.momentum_range", momentum);
        }
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
        problems.below_one("loss.target_threshold", self.target_threshold);
        problems.not_negative("loss.focal_gamma", self.focal_gamma);
        for &weight in &self.class_weights {
            problems.not_negative("loss.class_weights", weight);
        }
        if !self.class_weights.is_empty() && self.class_weights.iter().all(|&weight| weight == 0.0) {
            problems.0.push("loss.class_weights are all 0, which leaves nothing to learn".into());
        }
        if self.balance_classes && !self.class_weights.is_empty() {
            problems
                .0
                .push("loss.balance_classes = true makes the weights that loss.class_weights gives; set one".into());
        }
        if self.target_threshold > 0.0 && self.kind != LossKind::Bce {
            problems.0.push("loss.target_threshold is for loss.kind = \"bce\"".into());
        }
    }
}

impl EmaConfig {
    fn check(&self, problems: &mut Problems) {
        problems.below_one("ema.decay", self.decay);
        problems.at_least_one("ema.every", self.every);
        problems.not_negative("ema.start_epochs", self.start_epochs);
    }
}

impl SwaConfig {
    fn check(&self, epochs: usize, problems: &mut Problems) {
        let rule = format!("at most the number of epochs, {epochs}, so that something is averaged");
        problems.require(self.start_epoch <= epochs, "swa.start_epoch", self.start_epoch, &rule);
        problems.not_negative("swa.lr", self.lr);
    }
}

impl ValidationConfig {
    fn check(&self, problems: &mut Problems) {
        problems.within_limit("validation.patience", self.patience);
    }
}

impl ProgressiveResize {
    fn check(&self, image_size: usize, problems: &mut Problems) {
        problems.at_least_one("augment.progressive.start_size", self.start_size);
        problems.at_least_one("augment.progressive.multiple", self.multiple);
        problems.at_most(image_size, "augment.progressive.start_size", self.start_size);
        problems.not_negative("augment.progressive.start_epoch", self.start_epoch);
        let rule = format!("a finite number, at least start_epoch ({})", self.start_epoch);
        let ordered = self.end_epoch.is_finite() && self.end_epoch >= self.start_epoch;
        problems.require(ordered, "augment.progressive.end_epoch", self.end_epoch, &rule);
    }
}

impl AugmentConfig {
    fn check(&self, problems: &mut Problems) {
        problems.require(self.image_size >= 1, "augment.image_size", self.image_size, "at least 1");
        problems.at_most(MAX_IMAGE_SIZE, "augment.image_size", self.image_size);
        problems.at_most(MAX_IMAGE_SIZE, "augment.val_image_size", self.val_image_size);
        if let Some(progressive) = &self.progressive {
            progressive.check(self.image_size, problems);
        }
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

    fn chance(&mut self, key: &str, value: f64) {
        self.require((0.0..=1.0).contains(&value), key, value, "at least 0 and at most 1");
    }

    fn below_one(&mut self, key: &str, value: f64) {
        self.require((0.0..1.0).contains(&value), key, value, "at least 0 and below 1");
    }
}
