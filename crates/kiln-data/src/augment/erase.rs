//! Erased rectangles: a constant, or noise from a counter-based generator.
//!
//! In: an output pixel, and the rectangles of its program. Out: what covers it. Noise is normally distributed: a word of
//! Philox4x32-10, whose counter is the pixel, picks a place under the bell curve, of which the deviation is interpolated
//! from a table of whole numbers. So it is the same on every device, and no device computes a logarithm.

use crate::augment::philox::philox4x32_10;
use crate::augment::record::{ERASED_PAINT, ERASED_WORDS};

/// Intervals of equal probability in the table of deviations.
pub(crate) const NUM_INTERVALS: usize = 1024;
/// Units of a deviation in the table: 2⁻²⁰ standard deviations.
pub(crate) const DEVIATION_UNIT: f32 = 1.0 / 1_048_576.0;

/// The deviations at the borders of the intervals, in units of 2⁻²⁰ standard deviations. The outermost are those of
/// half the probability of the others, so that the tails end at 3.5 standard deviations.
pub(crate) fn deviations() -> Vec<i32> {
    let quantile = |index: usize| {
        let share = (index as f64).clamp(0.25, NUM_INTERVALS as f64 - 0.25) / NUM_INTERVALS as f64;
        (normal_quantile(share) / f64::from(DEVIATION_UNIT)).round() as i32
    };
    (0..=NUM_INTERVALS).map(quantile).collect()
}

/// The deviation below which a normally distributed value lies with probability `share`, between 0 and 1.
///
/// Source: Wichura, "Algorithm AS 241", Applied Statistics 37 (1988), PPND7: seven decimal places.
pub(crate) fn normal_quantile(share: f64) -> f64 {
    let centred = share - 0.5;
    let ratio = |x: f64, above: &[f64], below: &[f64]| {
        let value = |of: &[f64]| of.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient);
        value(above) / value(below)
    };
    if centred.abs() <= 0.425 {
        let above = [3.387_132_717_9, 50.434_271_938, 159.291_132_02, 59.109_374_72];
        let below = [1.0, 17.895_169_469, 78.757_757_664, 67.187_563_6];
        return centred * ratio(0.180_625 - centred * centred, &above, &below);
    }
    let tail = share.min(1.0 - share);
    let x = (-tail.ln()).sqrt();
    let deviation = if x <= 5.0 {
        let above = [1.423_437_277_7, 2.756_815_39, 1.306_728_481_6, 0.170_238_211_03];
        ratio(x - 1.6, &above, &[1.0, 0.737_001_642_5, 0.120_211_329_75])
    } else {
        let above = [6.657_905_115, 3.081_226_386, 0.428_682_943_37, 0.017_337_203_997];
        ratio(x - 5.0, &above, &[1.0, 0.241_978_947_25, 0.012_258_202_635])
    };
    deviation.copysign(centred)
}

/// The deviation that a random word picks.
fn deviation(table: &[u32], word: u32) -> f32 {
    // Ten bits choose the interval, twelve the place in it.
    let interval = (word >> 22) as usize;
    let [low, high] = [table[interval] as i32, table[interval + 1] as i32];
    let place = (word >> 10 & 0xFFF) as i32;
    (low + (((high - low) * place) >> 12)) as f32 * DEVIATION_UNIT
}

/// What covers output pixel `[row, column]` of `width` columns; `None` if no rectangle does. `table` is where the
/// deviations begin in the words.
pub(crate) fn erased(
    words: &[u32],
    [first, count]: [u32; 2],
    table: usize,
    [row, column]: [usize; 2],
    width: usize,
) -> Option<[f32; 3]> {
    let rectangles = words[first as usize..][..count as usize * ERASED_WORDS].as_chunks::<ERASED_WORDS>().0;
    let covers = |edges: &&[u32; ERASED_WORDS]| {
        let [top, left, bottom, right] = [0, 1, 2, 3].map(|edge| edges[edge] as usize);
        (top..bottom).contains(&row) && (left..right).contains(&column)
    };
    let rectangle = rectangles.iter().rev().find(covers)?;
    let paint = &rectangle[ERASED_PAINT..];
    if paint[0] == 0 {
        return Some([paint[1], paint[2], paint[3]].map(f32::from_bits));
    }
    let random = philox4x32_10([(row * width + column) as u32, 0, 0, 0], [paint[1], paint[2]]);
    Some([0, 1, 2].map(|channel| deviation(&words[table..], random[channel])))
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::DEVIATION_UNIT;
    use crate::augment::philox::device::philox4x32_10;
    use crate::augment::record::{ERASED_PAINT, ERASED_WORDS};

    /// A pixel of the output.
    #[derive(CubeType, CubeTypeMut, Clone, Copy)]
    pub(crate) struct Color {
        pub(crate) red: f32,
        pub(crate) green: f32,
        pub(crate) blue: f32,
    }

    /// [`super::erased`]; `color` if no rectangle covers the pixel.
    #[cube]
    pub(crate) fn erase(
        color: Color,
        words: &[u32],
        first: u32,
        count: u32,
        table: u32,
        width: u32,
        row: u32,
        column: u32,
    ) -> Color {
        let mut color = color;
        for index in 0..count {
            let rectangle = first as usize + index as usize * ERASED_WORDS;
            if row >= words[rectangle]
                && column >= words[rectangle + 1]
                && row < words[rectangle + 2]
                && column < words[rectangle + 3]
            {
                let paint = rectangle + ERASED_PAINT;
                if words[paint] == 0 {
                    color = Color {
                        red: f32::reinterpret(words[paint + 1]),
                        green: f32::reinterpret(words[paint + 2]),
                        blue: f32::reinterpret(words[paint + 3]),
                    };
                } else {
                    let random = philox4x32_10(row * width + column, words[paint + 1], words[paint + 2]);
                    color = Color {
                        red: deviation(words, table as usize, random.a),
                        green: deviation(words, table as usize, random.b),
                        blue: deviation(words, table as usize, random.c),
                    };
                }
            }
        }
        color
    }

    /// [`super::deviation`].
    #[cube]
    fn deviation(words: &[u32], table: usize, word: u32) -> f32 {
        let interval = table + (word >> 22) as usize;
        let low = i32::reinterpret(words[interval]);
        let high = i32::reinterpret(words[interval + 1]);
        let place = i32::reinterpret((word >> 10) & 0xFFF);
        f32::cast_from(low + (((high - low) * place) >> 12)) * DEVIATION_UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_normal_distribution() {
        // Of statistical tables.
        for (share, want) in [(0.5, 0.0), (0.975, 1.959_963_98), (0.1, -1.281_551_57), (0.999, 3.090_232_31)] {
            assert!((normal_quantile(share) - want).abs() < 1e-6, "{share}: {}", normal_quantile(share));
        }
        assert!((normal_quantile(1e-12) + 7.034_483_8).abs() < 1e-5);
    }

    #[test]
    fn noise_is_normally_distributed() {
        let table: Vec<u32> = deviations().into_iter().map(|value| value as u32).collect();
        let words = (0..25_000).flat_map(|pixel| philox4x32_10([pixel, 0, 0, 0], [7, 8]));
        let values: Vec<f64> = words.map(|word| f64::from(deviation(&table, word))).collect();
        let moment = |power| values.iter().map(|value| value.powi(power)).sum::<f64>() / values.len() as f64;
        // Standard errors of 100,000 normal values: 0.0032, 0.0045, 0.031.
        assert!(moment(1).abs() < 4.0 * 0.0032, "mean {}", moment(1));
        assert!((moment(2) - 1.0).abs() < 4.0 * 0.0045, "variance {}", moment(2));
        assert!((moment(4) - 3.0).abs() < 4.0 * 0.031, "fourth moment {}", moment(4));
    }
}
