//! Whole models: three steps against PyTorch, groups, and state saved and loaded.

use super::*;
use crate::golden::{Golden, labels, net_input, parameter, tensor_f64};
use crate::loss::cross_entropy;
use burn::tensor::Int;
use kiln_model::{Arch, BlockKind, ResNet, ResNetConfig, State};
use safetensors::SafeTensors;
use serde_json::Value;

const NARROW: &str = "train_narrow.safetensors";

fn config(entry: &Value, nesterov: bool, decay_excluded: bool) -> OptimizerConfig {
    let number = |key: &str| entry["sgd"][key].as_f64().expect("a number");
    OptimizerConfig {
        lr: number("lr"),
        momentum: number("momentum"),
        nesterov,
        weight_decay: number("weight_decay"),
        norm_bias_weight_decay: if decay_excluded { 0.0 } else { number("weight_decay") },
        ..OptimizerConfig::default()
    }
}

/// The network whose parameters have these names.
fn network(names: &[&str], width: usize, num_classes: usize) -> ResNetConfig {
    let block = match names.contains(&"layer1.0.conv3.weight") {
        true => BlockKind::Bottleneck,
        false => BlockKind::Basic,
    };
    let has = |stage: usize, block: usize| names.contains(&format!("layer{stage}.{block}.conv1.weight").as_str());
    let depths = [1, 2, 3, 4].map(|stage| (0..).take_while(|&block| has(stage, block)).count());
    ResNetConfig { width, num_classes, block, depths, ..ResNetConfig::new(Arch::ResNet18) }
}

fn golden_model(config: &ResNetConfig, salt: &str, device: &Device) -> ResNet {
    let model = config.init(0, device);
    let state = model.state().into_iter().map(|(name, data)| {
        let shape = data.shape().to_vec();
        let data = match name.ends_with("num_batches_tracked") {
            true => data,
            false => TensorData::new(parameter(salt, &name, &shape), shape),
        };
        (name, data)
    });
    let state: State = state.collect();
    model.load_state(&state).expect("a state made for this model")
}

#[test]
fn three_steps_of_training_equal_those_of_pytorch() {
    let golden = Golden::open();
    let Some(entry) = golden.entry(NARROW) else { return };
    let number = |key: &str| entry[key].as_u64().expect("a count") as usize;
    let (batch, size, classes) = (number("batch"), number("size"), number("num_classes"));
    // "f64 rel 1e-8; f32: grads rel-l2 2e-4 per parameter, SGD params rel-l2 1e-4; ..."
    let text = entry["tolerance"].as_str().expect("a tolerance");
    let (_, sgd) = text.split_once("SGD params").expect("a tolerance for SGD");
    let tolerance: f64 =
        sgd.split_once("rel-l2").and_then(|(_, rest)| rest.split(';').next()?.trim().parse().ok()).expect("a number");
    let (salt, tag) = golden.formula();
    let bytes = golden.bytes(NARROW);
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let device = kiln_device::cpu().autodiff();
    let mut compared = 0;
    for (name, run) in entry["runs"].as_object().expect("a table") {
        let Some((net, variant)) = name.split_once("/sgd") else { continue };
        let rows = entry["runs"][net]["params"].as_array().expect("names");
        let rows: Vec<&str> = rows.iter().map(|row| row.as_str().expect("a name")).collect();
        let mut model = golden_model(&network(&rows, number("width"), classes), &salt, &device);
        let config = config(entry, variant.contains("nesterov"), variant.contains("excl"));
        let mut optimizer = ModelOptimizer::new(&config, model.parameter_names(), Residence::Host);
        let smoothing = run["label_smoothing"].as_f64().expect("a number");
        let first = run["n0"].as_u64().expect("a count") as usize;
        for (step, want) in run["losses"].as_array().expect("losses").iter().enumerate() {
            let at = first + step * batch;
            let images = TensorData::new(net_input(&tag, at, batch, size), [batch, 3, size, size]);
            let targets = TensorData::new(labels(at, batch, classes), [batch]);
            let logits = model.forward(Tensor::from_data(images, &device));
            let loss = cross_entropy(logits, Tensor::<1, Int>::from_data(targets, &device), smoothing);
            let (got, want) = (f64::from(loss.clone().into_scalar::<f32>()), want.as_f64().expect("a loss"));
            assert!((got - want).abs() <= tolerance * want.abs(), "{name} loss {step}: {got}, want {want}");
            model = optimizer.step(config.lr, model, loss.backward());
        }
        compare(name, &rows, &model, &file, tolerance);
        compared += 1;
    }
    assert!(compared > 0, "no SGD run in {}", golden.folder().display());
}

/// Compares 16 strided values of each parameter and its norm.
fn compare(run: &str, rows: &[&str], model: &ResNet, file: &SafeTensors<'_>, tolerance: f64) {
    let state: State = model.state().into_iter().collect();
    let (slices, stats) = (tensor_f64(file, &format!("{run}/slice")), tensor_f64(file, &format!("{run}/stats")));
    for (row, name) in rows.iter().enumerate() {
        let ours: Vec<f64> = state[*name].iter::<f32>().map(f64::from).collect();
        let norm = ours.iter().map(|v| v * v).sum::<f64>().sqrt();
        let want = stats[7 * row + 2];
        assert!((norm - want).abs() <= tolerance * want, "{run} {name}: norm {norm}, want {want}");
        let stride = (ours.len() / 16).max(1);
        let scale = want / (ours.len() as f64).sqrt();
        for (index, want) in slices[16 * row..16 * (row + 1)].iter().enumerate() {
            let Some(got) = ours.get(index * stride) else { break };
            // Sixteen times the root mean square bounds a value that the norm's tolerance would let through.
            let allowed = tolerance * want.abs().max(scale);
            assert!((got - want).abs() <= allowed, "{run} {name}[{}]: {got}, want {want}", index * stride);
        }
    }
}

fn tiny_model(device: &Device) -> ResNet {
    ResNetConfig { width: 4, num_classes: 3, ..ResNetConfig::new(Arch::ResNet18) }.init(1, device)
}

fn gradients(model: &ResNet, device: &Device) -> Gradients {
    let images = TensorData::new(net_input("opt", 0, 2, 32), [2, 3, 32, 32]);
    let targets = Tensor::<1, Int>::from_data(TensorData::new(vec![0i32, 2], [2]), device);
    cross_entropy(model.forward(Tensor::from_data(images, device)), targets, 0.0).backward()
}

fn bits(state: Vec<(String, TensorData)>) -> Vec<(String, Vec<u8>)> {
    state.into_iter().map(|(name, data)| (name, data.as_bytes().to_vec())).collect()
}

#[test]
fn weights_decay_and_norms_and_biases_do_not() {
    let device = kiln_device::cpu().autodiff();
    let config = OptimizerConfig { momentum: 0.0, nesterov: false, weight_decay: 0.5, ..OptimizerConfig::default() };
    let step = |weight_decay| {
        let model = tiny_model(&device);
        let config = OptimizerConfig { weight_decay, ..config.clone() };
        let mut optimizer = ModelOptimizer::new(&config, model.parameter_names(), Residence::Host);
        let gradients = gradients(&model, &device);
        bits(optimizer.step(0.1, model, gradients).state())
    };
    for ((name, with), (_, without)) in step(0.5).into_iter().zip(step(0.0)) {
        let decays = name.contains("conv") || name == "fc.weight" || name.ends_with("downsample.0.weight");
        assert_eq!(with != without, decays, "{name}");
    }
}

#[test]
fn saved_state_continues_with_the_same_bits() {
    let device = kiln_device::cpu().autodiff();
    let optimizer_of =
        |model: &ResNet| ModelOptimizer::new(&OptimizerConfig::default(), model.parameter_names(), Residence::Host);
    let model = tiny_model(&device);
    let mut first = optimizer_of(&model);
    let grads = gradients(&model, &device);
    let model = first.step(0.1, model, grads);
    let saved = first.state();
    assert_eq!(saved.len(), model.parameters().len());
    assert!(saved.contains_key("layer1.0.bn1.weight.momentum_buffer"), "{:?}", saved.keys());

    // Another process has other parameter ids.
    let copy = tiny_model(&device).load_state(&model.state().into_iter().collect()).expect("the same network");
    let mut second = optimizer_of(&copy);
    second.load_state(&copy, saved, &kiln_device::cpu()).expect("the same network");
    let (grads, other) = (gradients(&model, &device), gradients(&copy, &device));
    assert_eq!(bits(first.step(0.1, model, grads).state()), bits(second.step(0.1, copy, other).state()));
}

#[test]
fn state_of_another_model_is_refused_with_names() {
    let device = kiln_device::cpu().autodiff();
    let model = tiny_model(&device);
    let names = model.parameter_names();
    let mut optimizer = ModelOptimizer::new(&OptimizerConfig::default(), names, Residence::Host);
    let grads = gradients(&model, &device);
    let model = optimizer.step(0.1, model, grads);

    let mut saved = optimizer.state();
    saved.insert("layer9.weight.momentum_buffer".into(), TensorData::new(vec![0f32], [1]));
    let message = optimizer.load_state(&model, saved, &device).expect_err("a name too many").to_string();
    assert!(message.contains("layer9.weight"), "{message}");

    let mut saved = optimizer.state();
    saved.remove("fc.bias.momentum_buffer");
    let missing = optimizer.load_state(&model, saved, &device);
    assert!(missing.is_err() || optimizer.state().is_empty());
}

/// Checks that nothing but the model holds its parameters, so that an update can reuse their memory.
struct AssertUnshared(usize);

impl ModuleMapper for AssertUnshared {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        if !tensor.is_require_grad() {
            return Param::from_mapped_value(id, tensor, mapper);
        }
        let tensor = tensor.inner();
        assert!(tensor.can_mut(), "a parameter of shape {:?} is shared", tensor.dims());
        self.0 += 1;
        Param::from_mapped_value(id, tensor.autodiff().require_grad(), mapper)
    }
}

#[test]
fn after_a_backward_pass_nothing_else_holds_the_parameters() {
    let device = kiln_device::cpu().autodiff();
    let model = tiny_model(&device);
    let grads = gradients(&model, &device);
    let mut check = AssertUnshared(0);
    let model = model.map(&mut check);
    assert_eq!(check.0, model.parameters().len());
    drop(grads);
}
