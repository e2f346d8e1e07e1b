//! Random affine: the image turned, moved, scaled and sheared.
//!
//! Draws: angle; x and y of the translation, rounded to pixels; scale; shear along x and along y; all uniform. What an
//! option leaves out isn't drawn.
//! Source: torchvision 0.29 `v2.RandomAffine`; angles are clockwise here, as in its `affine`.

use serde::{Deserialize, Serialize};

use super::affine::Affine;
use super::random_rotation::nearest;
use crate::augment::geometry::Fill;
use crate::augment::interpolation::Interpolation;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::spread::Spread;
use crate::augment::step::{Output, Step, range_problem};

/// Farther than this from an image, in pixels, nothing of it is seen.
pub(super) const MAX_PIXELS: f64 = 65_535.0;
/// Smallest and largest scale: beyond, an image is a pixel, or a pixel an image.
const SCALES: [f64; 2] = [1e-3, 1e3];
/// Shear in degrees: beyond, a row is longer than any image.
const SHEARS: [f64; 2] = [-89.0, 89.0];

/// Degrees of shear; in a recipe a number or a list of two or four.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Shear {
    /// Along x, at most so much either way.
    Within(f64),
    /// Along x, lowest and highest.
    AlongX([f64; 2]),
    /// Lowest and highest along x, then along y.
    AlongBoth([f64; 4]),
}

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomAffine {
    /// In degrees: at most so many either way, or lowest and highest. No default; 0 doesn't turn.
    pub degrees: Spread,
    /// The furthest the image moves, as shares of its width and of its height, 0–1. Default not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translate: Option<[f64; 2]>,
    /// Lowest and highest factor; above 1 is larger. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<[f64; 2]>,
    /// Degrees. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shear: Option<Shear>,
    /// How source pixels are weighed: `bilinear` or one of the nearest. Default nearest, as in torchvision.
    #[serde(default = "nearest")]
    pub interpolation: Interpolation,
    /// What to turn, scale and shear about, x and y in pixels from the top left corner. Default the middle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub center: Option<[f64; 2]>,
    /// Red, green and blue, 0–255, of what lies outside. Default black, as in torchvision.
    #[serde(default)]
    pub fill: [u8; 3],
}

impl RandomAffine {
    /// Turns by `degrees`, with torchvision's other defaults.
    pub fn new(degrees: Spread) -> Self {
        let (translate, scale, shear, center) = (None, None, None, None);
        Self { degrees, translate, scale, shear, interpolation: nearest(), center, fill: [0; 3] }
    }

    /// Draws what happens to an image of `height` × `width`.
    fn affine(&self, draws: &mut Draws, [height, width]: [u32; 2]) -> Affine {
        let mut affine = Affine { angle_degrees: draws.uniform_in(self.degrees.around(0.0)), ..Affine::IDENTITY };
        if let Some([x, y]) = self.translate {
            let mut pixels = |most: f64| draws.uniform_in([-most, most]).round_ties_even();
            affine.translate = [pixels(x * f64::from(width)), pixels(y * f64::from(height))];
        }
        if let Some(scale) = self.scale {
            affine.scale = draws.uniform_in(scale);
        }
        let [x, y] = self.shear.map_or([[0.0; 2]; 2], Shear::ranges);
        for (axis, range) in [x, y].into_iter().enumerate().filter(|(_, range)| *range != [0.0; 2]) {
            affine.shear_degrees[axis] = draws.uniform_in(range);
        }
        affine
    }
}

impl Shear {
    /// Lowest and highest along x, then along y.
    fn ranges(self) -> [[f64; 2]; 2] {
        match self {
            Self::Within(most) => [[-most, most], [0.0; 2]],
            Self::AlongX(range) => [range, [0.0; 2]],
            Self::AlongBoth([x_low, x_high, y_low, y_high]) => [[x_low, x_high], [y_low, y_high]],
        }
    }
}

impl Step for RandomAffine {
    fn problems(&self) -> Vec<String> {
        let [shear_x, shear_y] = self.shear.map_or([[0.0; 2]; 2], Shear::ranges);
        let mut problems: Vec<String> = [
            range_problem("degrees", self.degrees.around(0.0), [-360.0, 360.0]),
            self.scale.and_then(|scale| range_problem("scale", scale, SCALES)),
            range_problem("shear along x", shear_x, SHEARS),
            range_problem("shear along y", shear_y, SHEARS),
            self.interpolation.warping_problem(),
        ]
        .into_iter()
        .flatten()
        .collect();
        if let Some(translate) = self.translate
            && !translate.iter().all(|share| (0.0..=1.0).contains(share))
        {
            problems.push(format!("translate is {translate:?}; it must be two shares between 0 and 1"));
        }
        if let Some(center) = self.center
            && !center.iter().all(|place| place.abs() <= MAX_PIXELS)
        {
            problems.push(format!("center is {center:?}; it must be a place in pixels near the image"));
        }
        problems
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        let size = program.size();
        let center = self.center.unwrap_or([f64::from(size[1]) / 2.0, f64::from(size[0]) / 2.0]);
        let affine = self.affine(draws, size);
        program.warp(affine.about(center), size, self.interpolation.warping(), Fill::new(Some(self.fill)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> RandomAffine {
        RandomAffine {
            translate: Some([0.1, 0.2]),
            scale: Some([0.5, 2.0]),
            shear: Some(Shear::AlongBoth([-10.0, 20.0, 5.0, 5.0])),
            ..RandomAffine::new(Spread::Within(90.0))
        }
    }

    fn affine(sample: u64) -> Affine {
        everything().affine(&mut Draws::new(42, 0, sample, 0), [50, 200])
    }

    #[test]
    fn every_parameter_is_evenly_spread_over_its_range() {
        let drawn: Vec<Affine> = (0..10_000).map(affine).collect();
        type Parameter = fn(&Affine) -> f64;
        let parameters: [(Parameter, [f64; 2]); 5] = [
            (|affine| affine.angle_degrees, [-90.0, 90.0]),
            (|affine| affine.translate[0], [-20.0, 20.0]),
            (|affine| affine.translate[1], [-10.0, 10.0]),
            (|affine| affine.scale, [0.5, 2.0]),
            (|affine| affine.shear_degrees[0], [-10.0, 20.0]),
        ];
        for (index, (parameter, [low, high])) in parameters.into_iter().enumerate() {
            let values: Vec<f64> = drawn.iter().map(parameter).collect();
            assert!(values.iter().all(|value| (low..=high).contains(value)), "parameter {index}");
            let mean = values.iter().sum::<f64>() / 1e4;
            let error = (high - low) / 12f64.sqrt() / 100.0;
            assert!((mean - (low + high) / 2.0).abs() < 4.0 * error, "parameter {index}: mean {mean}");
        }
        assert!(drawn.iter().all(|affine| affine.shear_degrees[1] == 5.0 && affine.translate[0].fract() == 0.0));
    }

    #[test]
    fn draws_are_pinned() {
        let Affine { angle_degrees, translate, scale, shear_degrees } = affine(7);
        let found = [angle_degrees, translate[0], translate[1], scale, shear_degrees[0]];
        let want: [f64; 5] = [-16.544_589_175_725_15, -13.0, 7.0, 1.944_769_264_479_616_8, 17.608_087_245_251_88];
        assert!(found.iter().zip(want).all(|(found, want)| (found - want).abs() < 1e-9), "{found:?}");
    }

    #[test]
    fn what_is_left_out_changes_nothing() {
        let mut program = Program::new(20, 10);
        let still = RandomAffine::new(Spread::NONE);
        still.draw(&mut Draws::new(1, 0, 0, 0), &mut program, &Output::of_size([1, 1]));
        assert_eq!((program.size(), program.source_box()), ([10, 20], [0.0, 0.0, 10.0, 20.0]));
    }

    #[test]
    fn options_out_of_range_are_reported() {
        assert_eq!(everything().problems(), [""; 0]);
        let bad = RandomAffine {
            translate: Some([1.5, 0.0]),
            scale: Some([0.0, f64::INFINITY]),
            shear: Some(Shear::Within(90.0)),
            interpolation: Interpolation::Bicubic,
            center: Some([1e9, 0.0]),
            ..RandomAffine::new(Spread::Within(f64::NAN))
        };
        assert_eq!(bad.problems().len(), 6);
        let mut program = Program::new(20, 10);
        bad.draw(&mut Draws::new(1, 0, 0, 0), &mut program, &Output::of_size([1, 1]));
    }

    #[test]
    fn a_recipe_names_one_two_or_four_degrees_of_shear() {
        let read = |json| serde_json::from_str::<RandomAffine>(json).expect("an affine").shear;
        assert_eq!(read(r#"{"degrees": 0, "shear": 10}"#), Some(Shear::Within(10.0)));
        assert_eq!(read(r#"{"degrees": 0, "shear": [1, 2]}"#), Some(Shear::AlongX([1.0, 2.0])));
        assert_eq!(read(r#"{"degrees": 0, "shear": [1, 2, 3, 4]}"#), Some(Shear::AlongBoth([1.0, 2.0, 3.0, 4.0])));
    }
}
