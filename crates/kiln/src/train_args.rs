//! The options of a training run, the same for `kiln train` and the examples.
//!
//! In: the command line. Out: a data set, a [`Recipe`] and a run folder. What isn't said comes from the recipe file, and
//! without one from [`RunDefaults`], which fit the device.

use crate::run_defaults::RunDefaults;
use crate::shipped_recipe::ShippedRecipe;
use anyhow::{Context, bail};
use clap::Args;
use kiln_data::{ByteSize, OpenOptions, Splits, scenes};
use kiln_device::{DeviceRequest, OpenDevice};
use kiln_model::{Arch, Head, LoadOptions, LoadReport, ModelError, Part, ResNet, WeightsFile};
use kiln_train::{Recipe, ResumeFrom, Setting};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where runs go when `--output` isn't given.
const RUNS: &str = "runs";

/// Options of a training run.
#[derive(Args, Clone, Debug, Default)]
pub struct TrainArgs {
    /// Class folders, pictures with a table, shards, CIFAR, IDX or parquet; `kiln inspect` says. Default: the set Kiln draws itself
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// auto, cuda, cuda:1, wgpu, wgpu:0, wgpu:software or cpu
    #[arg(long, value_name = "DEVICE", env = "KILN_DEVICE", default_value = "auto")]
    pub device: DeviceRequest,
    /// resnet18, resnet34, resnet50, ...; `kiln models` lists them
    #[arg(long, value_name = "NAME")]
    pub arch: Option<Arch>,
    /// Passes over the training images
    #[arg(long, value_name = "N")]
    pub epochs: Option<usize>,
    /// Images in a step, or auto: the largest number that fits the device, found by trying
    #[arg(long, value_name = "N")]
    pub batch_size: Option<BatchSize>,
    /// Side of a training image in pixels
    #[arg(long, value_name = "PX")]
    pub image_size: Option<usize>,
    /// Highest learning rate
    #[arg(long, value_name = "RATE")]
    pub lr: Option<f64>,
    /// Decides first weights, order and every augmentation
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Decoding threads; 0 begins with one per core and adapts
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Memory for decoded training pictures, such as 8GiB: later epochs take them from there
    #[arg(long, value_name = "SIZE")]
    pub cache: Option<ByteSize>,
    /// End each epoch after this many batches, in training and validation
    #[arg(long, value_name = "N")]
    pub limit_batches: Option<usize>,
    /// Start from this recipe instead of the defaults for the device: a file (TOML, or JSON by its ending), or one of `kiln recipes`
    #[arg(long, value_name = "FILE_OR_NAME")]
    pub recipe: Option<PathBuf>,
    /// Change one key of the recipe, such as optimizer.lr=0.5; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Setting>,
    /// Run folder. Default: runs/NAME-1, runs/NAME-2, ...
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Begin with the weights of this file: safetensors, or PyTorch's .pth, timm's and Lightning's checkpoints
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub weights: Option<PathBuf>,
    /// The key in that file under which the weights lie, such as model_ema, instead of the likeliest
    #[arg(long, value_name = "KEY", requires = "weights")]
    pub weights_key: Option<String>,
    /// Draw the last layer anew instead of taking the file's, which tells other classes apart
    #[arg(long, requires = "weights")]
    pub reinit_head: bool,
    /// Parts that don't change: stem, layer1, ..., fc, separated by commas. body trains the last layer alone
    #[arg(long, value_name = "PARTS", value_parser = parts)]
    pub freeze: Option<Parts>,
    /// Continue a run from its newest checkpoint, or from the one given
    #[arg(long, value_name = "CHECKPOINT", num_args = 0..=1, default_missing_value = "auto")]
    pub resume: Option<ResumeFrom>,
}

impl TrainArgs {
    /// Opens the data set, or draws the embedded one on first use.
    ///
    /// # Errors
    /// If the folder can't be read as a data set, or the cache folder can't be written.
    pub fn open_data(&self) -> anyhow::Result<Splits> {
        match &self.data {
            Some(folder) => Ok(kiln_data::open(folder, &OpenOptions::default())?),
            None => Ok(scenes::open_or_create(None, &scenes::ScenesConfig::default())?),
        }
    }

    /// The recipe for `device`, and its sizes in words, with where they come from.
    ///
    /// # Errors
    /// If the recipe file can't be read, or the recipe doesn't hold together.
    pub fn recipe(&self, device: &OpenDevice) -> anyhow::Result<(Recipe, String)> {
        let (mut recipe, why) = match &self.recipe {
            Some(file) => (read_recipe(file)?, format!("recipe {}", file.display())),
            None => {
                let defaults = RunDefaults::for_device(device, self.data.is_none());
                (defaults.recipe, defaults.why)
            }
        };
        self.overrule(&mut recipe);
        let recipe = recipe.with(&self.set)?;
        let (side, batch, epochs) = (recipe.augment.image_size, recipe.data.batch_size, recipe.run.epochs);
        let lr = learning_rate(&recipe);
        let sizes = format!("{side} px, batches of {batch}, {epochs} epochs, {lr} ({why})");
        Ok((recipe, sizes))
    }

    /// Settles `--batch-size auto`, which takes the data and the device to do: a resumed run keeps the size it had. Says
    /// what it found.
    ///
    /// # Errors
    /// If not even the smallest batch trains, or the run to resume has no readable recipe.
    pub fn fit_batch(
        &self,
        recipe: &mut Recipe,
        data: &Splits,
        device: &OpenDevice,
        output: &Path,
    ) -> anyhow::Result<Option<String>> {
        if self.batch_size != Some(BatchSize::Auto) {
            return Ok(None);
        }
        let earlier = output.join("recipe.toml");
        if self.resume.is_some() && earlier.exists() {
            recipe.data.batch_size = read_recipe(&earlier)?.data.batch_size;
            return Ok(Some(format!("{} images a step, as the run began", recipe.data.batch_size)));
        }
        let (classes, images) = (data.train.classes().len(), data.train.len());
        recipe.data.batch_size = kiln_train::largest_batch(recipe, classes, images, device)?;
        Ok(Some(format!("{} images a step is what fits; the learning rate is as before", recipe.data.batch_size)))
    }

    /// The network to train, with the weights of `--weights` if given, and what of them was used.
    ///
    /// # Errors
    /// If the file can't be read, or its tensors belong to another network, with every name that doesn't fit.
    pub fn model(
        &self,
        recipe: &Recipe,
        classes: &[String],
        device: &OpenDevice,
    ) -> anyhow::Result<(ResNet, Option<LoadReport>)> {
        let model = recipe.model.resnet(classes.len()).init(recipe.run.seed, &device.device);
        let Some(path) = &self.weights else { return Ok((model, None)) };
        let options = LoadOptions {
            set: self.weights_key.as_deref(),
            classes: Some(classes),
            head: if self.reinit_head { Head::Reinit } else { Head::MustFit },
        };
        let (model, report) = model.load_weights(&WeightsFile::open(path)?, &options)?;
        Ok((model, Some(report)))
    }

    /// The run folder: what `--output` says, else the newest run to resume, else a new one.
    ///
    /// # Errors
    /// If there is no run to resume.
    pub fn output(&self, recipe: &Recipe) -> anyhow::Result<PathBuf> {
        let run = |n: usize| Path::new(RUNS).join(format!("{}-{n}", recipe.model.arch));
        let next = (1..).find(|&n| !run(n).exists()).unwrap_or(1);
        match (&self.output, &self.resume) {
            (Some(folder), _) => Ok(folder.clone()),
            (None, Some(_)) if next == 1 => {
                bail!("there is no run of {} in {RUNS}/ to resume; name its folder with --output", recipe.model.arch)
            }
            (None, Some(_)) => Ok(run(next - 1)),
            (None, None) => Ok(run(next)),
        }
    }

    /// Where to continue from, if `--resume` was given.
    pub fn resume_from(&self) -> Option<ResumeFrom> {
        self.resume.clone()
    }

    fn overrule(&self, recipe: &mut Recipe) {
        set(&mut recipe.model.arch, self.arch);
        set(&mut recipe.run.epochs, self.epochs);
        set(&mut recipe.run.seed, self.seed);
        if let Some(BatchSize::Images(images)) = self.batch_size {
            recipe.data.batch_size = images;
        }
        set(&mut recipe.data.workers, self.workers);
        set(&mut recipe.data.cache, self.cache);
        set(&mut recipe.data.limit_batches, self.limit_batches);
        set(&mut recipe.data.limit_val_batches, self.limit_batches);
        set(&mut recipe.augment.image_size, self.image_size);
        set(&mut recipe.optimizer.lr, self.lr);
        if let Some(Parts(parts)) = &self.freeze {
            recipe.model.freeze = parts.clone();
        }
    }
}

/// Images in a step, as `--batch-size` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSize {
    /// The largest number that fits the device.
    Auto,
    /// That many.
    Images(usize),
}

impl FromStr for BatchSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            number => number.parse().map(Self::Images).map_err(|_| "must be a number or auto".to_owned()),
        }
    }
}

/// Parts of a network, as `--freeze` takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts(pub Vec<Part>);

fn parts(text: &str) -> Result<Parts, ModelError> {
    Part::list(text).map(Parts)
}

fn set<T: Copy>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// The recipe in `file`; if there is no such file and it looks like a name, the one that comes with Kiln.
fn read_recipe(file: &Path) -> anyhow::Result<Recipe> {
    if let Some(name) = file.to_str().filter(|name| !file.exists() && !name.contains(['/', '\\', '.'])) {
        return Ok(Recipe::from_toml(ShippedRecipe::find(name)?.text)?);
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read the recipe {}", file.display()))?;
    let is_json = file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    let recipe = if is_json { Recipe::from_json(&text) } else { Recipe::from_toml(&text) };
    recipe.with_context(|| format!("in the recipe {}", file.display()))
}

/// The highest learning rate, and where it comes from if it was scaled.
fn learning_rate(recipe: &Recipe) -> String {
    let (lr, base, batch) = (recipe.optimizer.lr, recipe.optimizer.lr_base_size, recipe.data.batch_size);
    match base {
        0 => format!("learning rate {lr}"),
        base => format!("learning rate {} = {lr} x {batch} / {base}", recipe.peak_lr()),
    }
}
