//! Top-k against scikit-learn's counts and by hand; when a meter reads.

use super::*;
use crate::golden::{Golden, tensor_f64};
use burn::tensor::{Device, TensorData};
use safetensors::SafeTensors;

fn meter_of(logits: &[f32], targets: &[i32], classes: usize, device: &Device) -> Totals {
    let mut meter = Meter::new(classes, true);
    push(&mut meter, 0.5, logits, targets, device);
    meter.read().expect("finite losses");
    meter.totals()
}

fn push(meter: &mut Meter, loss: f32, logits: &[f32], targets: &[i32], device: &Device) {
    let shape = [targets.len(), logits.len() / targets.len()];
    let logits = Tensor::<2>::from_data(TensorData::new(logits.to_vec(), shape), device);
    let targets = Tensor::<1, Int>::from_data(TensorData::new(targets.to_vec(), [shape[0]]), device);
    meter.push(StepId { step: 7, lr: 0.25 }, Tensor::from_floats([loss], device), logits, targets);
}

#[test]
fn hits_equal_those_of_scikit_learn() {
    let golden = Golden::open();
    if golden.entry("metrics.json").is_none() {
        return;
    }
    let want: serde_json::Value = serde_json::from_str(&golden.text("metrics.json")).expect("JSON");
    let bytes = golden.bytes("metrics.safetensors");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let classes = tensor_f64(&file, "support").len();
    let logits: Vec<f32> = tensor_f64(&file, "logits").iter().map(|&v| v as f32).collect();
    let labels: Vec<i32> = tensor_f64(&file, "labels").iter().map(|&v| v as i32).collect();
    for (name, device) in kiln_device::parity_devices() {
        let totals = meter_of(&logits[classes..], &labels[1..], classes, &device);
        assert_eq!(Some(totals.num_samples), want["n"].as_u64(), "{name}");
        assert_eq!(Some(totals.top1_hits), want["counts"]["top1"].as_u64(), "{name}");
        assert_eq!(Some(totals.top5_hits), want["counts"]["top5"].as_u64(), "{name}");
    }
}

#[test]
fn ties_go_to_the_lower_class() {
    let totals = meter_of(&[1.0, 1.0, 1.0, 1.0], &[0, 1], 2, &kiln_device::cpu());
    assert_eq!((totals.top1_hits, totals.num_samples), (1, 2));
}

#[test]
fn top5_of_three_classes_is_always_a_hit() {
    let totals = meter_of(&[3.0, 2.0, 1.0], &[2], 3, &kiln_device::cpu());
    assert_eq!((totals.top1_hits, totals.top5_hits), (0, 1));
}

#[test]
fn broken_logits_are_never_right() {
    let totals = meter_of(&[f32::NAN; 6], &[0], 6, &kiln_device::cpu());
    assert_eq!((totals.top1_hits, totals.top5_hits), (0, 0));
}

#[test]
fn the_moment_of_reading_changes_no_sum() {
    let device = kiln_device::cpu();
    let losses = [0.1f32, 1e-3, 77.7, 0.3];
    let logits = [[0.0f32, 1.0], [1.0, 0.0]].concat();
    let sums = |read_each_step: bool| {
        let mut meter = Meter::new(2, true);
        for loss in losses {
            push(&mut meter, loss, &logits, &[1, 1], &device);
            if read_each_step {
                meter.read().expect("finite losses");
            }
        }
        meter.read().expect("finite losses");
        meter.totals()
    };
    assert_eq!(sums(true), sums(false));
    assert_eq!((sums(true).num_samples, sums(true).top1_hits), (8, 4));
}

#[test]
fn a_device_that_works_in_the_background_is_not_read_every_step() {
    let meter = Meter::new(2, false);
    assert!(!meter.is_due(), "read a moment ago");
    assert!(Meter::new(2, true).is_due(), "an eager device is always worth reading");
}

#[test]
fn the_first_loss_that_is_not_finite_is_named_with_its_step() {
    let device = kiln_device::cpu();
    let mut meter = Meter::new(2, true);
    push(&mut meter, 0.5, &[0.0, 1.0], &[1], &device);
    push(&mut meter, f32::INFINITY, &[0.0, 1.0], &[1], &device);
    let Err(MeterError::NonFinite { step, loss }) = meter.read() else { panic!("a finite loss") };
    assert_eq!((step, loss), (StepId { step: 7, lr: 0.25 }, f64::INFINITY));
}

#[test]
fn answers_equal_those_of_scikit_learn_and_agree_with_the_hits() {
    let golden = Golden::open();
    if golden.entry("metrics.json").is_none() {
        return;
    }
    let bytes = golden.bytes("metrics.safetensors");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let wanted = tensor_f64(&file, "confusion");
    let classes = tensor_f64(&file, "support").len();
    let logits: Vec<f32> = tensor_f64(&file, "logits").iter().map(|&v| v as f32).collect();
    let labels: Vec<u32> = tensor_f64(&file, "labels").iter().map(|&v| v as u32).collect();
    for (name, device) in kiln_device::parity_devices() {
        let mut meter = Meter::new(classes, false);
        // Batches of different sizes, read at once.
        for (from, to) in [(1, 200), (200, 201), (201, labels.len())] {
            let targets: Vec<i32> = labels[from..to].iter().map(|&label| label as i32).collect();
            let rows = TensorData::new(logits[from * classes..to * classes].to_vec(), [to - from, classes]);
            let targets = Tensor::<1, Int>::from_data(TensorData::new(targets, [to - from]), &device);
            let loss = Tensor::from_floats([0.5], &device);
            meter.push_answers(StepId::default(), loss, Tensor::from_data(rows, &device), targets, &labels[from..to]);
        }
        meter.read().expect("finite losses");
        let confusion = &meter.answers().confusion;
        for (index, &want) in wanted.iter().enumerate() {
            let (truth, predicted) = (index / classes, index % classes);
            assert_eq!(confusion.count(truth, predicted), want as u64, "{name} [{truth}, {predicted}]");
        }
        assert!((confusion.accuracy() - meter.totals().top1()).abs() < 1e-12, "{name}");
    }
}

#[test]
fn a_tie_is_answered_with_the_lower_class_and_its_probability() {
    let device = kiln_device::cpu();
    let logits = Tensor::<2>::from_data(TensorData::new(vec![1.0f32, 3.0, 3.0, f32::NAN, 0.0, 0.0], [2, 3]), &device);
    let (predicted, confidence) = answers(logits);
    assert_eq!(predicted.into_data().iter::<f32>().next(), Some(1.0));
    let confidence = confidence.into_data().iter::<f64>().next().expect("a number");
    let want = 3f64.exp() / (2.0 * 3f64.exp() + 1f64.exp());
    assert!((confidence - want).abs() < 1e-6, "{confidence}, want {want}");
}
