//! How a run begins: the parts are checked against each other, and an earlier run's state is put back.

use super::faults::Faults;
use super::recover::Recoveries;
use super::save::Saved;
use super::{Run, Trainer};
use crate::checkpoint::{ResumeFrom, RunState, UnderWay, described};
use crate::epoch_files::EpochFiles;
use crate::error::TrainError;
use crate::loss::Loss;
use crate::optimizer::ModelOptimizer;
use crate::precision::Precision;
use crate::recipe::Recipe;
use crate::resume::{Expected, origin};
use crate::run_folder::RunFolder;
use crate::sgd::Residence;
use crate::stop::StopFlag;
use crate::throughput::WARMUP_STEPS;
use crate::watchdog::Watchdog;
use crate::weight_average::WeightAverage;
use burn::module::Module;
use kiln_data::{Loader, Splits};
use kiln_device::OpenDevice;
use kiln_model::ResNet;
use std::path::Path;
use std::time::Duration;

impl Trainer {
    /// Checks that recipe, data and device fit together. Writes nothing yet.
    ///
    /// # Errors
    /// [`TrainError::InvalidRecipe`] with every problem; [`TrainError::Data`] if a split is empty;
    /// [`TrainError::Model`] if a batch is too small to train on.
    ///
    /// # Panics
    /// If the splits differ in their classes; `kiln-data` never opens such splits.
    pub fn new(recipe: Recipe, device: &OpenDevice, data: Splits, output: &Path) -> Result<Self, TrainError> {
        recipe.validate()?;
        let classes = data.train.classes().to_vec();
        assert_eq!(classes, data.val.classes(), "both splits have the classes that training defines");
        recipe.check_classes(classes.len())?;
        let train = Loader::new(data.train, recipe.data.train_loader(recipe.run.seed))?;
        let val = Loader::new(data.val, recipe.data.val_loader())?;
        let val_augment = recipe.augment.validation();
        let batch_size = recipe.data.batch_size.min(train.num_samples());
        // The first epoch has the smallest images.
        let size = recipe.augment.training_in(0).size;
        let network = recipe.model.resnet(classes.len());
        let micro_batch = recipe.run.micro_batch_size;
        let part = if micro_batch == 0 { batch_size } else { micro_batch.min(batch_size) };
        network.validate_batch(part, size)?;
        let smallest_part = if network.validate_batch(1, size).is_ok() { 1 } else { 2 };
        let schedule = recipe.lr_schedule(train.num_batches());
        let residence = Residence::of(device.backend);
        let request = device.choice.chosen.request;
        let minutes = recipe.run.watchdog_minutes;
        let limit = Duration::try_from_secs_f64(60.0 * minutes).ok().filter(|_| minutes > 0.0);
        let watchdog = Watchdog::start(limit, |warning| tracing::warn!("{warning}"));
        Ok(Self {
            recipe,
            device: device.device.clone().without_autodiff(),
            device_name: format!("{} ({})", device.backend, device.name),
            device_summary: device.summary(),
            pci_address: device.choice.chosen.pci_address,
            residence,
            classes,
            train,
            val,
            val_augment,
            schedule,
            folder: RunFolder::new(output),
            resume: None,
            stop: StopFlag::default(),
            micro_batch,
            smallest_part,
            precision: Precision::F32,
            epoch: 1,
            saved: None,
            watchdog,
            reopen: Box::new(move || kiln_device::open(&request)),
            recoveries: Recoveries::default(),
            faults: Faults::default(),
        })
    }

    /// Continues an earlier run instead of beginning one.
    pub fn resume(mut self, from: ResumeFrom) -> Self {
        self.resume = Some(from);
        self
    }

    /// Stops when `flag` says so, after the step the run is in.
    pub fn stop_with(mut self, flag: StopFlag) -> Self {
        self.stop = flag;
        self
    }

    /// The run at its first step, or where the one to resume had got to; the output folder is ready for it.
    pub(super) fn begin(&mut self, model: ResNet) -> Result<Run, TrainError> {
        let wanted = self.recipe.model.resnet(self.classes.len());
        let (given, asked) = (described(model.config()), described(&wanted));
        if given != asked {
            return Err(TrainError::WrongModel { given, asked });
        }
        let expected = Expected { recipe: &self.recipe, classes: &self.classes, model: &wanted };
        let (found, resumed) = origin(self.resume.as_ref(), &self.folder, &expected)?;

        let model = model.freeze_parts(&self.recipe.model.freeze).fork(&self.device).train();
        let optimizer = ModelOptimizer::new(&self.recipe.optimizer, model.parameter_names(), self.residence);
        self.folder.prepare(&self.recipe)?;
        let num_steps_done = found.as_ref().map_or(0, |found| found.checkpoint.state.num_steps_done);
        let mut run = Run {
            model,
            optimizer,
            loss: Loss::new(&self.recipe.loss, self.train.dataset().as_ref(), &self.device),
            average: self.recipe.average_rule(self.train.num_batches()).map(WeightAverage::new),
            files: EpochFiles::new(self.folder.path(), num_steps_done),
            num_epochs_done: 0,
            num_steps_done: 0,
            under_way: UnderWay::default(),
            loss_scale: self.precision.loss_scale(),
            best: None,
            metrics: String::new(),
            resumed,
            last: None,
            warmup_left: WARMUP_STEPS,
            recent: Vec::new(),
        };
        self.saved = None;
        if let Some(found) = found {
            let checkpoint = found.checkpoint;
            run.model = run.model.load_state(&checkpoint.model.into_iter().collect())?;
            if let Some(average) = run.average.as_mut().filter(|_| !checkpoint.ema.is_empty()) {
                average.load(&run.model.clone().load_state(&checkpoint.ema)?);
            }
            run.optimizer
                .load_state(&run.model, checkpoint.optimizer, &self.device)
                .map_err(|problem| TrainError::OptimizerState { path: found.path.clone(), problem })?;
            let position = checkpoint.state.position();
            run.num_epochs_done = checkpoint.state.num_epochs_done;
            run.under_way = self.under_way(&checkpoint.state);
            run.num_steps_done =
                (run.num_epochs_done * self.train.num_batches() + run.under_way.num_batches_done) as u64;
            run.loss_scale = run.loss_scale.map(|first| checkpoint.state.loss_scale.unwrap_or(first));
            run.best = checkpoint.state.best;
            run.metrics = checkpoint.metrics;
            if self.folder.checkpoints().contains(&found.path) {
                self.saved = Some(Saved::now(position, found.path));
            }
        }
        self.epoch = run.num_epochs_done + 1;
        self.folder.write_metrics(&run.metrics)?;
        if self.saved.is_none() {
            self.save(&run)?;
        }
        Ok(run)
    }

    /// The epoch under way in a checkpoint. If the recipe's batches have another size since, the batch that the first
    /// untrained image is in comes next: a few images are seen twice, none is left out.
    fn under_way(&self, state: &RunState) -> UnderWay {
        let Some(under_way) = state.under_way.clone() else { return UnderWay::default() };
        let num_images = under_way.num_batches_done * state.recipe.data.batch_size;
        let num_batches_done = (num_images / self.recipe.data.batch_size).min(self.train.num_batches());
        UnderWay { num_batches_done, ..under_way }
    }
}
