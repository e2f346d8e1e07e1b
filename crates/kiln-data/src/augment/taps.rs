//! Taps: which source pixels an output pixel is made of along one axis, and how much each weighs, as integers.
//!
//! In: an [`Axis`] and a [`Filter`]. Out: an [`AxisTable`], the first source pixel and the weights of every output
//! pixel. Weights are whole numbers that sum to exactly one unit, so that every device adds up the same values in any
//! order: a picture is the same to the bit on all of them.
//! Source: PyTorch 2.14 `aten/src/ATen/native/cpu/UpSampleKernel.cpp`. Antialiased filters are widened by the factor of
//! the downscale and divided by the sum of the weights inside the border; the others repeat the border.
//! Differs from PyTorch: positions are f64; torch's f32 is off by up to 3e-5 of a pixel at 500 pixels.

use crate::augment::geometry::{Axis, Filter};

/// Pixels by which a corner may lie before a pixel's edge and still count as inside: far below any real distance.
const CORNER_MARGIN: f64 = 1e-6;

/// The weights of one axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisTable {
    /// First output pixel that shows the source, and the one after the last.
    pub(crate) window: [u32; 2],
    /// Weights per output pixel, at least 1; those of pixels with fewer are 0.
    pub(crate) num_taps: usize,
    /// Per output pixel of the axis, the source pixel of its first weight.
    pub(crate) first: Vec<u32>,
    /// `[num_taps, length]`: neighbouring output pixels are neighbours here, as threads want it.
    pub(crate) weights: Vec<i32>,
}

/// The taps of one output pixel: `weights[k]` is about source pixel `first + k`.
#[derive(Default)]
struct Taps {
    first: i64,
    weights: Vec<f64>,
}

/// The taps of all output pixels in whole numbers, one list after the other.
#[derive(Default)]
struct WholeTaps {
    /// Source pixel of the first weight, where its list begins, and how long it is.
    lists: Vec<(u32, usize, usize)>,
    weights: Vec<i32>,
}

impl AxisTable {
    /// The table of `axis`; the weights of a pixel that shows the source sum to `unit`.
    pub(crate) fn new(axis: &Axis, filter: Filter, unit: i32) -> Self {
        let window = axis.window();
        let length = axis.length as usize;
        let (mut all, mut taps) = (WholeTaps::default(), Taps::default());
        for index in 0..axis.length {
            if (window[0]..window[1]).contains(&index) {
                taps.find(axis, filter, index);
                taps.fold(axis);
                all.push(&taps, unit);
            } else {
                all.push_nothing();
            }
        }
        let num_taps = all.lists.iter().map(|(_, _, count)| *count).max().unwrap_or(1);
        // A shorter list is moved back so that no weight of 0 stands beyond the image.
        let limit = axis.fold.map_or(axis.taps[1], |(_, inside)| inside[1]).max(0) as usize;
        let mut first = Vec::with_capacity(length);
        let mut table = vec![0; num_taps * length];
        for (index, (start, begin, count)) in all.lists.iter().enumerate() {
            let moved = (*start as usize).min(limit.saturating_sub(num_taps));
            first.push(moved as u32);
            for (tap, weight) in all.weights[*begin..][..*count].iter().enumerate() {
                table[(*start as usize - moved + tap) * length + index] = *weight;
            }
        }
        Self { window, num_taps, first, weights: table }
    }

    #[cfg(test)]
    /// The weights of output pixel `index`, beginning with that of source pixel `first[index]`.
    pub(crate) fn at(&self, index: usize) -> impl Iterator<Item = i32> {
        self.weights[index..].iter().step_by(self.first.len()).copied()
    }
}

impl WholeTaps {
    /// Rounds the weights of an output pixel so that they sum to `unit`: the heaviest takes what rounding leaves.
    fn push(&mut self, taps: &Taps, unit: i32) {
        let begin = self.weights.len();
        let total: f64 = taps.weights.iter().sum();
        self.weights.extend(taps.weights.iter().map(|weight| (weight / total * f64::from(unit)).round() as i32));
        let whole = &mut self.weights[begin..];
        let rest = unit - whole.iter().sum::<i32>();
        if let Some(heaviest) = whole.iter_mut().max_by_key(|weight| **weight) {
            *heaviest += rest;
        }
        let num_idle = whole.iter().take_while(|weight| **weight == 0).count();
        let num_used = whole.iter().rposition(|weight| *weight != 0).map_or(1, |last| last + 1 - num_idle);
        self.lists.push((taps.first as u32 + num_idle as u32, begin + num_idle, num_used));
    }

    /// Of an output pixel that doesn't show the source.
    fn push_nothing(&mut self) {
        self.lists.push((0, self.weights.len(), 1));
        self.weights.push(0);
    }
}

impl Taps {
    /// Finds the taps of output pixel `index` where the image has no border.
    fn find(&mut self, axis: &Axis, filter: Filter, index: u32) {
        self.weights.clear();
        let scale = axis.step.abs();
        let centre = axis.origin + axis.step * (f64::from(index) + 0.5);
        match filter {
            Filter::Nearest | Filter::NearestExact => {
                // A corner that falls on a pixel's edge mustn't be rounded to before it.
                let corner = centre + CORNER_MARGIN - if filter == Filter::Nearest { scale / 2.0 } else { 0.0 };
                self.first = (corner.floor() as i64).clamp(axis.taps[0], axis.taps[1] - 1);
                self.weights.push(1.0);
            }
            Filter::Bilinear => self.interpolate(axis, centre, 1.0, triangle),
            Filter::Bicubic => self.interpolate(axis, centre, 2.0, |distance| cubic(distance, -0.75)),
            Filter::BilinearAntialiased => self.average(axis, centre, 1.0, scale.max(1.0), triangle),
            Filter::BicubicAntialiased => {
                self.average(axis, centre, 2.0, scale.max(1.0), |distance| cubic(distance, -0.5));
            }
        }
    }

    /// Weighs the pixels within `support` of `centre`; the border's pixel also counts for what lies beyond it.
    fn interpolate(&mut self, axis: &Axis, centre: f64, support: f64, weigh: impl Fn(f64) -> f64) {
        let [first, end] = reach(centre, support);
        let inside = |pixel: i64| pixel.clamp(axis.taps[0], axis.taps[1] - 1);
        self.first = inside(first);
        self.weights.resize((inside(end - 1) - inside(first) + 1) as usize, 0.0);
        for pixel in first..end {
            self.weights[(inside(pixel) - inside(first)) as usize] += weigh((pixel as f64 + 0.5 - centre).abs());
        }
    }

    /// Weighs the pixels within `support` of `centre`, distances being in units of `scale` pixels, as far as there are
    /// any.
    fn average(&mut self, axis: &Axis, centre: f64, support: f64, scale: f64, weigh: impl Fn(f64) -> f64) {
        let [first, end] = reach(centre, support * scale);
        let [first, end] = [first.clamp(axis.taps[0], axis.taps[1] - 1), end.clamp(axis.taps[0] + 1, axis.taps[1])];
        self.first = first;
        let pixels = first..end.max(first + 1);
        self.weights.extend(pixels.map(|pixel| weigh(((pixel as f64 + 0.5 - centre) / scale).abs())));
        // Every tap may be beyond the border by less than rounding; then the nearest pixel is all there is.
        if self.weights.iter().sum::<f64>() <= 0.0 {
            self.weights.fill(1.0);
        }
    }

    /// Brings taps beyond the border back to where the axis' padding finds them.
    fn fold(&mut self, axis: &Axis) {
        if axis.fold.is_none() {
            return;
        }
        let pixels: Vec<i64> = (self.first..).take(self.weights.len()).map(|pixel| axis.source_pixel(pixel)).collect();
        let first = pixels.iter().copied().min().unwrap_or(0);
        let last = pixels.iter().copied().max().unwrap_or(0);
        let mut weights = vec![0.0; (last - first + 1) as usize];
        for (pixel, weight) in pixels.iter().zip(&self.weights) {
            weights[(pixel - first) as usize] += weight;
        }
        *self = Self { first, weights };
    }
}

/// The first pixel whose centre is within `support` of `centre`, and the one after the last.
fn reach(centre: f64, support: f64) -> [i64; 2] {
    [(centre - support - 0.5).floor() as i64 + 1, (centre + support - 0.5).ceil() as i64]
}

/// The triangle filter: linear interpolation.
fn triangle(distance: f64) -> f64 {
    (1.0 - distance).max(0.0)
}

/// Keys' cubic convolution kernel; IEEE ASSP 29 (1981), equation 15.
fn cubic(distance: f64, a: f64) -> f64 {
    let x = distance;
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        a * (((x - 5.0) * x + 8.0) * x - 4.0)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::geometry::{Border, Geometry};

    fn columns(source: u32, output: u32, filter: Filter) -> Axis {
        let mut geometry = Geometry::new(source, 1);
        geometry.resize([1, output], filter);
        geometry.columns
    }

    fn table(source: u32, output: u32, filter: Filter) -> AxisTable {
        AxisTable::new(&columns(source, output, filter), filter, 56)
    }

    fn at(table: &AxisTable, index: usize) -> (u32, Vec<i32>) {
        (table.first[index], table.at(index).collect())
    }

    #[test]
    fn halving_weighs_four_pixels_fewer_at_the_border() {
        let table = table(8, 4, Filter::BilinearAntialiased);
        assert_eq!(at(&table, 1), (1, vec![7, 21, 21, 7]));
        assert_eq!(at(&table, 0), (0, vec![24, 24, 8, 0]));
        assert_eq!(at(&table, 3), (4, vec![0, 8, 24, 24]));
    }

    #[test]
    fn without_antialiasing_two_pixels_count() {
        let table = table(8, 2, Filter::Bilinear);
        assert_eq!([at(&table, 0), at(&table, 1)], [(1, vec![28, 28]), (5, vec![28, 28])]);
    }

    #[test]
    fn doubling_interpolates_and_repeats_the_border() {
        for filter in [Filter::Bilinear, Filter::BilinearAntialiased] {
            let table = table(2, 4, filter);
            let found = [0, 1, 2, 3].map(|index| at(&table, index));
            let want = [(0, vec![56, 0]), (0, vec![42, 14]), (0, vec![14, 42]), (0, vec![0, 56])];
            assert_eq!(found, want, "{filter:?}");
        }
    }

    #[test]
    fn an_unchanged_size_reads_one_pixel_each() {
        let table = table(3, 3, Filter::Bicubic);
        assert_eq!([0, 1, 2].map(|index| at(&table, index)), [(0, vec![56]), (1, vec![56]), (2, vec![56])]);
    }

    #[test]
    fn nearest_looks_at_corners_or_centres() {
        let pixels = |filter| table(6, 4, filter).first;
        assert_eq!(pixels(Filter::Nearest), [0, 1, 3, 4]);
        assert_eq!(pixels(Filter::NearestExact), [0, 2, 3, 5]);
    }

    #[test]
    fn weights_sum_to_the_unit_exactly() {
        for filter in [Filter::Bilinear, Filter::BilinearAntialiased, Filter::Bicubic, Filter::BicubicAntialiased] {
            for (source, output) in [(500, 224), (3, 224), (301, 7), (1, 5), (5, 1)] {
                let table = AxisTable::new(&columns(source, output, filter), filter, 1 << 16);
                for index in 0..output as usize {
                    let total: i32 = table.at(index).sum();
                    assert_eq!(total, 1 << 16, "{filter:?}, {source} to {output}, pixel {index}");
                    assert!(table.first[index] as usize + table.num_taps <= source as usize);
                }
            }
        }
    }

    #[test]
    fn padding_looks_where_its_border_says() {
        let padded = |border| {
            let mut geometry = Geometry::new(4, 1);
            geometry.pad([0, 3], [0, 2], Some(border));
            let table = AxisTable::new(&geometry.columns, Filter::Nearest, 1);
            assert_eq!((table.window, table.num_taps), ([0, 9], 1));
            table.first
        };
        assert_eq!(padded(Border::Edge), [0, 0, 0, 0, 1, 2, 3, 3, 3]);
        assert_eq!(padded(Border::Reflect), [3, 2, 1, 0, 1, 2, 3, 2, 1]);
        assert_eq!(padded(Border::Symmetric), [2, 1, 0, 0, 1, 2, 3, 3, 2]);
    }

    #[test]
    fn padding_is_resampled_like_the_rest() {
        let mut geometry = Geometry::new(2, 1);
        geometry.pad([0, 1], [0, 1], Some(Border::Edge));
        geometry.resize([1, 2], Filter::BilinearAntialiased);
        let table = AxisTable::new(&geometry.columns, geometry.filter, 56);
        // Of pixels 0 0 1 1 with weights 3 3 1 / 7.
        assert_eq!([at(&table, 0), at(&table, 1)], [(0, vec![48, 8]), (0, vec![8, 48])]);
    }
}
