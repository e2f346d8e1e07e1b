//! Random erasing: paints over one random rectangle of the output.
//!
//! Draws: one uniform value for the chance; per attempt an area fraction and a logarithm of the aspect ratio, both
//! uniform; for the attempt that fits, top and left; then the paint: nothing, three normal values, or the key of the noise.
//! Source: Zhong et al., arXiv 1708.04896, algorithm 1; the law is torchvision 0.29 `v2.RandomErasing`: ten attempts,
//! halves rounded to even, and no rectangle if none is smaller than the image both ways. The modes are those of timm 1.0.
//! The rectangle lies in the output and is painted after normalising, wherever in the list the step stands: what follows
//! it neither moves nor changes the paint. Where images are mixed, each is erased before.

use serde::{Deserialize, Serialize};

use crate::augment::erase::normal_quantile;
use crate::augment::philox::Draws;
use crate::augment::program::{Erased, Paint, Program};
use crate::augment::step::{Output, Step};

/// Attempts before the image is left as it is; torchvision's number, and timm's.
const NUM_ATTEMPTS: usize = 10;

/// Options; a draw gives at most one rectangle per image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomErasing {
    /// Chance per image, 0–1. Default 0.5, as in the paper.
    pub probability: f64,
    /// Share of the output's area, lowest and highest, above 0 and at most 1. Default 0.02–0.33, torchvision's.
    pub scale: [f64; 2],
    /// Height over width of the rectangle, lowest and highest. Default 0.3–3.3, as in the paper.
    pub ratio: [f64; 2],
    /// What it is painted with. Default 0, the mean of the data.
    pub value: EraseValue,
}

/// What a rectangle is painted with, in units of the normalised output, where the data has mean 0 and deviation 1.
///
/// In a recipe a number, a list of three, `"rand"` or `"pixel"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "value is a number, a list of three, \"rand\" (a random colour) or \"pixel\" (noise, which torchvision \
                 calls random)"
)]
pub enum EraseValue {
    /// One value for all channels.
    Constant(f32),
    /// Red, green and blue.
    Color([f32; 3]),
    /// Normally distributed.
    Random(RandomValue),
}

/// What is drawn anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RandomValue {
    /// A value for each channel of each rectangle; timm's `rand`.
    #[serde(rename = "rand")]
    Color,
    /// A value for each channel of each pixel; timm's `pixel`, torchvision's `random`.
    #[serde(rename = "pixel")]
    Pixel,
}

impl Default for RandomErasing {
    fn default() -> Self {
        Self { probability: 0.5, scale: [0.02, 0.33], ratio: [0.3, 3.3], value: EraseValue::Constant(0.0) }
    }
}

impl Step for RandomErasing {
    fn problems(&self) -> Vec<String> {
        let Self { probability, scale, ratio, value } = self;
        let mut problems = Vec::new();
        if !(0.0..=1.0).contains(probability) {
            problems.push(format!("probability is {probability}; it must be between 0 and 1"));
        }
        if !(scale[0] > 0.0 && scale[0] <= scale[1] && scale[1] <= 1.0) {
            problems.push(format!("scale is {scale:?}; it must be a lowest and a highest share above 0 and at most 1"));
        }
        if !(ratio[0] > 0.0 && ratio[0] <= ratio[1] && ratio[1].is_finite()) {
            problems.push(format!("ratio is {ratio:?}; it must be a lowest and a highest height over width above 0"));
        }
        let is_finite = match value {
            EraseValue::Constant(value) => value.is_finite(),
            EraseValue::Color(color) => color.iter().all(|value| value.is_finite()),
            EraseValue::Random(_) => true,
        };
        if !is_finite {
            problems.push("value must be finite".into());
        }
        problems
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, output: &Output) {
        if draws.chance(self.probability)
            && let Some(region) = self.region(draws, output.size)
        {
            program.erase(Erased { region, paint: self.value.draw(draws) });
        }
    }
}

impl RandomErasing {
    /// Draws top, left, bottom and right of a rectangle in `height` × `width` pixels; `None` if no attempt fits, or
    /// the one that does has no pixel.
    pub(crate) fn region(&self, draws: &mut Draws, [height, width]: [u32; 2]) -> Option<[u32; 4]> {
        let area = f64::from(height) * f64::from(width);
        let log_ratio = self.ratio.map(f64::ln);
        let mut attempts = (0..NUM_ATTEMPTS).filter_map(|_| {
            let erased_area = area * draws.uniform_in(self.scale);
            let ratio = draws.uniform_in(log_ratio).exp();
            let erased_height = (erased_area * ratio).sqrt().round_ties_even();
            let erased_width = (erased_area / ratio).sqrt().round_ties_even();
            if !(erased_height < f64::from(height) && erased_width < f64::from(width)) {
                return None;
            }
            let (erased_height, erased_width) = (erased_height as u32, erased_width as u32);
            let top = draws.below(u64::from(height - erased_height) + 1) as u32;
            let left = draws.below(u64::from(width - erased_width) + 1) as u32;
            Some([top, left, top + erased_height, left + erased_width])
        });
        // One without a pixel isn't drawn again, as in torchvision.
        attempts.next().filter(|[top, left, bottom, right]| top < bottom && left < right)
    }
}

impl EraseValue {
    fn draw(self, draws: &mut Draws) -> Paint {
        match self {
            Self::Constant(value) => Paint::Constant([value; 3]),
            Self::Color(color) => Paint::Constant(color),
            Self::Random(RandomValue::Color) => Paint::Constant([(); 3].map(|()| normal(draws))),
            Self::Random(RandomValue::Pixel) => Paint::Noise { key: draws.next_u64() },
        }
    }
}

/// A normally distributed value, of one uniform one.
fn normal(draws: &mut Draws) -> f32 {
    // In the middle of one of 2⁵³ intervals, since 0 has no finite quantile.
    normal_quantile(draws.uniform() + (-54f64).exp2()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn erased(options: &RandomErasing, sample: u64, size: [u32; 2]) -> Option<Erased> {
        let mut program = Program::new(50, 40);
        options.draw(&mut Draws::new(42, 0, sample, 0), &mut program, &Output::of_size(size));
        program.erased.first().copied()
    }

    fn always(value: EraseValue) -> RandomErasing {
        RandomErasing { probability: 1.0, value, ..Default::default() }
    }

    #[test]
    fn rectangles_lie_inside_the_output_and_never_cover_a_side() {
        let options = always(EraseValue::Constant(0.0));
        for size in [[1, 1], [1, 20_000], [20_000, 1], [2, 3], [224, 192]] {
            let regions = (0..200).filter_map(|sample| erased(&options, sample, size)).map(|erased| erased.region);
            for [top, left, bottom, right] in regions {
                assert!(top < bottom && bottom <= size[0] && bottom - top < size[0], "{top}..{bottom} of {size:?}");
                assert!(left < right && right <= size[1] && right - left < size[1], "{left}..{right} of {size:?}");
            }
        }
        assert_eq!(erased(&options, 0, [1, 1]), None, "nothing is smaller than one pixel");
    }

    #[test]
    fn erases_as_often_as_asked() {
        let count = |probability| {
            let options = RandomErasing { probability, ..Default::default() };
            (0..10_000).filter(|&sample| erased(&options, sample, [224, 224]).is_some()).count()
        };
        assert_eq!((count(0.0), count(1.0), count(f64::NAN)), (0, 10_000, 0));
        // Standard error at a quarter: 43.
        assert!(count(0.25).abs_diff(2500) < 4 * 43, "{} of 10,000", count(0.25));
    }

    #[test]
    fn a_ratio_is_height_over_width() {
        let tall = RandomErasing { ratio: [3.0, 3.0], ..always(EraseValue::Constant(0.0)) };
        let [top, left, bottom, right] = erased(&tall, 0, [300, 300]).expect("a rectangle").region;
        assert!(bottom - top > 2 * (right - left), "{} x {}", bottom - top, right - left);
    }

    #[test]
    fn random_colours_are_normally_distributed() {
        let options = always(EraseValue::Random(RandomValue::Color));
        let mut values = Vec::new();
        for sample in 0..10_000 {
            let Some(Erased { paint: Paint::Constant(color), .. }) = erased(&options, sample, [224, 224]) else {
                panic!("sample {sample} has no colour")
            };
            values.extend(color.map(f64::from));
        }
        let moment = |power| values.iter().map(|value| value.powi(power)).sum::<f64>() / values.len() as f64;
        // Standard errors of 30,000 normal values: 0.0058 and 0.0082.
        assert!(moment(1).abs() < 4.0 * 0.0058, "mean {}", moment(1));
        assert!((moment(2) - 1.0).abs() < 4.0 * 0.0082, "variance {}", moment(2));
    }

    #[test]
    fn every_image_has_noise_of_its_own() {
        let options = always(EraseValue::Random(RandomValue::Pixel));
        let key = |sample| match erased(&options, sample, [224, 224]).expect("a rectangle").paint {
            Paint::Noise { key } => key,
            paint => panic!("{paint:?}"),
        };
        assert_eq!(key(1), key(1));
        assert_ne!(key(1), key(2));
    }

    #[test]
    fn draws_are_pinned() {
        let region = |sample| erased(&always(EraseValue::Constant(0.0)), sample, [224, 224]).map(|it| it.region);
        assert_eq!([0, 1, 2].map(region), [[106, 28, 195, 99], [86, 98, 161, 205], [3, 75, 130, 177]].map(Some));
    }

    #[test]
    fn a_value_reads_as_number_list_or_name() {
        let value = |json: &str| serde_json::from_str::<EraseValue>(json);
        assert_eq!(value("0").expect("a number"), EraseValue::Constant(0.0));
        assert_eq!(value("[0.5, 0, -1]").expect("a list"), EraseValue::Color([0.5, 0.0, -1.0]));
        assert_eq!(value("\"rand\"").expect("a name"), EraseValue::Random(RandomValue::Color));
        assert_eq!(value("\"pixel\"").expect("a name"), EraseValue::Random(RandomValue::Pixel));
        let error = value("\"random\"").expect_err("torchvision's name").to_string();
        assert!(error.contains("\"pixel\" (noise"), "{error}");
    }

    #[test]
    fn options_that_cannot_work_are_named_and_still_give_a_program() {
        let bad = RandomErasing {
            probability: 1.5,
            scale: [0.5, 0.1],
            ratio: [0.0, f64::INFINITY],
            value: EraseValue::Color([0.0, f32::NAN, 0.0]),
        };
        assert_eq!(bad.problems().len(), 4, "{:?}", bad.problems());
        assert_eq!(RandomErasing::default().problems(), Vec::<String>::new());
        for scale in [[f64::NAN; 2], [-1.0, -1.0], [1e300, 1e300]] {
            assert_eq!(erased(&RandomErasing { scale, ..bad.clone() }, 0, [224, 224]), None, "{scale:?}");
        }
    }
}
