//! How a run begins: the parts are checked against each other, and an earlier run's state is put back.

use super::{Run, Trainer};
use crate::checkpoint::{ResumeFrom, described};
use crate::epoch_files::EpochFiles;
use crate::error::TrainError;
use crate::loss::Loss;
use crate::optimizer::ModelOptimizer;
use crate::recipe::Recipe;
use crate::resume::{Expected, origin};
use crate::run_folder::RunFolder;
use crate::sgd::Residence;
use crate::stop::StopFlag;
use crate::throughput::WARMUP_STEPS;
use crate::weight_average::WeightAverage;
use burn::module::Module;
use kiln_data::{Loader, Splits};
use kiln_device::OpenDevice;
use kiln_model::ResNet;
use std::path::Path;

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
        let loss = Loss::new(&recipe.loss, data.train.as_ref(), &device.device.clone().without_autodiff());
        let train = Loader::new(data.train, recipe.data.train_loader(recipe.run.seed))?;
        let val = Loader::new(data.val, recipe.data.val_loader())?;
        let val_augment = recipe.augment.validation();
        let batch_size = recipe.data.batch_size.min(train.num_samples());
        // The first epoch has the smallest images.
        recipe.model.resnet(classes.len()).validate_batch(batch_size, recipe.augment.training_in(0).size)?;
        let schedule = recipe.lr_schedule(train.num_batches());
        let residence = Residence::of(device.backend);
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
            loss,
            schedule,
            folder: RunFolder::new(output),
            resume: None,
            stop: StopFlag::default(),
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
    pub(super) fn begin(&self, model: ResNet) -> Result<Run, TrainError> {
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
            average: self.recipe.average_rule(self.train.num_batches()).map(WeightAverage::new),
            files: EpochFiles::new(self.folder.path(), num_steps_done),
            num_epochs_done: 0,
            num_steps_done: 0,
            best: None,
            metrics: String::new(),
            resumed,
            checkpoint: None,
            last: None,
            warmup_left: WARMUP_STEPS,
        };
        if let Some(found) = found {
            let checkpoint = found.checkpoint;
            run.model = run.model.load_state(&checkpoint.model.into_iter().collect())?;
            run.optimizer
                .load_state(&run.model, checkpoint.optimizer, &self.device)
                .map_err(|problem| TrainError::OptimizerState { path: found.path.clone(), problem })?;
            run.num_epochs_done = checkpoint.state.num_epochs_done;
            run.num_steps_done = (run.num_epochs_done * self.train.num_batches()) as u64;
            run.best = checkpoint.state.best;
            run.metrics = checkpoint.metrics;
            run.checkpoint = Some(found.path);
        }
        self.folder.write_metrics(&run.metrics)?;
        Ok(run)
    }
}
