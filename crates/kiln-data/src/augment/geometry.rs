//! Geometry: the list's crops, resizes and flips composed into one map from output to source pixel.
//!
//! In: the size of a source image, then one call per step, in the list's order. Out: for either axis a
//! straight line from output pixel to source position, the source pixels that may be read, and the part of
//! the output that shows the image, as [`AxisRecord`]s, the integers that the kernel and its scalar twin read.
//! Conventions as in PyTorch with `align_corners=False`: pixel `i` covers `[i, i + 1)`, its centre is `i + 0.5`.
//! Source: torchvision 0.29 `functional.crop`, `resize`, `center_crop` and `horizontal_flip`.
//!
//! One step alone is exactly what torchvision does. A chain is sampled once, where torchvision samples and
//! rounds at every resize, so ours is the sharper; two consequences are ours to state:
//! - a crop of a resized image (`resize`, then `random_resized_crop`) has source borders between two pixels:
//!   taps are clipped to them rounded outwards;
//! - a crop beyond the border, then a resize: torchvision blends the image with the black around it, we
//!   decide by the centre of each output pixel which of the two it shows.
//!
//! Not done here: rotation, shear and perspective, which make the axes depend on each other.

/// Fraction bits of the fixed-point positions in an [`AxisRecord`].
const FRACTION_BITS: u32 = 32;

/// How the source pixels around a position are weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// A triangle one source pixel wide on either side: two taps an axis, whatever the scale.
    Bilinear,
    /// The same triangle, widened by the factor of the downscale, so that every source pixel counts.
    BilinearAntialiased,
}

impl Filter {
    /// Bilinear, antialiased or not.
    pub(crate) fn bilinear(antialias: bool) -> Self {
        if antialias { Self::BilinearAntialiased } else { Self::Bilinear }
    }
}

/// Where the pixels of the output lie in the source image.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Geometry {
    /// Top to bottom.
    pub(crate) rows: Axis,
    /// Left to right.
    pub(crate) columns: Axis,
    /// That of the last step that resizes; of no consequence at scale 1.
    pub(crate) filter: Filter,
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
    /// First source pixel that may be read, and the one after the last.
    pub(crate) taps: [u32; 2],
    /// Where the source begins and ends, in pixels of the image; what lies outside is fill.
    pub(crate) content: [f64; 2],
}

impl Geometry {
    /// Starts with the whole source image, unchanged.
    pub(crate) fn new(width: u32, height: u32) -> Self {
        Self { rows: Axis::new(height), columns: Axis::new(width), filter: Filter::BilinearAntialiased }
    }

    /// Height and width of the image now.
    pub(crate) fn size(&self) -> [u32; 2] {
        [self.rows.length, self.columns.length]
    }

    /// Keeps `height` × `width` pixels from `top`, `left`; what lies outside the image is fill.
    pub(crate) fn crop(&mut self, [top, left]: [i64; 2], [height, width]: [u32; 2]) {
        self.rows.crop(top, height);
        self.columns.crop(left, width);
    }

    /// Stretches the image to `height` × `width`, which does nothing to one of that size.
    pub(crate) fn resize(&mut self, [height, width]: [u32; 2], filter: Filter) {
        if self.size() != [height, width] {
            self.rows.resize(height);
            self.columns.resize(width);
            self.filter = filter;
        }
    }

    /// Mirrors left and right.
    pub(crate) fn flip_horizontally(&mut self) {
        self.columns.flip();
    }
}

impl Axis {
    fn new(length: u32) -> Self {
        Self { length, origin: 0.0, step: 1.0, taps: [0, length], content: [0.0, f64::from(length)] }
    }

    fn crop(&mut self, start: i64, length: u32) {
        self.origin += self.step * start as f64;
        self.content = self.content.map(|edge| (edge - start as f64).clamp(0.0, f64::from(length)));
        self.length = length;
    }

    /// From here on only what is visible now can be read: torchvision's taps never leave the crop that it resizes.
    fn resize(&mut self, length: u32) {
        if length == self.length {
            return;
        }
        let edges = [self.origin, self.origin + self.step * f64::from(self.length)];
        let visible = [edges[0].min(edges[1]).floor(), edges[0].max(edges[1]).ceil()];
        // `as` saturates: an edge before the image's beginning is 0.
        self.taps = [self.taps[0].max(visible[0] as u32), self.taps[1].min(visible[1] as u32)];
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

    /// Rounds the axis to what the kernel reads.
    pub(crate) fn record(&self, filter: Filter) -> AxisRecord {
        let fixed = |value: f64| (value * f64::from(FRACTION_BITS).exp2()).round() as i64;
        // Pixel i shows the source if its centre, i + 0.5, lies in the content.
        let pixel = |edge: f64| (edge - 0.5).ceil().clamp(0.0, f64::from(self.length)) as u32;
        let nothing_to_read = self.taps[0] >= self.taps[1];
        AxisRecord {
            origin: fixed(self.origin + self.step * 0.5),
            step: fixed(self.step),
            taps: self.taps,
            window: if nothing_to_read { [0, 0] } else { self.content.map(pixel) },
            support: match filter {
                Filter::Bilinear => 1.0,
                Filter::BilinearAntialiased => self.step.abs().max(1.0) as f32,
            },
        }
    }
}

/// One axis as the kernel and its scalar twin read it.
///
/// Positions are fixed point because they must be the same integers on every device: a position in f32 is off by
/// 3e-5 of a pixel at 500 pixels and more beyond, and compilers differ in where they contract a product and a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AxisRecord {
    /// Source position of the centre of output pixel 0, in 2⁻³² pixels.
    pub(crate) origin: i64,
    /// Source distance between two output pixels, in 2⁻³² pixels.
    pub(crate) step: i64,
    /// First source pixel that may be read, and the one after the last.
    pub(crate) taps: [u32; 2],
    /// First output pixel that shows the source, and the one after the last; the rest is fill.
    pub(crate) window: [u32; 2],
    /// Half the width of the triangle filter, in source pixels, at least 1.
    pub(crate) support: f32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source positions of the centres of the output pixels.
    fn centres(axis: &Axis) -> Vec<f64> {
        let AxisRecord { origin, step, .. } = axis.record(Filter::BilinearAntialiased);
        (0..i64::from(axis.length)).map(|i| (origin + step * i) as f64 / 2f64.powi(32)).collect()
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
        assert_eq!(centres(&axis), [4.0, 6.0]);
        assert_eq!(axis.record(Filter::BilinearAntialiased).taps, [3, 7]);
        assert_eq!(axis.record(Filter::BilinearAntialiased).support, 2.0);
        assert_eq!(axis.record(Filter::Bilinear).support, 1.0);
    }

    #[test]
    fn cropping_a_resized_image_reads_around_the_crop() {
        let mut axis = Axis::new(10);
        axis.resize(5);
        axis.crop(1, 2);
        assert_eq!(centres(&axis), [3.0, 5.0]);
        assert_eq!(axis.record(Filter::BilinearAntialiased).taps, [0, 10]);
    }

    #[test]
    fn a_crop_beyond_the_border_shows_fill_there() {
        let mut axis = Axis::new(4);
        axis.crop(-3, 9);
        assert_eq!(axis.record(Filter::Bilinear).window, [3, 7]);
        axis.flip();
        assert_eq!(axis.record(Filter::Bilinear).window, [2, 6]);
        assert_eq!(centres(&axis)[2..6], [3.5, 2.5, 1.5, 0.5]);
    }

    #[test]
    fn a_crop_outside_the_image_reads_nothing() {
        let mut axis = Axis::new(4);
        axis.crop(9, 5);
        axis.resize(3);
        assert_eq!(axis.record(Filter::Bilinear).window, [0, 0]);
    }

    #[test]
    fn what_a_crop_has_cut_off_stays_hidden() {
        let mut axis = Axis::new(10);
        axis.crop(2, 4);
        axis.crop(-1, 6);
        assert_eq!(axis.record(Filter::Bilinear).window, [1, 5]);
        assert_eq!(centres(&axis)[1..5], [2.5, 3.5, 4.5, 5.5]);
    }

    #[test]
    fn flipping_twice_changes_nothing() {
        let mut axis = Axis::new(9);
        axis.crop(2, 5);
        axis.resize(10);
        let before = axis.record(Filter::BilinearAntialiased);
        axis.flip();
        assert_ne!(axis.record(Filter::BilinearAntialiased), before);
        axis.flip();
        assert_eq!(axis.record(Filter::BilinearAntialiased), before);
    }

    #[test]
    fn resizing_to_the_same_length_keeps_the_borders_open() {
        let mut axis = Axis::new(9);
        axis.crop(2, 5);
        axis.resize(5);
        assert_eq!(axis.taps, [0, 9]);
    }
}
