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
