//! Checkpoints: whole or named as damaged, the right one found, the right ones kept.

use super::*;
use kiln_model::Arch;

/// A checkpoint after `epoch` epochs.
fn checkpoint(epoch: usize, best: Option<usize>) -> Checkpoint {
    let model = ResNetConfig { width: 4, num_classes: 2, ..ResNetConfig::new(Arch::ResNet18) };
    let classes = ["cat".to_owned(), "dog".to_owned()];
    let state = RunState {
        num_epochs_done: epoch,
        num_steps_done: 7 * epoch as u64,
        best: best.map(|epoch| Best { epoch, val_top1: 0.1 + 0.2, score: None }),
        ..RunState::new(&Recipe::default(), &model, &classes)
    };
    let values = |offset: f32| TensorData::new((0..400).map(|i| i as f32 + offset).collect::<Vec<_>>(), [20, 20]);
    Checkpoint {
        state,
        model: vec![("fc.weight".into(), values(epoch as f32))],
        optimizer: [("fc.weight.momentum_buffer".to_owned(), values(-1.0))].into(),
        ema: State::new(),
        metrics: "{}\n".repeat(epoch),
    }
}

/// The same, `batches` batches into the epoch after those, with averaged weights.
fn checkpoint_within(epoch: usize, batches: usize) -> Checkpoint {
    let mut checkpoint = checkpoint(epoch, None);
    let totals = Totals { loss_sum: 0.1 + 0.2, top1_hits: 3, top5_hits: 4, num_samples: 5 };
    let skipped = vec![Skipped { name: "a.png".into(), reason: "not a picture".into() }];
    checkpoint.state.under_way = Some(UnderWay { num_batches_done: batches, totals, skipped });
    checkpoint.ema = checkpoint.model.iter().cloned().collect();
    checkpoint
}

fn after(epochs: usize) -> Position {
    Position::after_epochs(epochs)
}

fn checkpoints() -> (tempfile::TempDir, Checkpoints) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checkpoints = Checkpoints::new(folder.path().join("checkpoints"));
    fs::create_dir(folder.path().join("checkpoints")).expect("a folder");
    (folder, checkpoints)
}

fn found(checkpoints: &Checkpoints) -> Found {
    checkpoints.newest().expect("a usable one").expect("one at all")
}

#[test]
fn a_checkpoint_reads_back_as_it_was_written() {
    let (_folder, checkpoints) = checkpoints();
    let written = checkpoint(3, Some(2));
    let path = checkpoints.write(&written, 2).expect("written");
    let read = Checkpoint::read(&path).expect("undamaged");
    assert_eq!(read.state, written.state, "0.1 + 0.2 must survive to the last bit");
    assert_eq!(read.model, written.model);
    assert_eq!(read.optimizer, written.optimizer);
    assert_eq!(read.metrics, written.metrics);
}

#[test]
fn a_checkpoint_within_an_epoch_reads_back_and_is_newer_than_the_epoch_before() {
    let (_folder, checkpoints) = checkpoints();
    let written = checkpoint_within(3, 120);
    let path = checkpoints.write(&written, 2).expect("written");
    assert!(path.ends_with("epoch-0003-step-000120"), "{}", path.display());
    checkpoints.write(&checkpoint(3, None), 2).expect("written");
    let found = found(&checkpoints);
    assert_eq!(found.checkpoint.state, written.state, "to the last bit of the sum of losses");
    assert_eq!(found.checkpoint.ema, written.ema);
    assert_eq!(found.checkpoint.state.position(), Position { epochs: 3, batches: 120 });

    damage(&path.join(EMA), "flip");
    let damaged = Checkpoint::read(&path).err().expect("damaged");
    assert_eq!(damaged.path, path.join(EMA));
    fs::remove_file(path.join(EMA)).expect("removed");
    assert_eq!(Checkpoint::read(&path).err().expect("incomplete").path, path.join(EMA));
}

#[test]
fn a_checkpoint_of_the_first_layout_is_still_read() {
    let (_folder, checkpoints) = checkpoints();
    let mut first = checkpoint(2, Some(1));
    first.state.format = OLDEST_FORMAT;
    let read = Checkpoint::read(&checkpoints.write(&first, 2).expect("written")).expect("undamaged");
    assert_eq!((read.state.under_way, read.state.num_epochs_done), (None, 2));
}

#[test]
fn a_value_that_is_not_finite_is_named() {
    let mut broken = checkpoint(1, None);
    assert_eq!(broken.first_not_finite(), None);
    broken.optimizer.insert("fc.bias.momentum_buffer".into(), TensorData::new(vec![0.0, f32::NAN], [2]));
    assert_eq!(broken.first_not_finite(), Some("fc.bias.momentum_buffer"));
}

#[test]
fn the_newest_are_kept_and_the_best() {
    let (_folder, checkpoints) = checkpoints();
    for epoch in 1..=6 {
        checkpoints.write(&checkpoint(epoch, Some(epoch.min(2))), 2).expect("written");
    }
    assert_eq!(checkpoints.positions().expect("a folder"), [2, 5, 6].map(after));
    let best = fs::read(checkpoints.best_model()).expect("the best model");
    assert_eq!(best, fs::read(checkpoints.path(after(2)).join(MODEL)).expect("its source"));
}

/// Damages a file as `corrupt_ckpt.py` does.
fn damage(file: &Path, how: &str) {
    let mut bytes = fs::read(file).expect("a file");
    match how {
        "half" => bytes.truncate(bytes.len() / 2),
        "zero" => bytes.clear(),
        "flip" => {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0xFF;
        }
        other => panic!("no damage called {other}"),
    }
    fs::write(file, bytes).expect("written");
}

#[test]
fn a_damaged_newest_checkpoint_is_named_and_the_previous_one_used() {
    for file in [MODEL, OPTIMIZER, STATE, METRICS, SUMS] {
        for how in ["half", "zero", "flip"] {
            let (_folder, checkpoints) = checkpoints();
            for epoch in [1, 2] {
                checkpoints.write(&checkpoint(epoch, Some(1)), 2).expect("written");
            }
            damage(&checkpoints.path(after(2)).join(file), how);
            let found = found(&checkpoints);
            assert_eq!(found.checkpoint.state.num_epochs_done, 1, "{file} {how}");
            assert_eq!(found.damaged[0].path, checkpoints.path(after(2)).join(file), "{how}");
        }
    }
}

#[test]
fn a_missing_file_is_damage() {
    let (_folder, checkpoints) = checkpoints();
    for epoch in [1, 2] {
        checkpoints.write(&checkpoint(epoch, None), 2).expect("written");
    }
    fs::remove_file(checkpoints.path(after(2)).join(OPTIMIZER)).expect("removed");
    assert!(found(&checkpoints).damaged[0].path.ends_with("epoch-0002/optimizer.safetensors"));
}

#[test]
fn with_every_checkpoint_damaged_all_are_named_and_none_is_used() {
    let (_folder, checkpoints) = checkpoints();
    for epoch in [1, 2] {
        damage(&checkpoints.write(&checkpoint(epoch, None), 2).expect("written").join(MODEL), "flip");
    }
    let message = checkpoints.newest().err().expect("nothing usable").to_string();
    assert!(message.contains("epoch-0001") && message.contains("epoch-0002"), "{message}");
}

#[test]
fn no_folder_and_an_empty_one_are_no_checkpoint() {
    let (folder, empty) = checkpoints();
    assert!(empty.newest().expect("no error").is_none());
    assert!(Checkpoints::new(folder.path().join("nowhere")).newest().expect("no error").is_none());
}

#[test]
fn the_largest_file_written_last_belongs_to_the_checkpoint_or_can_be_made_again() {
    let (_folder, checkpoints) = checkpoints();
    checkpoints.write(&checkpoint(1, Some(1)), 2).expect("written");
    let best = Some(Best { epoch: 1, val_top1: 0.5, score: None });
    assert_eq!(checkpoints.repair_best(best).expect("readable"), None);
    damage(&checkpoints.best_model(), "half");
    let repaired = checkpoints.repair_best(best).expect("written").expect("it was damaged");
    assert_eq!(repaired.path, checkpoints.best_model());
    assert_eq!(checkpoints.repair_best(best).expect("readable"), None);
}

#[test]
fn other_classes_and_another_network_are_refused_with_both_sides() {
    let (_folder, checkpoints) = checkpoints();
    let path = checkpoints.write(&checkpoint(1, None), 2).expect("written");
    let read = Checkpoint::read(&path).expect("undamaged");
    let (model, classes) = (read.state.model.clone(), read.state.classes.clone());
    read.check(&path, &classes, &model).expect("the same");

    let swapped = ["dog".to_owned(), "cat".to_owned()];
    let message = read.check(&path, &swapped, &model).expect_err("another order").to_string();
    assert!(message.contains("(cat, dog)") && message.contains("(dog, cat)"), "{message}");

    let other = ResNetConfig { width: 8, ..model };
    let message = read.check(&path, &classes, &other).expect_err("another width").to_string();
    assert!(message.contains("width 4") && message.contains("width 8"), "{message}");
}

#[test]
fn a_checkpoint_of_a_later_layout_is_named_as_such() {
    let (_folder, checkpoints) = checkpoints();
    let mut later = checkpoint(1, None);
    later.state.format = FORMAT + 1;
    let path = checkpoints.write(&later, 2).expect("written");
    let damaged = Checkpoint::read(&path).err().expect("another layout");
    assert!(damaged.reason.contains("format 3"), "{damaged}");
}

#[test]
fn a_later_checkpoint_is_set_aside_not_lost() {
    let (_folder, checkpoints) = checkpoints();
    for epoch in 1..=3 {
        checkpoints.write(&checkpoint(epoch, None), 3).expect("written");
    }
    checkpoints.set_aside_after(after(1)).expect("renamed");
    assert_eq!(checkpoints.positions().expect("a folder"), [after(1)]);
    Checkpoint::read(&checkpoints.folder.join("set-aside-epoch-0003")).expect("still whole");
}

#[test]
fn the_model_file_says_what_it_needs_to_be_used() {
    let (_folder, checkpoints) = checkpoints();
    checkpoints.write(&checkpoint(1, Some(1)), 2).expect("written");
    let bytes = fs::read(checkpoints.best_model()).expect("the best model");
    let (_, metadata) = state_from_safetensors(&bytes, "best").expect("safetensors");
    assert_eq!(metadata["classes"], "[\"cat\",\"dog\"]");
    for key in ["arch", "mean", "std", "input_size", "epoch"] {
        assert!(metadata.contains_key(key), "{key} in {metadata:?}");
    }
}

#[test]
fn checksums_are_those_of_sha256sum() {
    // The digest of "abc", FIPS 180-4.
    let line = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  x\n";
    assert_eq!(sum_line("x", b"abc"), line);
}
