//! Options and images that nobody means: problems at validation or a defined result, never a panic.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Height and width of the images: one pixel, and lines as long as a decoder lets through.
const SIZES: [[u32; 2]; 5] = [[1, 1], [1, 20_000], [20_000, 1], [2, 3], [40, 30]];

/// Numbers that options don't expect.
fn number() -> BoxedStrategy<f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(0.0),
        Just(-0.0),
        Just(1e300),
        Just(-1e300),
        Just(1e-300),
        Just(1.0),
        -2.0..2.0f64,
        -400.0..400.0f64,
    ]
    .boxed()
}

fn count() -> BoxedStrategy<u32> {
    prop_oneof![Just(0), Just(1), Just(u32::MAX), Just(65_535), 0..40u32].boxed()
}

fn pair() -> BoxedStrategy<[f64; 2]> {
    [number(), number()].boxed()
}

fn spread() -> BoxedStrategy<Spread> {
    prop_oneof![number().prop_map(Spread::Within), pair().prop_map(Spread::Between)].boxed()
}

fn interpolation() -> BoxedStrategy<Interpolation> {
    use Interpolation::{Bicubic, Bilinear, Nearest, NearestExact};
    prop_oneof![Just(Nearest), Just(NearestExact), Just(Bilinear), Just(Bicubic)].boxed()
}

fn padding() -> BoxedStrategy<Padding> {
    prop_oneof![
        count().prop_map(Padding::All),
        [count(), count()].prop_map(Padding::Sides),
        [count(), count(), count(), count()].prop_map(Padding::Each)
    ]
    .boxed()
}

fn padding_mode() -> BoxedStrategy<PaddingMode> {
    use PaddingMode::{Constant, Edge, Reflect, Symmetric};
    prop_oneof![Just(Constant), Just(Edge), Just(Reflect), Just(Symmetric)].boxed()
}

fn geometric() -> BoxedStrategy<Augmentation> {
    prop_oneof![
        (pair(), pair(), interpolation(), any::<bool>())
            .prop_map(|(scale, ratio, interpolation, antialias)| {
                Augmentation::RandomResizedCrop(RandomResizedCrop { scale, ratio, interpolation, antialias })
            })
            .boxed(),
        ([count(), count()], padding(), padding_mode())
            .prop_map(|(size, padding, padding_mode)| {
                Augmentation::RandomCrop(RandomCrop { size: Some(size), padding, padding_mode, fill: [9; 3] })
            })
            .boxed(),
        ([count(), count()], interpolation())
            .prop_map(|(size, interpolation)| {
                Augmentation::Resize(Resize { interpolation, ..Resize::new(ResizeTo::Exactly(size)) })
            })
            .boxed(),
        [count(), count()]
            .prop_map(|size| { Augmentation::CornerCrop(CornerCrop { corner: Corner::BottomRight, size: Some(size) }) })
            .boxed(),
        [count(), count()].prop_map(|size| Augmentation::CenterCrop(CenterCrop { size: Some(size) })).boxed(),
        (padding(), padding_mode())
            .prop_map(|(padding, padding_mode)| { Augmentation::Pad(Pad { padding_mode, ..Pad::new(padding) }) }),
        number().prop_map(|probability| Augmentation::RandomVerticalFlip(RandomVerticalFlip { probability })).boxed(),
        (spread(), interpolation(), any::<bool>(), proptest::option::of(pair()))
            .prop_map(|(degrees, interpolation, expand, center)| {
                Augmentation::RandomRotation(RandomRotation { degrees, interpolation, expand, center, fill: [1; 3] })
            })
            .boxed(),
        (spread(), pair(), pair(), [number(), number(), number(), number()], proptest::option::of(pair()))
            .prop_map(|(degrees, translate, scale, shear, center)| {
                Augmentation::RandomAffine(RandomAffine {
                    translate: Some(translate),
                    scale: Some(scale),
                    shear: Some(Shear::AlongBoth(shear)),
                    center,
                    ..RandomAffine::new(degrees)
                })
            })
            .boxed(),
        (number(), number())
            .prop_map(|(distortion_scale, probability)| {
                Augmentation::RandomPerspective(RandomPerspective {
                    distortion_scale,
                    probability,
                    ..Default::default()
                })
            })
            .boxed(),
    ]
    .boxed()
}

fn coloured() -> BoxedStrategy<Augmentation> {
    prop_oneof![
        (spread(), spread(), spread(), spread())
            .prop_map(|(brightness, contrast, saturation, hue)| {
                Augmentation::ColorJitter(ColorJitter { brightness, contrast, saturation, hue })
            })
            .boxed(),
        number().prop_map(|probability| Augmentation::RandomGrayscale(RandomGrayscale { probability })).boxed(),
        number().prop_map(|probability| Augmentation::RandomEqualize(RandomEqualize { probability })).boxed(),
        number().prop_map(|probability| Augmentation::RandomAutocontrast(RandomAutocontrast { probability })).boxed(),
        (number(), number())
            .prop_map(|(threshold, probability)| {
                Augmentation::RandomSolarize(RandomSolarize { threshold, probability })
            })
            .boxed(),
        count().prop_map(|bits| Augmentation::RandomPosterize(RandomPosterize { bits, probability: 1.0 })).boxed(),
        (pair(), number())
            .prop_map(|(gamma, gain)| { Augmentation::RandomGamma(RandomGamma { gamma, gain, probability: 1.0 }) }),
        number()
            .prop_map(|sharpness_factor| {
                Augmentation::RandomAdjustSharpness(RandomAdjustSharpness { sharpness_factor, probability: 1.0 })
            })
            .boxed(),
        ([count(), count()], pair())
            .prop_map(|(sides, sigma)| {
                let kernel_size = (sides[0] > 3).then_some(KernelSize::Each(sides));
                Augmentation::GaussianBlur(GaussianBlur { kernel_size, sigma, probability: 1.0 })
            })
            .boxed(),
    ]
    .boxed()
}

fn policy() -> BoxedStrategy<Augmentation> {
    prop_oneof![
        (count(), interpolation())
            .prop_map(|(num_magnitude_bins, interpolation)| {
                Augmentation::TrivialAugmentWide(TrivialAugmentWide { num_magnitude_bins, interpolation, fill: None })
            })
            .boxed(),
        (count(), count(), count())
            .prop_map(|(num_ops, magnitude, num_magnitude_bins)| {
                Augmentation::RandAugment(RandAugment { num_ops, magnitude, num_magnitude_bins, ..Default::default() })
            })
            .boxed(),
        (number(), count(), number(), number(), number())
            .prop_map(|(magnitude, num_ops, probability, std, most)| {
                let config = TimmRandAugmentConfig {
                    magnitude,
                    num_ops,
                    probability,
                    magnitude_std: std,
                    magnitude_max: Some(most),
                    ..Default::default()
                };
                Augmentation::TimmRandAugment(TimmRandAugment { config, ..Default::default() })
            })
            .boxed(),
        (count(), count(), count(), number())
            .prop_map(|(severity, mixture_width, depth, alpha)| {
                Augmentation::AugMix(AugMix {
                    severity,
                    mixture_width,
                    chain_depth: Some(depth),
                    alpha,
                    ..Default::default()
                })
            })
            .boxed(),
        number().prop_map(|color_jitter| Augmentation::ThreeAugment(ThreeAugment { color_jitter })).boxed(),
    ]
    .boxed()
}

fn step() -> BoxedStrategy<Augmentation> {
    prop_oneof![geometric(), coloured(), policy()].boxed()
}

proptest! {
    #![proptest_config(property_config(400))]

    #[test]
    fn any_options_have_problems_or_a_finite_result(steps in proptest::collection::vec(step(), 1..4), seed: u64) {
        let options = Augment { steps, ..Augment::train(5) };
        // Drawing is defined in any case.
        for [height, width] in SIZES {
            let program = options.draw(seed, 0, 0, width, height);
            prop_assert_eq!(program.size(), [5, 5]);
            let total: f64 = program.layers.iter().map(|layer| layer.weight).sum();
            prop_assert!((total - 1.0).abs() < 1e-9);
        }
        let is_valid = match options.validate() {
            Ok(()) => true,
            // A resize that leaves different shapes is refused for what it does to a picture; it runs all the same.
            Err(problems) => { prop_assert!(problems.iter().all(|problem| problem.len() > 20)); false }
        };
        if is_valid {
            let batch = noise_batch(&SIZES, seed % 1000);
            prop_assert!(run(&batch, &options, &kiln_device::cpu()).iter().all(|value| value.is_finite()));
        }
    }
}

/// Every step of a list that is valid alone, so that results are looked at often.
fn likely_valid() -> impl Strategy<Value = Augmentation> {
    step().prop_filter("valid options", |step| step.step().1.problems().is_empty())
}

proptest! {
    #![proptest_config(property_config(60))]

    #[test]
    fn valid_options_have_the_same_finite_result_on_every_device(
        steps in proptest::collection::vec(likely_valid(), 1..4),
        seed in 0..1000u64,
    ) {
        let options = Augment { steps, ..Augment::train(5) };
        prop_assume!(options.validate().is_ok());
        let batch = noise_batch(&SIZES, seed);
        let twin = run(&batch, &options, &kiln_device::cpu());
        prop_assert!(twin.iter().all(|value| value.is_finite()));
        for (name, device) in kiln_device::parity_devices() {
            let kernel = run(&batch, &options, &device);
            let error = kernel.iter().zip(&twin).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            prop_assert!(error <= 1e-5, "{}: {:e} off", name, error);
        }
    }
}

#[test]
fn values_of_the_wrong_kind_are_errors_of_reading() {
    let bad: [Value; 9] = [
        json!({"op": "random_crop", "padding": [1, 2, 3]}),
        json!({"op": "random_crop", "padding": -1}),
        json!({"op": "random_crop", "padding_mode": "wrap"}),
        json!({"op": "pad", "padding": 1, "fill": [0, 0, 256]}),
        json!({"op": "random_rotation"}),
        json!({"op": "gaussian_blur", "kernel_size": 2.5}),
        json!({"op": "resize", "size": 3, "interpolation": "lanczos"}),
        json!({"op": "timm_rand_augment", "config": "rand-m"}),
        json!({"op": "aug_mix", "all_ops": 1}),
    ];
    for value in bad {
        assert!(serde_json::from_value::<Augmentation>(value.clone()).is_err(), "{value}");
    }
}
