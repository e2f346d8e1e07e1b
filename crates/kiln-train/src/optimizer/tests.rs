//! Whole models: three steps against PyTorch, groups, and state saved and loaded.

use super::*;
use crate::golden::{Golden, labels, net_input, parameter, tens, tensor_f64};
use crate::loss::cross_entropy;
use crate::recipe::OptimizerKind;
use burn::tensor::Int;
use kiln_model::{Arch, BlockKind, ResNet, ResNetConfig, State};
use safetensors::SafeTensors;
use serde_json::Value;

const NARROW: &str = "train_narrow.safetensors";

const FULL: &str = "train.safetensors";

/// The recipe of a golden run, from its name: `sgd_nesterov_wd_excl_1d`, `adamw_wd_all`, ...
fn config(entry: &Value, variant: &str) -> OptimizerConfig {
    let kind = if variant.starts_with("adamw") { OptimizerKind::AdamW } else { OptimizerKind::Sgd };
    let table = &entry[if kind == OptimizerKind::Sgd { "sgd" } else { "adamw" }];
    let number = |key: &str| table[key].as_f64().unwrap_or(0.0);
    OptimizerConfig {
        kind,
        lr: number("lr"),
        momentum: number("momentum"),
        nesterov: variant.contains("nesterov"),
        weight_decay: number("weight_decay"),
        norm_bias_weight_decay: if variant.contains("excl") { 0.0 } else { number("weight_decay") },
        eps: table["eps"].as_f64(),
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

/// A golden run of three steps.
struct ThreeSteps<'a> {
    entry: &'a Value,
    network: ResNetConfig,
    variant: &'a str,
    first: usize,
    smoothing: f64,
    losses: Vec<f64>,
}

impl ThreeSteps<'_> {
    /// Trains, and checks each step's loss to within `tolerance` of it.
    fn run(&self, golden: &Golden, name: &str, tolerance: impl Fn(usize, f64) -> f64) -> State {
        let size = |key: &str| self.entry[key].as_u64().expect("a count") as usize;
        let (batch, pixels, classes) = (size("batch"), size("size"), self.network.num_classes);
        let (salt, tag) = golden.formula();
        let device = kiln_device::cpu().autodiff();
        let mut model = golden_model(&self.network, &salt, &device);
        let config = config(self.entry, self.variant);
        let mut optimizer = ModelOptimizer::new(&config, model.parameter_names(), Residence::Host);
        for (step, want) in self.losses.iter().enumerate() {
            let at = self.first + step * batch;
            let images = TensorData::new(net_input(&tag, at, batch, pixels), [batch, 3, pixels, pixels]);
            let targets = TensorData::new(labels(at, batch, classes), [batch]);
            let logits = model.forward(Tensor::from_data(images, &device));
            let loss = cross_entropy(logits, Tensor::<1, Int>::from_data(targets, &device), self.smoothing);
            let got = f64::from(loss.clone().into_scalar::<f32>());
            let allowed = tolerance(step, *want);
            assert!((got - want).abs() <= allowed, "{name} loss {step}: {got}, want {want} ± {allowed:e}");
            model = optimizer.step(config.lr, model, loss.backward());
        }
        model.state().into_iter().collect()
    }
}

/// A number of a manifest's text, behind `marker`.
fn number_behind(text: &str, marker: &str) -> f64 {
    let rest = text.split_once(marker).unwrap_or_else(|| panic!("{marker} in {text}")).1;
    let end = |c: char| !(c.is_ascii_digit() || "e-.".contains(c));
    rest.trim_start().split(end).next().and_then(|n| n.parse().ok()).expect("a number")
}

fn numbers_in(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn names_in(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|name| name.as_str().expect("a name")).collect()
}

/// Sixteen or eight strided values of each row's tensor, and its norm.
struct Rows<'a> {
    run: &'a str,
    names: Vec<&'a str>,
    stats: Vec<f64>,
    slices: Vec<f64>,
}

impl Rows<'_> {
    /// Checks norms to `relative` and values to what `absolute` grants for a tensor of that norm and length.
    fn check(&self, state: &State, relative: f64, absolute: impl Fn(f64, f64, usize) -> f64) {
        let width = self.slices.len() / self.names.len();
        for (row, name) in self.names.iter().enumerate() {
            let ours: Vec<f64> = state[*name].iter::<f32>().map(f64::from).collect();
            let norm = ours.iter().map(|v| v * v).sum::<f64>().sqrt();
            let want = self.stats[7 * row + 2];
            let most = absolute(0.0, 0.0, ours.len()) * (ours.len() as f64).sqrt();
            let allowed = (relative * want).max(most);
            assert!((norm - want).abs() <= allowed, "{} {name}: norm {norm}, want {want} ± {allowed:e}", self.run);
            let stride = (ours.len() / width).max(1);
            for (index, &value) in self.slices[width * row..width * (row + 1)].iter().enumerate() {
                let Some(got) = ours.get(index * stride) else { break };
                let allowed = absolute(value, want, ours.len());
                let at = index * stride;
                assert!((got - value).abs() <= allowed, "{} {name}[{at}]: {got}, want {value} ± {allowed:e}", self.run);
            }
        }
    }
}

#[test]
fn three_steps_of_narrow_networks_equal_those_of_pytorch() {
    let golden = Golden::open();
    let Some(entry) = golden.entry(NARROW) else { return };
    let text = entry["tolerance"].as_str().expect("a tolerance");
    let sgd = number_behind(&text[text.find("SGD params").expect("SGD's")..], "rel-l2");
    let adamw = number_behind(&text[text.find("AdamW params").expect("AdamW's")..], "abs");
    let size = |key: &str| entry[key].as_u64().expect("a count") as usize;
    let bytes = golden.bytes(NARROW);
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let mut compared = 0;
    for (name, run) in entry["runs"].as_object().expect("a table") {
        let Some((net, variant)) = name.split_once('/').filter(|(_, variant)| !variant.starts_with("grads")) else {
            continue;
        };
        let names = names_in(&entry["runs"][net]["params"]);
        let steps = ThreeSteps {
            entry,
            network: network(&names, size("width"), size("num_classes")),
            variant,
            first: run["n0"].as_u64().expect("a count") as usize,
            smoothing: run["label_smoothing"].as_f64().expect("a number"),
            losses: numbers_in(&run["losses"]),
        };
        let state = steps.run(&golden, name, |_, want| sgd * want.abs());
        let [stats, slices] = ["stats", "slice"].map(|key| tensor_f64(&file, &format!("{name}/{key}")));
        let rows = Rows { run: name, names, stats, slices };
        match variant.starts_with("adamw") {
            true => {
                let own = run["f32_vs_f64"]["param_max_abs"].as_f64().expect("PyTorch's own error");
                rows.check(&state, 0.0, |_, _, _| adamw * own);
            }
            // Sixteen times the root mean square bounds a value that the norm's tolerance would let through.
            false => rows.check(&state, sgd, |value, norm, len| match norm {
                0.0 => 0.0,
                norm => sgd * value.abs().max(norm / (len as f64).sqrt()),
            }),
        }
        compared += 1;
    }
    assert!(compared > 0, "no run of three steps in {}", golden.folder().display());
}

#[test]
fn three_steps_of_full_networks_equal_those_of_pytorch() {
    let golden = Golden::open();
    let Some(entry) = golden.entry(FULL) else {
        eprintln!("skipped: no {FULL}; KILN_GOLDEN_DIR names a folder that has it");
        return;
    };
    let text = entry["tolerance"].as_str().expect("a tolerance");
    let after_three = &text[text.find("after 3 steps").expect("a tolerance after three steps")..];
    let (relative, times) = (number_behind(after_three, "rel"), number_behind(after_three, "<="));
    let of_loss = number_behind(text, "loss abs");
    let bytes = golden.bytes(FULL);
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    for (name, run) in entry["runs"].as_object().expect("a table") {
        let Some((arch, rest)) = name.split_once('/') else { continue };
        let Some((smoothing, variant)) = rest.split_once('/').filter(|(_, variant)| *variant != "grads") else {
            continue;
        };
        let steps = ThreeSteps {
            entry,
            network: ResNetConfig::new(arch.parse().expect("an architecture")),
            variant,
            first: 0,
            smoothing: smoothing.trim_start_matches("ls").parse().expect("a number"),
            losses: numbers_in(&run["loss"]),
        };
        let state = steps.run(&golden, name, |_, want| of_loss * (1.0 + want));
        let [stats, slices] = ["param/stats", "param/slice"].map(|key| tensor_f64(&file, &format!("{name}/{key}")));
        let rows = Rows { run: name, names: names_in(&entry["row_names"][arch]["params"]), stats, slices };
        let largest = run["f32_vs_f64"]["param_elementwise_max_abs"].as_f64().expect("PyTorch's own error");
        rows.check(&state, relative, |_, _, _| times * largest);
    }
}

/// Two parameters, of one axis and of two, as the golden traces have.
#[derive(Module, Debug)]
struct Two {
    a: Param<Tensor<1>>,
    b: Param<Tensor<2>>,
}

impl Two {
    fn new(salt: &str, device: &Device) -> Self {
        let a = Tensor::<1>::from_data(TensorData::new(tens(&format!("{salt}opt.a"), 33, 1.0, 0.0), [33]), device);
        let b = Tensor::<2>::from_data(TensorData::new(tens(&format!("{salt}opt.b"), 21, 1.0, 0.0), [3, 7]), device);
        Self { a: Param::from_tensor(a), b: Param::from_tensor(b) }
    }

    /// The golden gradients of a step: those of a weighted sum.
    fn gradients(&self, salt: &str, step: usize, device: &Device) -> Gradients {
        let a = tens(&format!("{salt}opt.ga{step}"), 33, 1.0, 0.0);
        let b = tens(&format!("{salt}opt.gb{step}"), 21, 0.1, 0.0);
        let a = Tensor::<1>::from_data(TensorData::new(a, [33]), device);
        let b = Tensor::<2>::from_data(TensorData::new(b, [3, 7]), device);
        ((self.a.val() * a).sum() + (self.b.val() * b).sum()).backward()
    }

    fn values(&self) -> Vec<f64> {
        let a = self.a.val().into_data();
        a.iter::<f64>().chain(self.b.val().into_data().iter::<f64>()).collect()
    }
}

/// The recipe of a golden trace.
fn trace_config(name: &str, params: &Value) -> OptimizerConfig {
    let number = |key: &str, default: f64| params[key].as_f64().unwrap_or(default);
    let kind = match name.trim_start_matches("timm_").split('_').next() {
        Some("sgd") => OptimizerKind::Sgd,
        Some("adam") => OptimizerKind::Adam,
        Some("adamw") => OptimizerKind::AdamW,
        Some("rmsprop") => OptimizerKind::RmsProp,
        Some("lamb") => OptimizerKind::Lamb,
        Some("lars") => OptimizerKind::Lars,
        other => panic!("no rule for {other:?}"),
    };
    OptimizerConfig {
        kind,
        momentum: number("momentum", 0.0),
        nesterov: params["nesterov"].as_bool().unwrap_or(false),
        weight_decay: number("weight_decay_b", number("weight_decay", 0.0)),
        norm_bias_weight_decay: number("weight_decay_a", number("weight_decay", 0.0)),
        betas: [0, 1].map(|i| params["betas"][i].as_f64().unwrap_or([0.9, 0.999][i])),
        eps: params["eps"].as_f64(),
        amsgrad: params["amsgrad"].as_bool().unwrap_or(false),
        alpha: number("alpha", 0.99),
        trust_coefficient: number("trust_coeff", 0.001),
        clip_grad_norm: number("clip_grad_norm", 0.0),
        ..OptimizerConfig::default()
    }
}

#[test]
fn every_golden_trace_is_followed_step_by_step() {
    let golden = Golden::open();
    let Some(entry) = golden.entry("optim.safetensors") else { return };
    let text = entry["tolerance"].as_str().expect("a tolerance");
    let tolerance: f64 = text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    let bytes = golden.bytes("optim.safetensors");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let (salt, _) = golden.formula();
    let device = kiln_device::cpu().autodiff();
    let mut compared = Vec::new();
    for (name, params) in entry["params"].as_object().expect("a table") {
        if params["dampening"].as_f64().is_some_and(|dampening| dampening != 0.0) {
            continue; // no recipe asks for dampening; `sgd.rs` follows this trace
        }
        let wanted = tensor_f64(&file, name);
        for residence in [Residence::Host, Residence::Device] {
            let mut model = Two::new(&salt, &device);
            let names = HashMap::from([(model.a.id, "a".to_string()), (model.b.id, "b".to_string())]);
            let mut optimizer = ModelOptimizer::new(&trace_config(name, params), names, residence);
            let mut lr = params["lr"].as_f64().expect("a learning rate");
            for (step, row) in wanted.chunks_exact(54).enumerate() {
                let gradients = model.gradients(&salt, step, &device);
                model = optimizer.step(lr, model, gradients);
                lr *= params["lr_gamma_per_step"].as_f64().unwrap_or(1.0);
                for (index, (got, want)) in model.values().into_iter().zip(row).enumerate() {
                    let error = (got - want).abs();
                    assert!(error <= tolerance, "{name} {residence:?} step {step} [{index}]: {got}, want {want}");
                }
            }
        }
        compared.push(name.as_str());
    }
    eprintln!("followed {}: {}", compared.len(), compared.join(", "));
    assert!(!compared.is_empty(), "no trace in {}", golden.folder().display());
}

#[test]
fn clipping_takes_all_gradients_together_and_leaves_short_ones_alone() {
    let device = kiln_device::cpu().autodiff();
    let moved = |limit| {
        let model = Two::new("", &device);
        let before = model.values();
        let config = OptimizerConfig {
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.0,
            clip_grad_norm: limit,
            ..OptimizerConfig::default()
        };
        let mut optimizer = ModelOptimizer::new(&config, HashMap::new(), Residence::Device);
        let gradients = model.gradients("", 0, &device);
        let after = optimizer.step(1.0, model, gradients).values();
        before.iter().zip(after).map(|(b, a)| (b - a).powi(2)).sum::<f64>().sqrt()
    };
    let free = moved(0.0);
    assert!((moved(0.5) - 0.5).abs() < 1e-5, "{}", moved(0.5));
    assert_eq!(moved(2.0 * free), free);
}

#[test]
fn learning_rates_fall_from_the_last_layer_to_the_stem() {
    let device = kiln_device::cpu().autodiff();
    let step = |layer_lr_decay: f64, lr| {
        let model = tiny_model(&device);
        let config = OptimizerConfig { layer_lr_decay, ..OptimizerConfig::default() };
        let mut optimizer = ModelOptimizer::new(&config, model.parameter_names(), Residence::Host);
        let gradients = gradients(&model, &device);
        bits(optimizer.step(lr, model, gradients).state())
    };
    let decayed = step(0.5, 0.1);
    for (part, power) in [(Part::Fc, 0), (Part::Layer4, 1), (Part::Stem, 5)] {
        let uniform = step(1.0, 0.1 * 0.5f64.powi(power));
        let of_part = |state: &[(String, Vec<u8>)]| {
            state.iter().filter(|(name, _)| Part::of(name) == part).cloned().collect::<Vec<_>>()
        };
        assert_eq!(of_part(&decayed), of_part(&uniform), "{part}");
    }
}

#[test]
fn every_rule_s_state_continues_with_the_same_bits() {
    let device = kiln_device::cpu().autodiff();
    use OptimizerKind::{Adam, AdamW, Lamb, Lars, Muon, RmsProp, Sgd};
    for kind in [Sgd, Adam, AdamW, RmsProp, Lamb, Lars, Muon] {
        let config = OptimizerConfig { kind, ..OptimizerConfig::default() };
        let optimizer_of = |model: &ResNet| ModelOptimizer::new(&config, model.parameter_names(), Residence::Host);
        let model = tiny_model(&device);
        let mut first = optimizer_of(&model);
        let grads = gradients(&model, &device);
        let model = first.step(0.01, model, grads);
        let copy = tiny_model(&device).load_state(&model.state().into_iter().collect()).expect("the same network");
        let mut second = optimizer_of(&copy);
        second.load_state(&copy, first.state(), &kiln_device::cpu()).expect("its own state");
        let (grads, other) = (gradients(&model, &device), gradients(&copy, &device));
        let (model, copy) = (first.step(0.01, model, grads), second.step(0.01, copy, other));
        assert_eq!(bits(model.state()), bits(copy.state()), "{kind:?}");
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

#[test]
fn values_of_gradients_are_cut_off_one_by_one() {
    let device = kiln_device::cpu().autodiff();
    let model = Two::new("", &device);
    let before = model.values();
    let gradient: Vec<f64> =
        [tens("opt.ga0", 33, 1.0, 0.0), tens("opt.gb0", 21, 0.1, 0.0)].concat().into_iter().map(f64::from).collect();
    let config = OptimizerConfig {
        momentum: 0.0,
        nesterov: false,
        weight_decay: 0.0,
        clip_grad_value: 0.25,
        ..OptimizerConfig::default()
    };
    let mut optimizer = ModelOptimizer::new(&config, HashMap::new(), Residence::Device);
    let gradients = model.gradients("", 0, &device);
    let after = optimizer.step(1.0, model, gradients).values();
    for ((before, after), gradient) in before.iter().zip(after).zip(gradient) {
        let want = gradient.clamp(-0.25, 0.25);
        assert!((before - after - want).abs() < 1e-6, "{} of {gradient}", before - after);
    }
}

#[test]
fn a_schedule_that_moves_the_momentum_is_obeyed_and_keeps_the_buffers() {
    let device = kiln_device::cpu().autodiff();
    let config = OptimizerConfig { momentum: 0.5, nesterov: false, weight_decay: 0.0, ..OptimizerConfig::default() };
    let run = |momenta: [f64; 2]| {
        let mut model = Two::new("", &device);
        let names = HashMap::from([(model.a.id, "a".to_string()), (model.b.id, "b".to_string())]);
        let mut optimizer = ModelOptimizer::new(&config, names, Residence::Host);
        for momentum in momenta {
            optimizer.set_momentum(momentum);
            let gradients = model.gradients("", 0, &device);
            model = optimizer.step(1.0, model, gradients);
        }
        model.values()
    };
    let after = run([0.9, 0.25]);
    // The same gradient twice: g, then m * g + g.
    let (start, gradient) = (Two::new("", &device).values(), tens("opt.ga0", 33, 1.0, 0.0));
    for (index, gradient) in gradient.into_iter().enumerate() {
        let moved = start[index] - after[index];
        assert!((moved - 2.25 * f64::from(gradient)).abs() < 1e-5, "{moved} of {gradient}");
    }
}
