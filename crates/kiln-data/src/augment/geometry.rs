//! Geometry: the list's crops, resizes, flips, rotations and perspectives composed into one map from output to source.
//!
//! In: the size of a source image, then one call per step, in the list's order. Out: which source position every
//! output pixel looks at, by what filter, within which box, and what lies outside.
//! Conventions as in PyTorch with `align_corners=False`: pixel `i` covers `[i, i + 1)`, its centre is `i + 0.5`.
//! Source: torchvision 0.29 `v2.functional`: `crop`, `resize`, `pad`, `rotate`, `affine`, `perspective` and the flips.
//!
//! As long as nothing turns or shears the image, rows and columns are two independent lines ([`Axis`]) and the filter
//! is a table of weights per axis (`taps.rs`). From the first step that does, it is a projective map ([`Warp`]) and
//! every output pixel is sampled where it looks (`warp.rs`).
//!
//! One step alone is exactly what torchvision does. A chain is sampled once, where torchvision samples and
//! rounds at every step, so ours is the sharper; five consequences are ours to state:
//! - a crop of a resized image (`resize`, then `random_resized_crop`) has source borders between two pixels:
//!   taps are clipped to them rounded outwards;
//! - a crop beyond the border, then a resize: torchvision blends the image with the fill around it, we
//!   decide by the centre of each output pixel which of the two it shows;
//! - what one rotation or shear pushes out of the frame, a later one can bring back, where torchvision has fill;
//! - an image padded twice with its border goes on as the first padding began, where torchvision mirrors the mirror;
//! - a chain has one filter, the best of its steps', and one fill, the last step's that names one. A chain that makes
//!   smaller with an antialiased filter and turns is averaged over a grid of samples in each output pixel.

/// How the source pixels around a position are weighed, worst first: a chain gets the best of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Filter {
    /// The pixel under the output pixel's first corner; torchvision's `nearest`.
    Nearest,
    /// The pixel under the output pixel's centre; torchvision's `nearest-exact`, and `nearest` of its rotations.
    NearestExact,
    /// A triangle one source pixel wide on either side: two taps an axis, whatever the scale.
    Bilinear,
    /// The same triangle, widened by the factor of the downscale, so that every source pixel counts.
    BilinearAntialiased,
    /// Keys' cubic of PyTorch, a = -0.75: four taps an axis, whatever the scale.
    Bicubic,
    /// Keys' cubic of Pillow, a = -0.5, widened by the factor of the downscale.
    BicubicAntialiased,
}

impl Filter {
    /// Bilinear, antialiased or not.
    pub(crate) fn bilinear(antialias: bool) -> Self {
        if antialias { Self::BilinearAntialiased } else { Self::Bilinear }
    }
}

/// What lies beyond the border of an image that is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Border {
    /// The outermost pixels again and again.
    Edge,
    /// The image mirrored, without repeating the outermost pixel.
    Reflect,
    /// The image mirrored, the outermost pixel twice.
    Symmetric,
}

impl Border {
    /// The pixel of `first..end` that stands for pixel `index`; `first` if there is none.
    pub(crate) fn fold(self, index: i64, [first, end]: [i64; 2]) -> i64 {
        let (index, length) = (index - first, end - first);
        if length <= 1 {
            return first;
        }
        let mirrored = |index: i64, period: i64| {
            let place = index.rem_euclid(period);
            place.min(period - place)
        };
        first
            + match self {
                Self::Edge => index.clamp(0, length - 1),
                Self::Reflect => mirrored(index, 2 * (length - 1)),
                Self::Symmetric => {
                    let place = index.rem_euclid(2 * length);
                    place.min(2 * length - 1 - place)
                }
            }
    }
}

/// What is shown where the source isn't.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fill {
    /// Red, green, blue, 0–255.
    pub(crate) color: [f64; 3],
    /// Whether a step named it. torchvision blends a named fill by the square of the share of the pixel it covers, and
    /// black that nobody named by the share; so do we at the border of a rotated image.
    pub(crate) is_named: bool,
}

impl Fill {
    /// What is shown if no step names anything.
    pub(crate) const BLACK: Self = Self { color: [0.0; 3], is_named: false };

    /// A named colour, or black.
    pub(crate) fn new(color: Option<[u8; 3]>) -> Self {
        color.map_or(Self::BLACK, |color| Self { color: color.map(f64::from), is_named: true })
    }
}

/// A projective map of the plane, row by row: `x' = (m0 x + m1 y + m2) / (m6 x + m7 y + m8)`, `y'` likewise.
pub(crate) type Matrix = [f64; 9];

/// `a` after `b`.
pub(crate) fn compose(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|i| (0..3).map(|k| a[i / 3 * 3 + k] * b[k * 3 + i % 3]).sum())
}

/// Where the pixels of the output lie in the source image.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Geometry {
    /// Top to bottom, as the steps before the first warp have left it.
    pub(crate) rows: Axis,
    /// Left to right, likewise.
    pub(crate) columns: Axis,
    /// From the first step on that turns or shears.
    pub(crate) warp: Option<Warp>,
    /// The best of the steps'; of no consequence where every output pixel is one source pixel.
    pub(crate) filter: Filter,
    /// What is shown where the source isn't.
    pub(crate) fill: Fill,
}

/// A map from output to source that has rows and columns depend on each other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Warp {
    /// From output to source positions.
    pub(crate) matrix: Matrix,
    /// Height and width of the image now.
    pub(crate) size: [u32; 2],
}

/// One axis of a [`Geometry`]: the image as the steps so far have left it, `length` pixels long.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// Pixels of the image now.
    pub(crate) length: u32,
    /// Source position of the image's first edge.
    pub(crate) origin: f64,
    /// Source pixels per pixel of the image; negative if mirrored.
    pub(crate) step: f64,
    /// First source pixel that may be read, and the one after the last; beyond the image where `fold` says how.
    pub(crate) taps: [i64; 2],
    /// Where the source begins and ends, in pixels of the image; what lies outside is fill.
    pub(crate) content: [f64; 2],
    /// How taps beyond `first..end` are brought back into it.
    pub(crate) fold: Option<(Border, [i64; 2])>,
}

impl Geometry {
    /// Starts with the whole source image, unchanged.
    pub(crate) fn new(width: u32, height: u32) -> Self {
        Self {
            rows: Axis::new(height),
            columns: Axis::new(width),
            warp: None,
            filter: Filter::Nearest,
            fill: Fill::BLACK,
        }
    }

    /// Height and width of the image now.
    pub(crate) fn size(&self) -> [u32; 2] {
        self.warp.as_ref().map_or([self.rows.length, self.columns.length], |warp| warp.size)
    }

    /// Keeps `height` × `width` pixels from `top`, `left`; what lies outside the image is fill.
    pub(crate) fn crop(&mut self, [top, left]: [i64; 2], size: [u32; 2]) {
        let size = at_least_one(size);
        match &mut self.warp {
            Some(warp) => warp.prepend([1.0, 0.0, left as f64, 0.0, 1.0, top as f64, 0.0, 0.0, 1.0], size),
            None => {
                self.rows.crop(top, size[0]);
                self.columns.crop(left, size[1]);
            }
        }
    }

    /// Adds pixels around the image: `before` above and left, `after` below and right. Without `border` they are fill.
    pub(crate) fn pad(&mut self, before: [u32; 2], after: [u32; 2], border: Option<Border>) {
        let size = self.size();
        let padded = std::array::from_fn(|axis| size[axis].saturating_add(before[axis]).saturating_add(after[axis]));
        let from_start = before.map(|before| -i64::from(before));
        if let (Some(border), None) = (border, &self.warp) {
            self.rows.pad(before[0], padded[0], border);
            self.columns.pad(before[1], padded[1], border);
        } else {
            self.crop(from_start, padded);
        }
    }

    /// Stretches the image to `height` × `width`, which does nothing to one of that size.
    pub(crate) fn resize(&mut self, size: [u32; 2], filter: Filter) {
        let size = at_least_one(size);
        let now = self.size();
        if now == size {
            return;
        }
        self.filter = self.filter.max(filter);
        match &mut self.warp {
            Some(warp) => {
                let [y, x] = [0, 1].map(|axis| f64::from(now[axis]) / f64::from(size[axis]));
                warp.prepend([x, 0.0, 0.0, 0.0, y, 0.0, 0.0, 0.0, 1.0], size);
            }
            None => {
                self.rows.resize(size[0]);
                self.columns.resize(size[1]);
            }
        }
    }

    /// Mirrors left and right.
    pub(crate) fn flip_horizontally(&mut self) {
        match &mut self.warp {
            Some(warp) => {
                let size = warp.size;
                warp.prepend([-1.0, 0.0, f64::from(size[1]), 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], size);
            }
            None => self.columns.flip(),
        }
    }

    /// Mirrors top and bottom.
    pub(crate) fn flip_vertically(&mut self) {
        match &mut self.warp {
            Some(warp) => {
                let size = warp.size;
                warp.prepend([1.0, 0.0, 0.0, 0.0, -1.0, f64::from(size[0]), 0.0, 0.0, 1.0], size);
            }
            None => self.rows.flip(),
        }
    }

    /// Turns, shears or tilts the image: output position `p` of the new image, `size` large, shows position `map(p)`
    /// of the image as it is now. Positions count from the top left corner, x before y.
    pub(crate) fn warp(&mut self, map: Matrix, size: [u32; 2], filter: Filter, fill: Fill) {
        let size = at_least_one(size);
        self.filter = self.filter.max(filter);
        if fill.is_named {
            self.fill = fill;
        }
        if self.warp.is_none() {
            let (rows, columns) = (&mut self.rows, &mut self.columns);
            rows.hide_what_is_out_of_sight();
            columns.hide_what_is_out_of_sight();
            let matrix = [columns.step, 0.0, columns.origin, 0.0, rows.step, rows.origin, 0.0, 0.0, 1.0];
            self.warp = Some(Warp { matrix, size });
        }
        if let Some(warp) = &mut self.warp {
            warp.prepend(map, size);
        }
    }
}

/// No image is without pixels, whatever was asked for.
fn at_least_one(size: [u32; 2]) -> [u32; 2] {
    size.map(|side| side.max(1))
}

impl Warp {
    /// Looks through `map` first: it leads from the new image, `size` large, to the image as it is now.
    fn prepend(&mut self, map: Matrix, size: [u32; 2]) {
        self.matrix = compose(&self.matrix, &map);
        self.size = size;
    }
}

impl Axis {
    fn new(length: u32) -> Self {
        let whole = [0, i64::from(length)];
        Self { length, origin: 0.0, step: 1.0, taps: whole, content: [0.0, f64::from(length)], fold: None }
    }

    fn crop(&mut self, start: i64, length: u32) {
        self.origin += self.step * start as f64;
        self.content = self.content.map(|edge| (edge - start as f64).clamp(0.0, f64::from(length)));
        self.length = length;
    }

    /// Lengthens the image to `length`, `before` pixels of it in front, filled with what `border` finds. An image that
    /// was padded so before goes on as it began: only one border fits an axis.
    fn pad(&mut self, before: u32, length: u32, border: Border) {
        let [first, end] = self.visible();
        let (border, source) = self.fold.unwrap_or((border, self.taps));
        let inside = [source[0].max(first), source[1].min(end)];
        let is_all_padding = self.fold.is_some() && inside[0] >= inside[1];
        let inside = if is_all_padding { source } else { inside };
        self.origin -= self.step * f64::from(before);
        self.length = length;
        self.content = [0.0, f64::from(length)];
        // What is padded already continues as it began.
        self.fold = self.fold.or(Some((border, inside)));
        self.taps = self.visible();
    }

    /// From here on only what is visible now can be read: torchvision's taps never leave the crop that it resizes.
    fn resize(&mut self, length: u32) {
        if length == self.length {
            return;
        }
        self.hide_what_is_out_of_sight();
        let ratio = f64::from(self.length) / f64::from(length);
        self.step *= ratio;
        self.content = self.content.map(|edge| edge / ratio);
        self.length = length;
    }

    fn flip(&mut self) {
        let length = f64::from(self.length);
        self.origin += self.step * length;
        self.step = -self.step;
        self.content = [length - self.content[1], length - self.content[0]];
    }

    /// The source pixels between the image's edges, rounded outwards.
    fn visible(&self) -> [i64; 2] {
        let edges = [self.origin, self.origin + self.step * f64::from(self.length)];
        [edges[0].min(edges[1]).floor() as i64, edges[0].max(edges[1]).ceil() as i64]
    }

    fn hide_what_is_out_of_sight(&mut self) {
        let [first, end] = self.visible();
        self.taps = [self.taps[0].max(first), self.taps[1].min(end)];
    }

    /// The source pixel to read for tap `index`.
    pub(crate) fn source_pixel(&self, index: i64) -> i64 {
        self.fold.map_or(index, |(border, inside)| border.fold(index, inside))
    }

    /// First output pixel that shows the source, and the one after the last; the rest is fill.
    pub(crate) fn window(&self) -> [u32; 2] {
        // Pixel i shows the source if its centre, i + 0.5, lies in the content.
        let pixel = |edge: f64| (edge - 0.5).ceil().clamp(0.0, f64::from(self.length)) as u32;
        let nothing_to_read = self.taps[0] >= self.taps[1] || self.fold.is_some_and(|(_, [first, end])| first >= end);
        if nothing_to_read { [0, 0] } else { self.content.map(pixel) }
    }
}

impl Geometry {
    /// The source position, x and y, that output position `x`, `y` looks at.
    pub(crate) fn source_position(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        match &self.warp {
            None => [self.columns.origin + self.columns.step * x, self.rows.origin + self.rows.step * y],
            Some(Warp { matrix: m, .. }) => {
                let depth = m[6] * x + m[7] * y + m[8];
                [(m[0] * x + m[1] * y + m[2]) / depth, (m[3] * x + m[4] * y + m[5]) / depth]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source positions of the centres of the output pixels.
    fn centres(axis: &Axis) -> Vec<f64> {
        (0..axis.length).map(|index| axis.origin + axis.step * (f64::from(index) + 0.5)).collect()
    }

    #[test]
    fn a_new_geometry_looks_at_every_pixel_once() {
        let geometry = Geometry::new(4, 2);
        assert_eq!(geometry.size(), [2, 4]);
        assert_eq!(centres(&geometry.columns), [0.5, 1.5, 2.5, 3.5]);
    }

    #[test]
    fn resizing_a_crop_reads_only_the_crop() {
        let mut axis = Axis::new(10);
        axis.crop(3, 4);
        axis.resize(2);
        assert_eq!((centres(&axis), axis.taps), (vec![4.0, 6.0], [3, 7]));
    }

    #[test]
    fn cropping_a_resized_image_reads_around_the_crop() {
        let mut axis = Axis::new(10);
        axis.resize(5);
        axis.crop(1, 2);
        assert_eq!((centres(&axis), axis.taps), (vec![3.0, 5.0], [0, 10]));
    }

    #[test]
    fn a_crop_beyond_the_border_shows_fill_there() {
        let mut axis = Axis::new(4);
        axis.crop(-3, 9);
        assert_eq!(axis.window(), [3, 7]);
        axis.flip();
        assert_eq!(axis.window(), [2, 6]);
        assert_eq!(centres(&axis)[2..6], [3.5, 2.5, 1.5, 0.5]);
    }

    #[test]
    fn a_crop_outside_the_image_reads_nothing() {
        let mut axis = Axis::new(4);
        axis.crop(9, 5);
        axis.resize(3);
        assert_eq!(axis.window(), [0, 0]);
    }

    #[test]
    fn what_a_crop_has_cut_off_stays_hidden() {
        let mut axis = Axis::new(10);
        axis.crop(2, 4);
        axis.crop(-1, 6);
        assert_eq!(axis.window(), [1, 5]);
        assert_eq!(centres(&axis)[1..5], [2.5, 3.5, 4.5, 5.5]);
    }

    #[test]
    fn flipping_twice_changes_nothing() {
        let mut axis = Axis::new(9);
        axis.crop(2, 5);
        axis.resize(10);
        let before = axis.clone();
        axis.flip();
        assert_ne!(axis, before);
        axis.flip();
        assert_eq!(axis, before);
    }

    #[test]
    fn resizing_to_the_same_length_keeps_the_borders_open() {
        let mut axis = Axis::new(9);
        axis.crop(2, 5);
        axis.resize(5);
        assert_eq!(axis.taps, [0, 9]);
    }

    #[test]
    fn padding_beyond_the_border_of_a_crop_folds_into_the_crop() {
        let mut axis = Axis::new(10);
        axis.crop(2, 4);
        axis.pad(3, 9, Border::Reflect);
        assert_eq!((axis.taps, axis.window()), ([-1, 8], [0, 9]));
        let pixels: Vec<i64> = (-1..8).map(|index| axis.source_pixel(index)).collect();
        assert_eq!(pixels, [5, 4, 3, 2, 3, 4, 5, 4, 3]);
    }

    #[test]
    fn a_pixel_that_is_alone_is_its_own_neighbour() {
        for border in [Border::Edge, Border::Reflect, Border::Symmetric] {
            assert_eq!([-3, 7, 9].map(|index| border.fold(index, [7, 8])), [7; 3]);
        }
    }

    #[test]
    fn a_padded_image_that_is_padded_again_reads_only_the_source() {
        for (first, second) in [(Border::Edge, Border::Edge), (Border::Reflect, Border::Symmetric)] {
            let mut geometry = Geometry::new(4, 3);
            geometry.pad([1, 2], [1, 2], Some(first));
            geometry.pad([5, 9], [5, 9], Some(second));
            assert_eq!(geometry.size(), [15, 26]);
            let (border, inside) = geometry.columns.fold.expect("a border");
            assert_eq!((border, inside), (first, [0, 4]));
            for index in geometry.columns.taps[0]..geometry.columns.taps[1] {
                assert!((0..4).contains(&geometry.columns.source_pixel(index)), "{index}");
            }
            // A crop of nothing but padding, padded.
            geometry.crop([0, 0], [2, 2]);
            geometry.pad([1, 1], [1, 1], Some(second));
            assert_eq!(geometry.columns.fold.expect("a border").1, [0, 4]);
        }
    }

    #[test]
    fn steps_before_and_after_a_warp_compose() {
        // A quarter turn of a square: output x looks along source y.
        let turn = [0.0, 1.0, 0.0, -1.0, 0.0, 4.0, 0.0, 0.0, 1.0];
        let mut geometry = Geometry::new(8, 8);
        geometry.crop([2, 1], [4, 4]);
        geometry.warp(turn, [4, 4], Filter::Bilinear, Fill::BLACK);
        assert_eq!(geometry.source_position([0.0, 0.0]), [1.0, 6.0]);
        assert_eq!(geometry.source_position([4.0, 0.0]), [1.0, 2.0]);
        geometry.flip_horizontally();
        geometry.crop([1, 0], [3, 4]);
        geometry.resize([6, 4], Filter::BilinearAntialiased);
        assert_eq!(geometry.size(), [6, 4]);
        assert_eq!(geometry.source_position([4.0, 0.0]), [2.0, 6.0]);
        assert_eq!(geometry.source_position([4.0, 6.0]), [5.0, 6.0]);
        assert_eq!((geometry.columns.taps, geometry.rows.taps), ([1, 5], [2, 6]));
        geometry.flip_vertically();
        assert_eq!(geometry.source_position([4.0, 6.0]), [2.0, 6.0]);
    }
}
