//! Gaussian blur: every pixel becomes a weighted mean of those around it.
//!
//! Source: torchvision 0.29 `v2.functional.gaussian_blur`: weights `exp(-x² / 2σ²)` at whole pixels, divided by their
//! sum, and an image mirrored at its border.
//! Differs from torchvision: an image smaller than the blur is mirrored as often as needed, where torchvision refuses.
//! Draws: whether at all; then the standard deviation, uniform.

use serde::{Deserialize, Serialize};

use crate::augment::geometry::Border;
use crate::augment::levels::{Levels, scale};
use crate::augment::philox::Draws;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step, chance_problem, range_problem};

/// Rows and columns that a blur reads; in a recipe a number or a list of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KernelSize {
    /// As many of both.
    Square(u32),
    /// Columns (x), then rows (y), as in torchvision.
    Each([u32; 2]),
}

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GaussianBlur {
    /// Odd numbers of pixels. Default what three standard deviations on either side need, so that a weak blur is cheap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_size: Option<KernelSize>,
    /// Lowest and highest standard deviation in pixels, above 0. Default 0.1–2, torchvision's.
    pub sigma: [f64; 2],
    /// Chance per image, 0–1. Default 1, as in torchvision.
    pub probability: f64,
}

impl Default for GaussianBlur {
    fn default() -> Self {
        Self { kernel_size: None, sigma: [0.1, 2.0], probability: 1.0 }
    }
}

/// Pixels a side that a blur may read: it costs their square.
const MAX_KERNEL_SIZE: u32 = 101;
/// Standard deviations in pixels: what such a kernel has room for, and the least that has weights.
const SIGMAS: [f64; 2] = [1e-3, 50.0];

impl GaussianBlur {
    /// A blur of this standard deviation, in pixels.
    pub(crate) fn of(&self, sigma: f64) -> PixelOp {
        let [columns, rows] = match self.kernel_size {
            // `as` makes 0 of NaN.
            None => [1 + 2 * ((3.0 * sigma).ceil().min(f64::from(MAX_KERNEL_SIZE)) as u32); 2],
            Some(KernelSize::Square(side)) => [side; 2],
            Some(KernelSize::Each(sides)) => sides,
        };
        let num_taps = [rows, columns].map(|taps| taps.min(MAX_KERNEL_SIZE));
        PixelOp::GaussianBlur { num_taps, sigma: [sigma; 2] }
    }
}

impl Step for GaussianBlur {
    fn problems(&self) -> Vec<String> {
        let sides = match self.kernel_size {
            None => [1; 2],
            Some(KernelSize::Square(side)) => [side; 2],
            Some(KernelSize::Each(sides)) => sides,
        };
        let possible = sides.iter().all(|side| side % 2 == 1 && *side <= MAX_KERNEL_SIZE);
        let problem =
            (!possible).then(|| format!("kernel_size is {sides:?}; it must be odd and at most {MAX_KERNEL_SIZE}"));
        [problem, range_problem("sigma", self.sigma, SIGMAS), chance_problem(self.probability)]
            .into_iter()
            .flatten()
            .collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        if draws.chance(self.probability) {
            program.push(self.of(draws.uniform_in(self.sigma)));
        }
    }
}

/// What the weights of an axis sum to, a factor of 1.
const UNIT: f64 = 16_777_216.0;

/// The weights of one axis as factors, the middle one taking what rounding leaves.
pub(crate) fn blur_weights(num_taps: u32, sigma: f64) -> Vec<u32> {
    let middle = num_taps / 2;
    let weigh = |tap: u32| {
        let distance = f64::from(tap) - f64::from(middle);
        // A deviation of nothing leaves the middle alone.
        if distance == 0.0 { 1.0 } else { (-0.5 * (distance / sigma).powi(2)).exp() }
    };
    let weights: Vec<f64> = (0..2 * middle + 1).map(weigh).collect();
    let total: f64 = weights.iter().sum();
    let mut whole: Vec<u32> = weights.iter().map(|weight| (weight / total * UNIT).round() as u32).collect();
    let rest = UNIT as i64 - whole.iter().map(|weight| i64::from(*weight)).sum::<i64>();
    whole[middle as usize] = (i64::from(whole[middle as usize]) + rest) as u32;
    whole
}

/// Pixel `[row, column]` of `image`, `[height, width]`, under the weights of its rows and of its columns.
pub(crate) fn gaussian_blur(
    image: &[Levels],
    [height, width]: [usize; 2],
    [row, column]: [usize; 2],
    [rows, columns]: [&[u32]; 2],
) -> Levels {
    let mirrored = |place: usize, tap: usize, taps: &[u32], length: usize| {
        let index = (place + tap) as i64 - (taps.len() / 2) as i64;
        Border::Reflect.fold(index, [0, length as i64]) as usize
    };
    let mut sum = [0; 3];
    for (y, row_weight) in rows.iter().enumerate() {
        let line = mirrored(row, y, rows, height) * width;
        let mut line_sum = [0; 3];
        for (x, column_weight) in columns.iter().enumerate() {
            let pixel = image[line + mirrored(column, x, columns, width)];
            (0..3).for_each(|channel| line_sum[channel] += scale(pixel[channel], *column_weight));
        }
        (0..3).for_each(|channel| sum[channel] += scale(line_sum[channel], *row_weight));
    }
    sum
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use crate::augment::levels::device::{Rgb, scale};
    use crate::augment::neighbourhood::device::read;

    /// [`super::gaussian_blur`]; the image begins at word `place` of `scratch`, the weights at word `table` of `words`.
    #[cube]
    pub(crate) fn gaussian_blur(
        scratch: &[u32],
        place: usize,
        height: u32,
        width: u32,
        row: u32,
        column: u32,
        words: &[u32],
        table: usize,
        num_rows: u32,
        num_columns: u32,
    ) -> Rgb {
        let mut sum = Rgb { red: 0i32.runtime(), green: 0i32.runtime(), blue: 0i32.runtime() };
        for y in 0..num_rows {
            let line = mirrored(row, y, num_rows, height) * width;
            let mut line_sum = Rgb { red: 0i32.runtime(), green: 0i32.runtime(), blue: 0i32.runtime() };
            for x in 0..num_columns {
                let pixel = read(scratch, place, line + mirrored(column, x, num_columns, width));
                let weight = words[table + (num_rows + x) as usize];
                line_sum.red += scale(pixel.red, weight);
                line_sum.green += scale(pixel.green, weight);
                line_sum.blue += scale(pixel.blue, weight);
            }
            let weight = words[table + y as usize];
            sum.red += scale(line_sum.red, weight);
            sum.green += scale(line_sum.green, weight);
            sum.blue += scale(line_sum.blue, weight);
        }
        sum
    }

    /// The pixel that stands for tap `tap` of `num_taps` around pixel `place` of an axis `length` long.
    #[cube]
    fn mirrored(place: u32, tap: u32, num_taps: u32, length: u32) -> u32 {
        let period = max(2 * (length - 1), 1u32);
        // A multiple of the period that keeps the sum positive.
        let ahead = ((num_taps / 2) / period + 1) * period;
        let index = (place + tap + ahead - num_taps / 2) % period;
        select(length > 1, min(index, period - index), 0u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::tests::{applied_to, drawn_ops};

    fn drawn(step: &GaussianBlur, sample: u64) -> ([u32; 2], f64) {
        match drawn_ops(step, sample)[..] {
            [PixelOp::GaussianBlur { num_taps, sigma: [y, x] }] if x == y => (num_taps, x),
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn is_applied_as_often_as_asked() {
        applied_to(&GaussianBlur { probability: 0.2, ..Default::default() }, 0.2);
        applied_to(&GaussianBlur::default(), 1.0);
    }

    #[test]
    fn deviations_are_evenly_spread() {
        let found: Vec<f64> = (0..10_000).map(|sample| drawn(&GaussianBlur::default(), sample).1).collect();
        let mean = found.iter().sum::<f64>() / 1e4;
        assert!(found.iter().all(|sigma| (0.1..2.0).contains(sigma)));
        // Standard error: 1.9 / sqrt(12) / 100.
        assert!((mean - 1.05).abs() < 4.0 * 0.0055, "mean {mean}");
    }

    #[test]
    fn draws_are_pinned() {
        let found = [0, 1, 2].map(|sample| drawn(&GaussianBlur::default(), sample).1);
        let want: [f64; 3] = [0.747_636_943_831_839_7, 0.963_199_643_296_287_7, 1.569_810_900_987_408_4];
        assert!(found.iter().zip(want).all(|(found, want)| (found - want).abs() < 1e-12), "{found:?}");
    }

    #[test]
    fn a_kernel_is_as_asked_or_as_large_as_the_blur_needs() {
        let taps = |kernel_size, sigma| drawn(&GaussianBlur { kernel_size, sigma: [sigma; 2], probability: 1.0 }, 0).0;
        assert_eq!([0.1, 1.0, 2.0].map(|sigma| taps(None, sigma)), [[3; 2], [7; 2], [13; 2]]);
        assert_eq!(taps(Some(KernelSize::Square(9)), 1.0), [9, 9]);
        // x comes first in a recipe, y in an operation.
        assert_eq!(taps(Some(KernelSize::Each([5, 3])), 1.0), [3, 5]);
        assert_eq!(taps(None, 1e9), [101, 101]);
    }

    #[test]
    fn options_out_of_range_are_reported() {
        let bad =
            GaussianBlur { kernel_size: Some(KernelSize::Each([4, 103])), sigma: [0.0, f64::NAN], probability: -0.1 };
        assert_eq!(bad.problems().len(), 3);
        assert_eq!(GaussianBlur::default().problems(), [""; 0]);
    }
}
