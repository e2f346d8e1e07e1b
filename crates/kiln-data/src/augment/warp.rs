//! Warps as whole numbers: where an output pixel looks when rows and columns depend on each other.
//!
//! In: a [`Geometry`] with a warp. Out: [`WarpRecord`]; for a sample of an output pixel the source pixel it lies in and
//! 16 bits of the fraction. Sums and products of whole numbers are the same on every device; the one division,
//! of a perspective, is estimated in f32 and then corrected by its whole remainder.
//!
//! Samples: one in the middle of each output pixel. If an antialiased filter makes smaller, up to 16 × 16 on a grid, as
//! many as one of them covers source pixels, of which the mean is taken.
//! Source: torchvision 0.29 `v2.functional`, `_apply_grid_transform` over `grid_sample` with `align_corners=False`.
//! Not done here: cubic filters, which a warp takes as their bilinear ones.

use crate::augment::geometry::{Axis, Border, Filter, Geometry, Warp};

/// u32 words of a [`WarpRecord`].
pub(crate) const WARP_WORDS: usize = 33;
/// Where the line of y begins in a record; that of x is at 0.
pub(crate) const LINE_Y: usize = 6;
/// Where the line of the depth begins.
pub(crate) const LINE_DEPTH: usize = 12;
/// Whether there is a perspective to divide by.
pub(crate) const HAS_DEPTH: usize = 18;
/// log2 of the samples along x, then along y.
pub(crate) const SAMPLES: usize = 19;
/// Whether the nearest pixel is taken.
pub(crate) const IS_NEAREST: usize = 21;
/// First column that may be seen and the one after the last, then the rows.
pub(crate) const BOUNDS: usize = 22;
/// How columns, then rows, beyond the border are brought back: see [`fold_number`].
pub(crate) const FOLDS: usize = 26;
/// Where they are brought back to: first column and end, then the rows.
pub(crate) const INSIDE: usize = 28;
/// Whether the fill is named, see [`Fill`](crate::augment::geometry::Fill).
pub(crate) const FILL_IS_NAMED: usize = 32;

/// Numbers of the borders in a record; 0 is none.
pub(crate) const FOLD_EDGE: u32 = 1;
pub(crate) const FOLD_REFLECT: u32 = 2;
pub(crate) const FOLD_SYMMETRIC: u32 = 3;

/// Samples along one axis of an output pixel, as log2, at most.
const MAX_SAMPLES_LOG2: u32 = 4;
/// The greatest depth in the output, so that its multiples fit their words.
const MAX_DEPTH: f64 = 1_073_741_824.0;
/// A depth below this is at or behind the horizon: nothing is seen there.
pub(crate) const MIN_DEPTH: i32 = 1 << 12;
/// A position beyond this many pixels is outside of every image.
pub(crate) const MAX_POSITION: f32 = 1_000_000.0;

/// A linear function of the sample: its value at `(x, y)` is `origin + x * step_x + y * step_y`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Line {
    pub(crate) origin: i64,
    pub(crate) step_x: i64,
    pub(crate) step_y: i64,
}

impl Line {
    fn new(coefficients: [f64; 3], unit: f64) -> Self {
        let [step_x, step_y, origin] = coefficients.map(|value| (value * unit).round() as i64);
        Self { origin, step_x, step_y }
    }

    /// The value at sample `(x, y)`.
    fn at(&self, [x, y]: [u32; 2]) -> i64 {
        let product = |step: i64, count: u32| step.wrapping_mul(i64::from(count));
        self.origin.wrapping_add(product(self.step_x, x)).wrapping_add(product(self.step_y, y))
    }

    fn to_words(self) -> [u32; 6] {
        let [o, x, y] = [self.origin, self.step_x, self.step_y].map(|value| [value as u32, (value >> 32) as u32]);
        [o[0], o[1], x[0], x[1], y[0], y[1]]
    }

    fn from_words(words: &[u32]) -> Self {
        let value = |at: usize| (u64::from(words[at]) | u64::from(words[at + 1]) << 32) as i64;
        Self { origin: value(0), step_x: value(2), step_y: value(4) }
    }
}

/// A warp as the kernel and its scalar twin read it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WarpRecord {
    /// Source position of the sample, less half a pixel unless the nearest is taken: in 2⁻³² pixels, or, with a
    /// perspective, in whole units to be divided by the depth.
    pub(crate) x: Line,
    pub(crate) y: Line,
    /// In 2⁻³² units; `None` without a perspective.
    pub(crate) depth: Option<Line>,
    /// log2, along x and y.
    pub(crate) samples: [u32; 2],
    pub(crate) is_nearest: bool,
    /// First and end of the columns, then of the rows, that may be seen.
    pub(crate) bounds: [[i32; 2]; 2],
    /// For columns and rows, how and where to those beyond the border are brought back.
    pub(crate) folds: [Option<(Border, [i32; 2])>; 2],
    pub(crate) fill_is_named: bool,
}

impl WarpRecord {
    /// Rounds the warp of a geometry.
    pub(crate) fn new(geometry: &Geometry, warp: &Warp) -> Self {
        let Geometry { rows, columns, filter, fill, .. } = geometry;
        let is_nearest = *filter <= Filter::NearestExact;
        let is_antialiased = matches!(filter, Filter::BilinearAntialiased | Filter::BicubicAntialiased);
        let [width, height] = [warp.size[1], warp.size[0]].map(f64::from);
        let m = &warp.matrix;
        let depth_at = |[x, y]: [f64; 2]| m[6] * x + m[7] * y + m[8];
        let sign = if depth_at([width / 2.0, height / 2.0]) < 0.0 { -1.0 } else { 1.0 };
        let corners = [[0.0, 0.0], [width, 0.0], [0.0, height], [width, height]];
        let greatest = corners.map(|corner| sign * depth_at(corner)).into_iter().fold(0.0, f64::max);
        let has_depth = m[6] != 0.0 || m[7] != 0.0;
        let unit = if has_depth { sign * MAX_DEPTH / greatest } else { 32f64.exp2() / m[8] };
        let samples = if is_antialiased { warp.samples_log2() } else { [0, 0] };
        // Samples are numbered through the whole output; a position is that of a sample's middle.
        let [per_x, per_y] = samples.map(|log2| f64::from(log2).exp2().recip());
        let line = |row: usize| {
            let [x, y] = [m[3 * row] * per_x, m[3 * row + 1] * per_y];
            [x, y, m[3 * row + 2] + 0.5 * (x + y)]
        };
        let depth = line(2);
        let back = if is_nearest { 0.0 } else { 0.5 };
        let position = |row: usize| std::array::from_fn(|i| line(row)[i] - back * depth[i]);
        let bound = |pixel: i64| pixel.clamp(-i64::from(i32::MAX), i64::from(i32::MAX)) as i32;
        let fold = |axis: &Axis| axis.fold.map(|(border, inside)| (border, inside.map(bound)));
        Self {
            x: Line::new(position(0), unit),
            y: Line::new(position(1), unit),
            depth: has_depth.then(|| Line::new(depth, unit * 32f64.exp2())),
            samples,
            is_nearest,
            bounds: [columns, rows].map(|axis| axis.taps.map(bound)),
            folds: [columns, rows].map(fold),
            fill_is_named: fill.is_named,
        }
    }

    pub(crate) fn to_words(self) -> [u32; WARP_WORDS] {
        let mut words = [0; WARP_WORDS];
        let lines = [self.x, self.y, self.depth.unwrap_or_default()];
        words[..HAS_DEPTH].copy_from_slice(&lines.map(Line::to_words).concat());
        words[HAS_DEPTH] = u32::from(self.depth.is_some());
        words[SAMPLES..IS_NEAREST].copy_from_slice(&self.samples);
        words[IS_NEAREST] = u32::from(self.is_nearest);
        words[BOUNDS..FOLDS].copy_from_slice(&self.bounds.concat().into_iter().map(|b| b as u32).collect::<Vec<_>>());
        for (axis, fold) in self.folds.iter().enumerate() {
            if let Some((border, inside)) = fold {
                words[FOLDS + axis] = fold_number(*border);
                words[INSIDE + 2 * axis..][..2].copy_from_slice(&inside.map(|pixel| pixel as u32));
            }
        }
        words[FILL_IS_NAMED] = u32::from(self.fill_is_named);
        words
    }

    /// # Panics
    /// If `words` aren't [`WARP_WORDS`].
    pub(crate) fn from_words(words: &[u32]) -> Self {
        assert_eq!(words.len(), WARP_WORDS, "words of one warp");
        let line = |at: usize| Line::from_words(&words[at..at + 6]);
        let pair = |at: usize| [words[at] as i32, words[at + 1] as i32];
        let border = |number: u32| match number {
            FOLD_EDGE => Some(Border::Edge),
            FOLD_REFLECT => Some(Border::Reflect),
            FOLD_SYMMETRIC => Some(Border::Symmetric),
            _ => None,
        };
        Self {
            x: line(0),
            y: line(LINE_Y),
            depth: (words[HAS_DEPTH] != 0).then(|| line(LINE_DEPTH)),
            samples: [words[SAMPLES], words[SAMPLES + 1]],
            is_nearest: words[IS_NEAREST] != 0,
            bounds: [pair(BOUNDS), pair(BOUNDS + 2)],
            folds: [0, 1].map(|axis| border(words[FOLDS + axis]).map(|border| (border, pair(INSIDE + 2 * axis)))),
            fill_is_named: words[FILL_IS_NAMED] != 0,
        }
    }

    /// Where sample `[x, y]` of the output lies along both axes: the source pixel and 2⁻¹⁶ parts of the fraction. `None`
    /// behind the horizon and far outside.
    pub(crate) fn position(&self, sample: [u32; 2]) -> Option<[(i32, u32); 2]> {
        let along = |line: &Line| match &self.depth {
            None => {
                let position = line.at(sample);
                Some(((position >> 32) as i32, (position as u32) >> 16))
            }
            Some(depth) => {
                let depth = depth.at(sample) >> 32;
                if depth < i64::from(MIN_DEPTH) {
                    return None;
                }
                let position = line.at(sample);
                let whole = position.div_euclid(depth);
                let fraction = (position.rem_euclid(depth) << 16) / depth;
                (whole.abs() <= MAX_POSITION as i64).then_some((whole as i32, fraction as u32))
            }
        };
        Some([along(&self.x)?, along(&self.y)?])
    }

    /// The source pixel to read for column (axis 0) or row (axis 1) `index`; `None` if it can't be seen.
    pub(crate) fn source_pixel(&self, axis: usize, index: i32) -> Option<usize> {
        let [first, end] = self.bounds[axis];
        let index = (first..end).contains(&index).then_some(index)?;
        let folded = |(border, inside): (Border, [i32; 2])| border.fold(index.into(), inside.map(i64::from)) as usize;
        Some(self.folds[axis].map_or(index as usize, folded))
    }
}

impl Warp {
    /// log2 of the samples along x and y that cover the source: in the middle of the output, a step along each.
    fn samples_log2(&self) -> [u32; 2] {
        let m = &self.matrix;
        let [x, y] = [f64::from(self.size[1]) / 2.0, f64::from(self.size[0]) / 2.0];
        let depth = m[6] * x + m[7] * y + m[8];
        let position = [0, 3].map(|row| (m[row] * x + m[row + 1] * y + m[row + 2]) / depth);
        [0, 1].map(|axis| {
            let along = |row: usize| (m[row * 3 + axis] - position[row] * m[6 + axis]) / depth;
            let distance = along(0).hypot(along(1));
            // A hundredth of a pixel more than one needs no second sample. `as` makes 0 of NaN.
            ((distance - 0.01).log2().ceil().max(0.0) as u32).min(MAX_SAMPLES_LOG2)
        })
    }
}

/// The number of a border in a record.
fn fold_number(border: Border) -> u32 {
    match border {
        Border::Edge => FOLD_EDGE,
        Border::Reflect => FOLD_REFLECT,
        Border::Symmetric => FOLD_SYMMETRIC,
    }
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device, with 64-bit numbers in halves, because WGSL has 32.

    use cubecl::prelude::*;

    use super::{
        BOUNDS, FOLD_EDGE, FOLD_REFLECT, FOLD_SYMMETRIC, FOLDS, HAS_DEPTH, INSIDE, LINE_DEPTH, LINE_Y, MAX_POSITION,
        MIN_DEPTH,
    };

    /// A 64-bit number.
    #[derive(CubeType, CubeTypeMut, Clone, Copy)]
    struct Wide {
        low: u32,
        high: u32,
    }

    /// Where a sample lies along one axis.
    #[derive(CubeType, CubeTypeMut, Clone, Copy)]
    pub(crate) struct Place {
        /// The source pixel.
        pub(crate) whole: i32,
        /// 2⁻¹⁶ parts.
        pub(crate) fraction: u32,
    }

    /// Where a sample lies, see [`super::WarpRecord::position`].
    #[derive(CubeType, CubeTypeMut, Clone, Copy)]
    pub(crate) struct Position {
        pub(crate) x: Place,
        pub(crate) y: Place,
        pub(crate) is_seen: bool,
    }

    /// [`super::WarpRecord::position`] of the record at word `warp`.
    #[cube]
    pub(crate) fn position(words: &[u32], warp: usize, x: u32, y: u32) -> Position {
        let across = line_at(words, warp, x, y);
        let down = line_at(words, warp + LINE_Y, x, y);
        let mut result = Position {
            x: Place { whole: i32::reinterpret(across.high), fraction: across.low >> 16 },
            y: Place { whole: i32::reinterpret(down.high), fraction: down.low >> 16 },
            is_seen: true.runtime(),
        };
        if words[warp + HAS_DEPTH] != 0 {
            let depth = i32::reinterpret(line_at(words, warp + LINE_DEPTH, x, y).high);
            result.is_seen = depth >= comptime!(MIN_DEPTH);
            if result.is_seen {
                result.x = divide(across, depth);
                result.y = divide(down, depth);
            }
        }
        result
    }

    /// The quotient's whole part and fraction: estimated, then corrected by the remainder, in which the low halves are
    /// enough. A quotient beyond every image is only as exact as the estimate.
    #[cube]
    fn divide(number: Wide, depth: i32) -> Place {
        let size = f32::cast_from(i32::reinterpret(number.high)) * 4_294_967_296.0 + f32::cast_from(number.low);
        let estimate = clamp(size / f32::cast_from(depth), -2.0 * MAX_POSITION, 2.0 * MAX_POSITION);
        let mut whole = i32::cast_from(estimate.floor());
        let depth_bits = u32::reinterpret(depth);
        let mut rest = i32::reinterpret(number.low - u32::reinterpret(whole) * depth_bits);
        if rest < 0 {
            rest += depth;
            whole -= 1;
        } else if rest >= depth {
            rest -= depth;
            whole += 1;
        }
        let estimate = f32::cast_from(rest) / f32::cast_from(depth) * 65_536.0;
        let mut fraction = u32::cast_from(clamp(estimate, 0.0f32, 65_535.0f32));
        let rest = i32::reinterpret((u32::reinterpret(rest) << 16) - fraction * depth_bits);
        if rest < 0 {
            fraction -= 1;
        } else if rest >= depth {
            fraction += 1;
        }
        Place { whole, fraction }
    }

    /// The value of the line at word `line` for sample `(x, y)`.
    #[cube]
    fn line_at(words: &[u32], line: usize, x: u32, y: u32) -> Wide {
        let along_x = times(words[line + 2], words[line + 3], x);
        let along_y = times(words[line + 4], words[line + 5], y);
        let origin = Wide { low: words[line], high: words[line + 1] };
        add(origin, add(along_x, along_y))
    }

    #[cube]
    fn times(low: u32, high: u32, count: u32) -> Wide {
        Wide { low: low * count, high: low.mul_hi(count) + high * count }
    }

    #[cube]
    fn add(a: Wide, b: Wide) -> Wide {
        let low = a.low + b.low;
        Wide { low, high: a.high + b.high + select(low < a.low, 1u32, 0u32) }
    }

    /// Whether the pixel of column (axis 0) or row (axis 1) `index` can be seen.
    #[cube]
    pub(crate) fn is_inside(words: &[u32], warp: usize, #[comptime] axis: usize, index: i32) -> bool {
        index >= i32::reinterpret(words[warp + BOUNDS + 2 * axis])
            && index < i32::reinterpret(words[warp + BOUNDS + 2 * axis + 1])
    }

    /// [`super::WarpRecord::source_pixel`] of a pixel inside.
    #[cube]
    pub(crate) fn source_pixel(words: &[u32], warp: usize, #[comptime] axis: usize, index: i32) -> u32 {
        let fold = words[warp + FOLDS + axis];
        let mut result = index;
        if fold != 0 {
            let first = i32::reinterpret(words[warp + INSIDE + 2 * axis]);
            let length = i32::reinterpret(words[warp + INSIDE + 2 * axis + 1]) - first;
            let place = index - first;
            let mut folded = 0i32.runtime();
            if length > 1 {
                if fold == FOLD_EDGE {
                    folded = clamp(place, 0i32, length - 1);
                } else if fold == FOLD_REFLECT {
                    let period = 2 * (length - 1);
                    let place = positive_remainder(place, period);
                    folded = min(place, period - place);
                } else if fold == FOLD_SYMMETRIC {
                    let period = 2 * length;
                    let place = positive_remainder(place, period);
                    folded = min(place, period - 1 - place);
                }
            }
            result = first + folded;
        }
        u32::reinterpret(result)
    }

    #[cube]
    fn positive_remainder(value: i32, period: i32) -> i32 {
        // Devices differ in the sign of a remainder of negative numbers.
        let before = -1i32 - value;
        let of_positive = u32::reinterpret(value) % u32::reinterpret(period);
        let of_negative = u32::reinterpret(period) - 1 - (u32::reinterpret(before) % u32::reinterpret(period));
        i32::reinterpret(select(value < 0, of_negative, of_positive))
    }
}
