//! SGD against PyTorch's traces, and the one-pass update against the tensor operations.

use super::*;
use crate::golden::{Golden, tens, tensor_f64, tolerances};
use safetensors::SafeTensors;
use serde_json::Value;

/// What a golden trace was made with.
fn sgd_of(params: &Value, weight_decay: &str) -> Sgd {
    let number = |key: &str| params[key].as_f64().unwrap_or(0.0);
    Sgd {
        momentum: number("momentum"),
        dampening: number("dampening"),
        nesterov: params["nesterov"].as_bool().unwrap_or(false),
        weight_decay: params[weight_decay].as_f64().unwrap_or_else(|| number("weight_decay")),
        residence: Residence::Device,
    }
}

/// Takes `steps` steps on explicit gradients and returns the flat parameter after each.
fn trace<const D: usize>(
    sgd: &Sgd,
    lr: impl Fn(usize) -> f64,
    start: Tensor<D>,
    gradient: impl Fn(usize) -> Tensor<D>,
    steps: usize,
) -> Vec<Vec<f32>> {
    let mut state = None;
    let mut tensor = start;
    let mut after = Vec::new();
    for step in 0..steps {
        (tensor, state) = sgd.step(lr(step), tensor, gradient(step), state);
        after.push(tensor.to_data().try_to_vec().expect("f32"));
    }
    after
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

#[test]
fn steps_equal_those_of_pytorch() {
    let golden = Golden::open();
    let Some(entry) = golden.entry("optim.safetensors") else { return };
    // "1e-6 abs (f32), 1e-12 (f64)": the number stands before the word.
    let text = entry["tolerance"].as_str().expect("a tolerance");
    let tolerance: f64 = text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    let bytes = golden.bytes("optim.safetensors");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let (salt, _) = golden.formula();
    let mut compared = 0;
    for (name, params) in entry["params"].as_object().expect("a table") {
        let clipped = params.get("clip_grad_norm").is_some();
        if !name.starts_with("sgd") || clipped {
            continue; // `optimizer/tests.rs` follows those, and clipping
        }
        let wanted = tensor_f64(&file, name);
        let gamma = params["lr_gamma_per_step"].as_f64().unwrap_or(1.0);
        let base_lr = params["lr"].as_f64().expect("a learning rate");
        let lr = |step: usize| base_lr * gamma.powi(step as i32);
        for residence in [Residence::Host, Residence::Device] {
            let device = kiln_device::cpu();
            let sgd = |decay| Sgd { residence, ..sgd_of(params, decay) };
            let value = |name: String, len, scale| tens(&format!("{salt}{name}"), len, scale, 0.0);
            let a = trace(
                &sgd("weight_decay_a"),
                lr,
                tensor(value("opt.a".into(), 33, 1.0), [33], &device),
                |step| tensor(value(format!("opt.ga{step}"), 33, 1.0), [33], &device),
                wanted.len() / 54,
            );
            let b = trace(
                &sgd("weight_decay_b"),
                lr,
                tensor(value("opt.b".into(), 21, 1.0), [3, 7], &device),
                |step| tensor(value(format!("opt.gb{step}"), 21, 0.1), [3, 7], &device),
                wanted.len() / 54,
            );
            for (step, row) in wanted.chunks_exact(54).enumerate() {
                let ours = a[step].iter().chain(&b[step]);
                for (index, (&got, &want)) in ours.zip(row).enumerate() {
                    let error = (f64::from(got) - want).abs();
                    assert!(error <= tolerance, "{name} {residence:?} step {step} [{index}]: {got}, want {want}");
                }
            }
        }
        compared += 1;
    }
    assert!(compared > 0, "no SGD trace in {}", golden.folder().display());
}

#[test]
fn one_pass_rounds_as_the_tensor_operations_do() {
    let device = kiln_device::cpu();
    // More than a chunk, and not a multiple of one.
    let len = CHUNK + 77;
    for (momentum, nesterov, weight_decay, dampening) in
        [(0.9, true, 1e-4, 0.0), (0.9, false, 0.0, 0.3), (0.9, true, 0.0, 0.1), (0.0, false, 1e-2, 0.0)]
    {
        let run = |residence| {
            let sgd = Sgd { momentum, nesterov, weight_decay, dampening, residence };
            let gradient = |step| tensor(tens(&format!("g{step}"), len, 1.0, 0.0), [len], &device);
            trace(&sgd, |step| 0.1 / (step + 1) as f64, tensor(tens("p", len, 1.0, 0.0), [len], &device), gradient, 3)
        };
        let (host, device) = (run(Residence::Host), run(Residence::Device));
        for (step, (host, device)) in host.iter().zip(&device).enumerate() {
            let differs = host.iter().zip(device).position(|(a, b)| a.to_bits() != b.to_bits());
            assert_eq!(differs, None, "step {step}: momentum {momentum}, nesterov {nesterov}");
        }
    }
}

#[test]
fn one_pass_leaves_the_caller_s_copy_alone() {
    let device = kiln_device::cpu();
    let before = tensor(vec![1.0, 2.0], [2], &device);
    let sgd = Sgd { residence: Residence::Host, ..sgd_of(&Value::Null, "") };
    let (after, state) = sgd.step(0.5, before.clone(), tensor(vec![1.0, 1.0], [2], &device), None);
    assert_eq!(before.into_data().try_to_vec::<f32>().expect("f32"), [1.0, 2.0]);
    assert_eq!(after.into_data().try_to_vec::<f32>().expect("f32"), [0.5, 1.5]);
    assert!(state.is_none(), "no momentum, no buffer");
}

#[test]
fn one_pass_reuses_the_memory_it_is_given() {
    let device = kiln_device::cpu();
    let given = TensorData::new(vec![1.0f32; 8], [8]);
    let address = given.as_slice::<f32>().expect("f32").as_ptr();
    let sgd = Sgd { momentum: 0.9, residence: Residence::Host, ..sgd_of(&Value::Null, "") };
    let grad = tensor(vec![1.0; 8], [8], &device);
    let (after, _) = sgd.step(0.5, Tensor::<1>::from_data(given, &device), grad, None);
    let data = after.into_data();
    assert_eq!(data.as_slice::<f32>().expect("f32").as_ptr(), address);
}

#[test]
fn a_buffer_of_another_rank_is_not_loaded() {
    let device = kiln_device::cpu();
    let mut source = StateSource::default();
    source.insert_tensor("p.momentum_buffer".into(), TensorData::new(vec![1.0f32; 4], [2, 2]));
    assert!(SgdState::<1>::state_unflatten("p", &mut source, &device).is_none());
}

#[test]
fn the_manifest_s_tolerance_is_absolute() {
    assert_eq!(tolerances("1e-6 abs (f32), 1e-12 (f64)").0, 0.0);
}
