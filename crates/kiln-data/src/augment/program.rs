//! A program: all that is to happen to one image, drawn on the host and run by one launch.
//!
//! In: what the steps of an [`Augment`](super::Augment) drew. Out: [`Program`]; its form on a device is in `record.rs`.
//! Usually a program is one [`Layer`]: where to look ([`Geometry`]) and what to do with what is seen ([`PixelOp`]s).
//! A step that mixes an image with itself, such as AugMix, makes several, whose weighted sum is the result.
//! Not done here: drawing (each step's own file), mixing different images (`mixing`), running (`run.rs`).

use crate::augment::geometry::{Border, Fill, Filter, Geometry, Matrix};
use crate::augment::pixel_op::PixelOp;

/// Layers of a program at most: each is evaluated for every pixel.
pub(crate) const MAX_LAYERS: usize = 64;

/// What to do to one image, from source pixels to the model's input.
///
/// Drawn by [`Augment::draw`](super::Augment::draw); a value that can be compared and printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// At least one; the weights sum to 1.
    pub(crate) layers: Vec<Layer>,
    /// Rectangles of the output to paint over, the last on top.
    pub(crate) erased: Vec<Erased>,
    /// Width and height of the source image.
    source: [u32; 2],
}

/// One way of looking at the image.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layer {
    /// Share in the result.
    pub(crate) weight: f64,
    /// Which source pixels each output pixel is made of.
    pub(crate) geometry: Geometry,
    /// What happens to the values, in order.
    pub(crate) ops: Vec<PixelOp>,
}

/// A rectangle of the output that is painted over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Erased {
    /// Top, left, bottom and right in output pixels; the last two are outside.
    pub(crate) region: [u32; 4],
    pub(crate) paint: Paint,
}

/// What an erased rectangle is painted with, in units of the normalised output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Paint {
    /// Red, green and blue.
    Constant([f32; 3]),
    /// A normally distributed value for every pixel and channel, from the generator under this key.
    Noise { key: u64 },
}

impl Program {
    /// Starts with the whole image of `width` × `height`, unchanged.
    pub(crate) fn new(width: u32, height: u32) -> Self {
        let layer = Layer { weight: 1.0, geometry: Geometry::new(width, height), ops: Vec::new() };
        Self { layers: vec![layer], erased: Vec::new(), source: [width, height] }
    }

    /// Height and width of the image that the program makes.
    pub fn size(&self) -> [u32; 2] {
        self.layers[0].geometry.size()
    }

    /// Width and height of the image that the program was drawn for.
    pub(crate) fn source(&self) -> [u32; 2] {
        self.source
    }

    /// Width and height of the image that the program will be run on instead.
    pub(crate) fn set_source(&mut self, source: [u32; 2]) {
        self.source = source;
    }

    /// Says whether the program can be run on an image of `width` × `height`.
    pub(crate) fn reads_within(&self, width: u32, height: u32) -> bool {
        self.source == [width, height]
    }

    /// The source box that the output shows: top, left, bottom and right, in pixels of the source image.
    ///
    /// Left is greater than right if the program mirrors the image, likewise top and bottom; a box beyond the image
    /// shows fill there. Of an image that is turned, sheared or tilted: the corners, top left and bottom right.
    pub fn source_box(&self) -> [f64; 4] {
        let geometry = &self.layers[0].geometry;
        let [height, width] = geometry.size().map(f64::from);
        let [[left, top], [right, bottom]] =
            [[0.0, 0.0], [width, height]].map(|corner| geometry.source_position(corner));
        [top, left, bottom, right]
    }

    /// Keeps `height` × `width` pixels from `top`, `left`; what lies outside the image is fill.
    pub(crate) fn crop(&mut self, corner: [i64; 2], size: [u32; 2]) {
        self.each_geometry(|geometry| geometry.crop(corner, size));
    }

    /// Adds pixels around the image: `before` above and left, `after` below and right. Without `border` they are fill.
    pub(crate) fn pad(&mut self, before: [u32; 2], after: [u32; 2], border: Option<Border>) {
        self.each_geometry(|geometry| geometry.pad(before, after, border));
    }

    /// Stretches the image to `height` × `width`.
    pub(crate) fn resize(&mut self, size: [u32; 2], filter: Filter) {
        self.each_geometry(|geometry| geometry.resize(size, filter));
    }

    /// Mirrors left and right.
    pub(crate) fn flip_horizontally(&mut self) {
        self.each_geometry(Geometry::flip_horizontally);
    }

    /// Mirrors top and bottom.
    pub(crate) fn flip_vertically(&mut self) {
        self.each_geometry(Geometry::flip_vertically);
    }

    /// Turns, shears or tilts the image, see [`Geometry::warp`].
    pub(crate) fn warp(&mut self, map: Matrix, size: [u32; 2], filter: Filter, fill: Fill) {
        self.each_geometry(|geometry| geometry.warp(map, size, filter, fill));
    }

    /// Names what is shown outside the image.
    pub(crate) fn set_fill(&mut self, fill: Fill) {
        self.each_geometry(|geometry| geometry.fill = fill);
    }

    /// Adds a pixel operation after those there are.
    pub(crate) fn push(&mut self, op: PixelOp) {
        self.layers.iter_mut().for_each(|layer| layer.ops.push(op.clone()));
    }

    /// Paints over a rectangle of the output.
    pub(crate) fn erase(&mut self, erased: Erased) {
        self.erased.push(erased);
    }

    /// Replaces the program by a weighted sum of copies of itself, each changed by `change`. Weights sum to 1.
    pub(crate) fn split(&mut self, weights: &[f64], mut change: impl FnMut(usize, &mut Self)) {
        let copies = weights.iter().enumerate().flat_map(|(index, weight)| {
            let mut copy = self.clone();
            copy.layers.iter_mut().for_each(|layer| layer.weight *= weight);
            change(index, &mut copy);
            copy.layers
        });
        self.layers = copies.collect();
    }

    fn each_geometry(&mut self, change: impl FnMut(&mut Geometry)) {
        self.layers.iter_mut().map(|layer| &mut layer.geometry).for_each(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_which_box_it_shows() {
        let mut program = Program::new(50, 40);
        program.crop([4, 10], [20, 30]);
        program.resize([10, 10], Filter::BilinearAntialiased);
        assert_eq!(program.source_box(), [4.0, 10.0, 24.0, 40.0]);
        program.flip_horizontally();
        assert_eq!(program.source_box(), [4.0, 40.0, 24.0, 10.0]);
        program.flip_vertically();
        assert_eq!(program.source_box(), [24.0, 40.0, 4.0, 10.0]);
        assert_eq!(program.size(), [10, 10]);
    }

    #[test]
    fn a_split_weighs_changed_copies() {
        let mut program = Program::new(5, 4);
        program.push(PixelOp::Invert);
        program.split(&[0.25, 0.75], |index, copy| {
            if index == 1 {
                copy.flip_horizontally();
            }
        });
        program.push(PixelOp::Grayscale);
        let weights: Vec<f64> = program.layers.iter().map(|layer| layer.weight).collect();
        assert_eq!(weights, [0.25, 0.75]);
        assert!(program.layers.iter().all(|layer| layer.ops == [PixelOp::Invert, PixelOp::Grayscale]));
        assert_ne!(program.layers[0].geometry, program.layers[1].geometry);
    }
}
