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

#[test]
fn weighted_binary_and_focal_losses_equal_those_of_pytorch_and_timm() {
    let golden = Golden::open();
    if golden.entry("metrics.json").is_none() {
        return;
    }
    let want: serde_json::Value = serde_json::from_str(&golden.text("metrics.json")).expect("JSON");
    let bytes = golden.bytes("metrics.safetensors");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let (logits, truth) = (tensor_f64(&file, "logits"), tensor_f64(&file, "labels"));
    let weights = tensor_f64(&file, "class_weight");
    let classes = weights.len();
    let plain = LossConfig { label_smoothing: 0.0, ..LossConfig::default() };
    let weighted = LossConfig { class_weights: weights.clone(), ..plain.clone() };
    let hard = [
        ("weighted_ce", weighted.clone()),
        ("weighted_ce_ls0.1", LossConfig { label_smoothing: 0.1, ..weighted.clone() }),
        ("focal_gamma2_alpha_none", LossConfig { kind: LossKind::Focal, ..plain.clone() }),
        ("timm_ls0.1", LossConfig { label_smoothing: 0.1, ..plain.clone() }),
    ];
    let soft = [
        ("bce_logits_rows1_8_mean", LossConfig { kind: LossKind::Bce, ..plain.clone() }),
        ("timm_soft_rows1_8", plain.clone()),
    ];
    for (name, device) in kiln_device::parity_devices() {
        let one_hot = is_target(labels(&truth[1..], &device), classes).float();
        let soft_targets = tensor2(&tensor_f64(&file, "soft_targets"), classes, &device);
        let rows = soft_targets.dims()[0];
        let of = |key: &str, config: &LossConfig, logits: &[f64], targets: Tensor<2>| {
            let loss = Loss::with_counts(config, &[], &device).of(tensor2(logits, classes, &device), targets);
            let wanted = want[key].as_f64().unwrap_or_else(|| panic!("{key} in metrics.json"));
            assert_close(&format!("{key} on {name}"), scalar(loss), wanted, F32_LOSS);
        };
        for (key, config) in &hard {
            of(key, config, &logits[classes..], one_hot.clone());
        }
        for (key, config) in &soft {
            of(key, config, &logits[classes..(1 + rows) * classes], soft_targets.clone());
        }
    }
}

#[test]
fn the_default_loss_is_the_smoothed_cross_entropy_to_the_bit() {
    let device = kiln_device::cpu();
    let logits = tensor2(&[0.3, -1.0, 2.0, 0.5, 0.25, -0.125], 3, &device);
    let targets = mixed_pair(&device).soft_targets(3, 0.0);
    let ours = Loss::with_counts(&LossConfig::default(), &[5, 1, 1], &device).of(logits.clone(), targets.clone());
    assert_eq!(scalar(ours), scalar(cross_entropy_soft(logits, targets, 0.1)));
}

#[test]
fn rare_classes_count_as_much_as_common_ones_if_asked() {
    let weights = balancing_weights(&[6, 3, 0]);
    assert_eq!(weights, [0.75, 1.5, 0.0]);
    let counted = 6.0 * weights[0] + 3.0 * weights[1];
    assert_eq!(counted, 9.0, "images count 1 in the mean");
}

#[test]
fn targets_above_the_threshold_are_a_yes_each() {
    let device = kiln_device::cpu();
    let config =
        LossConfig { kind: LossKind::Bce, label_smoothing: 0.0, target_threshold: 0.2, ..LossConfig::default() };
    let logits = tensor2(&[1.0, -2.0, 0.0, 0.5, 0.5, 3.0], 3, &device);
    let loss = Loss::with_counts(&config, &[], &device).of(logits, mixed_pair(&device).soft_targets(3, 0.0));
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let yes = |x: f64| -sigmoid(x).ln();
    let no = |x: f64| -sigmoid(-x).ln();
    let by_hand = yes(1.0) + yes(-2.0) + no(0.0) + yes(0.5) + yes(0.5) + no(3.0);
    assert_close("thresholded", scalar(loss), by_hand / 6.0, 1e-6);
}

#[test]
fn gradients_of_every_kind_are_those_of_central_differences() {
    let device = kiln_device::cpu();
    let logits = [0.4, -1.2, 2.0, 0.0, 0.7, -0.3];
    let targets = mixed_pair(&device).soft_targets(3, 0.0);
    for kind in [LossKind::CrossEntropy, LossKind::Bce, LossKind::Focal] {
        for class_weights in [Vec::new(), vec![0.5, 1.0, 2.0]] {
            let config = LossConfig { kind, class_weights, focal_gamma: 1.5, ..LossConfig::default() };
            let loss = Loss::with_counts(&config, &[], &device);
            let tracked = tensor2(&logits, 3, &device).autodiff().require_grad();
            let gradient = tracked.grad(&loss.of(tracked.clone(), targets.clone()).backward()).expect("a gradient");
            for (index, ours) in gradient.into_data().iter::<f64>().enumerate() {
                let at = |step: f64| {
                    let mut moved = logits;
                    moved[index] += step;
                    scalar(loss.of(tensor2(&moved, 3, &device), targets.clone()))
                };
                let slope = (at(0.01) - at(-0.01)) / 0.02;
                assert_close(&format!("{kind:?} {index}"), ours, slope, 2e-4);
            }
        }
    }
}
