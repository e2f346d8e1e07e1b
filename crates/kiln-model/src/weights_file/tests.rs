//! Every checkpoint of the golden folder, loaded bit for bit or refused by name, as its manifest says.

use super::*;
use crate::golden::{Golden, net_input, number_after, quoted_after, text_of};
use crate::{BlockKind, Head, LoadOptions, ResNet, load_safetensors};

const FOLDER: &str = "checkpoints/";

/// The golden folder, if it has `file`; the repository's subset has the smallest only.
fn golden_with(file: &str) -> Option<Golden> {
    let golden = Golden::open();
    let there = golden.files(FOLDER).contains(&format!("{FOLDER}{file}"));
    if !there {
        eprintln!("skipped: no {file} in the golden folder; KILN_GOLDEN_DIR names one that has it");
    }
    there.then_some(golden)
}

fn state_in(golden: &Golden, file: &str) -> State {
    load_safetensors(&golden.path(file)).expect("a reference").0
}

/// The narrow networks of the folder, by the number of their classes and kind of block.
fn network(state: &State) -> ResNet {
    let bottleneck = state.contains_key("layer1.0.conv3.weight");
    let depth =
        |stage: usize| (0..).take_while(|b| state.contains_key(&format!("layer{stage}.{b}.conv1.weight"))).count();
    let config = ResNetConfig {
        num_classes: state["fc.bias"].shape()[0],
        width: state["conv1.weight"].shape()[0],
        block: if bottleneck { BlockKind::Bottleneck } else { BlockKind::Basic },
        depths: [1, 2, 3, 4].map(depth),
        ..ResNetConfig::new(Arch::ResNet18)
    };
    config.init(0, &kiln_device::cpu())
}

#[test]
fn every_golden_checkpoint_loads_bit_for_bit_or_is_refused_by_name() {
    let golden = Golden::open();
    let (mut loaded, mut refused) = (0, 0);
    for file in golden.files(FOLDER).into_iter().filter(|file| !file.ends_with(".json")) {
        let entry = golden.entry(&file);
        let tolerance = entry["tolerance"].as_str().unwrap_or("");
        let result = WeightsFile::open(&golden.path(&file));
        if tolerance.starts_with("error") {
            let error = result.map(|_| ()).expect_err(&file);
            let ModelError::UnreadableWeights { problem, .. } = &error else { panic!("{file}: {error}") };
            let text = error.to_string();
            assert!(text.contains(&file[FOLDER.len()..]), "{text}");
            match text_of(entry, "what") {
                what if what.contains("GLOBAL") => {
                    let name = what.split_once("GLOBAL ").and_then(|(_, rest)| rest.split(' ').next()).expect("a name");
                    let FileProblem::UnknownGlobal { name: found } = problem else { panic!("{file}: {text}") };
                    assert_eq!(found.replace("__builtin__", "builtins"), name, "{file}");
                }
                what if what.contains("pickled class") => {
                    assert!(matches!(problem, FileProblem::UnknownGlobal { .. }), "{file}: {text}");
                }
                _ => assert!(matches!(problem, FileProblem::Damaged { .. }), "{file}: {text}"),
            }
            refused += 1;
            continue;
        }
        let opened = result.unwrap_or_else(|error| panic!("{file}: {error}"));
        match tolerance.strip_prefix("bit-equal to ").or(tolerance.strip_prefix("tensors bit-equal to ")) {
            Some(reference) => {
                let name = &reference[..reference.find(".safetensors").expect("a reference file") + 12];
                check_bits(&file, &opened, &state_in(&golden, &format!("{FOLDER}{name}")));
            }
            None if file.contains("full_layout") => check_full_layout(&golden, &file, &opened),
            None => check_bits(&file, &opened, &state_in(&golden, &file)),
        }
        loaded += 1;
    }
    eprintln!("{loaded} loaded bit for bit, {refused} refused by name");
    assert!(loaded > 0 && refused > 0);
}

/// Each tensor equals the reference, after the reference's floats were rounded to the file's type.
fn check_bits(file: &str, opened: &WeightsFile, reference: &State) {
    let chosen = opened.choose(None).unwrap_or_else(|error| panic!("{file}: {error}"));
    let state = opened.state(&chosen).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert_eq!(state.keys().collect::<Vec<_>>(), reference.keys().collect::<Vec<_>>(), "{file}");
    for (name, value) in &state {
        let expected = match reference[name].dtype() {
            DType::F32 => reference[name].clone().convert_dtype(value.dtype()),
            _ => reference[name].clone(),
        };
        assert_eq!(value, &expected, "{file} {name}");
    }
    if reference.contains_key("fc.weight") {
        let (loaded, report) = network(reference)
            .load_weights(opened, &LoadOptions::default())
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(report.matched.len(), reference.len(), "{file}");
        for (name, value) in loaded.state() {
            assert_eq!(value, state[&name].clone().convert_dtype(value.dtype()), "{file} {name} in the model");
        }
    }
}

/// Entry `i` of the key list is one constant at full shape, stored as one number.
fn check_full_layout(golden: &Golden, file: &str, opened: &WeightsFile) {
    let what = text_of(golden.entry(file), "what");
    let arch: Arch = what.split(' ').find_map(|word| word.parse().ok()).expect("an architecture in the text");
    let model = ResNetConfig::new(arch).init(0, &kiln_device::cpu());
    let (loaded, report) = model.load_weights(opened, &LoadOptions::default()).expect("the full layout");
    let (cycle, step, first) = (number_after(what, "(i%"), number_after(what, ")*"), number_after(what, "+"));
    for (index, (name, value)) in loaded.state().into_iter().enumerate() {
        let expected = match name.ends_with("num_batches_tracked") {
            true => continue,
            false => (index as f64 % cycle * step + first) as f32,
        };
        assert!(value.iter::<f32>().all(|v| v.to_bits() == expected.to_bits()), "{name} isn't {expected} throughout");
    }
    assert_eq!(report.matched.len(), loaded.state().len());
    let chosen = opened.choose(None).expect("one set");
    assert!(opened.state(&chosen).is_err(), "1000 times the file is only read into a model that expects it");
}

#[test]
fn loaded_checkpoints_give_pytorch_s_logits() {
    let Some(golden) = golden_with("reference.safetensors") else { return };
    let reference = format!("{FOLDER}reference.safetensors");
    let entry = golden.entry(&reference);
    let expected = golden.tensors(&reference);
    let call = text_of(entry, "what");
    let (tag, first) = (quoted_after(call, "net_input("), number_after(call, "n0=") as usize);
    let sizes: Vec<usize> =
        call[call.find("',").expect("arguments") + 2..].split(',').map_while(|number| number.parse().ok()).collect();
    let images = net_input(tag, [sizes[0], sizes[1], sizes[2]], first, &kiln_device::cpu());
    let tolerance = number_after(text_of(entry, "tolerance"), "abs");
    for (file, set, logits) in [
        ("tv_reference_checkpoint_ddp.pth", None, "r18"),
        ("tv_reference_checkpoint_ddp.pth", Some("model_ema"), "r18_ema"),
        ("narrow_r18_channels_last.pth", None, "r18"),
        ("timm_checkpoint.pth.tar", None, "bottleneck"),
        ("timm_checkpoint.pth.tar", Some("state_dict_ema"), "bottleneck_ema"),
    ] {
        let opened = WeightsFile::open(&golden.path(&format!("{FOLDER}{file}"))).expect("a checkpoint");
        let state = opened.state(&opened.choose(set).expect("the set")).expect("plain weights");
        let options = LoadOptions { set, classes: None, head: Head::MustFit };
        let (model, report) = network(&state).load_weights(&opened, &options).expect("its own network");
        assert!(report.to_string().contains(set.unwrap_or("")), "{report}");
        let found: Vec<f64> = model.forward(images.clone()).into_data().iter().collect();
        let expected = &expected[&format!("{logits}/logits")].values;
        let largest = expected.iter().fold(0f64, |largest, v| largest.max(v.abs()));
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= tolerance * largest, "{file} {set:?}: {found}, want {expected}");
        }
    }
}

#[test]
fn a_set_that_is_not_there_is_answered_with_those_that_are() {
    let Some(golden) = golden_with("timm_checkpoint.pth.tar") else { return };
    let path = golden.path(&format!("{FOLDER}timm_checkpoint.pth.tar"));
    let file = WeightsFile::open(&path).expect("a checkpoint");
    let message = file.choose(Some("model_ema")).expect_err("timm calls it otherwise").to_string();
    assert!(message.contains("\"state_dict\", \"state_dict_ema\""), "{message}");
}

#[test]
fn files_of_other_kinds_are_named_for_what_they_are() {
    for (bytes, part) in [
        (&b"<!DOCTYPE html><html>"[..], "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"", "empty"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"plain text, not weights", "no known format"),
    ] {
        let error = WeightsFile::parse(bytes.to_vec(), "weights.pth").map(|_| ()).expect_err("no weights");
        assert!(error.to_string().contains(part) && error.to_string().contains("weights.pth"), "{error}");
    }
}
