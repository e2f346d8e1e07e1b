//! Reading, writing and judging recipes.

use super::*;
use crate::error::TrainError;

fn problems(recipe: &Recipe) -> Vec<String> {
    match recipe.validate() {
        Err(TrainError::InvalidRecipe { problems }) => problems,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_empty_text_is_the_default_recipe_and_it_is_valid() {
    assert_eq!(Recipe::from_toml("").expect("a recipe"), Recipe::default());
}

#[test]
fn a_resolved_recipe_reads_back_as_the_same_recipe() {
    let recipe = Recipe { run: RunConfig { seed: u64::MAX >> 1, ..RunConfig::default() }, ..Recipe::default() };
    let text = recipe.to_toml().expect("numbers TOML can hold");
    let back = Recipe::from_toml(&text).expect("its own text");
    assert_eq!(back, recipe.resolved());
    assert_eq!(back.to_toml().expect("numbers TOML can hold"), text);
    assert!(recipe.differences(&back).is_empty(), "{:?}", recipe.differences(&back));
    assert!(text.contains("random_resized_crop"), "augmentations are written out:\n{text}");
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_key() {
    let text = "[optimizer]\nlr = 0.1\nweight_decai = 1e-4\n";
    let message = Recipe::from_toml(text).expect_err("a typing error").to_string();
    for part in ["line 3", "`weight_decai`", "did you mean `weight_decay`?"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let message = Recipe::from_toml("[optimiser]\n").expect_err("a typing error").to_string();
    assert!(message.contains("did you mean `optimizer`?"), "{message}");
}

#[test]
fn an_unknown_value_is_named_with_the_nearest() {
    let message = Recipe::from_toml("[schedule]\nkind = \"cosin\"\n").expect_err("a typing error").to_string();
    assert!(message.contains("did you mean `cosine`?"), "{message}");
}

#[test]
fn validate_reports_every_problem_at_once() {
    let mut recipe = Recipe::default();
    recipe.run.epochs = 0;
    recipe.data.batch_size = 0;
    recipe.model.width = 0;
    recipe.optimizer.lr = f64::NAN;
    recipe.optimizer.momentum = 1.0;
    recipe.schedule.kind = ScheduleKind::MultiStep;
    recipe.loss.label_smoothing = -0.1;
    recipe.augment.std = [0.0, 1.0, 1.0];
    let found = problems(&recipe);
    for key in [
        "run.epochs",
        "data.batch_size",
        "model",
        "optimizer.lr",
        "optimizer.momentum",
        "milestones",
        "label_smoothing",
        "augment",
    ] {
        assert!(found.iter().any(|problem| problem.contains(key)), "{key} in {found:?}");
    }
}

#[test]
fn numbers_beyond_toml_s_integers_are_problems_not_panics() {
    let mut recipe = Recipe::default();
    recipe.run.seed = u64::MAX;
    recipe.data.batch_size = usize::MAX;
    assert_eq!(problems(&recipe).len(), 2);
    assert!(!recipe.differences(&Recipe::default()).is_empty());
}

#[test]
fn problems_say_key_value_and_rule() {
    let mut recipe = Recipe::default();
    recipe.optimizer.lr = -0.5;
    assert_eq!(problems(&recipe), ["optimizer.lr = -0.5: must be a finite number above 0"]);
}

#[test]
fn differences_name_the_key_and_both_values() {
    let mut other = Recipe::default();
    other.optimizer.lr = 0.5;
    assert_eq!(Recipe::default().differences(&other), ["optimizer.lr: 0.05, not 0.5"]);
}

#[test]
fn lengths_in_epochs_become_steps() {
    let config = ScheduleConfig { warmup_epochs: 0.5, warmup_start: 0.0, ..ScheduleConfig::default() };
    let schedule = config.schedule(1.0, 3, 10);
    assert_eq!(schedule.warmup.steps, 5);
    assert_eq!(schedule.lr(5), 1.0);
    assert!(schedule.lr(30).abs() < 1e-12, "the cosine ends with the run");
    let exponential = ScheduleConfig { kind: ScheduleKind::Exponential, warmup_epochs: 0.0, ..config };
    assert!((exponential.schedule(1.0, 3, 10).lr(10) - 0.1).abs() < 1e-12, "gamma is per epoch");
}

#[test]
fn a_warm_up_longer_than_the_run_is_a_warm_up_all_along() {
    let config = ScheduleConfig { warmup_epochs: 10.0, ..ScheduleConfig::default() };
    let schedule = config.schedule(1.0, 2, 10);
    assert!((0..20).all(|step| schedule.lr(step) < 1.0 && schedule.lr(step) > 0.0));
}

#[test]
fn images_of_another_size_are_asked_of_both_pipelines() {
    let recipe = Recipe::from_toml("[augment]\nimage_size = 64\n").expect("a recipe");
    assert_eq!(recipe.augment.training().size, [64, 64]);
    assert_eq!(recipe.augment.validation().size, [64, 64]);
}

#[test]
fn mixing_is_off_unless_a_recipe_asks_for_it() {
    assert_eq!(Recipe::default().augment.training().mix, None);
    let text = "[augment]\nmix = { mixup_alpha = 0.2, cutmix_alpha = 1 }\n[[augment.train]]\nop = 'random_erasing'\n\
                value = 0\n";
    let recipe = Recipe::from_toml(text).expect("a recipe");
    let mixing = Mixing { mixup_alpha: 0.2, cutmix_alpha: 1.0, ..Mixing::default() };
    assert_eq!(recipe.augment.training().mix, Some(mixing));
    assert_eq!(recipe.augment.validation().mix, None, "validation sees one image at a time");
    let written = recipe.to_toml().expect("numbers TOML can hold");
    assert_eq!(Recipe::from_toml(&written).expect("its own text"), recipe.resolved());
    assert!(written.contains("switch_probability = 0.5"), "defaults are written out:\n{written}");
}

#[test]
fn mixing_that_cannot_work_is_a_problem_under_its_key() {
    let mut recipe = Recipe::default();
    recipe.augment.mix = Some(Mixing { mixup_alpha: -1.0, ..Mixing::default() });
    assert_eq!(problems(&recipe), ["augment.mix: mixup_alpha is -1; it must be a finite number, 0 or more"]);
    let message = Recipe::from_toml("[augment.mix]\nmixup_alfa = 0.2\n").expect_err("a typing error").to_string();
    assert!(message.contains("did you mean `mixup_alpha`?"), "{message}");
}

#[test]
fn every_unknown_key_and_every_bad_value_is_reported_at_once() {
    let text = "[run]\nepohcs = 3\nseed = \"one\"\n[optimizer]\nlr = -1\nkind = \"adanw\"\n[augmet]\n[[augment.train]]\n\
                op = \"random_resized_crop\"\n[[augment.train]]\nop = \"random_flip\"\n[[augment.train]]\n\
                op = \"random_erasing\"\nprobabilty = 0.5\n[ema]\ndecay = nan\n";
    let message = Recipe::from_toml(text).expect_err("nine problems").to_string();
    for part in [
        "line 2, run.epohcs",
        "did you mean `epochs`?",
        "line 3, run.seed",
        "optimizer.lr = -1: must be a finite number above 0",
        "line 6, optimizer.kind",
        "did you mean `adamw`?",
        "line 7, augmet",
        "did you mean `augment`?",
        "augment.train[1]",
        "did you mean `random_",
        "augment.train[2]",
        "did you mean `probability`?",
        "ema.decay = NaN: must be at least 0 and below 1",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert!(!message.contains("augment.train[0]"), "{message}");
}

#[test]
fn a_setting_is_read_as_toml_or_as_a_name() {
    let with = |settings: &[&str]| {
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse().expect("a setting")).collect();
        Recipe::default().with(&settings)
    };
    let recipe = with(&[
        "optimizer.lr=0.5",
        "optimizer.lr = 0.25",
        "schedule.kind=one_cycle",
        "augment.mix.cutmix_alpha=1",
        "schedule.milestones=[1, 2.5]",
        "optimizer.nesterov=false",
        "model.freeze=[\"stem\"]",
    ])
    .expect("valid settings");
    assert_eq!((recipe.optimizer.lr, recipe.optimizer.nesterov), (0.25, false));
    assert_eq!(recipe.schedule.kind, ScheduleKind::OneCycle);
    assert_eq!(recipe.schedule.milestones, [1.0, 2.5]);
    assert_eq!(recipe.model.freeze, [Part::Stem]);
    assert_eq!(recipe.augment.mix.map(|mix| mix.cutmix_alpha), Some(1.0));
    let message = with(&["optimizer.lrr=1", "run.epochs=0", "optimizer.lr.x=1"]).expect_err("problems").to_string();
    for part in ["optimizer.lrr", "did you mean `lr`?", "run.epochs = 0", "optimizer.lr is no table"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    for nonsense in ["lr=1", "optimizer.lr", "optimizer..lr=1", "=1"] {
        let message = nonsense.parse::<Setting>().expect_err("nonsense");
        assert!(message.contains("optimizer.lr=0.5"), "{message}");
    }
}

#[test]
fn json_is_the_same_recipe_and_its_mistakes_are_named_too() {
    let recipe = Recipe::from_json(r#"{"optimizer": {"kind": "lamb", "lr": 0.005}, "ema": {"decay": 0.99}}"#);
    let recipe = recipe.expect("a recipe");
    assert_eq!((recipe.optimizer.kind, recipe.ema.decay), (OptimizerKind::Lamb, 0.99));
    let message = Recipe::from_json(r#"{"optimizer": {"lrr": 1}, "loss": 3}"#).expect_err("mistakes").to_string();
    assert!(message.contains("optimizer.lrr") && message.contains("loss:"), "{message}");
    assert!(Recipe::from_json("{").expect_err("not JSON").to_string().contains("line 1"));
}

#[test]
fn parts_that_exclude_each_other_are_problems() {
    let mut recipe = Recipe::default();
    recipe.ema.decay = 0.99;
    recipe.swa.start_epoch = 3;
    recipe.optimizer.clip_grad_norm = 1.0;
    recipe.optimizer.clip_grad_value = 1.0;
    recipe.loss.target_threshold = 0.2;
    recipe.loss.balance_classes = true;
    recipe.loss.class_weights = vec![1.0, f64::INFINITY];
    let found = problems(&recipe).join("; ");
    for part in ["ema and swa", "clip_grad_value and clip_grad_norm", "bce", "class_weights = inf", "set one"] {
        assert!(found.contains(part), "{part} in {found}");
    }
}

#[test]
fn one_cycle_rises_and_falls_over_the_whole_run_and_moves_the_momentum_if_asked() {
    let text = "[run]\nepochs = 10\n[schedule]\nkind = 'one_cycle'\nmomentum_range = [0.85, 0.95]\n";
    let recipe = Recipe::from_toml(text).expect("a recipe");
    let schedule = recipe.lr_schedule(10);
    assert!((schedule.lr(0) - 0.05 / 25.0).abs() < 1e-12);
    assert!((schedule.lr(29) - 0.05).abs() < 1e-12, "PyTorch counts the peak's step from 1");
    assert!((schedule.lr(99) - 0.05 / 25.0 / 1e4).abs() < 1e-12);
    assert_eq!(schedule.momentum(29), Some(0.85));
    assert_eq!(Recipe::from_toml("[schedule]\nkind = 'one_cycle'\n").expect("valid").lr_schedule(10).momentum(3), None);
}

#[test]
fn averaging_the_last_epochs_may_hold_the_learning_rate() {
    let recipe = Recipe::from_toml("[run]\nepochs = 10\n[swa]\nstart_epoch = 8\nlr = 0.01\n").expect("a recipe");
    let schedule = recipe.lr_schedule(10);
    assert_ne!(schedule.lr(69), 0.01);
    assert!((70..100).all(|step| schedule.lr(step) == 0.01));
    assert!(recipe.average_rule(10).is_some() && Recipe::default().average_rule(10).is_none());
}
