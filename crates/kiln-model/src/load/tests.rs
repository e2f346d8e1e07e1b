//! Loading by name: what fits, what is refused and in which words, what is left out on request.

use super::*;
use crate::{Arch, Metadata, ResNetConfig, safetensors_from_state};

fn network(num_classes: usize, seed: u64) -> ResNet {
    ResNetConfig { width: 4, num_classes, ..ResNetConfig::new(Arch::ResNet18) }.init(seed, &kiln_device::cpu())
}

fn file(state: Vec<(String, TensorData)>, classes: Option<&[&str]>) -> WeightsFile {
    let names = classes.map(|names| ("classes".to_string(), serde_json::json!(names).to_string()));
    let bytes = safetensors_from_state(&state, &names.into_iter().collect::<Metadata>()).expect("plain types");
    WeightsFile::parse(bytes, "other.safetensors").expect("its own bytes")
}

fn names(classes: &[&str]) -> Vec<String> {
    classes.iter().map(|name| name.to_string()).collect()
}

#[test]
fn every_entry_is_reported_and_carries_the_file_s_bits() {
    let source = network(3, 1);
    let (loaded, report) =
        network(3, 2).load_weights(&file(source.state(), None), &LoadOptions::default()).expect("the same network");
    assert_eq!(loaded.state(), source.state());
    assert_eq!(report.matched.len(), source.state().len());
    assert!(report.unused.is_empty() && report.assumed.is_empty(), "{report}");
}

#[test]
fn a_head_of_another_size_is_refused_with_both_lists_of_classes() {
    let file = file(network(3, 1).state(), Some(&["cat", "dog", "owl"]));
    let classes = names(&["red", "blue"]);
    let options = LoadOptions { classes: Some(&classes), ..LoadOptions::default() };
    let message = network(2, 2).load_weights(&file, &options).expect_err("another head").to_string();
    for part in ["other.safetensors", "3 classes (cat, dog, owl)", "2 classes (red, blue)", "--reinit-head"] {
        assert!(message.contains(part), "{part} missing in {message}");
    }
}

#[test]
fn a_head_of_the_same_size_for_other_classes_is_refused_too() {
    let file = file(network(2, 1).state(), Some(&["cat", "dog"]));
    let classes = names(&["dog", "cat"]);
    let options = LoadOptions { classes: Some(&classes), ..LoadOptions::default() };
    assert!(matches!(network(2, 2).load_weights(&file, &options), Err(ModelError::OtherHead { .. })));
    let options = LoadOptions { classes: None, ..options };
    network(2, 2).load_weights(&file, &options).expect("the model's classes have no names");
}

#[test]
fn reinit_head_keeps_the_body_and_says_what_it_left() {
    let (source, fresh) = (network(3, 1), network(2, 2));
    let options = LoadOptions { head: Head::Reinit, ..LoadOptions::default() };
    let own = fresh.state();
    let (loaded, report) = fresh.load_weights(&file(source.state(), None), &options).expect("the body fits");
    for (((name, loaded), (_, source)), (_, own)) in loaded.state().iter().zip(source.state()).zip(&own) {
        let expected = if name.starts_with("fc.") { own } else { &source };
        assert_eq!(loaded, expected, "{name}");
    }
    assert_eq!(report.unused, ["fc.weight", "fc.bias"]);
    assert!(report.to_string().contains("not used: fc.weight, fc.bias"), "{report}");
}

#[test]
fn a_body_without_a_head_loads_only_with_a_new_one() {
    let body: Vec<_> = network(3, 1).state().into_iter().filter(|(name, _)| !name.starts_with("fc.")).collect();
    let message = network(2, 2).load_weights(&file(body.clone(), None), &LoadOptions::default()).expect_err("no head");
    assert!(message.to_string().contains("no such layer"), "{message}");
    let options = LoadOptions { head: Head::Reinit, ..LoadOptions::default() };
    network(2, 2).load_weights(&file(body, None), &options).expect("the body fits");
}

#[test]
fn what_does_not_fit_is_listed_by_name_and_kind() {
    let mut state = network(3, 1).state();
    state.retain(|(name, _)| name != "layer3.0.conv2.weight");
    for (name, value) in &mut state {
        match name.as_str() {
            "bn1.bias" => *value = TensorData::new(vec![0f32; 5], [5]),
            "bn1.weight" => *value = TensorData::new(vec![0i64; 4], [4]),
            "layer4.1.bn2.bias" => *name = "layer4.1.bn9.bias".to_string(),
            _ => {}
        }
    }
    let message = network(3, 2).load_weights(&file(state, None), &LoadOptions::default()).expect_err("damaged");
    let message = message.to_string();
    for part in [
        "118 of its tensors fit",
        "2 missing: layer3.0.conv2.weight, layer4.1.bn2.bias",
        "1 unexpected: layer4.1.bn9.bias",
        "bn1.bias (the model has [4], the weights [5])",
        "1 of another kind: bn1.weight",
    ] {
        assert!(message.contains(part), "{part} missing in {message}");
    }
}

#[test]
fn batch_counters_that_old_files_lack_start_from_zero() {
    let source = network(3, 1);
    let state: Vec<_> = source.state().into_iter().filter(|(name, _)| !name.contains("num_batches")).collect();
    let (loaded, report) =
        network(3, 2).load_weights(&file(state, None), &LoadOptions::default()).expect("as PyTorch does");
    assert_eq!(report.assumed.len(), 20);
    assert_eq!(loaded.state(), source.state());
}

#[test]
fn wrappers_prefixes_are_taken_off_and_other_modules_left_alone() {
    let mut state: Vec<_> =
        network(3, 1).state().into_iter().map(|(name, value)| (format!("module.model.{name}"), value)).collect();
    state.push(("n_averaged".to_string(), TensorData::new(vec![7i64], [1])));
    let (_, report) = network(3, 2).load_weights(&file(state, None), &LoadOptions::default()).expect("wrapped");
    assert_eq!(report.prefix, "module.model.");
    assert_eq!(report.unused, ["n_averaged"]);
}
