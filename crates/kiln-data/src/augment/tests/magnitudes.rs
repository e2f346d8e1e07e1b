//! The tables of the policies against torchvision's and timm's, from `magnitudes.json` of the golden folder.

use serde_json::Value;

use super::golden::Golden;
use crate::augment::policy::auto_augment::AutoAugmentPolicy;
use crate::augment::policy::magnitudes::Space;
use crate::augment::policy::operation::Operation;
use crate::augment::policy::rand_augment::RandAugment;
use crate::augment::policy::timm;

/// torchvision's tables are in f32, relative.
const TOLERANCE: f64 = 2e-7;

fn facts() -> Value {
    Golden::open().json("magnitudes.json")
}

/// Compares every table of torchvision's in `facts` whose name begins with `prefix`; returns how many values it saw.
fn compare(facts: &Value, prefix: &str, space: Space, size: [u32; 2]) -> usize {
    let (_, table) =
        facts.as_object().expect("tables").iter().find(|(name, _)| name.starts_with(prefix)).expect(prefix);
    let mut num_values = 0;
    for (name, entry) in table.as_object().expect("operations") {
        let operation = Operation::named(name).expect(name);
        assert_eq!(entry["signed"], operation.is_signed(), "{prefix} {name}");
        let Some(values) = entry["values"].as_array() else { continue };
        for (bin, want) in values.iter().enumerate() {
            let found = space.magnitude(operation, [bin as u32, values.len() as u32], size);
            let want = want.as_f64().expect("a number");
            assert!((found - want).abs() <= TOLERANCE * want.abs().max(1.0), "{prefix} {name} {bin}: {found}, {want}");
            num_values += 1;
        }
    }
    let mut names: Vec<_> =
        table.as_object().expect("operations").keys().filter_map(|it| Operation::named(it)).collect();
    let mut want = space.operations().to_vec();
    if space == Space::AutoAugment {
        want = space.operations()[1..].iter().copied().chain([Operation::Invert]).collect();
    }
    names.sort();
    want.sort();
    assert_eq!(names, want, "{prefix}");
    num_values
}

#[test]
fn torchvisions_tables_are_ours() {
    let facts = facts();
    let counts = [
        compare(&facts, "tv_v1_RandAugment_bins31_224x224", Space::RandAugment, [224, 224]),
        compare(&facts, "tv_v1_RandAugment_bins31_37x53", Space::RandAugment, [37, 53]),
        compare(&facts, "tv_v1_TrivialAugmentWide_bins31", Space::TrivialAugmentWide, [224, 224]),
        compare(&facts, "tv_v1_AugMix_bins10", Space::AugMix, [224, 224]),
        compare(&facts, "tv_v1_AutoAugment_bins10", Space::AutoAugment, [224, 224]),
    ];
    assert_eq!(counts, [341, 341, 341, 110, 110]);
}

#[test]
fn torchvisions_defaults_are_ours() {
    let facts = facts();
    let want = &facts["tv_RandAugment_defaults"];
    let RandAugment { num_ops, magnitude, num_magnitude_bins, .. } = RandAugment::default();
    assert_eq!(
        [&want["num_ops"], &want["magnitude"], &want["num_magnitude_bins"]],
        [num_ops, magnitude, num_magnitude_bins]
    );
}

#[test]
fn autoaugments_pairs_are_torchvisions() {
    let facts = facts();
    for (name, policy) in [
        ("tv_AutoAugment_imagenet_policy", AutoAugmentPolicy::Imagenet),
        ("tv_AutoAugment_cifar10_policy", AutoAugmentPolicy::Cifar10),
    ] {
        let want = facts[name].as_array().expect("pairs");
        assert_eq!(want.len(), policy.pairs().len());
        for (pair, want) in
            policy.pairs().as_flattened().iter().zip(want.iter().flat_map(|it| it.as_array().expect("two")))
        {
            let (operation, tenths, bin) = pair;
            assert_eq!(Operation::named(want[0].as_str().expect("a name")), Some(*operation), "{name}");
            assert_eq!(want[1].as_f64(), Some(f64::from(*tenths) / 10.0), "{name} {operation:?}");
            assert_eq!(want[2].as_u64().unwrap_or(0), u64::from(*bin), "{name} {operation:?}");
        }
    }
}

#[test]
fn timms_levels_are_ours() {
    let facts = facts();
    let mut num_values = 0;
    for (table, is_increasing) in [("timm_rand_default_ops", false), ("timm_rand_inc1_ops", true)] {
        let repr = if is_increasing { "timm_rand_m9_mstd0.5_inc1" } else { "timm_rand_m9_mstd0.5" };
        let names: Vec<&String> = facts[table].as_object().expect("operations").keys().collect();
        assert!(
            names.iter().all(|name| facts[repr]["repr"].as_str().expect("text").contains(&format!("name={name},")))
        );
        assert_eq!(names.len(), timm::OPERATIONS.len());
        for (name, levels) in facts[table].as_object().expect("operations") {
            let operation = Operation::named(name.trim_end_matches("Increasing").trim_end_matches("Rel")).expect(name);
            assert!(timm::OPERATIONS.contains(&operation), "{name}");
            for (level, want) in levels.as_object().expect("levels") {
                let level: f64 = level.parse().expect("a level");
                // For an image of one pixel, a share of its width is as many pixels; the sign is forced positive.
                let found = timm::argument(operation, is_increasing, level, false, [1, 1]);
                let found = if name.starts_with("Translate") { -found } else { found };
                let want = want[0].as_f64().unwrap_or(0.0);
                assert!((found - want).abs() < 1e-12, "{name} {level}: {found}, {want}");
                num_values += 1;
            }
        }
    }
    assert_eq!(num_values, 2 * 15 * 11);
}
