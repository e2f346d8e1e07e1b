//! Affine maps: rotation, translation, scale and shear about a point, as one map from output to source.
//!
//! Source: torchvision 0.29 `v2.functional.affine` and `rotate`: positions relative to a centre are rotated, sheared,
//! scaled and translated, in this order counted from the source; `rotate` turns the other way round.

use crate::augment::geometry::{Matrix, compose};

/// What an affine step does to an image; the identity by default but for `scale`, which is then 0 and must be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Affine {
    /// Clockwise, in degrees.
    pub(crate) angle_degrees: f64,
    /// To the right and down, in pixels.
    pub(crate) translate: [f64; 2],
    /// Above 1 is larger.
    pub(crate) scale: f64,
    /// Along x, then along y, in degrees.
    pub(crate) shear_degrees: [f64; 2],
}

impl Affine {
    /// Leaves the image as it is.
    pub(crate) const IDENTITY: Self =
        Self { angle_degrees: 0.0, translate: [0.0; 2], scale: 1.0, shear_degrees: [0.0; 2] };

    /// The map from positions in the new image to positions in the old one; both count from `center`, x before y.
    fn inverse(&self) -> Matrix {
        let [angle, shear_x, shear_y] =
            [self.angle_degrees, self.shear_degrees[0], self.shear_degrees[1]].map(f64::to_radians);
        let a = (angle - shear_y).cos() / shear_y.cos();
        let b = -a * shear_x.tan() - angle.sin();
        let c = (angle - shear_y).sin() / shear_y.cos();
        let d = -c * shear_x.tan() + angle.cos();
        let [x, y] = self.translate;
        // The determinant of rotation and shear is 1.
        let [d, b, c, a] = [d, -b, -c, a].map(|entry| entry / self.scale);
        [d, b, -d * x - b * y, c, a, -c * x - a * y, 0.0, 0.0, 1.0]
    }

    /// The map from output to source about `center`, x before y, in an image that keeps its size.
    pub(crate) fn about(&self, center: [f64; 2]) -> Matrix {
        compose(&compose(&moved(center), &self.inverse()), &moved(center.map(|side| -side)))
    }

    /// The same about the middle of an image of `height` × `width`, which grows so that all of it stays visible: the
    /// map, and the new height and width.
    pub(crate) fn expanded(&self, [height, width]: [u32; 2]) -> (Matrix, [u32; 2]) {
        let inverse = self.inverse();
        // Corners go the other way: from the old image to the new one.
        let determinant = inverse[0] * inverse[4] - inverse[1] * inverse[3];
        let half = [f64::from(width) / 2.0, f64::from(height) / 2.0];
        let side = |entries: [f64; 2], half_side: f64| {
            let reach = (entries[0].abs() * half[0] + entries[1].abs() * half[1]) / determinant.abs();
            // torchvision drops what is below 1e-4 of a pixel of an f32, whose rounding makes a right angle exact.
            let edge = |position: f64| (f64::from(position as f32) * 1e4).trunc() / 1e4;
            (edge(half_side + reach).ceil() - edge(half_side - reach).floor()).max(1.0) as u32
        };
        let size = [side([inverse[3], inverse[0]], half[1]), side([inverse[4], inverse[1]], half[0])];
        let middle = [f64::from(size[1]) / 2.0, f64::from(size[0]) / 2.0].map(|side| -side);
        (compose(&compose(&moved(half), &inverse), &moved(middle)), size)
    }
}

/// Moves positions by `x` and `y`.
fn moved([x, y]: [f64; 2]) -> Matrix {
    [1.0, 0.0, x, 0.0, 1.0, y, 0.0, 0.0, 1.0]
}
