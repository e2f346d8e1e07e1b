//! Resampling: makes output pixels from source bytes, by a triangle filter on either axis.
//!
//! In: RGB8, rows tightly packed, and an [`ImageRecord`]. Out: red, green and blue, f32, 0–255, not yet rounded or normalised.
//! Source: PyTorch 2.14 `aten/src/ATen/native/cpu/UpSampleKernel.cpp`, `upsample_bilinear2d_aa` (what torchvision's
//! antialiased resize is): a source pixel weighs `max(0, 1 - |distance| / support)`, weights are divided by their sum, and
//! taps end at the border of what is resized. Without antialiasing `support` is 1.
//! Differs from PyTorch: positions are exact to 2⁻²⁴ of a pixel, whatever the size of the image; torch's f32
//! positions are off by up to 3e-5 at 500 pixels.
//!
//! The kernel sums a rectangle of taps per output pixel; the scalar twin filters first columns, then rows, with the same
//! weights, and is several times faster so on a CPU. The results differ by the rounding of f32 sums, about 1e-6 of the range.
//! Not done here: normalising, layout and fill (`run.rs`).

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
        let (first, end) = (first.max(self.taps[0] as i32), end.min(self.taps[1] as i32));
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
            table.spans.push((first.max(0) as usize, begin, table.weights.len()));
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
        let end = self.spans.iter().map(|span| span.0 + span.2 - span.1).max().unwrap_or(0);
        first..end.max(first)
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
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            #[expect(unsafe_code, reason = "code for AVX2 runs only where there is AVX2")]
            // SAFETY: the processor has AVX2, as the line above found; the function asks for nothing else.
            return unsafe { self.row_avx2(row, output) };
        }
        self.row_portable(row, output);
    }

    /// The same code for wider registers, 1.7 times as fast; the compiler contracts nothing, so the bits are the same.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn row_avx2(&mut self, row: usize, output: &mut [[f32; 4]]) {
        self.row_portable(row, output);
    }

    #[inline(always)]
    fn row_portable(&mut self, row: usize, output: &mut [[f32; 4]]) {
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
#[inline(always)]
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
    //! The same on a device: one thread sums the rectangle of taps of one output pixel.

    use cubecl::prelude::*;

    use super::FRACTION_UNIT;
    use crate::augment::program::{COLUMNS, ROWS};

    /// [`super::Taps`], and how fast a weight falls off.
    #[derive(CubeType, Clone, Copy)]
    pub(crate) struct Taps {
        pub(crate) first: i32,
        pub(crate) end: i32,
        pub(crate) distance: f32,
        pub(crate) slope: f32,
    }

    /// Red, green and blue of one pixel, 0–255.
    #[derive(CubeType, Clone, Copy)]
    pub(crate) struct Rgb {
        pub(crate) red: f32,
        pub(crate) green: f32,
        pub(crate) blue: f32,
    }

    /// [`super::AxisRecord::taps`]; `axis` is the word of `records` at which the axis begins.
    #[cube]
    pub(crate) fn taps(records: &[u32], axis: usize, index: u32) -> Taps {
        // position = step * index + origin in 64 bits, for index < 65,536; WGSL has 32.
        let step_low = records[axis + 2];
        let low_half = (step_low & 0xFFFF) * index;
        let high_half = (step_low >> 16) * index + (low_half >> 16);
        let product_low = (high_half << 16) | (low_half & 0xFFFF);
        let position_low = product_low + records[axis];
        let carry = select(position_low < product_low, 1u32, 0u32);
        let position_high = records[axis + 3] * index + (high_half >> 16) + records[axis + 1] + carry;

        let whole = i32::reinterpret(position_high);
        let fraction = f32::cast_from(position_low >> 8) * FRACTION_UNIT;
        let support = f32::reinterpret(records[axis + 8]);
        let first = whole + i32::cast_from((fraction - support - 0.5).floor()) + 1;
        let end = whole + i32::cast_from((fraction + support - 0.5).ceil());
        let first = max(first, i32::reinterpret(records[axis + 4]));
        let end = min(end, i32::reinterpret(records[axis + 5]));
        Taps { first, end, distance: f32::cast_from(first - whole) + (0.5 - fraction), slope: 1.0 / support }
    }

    /// The weight of source pixel `tap`, not yet divided by the sum of all.
    #[cube]
    fn weight(taps: &Taps, tap: i32) -> f32 {
        let distance = taps.distance + f32::cast_from(tap - taps.first);
        max(1.0 - distance.abs() * taps.slope, 0.0)
    }

    /// Three bytes from byte `3 * pixel` after `first_word`, in the low bits.
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

    /// Says whether output pixel `row`, `column` shows the source; `record` is the word at which the record begins.
    #[cube]
    pub(crate) fn shows_source(records: &[u32], record: usize, row: u32, column: u32) -> bool {
        let (rows, columns) = (record + ROWS, record + COLUMNS);
        row >= records[rows + 6] && row < records[rows + 7] && column >= records[columns + 6] && column < records[columns + 7]
    }

    /// Makes output pixel `row`, `column`, which must show the source.
    #[cube]
    pub(crate) fn resample(pixels: &[u32], records: &[u32], record: usize, row: u32, column: u32, #[comptime] variant: u32) -> Rgb {
        let first_word = records[record];
        let width = records[record + 1];
        let rows = taps(records, record + ROWS, row);
        let columns = taps(records, record + COLUMNS, column);

        let mut row_total = f32::new(0.0);
        let mut column_total = f32::new(0.0);
        let mut red = f32::new(0.0);
        let mut green = f32::new(0.0);
        let mut blue = f32::new(0.0);
        for x in columns.first..columns.end {
            column_total += weight(&columns, x);
        }
        if variant == 2 {
        for y in rows.first..rows.end {
            let row_weight = weight(&rows, y);
            row_total += row_weight;
            let byte = (u32::cast_from(y) * width + u32::cast_from(columns.first)) * 3;
            let mut word = (first_word + byte / 4) as usize;
            let mut shift = (byte % 4) * 8;
            let mut current = pixels[word];
            for x in columns.first..columns.end {
                if shift == 32 {
                    word += 1;
                    current = pixels[word];
                    shift = 0u32;
                }
                let mut rgb = current >> shift;
                shift += 24;
                if shift > 32 {
                    word += 1;
                    current = pixels[word];
                    rgb |= current << (56 - shift);
                    shift -= 32;
                }
                let weight = row_weight * weight(&columns, x);
                red += weight * f32::cast_from(rgb & 0xFF);
                green += weight * f32::cast_from((rgb >> 8) & 0xFF);
                blue += weight * f32::cast_from((rgb >> 16) & 0xFF);
            }
        }
        } else if variant == 3 {
        let last = pixels.len() - 1;
        for y in rows.first..rows.end {
            let row_weight = weight(&rows, y);
            row_total += row_weight;
            let mut byte = (u32::cast_from(y) * width + u32::cast_from(columns.first)) * 3;
            let shift = (byte % 4) * 8;
            let back = 31 - shift;
            let mut word = (first_word + byte / 4) as usize;
            let mut w0 = pixels[word];
            let mut x = columns.first;
            while x < columns.end {
                let w1 = pixels[min(word + 1, last)];
                let w2 = pixels[min(word + 2, last)];
                let w3 = pixels[min(word + 3, last)];
                let a0 = (w0 >> shift) | ((w1 << back) << 1);
                let a1 = (w1 >> shift) | ((w2 << back) << 1);
                let a2 = (w2 >> shift) | ((w3 << back) << 1);
                let k0 = row_weight * weight(&columns, x);
                let k1 = select(x + 1 < columns.end, row_weight * weight(&columns, x + 1), 0.0f32);
                let k2 = select(x + 2 < columns.end, row_weight * weight(&columns, x + 2), 0.0f32);
                let k3 = select(x + 3 < columns.end, row_weight * weight(&columns, x + 3), 0.0f32);
                red += k0 * f32::cast_from(a0 & 0xFF) + k1 * f32::cast_from(a0 >> 24) + k2 * f32::cast_from((a1 >> 16) & 0xFF) + k3 * f32::cast_from((a2 >> 8) & 0xFF);
                green += k0 * f32::cast_from((a0 >> 8) & 0xFF) + k1 * f32::cast_from(a1 & 0xFF) + k2 * f32::cast_from(a1 >> 24) + k3 * f32::cast_from((a2 >> 16) & 0xFF);
                blue += k0 * f32::cast_from((a0 >> 16) & 0xFF) + k1 * f32::cast_from((a1 >> 8) & 0xFF) + k2 * f32::cast_from(a2 & 0xFF) + k3 * f32::cast_from(a2 >> 24);
                w0 = w3;
                word += 3;
                x += 4;
            }
        }
        } else if variant == 4 {
        let last = pixels.len() - 1;
        for y in rows.first..rows.end {
            let row_weight = weight(&rows, y);
            row_total += row_weight;
            let line = u32::cast_from(y) * width;
            for x in columns.first..columns.end {
                let weight = row_weight * weight(&columns, x);
                let byte = (line + u32::cast_from(x)) * 3;
                let word = (first_word + byte / 4) as usize;
                let shift = (byte % 4) * 8;
                let rgb = (pixels[word] >> shift) | ((pixels[min(word + 1, last)] << (31 - shift)) << 1);
                red += weight * f32::cast_from(rgb & 0xFF);
                green += weight * f32::cast_from((rgb >> 8) & 0xFF);
                blue += weight * f32::cast_from((rgb >> 16) & 0xFF);
            }
        }
        } else {
        for y in rows.first..rows.end {
            let row_weight = weight(&rows, y);
            row_total += row_weight;
            let line = u32::cast_from(y) * width;
            for x in columns.first..columns.end {
                let weight = row_weight * weight(&columns, x);
                let rgb = rgb_bytes(pixels, first_word, line + u32::cast_from(x));
                red += weight * f32::cast_from(rgb & 0xFF);
                green += weight * f32::cast_from((rgb >> 8) & 0xFF);
                blue += weight * f32::cast_from((rgb >> 16) & 0xFF);
            }
        }
        }
        let norm = 1.0 / max(row_total * column_total, f32::new(1e-30));
        Rgb { red: red * norm, green: green * norm, blue: blue * norm }
    }
}
