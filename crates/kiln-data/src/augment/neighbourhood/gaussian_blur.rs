//! Gaussian blur: every pixel becomes a weighted mean of those around it.
//!
//! Source: torchvision 0.29 `v2.functional.gaussian_blur`: weights `exp(-x² / 2σ²)` at whole pixels, divided by their
//! sum, and an image mirrored at its border.
//! Differs from torchvision: an image smaller than the blur is mirrored as often as needed, where torchvision refuses.

use crate::augment::geometry::Border;
use crate::augment::levels::{Levels, scale};

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
