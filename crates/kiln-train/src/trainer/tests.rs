//! Whole runs on tiny data: they learn, they resume to the same bits, and they say what went wrong.

mod parity;
mod precision;
mod recovery;

use super::*;
use crate::checkpoint::Checkpoint;
use crate::golden::parameter;
use crate::report::{Notice, Started, StepReport, Stopped};
use burn::tensor::{Tensor, TensorData};
use image::{ImageFormat, Rgb, RgbImage};
use kiln_data::{Augmentation, DataError, Dataset, Mixing, OpenOptions, RandomErasing, Sample, Splits};
use kiln_device::{DeviceRequest, OpenDevice};
use kiln_model::{Head, LoadOptions, Metadata, Part, WeightsFile, safetensors_from_state};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Stripes, in memory: class 0 across, class 1 upright.
struct Stripes {
    classes: Vec<String>,
    files: Vec<Vec<u8>>,
}

impl Stripes {
    fn new(num_images: usize, first: usize) -> Self {
        let files = (first..first + num_images).map(|index| {
            let picture = RgbImage::from_fn(24, 20, |x, y| {
                let along = if index % 2 == 0 { y } else { x };
                let bright = (along / 3 + index as u32 / 2).is_multiple_of(2);
                let noise = (x * 31 + y * 17 + index as u32 * 57) % 40;
                Rgb([if bright { 180 } else { 40 } + noise as u8, 90, 20 + 5 * (index % 7) as u8])
            });
            let mut bytes = Cursor::new(Vec::new());
            picture.write_to(&mut bytes, ImageFormat::Png).expect("a PNG");
            bytes.into_inner()
        });
        Self { classes: vec!["across".into(), "upright".into()], files: files.collect() }
    }
}

impl Dataset for Stripes {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        Ok(Sample::encoded(self.files[index].clone(), self.label(index)))
    }

    fn name(&self, index: usize) -> String {
        format!("{index}.png")
    }

    fn label(&self, index: usize) -> u32 {
        index as u32 % 2
    }
}

fn stripes() -> Splits {
    Splits { train: Arc::new(Stripes::new(24, 0)), val: Arc::new(Stripes::new(10, 100)) }
}

fn recipe(epochs: usize) -> Recipe {
    let text = format!(
        "[run]\nepochs = {epochs}\nseed = 7\n[data]\nbatch_size = 8\nworkers = 2\n[model]\narch = 'resnet18'\n\
         width = 4\n[optimizer]\nlr = 0.05\n[schedule]\nwarmup_epochs = 1\n[augment]\nimage_size = 32\n"
    );
    Recipe::from_toml(&text).expect("a valid recipe")
}

/// Opened once: taking inventory asks drivers.
fn cpu() -> OpenDevice {
    static CPU: OnceLock<OpenDevice> = OnceLock::new();
    CPU.get_or_init(|| kiln_device::open(&DeviceRequest::Cpu).expect("the CPU")).clone()
}

fn trainer(recipe: &Recipe, data: Splits, output: &Path) -> Trainer {
    Trainer::new(recipe.clone(), &cpu(), data, output).expect("parts that fit")
}

fn model(recipe: &Recipe) -> ResNet {
    recipe.model.resnet(2).init(recipe.run.seed, &kiln_device::cpu())
}

fn train(recipe: &Recipe, output: &Path) -> Summary {
    trainer(recipe, stripes(), output).run(model(recipe), &mut ()).expect("a run")
}

/// A run that is asked to stop in `step` of `epoch`.
fn train_until(recipe: &Recipe, output: &Path, epoch: usize, step: usize) -> Summary {
    let flag = StopFlag::default();
    let mut watcher = Watcher { stop: Some((flag.clone(), epoch, step)), ..Watcher::default() };
    let trainer = trainer(recipe, stripes(), output).stop_with(flag);
    trainer.run(model(recipe), &mut watcher).expect("a stopped run")
}

fn resume(recipe: &Recipe, output: &Path, observer: &mut dyn Observer) -> Result<Summary, TrainError> {
    trainer(recipe, stripes(), output).resume(ResumeFrom::Auto).run(model(recipe), observer)
}

/// The bytes of every parameter and buffer.
fn bits(model: &ResNet) -> Vec<(String, Vec<u8>)> {
    model.state().into_iter().map(|(name, data)| (name, data.as_bytes().to_vec())).collect()
}

/// The lines of `metrics.jsonl` without what a clock measured.
fn record(output: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(output.join("metrics.jsonl")).expect("a record");
    let line = |line| {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        for clocked in ["images_per_sec", "data_wait_fraction", "train_secs", "val_secs"] {
            assert!(line[clocked].is_number(), "{clocked} in {line}");
            line.as_object_mut().expect("an object").remove(clocked);
        }
        // Only there if the epoch took long and waited.
        line.as_object_mut().expect("an object").remove("held_back");
        line
    };
    text.lines().map(line).collect()
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        // Named after the clock.
        if path.ends_with("tensorboard") {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).expect("a file"));
        }
    }
    found
}

/// Notes what it is told, and asks to stop after a given (epoch, step); step 0 is the epoch's end.
#[derive(Default)]
struct Watcher {
    stop: Option<(StopFlag, usize, usize)>,
    panic_at: Option<(usize, usize)>,
    started: Option<Started>,
    steps: Vec<StepReport>,
    epochs: Vec<EpochReport>,
    notices: Vec<Notice>,
}

impl Watcher {
    fn at(&mut self, epoch: usize, step: usize) {
        if let Some((flag, ..)) = self.stop.as_ref().filter(|(_, e, s)| (*e, *s) == (epoch, step)) {
            flag.stop();
        }
        assert_ne!(self.panic_at, Some((epoch, step)), "the process is killed here");
    }
}

impl Observer for Watcher {
    fn started(&mut self, started: &Started) {
        self.started = Some(started.clone());
    }

    fn step(&mut self, report: &StepReport) {
        self.steps.push(*report);
        self.at(report.epoch, report.step);
    }

    fn epoch(&mut self, report: &EpochReport) {
        self.epochs.push(report.clone());
        self.at(report.metrics.epoch, 0);
    }

    fn notice(&mut self, notice: &Notice) {
        self.notices.push(notice.clone());
    }
}

#[test]
fn a_small_network_learns_and_leaves_a_record() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recipe = recipe(8);
    let mut watcher = Watcher::default();
    let summary = trainer(&recipe, stripes(), folder.path()).run(model(&recipe), &mut watcher).expect("a run");
    let record = record(folder.path());
    assert_eq!(record.len(), 8);
    let (first, last) = (&record[0], &record[7]);
    let loss = |line: &Value| line["train_loss"].as_f64().expect("a number");
    assert!(loss(last) < 0.8 * loss(first), "{first} {last}");
    assert!(last["val_top1"].as_f64().expect("a number") >= 0.9, "{last}");
    assert_eq!(last["val_top5"], 1.0, "of two classes, both are among the first five");
    for key in ["epoch", "step", "lr", "train_top1", "val_loss", "skipped", "device"] {
        assert!(!last[key].is_null(), "{key} in {last}");
    }

    assert_eq!((summary.num_epochs_done, summary.stopped), (8, None));
    let resolved = std::fs::read_to_string(folder.path().join("recipe.toml")).expect("the recipe");
    assert_eq!(Recipe::from_toml(&resolved).expect("its own text"), recipe.resolved());
    assert_eq!(watcher.epochs.iter().filter(|epoch| epoch.best).count() > 0, summary.best_model.is_some());

    let started = watcher.started.expect("told");
    assert_eq!((started.steps_per_epoch, started.num_train_images, started.num_val_images), (3, 24, 10));
    let steps = watcher.steps;
    assert_eq!(steps.len(), 24);
    assert_eq!((steps[4].epoch, steps[4].step, steps[4].num_steps), (2, 2, 3));
    assert!(steps.iter().all(|step| step.loss.is_some() && !step.compiling), "a CPU has no late losses");
    assert!(steps[23].run_eta_secs.expect("known by now") >= 0.0);
}

/// Everything that mixes or erases.
fn mixed_recipe(epochs: usize) -> Recipe {
    let mut recipe = recipe(epochs);
    recipe.augment.mix = Some(Mixing { mixup_alpha: 0.4, cutmix_alpha: 1.0, ..Mixing::default() });
    let mut steps = recipe.augment.training().steps;
    steps.push(Augmentation::RandomErasing(RandomErasing::default()));
    recipe.augment.train = Some(steps);
    recipe
}

#[test]
fn a_mixed_run_trains_and_resumes_to_the_same_bits() {
    let (whole, parts) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let recipe = mixed_recipe(8);
    let uninterrupted = train(&recipe, whole.path());
    let record = record(whole.path());
    let loss = |line: &Value| line["val_loss"].as_f64().expect("a number");
    assert!(loss(&record[7]) < 0.9 * loss(&record[0]), "{} {}", record[0], record[7]);
    assert!(record[7]["val_top1"].as_f64().expect("a number") >= 0.9, "{}", record[7]);

    train_until(&recipe, parts.path(), 3, 1);
    let resumed = resume(&recipe, parts.path(), &mut ()).expect("a resumed run");
    assert_eq!(bits(&resumed.model), bits(&uninterrupted.model));
}

#[test]
fn a_mixed_step_counts_both_labels_in_the_loss_and_the_larger_share_in_the_accuracy() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut recipe = mixed_recipe(1);
    recipe.data.limit_batches = 1;
    train(&recipe, folder.path());
    let found = &record(folder.path())[0];

    // The same step by hand.
    let mut trainer = trainer(&recipe, stripes(), other.path());
    let run = trainer.begin(model(&recipe)).expect("a run");
    let mut batches = trainer.batches(&trainer.train, &recipe.augment.training(), 0, 0);
    let batch = batches.next().expect("a batch").expect("a good one");
    let mix = batch.mix.clone().expect("mixed");
    let logits: Vec<f32> = run.model.forward(batch.images).into_data().try_to_vec().expect("f32");
    let (mut loss, mut hits) = (0.0, 0);
    for (index, row) in logits.chunks_exact(2).enumerate() {
        let row = [f64::from(row[0]), f64::from(row[1])];
        let log_sum = (row[0].exp() + row[1].exp()).ln();
        let smoothed = |label: u32| log_sum - 0.9 * row[label as usize] - 0.05 * (row[0] + row[1]);
        let (own, partner, share) = (batch.labels[index], mix.partner_labels[index], mix.shares[index]);
        loss += share * smoothed(own) + (1.0 - share) * smoothed(partner);
        let main = if share < 0.5 { partner } else { own };
        hits += u32::from(row[main as usize] > row[1 - main as usize]);
    }
    let number = |key: &str| found[key].as_f64().expect("a number");
    assert!((number("train_loss") - loss / 8.0).abs() < 1e-5, "{} by hand, {found}", loss / 8.0);
    assert_eq!(number("train_top1"), f64::from(hits) / 8.0);
    assert!(mix.shares.iter().any(|share| *share < 0.5), "a share that tells the two labels apart: {:?}", mix.shares);
}

#[test]
fn two_epochs_and_two_more_equal_four_to_the_bit() {
    let (whole, parts) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let recipe = recipe(4);
    let uninterrupted = train(&recipe, whole.path());

    let stopped = train_until(&recipe, parts.path(), 2, 0);
    assert_eq!(stopped.stopped, Some(Stopped { epoch: 3, steps_done: 0 }));
    let resumed = resume(&recipe, parts.path(), &mut ()).expect("a resumed run");

    assert_eq!(bits(&resumed.model), bits(&uninterrupted.model));
    assert_eq!(record(parts.path()), record(whole.path()));
    assert_eq!(resumed.best, uninterrupted.best);
}

#[test]
fn a_run_stopped_within_an_epoch_saves_that_step_and_resumes_to_the_same_bits() {
    let (whole, parts) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let recipe = recipe(3);
    let uninterrupted = train(&recipe, whole.path());

    let summary = train_until(&recipe, parts.path(), 2, 1);
    assert_eq!(summary.stopped, Some(Stopped { epoch: 2, steps_done: 1 }));
    assert_eq!(record(parts.path()).len(), 1);
    assert_eq!(summary.checkpoint, Some(parts.path().join("checkpoints/epoch-0001-step-000001")));

    let mut watcher = Watcher::default();
    let resumed = resume(&recipe, parts.path(), &mut watcher).expect("a resumed run");
    let started = watcher.started.expect("told");
    assert_eq!((started.first_epoch, started.resumed.expect("told").num_batches_done), (2, 1));
    assert_eq!(watcher.steps[0].step, 2, "the first step isn't taken again");
    assert_eq!(bits(&resumed.model), bits(&uninterrupted.model));
    assert_eq!(record(parts.path()), record(whole.path()), "the epoch's means are over all of it");
}

#[test]
fn a_run_stopped_at_the_last_step_of_an_epoch_validates_when_it_is_resumed() {
    let (whole, parts) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let recipe = recipe(2);
    let uninterrupted = train(&recipe, whole.path());
    let summary = train_until(&recipe, parts.path(), 1, 3);
    assert_eq!(summary.stopped, Some(Stopped { epoch: 1, steps_done: 3 }));
    let resumed = resume(&recipe, parts.path(), &mut ()).expect("a resumed run");
    assert_eq!(bits(&resumed.model), bits(&uninterrupted.model));
    assert_eq!(record(parts.path()), record(whole.path()));
}

#[test]
fn averaged_weights_go_on_in_mid_epoch_to_the_same_bits_and_are_the_best_model() {
    let mut ema = recipe(3);
    ema.ema.decay = 0.9;
    let mut swa = recipe(3);
    swa.swa.start_epoch = 2;
    // Within an epoch, and between its last step and its validation.
    for (recipe, step) in [(&ema, 1), (&ema, 3), (&swa, 1), (&swa, 3)] {
        let (whole, parts) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let uninterrupted = train(recipe, whole.path());
        train_until(recipe, parts.path(), 2, step);
        let resumed = resume(recipe, parts.path(), &mut ()).expect("a resumed run");
        assert_eq!(bits(&resumed.model), bits(&uninterrupted.model));
        assert_eq!(record(parts.path()), record(whole.path()), "stopped at step {step} of {recipe:?}");
        let bytes = |folder: &Path, name: &str| std::fs::read(folder.join("checkpoints").join(name)).expect("a file");
        for name in ["epoch-0003/ema.safetensors", "best.safetensors"] {
            assert_eq!(bytes(parts.path(), name), bytes(whole.path(), name), "{name}");
        }
        let best = format!("epoch-{:04}", resumed.best.expect("a best epoch").epoch);
        let averaged = Path::new(&best).join("ema.safetensors");
        if whole.path().join("checkpoints").join(&averaged).exists() {
            let averaged = bytes(whole.path(), averaged.to_str().expect("a name"));
            assert!(bytes(whole.path(), "best.safetensors") == averaged, "the weights that were validated");
            assert!(bytes(whole.path(), &format!("{best}/model.safetensors")) != averaged);
        }
    }
}

#[test]
fn every_optimiser_and_what_is_drawn_in_the_network_go_on_in_mid_epoch_to_the_same_bits() {
    use crate::recipe::OptimizerKind::{AdamW, Lamb, Lars, Muon, RmsProp};
    for kind in [AdamW, RmsProp, Lamb, Lars, Muon] {
        let (whole, parts) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let mut recipe = recipe(2);
        recipe.optimizer.kind = kind;
        recipe.optimizer.lr = 0.002;
        recipe.model.drop_path = 0.3;
        recipe.run.micro_batch_size = 3;
        let uninterrupted = train(&recipe, whole.path());
        train_until(&recipe, parts.path(), 1, 2);
        let resumed = resume(&recipe, parts.path(), &mut ()).expect("a resumed run");
        assert_eq!(bits(&resumed.model), bits(&uninterrupted.model), "{kind:?}");
        assert_eq!(record(parts.path()), record(whole.path()), "{kind:?}");
    }
}

#[test]
fn files_left_out_are_counted_once_over_an_interruption() {
    let (whole, parts) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let recipe = recipe(1);
    let data = || {
        let mut train = Stripes::new(24, 0);
        for damaged in [5, 11, 20] {
            train.files[damaged].truncate(40);
        }
        Splits { train: Arc::new(train), val: Arc::new(Stripes::new(10, 100)) }
    };
    trainer(&recipe, data(), whole.path()).run(model(&recipe), &mut ()).expect("a run");
    let flag = StopFlag::default();
    let mut watcher = Watcher { stop: Some((flag.clone(), 1, 2)), ..Watcher::default() };
    trainer(&recipe, data(), parts.path()).stop_with(flag).run(model(&recipe), &mut watcher).expect("stopped");
    trainer(&recipe, data(), parts.path()).resume(ResumeFrom::Auto).run(model(&recipe), &mut ()).expect("resumed");
    assert_eq!(record(parts.path()), record(whole.path()));
    assert_eq!(record(parts.path())[0]["skipped"], 3);
}

#[test]
fn checkpoints_are_written_within_an_epoch_when_their_time_has_come() {
    let (whole, killed) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut recipe = recipe(2);
    let uninterrupted = train(&recipe, whole.path());
    recipe.run.checkpoint_minutes = 1e-9;
    let mut watcher = Watcher { panic_at: Some((2, 3)), ..Watcher::default() };
    let run = || trainer(&recipe, stripes(), killed.path()).run(model(&recipe), &mut watcher);
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "killed in epoch 2");
    let positions = RunFolder::new(killed.path()).checkpoints().positions().expect("a folder");
    let at = |epochs, batches| crate::Position { epochs, batches };
    assert_eq!(positions, [at(1, 0), at(1, 1), at(1, 2)], "the best, and the newest two");

    let mut watcher = Watcher::default();
    let resumed = resume(&recipe, killed.path(), &mut watcher).expect("a resumed run");
    assert_eq!(watcher.steps.len(), 1);
    assert_eq!(bits(&resumed.model), bits(&uninterrupted.model));
}

#[test]
fn only_the_epochs_asked_for_the_best_and_the_last_get_a_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut recipe = recipe(4);
    recipe.run.checkpoint_epochs = 3;
    recipe.run.keep_checkpoints = 9;
    let mut watcher = Watcher::default();
    trainer(&recipe, stripes(), folder.path()).run(model(&recipe), &mut watcher).expect("a run");
    let best = watcher.epochs.iter().filter(|epoch| epoch.best).map(|epoch| epoch.metrics.epoch);
    let mut expected: Vec<usize> = best.chain([0, 3, 4]).collect();
    expected.sort_unstable();
    expected.dedup();
    let found = RunFolder::new(folder.path()).checkpoints().positions().expect("a folder");
    assert_eq!(found, expected.into_iter().map(crate::Position::after_epochs).collect::<Vec<_>>());
}

#[test]
fn a_killed_run_resumes_to_the_same_bits_and_leaves_no_litter() {
    let (whole, killed) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let recipe = recipe(3);
    let uninterrupted = train(&recipe, whole.path());

    let mut watcher = Watcher { panic_at: Some((3, 2)), ..Watcher::default() };
    let run = || trainer(&recipe, stripes(), killed.path()).run(model(&recipe), &mut watcher);
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "killed in epoch 3");
    // What a kill while writing leaves: half a checkpoint, half a record.
    let half = killed.path().join("checkpoints/.epoch-0003.tmp");
    std::fs::create_dir(&half).expect("a folder");
    std::fs::write(half.join("model.safetensors"), "half").expect("a file");
    std::fs::write(killed.path().join("metrics.jsonl"), "{\"epoch\": 1").expect("a file");

    let resumed = resume(&recipe, killed.path(), &mut ()).expect("a resumed run");
    assert_eq!(bits(&resumed.model), bits(&uninterrupted.model));
    assert_eq!(record(killed.path()), record(whole.path()));
    let names = |folder: &Path| {
        files(folder).into_keys().map(|path| path.strip_prefix(folder).expect("below").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(killed.path()), names(whole.path()));
}

#[test]
fn a_damaged_newest_checkpoint_is_named_and_the_run_goes_on_from_the_previous_one() {
    let (whole, damaged) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let recipe = recipe(3);
    let uninterrupted = train(&recipe, whole.path());
    train(&recipe, damaged.path());
    let newest = damaged.path().join("checkpoints/epoch-0003");
    std::fs::write(newest.join("model.safetensors"), "not what was written").expect("a file");

    let mut watcher = Watcher::default();
    let resumed = resume(&recipe, damaged.path(), &mut watcher).expect("a resumed run");
    let told = watcher.started.and_then(|started| started.resumed).expect("told");
    assert_eq!(told.damaged[0].path, newest.join("model.safetensors"));
    assert_eq!(told.num_epochs_done, 2);
    assert_eq!(bits(&resumed.model), bits(&uninterrupted.model));
    assert_eq!(record(damaged.path()), record(whole.path()));
    Checkpoint::read(&newest).expect("written anew");
}

#[test]
fn a_finished_run_resumed_is_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = recipe(1);
    let finished = train(&recipe, folder.path());
    let before = files(folder.path());
    let again = resume(&recipe, folder.path(), &mut ()).expect("nothing to do");
    assert_eq!((again.num_epochs_done, again.last), (1, None));
    assert_eq!(bits(&again.model), bits(&finished.model));
    assert_eq!(files(folder.path()), before);
}

#[test]
fn a_folder_with_a_run_is_not_written_to_unless_it_is_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = recipe(1);
    train(&recipe, folder.path());
    let before = files(folder.path());
    let error = trainer(&recipe, stripes(), folder.path()).run(model(&recipe), &mut ()).expect_err("refused");
    assert!(error.to_string().contains("--resume"), "{error}");
    assert_eq!(files(folder.path()), before);
}

#[test]
fn resuming_where_nothing_is_begins_anew_and_a_path_with_nothing_is_an_error() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let recipe = recipe(1);
    let mut watcher = Watcher::default();
    resume(&recipe, folder.path(), &mut watcher).expect("a new run");
    assert!(watcher.started.expect("told").resumed.is_none());

    let from = ResumeFrom::Path(other.path().join("nowhere"));
    let run = trainer(&recipe, stripes(), &other.path().join("run")).resume(from).run(model(&recipe), &mut ());
    assert!(matches!(run, Err(TrainError::NoCheckpoint { .. })), "{:?}", run.err());
}

#[test]
fn a_run_killed_in_its_first_epoch_goes_on_with_its_own_first_weights() {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = recipe(1);
    let mut watcher = Watcher { panic_at: Some((1, 1)), ..Watcher::default() };
    let run = || trainer(&recipe, stripes(), folder.path()).run(model(&recipe), &mut watcher);
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "killed");
    let mut watcher = Watcher::default();
    // Other first weights, as if --weights wasn't said again: those of the checkpoint count.
    let other = recipe.model.resnet(2).init(99, &kiln_device::cpu());
    let resumed = trainer(&recipe, stripes(), folder.path()).resume(ResumeFrom::Auto);
    let resumed = resumed.run(other, &mut watcher).expect("a run");
    let told = watcher.started.and_then(|started| started.resumed).expect("told");
    let first = folder.path().join("checkpoints/epoch-0000");
    assert_eq!((told.checkpoint, told.num_epochs_done), (Some(first), 0));
    let whole = tempfile::tempdir().expect("a folder");
    assert_eq!(bits(&resumed.model), bits(&train(&recipe, whole.path()).model));
}

#[test]
fn a_run_killed_before_it_wrote_a_checkpoint_begins_again_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = recipe(1);
    std::fs::write(folder.path().join("recipe.toml"), recipe.to_toml().expect("text")).expect("a file");
    let mut watcher = Watcher::default();
    resume(&recipe, folder.path(), &mut watcher).expect("a run");
    let told = watcher.started.and_then(|started| started.resumed).expect("told");
    assert_eq!((told.checkpoint, told.num_epochs_done), (None, 0));
}

#[test]
fn another_run_s_checkpoint_starts_a_run_in_a_new_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let recipe = recipe(2);
    let whole = train(&recipe, &first);
    let before = files(&first);
    let from = ResumeFrom::Path(first.join("checkpoints/epoch-0001"));
    let branch = trainer(&recipe, stripes(), &second).resume(from).run(model(&recipe), &mut ()).expect("a run");
    assert_eq!(bits(&branch.model), bits(&whole.model));
    assert_eq!(files(&first), before, "the first run is as it was");
    assert_eq!(record(&second).len(), 2);
}

#[test]
fn going_back_to_an_older_checkpoint_sets_the_newer_ones_aside() {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = recipe(2);
    let whole = train(&recipe, folder.path());
    let from = ResumeFrom::Path(folder.path().join("checkpoints/epoch-0001"));
    let again = trainer(&recipe, stripes(), folder.path()).resume(from).run(model(&recipe), &mut ()).expect("a run");
    assert_eq!(bits(&again.model), bits(&whole.model));
    assert!(folder.path().join("checkpoints/set-aside-epoch-0002").exists());
}

#[test]
fn other_classes_are_refused_with_both_lists() {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = recipe(1);
    train(&recipe, folder.path());
    let renamed = |first| {
        let mut stripes = Stripes::new(16, first);
        stripes.classes = vec!["lying".into(), "standing".into()];
        Arc::new(stripes)
    };
    let data = Splits { train: renamed(0), val: renamed(100) };
    let run = trainer(&recipe, data, folder.path()).resume(ResumeFrom::Auto).run(model(&recipe), &mut ());
    let message = run.expect_err("refused").to_string();
    assert!(message.contains("across, upright") && message.contains("lying, standing"), "{message}");
}

#[test]
fn a_changed_recipe_is_told_key_by_key() {
    let folder = tempfile::tempdir().expect("a folder");
    train(&recipe(1), folder.path());
    let mut changed = recipe(2);
    changed.optimizer.lr = 0.025;
    let mut watcher = Watcher::default();
    resume(&changed, folder.path(), &mut watcher).expect("a run");
    let told = watcher.started.and_then(|started| started.resumed).expect("told");
    assert_eq!(told.changed, ["optimizer.lr: 0.025, not 0.05", "run.epochs: 2, not 1"]);
}

#[test]
fn a_model_the_recipe_does_not_ask_for_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = recipe(1);
    let three_classes = recipe.model.resnet(3).init(0, &kiln_device::cpu());
    let error = trainer(&recipe, stripes(), folder.path()).run(three_classes, &mut ()).expect_err("refused");
    assert!(error.to_string().contains("for 3 classes"), "{error}");
    assert!(files(folder.path()).is_empty(), "nothing was written");
}

#[test]
fn a_loss_that_is_not_finite_stops_with_step_and_learning_rate_and_keeps_the_last_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    train(&recipe(1), folder.path());
    let checkpoint = files(&folder.path().join("checkpoints"));
    let mut wild = recipe(3);
    wild.optimizer.lr = 1e30;
    let error = resume(&wild, folder.path(), &mut ()).expect_err("it diverges");
    let TrainError::NonFiniteLoss { epoch, step, lr, checkpoint: kept, images, .. } = &error else { panic!("{error}") };
    assert!((*epoch, *step) >= (2, 1) && *lr > 0.0, "{error}");
    assert_eq!(images.len(), 8, "the files of the step");
    assert!(images.iter().all(|name| error.to_string().contains(name.as_str())), "{error}");
    assert_eq!(*kept, Some(folder.path().join("checkpoints/epoch-0001")));
    assert_eq!(files(&folder.path().join("checkpoints")), checkpoint);
}

#[test]
fn neither_workers_nor_the_validation_batch_size_change_a_result() {
    let (one, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut recipe = recipe(2);
    let with_two = train(&recipe, one.path());
    recipe.data.workers = 3;
    recipe.data.val_batch_size = 3;
    let with_three = train(&recipe, other.path());
    assert_eq!(bits(&with_two.model), bits(&with_three.model));
    for (a, b) in record(one.path()).iter().zip(record(other.path())) {
        assert_eq!(a["val_top1"], b["val_top1"]);
        let loss = |line: &Value| line["val_loss"].as_f64().expect("a number");
        assert!((loss(a) - loss(&b)).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn a_damaged_picture_is_left_out_counted_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut train = Stripes::new(24, 0);
    train.files[5].truncate(40);
    let recipe = recipe(1);
    let data = Splits { train: Arc::new(train), val: Arc::new(Stripes::new(10, 100)) };
    let mut watcher = Watcher::default();
    trainer(&recipe, data, folder.path()).run(model(&recipe), &mut watcher).expect("a run");
    let report = &watcher.epochs[0];
    assert_eq!((report.metrics.skipped, report.skipped[0].name.as_str()), (1, "5.png"));
}

#[test]
fn one_image_more_than_a_batch_joins_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut recipe = recipe(1);
    recipe.data.drop_last = false;
    let data = Splits { train: Arc::new(Stripes::new(9, 0)), val: Arc::new(Stripes::new(9, 100)) };
    let mut watcher = Watcher::default();
    trainer(&recipe, data, folder.path()).run(model(&recipe), &mut watcher).expect("a run");
    assert_eq!(watcher.steps.len(), 1);
}

#[test]
fn validation_leaves_the_running_statistics_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = recipe(1);
    let mut trainer = trainer(&recipe, stripes(), folder.path());
    let run = trainer.begin(model(&recipe)).expect("a run");
    let (run, _) = trainer.train_epoch(run, &mut ()).expect("an epoch");
    let before = bits(&run.model);
    trainer.validate(&run, 0.0, &mut ()).expect("a validation");
    assert_eq!(bits(&run.model), before);
}

#[test]
fn recipes_that_cannot_be_trained_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("run");
    let mut broken = recipe(1);
    broken.optimizer.lr = 0.0;
    assert!(Trainer::new(broken, &cpu(), stripes(), &output).is_err());
    let mut batch_of_one = recipe(1);
    batch_of_one.data.batch_size = 1;
    let error = Trainer::new(batch_of_one, &cpu(), stripes(), &output).err().expect("one value per channel");
    assert!(matches!(error, TrainError::Model(_)), "{error}");
    assert!(!output.exists());
}

/// A file of weights by the golden formula for a network of ten unnamed classes.
fn formula_weights(recipe: &Recipe) -> WeightsFile {
    let entries = recipe.model.resnet(10).init(0, &kiln_device::cpu()).state().into_iter();
    let state: Vec<_> = entries
        .map(|(name, data)| {
            let shape = data.shape().to_vec();
            let data = match name.ends_with("num_batches_tracked") {
                true => data,
                false => TensorData::new(parameter("", &name, &shape), shape),
            };
            (name, data)
        })
        .collect();
    let bytes = safetensors_from_state(&state, &Metadata::new()).expect("plain types");
    WeightsFile::parse(bytes, "formula.safetensors").expect("its own bytes")
}

/// Pictures of `KILN_PHOTOS_DIR` if it is set, else stripes.
fn photos_or_stripes() -> Splits {
    match std::env::var_os("KILN_PHOTOS_DIR") {
        Some(folder) => kiln_data::open(Path::new(&folder), &OpenOptions::default()).expect("a folder of pictures"),
        None => stripes(),
    }
}

#[test]
fn a_frozen_body_stays_as_it_was_to_the_bit_while_a_new_head_learns() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = photos_or_stripes();
    let mut recipe = recipe(6);
    recipe.model.width = 16;
    recipe.model.freeze = Part::BODY.to_vec();
    let file = formula_weights(&recipe);
    let classes = data.train.classes().to_vec();
    let options = LoadOptions { classes: Some(&classes), head: Head::Reinit, ..LoadOptions::default() };
    let fresh = recipe.model.resnet(classes.len()).init(3, &kiln_device::cpu());
    let (model, report) = fresh.load_weights(&file, &options).expect("the body fits");
    assert_eq!(report.unused, ["fc.weight", "fc.bias"]);
    let before = bits(&model);

    let summary = trainer(&recipe, data, folder.path()).run(model, &mut ()).expect("a run");
    for ((name, before), (_, after)) in before.iter().zip(bits(&summary.model)) {
        assert_eq!(*before == after, Part::of(name) != Part::Fc, "{name}");
    }
    let record = record(folder.path());
    let loss = |line: &Value| line["train_loss"].as_f64().expect("a number");
    eprintln!("head: loss {} to {}", loss(&record[0]), loss(&record[5]));
    assert!(loss(&record[5]) < 0.97 * loss(&record[0]), "{} {}", record[0], record[5]);

    // A run with frozen parts is resumed like any other.
    let mut longer = recipe.clone();
    longer.run.epochs = 7;
    let classes = classes.len();
    let model = longer.model.resnet(classes).init(9, &kiln_device::cpu());
    let resumed = trainer(&longer, photos_or_stripes(), folder.path()).resume(ResumeFrom::Auto);
    let resumed = resumed.run(model, &mut ()).expect("resumed");
    let body =
        |model: &ResNet| bits(model).into_iter().filter(|(name, _)| Part::of(name) != Part::Fc).collect::<Vec<_>>();
    assert_eq!(body(&resumed.model), body(&summary.model));
}

#[test]
fn saved_weights_say_what_they_are() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recipe = recipe(1);
    let summary = train(&recipe, folder.path());
    let file = WeightsFile::open(&summary.best_model.expect("one epoch is the best")).expect("its own file");
    assert_eq!(file.classes(), Some(vec!["across".to_string(), "upright".to_string()]));
    for (key, value) in [
        ("format", "pt"),
        ("arch", "resnet18"),
        ("num_classes", "2"),
        ("input_size", "[32,32]"),
        ("interpolation", "bilinear"),
        ("recipe_sha256", recipe.sha256().as_str()),
    ] {
        assert_eq!(file.metadata().get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(recipe.sha256().len(), 64);
    let (loaded, report) = recipe
        .model
        .resnet(2)
        .init(5, &kiln_device::cpu())
        .load_weights(&file, &LoadOptions::default())
        .expect("whole");
    assert_eq!(bits(&loaded), bits(&summary.model));
    assert!(report.unused.is_empty());
}

#[test]
fn averaged_weights_are_validated_and_the_trained_ones_go_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (plain, averaged) = (folder.path().join("plain"), folder.path().join("averaged"));
    let recipe = recipe(3);
    let mut with_ema = recipe.clone();
    with_ema.ema.decay = 0.9;
    let (without, with) = (train(&recipe, &plain), train(&with_ema, &averaged));
    assert_eq!(bits(&without.model), bits(&with.model), "the average changes nothing in training");
    let (plain, averaged) = (record(&plain), record(&averaged));
    assert_eq!(plain[2]["train_loss"], averaged[2]["train_loss"]);
    assert_ne!(plain[2]["val_loss"], averaged[2]["val_loss"]);
}

#[test]
fn the_mean_of_the_last_epochs_is_validated_from_its_second_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (plain, averaged) = (folder.path().join("plain"), folder.path().join("averaged"));
    let recipe = recipe(4);
    let mut with_swa = recipe.clone();
    with_swa.swa.start_epoch = 3;
    train(&recipe, &plain);
    train(&with_swa, &averaged);
    let (plain, averaged) = (record(&plain), record(&averaged));
    for epoch in 0..4 {
        let same = plain[epoch]["val_loss"] == averaged[epoch]["val_loss"];
        assert_eq!(same, epoch < 3, "the mean of one epoch's weights is that epoch's; epoch {}", epoch + 1);
    }
}

#[test]
fn a_run_without_progress_ends_when_patience_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut recipe = recipe(30);
    recipe.validation.patience = 2;
    // So small that no answer changes.
    recipe.optimizer.lr = 1e-12;
    let summary = train(&recipe, folder.path());
    assert_eq!(summary.best.expect("a best epoch").epoch, 1);
    assert_eq!((summary.num_epochs_done, summary.stopped), (3, None));
}

#[test]
fn the_best_epoch_is_that_of_the_recipe_s_measure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut recipe = recipe(5);
    recipe.validation.best_by = crate::recipe::BestBy::Loss;
    let best = train(&recipe, folder.path()).best.expect("a best epoch");
    let losses: Vec<f64> =
        record(folder.path()).iter().map(|line| line["val_loss"].as_f64().expect("a number")).collect();
    let lowest = losses.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(losses[best.epoch - 1], lowest, "{losses:?}");
    assert_eq!(best.score(), -lowest);
}

#[test]
fn mirror_images_are_judged_together_if_asked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut recipe = recipe(1);
    recipe.validation.flip = true;
    let trainer = trainer(&recipe, stripes(), folder.path());
    let model = model(&recipe);
    let ramp = Tensor::<1, burn::tensor::Int>::arange(0..2 * 3 * 32 * 32, &kiln_device::cpu()).float();
    let images = (ramp.reshape([2, 3, 32, 32]) * 0.37).sin();
    let [ours, mirrored] = [images.clone(), images.clone().flip([3])].map(|images| trainer.judge(&model, images));
    assert_eq!(ours.into_data(), mirrored.into_data(), "an image and its mirror image get the same answer");
}

#[test]
fn images_grow_in_the_course_of_a_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut recipe = recipe(2);
    let ramp = crate::recipe::ProgressiveResize { start_size: 16, start_epoch: 0.0, end_epoch: 1.0, multiple: 16 };
    recipe.augment.progressive = Some(ramp);
    let sizes = [0, 1].map(|epoch| recipe.augment.training_in(epoch).size);
    assert_eq!(sizes, [[16, 16], [32, 32]]);
    assert!(train(&recipe, folder.path()).last.expect("an epoch").train_loss.is_finite());
}

#[test]
fn weights_for_another_number_of_classes_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut recipe = recipe(1);
    recipe.loss.class_weights = vec![1.0, 2.0, 3.0];
    let refused = Trainer::new(recipe, &cpu(), stripes(), folder.path());
    let message = refused.err().expect("two classes, three weights").to_string();
    assert!(message.contains("3 values") && message.contains("2 classes"), "{message}");
}
