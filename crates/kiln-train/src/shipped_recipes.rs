//! The recipes in `crates/kiln/recipes`: each is what it says, and each trains.

use crate::recipe::{Recipe, Setting};
use crate::trainer::Trainer;
use kiln_data::Splits;
use kiln_data::scenes::{self, ScenesConfig};
use kiln_device::DeviceRequest;
use std::path::{Path, PathBuf};

/// Every shipped recipe: its name and its text.
fn shipped() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kiln/recipes");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("the recipes").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let read = |file: PathBuf| {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&file).expect("a recipe"))
    };
    files.into_iter().map(read).collect()
}

fn settings(texts: &[&str]) -> Vec<Setting> {
    texts.iter().map(|text| text.parse().expect("a setting")).collect()
}

#[test]
fn every_shipped_recipe_is_valid_and_says_where_it_comes_from() {
    let recipes = shipped();
    let names: Vec<&str> = recipes.iter().map(|(name, _)| name.as_str()).collect();
    let published = ["torchvision-v1", "torchvision-v2", "timm-a1", "timm-a2", "timm-a3", "ffcv-16", "ffcv-88"];
    let ours = ["cifar10-fast", "fashion-mnist", "fine-tune", "linear-probe", "laptop-4gb"];
    for name in published.iter().chain(&ours) {
        assert!(names.contains(name), "{name} in {names:?}");
    }
    for (name, text) in &recipes {
        let recipe = Recipe::from_toml(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for word in ["# Source:", "# Published:", "# Hardware:"] {
            assert!(text.contains(word), "{word} in {name}");
        }
        let json = recipe.to_json().expect("a valid recipe");
        assert_eq!(Recipe::from_json(&json).expect("its own text"), recipe.resolved(), "{name} as JSON");
        let schedule = recipe.lr_schedule(100);
        let last = recipe.run.epochs as u64 * 100 - 1;
        let highest = (0..=last).map(|step| schedule.lr(step)).fold(0.0, f64::max);
        assert!((0.9..1.001).contains(&(highest / recipe.peak_lr())), "{name}: {highest} of {}", recipe.peak_lr());
        assert!(schedule.lr(last) < 0.05 * highest, "{name} ends at {}", schedule.lr(last));
    }
}

/// Sixteen pictures to train on.
fn data() -> (tempfile::TempDir, Splits) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = ScenesConfig { train_images: 20, val_images: 10, size: 48, ..ScenesConfig::default() };
    let data = scenes::open_or_create(Some(folder.path()), &config).expect("a data set");
    (folder, data)
}

#[test]
fn every_shipped_recipe_trains_two_batches_and_validates() {
    let (folder, data) = data();
    let device = kiln_device::open(&DeviceRequest::Cpu).expect("the CPU");
    for (name, text) in shipped() {
        let recipe = Recipe::from_toml(&text).expect("valid");
        // The same run in small: fewer channels, pixels, images and epochs.
        let mut smaller = settings(&[
            "run.epochs=1",
            "data.batch_size=4",
            "data.limit_batches=2",
            "data.limit_val_batches=1",
            "model.width=4",
            "augment.image_size=32",
            "augment.val_image_size=48",
        ]);
        if recipe.augment.progressive.is_some() {
            smaller.extend(settings(&["augment.progressive.start_size=32"]));
        }
        let recipe = recipe.with(&smaller).unwrap_or_else(|error| panic!("{name}: {error}"));
        let model = recipe.model.resnet(data.train.classes().len()).init(recipe.run.seed, &device.device);
        let output = folder.path().join(&name);
        let trainer = Trainer::new(recipe, &device, data.clone(), &output).unwrap_or_else(|e| panic!("{name}: {e}"));
        let summary = trainer.run(model, &mut ()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let last = summary.last.expect("an epoch");
        assert!(last.train_loss.is_finite() && last.val_loss.is_finite(), "{name}: {last:?}");
        assert_eq!(last.step, 2, "{name}");
        for file in ["metrics.csv", "classes.csv", "confusion.csv", "recipe.toml", "tensorboard"] {
            assert!(output.join(file).exists(), "{file} of {name}");
        }
    }
}

#[test]
fn the_laptop_s_recipe_leaves_the_desktop_a_gigabyte_of_four() {
    let recipes = shipped();
    let text = &recipes.iter().find(|(name, _)| name == "laptop-4gb").expect("shipped").1;
    let recipe = Recipe::from_toml(text).expect("valid");
    let side = recipe.augment.image_size;
    let cost = recipe.model.resnet(1000).cost([side, side], recipe.data.batch_size);
    let gib = cost.training_bytes(1) as f64 / f64::from(1 << 30);
    assert!(gib < 3.0, "{gib} GiB");
}

#[test]
fn the_linear_scaling_rule_follows_the_batch() {
    let recipes = shipped();
    let text = &recipes.iter().find(|(name, _)| name == "torchvision-v1").expect("shipped").1;
    let recipe = Recipe::from_toml(text).expect("valid");
    assert_eq!(recipe.peak_lr(), 0.1);
    let smaller = recipe.with(&settings(&["data.batch_size=64"])).expect("valid");
    assert_eq!((smaller.peak_lr(), smaller.lr_schedule(10).lr(0)), (0.025, 0.025));
}
