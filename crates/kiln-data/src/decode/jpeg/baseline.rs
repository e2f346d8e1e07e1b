//! Baseline JPEGs, decoded no further than what is wanted of them.
//!
//! In: the bytes of a file and a [`Window`]. Out: RGB8 of that window and the [`View`] it is. At 1/2, 1/4 and 1/8 a block
//! becomes 4×4, 2×2 or 1 pixel; blocks that the window doesn't touch are only read. Whatever isn't entirely as the
//! standard says gives `None`: then the general decoder decides, so that a file's verdict doesn't depend on the window.
//!
//! A window gives the same pixels as cutting it out of the whole picture at the same scale.

use std::ops::Range;

use image::DynamicImage;

use super::super::view::{Turn, View, Window};
use super::super::{RgbImage, oriented};
use super::bits::Coded;
use super::colour::{Cut, rgb};
use super::frame::Frame;
use super::scan::{Wanted, planes};

/// Most pixels to make: planes of more would take more memory than the general decoder's rows of blocks.
const MAX_PIXELS: usize = 1 << 24;

/// Pixels of luma beside the window that interpolated chroma looks at.
const MARGIN: u32 = 2;

/// Decodes the window of a picture.
pub(super) fn decode(encoded: &[u8], mut frame: Frame, window: &Window) -> Option<(RgbImage, View)> {
    let (size, scale) = ([frame.width, frame.height], window.scale);
    let turn = Turn::new(frame.orientation);
    let reduced = turn.stored(window, size).map(|range| range.start / scale..range.end.div_ceil(scale));
    let [width, height] = [reduced[0].len(), reduced[1].len()];
    if width * height > MAX_PIXELS {
        return None;
    }
    let coded = Coded::new(encoded, frame.data)?;
    let mcu = frame.sampling.map(|blocks| 8 * blocks as u32);
    let num_mcus = [0, 1].map(|axis| size[axis].div_ceil(mcu[axis]) as usize);
    let mcus = [0, 1].map(|axis| {
        let range = &reduced[axis];
        let start = (range.start * scale).saturating_sub(MARGIN) / mcu[axis];
        let end = (range.end * scale + MARGIN).min(size[axis]).div_ceil(mcu[axis]);
        start as usize..end as usize
    });
    let wanted = Wanted { mcus, scale: scale as usize };
    if wanted.num_mcus() < num_mcus[0] * num_mcus[1] || scale > 1 {
        frame.components.iter_mut().for_each(|component| component.ac.prepare_to_skip());
    }
    let planes = planes(&frame, &coded, num_mcus, &wanted)?;
    let pixels = rgb(&planes, &cut(&frame, &wanted, &reduced));
    let raw = image::RgbImage::from_raw(width as u32, height as u32, pixels)?;
    Some((oriented(DynamicImage::ImageRgb8(raw), frame.orientation), turn.view(&reduced, scale, size)))
}

/// Where in the planes of `wanted` the columns and rows of the reduced picture are.
fn cut(frame: &Frame, wanted: &Wanted, reduced: &[Range<u32>; 2]) -> Cut {
    let [columns, rows] = [0, 1].map(|axis| {
        let first = wanted.mcus[axis].start * 8 * frame.sampling[axis] / wanted.scale;
        reduced[axis].start as usize - first..reduced[axis].end as usize - first
    });
    // Reduced, subsampled chroma has as many samples as luma.
    let sharing = if wanted.scale == 1 { frame.sampling } else { [1, 1] };
    let inside = [0, 1].map(|axis| {
        let side = [frame.width, frame.height][axis] as usize;
        let num_inside = side.div_ceil(wanted.scale * sharing[axis]);
        let per_mcu = 8 * frame.sampling[axis] / sharing[axis] / wanted.scale;
        let Range { start, end } = wanted.mcus[axis];
        [0, (num_inside - start * per_mcu).min((end - start) * per_mcu) - 1]
    });
    Cut { columns, rows, sharing, inside }
}
