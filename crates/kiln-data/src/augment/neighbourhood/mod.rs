//! Neighbourhoods: operations that read the pixels around each pixel, and how a device evaluates a program around them.
//!
//! No thread sees what its neighbours make, so the image as it is before such an operation is written to memory by a
//! launch of its own (`scratch`), two words a pixel, 2⁻¹³ levels; evaluating the program then begins there.
//! Source: the operations' own files.

pub(crate) mod gaussian_blur;
pub(crate) mod sharpness;

use crate::augment::levels::Levels;

/// An image as it is kept for its neighbourhoods.
pub(crate) fn kept(image: &[Levels]) -> Vec<Levels> {
    image.iter().map(|rgb| rgb.map(|value| value >> KEPT_SHIFT << KEPT_SHIFT)).collect()
}

/// Bits of a value that aren't kept: the others of three channels fill two words.
const KEPT_SHIFT: u32 = 3;

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::KEPT_SHIFT;
    use super::gaussian_blur::device::gaussian_blur;
    use super::sharpness::device::sharpness;
    use crate::augment::levels::device::{Rgb, limit};
    use crate::augment::pixel_op::NUM_PARAMETERS;
    use crate::augment::pixel_op::code;
    use crate::augment::pixel_op::device::apply;
    use crate::augment::record::{LAYER_OPS, OP_BASE, OP_PARAMETERS, OP_PLACE, OP_WORDS};
    use crate::augment::resample::device::resample;

    /// Pixel `index` of the image at word `place` of `scratch`.
    #[cube]
    pub(crate) fn read(scratch: &[u32], place: usize, index: u32) -> Rgb {
        let low = scratch[place + 2 * index as usize];
        let high = scratch[place + 2 * index as usize + 1];
        Rgb {
            red: i32::reinterpret((low & 0x1F_FFFF) << KEPT_SHIFT),
            green: i32::reinterpret(((low >> 21) | ((high & 0x3FF) << 11)) << KEPT_SHIFT),
            blue: i32::reinterpret((high >> 10) << KEPT_SHIFT),
        }
    }

    #[cube]
    fn write(scratch: &mut [u32], place: usize, index: u32, rgb: &Rgb) {
        let red = u32::reinterpret(rgb.red) >> KEPT_SHIFT;
        let green = u32::reinterpret(rgb.green) >> KEPT_SHIFT;
        let blue = u32::reinterpret(rgb.blue) >> KEPT_SHIFT;
        scratch[place + 2 * index as usize] = red | (green << 21);
        scratch[place + 2 * index as usize + 1] = (green >> 11) | (blue << 10);
    }

    /// A pixel of the layer at word `layer`, as it is before the operation at word `op`; for the result of the whole
    /// layer `op` is 0.
    #[cube]
    pub(crate) fn evaluate(
        pixels: &[u32],
        words: &[u32],
        scratch: &[u32],
        statistics: &[u32],
        layer: usize,
        op: usize,
        height: u32,
        width: u32,
        row: u32,
        column: u32,
    ) -> Rgb {
        let first_op = words[layer + LAYER_OPS + 1] as usize;
        let mut base = words[layer + LAYER_OPS + 2];
        let mut end = words[layer + LAYER_OPS];
        if op != 0 {
            base = words[op + OP_BASE];
            end = ((op - first_op) / OP_WORDS) as u32;
        }
        let mut rgb = Rgb { red: 0i32.runtime(), green: 0i32.runtime(), blue: 0i32.runtime() };
        if base == 0 {
            let sampled = resample(pixels, words, layer, height, width, row, column, true);
            let is_last = words[layer + LAYER_OPS] == 0;
            rgb.red = select(is_last, sampled.red, limit(sampled.red));
            rgb.green = select(is_last, sampled.green, limit(sampled.green));
            rgb.blue = select(is_last, sampled.blue, limit(sampled.blue));
        } else {
            rgb = around(words, scratch, first_op + (base - 1) as usize * OP_WORDS, height, width, row, column);
        }
        for index in base..end {
            rgb = apply(&rgb, words, statistics, first_op + index as usize * OP_WORDS);
        }
        rgb
    }

    /// The result of the neighbourhood operation at word `op`.
    #[cube]
    fn around(words: &[u32], scratch: &[u32], op: usize, height: u32, width: u32, row: u32, column: u32) -> Rgb {
        let place = words[op + OP_PLACE] as usize;
        let a = words[op + OP_PARAMETERS];
        let b = words[op + OP_PARAMETERS + 1];
        let table = words[op + OP_PARAMETERS + comptime!(NUM_PARAMETERS - 1)] as usize;
        let mut rgb = sharpness(scratch, place, height, width, row, column, a);
        if words[op] == code::GAUSSIAN_BLUR {
            rgb = gaussian_blur(scratch, place, height, width, row, column, words, table, a, b);
        }
        rgb
    }

    /// Keeps the images of a stage's jobs, pairs of layer and operation from word `jobs` on; z is the job.
    #[cube(launch)]
    pub(crate) fn keep_kernel(
        pixels: &[u32],      // [words], four bytes each: RGB8 images one after the other
        words: &[u32],       // records
        scratch: &mut [u32], // images of the stages before, and room for these
        statistics: &[u32],  // of the stages before
        jobs: u32,
        height: u32,
        width: u32,
    ) {
        let column = ABSOLUTE_POS_X;
        let row = ABSOLUTE_POS_Y;
        if column >= width || row >= height {
            terminate!();
        }
        let job = (jobs + CUBE_POS_Z * 2) as usize;
        let layer = words[job] as usize;
        let op = words[job + 1] as usize;
        let rgb = evaluate(pixels, words, &*scratch, statistics, layer, op, height, width, row, column);
        write(scratch, words[op + OP_PLACE] as usize, row * width + column, &rgb);
    }
}
