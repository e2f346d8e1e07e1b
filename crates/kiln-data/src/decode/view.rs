//! Which part of a picture is decoded and how much smaller: what is wanted ([`Window`]) and what was done ([`View`]).
//!
//! Both speak of the picture the way it is looked at, after its EXIF orientation; a decoder sees it the way it is stored.
//! `Turn` leads from one to the other.

use std::ops::Range;

use image::metadata::Orientation;

/// What is wanted of a picture: at least these pixels, at no less than this scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// First column and the one after the last, in pixels of the picture.
    pub columns: Range<u32>,
    /// First row and the one after the last.
    pub rows: Range<u32>,
    /// Pixels of the picture that may become one, along each axis: 1, 2, 4 or 8.
    pub scale: u32,
}

impl Window {
    /// All of a picture in its own size.
    pub fn whole(width: u32, height: u32) -> Self {
        Self { columns: 0..width, rows: 0..height, scale: 1 }
    }
}

/// What decoded pixels show: pixel `(x, y)` is the picture's from `left + x * scale` and `top + y * scale` on, `scale`
/// pixels wide and high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Pixels of the picture, width before height.
    pub picture: [u32; 2],
    /// Column of the picture at which the first pixel begins. Less than 0 if a turned picture doesn't end with a pixel.
    pub left: i64,
    /// Row of the picture, likewise.
    pub top: i64,
    /// Pixels of the picture along each side of one decoded: 1, 2, 4 or 8.
    pub scale: u32,
}

impl View {
    /// All of a picture in its own size.
    pub fn whole(width: u32, height: u32) -> Self {
        Self { picture: [width, height], left: 0, top: 0, scale: 1 }
    }
}

/// How a stored picture is turned to be looked at: mirrored along its axes, then its axes swapped.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    mirrors: [bool; 2],
    swaps: bool,
}

impl Turn {
    pub(super) fn new(orientation: Orientation) -> Self {
        use Orientation::*;
        let swaps = matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH);
        let across = matches!(orientation, FlipHorizontal | Rotate180 | Rotate270 | Rotate270FlipH);
        let down = matches!(orientation, FlipVertical | Rotate180 | Rotate90 | Rotate270FlipH);
        Self { mirrors: [across, down], swaps }
    }

    /// A pair of an axis each, from stored to seen or back.
    pub(super) fn swapped<T>(self, [x, y]: [T; 2]) -> [T; 2] {
        if self.swaps { [y, x] } else { [x, y] }
    }

    /// The columns and rows of the stored picture, `size` large, that show what is wanted of it.
    pub(super) fn stored(self, window: &Window, size: [u32; 2]) -> [Range<u32>; 2] {
        let seen = self.swapped([window.columns.clone(), window.rows.clone()]);
        [0, 1].map(|axis| {
            // At least one pixel, and none beyond the picture.
            let start = seen[axis].start.min(size[axis] - 1);
            let end = seen[axis].end.clamp(start + 1, size[axis]);
            if self.mirrors[axis] { size[axis] - end..size[axis] - start } else { start..end }
        })
    }

    /// What pixels show that come from these columns and rows of the reduced stored picture.
    pub(super) fn view(self, reduced: &[Range<u32>; 2], scale: u32, size: [u32; 2]) -> View {
        let corner = [0, 1].map(|axis| {
            let [start, end] = [reduced[axis].start, reduced[axis].end].map(|edge| i64::from(edge) * i64::from(scale));
            if self.mirrors[axis] { i64::from(size[axis]) - end } else { start }
        });
        let [left, top] = self.swapped(corner);
        View { picture: self.swapped(size), left, top, scale }
    }
}
