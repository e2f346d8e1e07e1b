//! Random rotation: the image turned by a random angle.
//!
//! Draws: one angle, uniform.
//! Source: torchvision 0.29 `v2.RandomRotation`: angles count counter-clockwise, in degrees.

use serde::{Deserialize, Serialize};

use super::affine::Affine;
use crate::augment::geometry::Fill;
use crate::augment::interpolation::Interpolation;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::spread::Spread;
use crate::augment::step::{Output, Step, range_problem};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomRotation {
    /// Counter-clockwise, in degrees: at most so many either way, or lowest and highest. No default.
    pub degrees: Spread,
    /// How source pixels are weighed: `bilinear` or one of the nearest. Default nearest, as in torchvision.
    #[serde(default = "nearest")]
    pub interpolation: Interpolation,
    /// Makes the image larger, so that none of it is cut off. Default false, as in torchvision.
    #[serde(default)]
    pub expand: bool,
    /// What to turn about, x and y in pixels from the top left corner. Default the middle, as in torchvision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub center: Option<[f64; 2]>,
    /// Red, green and blue, 0–255, of what lies outside. Default black, as in torchvision.
    #[serde(default)]
    pub fill: [u8; 3],
}

pub(super) fn nearest() -> Interpolation {
    Interpolation::Nearest
}

impl RandomRotation {
    /// Turns by `degrees`, with torchvision's other defaults.
    pub fn new(degrees: Spread) -> Self {
        Self { degrees, interpolation: nearest(), expand: false, center: None, fill: [0; 3] }
    }
}

impl Step for RandomRotation {
    fn problems(&self) -> Vec<String> {
        let is_far = |center: [f64; 2]| !center.iter().all(|place| place.abs() <= super::random_affine::MAX_PIXELS);
        let mut problems: Vec<String> =
            range_problem("degrees", self.degrees.around(0.0), [-360.0, 360.0]).into_iter().collect();
        problems.extend(self.interpolation.warping_problem());
        problems.extend(
            self.center
                .filter(|center| is_far(*center))
                .map(|center| format!("center is {center:?}; it must be a place in pixels near the image")),
        );
        if self.expand && self.center.is_some() {
            problems
                .push("center has no meaning with expand, which keeps all of the image; leave one of them out".into());
        }
        problems
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        let angle_degrees = -draws.uniform_in(self.degrees.around(0.0));
        let turn = Affine { angle_degrees, ..Affine::IDENTITY };
        let size = program.size();
        let (map, size) = if self.expand {
            turn.expanded(size)
        } else {
            let center = self.center.unwrap_or([f64::from(size[1]) / 2.0, f64::from(size[0]) / 2.0]);
            (turn.about(center), size)
        };
        program.warp(map, size, self.interpolation.warping(), Fill::new(Some(self.fill)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(rotation: &RandomRotation, sample: u64) -> Program {
        let mut program = Program::new(20, 10);
        rotation.draw(&mut Draws::new(42, 0, sample, 0), &mut program, &Output::of_size([1, 1]));
        program
    }

    /// The counter-clockwise angle in degrees.
    fn angle(program: &Program) -> f64 {
        let matrix = program.layers[0].geometry.warp.as_ref().expect("a turned image").matrix;
        matrix[3].atan2(matrix[0]).to_degrees()
    }

    #[test]
    fn angles_are_evenly_spread() {
        let rotation = RandomRotation::new(Spread::Between([-10.0, 30.0]));
        let angles: Vec<f64> = (0..10_000).map(|sample| angle(&drawn(&rotation, sample))).collect();
        assert!(angles.iter().all(|angle| (-10.0..30.0).contains(angle)));
        let mean = angles.iter().sum::<f64>() / 1e4;
        let variance = angles.iter().map(|angle| (angle - mean).powi(2)).sum::<f64>() / 1e4;
        // Standard errors: 40 / sqrt(12) / 100 of the mean, 0.009 times itself of the variance.
        assert!((mean - 10.0).abs() < 4.0 * 0.116, "mean {mean}");
        assert!((variance / (1600.0 / 12.0) - 1.0).abs() < 4.0 * 0.009, "variance {variance}");
    }

    #[test]
    fn draws_are_pinned() {
        let rotation = RandomRotation::new(Spread::Within(15.0));
        let angles = [0, 1, 2].map(|sample| angle(&drawn(&rotation, sample)));
        let want: [f64; 3] = [-0.942_404_449_826_853, -5.188_098_563_898_457, 4.749_465_816_369_28];
        assert!(angles.iter().zip(want).all(|(angle, want)| (angle - want).abs() < 1e-9), "{angles:?}");
    }

    #[test]
    fn a_quarter_turns_about_the_middle_a_corner_or_into_a_larger_image() {
        let quarter = RandomRotation::new(Spread::Between([90.0, 90.0]));
        let near = |found: [f64; 4], want: [f64; 4]| found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-9);
        // Counter-clockwise: what was at the right is above.
        assert!(near(drawn(&quarter, 0).source_box(), [-5.0, 15.0, 15.0, 5.0]));
        let about_corner = drawn(&RandomRotation { center: Some([0.0, 0.0]), ..quarter.clone() }, 0);
        assert!(near(about_corner.source_box(), [0.0, 0.0, 20.0, -10.0]));
        let expanded = drawn(&RandomRotation { expand: true, ..quarter }, 0);
        assert_eq!(expanded.size(), [20, 10]);
        assert!(near(expanded.source_box(), [0.0, 20.0, 10.0, 0.0]));
    }

    #[test]
    fn options_that_are_no_angles_or_places_are_reported() {
        let problems = |degrees| RandomRotation::new(degrees).problems().len();
        assert_eq!([-5.0, f64::NAN, 1e3].map(|angle| problems(Spread::Within(angle))), [1, 1, 1]);
        assert_eq!(problems(Spread::Between([-30.0, 10.0])), 0);
        let bad = RandomRotation {
            center: Some([f64::NAN, 0.0]),
            interpolation: Interpolation::Bicubic,
            expand: true,
            ..RandomRotation::new(Spread::Within(1.0))
        };
        assert_eq!(bad.problems().len(), 3);
        drawn(&bad, 0);
    }
}
