//! Runs in 16 bits: as good as in f32, with a loss scale that finds its size, and resumed to the same bits.

use super::*;
use crate::precision::Precision;

fn in_type(precision: Precision, epochs: usize) -> Recipe {
    let mut recipe = recipe(epochs);
    recipe.run.precision = precision;
    recipe
}

/// A run in f16 whose loss scale begins at `scale`.
fn run_scaled(recipe: &Recipe, output: &Path, scale: f64, watcher: &mut Watcher) -> Result<Summary, TrainError> {
    let mut trainer = trainer(recipe, stripes(), output);
    trainer.settle_precision(watcher);
    let mut run = trainer.begin(model(recipe)).expect("a run");
    run.loss_scale = Some(LossScale { scale, ..LossScale::default() });
    trainer.train(run, watcher)
}

#[test]
fn sixteen_bits_learn_as_well_as_thirty_two() {
    let losses = [Precision::F32, Precision::Bf16, Precision::F16].map(|precision| {
        let folder = tempfile::tempdir().expect("a folder");
        let summary = train(&in_type(precision, 8), folder.path());
        let last = summary.last.expect("an epoch");
        assert!(last.val_top1 >= 0.9, "{precision}: {last:?}");
        let dtypes = summary.model.state().into_iter().all(|(_, data)| data.dtype() != burn::tensor::DType::F16);
        assert!(dtypes, "weights stay f32");
        last.train_loss
    });
    assert!(losses[1] != losses[0] && losses[2] != losses[0], "{losses:?}: each type is computed in");
    assert!(losses.iter().all(|loss| (loss - losses[0]).abs() < 0.05), "{losses:?}");
}

#[test]
fn a_scale_that_overflows_is_halved_until_it_fits_and_no_weight_is_spoilt() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut watcher = Watcher::default();
    let scale = f64::powi(2.0, 26);
    let summary = run_scaled(&in_type(Precision::F16, 12), folder.path(), scale, &mut watcher).expect("it goes on");
    let scales = watcher.notices.iter().map(|notice| match notice {
        Notice::SkippedStep { scale, .. } => *scale,
        other => panic!("{other}"),
    });
    let scales: Vec<f64> = scales.collect();
    assert!(!scales.is_empty() && scales.len() < 20, "{scales:?}");
    assert!(scales.iter().enumerate().all(|(index, found)| *found == scale / f64::powi(2.0, index as i32 + 1)));
    assert!(summary.last.expect("an epoch").val_top1 >= 0.9);
}

#[test]
fn a_run_that_overflows_at_any_scale_ends_with_the_step_the_files_and_a_good_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut recipe = in_type(Precision::F16, 2);
    recipe.run.max_skipped_steps = 2;
    let error = run_scaled(&recipe, folder.path(), 1e30, &mut Watcher::default()).expect_err("it never fits");
    let TrainError::NonFinite { epoch, step, images, checkpoint, .. } = &error else { panic!("{error}") };
    assert_eq!((*epoch, *step, images.len()), (1, 3, 8), "{error}");
    let checkpoint = checkpoint.as_ref().expect("the first");
    assert_eq!(Checkpoint::read(checkpoint).expect("usable").first_not_finite(), None);
}

#[test]
fn a_run_in_f16_resumes_in_mid_epoch_with_its_scale_to_the_same_bits() {
    let (whole, parts) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let recipe = in_type(Precision::F16, 2);
    let uninterrupted = train(&recipe, whole.path());
    let stopped = train_until(&recipe, parts.path(), 1, 2);
    let saved = Checkpoint::read(&stopped.checkpoint.expect("saved")).expect("whole");
    assert_eq!(saved.state.loss_scale.expect("in f16").good_steps, 2);
    let resumed = resume(&recipe, parts.path(), &mut ()).expect("a resumed run");
    assert_eq!(bits(&resumed.model), bits(&uninterrupted.model));
}
