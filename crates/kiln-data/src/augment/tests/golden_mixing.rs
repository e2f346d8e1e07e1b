//! Mixed images and targets against torchvision's and timm's, on what the golden folder's manifest lists.

use burn::tensor::Tensor;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::golden::{Golden, array, check_share, integer, text, tolerance_of};
use crate::augment::mixing::{Mix, MixedTargets, labels_on_device};
use crate::augment::program::Program;
use crate::augment::record::Records;
use crate::augment::run::{LaunchCounter, OutputFormat, run_on_host};
use crate::batch::{Batch, ImageSlot};

/// The operations that are tested here.
pub(super) const OPERATIONS: [&str; 7] = [
    "label mix",
    "label mix with lam_adjusted",
    "timm Mixup batch mode: x*lam + flip(x,0)*(1-lam)",
    "timm cutmix: box from flip(x,0)",
    "timm mixup_target smoothing=0.1",
    "v2.CutMix: inside box pixels come from roll(x,1,0)",
    "v2.MixUp: out = x*lam + roll(x,1,dim=0)*(1-lam); on u8/255",
];

#[test]
fn mixed_images_and_targets_match_torchvision_and_timm() {
    let golden = Golden::open();
    let manifest = golden.json("manifest.json");
    let mut num_run = 0;
    for (name, entry) in manifest["files"].as_object().expect("files by name") {
        let cases = entry["cases"].as_array().into_iter().flatten();
        let cases: Vec<_> = cases.filter(|case| OPERATIONS.contains(&text(&case["op"]))).collect();
        if cases.is_empty() {
            continue;
        }
        let bytes = golden.bytes(name);
        let file = SafeTensors::deserialize(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let tolerance = tolerance_of("pointwise", text(&entry["tolerance"]["f32"]));
        for case in cases {
            let is_of_labels = text(&case["op"]).starts_with("label") || text(&case["op"]).contains("target");
            let check = if is_of_labels { check_targets } else { check_images };
            check(case, &file, tolerance);
            num_run += 1;
        }
    }
    assert!(num_run >= 4, "{num_run} cases of mixing in {}", golden.describe());
}

/// What the case mixes each of `count` images with.
fn mixes(case: &Value, count: usize) -> Vec<Mix> {
    let params = &case["params"];
    let pasted = params["box_x1y1x2y2"].is_array().then(|| {
        let [left, top, right, bottom] = [0, 1, 2, 3].map(|edge| integer(&params["box_x1y1x2y2"][edge]) as u32);
        [top, left, bottom, right]
    });
    // Where another is pasted, images don't depend on the share.
    let share = params["lam"].as_f64().unwrap_or(0.5);
    let partner = |index| match text(&case["backend"]) {
        "timm" => count - 1 - index,
        _ => (index + count - 1) % count,
    };
    (0..count).map(|index| Mix { partner: partner(index), share, pasted }).collect()
}

fn check_images(case: &Value, file: &SafeTensors, tolerance: f64) {
    let key = text(&case["key"]);
    let (input, want) = (array(file, text(&case["input"])), array(file, key));
    let [count, channels, height, width] = input.shape;
    assert_eq!((channels, want.shape), (3, input.shape), "{key}");
    let plane = height * width;
    let mut images = Vec::new();
    let mut pixels: Vec<u8> = Vec::new();
    for planes in input.values.chunks_exact(3 * plane) {
        images.push(ImageSlot::whole(pixels.len(), width as u32, height as u32));
        pixels.extend((0..3 * plane).map(|i| planes[(i % 3) * plane + i / 3] as u8));
        pixels.resize(pixels.len().next_multiple_of(4), 0);
    }
    let programs = vec![Program::new(width as u32, height as u32); count];
    let records = Records::new(&images, &programs, &mixes(case, count), [height, width]);
    let format = OutputFormat::new([height, width], [0.0; 3], [1.0; 3], &LaunchCounter::default());
    let found = run_on_host(&pixels, &records.words, &OutputFormat { plan: records.plan, ..format });
    check_share(key, &found, &want.values, [tolerance, 1.0]);
}

fn check_targets(case: &Value, file: &SafeTensors, tolerance: f64) {
    let key = text(&case["key"]);
    let labels = file.tensor(text(&case["input"])).unwrap_or_else(|error| panic!("{key}: {error}"));
    assert_eq!(labels.dtype(), Dtype::I64, "{key}: labels");
    let labels: Vec<u32> = labels.data().as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes) as u32).collect();
    let want = file.tensor(key).unwrap_or_else(|error| panic!("{key}: {error}"));
    let want_values: Vec<f32> = want.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let (count, classes) = (labels.len(), want.shape()[1]);
    for (name, device) in kiln_device::parity_devices() {
        let batch = Batch {
            images: Tensor::zeros([count, 3, 1, 1], &device),
            targets: labels_on_device(&labels, &device),
            mix: MixedTargets::new(&mixes(case, count), &labels),
            labels: labels.clone(),
            samples: Vec::new(),
        };
        let found = batch.soft_targets(classes, case["params"]["smoothing"].as_f64().unwrap_or(0.0));
        assert_eq!(found.dims(), [count, classes], "{key}");
        let found: Vec<f32> = found.into_data().try_to_vec().expect("f32 targets");
        check_share(&format!("{key} on {name}"), &found, &want_values, [tolerance, 1.0]);
    }
}
