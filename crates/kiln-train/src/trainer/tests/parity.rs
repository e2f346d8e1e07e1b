//! The whole trainer against PyTorch, and gradient accumulation against whole batches.

use super::*;
use crate::golden::{Golden, labels, net_input, tensor_f64};
use crate::schedule::WarmupShape;
use burn::module::{Flag, ModuleMapper, Param};
use kiln_data::EpochOrder;
use kiln_model::State;
use safetensors::SafeTensors;

/// Images of the golden formula as PNG files, in such an order that the loader delivers `first`, `first + 1`, ...
fn golden_images(tag: &str, first: usize, count: usize, size: usize, classes: usize, seed: u64) -> Arc<dyn Dataset> {
    let order = EpochOrder::shuffled(count, seed, 0);
    let mut files = vec![Vec::new(); count];
    let mut marks = vec![0; count];
    for position in 0..count {
        let floats = net_input(tag, first + position, 1, size);
        // The formula's floats are bytes, shifted and scaled; channels first.
        let byte =
            |x: u32, y: u32, c: usize| (floats[(c * size + y as usize) * size + x as usize] * 64.0 + 127.5) as u8;
        let picture = RgbImage::from_fn(size as u32, size as u32, |x, y| Rgb([0, 1, 2].map(|c| byte(x, y, c))));
        let mut png = Cursor::new(Vec::new());
        picture.write_to(&mut png, ImageFormat::Png).expect("a PNG");
        let sample = order.sample(position);
        files[sample] = png.into_inner();
        marks[sample] = labels(first + position, 1, classes)[0] as u32;
    }
    Arc::new(Marked { classes: (0..classes).map(|class| class.to_string()).collect(), files, labels: marks })
}

/// Files with labels of their own.
struct Marked {
    classes: Vec<String>,
    files: Vec<Vec<u8>>,
    labels: Vec<u32>,
}

impl Dataset for Marked {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        Ok(Sample::encoded(self.files[index].clone(), self.labels[index]))
    }

    fn name(&self, index: usize) -> String {
        format!("{index}.png")
    }

    fn label(&self, index: usize) -> u32 {
        self.labels[index]
    }
}

/// PyTorch's own three steps in f32 stay within 1e-6 of f64's in the norm of a tensor, and within 6e-7 in the loss; ours
/// add numbers up in another order.
const RELATIVE: f64 = 3e-5;

#[test]
fn three_steps_from_files_to_weights_equal_those_of_pytorch() {
    const RUN: &str = "narrow_r18/sgd_nesterov_wd_all";
    let golden = Golden::open();
    let Some(entry) = golden.entry("train_narrow.safetensors") else { return };
    let size = |key: &str| entry[key].as_u64().expect("a count") as usize;
    let (batch, pixels, classes) = (size("batch"), size("size"), size("num_classes"));
    let first = entry["runs"][RUN]["n0"].as_u64().expect("a count") as usize;
    let (salt, tag) = golden.formula();

    let mut recipe = recipe(1);
    recipe.data.batch_size = batch;
    recipe.model.width = size("width");
    recipe.augment.image_size = pixels;
    // Whole pictures: they have the size that the network sees.
    let whole: Vec<Augmentation> = vec![serde_json::from_str(r#"{"op": "center_crop"}"#).expect("a step")];
    (recipe.augment.train, recipe.augment.val) = (Some(whole.clone()), Some(whole));
    (recipe.augment.mean, recipe.augment.std) = ([0.5; 3], [64.0 / 255.0; 3]);
    recipe.optimizer.lr = entry["sgd"]["lr"].as_f64().expect("a rate");
    recipe.optimizer.weight_decay = entry["sgd"]["weight_decay"].as_f64().expect("a decay");
    recipe.optimizer.norm_bias_weight_decay = recipe.optimizer.weight_decay;
    recipe.schedule.kind = crate::ScheduleKind::Constant;
    recipe.schedule.warmup_epochs = 0.0;
    recipe.schedule.warmup_shape = WarmupShape::Constant;

    let train = golden_images(&tag, first, 3 * batch, pixels, classes, recipe.run.seed);
    let data = Splits { val: train.clone(), train };
    let fresh = recipe.model.resnet(classes).init(0, &kiln_device::cpu());
    let state: State = fresh
        .state()
        .into_iter()
        .map(|(name, data)| match name.ends_with("num_batches_tracked") {
            true => (name, data),
            false => {
                let shape = data.shape().to_vec();
                let values = TensorData::new(parameter(&salt, &name, &shape), shape);
                (name, values)
            }
        })
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let mut watcher = Watcher::default();
    let model = fresh.load_state(&state).expect("a state made for this model");
    let summary = trainer(&recipe, data, folder.path()).run(model, &mut watcher).expect("a run");

    let losses = entry["runs"][RUN]["losses"].as_array().expect("a list");
    let mut sum = 0.0;
    for (index, (step, want)) in watcher.steps.iter().zip(losses).enumerate() {
        sum += want.as_f64().expect("a number");
        let (found, want) = (step.loss.expect("a CPU is never late"), sum / (index + 1) as f64);
        assert!((found - want).abs() < RELATIVE * want, "mean loss of {} steps: {found}, want {want}", index + 1);
    }
    assert_eq!((watcher.steps.len(), losses.len()), (3, 3));

    let bytes = golden.bytes("train_narrow.safetensors");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let stats = tensor_f64(&file, &format!("{RUN}/stats"));
    let names = entry["runs"]["narrow_r18"]["params"].as_array().expect("a list");
    let ours: State = summary.model.state().into_iter().collect();
    for (row, name) in names.iter().enumerate() {
        let values = ours[name.as_str().expect("a name")].iter::<f32>();
        let norm = values.map(|value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        let want = stats[7 * row + 2];
        assert!((norm - want).abs() <= RELATIVE * want, "{name}: norm {norm}, want {want}");
    }
}

/// Makes every batch norm normalise by its running statistics, which don't know of parts.
struct WithoutBatchStatistics;

impl ModuleMapper for WithoutBatchStatistics {
    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        flag.with_value(false)
    }
}

/// f32 sums of 32 gradients in another order, of values around one.
const SAME_SUM: f32 = 1e-6;

#[test]
fn four_parts_of_eight_equal_one_of_thirty_two_also_where_the_last_batch_is_not_full() {
    // 32 and 20 images; the 20 are cut into 6, 7 and 7.
    let data = || Splits { train: Arc::new(Stripes::new(52, 0)), val: Arc::new(Stripes::new(10, 100)) };
    let trained = |micro_batch_size| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut recipe = mixed_recipe(2);
        recipe.data.batch_size = 32;
        recipe.data.drop_last = false;
        recipe.schedule.warmup_epochs = 0.0;
        recipe.run.micro_batch_size = micro_batch_size;
        let model = burn::module::Module::map(model(&recipe), &mut WithoutBatchStatistics);
        let summary = trainer(&recipe, data(), folder.path()).run(model, &mut ()).expect("a run");
        (summary.model.state(), record(folder.path()))
    };
    let (whole, whole_record) = trained(0);
    let (parts, parts_record) = trained(8);
    let fresh = model(&recipe(1)).state();
    let mut moved = 0.0f32;
    for (((name, whole), (_, parts)), (_, fresh)) in whole.iter().zip(&parts).zip(&fresh) {
        for ((a, b), before) in whole.iter::<f32>().zip(parts.iter::<f32>()).zip(fresh.iter::<f32>()) {
            assert!((a - b).abs() <= SAME_SUM * a.abs().max(1.0), "{name}: {a} and {b}");
            moved = moved.max((a - before).abs());
        }
    }
    assert!(moved > 1e-3, "the weights changed by {moved} at most");
    for (a, b) in whole_record.iter().zip(&parts_record) {
        let difference = a["train_loss"].as_f64().expect("a number") - b["train_loss"].as_f64().expect("a number");
        assert!(difference.abs() < f64::from(SAME_SUM), "{a} {b}");
        assert_eq!(a["train_top1"], b["train_top1"]);
    }
}
