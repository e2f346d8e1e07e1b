//! Random horizontal flip: mirrors left and right.
//!
//! Draws: one uniform value; the image is mirrored if it is below the probability.
//! Source: torchvision 0.29 `v2.RandomHorizontalFlip`.

use serde::{Deserialize, Serialize};

use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step, chance_problem};

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomHorizontalFlip {
    /// Chance per image, 0–1. Default 0.5, as everywhere.
    pub probability: f64,
}

impl Default for RandomHorizontalFlip {
    fn default() -> Self {
        Self { probability: 0.5 }
    }
}

impl Step for RandomHorizontalFlip {
    fn problems(&self) -> Vec<String> {
        chance_problem(self.probability).into_iter().collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if draws.chance(self.probability) {
            program.flip_horizontally();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_flipped(probability: f64, sample: u64) -> bool {
        let mut program = Program::new(2, 1);
        let flip = RandomHorizontalFlip { probability };
        flip.draw(&mut Draws::new(42, 0, sample, 1), &mut program, &Output::of_size([1, 2]));
        program.source_box()[1] > program.source_box()[3]
    }

    #[test]
    fn flips_as_often_as_asked() {
        let count = |probability| (0..10_000).filter(|&sample| is_flipped(probability, sample)).count();
        assert_eq!((count(0.0), count(1.0), count(f64::NAN)), (0, 10_000, 0));
        // Standard error at a quarter: 43.
        assert!(count(0.25).abs_diff(2500) < 4 * 43, "{} of 10,000", count(0.25));
    }

    #[test]
    fn draws_are_pinned() {
        let flipped: Vec<u64> = (0..12).filter(|&sample| is_flipped(0.5, sample)).collect();
        assert_eq!(flipped, [0, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_chance_is_between_nothing_and_certainty() {
        let problems = |probability| RandomHorizontalFlip { probability }.problems().len();
        assert_eq!([0.0, 1.0, 1.5, -0.1, f64::NAN].map(problems), [0, 0, 1, 1, 1]);
    }
}
