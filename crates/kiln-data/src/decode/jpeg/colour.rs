//! Planes of luma and chroma to RGB, a row at a time.
//!
//! In: [`Plane`]s. Out: RGB8. Chroma at half the resolution is interpolated linearly, each sample weighed 3 to 1 with its
//! neighbour, as libjpeg does; no sample beyond the picture has a part in it.
//! Source: JFIF 1.02 for the colours (ITU-R BT.601 over the whole range of bytes).

use std::ops::Range;

use multiversion::multiversion;

use super::scan::Plane;

/// The part of the planes that becomes the picture.
pub(super) struct Cut {
    /// Columns of luma, in samples of the plane.
    pub(super) columns: Range<usize>,
    /// Rows of luma.
    pub(super) rows: Range<usize>,
    /// How many samples of luma share one of chroma, across and down: 1 or 2.
    pub(super) sharing: [usize; 2],
    /// First and last column, then row, of chroma that lie in the picture, in samples of the plane.
    pub(super) inside: [[usize; 2]; 2],
}

/// RGB8 of the part `cut`, rows tightly packed.
pub(super) fn rgb(planes: &[Plane], cut: &Cut) -> Vec<u8> {
    let width = cut.columns.len();
    let mut pixels = vec![0; width * cut.rows.len() * 3];
    let mut chroma = [(); 2].map(|()| ChromaRow::new(cut));
    for (row, line) in cut.rows.clone().zip(pixels.chunks_exact_mut(width * 3)) {
        let luma = &planes[0].samples[row * planes[0].stride..][cut.columns.clone()];
        match planes {
            [_, blue, red] => {
                chroma[0].fill(blue, row, cut);
                chroma[1].fill(red, row, cut);
                rgb_from_ycbcr(luma, chroma[0].values(cut), chroma[1].values(cut), line);
            }
            _ => rgb_from_grey(luma, line),
        }
    }
    pixels
}

/// One row of chroma at the resolution of luma.
struct ChromaRow {
    /// Columns of chroma that are needed.
    columns: Range<usize>,
    /// Their sums with the row below or above, 4 to a unit, and one more at either end.
    sums: Vec<u16>,
    values: Vec<u8>,
}

impl ChromaRow {
    fn new(cut: &Cut) -> Self {
        let sharing = cut.sharing[0];
        let columns = cut.columns.start / sharing..cut.columns.end.div_ceil(sharing);
        let num_columns = columns.len();
        Self { columns, sums: vec![0; num_columns + 2], values: vec![0; num_columns * sharing] }
    }

    fn fill(&mut self, plane: &Plane, row: usize, cut: &Cut) {
        let [first, last] = cut.inside[1];
        let near = row / cut.sharing[1];
        let far = match (cut.sharing[1], row % 2) {
            (1, _) => near,
            (_, 0) => near.saturating_sub(1),
            _ => near + 1,
        };
        let line = |row: usize| &plane.samples[row.clamp(first, last) * plane.stride..][..plane.stride];
        let (near, far) = (line(near), line(far));
        let of = |column: usize| 3 * u16::from(near[column]) + u16::from(far[column]);
        let [first, last] = cut.inside[0];
        let columns = &self.columns;
        let num_columns = columns.len();
        self.sums[0] = of(columns.start.saturating_sub(1).clamp(first, last));
        self.sums[num_columns + 1] = of(columns.end.clamp(first, last));
        vertical(&near[columns.clone()], &far[columns.clone()], &mut self.sums[1..=num_columns]);
        match cut.sharing[0] {
            1 => same_width(&self.sums[1..=num_columns], &mut self.values),
            _ => twice_the_width(&self.sums, &mut self.values),
        }
    }

    /// The columns that belong to those of luma.
    fn values(&self, cut: &Cut) -> &[u8] {
        &self.values[cut.columns.start - self.columns.start * cut.sharing[0]..][..cut.columns.len()]
    }
}

#[multiversion(targets = "simd")]
fn vertical(near: &[u8], far: &[u8], sums: &mut [u16]) {
    for ((sum, near), far) in sums.iter_mut().zip(near).zip(far) {
        *sum = 3 * u16::from(*near) + u16::from(*far);
    }
}

#[multiversion(targets = "simd")]
fn same_width(sums: &[u16], values: &mut [u8]) {
    for (value, sum) in values.iter_mut().zip(sums) {
        *value = ((sum + 2) >> 2) as u8;
    }
}

/// `sums` have one more at either end. Rounds half of the values up and half down, as a checkerboard would.
#[multiversion(targets = "simd")]
fn twice_the_width(sums: &[u16], values: &mut [u8]) {
    let (before, here, after) = (sums, &sums[1..], &sums[2..]);
    let values = values.as_chunks_mut::<2>().0;
    for (((pair, before), here), after) in values.iter_mut().zip(before).zip(here).zip(after) {
        *pair = [((3 * here + before + 8) >> 4) as u8, ((3 * here + after + 7) >> 4) as u8];
    }
}

#[multiversion(targets = "simd")]
fn rgb_from_grey(luma: &[u8], line: &mut [u8]) {
    for (pixel, &luma) in line.as_chunks_mut::<3>().0.iter_mut().zip(luma) {
        *pixel = [luma; 3];
    }
}

#[multiversion(targets = "simd")]
fn rgb_from_ycbcr(luma: &[u8], blue: &[u8], red: &[u8], line: &mut [u8]) {
    for (((pixel, luma), blue), red) in line.as_chunks_mut::<3>().0.iter_mut().zip(luma).zip(blue).zip(red) {
        *pixel = rgb_pixel(*luma, *blue, *red);
    }
}

// A closure inside the function above would be compiled for its processor and no longer be inlined.
#[inline(always)]
fn rgb_pixel(luma: u8, blue: u8, red: u8) -> [u8; 3] {
    /// Binary places of the factors.
    const BITS: u32 = 16;
    const fn factor(value: f64) -> i32 {
        (value * (1 << BITS) as f64 + 0.5) as i32
    }
    #[inline(always)]
    fn byte(value: i32) -> u8 {
        (value >> BITS).clamp(0, 255) as u8
    }
    const RED: i32 = factor(1.402);
    const GREEN_OF_RED: i32 = factor(0.714_136_286);
    const GREEN_OF_BLUE: i32 = factor(0.344_136_286);
    const BLUE: i32 = factor(1.772);
    let luma = (i32::from(luma) << BITS) + (1 << (BITS - 1));
    let [blue, red] = [i32::from(blue) - 128, i32::from(red) - 128];
    let green = luma - GREEN_OF_RED * red - GREEN_OF_BLUE * blue;
    [byte(luma + RED * red), byte(green), byte(luma + BLUE * blue)]
}
