//! Random perspective: the image seen from aside, each of its corners moved inwards.
//!
//! Draws: whether at all; then x and y of each corner: top left, top right, bottom right, bottom left; whole pixels,
//! uniform.
//! Source: torchvision 0.29 `v2.RandomPerspective`.
//! Differs from torchvision: an image without area, or whose corners land on one line, stays as it is.

use serde::{Deserialize, Serialize};

use super::perspective::quadrangle_map;
use crate::augment::geometry::Fill;
use crate::augment::interpolation::Interpolation;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step, chance_problem};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomPerspective {
    /// How far a corner moves at most, as a share of half a side, 0–1. Default 0.5, torchvision's.
    pub distortion_scale: f64,
    /// Chance per image, 0–1. Default 0.5, torchvision's.
    pub probability: f64,
    /// How source pixels are weighed: `bilinear` or one of the nearest. Default bilinear, as in torchvision.
    pub interpolation: Interpolation,
    /// Red, green and blue, 0–255, of what lies outside. Default black, as in torchvision.
    pub fill: [u8; 3],
}

impl Default for RandomPerspective {
    fn default() -> Self {
        Self { distortion_scale: 0.5, probability: 0.5, interpolation: Interpolation::Bilinear, fill: [0; 3] }
    }
}

impl RandomPerspective {
    /// Draws where the corners of an image go: x and y, from the top left one clockwise.
    fn corners(&self, draws: &mut Draws, [height, width]: [u32; 2]) -> [[f64; 2]; 4] {
        let reach = |side: u32| (self.distortion_scale.clamp(0.0, 1.0) * f64::from(side / 2)).floor() as u64;
        let mut inwards = |side: u32, is_far: bool| {
            let moved = draws.below(reach(side) + 1) as f64;
            if is_far { f64::from(side) - 1.0 - moved } else { moved }
        };
        [[false, false], [true, false], [true, true], [false, true]]
            .map(|[is_right, is_below]| [inwards(width, is_right), inwards(height, is_below)])
    }
}

impl Step for RandomPerspective {
    fn problems(&self) -> Vec<String> {
        let scale = self.distortion_scale;
        let possible = (0.0..=1.0).contains(&scale);
        let problem = (!possible).then(|| format!("distortion_scale is {scale}; it must be between 0 and 1"));
        [problem, chance_problem(self.probability), self.interpolation.warping_problem()]
            .into_iter()
            .flatten()
            .collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if !draws.chance(self.probability) {
            return;
        }
        let size = program.size();
        let [right, bottom] = [f64::from(size[1]) - 1.0, f64::from(size[0]) - 1.0];
        let before = [[0.0, 0.0], [right, 0.0], [right, bottom], [0.0, bottom]];
        let after = self.corners(draws, size);
        if let Some(map) = quadrangle_map(after, before) {
            program.warp(map, size, self.interpolation.warping(), Fill::new(Some(self.fill)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corners(sample: u64) -> [[f64; 2]; 4] {
        RandomPerspective::default().corners(&mut Draws::new(42, 0, sample, 0), [20, 40])
    }

    #[test]
    fn corners_move_inwards_evenly() {
        let mut mean = [[0.0; 2]; 4];
        for sample in 0..10_000 {
            for (sum, found) in mean.as_flattened_mut().iter_mut().zip(corners(sample).as_flattened()) {
                *sum += found / 1e4;
            }
        }
        // Half of a reach of 10 along x and 5 along y; standard errors 0.032 and 0.017.
        let want = [[5.0, 2.5], [34.0, 2.5], [34.0, 16.5], [5.0, 16.5]];
        for (found, want) in mean.as_flattened().iter().zip(want.as_flattened()) {
            assert!((found - want).abs() < 4.0 * 0.032, "{mean:?}");
        }
        let leftmost = (0..1000)
            .map(|sample| corners(sample)[0][0])
            .fold([f64::INFINITY, 0.0], |[low, high], x| [f64::min(low, x), f64::max(high, x)]);
        assert_eq!(leftmost, [0.0, 10.0]);
    }

    #[test]
    fn draws_are_pinned() {
        assert_eq!(corners(3), [[7.0, 2.0], [32.0, 4.0], [31.0, 15.0], [10.0, 14.0]]);
    }

    #[test]
    fn the_corners_of_the_image_are_seen_where_they_went() {
        let mut program = Program::new(40, 20);
        let always = RandomPerspective { probability: 1.0, ..Default::default() };
        let draws = || Draws::new(42, 0, 3, 0);
        always.draw(&mut draws(), &mut program, &Output::of_size([1, 1]));
        let mut after_chance = draws();
        after_chance.uniform();
        let [top_left, _, bottom_right, _] = always.corners(&mut after_chance, [20, 40]);
        let geometry = &program.layers[0].geometry;
        for (corner, want) in [(top_left, [0.0, 0.0]), (bottom_right, [39.0, 19.0])] {
            let found = geometry.source_position(corner);
            assert!((0..2).all(|axis| (found[axis] - want[axis]).abs() < 1e-9), "{found:?}");
        }
    }

    #[test]
    fn an_image_without_area_stays_as_it_is() {
        for (width, height) in [(1, 1), (1, 20_000), (20_000, 1)] {
            let mut program = Program::new(width, height);
            let always = RandomPerspective { probability: 1.0, distortion_scale: 1.0, ..Default::default() };
            always.draw(&mut Draws::new(1, 0, 0, 0), &mut program, &Output::of_size([1, 1]));
            assert_eq!(program, Program::new(width, height));
        }
    }

    #[test]
    fn options_out_of_range_are_reported() {
        let bad = RandomPerspective {
            distortion_scale: f64::NAN,
            probability: 2.0,
            interpolation: Interpolation::Bicubic,
            ..Default::default()
        };
        assert_eq!(bad.problems().len(), 3);
        bad.draw(&mut Draws::new(1, 0, 0, 0), &mut Program::new(9, 9), &Output::of_size([1, 1]));
        assert_eq!(RandomPerspective::default().problems(), [""; 0]);
    }
}
