//! The recipe: everything about a run that isn't the data, the device or the output folder.
//!
//! In and out: TOML with one table per subject, or the same struct in Rust; every key has a default.
//! An unknown key is an error that names the nearest valid one, so that a typing error can't silently train with a
//! default. The resolved recipe, every default written out, is stored beside the results and in each checkpoint.
//! Source of the defaults: He et al., arXiv 1812.01187 (ResNet-50 with warm-up, cosine, label smoothing, no decay on
//! norms and biases), shortened to 30 epochs.
//! Touches neither disk nor clock.

use crate::error::TrainError;
use crate::schedule::{AfterWarmup, Curve, Schedule, Warmup, WarmupShape};
use kiln_data::{Augment, Augmentation, LoaderConfig, OnError};
use kiln_model::{Arch, ResNetConfig, Stem};
use serde::{Deserialize, Serialize};

/// More than anyone means, and small enough that no product of two counts overflows.
const MAX_COUNT: usize = 1 << 24;

/// Everything about a run that isn't the data, the device or the output folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// How long, from which seed.
    pub run: RunConfig,
    /// How batches are made of a data set.
    pub data: DataConfig,
    /// The network.
    pub model: ModelConfig,
    /// How weights change.
    pub optimizer: OptimizerConfig,
    /// The learning rate over the run.
    pub schedule: ScheduleConfig,
    /// What is minimised.
    pub loss: LossConfig,
    /// What happens to a picture. Last, since TOML wants tables after values.
    pub augment: AugmentConfig,
}

/// `[run]`: how long, from which seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// Passes over the training images. Default 30.
    pub epochs: usize,
    /// Determines first weights, order and every draw. Default 0.
    pub seed: u64,
    /// Newest checkpoints kept, the best model apart. Default 2: one to fall back on if the newest is damaged.
    pub keep_checkpoints: usize,
}

/// `[data]`: how batches are made of a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Images in a step. Default 64.
    pub batch_size: usize,
    /// Images in a validation batch; 0, the default, takes `batch_size`.
    pub val_batch_size: usize,
    /// Decoding threads; 0, the default, takes one per core.
    pub workers: usize,
    /// Leave out a last training batch that isn't full, unless it is the only one. Default true: every step has the
    /// same shape, which a GPU tunes its kernels for once. The order changes each epoch, so no image is always left out.
    pub drop_last: bool,
    /// End a training epoch after this many batches; 0, the default, is never.
    pub limit_batches: usize,
    /// End validation after this many batches; 0, the default, is never.
    pub limit_val_batches: usize,
    /// Bytes that decoded pictures may take while they wait, in MiB. Default 256.
    pub queue_mib: usize,
    /// What to do with a damaged file: `skip` (the default) or `fail`.
    pub on_error: OnError,
}

/// `[model]`: the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Which. Default `resnet50`.
    pub arch: Arch,
    /// Channels of the first stage. Default 64, the published nets'.
    pub width: usize,
    /// First layers: `conv7x7`, `deep3x3`, or `small` for images of about 32 px. Default: the published net's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stem: Option<Stem>,
    /// Start each residual branch at zero. Default true (Goyal et al., arXiv 1706.02677, section 5.1).
    pub zero_init_last_gamma: bool,
}

/// `[optimizer]`: how weights change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizerConfig {
    /// The rule. Only `sgd` so far.
    pub kind: OptimizerKind,
    /// Highest learning rate, as used: it isn't scaled by the batch size. Default 0.05; published recipes use 0.1 for
    /// 256 images a step, and in proportion.
    pub lr: f64,
    /// Share of the momentum buffer kept from step to step. Default 0.9.
    pub momentum: f64,
    /// Nesterov's momentum. Default true.
    pub nesterov: bool,
    /// Weight decay of weights. Default 5e-5, of torchvision's and NVIDIA's tuned recipes (ResNet's paper: 1e-4).
    pub weight_decay: f64,
    /// Weight decay of norms' gammas and betas and of biases. Default 0.
    pub norm_bias_weight_decay: f64,
}

/// Update rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// Stochastic gradient descent with momentum, PyTorch's numbers.
    #[default]
    Sgd,
}

/// `[schedule]`: the learning rate over the run, by step. Lengths are in epochs, fractions allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleConfig {
    /// Shape after the warm-up. Default `cosine`.
    pub kind: ScheduleKind,
    /// Length of the warm-up. Default 2.
    pub warmup_epochs: f64,
    /// First learning rate of the warm-up, as a share of the highest. Default 0.01, torchvision's.
    pub warmup_start: f64,
    /// Shape of the warm-up: `linear` (the default) or `constant`.
    pub warmup_shape: WarmupShape,
    /// Learning rate at the end of `cosine`, `polynomial` and `warm_restarts`, absolute. Default 0.
    pub final_lr: f64,
    /// `step`: epochs between drops. Default 30.
    pub step_epochs: f64,
    /// `multi_step`: epochs, counted from the end of the warm-up, at which to drop. Default none.
    pub milestones: Vec<f64>,
    /// `step`, `multi_step`: factor of a drop; `exponential`: factor of an epoch. Default 0.1.
    pub gamma: f64,
    /// `polynomial`: exponent; 1, the default, is a straight line.
    pub power: f64,
    /// `warm_restarts`: length of the first cycle. Default 10.
    pub cycle_epochs: f64,
    /// `warm_restarts`: length of a cycle over that of the one before. Default 2.
    pub cycle_growth: f64,
    /// `warm_restarts`: peak of a cycle over that of the one before. Default 1.
    pub cycle_decay: f64,
}

/// Shapes of a schedule; the formulas are in [`Curve`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// Half a cosine down to `final_lr`.
    #[default]
    Cosine,
    /// The highest learning rate throughout.
    Constant,
    /// A drop every `step_epochs`.
    Step,
    /// A drop at each of `milestones`.
    MultiStep,
    /// A factor of `gamma` each epoch.
    Exponential,
    /// A power of the share left.
    Polynomial,
    /// Cosine cycles.
    WarmRestarts,
}

/// `[loss]`: what is minimised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossConfig {
    /// Share of the target given to all classes alike. Default 0.1 (Szegedy et al., arXiv 1512.00567, section 7).
    /// Validation reports the plain loss.
    pub label_smoothing: f64,
}

/// `[augment]`: what happens to a picture before the network sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AugmentConfig {
    /// Side of a training image in pixels. Default 224.
    pub image_size: usize,
    /// Side of a validation image in pixels; 0, the default, takes `image_size`.
    pub val_image_size: usize,
    /// Mean of each channel on the scale 0–1, subtracted. Default ImageNet's.
    pub mean: [f32; 3],
    /// Standard deviation of each channel on the scale 0–1, divided by. Default ImageNet's.
    pub std: [f32; 3],
    /// Training augmentations in order. Default: random resized crop and horizontal flip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<Vec<Augmentation>>,
    /// Validation steps in order. Default: resize the shorter side to 8/7 of the image size, crop the centre.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub val: Option<Vec<Augmentation>>,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self { epochs: 30, seed: 0, keep_checkpoints: 2 }
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            batch_size: 64,
            val_batch_size: 0,
            workers: 0,
            drop_last: true,
            limit_batches: 0,
            limit_val_batches: 0,
            queue_mib: 256,
            on_error: OnError::Skip,
        }
    }
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self { arch: Arch::ResNet50, width: 64, stem: None, zero_init_last_gamma: true }
    }
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self {
            kind: OptimizerKind::Sgd,
            lr: 0.05,
            momentum: 0.9,
            nesterov: true,
            weight_decay: 5e-5,
            norm_bias_weight_decay: 0.0,
        }
    }
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self {
            kind: ScheduleKind::Cosine,
            warmup_epochs: 2.0,
            warmup_start: 0.01,
            warmup_shape: WarmupShape::Linear,
            final_lr: 0.0,
            step_epochs: 30.0,
            milestones: Vec::new(),
            gamma: 0.1,
            power: 1.0,
            cycle_epochs: 10.0,
            cycle_growth: 2.0,
            cycle_decay: 1.0,
        }
    }
}

impl Default for LossConfig {
    fn default() -> Self {
        Self { label_smoothing: 0.1 }
    }
}

impl Default for AugmentConfig {
    fn default() -> Self {
        let Augment { mean, std, .. } = Augment::eval(224);
        Self { image_size: 224, val_image_size: 0, mean, std, train: None, val: None }
    }
}

impl Recipe {
    /// Reads a recipe; keys that aren't given get their default.
    ///
    /// # Errors
    /// [`TrainError::RecipeSyntax`] with the line, and for an unknown key the nearest valid one;
    /// [`TrainError::InvalidRecipe`] if values are out of range.
    pub fn from_toml(text: &str) -> Result<Self, TrainError> {
        let recipe: Self = toml::from_str(text).map_err(|error| syntax_error(text, &error))?;
        recipe.validate()?;
        Ok(recipe)
    }

    /// Writes the recipe, every default included.
    ///
    /// # Errors
    /// [`TrainError::InvalidRecipe`] if a number is too large for TOML, which [`validate`](Self::validate) finds too.
    pub fn to_toml(&self) -> Result<String, TrainError> {
        toml::to_string(&self.resolved())
            .map_err(|error| TrainError::InvalidRecipe { problems: vec![error.to_string()] })
    }

    /// The recipe with every default written out, the augmentations' too.
    pub fn resolved(&self) -> Self {
        let mut resolved = self.clone();
        resolved.augment.train = Some(self.augment.training().steps);
        resolved.augment.val = Some(self.augment.validation().steps);
        resolved.augment.val_image_size = self.augment.val_size();
        resolved.data.val_batch_size = self.data.val_batch();
        resolved.model.stem = Some(self.model.resnet(1).stem);
        resolved
    }

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

    /// Keys whose values differ, as `key: this recipe's value, not the other's`.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let (ours, theirs) = (flattened(&self.resolved()), flattened(&other.resolved()));
        let keys: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        let value = |of: &Flat, key: &str| of.get(key).cloned().unwrap_or_else(|| "unset".into());
        let differing = keys.into_iter().filter(|key| ours.get(*key) != theirs.get(*key));
        differing.map(|key| format!("{key}: {}, not {}", value(&ours, key), value(&theirs, key))).collect()
    }
}

impl RunConfig {
    fn check(&self, problems: &mut Problems) {
        problems.at_least_one("run.epochs", self.epochs);
        problems.at_least_one("run.keep_checkpoints", self.keep_checkpoints);
        problems.require(i64::try_from(self.seed).is_ok(), "run.seed", self.seed, "below 2^63, TOML's limit");
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
            on_error: self.on_error,
            ..LoaderConfig::default()
        }
    }

    /// How validation images are loaded: all of them, in their order.
    pub fn val_loader(&self) -> LoaderConfig {
        LoaderConfig {
            batch_size: self.val_batch(),
            shuffle: false,
            drop_last: false,
            limit_batches: (self.limit_val_batches > 0).then_some(self.limit_val_batches),
            ..self.train_loader(0)
        }
    }

    fn val_batch(&self) -> usize {
        if self.val_batch_size == 0 { self.batch_size } else { self.val_batch_size }
    }

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
    /// The network for `num_classes` classes.
    pub fn resnet(&self, num_classes: usize) -> ResNetConfig {
        let published = ResNetConfig::new(self.arch);
        ResNetConfig {
            num_classes,
            width: self.width,
            zero_init_last_gamma: self.zero_init_last_gamma,
            stem: self.stem.unwrap_or(published.stem),
            ..published
        }
    }

    fn check(&self, problems: &mut Problems) {
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
        if self.nesterov && self.momentum == 0.0 {
            problems.0.push("optimizer.nesterov = true needs a momentum above 0".into());
        }
    }
}

impl ScheduleConfig {
    /// The schedule of a run of `epochs` epochs of `steps_per_epoch` steps.
    pub fn schedule(&self, base_lr: f64, epochs: usize, steps_per_epoch: usize) -> Schedule {
        let steps = |epochs: f64| (epochs * steps_per_epoch as f64).round() as u64;
        let warmup_steps = steps(self.warmup_epochs);
        let curve_steps = steps(epochs as f64).saturating_sub(warmup_steps);
        let (gamma, final_lr) = (self.gamma, self.final_lr);
        let curve = match self.kind {
            ScheduleKind::Cosine => Curve::Cosine { steps: curve_steps, final_lr },
            ScheduleKind::Constant => Curve::Constant,
            ScheduleKind::Step => Curve::Step { every: steps(self.step_epochs), gamma },
            ScheduleKind::MultiStep => {
                Curve::MultiStep { milestones: self.milestones.iter().map(|&at| steps(at)).collect(), gamma }
            }
            ScheduleKind::Exponential => {
                Curve::Exponential { gamma: gamma.powf(1.0 / steps_per_epoch.max(1) as f64) }
            }
            ScheduleKind::Polynomial => Curve::Polynomial { steps: curve_steps, power: self.power, final_lr },
            ScheduleKind::WarmRestarts => Curve::WarmRestarts {
                first: steps(self.cycle_epochs),
                growth: self.cycle_growth,
                decay: self.cycle_decay,
                cycles: None,
                final_lr,
            },
        };
        let warmup = Warmup {
            steps: warmup_steps,
            start_lr: base_lr * self.warmup_start,
            shape: self.warmup_shape,
            then: AfterWarmup::StartCurve,
        };
        Schedule { base_lr, warmup, curve }
    }

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
    /// What happens to a training image.
    pub fn training(&self) -> Augment {
        self.with_norm(Augment::train(self.image_size), &self.train)
    }

    /// What happens to a validation image.
    pub fn validation(&self) -> Augment {
        self.with_norm(Augment::eval(self.val_size()), &self.val)
    }

    fn val_size(&self) -> usize {
        if self.val_image_size == 0 { self.image_size } else { self.val_image_size }
    }

    fn with_norm(&self, default: Augment, steps: &Option<Vec<Augmentation>>) -> Augment {
        let (mean, std) = (self.mean, self.std);
        let steps = steps.clone().unwrap_or_else(|| default.steps.clone());
        Augment { steps, mean, std, ..default }
    }

    fn check(&self, problems: &mut Problems) {
        problems.at_least_one("augment.image_size", self.image_size);
        problems.within_limit("augment.val_image_size", self.val_image_size);
        if self.image_size == 0 {
            return;
        }
        for (key, augment) in [("augment.train", self.training()), ("augment.val", self.validation())] {
            let found = augment.validate().err().unwrap_or_default();
            problems.0.extend(found.into_iter().map(|problem| format!("{key}: {problem}")));
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
        self.require(value <= MAX_COUNT, key, value, &format!("at most {MAX_COUNT}"));
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

/// Turns the parser's error into one line; an unknown name gets the nearest of the names that were expected.
fn syntax_error(text: &str, error: &toml::de::Error) -> TrainError {
    let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    let problem = error.message().replace('\n', " ");
    let mut names = problem.split('`').skip(1).step_by(2);
    let nearest = names.next().and_then(|unknown| {
        let similarity = |name: &&str| (strsim::jaro_winkler(unknown, name) * 1e6) as u64;
        names.max_by_key(similarity).filter(|name| strsim::jaro_winkler(unknown, name) > 0.7)
    });
    let problem = match nearest {
        Some(name) if problem.starts_with("unknown") => format!("{problem}; did you mean `{name}`?"),
        _ => problem,
    };
    TrainError::RecipeSyntax { line, problem }
}

type Flat = std::collections::BTreeMap<String, String>;

/// Every value under its full key.
fn flattened(recipe: &Recipe) -> Flat {
    fn walk(prefix: &str, value: &toml::Value, out: &mut Flat) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    walk(&key, value, out);
                }
            }
            other => {
                out.insert(prefix.to_owned(), other.to_string());
            }
        }
    }
    let mut flat = Flat::new();
    // A number too large for TOML can't be compared; `validate` refuses it before anyone asks.
    if let Ok(value) = toml::Value::try_from(recipe) {
        walk("", &value, &mut flat);
    }
    flat
}

#[cfg(test)]
mod tests;
