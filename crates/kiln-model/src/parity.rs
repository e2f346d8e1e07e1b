//! The networks against PyTorch's numbers.
//!
//! The golden values come from float64 runs; tolerances are the manifest's for an f32 backend.

use std::collections::HashMap;

use burn::optim::GradientsParams;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};
use serde_json::Value;

use crate::golden::{
    Golden, Numbers, arch_of, formula_state, labels, names_of, net_input, number_after, number_of, quoted_after, slice,
    stats, text_of,
};
use crate::{Arch, BlockKind, ResNet, ResNetConfig, State};

#[test]
fn names_order_shapes_and_counts_equal_torchvision_s() {
    let golden = Golden::open();
    let device = kiln_device::cpu();
    let files = golden.files("keys/");
    assert!(!files.is_empty());
    for file in files {
        let arch = arch_of(file.trim_start_matches("keys/").trim_end_matches(".txt"));
        let model = ResNetConfig::new(arch).init(0, &device);
        let entries = model.state_entries().into_iter().map(|entry| {
            let kind = if entry.learnable { "param" } else { "buffer" };
            let dtype = if entry.shape.is_empty() { "int64" } else { "float32" };
            let shape: Vec<String> = entry.shape.iter().map(usize::to_string).collect();
            let shape = if shape.is_empty() { "scalar".to_string() } else { shape.join("x") };
            format!("{}\t{kind}\t{dtype}\t{shape}", entry.name)
        });
        let text = golden.text(&file);
        let expected: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(entries.collect::<Vec<_>>(), expected, "{file}");
        let params = number_of(golden.entry(&file), "params");
        assert_eq!(model.num_parameters() as f64, params, "{file}");
    }
}

#[test]
fn evaluation_gives_pytorch_s_logits_and_activations_on_the_cpu() {
    let golden = Golden::open();
    let runs = golden.runs(FORWARD, |_| true);
    assert!(!runs.is_empty());
    for (name, run) in runs {
        check_forward(&golden, &name, &run, &kiln_device::cpu());
    }
}

#[test]
fn evaluation_gives_pytorch_s_logits_on_every_gpu_too() {
    let golden = Golden::open();
    for (name, run) in golden.runs(FORWARD, |name| name == "resnet18/2x3x64x64") {
        for (device_name, device) in kiln_device::parity_devices() {
            eprintln!("{name} on {device_name}");
            check_forward(&golden, &name, &run, &device);
        }
    }
}

#[test]
fn narrow_networks_have_pytorch_s_loss_gradients_and_running_statistics() {
    let golden = Golden::open();
    let entry = golden.entry(NARROW);
    let tensors = golden.tensors(NARROW);
    let runs = golden.runs(NARROW, |name| name.contains("/grads_ls"));
    assert!(!runs.is_empty());
    for (name, run) in runs {
        let fixture = Narrow::new(&golden, &name, &run);
        let tolerance = number_after(text_of(entry, "tolerance"), "grads rel-l2");
        let model = fixture.model(&kiln_device::cpu().autodiff());
        let step = train_step(&model, fixture.batch(0), number_after(&name, "/grads_ls"));

        let golden_of = |key: &str| &tensors[&format!("{name}/{key}")];
        assert_close(&format!("{name} loss"), step.loss, number_of(&run, "loss"), tolerance);
        assert_relative_l2(&format!("{name} logits"), &step.logits, &golden_of("logits").values, tolerance);
        let rows = [golden_of("stats"), golden_of("slice")];
        assert_rows(&format!("{name} gradient of"), &fixture.params, &step.gradients, rows, tolerance);
        for (parameter, key) in [("conv1", "conv1_grad_full"), ("fc", "fc_weight_grad_full")] {
            let found = &step.gradients[&format!("{parameter}.weight")];
            let what = format!("{name} gradient of all of {parameter}.weight");
            assert_relative_l2(&what, found, &golden_of(key).values, tolerance);
        }
        let norm = step.gradients.values().flatten().map(|g| g * g).sum::<f64>().sqrt();
        let expected = number_of(&run, "grad_total_norm");
        assert_close(&format!("{name} gradient norm"), norm, expected, tolerance);
        let rows = [golden_of("running_stats"), golden_of("running_slice")];
        assert_rows(&name, &fixture.running, &values_of(&model), rows, RUNNING_TOLERANCE);
    }
}

#[test]
fn three_steps_of_sgd_give_pytorch_s_parameters() {
    let golden = Golden::open();
    let entry = golden.entry(NARROW);
    let tensors = golden.tensors(NARROW);
    let runs = golden.runs(NARROW, |name| name.contains("/sgd"));
    assert!(!runs.is_empty());
    for (name, run) in runs {
        let fixture = Narrow::new(&golden, &name, &run);
        let tolerance = number_after(text_of(entry, "tolerance"), "SGD params rel-l2");
        let mut sgd = Sgd::new(&entry["sgd"], name.contains("nesterov"), name.contains("excl_1d"));
        let mut model = fixture.model(&kiln_device::cpu().autodiff());
        let losses = run["losses"].as_array().expect("a loss a step");
        for (index, expected) in losses.iter().enumerate() {
            let smoothing = number_of(&run, "label_smoothing");
            let step = train_step(&model, fixture.batch(index), smoothing);
            let expected = expected.as_f64().expect("a number");
            assert_close(&format!("{name} loss {index}"), step.loss, expected, tolerance);
            model = sgd.step(model, &step.gradients);
        }
        let golden_of = |key: &str| &tensors[&format!("{name}/{key}")];
        let values = values_of(&model);
        let rows = [golden_of("stats"), golden_of("slice")];
        assert_rows(&name, &fixture.params, &values, rows, tolerance);
        let running = golden_of("running_stats");
        for (row, buffer) in fixture.running.iter().enumerate() {
            assert_stats(&format!("{name} {buffer}"), &values[buffer], running.row(row), tolerance);
        }
    }
}

#[test]
fn full_networks_have_pytorch_s_loss_and_gradients() {
    let golden = Golden::open();
    if golden.files(TRAIN).is_empty() {
        return; // The repository's subset leaves the full networks out; the narrow ones are the tight test.
    }
    let entry = golden.entry(TRAIN);
    let tensors = golden.tensors(TRAIN);
    for (name, run) in golden.runs(TRAIN, |name| name.ends_with("ls0.1/grads")) {
        let (arch, _) = name.split_once('/').expect("model/smoothing/kind");
        let device = kiln_device::cpu().autodiff();
        let config = ResNetConfig::new(arch_of(arch));
        let model = formula_model(&config, quoted_after(text_of(entry, "weights"), "salt="), &device);
        let tag = quoted_after(text_of(entry, "input"), "net_input(");
        let [batch, size] = ["batch", "size"].map(|key| number_of(entry, key) as usize);
        let images = net_input(tag, [batch, size, size], 0, &device);
        let labels = labels(text_of(entry, "labels"), batch, 0);
        let step = train_step(&model, (images, labels), number_after(&name, "/ls"));

        let expected = number_of(&run, "loss");
        let loss_tolerance = number_after(text_of(entry, "tolerance"), "loss abs");
        assert_close(&format!("{name} loss"), step.loss, expected, loss_tolerance);
        // f32 flips a few ReLU gates of ResNet-50; the manifest grants five times torch's own deviation.
        let own = number_of(&run["f32_vs_f64"]["grad_elementwise_rel_l2"], "max");
        let tolerance = f64::max(1e-3, 5.0 * own);
        let [params, running] = ["params", "running"].map(|key| names_of(&entry["row_names"][arch], key));
        let rows = ["grad/stats", "grad/slice"].map(|key| &tensors[&format!("{name}/{key}")]);
        assert_rows(&format!("{name} gradient of"), &params, &step.gradients, rows, tolerance);
        let rows = ["running/stats", "running/slice"].map(|key| &tensors[&format!("{name}/{key}")]);
        assert_rows(&name, &running, &values_of(&model), rows, RUNNING_TOLERANCE);
    }
}

const FORWARD: &str = "forward.safetensors";
const TRAIN: &str = "train.safetensors";
const NARROW: &str = "train_narrow.safetensors";

/// Running statistics after one step: f32 sums of at most 8·32·32 values, against f64. PyTorch's own f32
/// stays within 3e-8 of the norm, 2e-7 of a value.
const RUNNING_TOLERANCE: f64 = 5e-6;

fn check_forward(golden: &Golden, name: &str, run: &Value, device: &Device) {
    let entry = golden.entry(FORWARD);
    let tensors = golden.tensors(FORWARD);
    let (arch, size) = name.split_once('/').expect("model/size");
    let size: Vec<usize> = size.split('x').map(|n| n.parse().expect("a size")).collect();
    let config =
        ResNetConfig { num_classes: number_of(entry, "num_classes") as usize, ..ResNetConfig::new(arch_of(arch)) };
    let model = formula_model(&config, quoted_after(text_of(entry, "weights"), "salt="), device);
    let tag = quoted_after(text_of(entry, "input"), "tag=");
    let images = net_input(tag, [size[0], size[2], size[3]], 0, device);

    let mut stages = Vec::new();
    let logits = model.forward_observed(images, |stage, x| {
        stages.push((stage.to_string(), floats(x.clone())));
    });
    let tolerance = number_after(text_of(entry, "tolerance"), "stage stats rel");
    for (stage, found) in &stages {
        let what = format!("{name} {stage}");
        assert_stats(&what, found, &tensors[&format!("{name}/{stage}/stats")].values, tolerance);
        let expected = &tensors[&format!("{name}/{stage}/slice")].values;
        let scale = number_of(&run["stage_max"], stage);
        assert_values(&what, &slice(found, expected.len()), expected, tolerance * scale);
    }

    let [_, classes] = logits.dims();
    let logits = floats(logits);
    let scale = number_of(run, "max_abs_logit");
    let tolerance = number_after(text_of(entry, "tolerance"), "<=") * scale;
    let expected = &tensors[&format!("{name}/logits")].values;
    assert_values(&format!("{name} logits"), &logits, expected, tolerance);
    let argmax: Vec<usize> = logits.chunks(classes).map(argmax).collect();
    assert_eq!(serde_json::json!(argmax), run["argmax"], "{name}");
}

/// The small networks of the tight fixture.
struct Narrow {
    config: ResNetConfig,
    salt: String,
    tag: String,
    labels: String,
    batch: usize,
    size: usize,
    first: usize,
    params: Vec<String>,
    running: Vec<String>,
}

impl Narrow {
    fn new(golden: &Golden, name: &str, run: &Value) -> Self {
        let entry = golden.entry(NARROW);
        let (network, _) = name.split_once('/').expect("network/run");
        let rows = &entry["runs"][network];
        let params = names_of(rows, "params");
        let size = |key: &str| number_of(entry, key) as usize;
        Self {
            config: narrow_config(&params, size("width"), size("num_classes")),
            salt: quoted_after(text_of(entry, "weights"), "salt=").to_string(),
            tag: quoted_after(text_of(entry, "input"), "net_input(").to_string(),
            labels: text_of(entry, "labels").to_string(),
            batch: size("batch"),
            size: size("size"),
            first: number_of(run, "n0") as usize,
            params,
            running: names_of(rows, "running"),
        }
    }

    fn model(&self, device: &Device) -> ResNet {
        formula_model(&self.config, &self.salt, device)
    }

    /// Images and labels of step `index`.
    fn batch(&self, index: usize) -> (Tensor<4>, Vec<usize>) {
        let first = self.first + self.batch * index;
        let device = kiln_device::cpu().autodiff();
        let images = net_input(&self.tag, [self.batch, self.size, self.size], first, &device);
        (images, labels(&self.labels, self.batch, first))
    }
}

/// Kind of block and depths, read off the parameter names.
fn narrow_config(params: &[String], width: usize, num_classes: usize) -> ResNetConfig {
    let bottleneck = params.iter().any(|name| name == "layer1.0.conv3.weight");
    let depth = |stage: usize| {
        let first = |block: usize| format!("layer{}.{block}.conv1.weight", stage + 1);
        (0..).take_while(|&block| params.contains(&first(block))).count()
    };
    ResNetConfig {
        num_classes,
        width,
        block: if bottleneck { BlockKind::Bottleneck } else { BlockKind::Basic },
        depths: [0, 1, 2, 3].map(depth),
        ..ResNetConfig::new(Arch::ResNet18)
    }
}

fn formula_model(config: &ResNetConfig, salt: &str, device: &Device) -> ResNet {
    let model = config.init(0, device);
    let state = formula_state(&model, salt);
    model.load_state(&state).expect("a state made for this model")
}

/// What one forward and backward pass gives, on the host, in torchvision's layout.
struct Step {
    loss: f64,
    logits: Vec<f64>,
    gradients: HashMap<String, Vec<f64>>,
}

fn train_step(model: &ResNet, (images, labels): (Tensor<4>, Vec<usize>), smoothing: f64) -> Step {
    let logits = model.forward(images);
    let loss = cross_entropy(logits.clone(), &labels, smoothing);
    let mut gradients = GradientsParams::from_grads(loss.backward(), model);
    let gradients = model.parameters().into_iter().map(|info| {
        let gradient = match info.shape.len() {
            4 => gradients.remove::<4>(info.id).map(floats),
            2 => gradients.remove::<2>(info.id).map(|g| floats(g.transpose())),
            _ => gradients.remove::<1>(info.id).map(floats),
        };
        let gradient = gradient.unwrap_or_else(|| panic!("{} has no gradient", info.name));
        (info.name, gradient)
    });
    Step { gradients: gradients.collect(), loss: floats(loss)[0], logits: floats(logits) }
}

/// `torch.nn.functional.cross_entropy` with label smoothing, averaged over the batch.
fn cross_entropy(logits: Tensor<2>, labels: &[usize], smoothing: f64) -> Tensor<1> {
    let [batch, classes] = logits.dims();
    let indices: Vec<i64> = labels.iter().map(|&label| label as i64).collect();
    let indices = Tensor::<2, Int>::from_data(TensorData::new(indices, [batch, 1]), &logits.device());
    let log_probabilities = log_softmax(logits, 1);
    let of_label = log_probabilities.clone().gather(1, indices).sum();
    let of_all = log_probabilities.sum();
    (of_label * (1.0 - smoothing) + of_all * (smoothing / classes as f64)) * (-1.0 / batch as f64)
}

/// `torch.optim.SGD` with momentum, in f32 on the host.
struct Sgd {
    lr: f32,
    momentum: f32,
    weight_decay: f32,
    nesterov: bool,
    skip_one_dimensional: bool,
    velocity: HashMap<String, Vec<f32>>,
}

impl Sgd {
    fn new(entry: &Value, nesterov: bool, skip_one_dimensional: bool) -> Self {
        let number = |key| number_of(entry, key) as f32;
        Self {
            lr: number("lr"),
            momentum: number("momentum"),
            weight_decay: number("weight_decay"),
            nesterov,
            skip_one_dimensional,
            velocity: HashMap::new(),
        }
    }

    fn step(&mut self, model: ResNet, gradients: &HashMap<String, Vec<f64>>) -> ResNet {
        let mut state: State = model.state().into_iter().collect();
        for (name, gradient) in gradients {
            let data = state.get_mut(name).expect("a parameter of the model");
            let decays = data.rank() > 1 || !self.skip_one_dimensional;
            let decay = if decays { self.weight_decay } else { 0.0 };
            let values = data.as_mut_slice::<f32>().expect("f32 parameters");
            let first = !self.velocity.contains_key(name);
            let velocity = self.velocity.entry(name.clone()).or_insert_with(|| vec![0.0; values.len()]);
            for ((value, velocity), gradient) in values.iter_mut().zip(velocity).zip(gradient) {
                let gradient = *gradient as f32 + decay * *value;
                *velocity = if first { gradient } else { self.momentum * *velocity + gradient };
                let step = match self.nesterov {
                    true => gradient + self.momentum * *velocity,
                    false => *velocity,
                };
                *value -= self.lr * step;
            }
        }
        model.load_state(&state).expect("its own state")
    }
}

fn values_of(model: &ResNet) -> HashMap<String, Vec<f64>> {
    model.state().into_iter().map(|(name, data)| (name, data.iter().collect())).collect()
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter().collect()
}

fn argmax(values: &[f64]) -> usize {
    let by_value = |&a: &usize, &b: &usize| values[a].total_cmp(&values[b]);
    (0..values.len()).max_by(by_value).expect("at least one value")
}

/// `[stats, slice]` rows of several tensors.
fn assert_rows(
    what: &str,
    names: &[String],
    found: &HashMap<String, Vec<f64>>,
    [stats, slices]: [&Numbers; 2],
    tolerance: f64,
) {
    for (row, name) in names.iter().enumerate() {
        let what = format!("{what} {name}");
        let values = &found[name];
        let expected = stats.row(row);
        assert_stats(&what, values, expected, tolerance);
        let largest = expected[5].abs().max(expected[6].abs());
        let expected = slices.row(row);
        assert_values(&what, &slice(values, expected.len()), expected, tolerance * largest);
    }
}

/// Each statistic against a scale that can't vanish by cancellation: values against the largest, sums
/// against the sum of magnitudes.
fn assert_stats(what: &str, values: &[f64], expected: &[f64], tolerance: f64) {
    let largest = expected[5].abs().max(expected[6].abs());
    let scales = [largest, largest, expected[2], expected[4], expected[4], largest, largest];
    let names = ["mean", "deviation", "l2", "sum", "abs sum", "min", "max"];
    for (index, found) in stats(values).into_iter().enumerate() {
        let difference = (found - expected[index]).abs();
        assert!(
            difference <= tolerance * scales[index],
            "{what}: {} is {found}, not {}; off by {difference:e}, allowed {:e}",
            names[index],
            expected[index],
            tolerance * scales[index]
        );
    }
}

fn assert_values(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let difference = |i: usize| (found[i] - expected[i]).abs();
    let worst = (0..found.len()).max_by(|&a, &b| difference(a).total_cmp(&difference(b)));
    if let Some(worst) = worst {
        assert!(
            difference(worst) <= tolerance,
            "{what}: value {worst} is {}, not {}; allowed {tolerance:e}",
            found[worst],
            expected[worst]
        );
    }
}

fn assert_relative_l2(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = norm(&mut found.iter().zip(expected).map(|(a, b)| a - b));
    let relative = difference / norm(&mut expected.iter().copied());
    assert!(relative <= tolerance, "{what}: relative l2 {relative:e}, allowed {tolerance:e}");
}

fn assert_close(what: &str, found: f64, expected: f64, tolerance: f64) {
    let allowed = tolerance * (1.0 + expected.abs());
    assert!((found - expected).abs() <= allowed, "{what}: {found} is not {expected} ± {allowed:e}");
}
