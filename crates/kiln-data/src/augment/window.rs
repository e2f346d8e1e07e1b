//! What a program reads of its source image, and the same program for a source of which only that was decoded.
//!
//! In: a [`Program`] drawn for a whole picture. Out: the [`Window`] that it reads, at the scale that still leaves it a
//! pixel for every pixel it makes, before anything is decoded; then the program that does the same to the decoded
//! [`View`]. Draws come before both, so they don't know of them.
//!
//! Without a scale the result is the same picture: positions move by whole pixels. With one, the decoder's filter has
//! done a part of the antialiasing, so pixels differ slightly. Filters that don't antialias are never given a scale, since
//! which pixels they skip is their result; nor are borders that mirror, which repeat single pixels.

use crate::augment::geometry::{Axis, Filter, Geometry, Warp, compose};
use crate::augment::program::Program;
use crate::decode::{View, Window};

/// The scales a decoder has, largest first.
const SCALES: [u32; 3] = [8, 4, 2];

impl Program {
    /// What the program reads of its source, and how much smaller that may be decoded: so that what it makes still has a
    /// source pixel for each of its own.
    pub fn window(&self) -> Window {
        let [width, height] = self.source();
        let geometries = || self.layers.iter().map(|layer| &layer.geometry);
        let ranges: Vec<[[i64; 2]; 2]> = geometries().map(Geometry::reads).collect();
        let range = |axis: usize, length: u32| {
            let start = ranges.iter().map(|range| range[axis][0]).min().unwrap_or(0).clamp(0, i64::from(length) - 1);
            let end = ranges.iter().map(|range| range[axis][1]).max().unwrap_or(0).clamp(start + 1, i64::from(length));
            start as u32..end as u32
        };
        let step = geometries().map(Geometry::source_pixels_per_pixel).fold(f64::INFINITY, f64::min);
        let scale = SCALES.into_iter().find(|&scale| f64::from(scale) <= step).unwrap_or(1);
        Window { columns: range(0, width), rows: range(1, height), scale }
    }

    /// The program for an image of `width` × `height` that is `view` of the picture it was drawn for.
    pub(crate) fn through(mut self, view: &View, width: u32, height: u32) -> Self {
        if *view != View::whole(width, height) {
            self.set_source([width, height]);
            self.layers.iter_mut().for_each(|layer| layer.geometry.look_through(view, [width, height]));
        }
        self
    }
}

impl Geometry {
    /// First column and the one after the last, then rows, that may be read.
    fn reads(&self) -> [[i64; 2]; 2] {
        let axes = [&self.columns, &self.rows];
        match &self.warp {
            None => axes.map(Axis::reads),
            Some(warp) => {
                let corners = warp.corners();
                let is_in_front = corners.iter().all(|corner| warp.depth(*corner) > 0.0)
                    || corners.iter().all(|corner| warp.depth(*corner) < 0.0);
                [0, 1].map(|index| {
                    let axis = axes[index];
                    let positions = corners.map(|corner| self.source_position(corner)[index]);
                    match axis.fold {
                        // Behind the horizon anything may be seen.
                        None if is_in_front => axis.readable(positions, 2.0),
                        _ => axis.all(),
                    }
                })
            }
        }
    }

    /// How many source pixels lie between two pixels of the output, along the axis where they are fewest; 0 where it
    /// matters which of them are read.
    fn source_pixels_per_pixel(&self) -> f64 {
        let is_antialiased = matches!(self.filter, Filter::BilinearAntialiased | Filter::BicubicAntialiased);
        if !is_antialiased || self.columns.fold.is_some() || self.rows.fold.is_some() {
            return 0.0;
        }
        match &self.warp {
            None => self.columns.step.abs().min(self.rows.step.abs()),
            Some(warp) => warp.corners().into_iter().map(|corner| warp.least_stretch(corner)).fold(f64::MAX, f64::min),
        }
    }

    fn look_through(&mut self, view: &View, [width, height]: [u32; 2]) {
        let scale = f64::from(view.scale);
        self.columns.look_through(view.left, scale, width);
        self.rows.look_through(view.top, scale, height);
        if let Some(warp) = &mut self.warp {
            let [left, top] = [view.left, view.top].map(|edge| -edge as f64 / scale);
            let to_view = [scale.recip(), 0.0, left, 0.0, scale.recip(), top, 0.0, 0.0, 1.0];
            warp.matrix = compose(&to_view, &warp.matrix);
        }
    }
}

impl Axis {
    /// The source pixels that tables of this axis may have taps in.
    fn reads(&self) -> [i64; 2] {
        // A cubic reaches two of its steps to either side.
        let reach = 2.0 * self.step.abs().max(1.0) + 1.0;
        let edges = [self.origin, self.origin + self.step * f64::from(self.length)];
        if self.fold.is_some() { self.all() } else { self.readable(edges, reach) }
    }

    /// All that may be read.
    fn all(&self) -> [i64; 2] {
        self.fold.map_or(self.taps, |(_, inside)| inside)
    }

    /// What may be read around some positions.
    fn readable<const N: usize>(&self, positions: [f64; N], reach: f64) -> [i64; 2] {
        let first = positions.into_iter().fold(f64::INFINITY, f64::min) - reach;
        let last = positions.into_iter().fold(f64::NEG_INFINITY, f64::max) + reach;
        [self.taps[0].max(first.floor() as i64), self.taps[1].min(last.ceil() as i64)]
    }

    fn look_through(&mut self, first: i64, scale: f64, length: u32) {
        let position = |edge: f64| (edge - first as f64) / scale;
        self.origin = position(self.origin);
        self.step /= scale;
        let [start, end] = self.taps.map(|tap| position(tap as f64));
        self.taps = [start.floor() as i64, end.ceil() as i64];
        match &mut self.fold {
            Some((_, inside)) => *inside = inside.map(|pixel| position(pixel as f64) as i64),
            None => self.taps = [self.taps[0].max(0), self.taps[1].min(i64::from(length))],
        }
    }
}

impl Warp {
    fn corners(&self) -> [[f64; 2]; 4] {
        let [height, width] = self.size.map(f64::from);
        [[0.0, 0.0], [width, 0.0], [0.0, height], [width, height]]
    }

    fn depth(&self, [x, y]: [f64; 2]) -> f64 {
        self.matrix[6] * x + self.matrix[7] * y + self.matrix[8]
    }

    /// The distance that a step of one output pixel makes in the source, in the direction in which it is shortest.
    fn least_stretch(&self, [x, y]: [f64; 2]) -> f64 {
        let m = &self.matrix;
        let depth = self.depth([x, y]);
        let position = [0, 3].map(|row| (m[row] * x + m[row + 1] * y + m[row + 2]) / depth);
        let slope = |row: usize, axis: usize| (m[row * 3 + axis] - position[row] * m[6 + axis]) / depth;
        let [a, b, c, d] = [slope(0, 0), slope(0, 1), slope(1, 0), slope(1, 1)];
        // The smaller singular value of the Jacobian.
        let (squares, area) = (a * a + b * b + c * c + d * d, a * d - b * c);
        ((squares - (squares * squares - 4.0 * area * area).max(0.0).sqrt()) / 2.0).max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::geometry::Fill;

    #[test]
    fn a_crop_reads_itself_at_the_scale_that_leaves_it_the_outputs_pixels() {
        let window = |size: [u32; 2], filter: Filter| {
            let mut program = Program::new(4000, 3000);
            program.crop([100, 200], size);
            program.resize([224, 224], filter);
            program.flip_horizontally();
            program.window()
        };
        let antialiased = Filter::BilinearAntialiased;
        assert_eq!(window([1792, 2000], antialiased), Window { columns: 200..2200, rows: 100..1892, scale: 8 });
        assert_eq!(window([1791, 2000], antialiased).scale, 4);
        assert_eq!(window([448, 3000], antialiased).scale, 2);
        assert_eq!(window([447, 3000], antialiased).scale, 1);
        assert_eq!(window([1792, 2000], Filter::Bilinear).scale, 1, "it matters which pixels are skipped");
    }

    #[test]
    fn a_crop_of_a_resized_image_reads_as_far_as_its_filter() {
        let mut program = Program::new(1000, 1000);
        program.resize([500, 500], Filter::BilinearAntialiased);
        program.crop([100, 490], [10, 10]);
        // Columns 980 to 1000, rows 200 to 220, and five pixels around them.
        assert_eq!(program.window(), Window { columns: 975..1000, rows: 195..225, scale: 2 });
    }

    #[test]
    fn a_crop_outside_of_the_image_reads_one_pixel() {
        let mut program = Program::new(50, 40);
        program.crop([60, -90], [10, 10]);
        assert_eq!(program.window(), Window { columns: 0..1, rows: 39..40, scale: 1 });
    }

    #[test]
    fn a_turned_image_reads_the_box_around_it() {
        let mut program = Program::new(400, 400);
        program.crop([100, 100], [200, 200]);
        // A quarter turn, then a tenth of it in the middle.
        program.warp([0.0, 1.0, 0.0, -1.0, 0.0, 200.0, 0.0, 0.0, 1.0], [200, 200], Filter::Bilinear, Fill::BLACK);
        program.crop([90, 90], [20, 20]);
        assert_eq!(program.window(), Window { columns: 188..212, rows: 188..212, scale: 1 });
    }

    #[test]
    fn a_program_says_the_same_of_what_it_looks_through() {
        let mut program = Program::new(400, 300);
        program.crop([40, 100], [80, 160]);
        program.resize([20, 20], Filter::BilinearAntialiased);
        let view = View { picture: [400, 300], left: 96, top: 40, scale: 4 };
        let seen = program.through(&view, 41, 20);
        assert_eq!(seen.source_box(), [0.0, 1.0, 20.0, 41.0]);
        assert!(seen.reads_within(41, 20));
    }
}
