//! The one scan of a baseline JPEG to planes of samples: only those asked for, at the scale asked for.
//!
//! In: a [`Frame`], its coded data, the MCUs wanted and the scale. Out: a [`Plane`] per component. Every code is read to
//! the end of the file, so that a damaged file is found whatever is wanted of it; what isn't wanted costs no more than that.
//! Source: ITU-T T.81, annex F.2.

use std::ops::Range;

use multiversion::multiversion;

use super::bits::{Bits, Coded};
use super::frame::{Component, Frame};
use super::idct::{Block, ZIGZAG, flat, inverse};

/// Samples of one component, of all wanted MCUs.
pub(super) struct Plane {
    pub(super) samples: Vec<u8>,
    /// Samples per row.
    pub(super) stride: usize,
    /// Samples of a block, across and down.
    block: [usize; 2],
}

/// What is wanted of a picture: MCUs across and down, and how much smaller, 1, 2, 4 or 8.
pub(super) struct Wanted {
    pub(super) mcus: [Range<usize>; 2],
    pub(super) scale: usize,
}

impl Wanted {
    pub(super) fn num_mcus(&self) -> usize {
        self.mcus[0].len() * self.mcus[1].len()
    }
}

impl Plane {
    fn new(component: &Component, sampling: [usize; 2], wanted: &Wanted) -> Self {
        // Subsampled chroma gets as near to the size of the luma as its blocks go.
        let block = [0, 1].map(|axis| (8 * sampling[axis] / component.blocks[axis] / wanted.scale).min(8));
        let [width, height] = [0, 1].map(|axis| wanted.mcus[axis].len() * component.blocks[axis] * block[axis]);
        Self { samples: vec![0; width * height], stride: width, block }
    }
}

/// Decodes the scan. `None` if anything in it isn't as it must be.
pub(super) fn planes(frame: &Frame, coded: &Coded, num_mcus: [usize; 2], wanted: &Wanted) -> Option<Vec<Plane>> {
    let of = |component: &Component| Plane::new(component, frame.sampling, wanted);
    let mut planes: Vec<Plane> = frame.components.iter().map(of).collect();
    let total = num_mcus[0] * num_mcus[1];
    let interval = if frame.restart_interval == 0 { total } else { frame.restart_interval };
    if coded.num_segments() != total.div_ceil(interval) {
        return None;
    }
    for index in 0..coded.num_segments() {
        let mcus = index * interval..total.min((index + 1) * interval);
        decode_segment(frame, coded.segment(index)?, mcus, num_mcus[0], wanted, &mut planes)?;
    }
    Some(planes)
}

/// One restart interval: the MCUs of these numbers, `per_row` in a row.
#[multiversion(targets = "simd")]
fn decode_segment(
    frame: &Frame,
    bits: Bits,
    mcus: Range<usize>,
    per_row: usize,
    wanted: &Wanted,
    planes: &mut [Plane],
) -> Option<()> {
    decode_mcus(frame, bits, mcus, per_row, wanted, planes)
}

// Closures inside the function above would be compiled for its processor and no longer be inlined.
#[inline(always)]
fn decode_mcus(
    frame: &Frame,
    mut bits: Bits,
    mcus: Range<usize>,
    per_row: usize,
    wanted: &Wanted,
    planes: &mut [Plane],
) -> Option<()> {
    let mut predictions = [0i32; 3];
    let mut block: Block = [0; 64];
    for mcu in mcus {
        let (column, row) = (mcu % per_row, mcu / per_row);
        let is_wanted = wanted.mcus[0].contains(&column) && wanted.mcus[1].contains(&row);
        for ((component, plane), prediction) in frame.components.iter().zip(&mut *planes).zip(&mut predictions) {
            let [across, down] = component.blocks;
            for number in 0..across * down {
                *prediction = prediction.wrapping_add(component.dc.difference(&mut bits)?);
                if !is_wanted {
                    component.ac.coefficients(&mut bits, 0, |_, _| ())?;
                    continue;
                }
                let x = ((column - wanted.mcus[0].start) * across + number % across) * plane.block[0];
                let y = ((row - wanted.mcus[1].start) * down + number / across) * plane.block[1];
                let samples = &mut plane.samples[y * plane.stride + x..];
                decode_block(component, &mut bits, *prediction, &mut block, plane.block, samples, plane.stride)?;
            }
        }
        if bits.is_exceeded() {
            return None;
        }
    }
    bits.ended().then_some(())
}

/// The rest of a block behind its mean, to samples.
#[inline(always)]
fn decode_block(
    component: &Component,
    bits: &mut Bits,
    mean: i32,
    block: &mut Block,
    size: [usize; 2],
    samples: &mut [u8],
    stride: usize,
) -> Option<()> {
    // The place in zigzag order of the last coefficient of a square of this size.
    let last = match size[0].max(size[1]) {
        8 => 63,
        4 => 24,
        _ => 4,
    };
    let mean = mean.wrapping_mul(component.steps[0]);
    if size == [1, 1] {
        component.ac.coefficients(bits, 0, |_, _| ())?;
        flat(mean, size, samples, stride);
        return Some(());
    }
    let mut is_flat = true;
    component.ac.coefficients(bits, last, |place, value| {
        let place = usize::from(ZIGZAG[place & 63]);
        block[place] = value.wrapping_mul(component.steps[place]);
        is_flat = false;
    })?;
    if is_flat {
        flat(mean, size, samples, stride);
    } else {
        block[0] = mean;
        match size {
            [8, 8] => inverse(block, [8, 8], samples, stride),
            [4, 4] => inverse(block, [4, 4], samples, stride),
            [2, 2] => inverse(block, [2, 2], samples, stride),
            size => inverse(block, size, samples, stride),
        }
        *block = [0; 64];
    }
    Some(())
}
