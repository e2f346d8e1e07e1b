//! Resampling: makes output pixels from source bytes, by a triangle filter on either axis.
//!
//! In: RGB8, rows tightly packed, and an [`ImageRecord`]. Out: red, green and blue, f32, 0–255, not rounded.
//! Source: PyTorch 2.14 `aten/src/ATen/native/cpu/UpSampleKernel.cpp`, `upsample_bilinear2d_aa`, which is torchvision's
//! antialiased resize: a source pixel weighs `max(0, 1 - |distance| / support)`, weights are divided by their sum, and
//! taps end at the border of what is resized. Without antialiasing `support` is 1.
//! Differs from PyTorch: positions are exact to 2⁻²⁴ of a pixel whatever the size of the image; torch's f32 is off by
//! up to 3e-5 at 500 pixels.
//!
//! The kernel filters each row of taps horizontally, then the results vertically. The scalar twin goes the other way
//! round, with the same weights: a row of bytes is contiguous, and that order is what a CPU's vectors want. The two
//! differ by the rounding of f32 sums, 1e-6 after normalising.
//! Not done here: normalising and layout (`run.rs`).

use crate::augment::geometry::AxisRecord;
use crate::augment::program::ImageRecord;

/// 2⁻²⁴: fractions of a pixel are taken to 24 bits, all that an f32 holds, so that the conversion is exact everywhere.
const FRACTION_UNIT: f32 = 1.0 / 16_777_216.0;

/// The taps of one output pixel along one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taps {
    /// First source pixel.
    first: i32,
    /// The one after the last.
    end: i32,
    /// From the output pixel's centre to that of the first source pixel, in source pixels.
    distance: f32,
}

impl AxisRecord {
    /// The source pixels within reach of output pixel `index`: none that weighs nothing, none beyond `taps`.
    fn taps(&self, index: u32) -> Taps {
        let position = self.step.wrapping_mul(i64::from(index)).wrapping_add(self.origin);
        let whole = (position >> 32) as i32;
        let fraction = ((position as u32) >> 8) as f32 * FRACTION_UNIT;
        let first = whole + (fraction - self.support - 0.5).floor() as i32 + 1;
        let end = whole + (fraction + self.support - 0.5).ceil() as i32;
        let [first_tap, end_tap] = self.taps.map(|tap| tap as i32);
        let (first, end) = (first.clamp(first_tap, end_tap), end.clamp(first_tap, end_tap));
        Taps { first, end, distance: (first - whole) as f32 + (0.5 - fraction) }
    }
}

/// What each output pixel of one axis is made of, weights divided by their sum.
struct Weights {
    /// First output pixel that shows the source: `spans[0]` is about it.
    first_index: usize,
    /// Per output pixel: its first source pixel, and where in `weights` its weights begin and end.
    spans: Vec<(usize, usize, usize)>,
    weights: Vec<f32>,
}

impl Weights {
    fn new(axis: &AxisRecord) -> Self {
        let mut table = Self { first_index: axis.window[0] as usize, spans: Vec::new(), weights: Vec::new() };
        for index in axis.window[0]..axis.window[1] {
            let Taps { first, end, distance } = axis.taps(index);
            let begin = table.weights.len();
            let weight = |tap: i32| (1.0 - (distance + tap as f32).abs() / axis.support).max(0.0);
            table.weights.extend((0..end - first).map(weight));
            let total: f32 = table.weights[begin..].iter().sum();
            table.weights[begin..].iter_mut().for_each(|weight| *weight /= total.max(f32::MIN_POSITIVE));
            table.spans.push((first as usize, begin, table.weights.len()));
        }
        table
    }

    /// Output pixels that show the source.
    fn window(&self) -> std::ops::Range<usize> {
        self.first_index..self.first_index + self.spans.len()
    }

    /// The first source pixel and the weights of output pixel `index`, which must lie in the window.
    fn at(&self, index: usize) -> (usize, &[f32]) {
        let (first, begin, end) = self.spans[index - self.first_index];
        (first, &self.weights[begin..end])
    }

    /// All source pixels that any output pixel reads.
    fn source(&self) -> std::ops::Range<usize> {
        let first = self.spans.iter().map(|span| span.0).min().unwrap_or(0);
        let end = self.spans.iter().map(|(first, begin, end)| first + (end - begin)).max().unwrap_or(0);
        first..end
    }
}

/// The scalar twin: one image of a batch, ready to be resampled row by row.
pub(crate) struct Resampler<'a> {
    /// RGB8 of the image, rows tightly packed.
    pixels: &'a [u8],
    row_bytes: usize,
    rows: Weights,
    columns: Weights,
    /// Source columns that the output reads.
    source: std::ops::Range<usize>,
    /// One row of the source, filtered vertically: f32 `[source, 3]`, and one value more so that the last pixel
    /// can be read as four.
    sums: Vec<f32>,
}

impl<'a> Resampler<'a> {
    /// Prepares `record` of a batch whose bytes are `batch`.
    pub(crate) fn new(batch: &'a [u8], record: &ImageRecord) -> Self {
        let columns = Weights::new(&record.columns);
        let source = columns.source();
        Self {
            pixels: &batch[record.first_word as usize * 4..],
            row_bytes: record.width as usize * 3,
            rows: Weights::new(&record.rows),
            sums: vec![0.0; source.len() * 3 + 1],
            columns,
            source,
        }
    }

    /// Output rows that show the source; the others are fill.
    pub(crate) fn rows(&self) -> std::ops::Range<usize> {
        self.rows.window()
    }

    /// Output columns that show the source; the others are fill.
    pub(crate) fn columns(&self) -> std::ops::Range<usize> {
        self.columns.window()
    }

    /// Makes the pixels of output row `row`, one of [`Self::rows`], into `output`, one of [`Self::columns`] each:
    /// red, green, blue, and a fourth value that means nothing.
    pub(crate) fn row(&mut self, row: usize, output: &mut [[f32; 4]]) {
        let (first, weights) = self.rows.at(row);
        let bytes = self.source.start * 3..self.source.end * 3;
        let source = |y: usize| &self.pixels[y * self.row_bytes..][bytes.clone()];
        let num_sums = bytes.len();
        sum_rows(&mut self.sums[..num_sums], weights, first, source);
        for (pixel, column) in output.iter_mut().zip(self.columns.window()) {
            let (first, weights) = self.columns.at(column);
            let taps = &self.sums[(first - self.source.start) * 3..];
            let mut sum = [0.0; 4];
            for (tap, weight) in weights.iter().enumerate() {
                let Some(value) = taps[tap * 3..].first_chunk::<4>() else { break };
                sum = std::array::from_fn(|lane| sum[lane] + weight * value[lane]);
            }
            *pixel = sum;
        }
    }
}

/// `sums[i] = Σ weights[k] * source(first + k)[i]`, two rows at a time, in order.
fn sum_rows<'a>(sums: &mut [f32], weights: &[f32], first: usize, source: impl Fn(usize) -> &'a [u8]) {
    let mut rows = first..;
    let mut next = || source(rows.next().unwrap_or_default());
    match weights {
        [] => sums.fill(0.0),
        [a, ..] => sums.iter_mut().zip(next()).for_each(|(sum, byte)| *sum = a * f32::from(*byte)),
    }
    let (pairs, rest) = weights.get(1..).unwrap_or_default().as_chunks::<2>();
    for [a, b] in pairs {
        for ((sum, x), y) in sums.iter_mut().zip(next()).zip(next()) {
            *sum = *sum + a * f32::from(*x) + b * f32::from(*y);
        }
    }
    for a in rest {
        sums.iter_mut().zip(next()).for_each(|(sum, byte)| *sum += a * f32::from(*byte));
    }
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device: one thread makes [`ROWS_PER_THREAD`] output pixels, one below the other.
    //!
    //! Their taps overlap, so that a row of taps is read and filtered once for all of them, and what is about the column
    //! or the image is worked out once. Against one pixel a thread that took 0.6 of the time on llvmpipe. Tried there
    //! and not worth it: four neighbouring pixels as three words (as fast), the last word kept in a register (as fast),
    //! no bounds checks (5 % faster).

    use cubecl::prelude::*;

    use super::FRACTION_UNIT;
    use crate::augment::program::{COLUMNS, ROWS};

    /// Output pixels of a thread, the lanes of a vector.
    pub(crate) const ROWS_PER_THREAD: usize = 4;

    /// One value for each row of a thread.
    pub(crate) type Lanes = Vector<f32, Const<ROWS_PER_THREAD>>;

    /// Red, green and blue of the pixels of a thread, 0–255.
    #[derive(CubeType, Clone, Copy)]
    pub(crate) struct Rgb {
        pub(crate) red: Lanes,
        pub(crate) green: Lanes,
        pub(crate) blue: Lanes,
    }

    /// [`super::AxisRecord`]; 64-bit integers in halves, because WGSL has 32.
    #[derive(CubeType, Clone, Copy)]
    struct Axis {
        origin_low: u32,
        origin_high: u32,
        step_low: u32,
        step_high: u32,
        first_tap: i32,
        end_tap: i32,
        first_shown: u32,
        end_shown: u32,
        support: f32,
    }

    /// The source pixels that an output pixel is made of, and its centre, at `whole + 0.5 - offset`.
    #[derive(CubeType, Clone, Copy)]
    struct Taps {
        first: i32,
        end: i32,
        whole: i32,
        offset: f32,
    }

    /// Makes the output pixels of `column` from `row` on, black where the program doesn't show the source.
    ///
    /// `records` is u32 `[B, RECORD_WORDS]`, `record` the word at which the image's begins.
    #[cube]
    pub(crate) fn resample(pixels: &[u32], records: &[u32], record: usize, row: u32, column: u32) -> Rgb {
        let first_word = records[record];
        let width = records[record + 1];
        let rows = read_axis(records, record + ROWS);
        let columns = read_axis(records, record + COLUMNS);

        let mut red = Lanes::new(0.0);
        let mut green = Lanes::new(0.0);
        let mut blue = Lanes::new(0.0);
        let shows_rows = row + comptime!(ROWS_PER_THREAD as u32) > rows.first_shown && row < rows.end_shown;
        let shows_column = column >= columns.first_shown && column < columns.end_shown;
        if shows_rows && shows_column {
            // Taps: the source rows of all output rows together. Output row `lane` is `y - base + offsets[lane]` from
            // source row `y`. An output row that isn't shown looks where the nearest shown one does, and is hidden.
            let start = taps(&rows, clamp(row, rows.first_shown, rows.end_shown - 1));
            let base = start.whole;
            let mut first = start.first;
            let mut end = start.end;
            let mut offsets = Lanes::new(start.offset);
            let mut shown = Lanes::new(0.0);
            #[unroll]
            for lane in 0..ROWS_PER_THREAD {
                let line = row + lane as u32;
                let other = taps(&rows, clamp(line, rows.first_shown, rows.end_shown - 1));
                first = min(first, other.first);
                end = max(end, other.end);
                offsets.insert(lane, f32::cast_from(base - other.whole) + other.offset);
                shown.insert(lane, select(line >= rows.first_shown && line < rows.end_shown, 1.0f32, 0.0f32));
            }

            let column = taps(&columns, column);
            let row_slope = Lanes::new(1.0 / rows.support);
            let column_slope = 1.0 / columns.support;
            let mut row_totals = Lanes::new(0.0);
            let mut column_total = 0.0f32;
            for x in column.first..column.end {
                column_total += weight(f32::cast_from(x - column.whole) + column.offset, column_slope);
            }

            // Each source row is filtered horizontally once and counts, by its distance, in every output row.
            for y in first..end {
                let line = u32::cast_from(y) * width;
                let mut line_red = 0.0f32;
                let mut line_green = 0.0f32;
                let mut line_blue = 0.0f32;
                for x in column.first..column.end {
                    let weight = weight(f32::cast_from(x - column.whole) + column.offset, column_slope);
                    let rgb = rgb_bytes(pixels, first_word, line + u32::cast_from(x));
                    line_red += weight * f32::cast_from(rgb & 0xFF);
                    line_green += weight * f32::cast_from((rgb >> 8) & 0xFF);
                    line_blue += weight * f32::cast_from((rgb >> 16) & 0xFF);
                }
                let distances = offsets + Lanes::new(f32::cast_from(y - base));
                let weights = max(Lanes::new(1.0) - distances.abs() * row_slope, Lanes::new(0.0));
                row_totals += weights;
                red += weights * Lanes::new(line_red);
                green += weights * Lanes::new(line_green);
                blue += weights * Lanes::new(line_blue);
            }
            let norm = shown / max(row_totals * Lanes::new(column_total), Lanes::new(f32::MIN_POSITIVE));
            red *= norm;
            green *= norm;
            blue *= norm;
        }
        Rgb { red, green, blue }
    }

    #[cube]
    fn read_axis(records: &[u32], axis: usize) -> Axis {
        Axis {
            origin_low: records[axis],
            origin_high: records[axis + 1],
            step_low: records[axis + 2],
            step_high: records[axis + 3],
            first_tap: i32::reinterpret(records[axis + 4]),
            end_tap: i32::reinterpret(records[axis + 5]),
            first_shown: records[axis + 6],
            end_shown: records[axis + 7],
            support: f32::reinterpret(records[axis + 8]),
        }
    }

    /// [`super::AxisRecord::taps`].
    #[cube]
    fn taps(axis: &Axis, index: u32) -> Taps {
        // position = step * index + origin, for an index of 16 bits.
        let low_half = (axis.step_low & 0xFFFF) * index;
        let high_half = (axis.step_low >> 16) * index + (low_half >> 16);
        let product_low = (high_half << 16) | (low_half & 0xFFFF);
        let position_low = product_low + axis.origin_low;
        let carry = select(position_low < product_low, 1u32, 0u32);
        let position_high = axis.step_high * index + (high_half >> 16) + axis.origin_high + carry;

        let whole = i32::reinterpret(position_high);
        let fraction = f32::cast_from(position_low >> 8) * FRACTION_UNIT;
        let first = whole + i32::cast_from((fraction - axis.support - 0.5).floor()) + 1;
        let end = whole + i32::cast_from((fraction + axis.support - 0.5).ceil());
        Taps { first: max(first, axis.first_tap), end: min(end, axis.end_tap), whole, offset: 0.5 - fraction }
    }

    /// The weight of a source pixel at `distance`, not yet divided by the sum of all.
    #[cube]
    fn weight(distance: f32, slope: f32) -> f32 {
        max(1.0 - distance.abs() * slope, 0.0)
    }

    /// The three bytes of pixel `pixel` of an image, red lowest; the highest byte is another pixel's.
    #[cube]
    fn rgb_bytes(pixels: &[u32], first_word: u32, pixel: u32) -> u32 {
        let byte = pixel * 3;
        let word = (first_word + byte / 4) as usize;
        let shift = (byte % 4) * 8;
        let mut bytes = pixels[word] >> shift;
        // The last one or two bytes are the next word's first.
        if shift > 8 {
            bytes |= pixels[word + 1] << (32 - shift);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::geometry::Filter;
    use crate::augment::program::Program;

    fn axis(source: u32, output: u32, filter: Filter) -> AxisRecord {
        let mut program = Program::new(source, 1);
        program.geometry.resize([1, output], filter);
        program.geometry.columns.record(filter)
    }

    #[test]
    fn halving_weighs_four_pixels_fewer_at_the_border() {
        let weights = Weights::new(&axis(8, 4, Filter::BilinearAntialiased));
        assert_eq!(weights.at(1), (1, &[0.125, 0.375, 0.375, 0.125][..]));
        let (first, at_border) = weights.at(0);
        let error =
            at_border.iter().zip([3.0, 3.0, 1.0]).map(|(found, want)| (found - want / 7.0).abs()).fold(0.0, f32::max);
        assert!(first == 0 && at_border.len() == 3 && error < 1e-7, "{at_border:?}");
    }

    #[test]
    fn without_antialiasing_two_pixels_count() {
        let weights = Weights::new(&axis(8, 2, Filter::Bilinear));
        assert_eq!([weights.at(0), weights.at(1)], [(1, &[0.5, 0.5][..]), (5, &[0.5, 0.5][..])]);
    }

    #[test]
    fn doubling_interpolates_and_repeats_the_border() {
        let weights = Weights::new(&axis(2, 4, Filter::BilinearAntialiased));
        let found = [0, 1, 2, 3].map(|index| weights.at(index));
        assert_eq!(found, [(0, &[1.0][..]), (0, &[0.75, 0.25]), (0, &[0.25, 0.75]), (1, &[1.0])]);
    }

    #[test]
    fn an_unchanged_size_reads_one_pixel_each() {
        let weights = Weights::new(&axis(3, 3, Filter::BilinearAntialiased));
        assert_eq!([0, 1, 2].map(|index| weights.at(index)), [(0, &[1.0][..]), (1, &[1.0]), (2, &[1.0])]);
    }
}
