//! Resampling: makes output pixels from source bytes, in whole numbers.
//!
//! In: RGB8, rows tightly packed, and a layer's record. Out: red, green and blue as fixed-point levels (`levels.rs`).
//! Each source row is first filtered along its columns and rounded to 2⁻⁸ levels, then the rows are summed. Tables of
//! weights come from the host (`taps.rs`); a warp (`warp.rs`) is sampled bilinearly or at the nearest pixel.
//! Source: PyTorch 2.14 `upsample_bilinear2d_aa`, which filters in the same order, and `grid_sample`.
//! Off from exact arithmetic by at most 0.02 levels, 8e-5 of the range; a cubic filter can leave the range of bytes.

use std::ops::Range;

use multiversion::multiversion;

use crate::augment::levels::{self, Levels, WHITE};
use crate::augment::record::{LAYER_FILL, LAYER_GEOMETRY, LAYER_KIND, TABLE_WINDOW};
use crate::augment::warp::{WARP_WORDS, WarpRecord};

/// Sums of rows are kept in 32 bits, modulo 2³²: from -2³⁰ on they are told from large ones.
const BIAS: u32 = 1 << 30;

/// The scalar twin: makes the pixels of one layer, a row at a time.
pub(crate) struct Resampler<'a> {
    /// RGB8 of the image, rows tightly packed.
    pixels: &'a [u8],
    /// Pixels of a source row.
    source_width: usize,
    fill: Levels,
    /// Columns of the output.
    width: usize,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Tables(Tables<'a>),
    Warp(WarpRecord),
}

/// The weights of both axes, and the source rows filtered so far.
struct Tables<'a> {
    columns: Table<'a>,
    rows: Table<'a>,
    pairs: ColumnPairs,
    /// The part of a source row that the columns look at, four bytes a pixel; the fourth means nothing.
    line: Vec<[u8; 4]>,
    /// Source rows filtered last, `[power of two, pairs]`, 2⁻⁸ levels. Row `y` is at `y` modulo their number, so that
    /// all taps of an output row have a place.
    filtered: Vec<Pair<i32>>,
    /// Which source row is at each place.
    filtered_rows: Vec<Option<usize>>,
    /// Sums of an output row, `[pairs]`.
    sums: Vec<Pair<u32>>,
}

/// Red, green, blue and a value without meaning of two output columns: as wide as a vector of most processors, where a
/// column by itself would leave half of it idle.
type Pair<T> = [T; 8];

/// The table of the columns, rearranged for two output columns at a time; an odd last one is there twice.
struct ColumnPairs {
    /// Source columns that any output column looks at.
    span: Range<usize>,
    num_taps: usize,
    /// Per pair, the source columns of the first taps, counted from the beginning of `span`.
    first: Vec<[u32; 2]>,
    /// `[pairs, num_taps]`, each weight four times.
    weights: Vec<Pair<i32>>,
}

impl ColumnPairs {
    fn new(table: &Table) -> Self {
        let (num_taps, length) = (table.num_taps(), table.first.len());
        let start = table.first.iter().copied().min().unwrap_or(0);
        let end = table.first.iter().copied().max().map_or(0, |last| last as usize + num_taps);
        let columns = |pair: usize| [0, 1].map(|side| (2 * pair + side).min(length - 1));
        let weight = |tap: usize, column: usize| table.weights[tap * length + column] as i32;
        let pairs = 0..length.div_ceil(2);
        let weights = pairs.clone().flat_map(|pair| {
            let [left, right] = columns(pair);
            (0..num_taps).map(move |tap| {
                let [left, right] = [weight(tap, left), weight(tap, right)];
                [left, left, left, left, right, right, right, right]
            })
        });
        Self {
            num_taps,
            weights: weights.collect(),
            first: pairs.map(|pair| columns(pair).map(|column| table.first[column] - start)).collect(),
            span: start as usize..end,
        }
    }
}

/// One axis' table in the words.
#[derive(Clone, Copy)]
struct Table<'a> {
    first: &'a [u32],
    /// `[num_taps, length]`.
    weights: &'a [u32],
    window: [usize; 2],
}

impl<'a> Table<'a> {
    fn new(words: &'a [u32], geometry: usize, axis: usize, length: usize) -> Self {
        let start = words[geometry + 2 * axis] as usize;
        let num_taps = words[geometry + 2 * axis + 1] as usize;
        let window = [0, 1].map(|end| words[geometry + TABLE_WINDOW + 2 * axis + end] as usize);
        let (first, rest) = words[start..].split_at(length);
        Self { first, weights: &rest[..num_taps * length], window }
    }

    fn num_taps(&self) -> usize {
        self.weights.len() / self.first.len().max(1)
    }

    fn shows(&self, index: usize) -> bool {
        (self.window[0]..self.window[1]).contains(&index)
    }
}

impl<'a> Resampler<'a> {
    /// Prepares the layer at word `layer` of a batch whose bytes are `batch`, for an output of `[height, width]`.
    pub(crate) fn new(batch: &'a [u8], words: &'a [u32], layer: usize, [height, width]: [usize; 2]) -> Self {
        let geometry = layer + LAYER_GEOMETRY;
        let kind = if words[layer + LAYER_KIND] == 0 {
            let [columns, rows] =
                [(0, width), (1, height)].map(|(axis, length)| Table::new(words, geometry, axis, length));
            let num_kept = rows.num_taps().next_power_of_two();
            let pairs = ColumnPairs::new(&columns);
            let num_pairs = pairs.first.len();
            Kind::Tables(Tables {
                line: vec![[0; 4]; pairs.span.len()],
                filtered: vec![[0; 8]; num_kept * num_pairs],
                filtered_rows: vec![None; num_kept],
                sums: vec![[0; 8]; num_pairs],
                pairs,
                columns,
                rows,
            })
        } else {
            Kind::Warp(WarpRecord::from_words(&words[geometry..][..WARP_WORDS]))
        };
        Self {
            pixels: &batch[words[layer] as usize * 4..],
            source_width: words[layer + 1] as usize,
            fill: [0, 1, 2].map(|channel| words[layer + LAYER_FILL + channel] as i32),
            width,
            kind,
        }
    }

    /// Makes output row `row`, `width` pixels, into `output`.
    pub(crate) fn row(&mut self, row: usize, output: &mut [Levels]) {
        match &mut self.kind {
            Kind::Warp(warp) => {
                for (column, pixel) in output.iter_mut().enumerate() {
                    *pixel = sample(self.pixels, self.source_width, warp, self.fill, [row, column]);
                }
            }
            Kind::Tables(tables) if tables.rows.shows(row) => {
                tables.row(self.pixels, self.source_width, row);
                levels_of_sums(tables.sums.as_flattened().as_chunks().0, output);
                let [first, end] = tables.columns.window;
                output[..first.min(end)].fill(self.fill);
                output[end..].fill(self.fill);
            }
            Kind::Tables(_) => output[..self.width].fill(self.fill),
        }
    }
}

impl Tables<'_> {
    /// Sums output row `row`.
    fn row(&mut self, pixels: &[u8], source_width: usize, row: usize) {
        let num_pairs = self.sums.len();
        self.sums.fill([0; 8]);
        let first = self.rows.first[row] as usize;
        for tap in 0..self.rows.num_taps() {
            let weight = self.rows.weights[tap * self.rows.first.len() + row];
            if weight == 0 {
                continue;
            }
            let source_row = first + tap;
            let place = source_row % self.filtered_rows.len();
            let filtered = &mut self.filtered[place * num_pairs..][..num_pairs];
            if self.filtered_rows[place].replace(source_row) != Some(source_row) {
                let pixels = &pixels[source_row * source_width * 3..][..source_width * 3];
                widen(pixels, self.pairs.span.start, &mut self.line);
                filter_columns(&self.line, &self.pairs, filtered);
            }
            add_row(self.sums.as_flattened_mut(), filtered.as_flattened(), weight);
        }
    }
}

/// Copies the pixels from column `start` on as four bytes each, so that one load brings a pixel.
#[multiversion(targets = "simd")]
fn widen(row: &[u8], start: usize, line: &mut [[u8; 4]]) {
    for (wide, pixel) in line.iter_mut().zip(row.as_chunks::<3>().0.iter().skip(start)) {
        *wide = [pixel[0], pixel[1], pixel[2], 0];
    }
}

/// One source row filtered along its columns: 2⁻⁸ levels per output column.
#[multiversion(targets = "simd")]
fn filter_columns(line: &[[u8; 4]], pairs: &ColumnPairs, filtered: &mut [Pair<i32>]) {
    // A known number of taps needs no inner loop.
    match pairs.num_taps {
        1 => filter_taps::<1>(line, pairs, filtered),
        2 => filter_taps::<2>(line, pairs, filtered),
        3 => filter_taps::<3>(line, pairs, filtered),
        4 => filter_taps::<4>(line, pairs, filtered),
        5 => filter_taps::<5>(line, pairs, filtered),
        6 => filter_taps::<6>(line, pairs, filtered),
        7 => filter_taps::<7>(line, pairs, filtered),
        8 => filter_taps::<8>(line, pairs, filtered),
        taps => {
            for ((value, first), weights) in filtered.iter_mut().zip(&pairs.first).zip(pairs.weights.chunks_exact(taps))
            {
                let [left, right] = first.map(|first| &line[first as usize..][..taps]);
                *value = weigh(left, right, weights);
            }
        }
    }
}

#[inline(always)]
fn filter_taps<const TAPS: usize>(line: &[[u8; 4]], pairs: &ColumnPairs, filtered: &mut [Pair<i32>]) {
    let weights = pairs.weights.as_chunks::<TAPS>().0;
    for ((value, first), weights) in filtered.iter_mut().zip(&pairs.first).zip(weights) {
        let [left, right] = first.map(|first| &line[first as usize..][..TAPS]);
        *value = weigh(left, right, weights);
    }
}

/// The weighted sums of the pixels of two output columns.
#[inline(always)]
fn weigh(left: &[[u8; 4]], right: &[[u8; 4]], weights: &[Pair<i32>]) -> Pair<i32> {
    let mut sum = [128i32; 8];
    for ((left, right), weight) in left.iter().zip(right).zip(weights) {
        let mut pixels = [0; 8];
        pixels[..4].copy_from_slice(left);
        pixels[4..].copy_from_slice(right);
        sum = std::array::from_fn(|lane| sum[lane] + weight[lane] * i32::from(pixels[lane]));
    }
    sum.map(|sum| sum >> 8)
}

/// Adds a filtered row to the sums, modulo 2³².
#[multiversion(targets = "simd")]
fn add_row(sums: &mut [u32], row: &[i32], weight: u32) {
    for (sum, value) in sums.iter_mut().zip(row) {
        *sum = sum.wrapping_add(weight.wrapping_mul(*value as u32));
    }
}

/// The levels of sums that may be less than 0.
#[multiversion(targets = "simd")]
fn levels_of_sums(sums: &[[u32; 4]], output: &mut [Levels]) {
    let level = |sum: u32| (sum.wrapping_add(BIAS + 64) >> 7) as i32 - (BIAS >> 7) as i32;
    for (pixel, sum) in output.iter_mut().zip(sums) {
        *pixel = [level(sum[0]), level(sum[1]), level(sum[2])];
    }
}

/// One output pixel of a warp.
fn sample(pixels: &[u8], width: usize, warp: &WarpRecord, fill: Levels, [row, column]: [usize; 2]) -> Levels {
    let [log2_x, log2_y] = warp.samples;
    let mut sums = [0u32; 4];
    for y in 0..1 << log2_y {
        for x in 0..1 << log2_x {
            let position = warp.position([((column as u32) << log2_x) + x, ((row as u32) << log2_y) + y]);
            let Some([x, y]) = position else { continue };
            let seen =
                if warp.is_nearest { nearest(pixels, width, warp, x, y) } else { bilinear(pixels, width, warp, x, y) };
            (0..4).for_each(|channel| sums[channel] += seen[channel]);
        }
    }
    let log2 = log2_x + log2_y;
    let [red, green, blue, covered] = sums.map(|sum| ((sum + ((1 << log2) >> 1)) >> log2) as i32);
    if covered == WHITE || !warp.fill_is_named {
        return [red, green, blue];
    }
    // From 255 levels to a factor.
    let share = covered as u32 + covered as u32 / 255;
    std::array::from_fn(|channel| levels::blend(fill[channel], [red, green, blue][channel], share))
}

/// Red, green, blue and white where the source is, as levels.
fn bilinear(pixels: &[u8], width: usize, warp: &WarpRecord, x: (i32, u32), y: (i32, u32)) -> [u32; 4] {
    let mut sum = [128u32; 4];
    for down in 0..2 {
        let mut line = [128u32; 4];
        for across in 0..2 {
            let taps = [x.0 + across, y.0 + down];
            let Some(pixel) = source(pixels, width, warp, taps) else { continue };
            let weight = if across == 0 { 65_536 - x.1 } else { x.1 };
            (0..4).for_each(|channel| line[channel] += weight * pixel[channel]);
        }
        let weight = if down == 0 { 65_536 - y.1 } else { y.1 };
        (0..4).for_each(|channel| sum[channel] += weight * (line[channel] >> 8));
    }
    sum.map(|sum| sum >> 8)
}

/// Likewise.
fn nearest(pixels: &[u8], width: usize, warp: &WarpRecord, x: (i32, u32), y: (i32, u32)) -> [u32; 4] {
    source(pixels, width, warp, [x.0, y.0]).map_or([0; 4], |pixel| pixel.map(|byte| byte << 16))
}

/// Red, green, blue and 255 of a source pixel; `None` if it can't be seen.
fn source(pixels: &[u8], width: usize, warp: &WarpRecord, [column, row]: [i32; 2]) -> Option<[u32; 4]> {
    let place = (warp.source_pixel(1, row)? * width + warp.source_pixel(0, column)?) * 3;
    let [red, green, blue] = [0, 1, 2].map(|channel| u32::from(pixels[place + channel]));
    Some([red, green, blue, 255])
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device, a thread per output pixel.

    use cubecl::prelude::*;

    use super::{BIAS, WHITE};
    use crate::augment::levels::device::{Rgb, blend};
    use crate::augment::record::{LAYER_FILL, LAYER_GEOMETRY, LAYER_KIND, TABLE_WINDOW};
    use crate::augment::warp::device::{Place, is_inside, position, source_pixel};
    use crate::augment::warp::{FILL_IS_NAMED, IS_NEAREST, SAMPLES};

    /// Red, green, blue, and white where the source is.
    #[derive(CubeType, CubeTypeMut, Clone, Copy)]
    struct Seen {
        red: u32,
        green: u32,
        blue: u32,
        covered: u32,
    }

    /// The pixel of the layer at word `layer`. Without `warps` every layer has tables.
    #[cube]
    pub(crate) fn resample(
        pixels: &[u32],
        words: &[u32],
        layer: usize,
        height: u32,
        width: u32,
        row: u32,
        column: u32,
        #[comptime] warps: bool,
    ) -> Rgb {
        let fill = Rgb {
            red: i32::reinterpret(words[layer + LAYER_FILL]),
            green: i32::reinterpret(words[layer + LAYER_FILL + 1]),
            blue: i32::reinterpret(words[layer + LAYER_FILL + 2]),
        };
        let mut rgb = from_tables(pixels, words, layer, height, width, row, column, &fill);
        if comptime!(warps) && words[layer + LAYER_KIND] != 0 {
            rgb = from_warp(pixels, words, layer, row, column, &fill);
        }
        rgb
    }

    /// Filtered by the tables, if the layer has any and shows the source here.
    #[cube]
    fn from_tables(
        pixels: &[u32],
        words: &[u32],
        layer: usize,
        height: u32,
        width: u32,
        row: u32,
        column: u32,
        fill: &Rgb,
    ) -> Rgb {
        let geometry = layer + LAYER_GEOMETRY;
        let window = geometry + TABLE_WINDOW;
        let mut rgb = Rgb { red: fill.red, green: fill.green, blue: fill.blue };
        if column >= words[window] && column < words[window + 1] && row >= words[window + 2] && row < words[window + 3]
        {
            let first_word = words[layer];
            let columns = words[geometry] + column;
            let num_columns = words[geometry + 1];
            let rows = words[geometry + 2] + row;
            let num_rows = words[geometry + 3];
            let mut pixel_of_row = words[rows as usize] * words[layer + 1] + words[columns as usize];
            let mut red = 0u32;
            let mut green = 0u32;
            let mut blue = 0u32;
            for y in 0..num_rows {
                let mut line_red = 128i32;
                let mut line_green = 128i32;
                let mut line_blue = 128i32;
                for x in 0..num_columns {
                    let weight = i32::reinterpret(words[(columns + (x + 1) * width) as usize]);
                    let bytes = rgb_bytes(pixels, first_word, pixel_of_row + x);
                    line_red += weight * i32::reinterpret(bytes & 0xFF);
                    line_green += weight * i32::reinterpret((bytes >> 8) & 0xFF);
                    line_blue += weight * i32::reinterpret((bytes >> 16) & 0xFF);
                }
                let weight = words[(rows + (y + 1) * height) as usize];
                red += weight * u32::reinterpret(line_red >> 8);
                green += weight * u32::reinterpret(line_green >> 8);
                blue += weight * u32::reinterpret(line_blue >> 8);
                pixel_of_row += words[layer + 1];
            }
            rgb = Rgb { red: level(red), green: level(green), blue: level(blue) };
        }
        rgb
    }

    /// From a sum of rows, modulo 2³².
    #[cube]
    fn level(sum: u32) -> i32 {
        i32::reinterpret((sum + comptime!(BIAS + 64)) >> 7) - comptime!((BIAS >> 7) as i32)
    }

    #[cube]
    fn from_warp(pixels: &[u32], words: &[u32], layer: usize, row: u32, column: u32, fill: &Rgb) -> Rgb {
        let warp = layer + LAYER_GEOMETRY;
        let log2_x = words[warp + SAMPLES];
        let log2_y = words[warp + SAMPLES + 1];
        let is_nearest = words[warp + IS_NEAREST] != 0;
        let mut sums = nothing(0);
        for y in 0..(1u32 << log2_y) {
            for x in 0..(1u32 << log2_x) {
                let position = position(words, warp, (column << log2_x) + x, (row << log2_y) + y);
                if position.is_seen {
                    if is_nearest {
                        let seen = source(pixels, words, layer, warp, position.x.whole, position.y.whole);
                        sums.red += seen.red << 16;
                        sums.green += seen.green << 16;
                        sums.blue += seen.blue << 16;
                        sums.covered += seen.covered << 16;
                    } else {
                        let seen = bilinear(pixels, words, layer, warp, position.x, position.y);
                        sums.red += seen.red;
                        sums.green += seen.green;
                        sums.blue += seen.blue;
                        sums.covered += seen.covered;
                    }
                }
            }
        }
        let log2 = log2_x + log2_y;
        let half = (1u32 << log2) >> 1;
        let seen = Rgb {
            red: i32::reinterpret((sums.red + half) >> log2),
            green: i32::reinterpret((sums.green + half) >> log2),
            blue: i32::reinterpret((sums.blue + half) >> log2),
        };
        let covered = (sums.covered + half) >> log2;
        let mut rgb = Rgb { red: seen.red, green: seen.green, blue: seen.blue };
        if covered != comptime!(WHITE as u32) && words[warp + FILL_IS_NAMED] != 0 {
            let share = covered + covered / 255;
            rgb = Rgb {
                red: blend(fill.red, seen.red, share),
                green: blend(fill.green, seen.green, share),
                blue: blend(fill.blue, seen.blue, share),
            };
        }
        rgb
    }

    #[cube]
    fn nothing(value: u32) -> Seen {
        Seen { red: value, green: value, blue: value, covered: value }
    }

    /// [`super::bilinear`].
    #[cube]
    fn bilinear(pixels: &[u32], words: &[u32], layer: usize, warp: usize, x: Place, y: Place) -> Seen {
        let mut sum = nothing(128);
        for down in 0..2u32 {
            let mut line = nothing(128);
            for across in 0..2u32 {
                let seen = source(
                    pixels,
                    words,
                    layer,
                    warp,
                    x.whole + i32::cast_from(across),
                    y.whole + i32::cast_from(down),
                );
                let weight = select(across == 0, 65_536 - x.fraction, x.fraction);
                line.red += weight * seen.red;
                line.green += weight * seen.green;
                line.blue += weight * seen.blue;
                line.covered += weight * seen.covered;
            }
            let weight = select(down == 0, 65_536 - y.fraction, y.fraction);
            sum.red += weight * (line.red >> 8);
            sum.green += weight * (line.green >> 8);
            sum.blue += weight * (line.blue >> 8);
            sum.covered += weight * (line.covered >> 8);
        }
        Seen { red: sum.red >> 8, green: sum.green >> 8, blue: sum.blue >> 8, covered: sum.covered >> 8 }
    }

    /// [`super::source`]; nothing of a pixel that can't be seen.
    #[cube]
    fn source(pixels: &[u32], words: &[u32], layer: usize, warp: usize, column: i32, row: i32) -> Seen {
        let mut seen = nothing(0);
        if is_inside(words, warp, 0usize, column) && is_inside(words, warp, 1usize, row) {
            let place =
                source_pixel(words, warp, 1usize, row) * words[layer + 1] + source_pixel(words, warp, 0usize, column);
            let bytes = rgb_bytes(pixels, words[layer], place);
            seen = Seen {
                red: bytes & 0xFF,
                green: (bytes >> 8) & 0xFF,
                blue: (bytes >> 16) & 0xFF,
                covered: 255u32.runtime(),
            };
        }
        seen
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
