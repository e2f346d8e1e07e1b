//! The loss against PyTorch's numbers, and against itself where two forms must agree.

use super::*;
use crate::golden::{Golden, tensor_f64, tolerances};
use burn::tensor::{Device, TensorData};
use kiln_data::{Batch, MixedTargets};
use safetensors::SafeTensors;

/// f32 against an f64 reference, a sum over 511 rows.
const F32_LOSS: f64 = 1e-5;

fn tensor2(values: &[f64], classes: usize, device: &Device) -> Tensor<2> {
    let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
    let rows = values.len() / classes;
    Tensor::from_data(TensorData::new(values, [rows, classes]), device)
}

fn labels(values: &[f64], device: &Device) -> Tensor<1, Int> {
    let values: Vec<i32> = values.iter().map(|&v| v as i32).collect();
    let len = values.len();
    Tensor::from_data(TensorData::new(values, [len]), device)
}

fn scalar(loss: Tensor<1>) -> f64 {
    f64::from(loss.into_scalar::<f32>())
}

fn assert_close(what: &str, got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance, "{what}: {got}, want {want}");
}

#[test]
fn losses_and_gradient_equal_those_of_pytorch() {
    let golden = Golden::open();
    let Some(entry) = golden.entry("metrics.json") else { return };
    let tolerance = entry["tolerance"].as_str().and_then(|text| text.rsplit(' ').nth(2)?.parse().ok());
    let tolerance: f64 = tolerance.unwrap_or(F32_LOSS);
    let want: serde_json::Value = serde_json::from_str(&golden.text("metrics.json")).expect("JSON");
    let bytes = golden.bytes("metrics.safetensors");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let (logits, truth) = (tensor_f64(&file, "logits"), tensor_f64(&file, "labels"));
    let classes = tensor_f64(&file, "support").len();
    let after_the_tie = &logits[classes..];

    for (name, device) in kiln_device::parity_devices() {
        for (key, smoothing) in [("ls0", 0.0), ("ls0.1", 0.1), ("ls0.2", 0.2)] {
            let logits = tensor2(after_the_tie, classes, &device);
            let loss = scalar(cross_entropy(logits, labels(&truth[1..], &device), smoothing));
            let wanted = want["cross_entropy"][key].as_f64().expect("a loss");
            assert_close(&format!("{key} on {name}"), loss, wanted, tolerance);
        }
        let soft = tensor2(&tensor_f64(&file, "soft_targets"), classes, &device);
        let rows = soft.dims()[0];
        let loss = cross_entropy_soft(tensor2(&after_the_tie[..rows * classes], classes, &device), soft, 0.0);
        let wanted = want["soft_ce_rows1_8"].as_f64().expect("a loss");
        assert_close(&format!("soft on {name}"), scalar(loss), wanted, tolerance);

        let gradient = tensor_f64(&file, "ce_ls0.1_grad_rows1_8");
        let rows = gradient.len() / classes;
        let logits = tensor2(&after_the_tie[..rows * classes], classes, &device).autodiff().require_grad();
        let loss = cross_entropy(logits.clone(), labels(&truth[1..1 + rows], &device), 0.1);
        let ours = logits.grad(&loss.backward()).expect("a gradient").into_data();
        for (index, (got, want)) in ours.iter::<f32>().zip(&gradient).enumerate() {
            assert_close(&format!("gradient {index} on {name}"), f64::from(got), *want, 1e-6);
        }
    }
}

#[test]
fn a_uniform_guess_costs_the_logarithm_of_the_number_of_classes() {
    let device = kiln_device::cpu();
    for smoothing in [0.0, 0.1] {
        let loss = cross_entropy(Tensor::zeros([3, 4], &device), labels(&[0.0, 3.0, 1.0], &device), smoothing);
        assert_close("uniform", scalar(loss), 4f64.ln(), 1e-6);
    }
}

#[test]
fn large_logits_neither_overflow_nor_lose_the_loss() {
    let device = kiln_device::cpu();
    let logits = tensor2(&[1e4, 0.0, -1e4], 3, &device);
    assert_close("large", scalar(cross_entropy(logits, labels(&[2.0], &device), 0.0)), 2e4, 1e-2);
}

#[test]
fn tolerances_of_the_manifest_are_read() {
    assert_eq!(tolerances("rel 1e-6, abs 1e-12"), (1e-6, 1e-12));
    assert_eq!(tolerances("2e-6"), (0.0, 0.0));
}

/// Two images of classes 0 and 1 of three, mixed with each other, their own shares a quarter and three quarters.
fn mixed_pair(device: &Device) -> Batch {
    Batch {
        images: Tensor::zeros([2, 3, 1, 1], device),
        targets: labels(&[0.0, 1.0], device),
        labels: vec![0, 1],
        samples: vec![0, 1],
        mix: Some(MixedTargets { partner_labels: vec![1, 0], shares: vec![0.25, 0.75] }),
    }
}

#[test]
fn a_mixed_image_costs_its_labels_losses_by_their_shares() {
    // Probabilities, so that losses are their logarithms.
    let (first, second) = ([0.5f64, 0.25, 0.25], [0.125f64, 0.75, 0.125]);
    let logits = [first, second].concat().iter().map(|p| p.ln()).collect::<Vec<_>>();
    let by_hand = [
        -(0.25 * first[0].ln() + 0.75 * first[1].ln()), // Mostly the partner, of class 1.
        -(0.75 * second[1].ln() + 0.25 * second[0].ln()),
    ];
    for (name, device) in kiln_device::parity_devices() {
        let soft = mixed_pair(&device).soft_targets(3, 0.0);
        let loss = scalar(cross_entropy_soft(tensor2(&logits, 3, &device), soft, 0.0));
        assert_close(&name, loss, (by_hand[0] + by_hand[1]) / 2.0, 1e-6);
    }
}

#[test]
fn a_mixed_image_is_smoothed_once() {
    let device = kiln_device::cpu();
    let rows = [[2.0, -1.0, 0.5], [0.0, 1.5, -3.0]];
    let of_label =
        |row: [f64; 3], label: f64| scalar(cross_entropy(tensor2(&row, 3, &device), labels(&[label], &device), 0.1));
    let want = [
        0.25 * of_label(rows[0], 0.0) + 0.75 * of_label(rows[0], 1.0),
        0.75 * of_label(rows[1], 1.0) + 0.25 * of_label(rows[1], 0.0),
    ];
    let soft = mixed_pair(&device).soft_targets(3, 0.1);
    let loss = scalar(cross_entropy_soft(tensor2(&rows.concat(), 3, &device), soft, 0.0));
    assert_close("smoothed", loss, (want[0] + want[1]) / 2.0, 1e-6);
}
