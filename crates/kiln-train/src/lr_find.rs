//! The learning-rate finder: a short run whose learning rate grows until the loss does.
//!
//! In: a recipe, a device, training images, a model. Out: the loss at each learning rate, and the rate at which it falls
//! fastest. Loss, optimiser, augmentation and order are the recipe's; the model is spoilt.
//! Source: Smith, arXiv 1506.01186, section 3.3, with the growing steps, the smoothing and the end of fastai's finder
//! (Howard and Gugger, arXiv 2002.04688).
//! It reads the loss at each step, so it waits for the device at each step.

use crate::error::TrainError;
use crate::loss::Loss;
use crate::optimizer::ModelOptimizer;
use crate::recipe::Recipe;
use crate::sgd::Residence;
use burn::module::Module;
use kiln_data::{Dataset, Loader};
use kiln_device::{OpenDevice, Trouble};
use kiln_model::ResNet;
use std::sync::Arc;

/// Share of the smoothed loss kept from step to step, fastai's.
const SMOOTHING: f64 = 0.98;

/// The sweep ends when the smoothed loss is this many times its lowest, fastai's.
const DIVERGED: f64 = 4.0;

/// Share of the steps at either end that say little: at first nothing moves, at last everything does.
const SETTLING: f64 = 0.1;

/// Which learning rates are tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LrSweep {
    /// The first. Default 1e-6.
    pub start_lr: f64,
    /// The last. Default 10.
    pub end_lr: f64,
    /// Steps from one to the other, each a constant factor further. Default 100.
    pub steps: usize,
}

impl Default for LrSweep {
    fn default() -> Self {
        Self { start_lr: 1e-6, end_lr: 10.0, steps: 100 }
    }
}

/// One step of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LrPoint {
    /// Learning rate of the step.
    pub lr: f64,
    /// The loss before it.
    pub loss: f64,
    /// The same, smoothed over the steps so far.
    pub smoothed: f64,
}

/// What a sweep found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LrCurve {
    /// The steps in order.
    pub points: Vec<LrPoint>,
    /// Whether the loss grew so far that the sweep ended early.
    pub diverged: bool,
}

impl LrSweep {
    /// The learning rate of `step`, counted from 0.
    pub fn lr(&self, step: usize) -> f64 {
        let done = step as f64 / (self.steps.saturating_sub(1)).max(1) as f64;
        self.start_lr * (self.end_lr / self.start_lr).powf(done)
    }

    fn check(&self) -> Result<(), TrainError> {
        let mut problems = Vec::new();
        let positive = |lr: f64| lr.is_finite() && lr > 0.0;
        if !positive(self.start_lr) || !positive(self.end_lr) || self.start_lr >= self.end_lr {
            let (start, end) = (self.start_lr, self.end_lr);
            problems.push(format!("learning rates from {start} to {end}: both must be above 0, and the second higher"));
        }
        if self.steps < 2 {
            problems.push(format!("{} steps: a sweep needs at least 2", self.steps));
        }
        if problems.is_empty() { Ok(()) } else { Err(TrainError::InvalidRecipe { problems }) }
    }
}

impl LrCurve {
    /// Adds a step. Returns whether the sweep should go on.
    pub fn push(&mut self, lr: f64, loss: f64) -> bool {
        let before = self.points.len() as i32;
        // The mean of the losses so far, newer ones counting more.
        let kept = self.points.last().map_or(0.0, |last| last.smoothed * (1.0 - SMOOTHING.powi(before)));
        let smoothed = (SMOOTHING * kept + (1.0 - SMOOTHING) * loss) / (1.0 - SMOOTHING.powi(before + 1));
        if !smoothed.is_finite() {
            self.diverged = true;
            return false;
        }
        self.points.push(LrPoint { lr, loss, smoothed });
        let lowest = self.points.iter().map(|point| point.smoothed).fold(f64::INFINITY, f64::min);
        self.diverged = before > 0 && smoothed > DIVERGED * lowest;
        !self.diverged
    }

    /// The learning rate at which the smoothed loss falls fastest per factor of learning rate: a good highest one for a
    /// schedule with warm-up. `None` if the loss never fell.
    pub fn steepest(&self) -> Option<f64> {
        let skipped = (self.points.len() as f64 * SETTLING) as usize;
        let slopes = self.points.windows(2).skip(skipped).map(|pair| {
            let [before, after] = [pair[0], pair[1]];
            ((after.smoothed - before.smoothed) / (after.lr / before.lr).ln(), (before.lr * after.lr).sqrt())
        });
        let steepest = slopes.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (steepest.0 < 0.0).then_some(steepest.1)
    }

    /// The learning rate with the lowest smoothed loss: about the highest that still trains.
    pub fn lowest(&self) -> Option<f64> {
        self.points.iter().min_by(|a, b| a.smoothed.total_cmp(&b.smoothed)).map(|point| point.lr)
    }
}

/// Trains `model` for a few steps with growing learning rates; `watch` is told of each.
///
/// # Errors
/// [`TrainError::InvalidRecipe`] with every problem of recipe and sweep; [`TrainError::Data`]; [`TrainError::Model`] if a
/// batch is too small to train on; [`TrainError::Device`].
pub fn lr_find(
    recipe: &Recipe,
    device: &OpenDevice,
    train: Arc<dyn Dataset>,
    model: ResNet,
    sweep: &LrSweep,
    watch: &mut dyn FnMut(&LrPoint),
) -> Result<LrCurve, TrainError> {
    recipe.validate()?;
    sweep.check()?;
    let num_classes = train.classes().len();
    recipe.check_classes(num_classes)?;
    let plain = device.device.clone().without_autodiff();
    let loss = Loss::new(&recipe.loss, train.as_ref(), &plain);
    let loader = Loader::new(train, recipe.data.train_loader(recipe.run.seed))?;
    let augment = recipe.augment.training();
    let batch_size = recipe.data.batch_size.min(loader.num_samples());
    recipe.model.resnet(num_classes).validate_batch(batch_size, augment.size)?;
    let residence = Residence::of(device.backend);

    let mut model = model.freeze_parts(&recipe.model.freeze).fork(&plain).train();
    let mut optimizer = ModelOptimizer::new(&recipe.optimizer, model.parameter_names(), residence);
    let mut curve = LrCurve::default();
    for epoch in 0.. {
        for batch in loader.epoch(epoch).upload(&plain, &augment, recipe.run.seed) {
            let batch = batch?;
            let lr = sweep.lr(curve.points.len());
            let targets = batch.soft_targets(num_classes, 0.0);
            let loss = loss.of(model.forward(batch.images), targets);
            let device_error = |reason: String| {
                let trouble = Trouble::of(&reason);
                TrainError::Device { epoch: epoch as usize + 1, reason, trouble, checkpoint: None }
            };
            let values: Vec<f32> =
                loss.clone().without_autodiff().try_into_vec_as().map_err(|error| device_error(error.to_string()))?;
            let goes_on = curve.push(lr, f64::from(values[0]));
            if let Some(point) = curve.points.last() {
                watch(point);
            }
            if !goes_on || curve.points.len() == sweep.steps {
                return Ok(curve);
            }
            model = optimizer.step(lr, model, loss.backward());
        }
    }
    Ok(curve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_data::scenes::{self, ScenesConfig};
    use kiln_device::DeviceRequest;

    #[test]
    fn learning_rates_grow_by_a_constant_factor() {
        let sweep = LrSweep { start_lr: 1e-3, end_lr: 10.0, steps: 5 };
        let lrs: Vec<f64> = (0..5).map(|step| sweep.lr(step)).collect();
        for (got, want) in lrs.iter().zip([1e-3, 1e-2, 1e-1, 1.0, 10.0]) {
            assert!((got / want - 1.0).abs() < 1e-12, "{lrs:?}");
        }
    }

    #[test]
    fn the_steepest_fall_is_suggested_and_the_sweep_ends_when_the_loss_grows() {
        let sweep = LrSweep { start_lr: 1e-5, end_lr: 10.0, steps: 121 };
        let mut curve = LrCurve::default();
        // Falls around 1e-2, explodes above 1.
        let loss = |lr: f64| 2.0 - 1.0 / (1.0 + (1e-2 / lr).powi(4)) + (lr / 2.0).powi(6);
        let mut taken = 0;
        while taken < sweep.steps {
            taken += 1;
            if !curve.push(sweep.lr(taken - 1), loss(sweep.lr(taken - 1))) {
                break;
            }
        }
        let suggested = curve.steepest().expect("the loss falls");
        // Smoothing sees it late, by less than an order of magnitude.
        assert!((1e-2..1e-1).contains(&suggested), "{suggested}");
        assert!(curve.diverged && taken < sweep.steps, "{taken}");
        assert!(curve.lowest().expect("points") > suggested);
    }

    #[test]
    fn a_loss_that_only_grows_suggests_nothing() {
        let mut curve = LrCurve::default();
        for step in 0..10 {
            curve.push(0.1 * f64::from(step + 1), 1.0 + 0.01 * f64::from(step));
        }
        assert_eq!(curve.steepest(), None);
        assert!(!curve.push(2.0, f64::NAN) && curve.diverged, "a broken loss ends the sweep");
        assert_eq!(curve.points.len(), 10);
    }

    #[test]
    fn a_sweep_trains_with_the_recipe_s_parts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = ScenesConfig { train_images: 20, val_images: 10, size: 48, ..ScenesConfig::default() };
        let data = scenes::open_or_create(Some(folder.path()), &config).expect("a data set");
        let text = "[data]\nbatch_size = 8\n[model]\narch = 'resnet18'\nwidth = 4\n[augment]\nimage_size = 32\n";
        let recipe = Recipe::from_toml(text).expect("a recipe");
        let device = kiln_device::open(&DeviceRequest::Cpu).expect("the CPU");
        let model = recipe.model.resnet(data.train.classes().len()).init(0, &device.device);
        let sweep = LrSweep { start_lr: 1e-4, end_lr: 1.0, steps: 5 };
        let mut watched = 0;
        let curve =
            lr_find(&recipe, &device, data.train.clone(), model, &sweep, &mut |_| watched += 1).expect("a sweep");
        assert_eq!((curve.points.len(), watched), (5, 5), "two epochs and a half");
        assert!((curve.points[0].loss - 10f64.ln()).abs() < 1.5, "{curve:?}");
        let model = recipe.model.resnet(10).init(0, &device.device);
        let nonsense = LrSweep { start_lr: 0.0, end_lr: f64::NAN, steps: 1 };
        let error = lr_find(&recipe, &device, data.train, model, &nonsense, &mut |_| ()).expect_err("nonsense");
        assert!(error.to_string().contains("steps") && error.to_string().contains("above 0"), "{error}");
    }
}
