//! Devices that fail within a step: the run goes on if it can, and leaves advice and a checkpoint if it can't.

use super::super::faults::{Fault, Faults, Phase};
use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What cubecl says, as released: its server's error at a launch, with the storage's own behind it.
const OUT_OF_MEMORY: &str = "An out-of-memory error happened during launch\nCaused by:\n  out of device memory \
                             allocating 4294967296 bytes\nBacktrace\n   0: a function";
const LOST: &str = "The device was poisoned during launch\nCaused by:\n  Unknown: Device lost";
const TIMED_OUT: &str = "CUDA_ERROR_LAUNCH_TIMEOUT: the launch timed out and was terminated";

/// Losses of runs whose batch norms see parts of different sizes; measured: 0.05 at most.
const NOISE: f64 = 0.2;

fn fault(phase: Phase, step: u64, min_images: usize, text: &str, times: usize) -> Fault {
    Fault { phase, step, min_images, text: text.to_owned(), times }
}

fn run_with(recipe: &Recipe, output: &Path, faults: Vec<Fault>, observer: &mut Watcher) -> Result<Summary, TrainError> {
    let mut trainer = trainer(recipe, stripes(), output);
    trainer.faults = Faults::plan(faults);
    trainer.reopen = Box::new(|| Ok(cpu()));
    trainer.run(model(recipe), observer)
}

fn last_loss(output: &Path) -> f64 {
    record(output).last().expect("an epoch")["val_loss"].as_f64().expect("a number")
}

#[test]
fn out_of_memory_in_a_pass_halves_the_parts_and_the_step_still_learns_from_the_whole_batch() {
    let plain = tempfile::tempdir().expect("a folder");
    let recipe = recipe(4);
    train(&recipe, plain.path());
    for phase in [Phase::Forward, Phase::Backward] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut watcher = Watcher::default();
        let faults = vec![fault(phase, 2, 5, OUT_OF_MEMORY, usize::MAX)];
        run_with(&recipe, folder.path(), faults, &mut watcher).expect("it goes on");
        assert_eq!(watcher.notices, [Notice::SmallerMicroBatch { micro_batch_size: 4, batch_size: 8 }], "said once");
        assert_eq!(watcher.steps.len(), 12, "no step is taken twice");
        assert_eq!(record(folder.path())[3]["step"], 12);
        let (found, plain) = (last_loss(folder.path()), last_loss(plain.path()));
        assert!((found - plain).abs() < NOISE, "{phase:?}: {found}, {plain} without the failure");
    }
}

#[test]
fn parts_shrink_until_they_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut watcher = Watcher::default();
    let faults = vec![fault(Phase::Forward, 0, 3, OUT_OF_MEMORY, usize::MAX)];
    run_with(&recipe(1), folder.path(), faults, &mut watcher).expect("two images fit");
    let sizes = watcher.notices.iter().map(|notice| match notice {
        Notice::SmallerMicroBatch { micro_batch_size, .. } => *micro_batch_size,
        other => panic!("{other}"),
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [4, 2]);
}

#[test]
fn validation_that_runs_out_of_memory_goes_on_in_parts_to_the_same_result() {
    let (plain, folder) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let recipe = recipe(1);
    train(&recipe, plain.path());
    let mut watcher = Watcher::default();
    run_with(&recipe, folder.path(), vec![fault(Phase::Validation, 0, 5, OUT_OF_MEMORY, 9)], &mut watcher)
        .expect("a run");
    assert_eq!(watcher.notices.len(), 1);
    let (found, plain) = (last_loss(folder.path()), last_loss(plain.path()));
    assert!((found - plain).abs() < 1e-6, "{found} {plain}");
}

#[test]
fn out_of_memory_in_the_optimiser_goes_back_to_the_newest_checkpoint_with_smaller_parts() {
    let (plain, folder) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let recipe = recipe(4);
    train(&recipe, plain.path());
    let mut watcher = Watcher::default();
    let faults = vec![fault(Phase::Optimizer, 4, 0, OUT_OF_MEMORY, 1)];
    run_with(&recipe, folder.path(), faults, &mut watcher).expect("it goes on");
    let checkpoint = folder.path().join("checkpoints/epoch-0001");
    let reason = "An out-of-memory error happened during launch: out of device memory allocating 4294967296 bytes";
    let recovered = Notice::Recovered { reason: reason.into(), checkpoint };
    assert_eq!(watcher.notices, [Notice::SmallerMicroBatch { micro_batch_size: 4, batch_size: 8 }, recovered]);
    let (found, plain) = (last_loss(folder.path()), last_loss(plain.path()));
    assert!((found - plain).abs() < NOISE, "{found}, {plain} without the failure");
}

#[test]
fn a_lost_device_is_opened_again_and_the_run_ends_with_the_same_bits() {
    let whole = tempfile::tempdir().expect("a folder");
    let recipe = recipe(3);
    let uninterrupted = train(&recipe, whole.path());
    for (phase, step, text) in [
        (Phase::Forward, 0, LOST),
        (Phase::Backward, 4, LOST),
        (Phase::Optimizer, 5, TIMED_OUT),
        (Phase::Validation, 0, "Parent device is lost"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut watcher = Watcher::default();
        let mut trainer = trainer(&recipe, stripes(), folder.path());
        trainer.faults = Faults::plan(vec![fault(phase, step, 0, text, 1)]);
        let opened = Arc::new(AtomicUsize::new(0));
        let count = opened.clone();
        trainer.reopen = Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(cpu())
        });
        let summary = trainer.run(model(&recipe), &mut watcher).expect("it goes on");
        assert_eq!(opened.load(Ordering::Relaxed), 1, "{phase:?}");
        assert!(matches!(watcher.notices.as_slice(), [Notice::Recovered { .. }]), "{:?}", watcher.notices);
        assert_eq!(bits(&summary.model), bits(&uninterrupted.model), "{phase:?}");
        assert_eq!(record(folder.path()), record(whole.path()), "{phase:?}");
    }
}

#[test]
fn a_device_that_stays_away_ends_the_run_with_advice_and_a_usable_checkpoint() {
    let whole = tempfile::tempdir().expect("a folder");
    let recipe = recipe(3);
    let uninterrupted = train(&recipe, whole.path());
    for (text, advice) in [(LOST, "took the device away"), (TIMED_OUT, "TdrDelay")] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut trainer = trainer(&recipe, stripes(), folder.path());
        trainer.faults = Faults::plan(vec![fault(Phase::Backward, 4, 0, text, usize::MAX)]);
        trainer.reopen = Box::new(|| kiln_device::open(&"cuda:99".parse().expect("a request")));
        let error = trainer.run(model(&recipe), &mut ()).expect_err("no device");
        let message = error.to_string();
        let checkpoint = folder.path().join("checkpoints/epoch-0001");
        for part in [advice, "--resume", &checkpoint.display().to_string(), "in epoch 2"] {
            assert!(message.contains(part), "{part} in {message}");
        }
        let resumed = resume(&recipe, folder.path(), &mut ()).expect("its checkpoint");
        assert_eq!(bits(&resumed.model), bits(&uninterrupted.model));
    }
}

#[test]
fn a_device_without_room_for_the_smallest_part_ends_the_run_with_advice() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = vec![fault(Phase::Forward, 1, 0, OUT_OF_MEMORY, usize::MAX)];
    let error = run_with(&recipe(1), folder.path(), faults, &mut Watcher::default()).expect_err("no room at all");
    let message = error.to_string();
    assert!(message.contains("--batch-size") && message.contains("epoch-0000"), "{message}");
    Checkpoint::read(&folder.path().join("checkpoints/epoch-0000")).expect("usable");
}

#[test]
fn a_device_that_fails_at_the_same_place_again_and_again_is_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut watcher = Watcher::default();
    let faults = vec![fault(Phase::Backward, 1, 0, LOST, usize::MAX)];
    let error = run_with(&recipe(1), folder.path(), faults, &mut watcher).expect_err("it never works");
    assert_eq!(watcher.notices.len(), 3, "three times");
    assert!(error.to_string().contains("Device lost"), "{error}");
}
