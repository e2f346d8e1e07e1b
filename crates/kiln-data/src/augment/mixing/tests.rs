//! What is drawn for a batch: how often, with whom, and by the laws of timm and torchvision.

use super::*;

const SIZE: [u32; 2] = [224, 192];

fn both() -> Mixing {
    Mixing { mixup_alpha: 0.4, cutmix_alpha: 1.0, ..Mixing::default() }
}

fn samples(count: u64) -> Vec<u64> {
    (100..100 + count).collect()
}

#[test]
fn an_image_is_mixed_with_the_one_at_the_mirrored_place() {
    let partners =
        |count| -> Vec<usize> { both().draw(1, 2, &samples(count), SIZE).iter().map(|mix| mix.partner).collect() };
    assert_eq!(partners(4), [3, 2, 1, 0]);
    assert_eq!(partners(5), [4, 3, 2, 1, 0]);
    assert_eq!(partners(1), [0]);
    let alone = both().draw(1, 2, &samples(5), SIZE)[2];
    assert_eq!(alone, Mix::none(2));
}

#[test]
fn the_batch_changes_the_partner_alone() {
    let drawn = |samples: &[u64]| both().draw(1, 2, samples, SIZE);
    let whole = drawn(&samples(32));
    let pairs = samples(32).chunks(8).flat_map(drawn).collect::<Vec<_>>();
    let without_partner = |mixes: &[Mix]| mixes.iter().map(|mix| (mix.share, mix.pasted)).collect::<Vec<_>>();
    assert_eq!(without_partner(&pairs), without_partner(&whole));
    assert_ne!(drawn(&samples(32)), both().draw(9, 2, &samples(32), SIZE));
    assert_ne!(drawn(&samples(32)), both().draw(1, 9, &samples(32), SIZE));
}

#[test]
fn mixes_and_switches_as_often_as_asked() {
    let counts = |mixing: Mixing| {
        let mixes = mixing.draw(1, 2, &samples(10_000), SIZE);
        let mixed = mixes.iter().enumerate().filter(|(index, mix)| mix.partner != *index);
        (mixed.clone().count(), mixed.filter(|(_, mix)| mix.pasted.is_some()).count())
    };
    let (mixed, cut) = counts(Mixing { probability: 0.75, switch_probability: 0.25, ..both() });
    // Standard errors: 43 and 39. Cutmix leaves out boxes without a pixel, which are rarer than 1 in 1,000.
    assert!(mixed.abs_diff(7500) < 4 * 43 && cut.abs_diff(1875) < 4 * 39, "{mixed} mixed, {cut} by cutmix");
    assert_eq!(counts(Mixing { probability: 0.0, ..both() }), (0, 0));
    assert_eq!(counts(Mixing { cutmix_alpha: 0.0, ..both() }), (10_000, 0), "mixup whatever the switch says");
    let (mixed, cut) = counts(Mixing { mixup_alpha: 0.0, ..both() });
    assert!(mixed == cut && cut > 9_900, "cutmix whatever the switch says: {cut} of {mixed}");
    assert_eq!(counts(Mixing::default()), (0, 0));
}

#[test]
fn a_box_lies_inside_and_leaves_the_share() {
    let mixing = Mixing { mixup_alpha: 0.0, ..both() };
    for size in [[1, 1], [1, 300], [7, 5], SIZE] {
        for mix in mixing.draw(1, 2, &samples(200), size) {
            let Some([top, left, bottom, right]) = mix.pasted else { continue };
            assert!(top < bottom && bottom <= size[0] && left < right && right <= size[1], "{mix:?} in {size:?}");
            let area = f64::from((bottom - top) * (right - left)) / f64::from(size[0] * size[1]);
            assert!((mix.share + area - 1.0).abs() < 1e-12, "{mix:?}");
        }
    }
}

#[test]
fn draws_are_pinned() {
    let drawn = both().draw(42, 3, &[0, 1, 2, 3], SIZE);
    let want = [
        (0.0035359055445556738, None),
        (0.6513671875, Some([126, 39, 224, 192])),
        (0.5959170948916162, None),
        (0.025191341897420904, None),
    ];
    for (mix, (share, pasted)) in drawn.iter().zip(want) {
        // Logarithms are as exact as the platform's.
        assert!((mix.share - share).abs() < 1e-12 && mix.pasted == pasted, "{drawn:?}");
    }
}

#[test]
fn options_that_cannot_work_are_named_and_still_give_a_result() {
    let bad = Mixing { mixup_alpha: f64::NAN, cutmix_alpha: -1.0, probability: 1.5, switch_probability: f64::NAN };
    assert_eq!(bad.problems().len(), 4, "{:?}", bad.problems());
    assert_eq!(Mixing::default().problems().len(), 1, "nothing is mixed");
    assert!(both().problems().is_empty());
    for alpha in [f64::INFINITY, 1e300, f64::NAN, -1.0] {
        let drawn = Mixing { mixup_alpha: alpha, cutmix_alpha: alpha, ..bad.clone() }.draw(1, 2, &samples(50), [0, 9]);
        assert!(drawn.iter().all(|mix| (0.0..=1.0).contains(&mix.share)), "{alpha}: {drawn:?}");
    }
}

#[test]
fn unknown_options_are_errors() {
    let error = serde_json::from_str::<Mixing>(r#"{"mixup_alpha": 0.2, "cutmix": 1.0}"#).expect_err("a typing error");
    assert!(error.to_string().contains("unknown field `cutmix`"), "{error}");
}

#[test]
fn the_larger_share_is_what_an_image_shows() {
    let mix = |partner, share| Mix { partner, share, pasted: None };
    let mixes = [mix(2, 0.3), Mix::none(1), mix(0, 0.5)];
    let targets = MixedTargets::new(&mixes, &[7, 8, 9]).expect("mixed");
    assert_eq!((&targets.partner_labels[..], &targets.shares[..]), (&[9, 8, 7][..], &[0.3, 1.0, 0.5][..]));
    assert_eq!(targets.main_labels(&[7, 8, 9]), [9, 8, 9]);
    assert_eq!(MixedTargets::new(&[Mix::none(0), Mix::none(1)], &[7, 8]), None);
    assert_eq!(MixedTargets::new(&[], &[7, 8]), None);
}
