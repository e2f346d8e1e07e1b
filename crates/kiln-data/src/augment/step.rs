//! A step: what every augmentation of a list can do, whatever its options.

use crate::augment::philox::Draws;
use crate::augment::program::Program;

/// An augmentation with its options.
pub(crate) trait Step {
    /// Every option that can't work, as a sentence.
    fn problems(&self) -> Vec<String>;

    /// Adds one draw of the step to `program`. Options that are problems have a result too, no matter which.
    fn draw(&self, draws: &mut Draws, program: &mut Program, output: &Output);
}

/// What a step may need to know of the list it is in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Output {
    /// Height and width of the result in pixels.
    pub(crate) size: [u32; 2],
    /// What is subtracted from each channel, as bytes: what timm fills with.
    pub(crate) mean_color: [u8; 3],
}

impl Output {
    /// A result of `height` × `width`, with the mean of ImageNet.
    #[cfg(test)]
    pub(crate) fn of_size(size: [u32; 2]) -> Self {
        Self { size, mean_color: [124, 116, 104] }
    }
}

/// The problem of a probability, if it is one.
pub(crate) fn chance_problem(probability: f64) -> Option<String> {
    let possible = (0.0..=1.0).contains(&probability);
    (!possible).then(|| format!("probability is {probability}; it must be between 0 and 1"))
}

/// The problem of an option with a lowest and a highest value, which must lie within `lowest..=highest`.
pub(crate) fn range_problem(name: &str, [low, high]: [f64; 2], [lowest, highest]: [f64; 2]) -> Option<String> {
    let possible = low >= lowest && low <= high && high <= highest;
    (!possible).then(|| {
        format!("{name} is {low} to {high}; it must be a lowest and a highest value between {lowest} and {highest}")
    })
}
