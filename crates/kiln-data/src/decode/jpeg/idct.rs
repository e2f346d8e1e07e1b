//! The inverse DCT of one block, at full or reduced size.
//!
//! In: dequantised coefficients. Out: bytes, 8, 4, 2 or 1 in each direction. Fewer than eight are made of as many of the
//! lowest frequencies: the picture filtered and decimated in one step, which is what makes decoding at a scale cheap.
//! Source: Loeffler, Ligtenberg and Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications", ICASSP 1989, for
//! eight points; the definition, ITU-T T.81 A.3.3, for the others.

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
    let mut lines: Lines = [[0; 8]; 8];
    lines.as_flattened_mut().copy_from_slice(block);
    let along = pass(&lines, num_columns, CONSTANT_BITS - BETWEEN_BITS);
    for (row, line) in lines.iter_mut().enumerate() {
        for (column, value) in line.iter_mut().enumerate() {
            *value = along[column][row];
        }
    }
    // Each pass has grown values by the root of eight.
    let rows = pass(&lines, num_rows, CONSTANT_BITS + BETWEEN_BITS + 3);
    for (row, line) in rows.iter().enumerate().take(num_rows) {
        let mut bytes = [0; 8];
        for (byte, value) in bytes.iter_mut().zip(line) {
            *byte = value.wrapping_add(128).clamp(0, 255) as u8;
        }
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

/// Eight lines of eight values; what stands in a column is transformed together.
type Lines = [[i32; 8]; 8];

/// Transforms all columns of `lines` and rounds `shift` binary places away.
///
/// A loop whose body is one transform is made vector instructions of; eight transforms written out aren't.
#[inline(always)]
fn pass(lines: &Lines, num_points: usize, shift: u32) -> Lines {
    let mut out = [[0; 8]; 8];
    for lane in 0..8 {
        let mut x = [0; 8];
        for (value, line) in x.iter_mut().zip(lines) {
            *value = line[lane];
        }
        let points = match num_points {
            8 => eight_points(x),
            4 => four_points(x),
            2 => two_points(x),
            _ => [x[0] << CONSTANT_BITS, 0, 0, 0, 0, 0, 0, 0],
        };
        for (line, point) in out.iter_mut().zip(points) {
            line[lane] = point.wrapping_add(1 << (shift - 1)) >> shift;
        }
    }
    out
}

/// Damaged files may overflow; such blocks are noise.
#[inline(always)]
fn sum<const N: usize>(terms: [i32; N]) -> i32 {
    terms.into_iter().fold(0, i32::wrapping_add)
}

#[inline(always)]
fn times(value: i32, factor: f64) -> i32 {
    value.wrapping_mul((factor * (1 << CONSTANT_BITS) as f64).round_ties_even() as i32)
}

#[inline(always)]
fn eight_points(x: [i32; 8]) -> [i32; 8] {
    let turned = times(sum([x[2], x[6]]), 0.541_196_100);
    let [low, high] = [sum([turned, times(x[2], 0.765_366_865)]), sum([turned, times(x[6], -1.847_759_065)])];
    let [even, odd] = [sum([x[0], x[4]]) << CONSTANT_BITS, x[0].wrapping_sub(x[4]) << CONSTANT_BITS];
    let evens = [sum([even, low]), sum([odd, high]), odd.wrapping_sub(high), even.wrapping_sub(low)];

    let common = times(sum([x[1], x[3], x[5], x[7]]), 1.175_875_602);
    let outer = times(sum([x[1], x[7]]), -0.899_976_223);
    let inner = times(sum([x[3], x[5]]), -2.562_915_447);
    let far = sum([common, times(sum([x[3], x[7]]), -1.961_570_560)]);
    let near = sum([common, times(sum([x[1], x[5]]), -0.390_180_644)]);
    let odds = [
        sum([times(x[1], 1.501_321_110), outer, near]),
        sum([times(x[3], 3.072_711_026), inner, far]),
        sum([times(x[5], 2.053_119_869), inner, near]),
        sum([times(x[7], 0.298_631_336), outer, far]),
    ];
    let above = |point: usize| evens[point].wrapping_add(odds[point]);
    let below = |point: usize| evens[point].wrapping_sub(odds[point]);
    [above(0), above(1), above(2), above(3), below(3), below(2), below(1), below(0)]
}

#[inline(always)]
fn four_points(x: [i32; 8]) -> [i32; 8] {
    let evens = [sum([x[0], x[2]]) << CONSTANT_BITS, x[0].wrapping_sub(x[2]) << CONSTANT_BITS];
    let odds = [
        sum([times(x[1], 1.306_562_965), times(x[3], 0.541_196_100)]),
        sum([times(x[1], 0.541_196_100), times(x[3], -1.306_562_965)]),
    ];
    let above = |point: usize| evens[point].wrapping_add(odds[point]);
    let below = |point: usize| evens[point].wrapping_sub(odds[point]);
    [above(0), above(1), below(1), below(0), 0, 0, 0, 0]
}

#[inline(always)]
fn two_points(x: [i32; 8]) -> [i32; 8] {
    let [sum, difference] = [x[0].wrapping_add(x[1]), x[0].wrapping_sub(x[1])];
    [sum << CONSTANT_BITS, difference << CONSTANT_BITS, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::array::from_fn;
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
