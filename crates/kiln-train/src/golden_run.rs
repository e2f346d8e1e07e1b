//! The golden steps once more, through a recipe, the loader, the augmentation and the trainer.

use crate::golden::{Golden, labels, net_input, parameter, tensor_f64};
use crate::recipe::Recipe;
use crate::report::{Observer, StepReport};
use crate::trainer::Trainer;
use burn::tensor::TensorData;
use image::{ImageFormat, RgbImage};
use kiln_data::{DataError, Dataset, Loader, Sample, Splits};
use kiln_device::DeviceRequest;
use kiln_model::State;
use safetensors::SafeTensors;
use std::io::Cursor;
use std::sync::Arc;

/// The run that is repeated.
const RUN: &str = "narrow_r18/sgd_nesterov_wd_excl_1d";

/// f32 against f64 after three steps, the manifest's: of a value of its size or of its tensor's root mean square.
const RELATIVE: f64 = 1e-4;

/// Golden images, each at the index where the shuffled order wants it.
struct Images {
    classes: Vec<String>,
    files: Vec<(Vec<u8>, u32)>,
}

impl Images {
    /// Images `0..count` of `size` pixels, image `n` at index `order[n]`.
    fn new(tag: &str, order: &[usize], size: usize) -> Self {
        let mut files = vec![(Vec::new(), 0); order.len()];
        for (image, &index) in order.iter().enumerate() {
            let values = net_input(tag, image, 1, size);
            let byte = |x: u32, y: u32, channel: usize| {
                let value = values[(channel * size + y as usize) * size + x as usize];
                (value * 64.0 + 127.5) as u8
            };
            let picture = RgbImage::from_fn(size as u32, size as u32, |x, y| {
                image::Rgb([0, 1, 2].map(|channel| byte(x, y, channel)))
            });
            let mut bytes = Cursor::new(Vec::new());
            picture.write_to(&mut bytes, ImageFormat::Png).expect("a PNG");
            files[index] = (bytes.into_inner(), labels(image, 1, 10)[0] as u32);
        }
        Self { classes: (0..10).map(|class| class.to_string()).collect(), files }
    }
}

impl Dataset for Images {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        Ok(Sample::encoded(self.files[index].0.clone(), self.label(index)))
    }

    fn name(&self, index: usize) -> String {
        format!("{index}.png")
    }

    fn label(&self, index: usize) -> u32 {
        self.files[index].1
    }
}

/// Notes learning rate and mean loss of each step.
#[derive(Default)]
struct Steps(Vec<StepReport>);

impl Observer for Steps {
    fn step(&mut self, report: &StepReport) {
        self.0.push(*report);
    }
}

fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

#[test]
fn three_steps_of_a_recipe_equal_those_of_pytorch() {
    let golden = Golden::open();
    let entry = golden.entry("train_narrow.safetensors").filter(|entry| entry["runs"][RUN].is_object());
    let Some(entry) = entry else {
        eprintln!("skipped: no {RUN} in {}", golden.folder().display());
        return;
    };
    let (run, sgd) = (&entry["runs"][RUN], &entry["sgd"]);
    let size = entry["size"].as_u64().expect("a size") as usize;
    let text = format!(
        "[run]\nepochs = 1\n[data]\nbatch_size = {}\nlimit_val_batches = 1\n[model]\narch = 'resnet18'\nwidth = {}\n\
         [optimizer]\nlr = {}\nmomentum = {}\nnesterov = true\nweight_decay = {}\n[schedule]\nkind = 'constant'\n\
         warmup_epochs = 0\n[loss]\nlabel_smoothing = {}\n[augment]\nimage_size = {size}\nmean = [0.5, 0.5, 0.5]\n\
         std = [0.25098039, 0.25098039, 0.25098039]\ntrain = [{{ op = 'center_crop' }}]\nval = [{{ op = 'center_crop' }}]\n",
        entry["batch"], entry["width"], sgd["lr"], sgd["momentum"], sgd["weight_decay"], run["label_smoothing"]
    );
    let recipe = Recipe::from_toml(&text).expect("a recipe");
    let (salt, tag) = golden.formula();
    let count = 3 * recipe.data.batch_size;

    // Where the shuffled order looks for the first image, the second, ...
    let anywhere: Vec<usize> = (0..count).collect();
    let placeholder = Arc::new(Images::new(&tag, &anywhere, 8));
    let loader = Loader::new(placeholder, recipe.data.train_loader(recipe.run.seed)).expect("a loader");
    let order: Vec<usize> =
        loader.epoch(0).flat_map(|batch| batch.expect("a batch").samples).map(|sample| sample as usize).collect();
    let images: Arc<dyn Dataset> = Arc::new(Images::new(&tag, &order, size));

    let device = kiln_device::open(&DeviceRequest::Cpu).expect("the CPU");
    let model = recipe.model.resnet(10).init(0, &device.device);
    let start: State = model
        .state()
        .into_iter()
        .map(|(name, data)| {
            let shape = data.shape().to_vec();
            let data = match name.ends_with("num_batches_tracked") {
                true => data,
                false => TensorData::new(parameter(&salt, &name, &shape), shape),
            };
            (name, data)
        })
        .collect();
    let model = model.load_state(&start).expect("a state made for this model");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = Splits { train: images.clone(), val: images };
    let mut steps = Steps::default();
    let trainer = Trainer::new(recipe, &device, data, &folder.path().join("run")).expect("parts that fit");
    let summary = trainer.run(model, &mut steps).expect("a run");

    // A step reports the mean of the losses so far.
    let means: Vec<f64> = steps.0.iter().map(|step| step.loss.expect("a CPU has no late losses")).collect();
    for (step, want) in numbers(&run["losses"]).into_iter().enumerate() {
        let before = if step == 0 { 0.0 } else { step as f64 * means[step - 1] };
        let got = (step + 1) as f64 * means[step] - before;
        assert!((got - want).abs() <= RELATIVE * want, "loss of step {step}: {got}, want {want}");
        assert_eq!(Some(steps.0[step].lr), sgd["lr"].as_f64());
    }
    let bytes = golden.bytes("train_narrow.safetensors");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let [stats, slices] = ["stats", "slice"].map(|key| tensor_f64(&file, &format!("{RUN}/{key}")));
    let state: State = summary.model.state().into_iter().collect();
    let names = entry["runs"]["narrow_r18"]["params"].as_array().expect("names");
    let width = slices.len() / names.len();
    for (row, name) in names.iter().enumerate() {
        let name = name.as_str().expect("a name");
        let ours: Vec<f64> = state[name].iter::<f32>().map(f64::from).collect();
        let typical = stats[7 * row + 2] / (ours.len() as f64).sqrt();
        let stride = (ours.len() / width).max(1);
        for (index, &want) in slices[width * row..width * (row + 1)].iter().enumerate() {
            let Some(got) = ours.get(index * stride) else { break };
            let allowed = RELATIVE * want.abs().max(typical);
            assert!((got - want).abs() <= allowed, "{name}[{}]: {got}, want {want}", index * stride);
        }
    }
}
