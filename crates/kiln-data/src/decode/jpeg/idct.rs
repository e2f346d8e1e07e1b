//! The inverse DCT of one block, at full or reduced size.
//!
//! In: dequantised coefficients. Out: bytes, 8, 4, 2 or 1 in each direction. Fewer than eight are made of as many of the
//! lowest frequencies: the picture filtered and decimated in one step, which is what makes decoding at a scale cheap.
//! Source: Loeffler, Ligtenberg and Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications", ICASSP 1989, for
//! eight points; the definition, ITU-T T.81 A.3.3, for the others.

use std::array::from_fn;
use std::ops::{Add, Mul, Sub};

/// Binary places of the constants.
const CONSTANT_BITS: u32 = 13;
/// Binary places kept between the two passes.
const BETWEEN_BITS: u32 = 2;

/// Where the coefficients of a block stand in zigzag order: column first, so that the first pass runs along rows.
pub(super) const ZIGZAG: [u8; 64] = zigzag();

const fn zigzag() -> [u8; 64] {
    let mut places = [0; 64];
    let (mut row, mut column, mut index) = (0u8, 0u8, 0);
    while index < 64 {
        places[index] = column * 8 + row;
        let up = (row + column).is_multiple_of(2);
        match (up, row, column) {
            (true, _, 7) => row += 1,
            (true, 0, _) => column += 1,
            (true, ..) => (row, column) = (row - 1, column + 1),
            (false, 7, _) => column += 1,
            (false, _, 0) => row += 1,
            (false, ..) => (row, column) = (row + 1, column - 1),
        }
        index += 1;
    }
    places
}

/// Coefficients, those of a column side by side.
pub(super) type Block = [i32; 64];

/// Writes `num_columns` × `num_rows` pixels of a block at the beginning of `plane`, rows `stride` apart.
#[inline(always)]
pub(super) fn inverse(block: &Block, [num_columns, num_rows]: [usize; 2], plane: &mut [u8], stride: usize) {
    let columns: [Lanes; 8] = from_fn(|column| Lanes(from_fn(|row| block[column * 8 + row])));
    let mut along = points(columns, num_columns);
    let shift = CONSTANT_BITS - BETWEEN_BITS;
    along.iter_mut().for_each(|lanes| *lanes = lanes.rounded(shift));
    let rows = points(transposed(along), num_rows);
    // Each pass has grown values by the root of eight.
    let shift = CONSTANT_BITS + BETWEEN_BITS + 3;
    for (row, lanes) in rows.iter().enumerate().take(num_rows) {
        let bytes = lanes.rounded(shift).0.map(|value| (value.wrapping_add(128)).clamp(0, 255) as u8);
        plane[row * stride..][..num_columns].copy_from_slice(&bytes[..num_columns]);
    }
}

/// The same for a block of which only the mean differs from 0.
#[inline(always)]
pub(super) fn flat(mean: i32, [num_columns, num_rows]: [usize; 2], plane: &mut [u8], stride: usize) {
    let byte = ((mean.wrapping_add(4) >> 3).wrapping_add(128)).clamp(0, 255) as u8;
    for row in 0..num_rows {
        plane[row * stride..][..num_columns].fill(byte);
    }
}

/// Eight values that are treated alike: a vector register. Damaged files may overflow them; such blocks are noise.
#[derive(Clone, Copy)]
struct Lanes([i32; 8]);

impl Lanes {
    #[inline(always)]
    fn rounded(self, shift: u32) -> Self {
        Self(self.0.map(|value| value.wrapping_add(1 << (shift - 1)) >> shift))
    }

    #[inline(always)]
    fn constant(self) -> Self {
        Self(self.0.map(|value| value << CONSTANT_BITS))
    }
}

impl Add for Lanes {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(from_fn(|lane| self.0[lane].wrapping_add(other.0[lane])))
    }
}

impl Sub for Lanes {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(from_fn(|lane| self.0[lane].wrapping_sub(other.0[lane])))
    }
}

impl Mul<f64> for Lanes {
    type Output = Self;

    #[inline(always)]
    fn mul(self, factor: f64) -> Self {
        let factor = (factor * (1 << CONSTANT_BITS) as f64).round_ties_even() as i32;
        Self(self.0.map(|value| value.wrapping_mul(factor)))
    }
}

#[inline(always)]
fn transposed(rows: [Lanes; 8]) -> [Lanes; 8] {
    from_fn(|column| Lanes(from_fn(|row| rows[row].0[column])))
}

#[inline(always)]
fn points(x: [Lanes; 8], num_points: usize) -> [Lanes; 8] {
    match num_points {
        8 => eight_points(x),
        4 => four_points(x),
        2 => {
            let [mean, slope] = [x[0].constant(), x[1].constant()];
            let mut out = x;
            (out[0], out[1]) = (mean + slope, mean - slope);
            out
        }
        _ => {
            let mut out = x;
            out[0] = x[0].constant();
            out
        }
    }
}

#[inline(always)]
fn eight_points(x: [Lanes; 8]) -> [Lanes; 8] {
    let turned = (x[2] + x[6]) * 0.541_196_100;
    let [low, high] = [turned + x[2] * 0.765_366_865, turned - x[6] * 1.847_759_065];
    let [sum, difference] = [(x[0] + x[4]).constant(), (x[0] - x[4]).constant()];
    let even = [sum + low, difference + high, difference - high, sum - low];

    let common = (x[1] + x[3] + x[5] + x[7]) * 1.175_875_602;
    let outer = (x[1] + x[7]) * 0.899_976_223;
    let inner = (x[3] + x[5]) * 2.562_915_447;
    let far = common - (x[3] + x[7]) * 1.961_570_560;
    let near = common - (x[1] + x[5]) * 0.390_180_644;
    let odd = [
        x[1] * 1.501_321_110 - outer + near,
        x[3] * 3.072_711_026 - inner + far,
        x[5] * 2.053_119_869 - inner + near,
        x[7] * 0.298_631_336 - outer + far,
    ];
    from_fn(|point| if point < 4 { even[point] + odd[point] } else { even[7 - point] - odd[7 - point] })
}

#[inline(always)]
fn four_points(x: [Lanes; 8]) -> [Lanes; 8] {
    let even = [(x[0] + x[2]).constant(), (x[0] - x[2]).constant()];
    let odd = [x[1] * 1.306_562_965 + x[3] * 0.541_196_100, x[1] * 0.541_196_100 - x[3] * 1.306_562_965];
    let mut out = x;
    (out[0], out[1], out[2], out[3]) = (even[0] + odd[0], even[1] + odd[1], even[1] - odd[1], even[0] - odd[0]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    /// The definition, from as many frequencies as there are points.
    fn defined(block: &Block, [num_columns, num_rows]: [usize; 2]) -> Vec<f64> {
        let basis = |frequency: usize, point: usize, num_points: usize| {
            let angle = (2 * point + 1) as f64 * frequency as f64 * PI / (2 * num_points) as f64;
            if frequency == 0 { 0.5f64.sqrt() / 2.0 } else { angle.cos() / 2.0 }
        };
        let pixel = |row: usize, column: usize| {
            let terms = (0..num_columns.max(num_rows).pow(2)).map(|index| {
                let [u, v] = [index % num_columns.max(num_rows), index / num_columns.max(num_rows)];
                if u >= num_columns || v >= num_rows {
                    return 0.0;
                }
                f64::from(block[u * 8 + v]) * basis(u, column, num_columns) * basis(v, row, num_rows)
            });
            (128.0 + terms.sum::<f64>()).clamp(0.0, 255.0)
        };
        (0..num_rows * num_columns).map(|index| pixel(index / num_columns, index % num_columns)).collect()
    }

    #[test]
    fn every_size_is_what_the_definition_says() {
        // Rounding between the passes and at the end.
        const TOLERANCE: f64 = 0.75;
        let mut state = 5u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as i32 % 160 - 80
        };
        for size in [[8, 8], [4, 4], [2, 2], [1, 1], [8, 4], [4, 8], [4, 2], [2, 4], [2, 1], [1, 2]] {
            for _ in 0..20 {
                let block: Block = from_fn(|_| next());
                let mut plane = vec![7; 8 * 11];
                inverse(&block, size, &mut plane, 11);
                for (index, wanted) in defined(&block, size).into_iter().enumerate() {
                    let (row, column) = (index / size[0], index % size[0]);
                    let found = f64::from(plane[row * 11 + column]);
                    assert!((found - wanted).abs() <= TOLERANCE, "{size:?} at {row}, {column}: {found}, not {wanted}");
                }
                assert_eq!(plane[size[0]], 7, "{size:?} wrote beyond its block");
            }
        }
    }

    #[test]
    fn a_flat_block_is_flat() {
        let mut block = [0; 64];
        block[0] = -345;
        let (mut whole, mut short) = ([0; 64], [0; 64]);
        inverse(&block, [8, 8], &mut whole, 8);
        flat(block[0], [8, 8], &mut short, 8);
        assert_eq!(whole, short);
    }

    #[test]
    fn the_zigzag_begins_and_ends_as_in_the_standard() {
        // T.81, figure 5, with column before row.
        assert_eq!(ZIGZAG[..10], [0, 8, 1, 2, 9, 16, 24, 17, 10, 3]);
        assert_eq!(ZIGZAG[60..], [61, 62, 55, 63]);
    }
}
