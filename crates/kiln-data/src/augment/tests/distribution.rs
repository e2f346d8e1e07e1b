//! The law of the draws against what torchvision draws, from `dist.json` of the golden folder.

use serde_json::Value;

use super::golden::Golden;
use crate::augment::geometric::random_resized_crop::{CropBox, RandomResizedCrop};
use crate::augment::mixing::Mixing;
use crate::augment::philox::Draws;
use crate::augment::random_erasing::RandomErasing;

/// How many standard errors of the difference the mean of an area or aspect may be off: one honest comparison in 370
/// exceeds it.
const STANDARD_ERRORS: f64 = 3.0;
/// The same for positions; `tolerance` of `dist.json`.
const STANDARD_ERRORS_OF_POSITIONS: f64 = 5.0;
/// What two samples of 1e5 may differ in at a quantile of area or aspect; `tolerance` of `dist.json`.
const QUANTILE_TOLERANCE: f64 = 0.006;
/// Draws of the laws that don't say how many.
const NUM_DRAWS: u64 = 100_000;

#[test]
fn random_resized_crop_draws_boxes_as_torchvision_does() {
    let golden = Golden::open();
    let facts = golden.json("dist.json");
    let [width, height] = [0, 1].map(|index| facts["image_wh"][index].as_u64().expect("a side") as u32);
    let mut num_laws = 0;
    for (name, law) in facts.as_object().expect("laws by name") {
        let Some(options) = options_of(name) else { continue };
        num_laws += 1;
        let num_draws = law["n"].as_u64().expect("a number of draws");
        let boxes: Vec<CropBox> = (0..num_draws)
            .map(|sample| options.crop_box(&mut Draws::new(2024, 0, sample, 0), [height, width]))
            .collect();
        let image_area = f64::from(width) * f64::from(height);
        let area = |found: &CropBox| f64::from(found.width) * f64::from(found.height) / image_area;
        let aspect = |found: &CropBox| f64::from(found.width) / f64::from(found.height);
        compare(name, "area_fraction", law, boxes.iter().map(area).collect());
        compare(name, "aspect_w_over_h", law, boxes.iter().map(aspect).collect());
        compare(name, "top", law, boxes.iter().map(|found| f64::from(found.top)).collect());
        compare(name, "left", law, boxes.iter().map(|found| f64::from(found.left)).collect());
    }
    assert!(num_laws > 0, "no law of random_resized_crop in {}", golden.describe());
}

#[test]
fn the_box_in_the_centre_is_torchvisions() {
    let facts = Golden::open().json("dist.json");
    for (size, want) in facts["fallback_examples"].as_object().expect("examples by size") {
        let (width, height) = size.split_once('x').expect("WIDTHxHEIGHT");
        let size = [height, width].map(|side| side.parse().expect("pixels"));
        let found = RandomResizedCrop::default().crop_box(&mut Draws::new(1, 1, 1, 1), size);
        let found = [found.top, found.left, found.height, found.width];
        let want = [0, 1, 2, 3].map(|index| want[index].as_u64().expect("a pixel") as u32);
        assert_eq!(found, want, "{size:?}");
    }
}

#[test]
fn random_erasing_draws_rectangles_as_torchvision_does() {
    let law = &Golden::open().json("dist.json")["tv_random_erasing_224"];
    let range = |name: &str| [0, 1].map(|index| law[name][index].as_f64().expect("a number"));
    let options = RandomErasing { scale: range("scale"), ratio: range("ratio"), ..Default::default() };
    let regions: Vec<_> = (0..NUM_DRAWS)
        .filter_map(|sample| options.region(&mut Draws::new(2024, 0, sample, 0), [224, 224]))
        .map(|[top, left, bottom, right]| [f64::from(bottom - top), f64::from(right - left)])
        .collect();
    let count = law["n"].as_f64().expect("a number of draws");
    let areas = regions.iter().map(|[height, width]| height * width / 224.0 / 224.0).collect();
    compare_law("random_erasing area", &law["area"], count, areas);
    // The options' ratio is height over width; the law is of its inverse, as its extreme quantiles show.
    let aspects = regions.iter().map(|[height, width]| width / height).collect();
    compare_law("random_erasing aspect", &law["aspect_w_over_h"], count, aspects);
}

#[test]
fn mixup_and_cutmix_draw_shares_as_timm_and_torchvision_do() {
    let facts = Golden::open().json("dist.json");
    let samples: Vec<u64> = (0..NUM_DRAWS).collect();
    let mut num_laws = 0;
    for (name, law) in facts["mixup_cutmix"].as_object().expect("laws by name") {
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let (mixing, size) = if let Some(alpha) = name.strip_prefix("mixup_beta_") {
            (Mixing { mixup_alpha: number(alpha), ..Default::default() }, [224, 224])
        } else if let Some(options) = name.strip_prefix("cutmix_alpha") {
            let mut options = options.split('_');
            let mut next = || number(options.next().expect("alpha_side"));
            (Mixing { cutmix_alpha: next(), ..Default::default() }, [next() as u32; 2])
        } else {
            continue;
        };
        num_laws += 1;
        let shares = mixing.draw(2024, 0, &samples, size).iter().map(|mix| mix.share).collect();
        compare_law(name, law, law["n"].as_f64().unwrap_or(NUM_DRAWS as f64), shares);
    }
    assert!(num_laws >= 4, "{num_laws} laws of mixing");
}

/// Compares mean and quantiles with a law of `count` draws, in standard errors.
///
/// What lies below a quantile is a share of the draws, whose error doesn't depend on the density there.
fn compare_law(name: &str, law: &Value, count: f64, values: Vec<f64>) {
    let number = |value: &Value| value.as_f64().expect("a number");
    let num_values = values.len() as f64;
    let scatter = (1.0 / num_values + 1.0 / count).sqrt();
    let mean = values.iter().sum::<f64>() / num_values;
    let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / num_values).sqrt();
    let off = (mean - number(&law["mean"])) / (deviation * scatter);
    assert!(off.abs() < STANDARD_ERRORS, "{name}: mean {mean}, {off:.2} standard errors off");
    for (level, quantile) in law["quantiles"].as_object().expect("quantiles by level") {
        let (level, quantile) = (level.parse::<f64>().expect("a level"), number(quantile));
        let share = |is_below: fn(&f64, &f64) -> bool| {
            values.iter().filter(|value| is_below(value, &quantile)).count() as f64 / num_values
        };
        // A quantile of whole pixels has a share of the draws to itself.
        let (below, up_to) = (share(f64::lt), share(f64::le));
        let allowed = STANDARD_ERRORS * (level * (1.0 - level)).sqrt() * scatter;
        assert!(
            (below - allowed..=up_to + allowed).contains(&level),
            "{name}: {below} to {up_to} lie below the quantile of {level}, {allowed} allowed"
        );
    }
}

/// `tv_rrc_scale.08-1_ratio.75-1.333` names the options of a law.
fn options_of(name: &str) -> Option<RandomResizedCrop> {
    let (scale, ratio) = name.strip_prefix("tv_rrc_scale")?.split_once("_ratio")?;
    let range = |text: &str| {
        let (low, high) = text.split_once('-').expect("LOW-HIGH");
        [low, high].map(|number| number.parse::<f64>().expect("a number"))
    };
    // The name has three digits of the default.
    let ratio = range(ratio).map(|ratio| if (ratio - 4.0 / 3.0).abs() < 1e-3 { 4.0 / 3.0 } else { ratio });
    Some(RandomResizedCrop { scale: range(scale), ratio, ..Default::default() })
}

/// Compares the mean, and for shares and ratios the quantiles.
fn compare(law_name: &str, name: &str, law: &Value, mut values: Vec<f64>) {
    let want = &law[name];
    let number = |value: &Value| value.as_f64().expect("a number");
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    let standard_error = number(&want["se_mean"]).hypot((variance / count).sqrt());
    let off = (mean - number(&want["mean"])) / standard_error;
    let is_position = ["top", "left"].contains(&name);
    let limit = if is_position { STANDARD_ERRORS_OF_POSITIONS } else { STANDARD_ERRORS };
    assert!(off.abs() < limit, "{law_name} {name}: mean {mean}, {off:.2} standard errors off");
    if is_position {
        return;
    }
    values.sort_by(f64::total_cmp);
    for (level, want) in want["quantiles"].as_object().expect("quantiles by level") {
        let found = values[(level.parse::<f64>().expect("a level") * (count - 1.0)) as usize];
        let difference = (found - number(want)).abs();
        // A sample of another size than 1e5 scatters accordingly.
        let tolerance = QUANTILE_TOLERANCE * (1e5 / count).sqrt();
        assert!(difference < tolerance, "{law_name} {name} {level}: {found}, {difference} off");
    }
}
