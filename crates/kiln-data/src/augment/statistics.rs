//! Statistics: what contrast, autocontrast and equalize have to know of a whole image.
//!
//! In: fixed-point levels of an image. Out: the mean grey, each channel's range, or each channel's histogram, as whole
//! numbers: counted and summed in any order they are the same. On a device a cube per image evaluates the program up
//! to the operation and writes the words of [`Statistic`](crate::augment::pixel_op::Statistic).

use crate::augment::levels::{Levels, gray};

/// By how many bits values are rounded so that those of `num_pixels` pixels can be summed in 32 bits.
pub(crate) fn sum_shift(num_pixels: usize) -> u32 {
    num_pixels.next_power_of_two().ilog2().saturating_sub(8)
}

/// The mean of the grey values.
pub(crate) fn mean_gray(image: &[Levels]) -> i32 {
    let shift = sum_shift(image.len());
    let round = |value: i32| (value as u32 + ((1 << shift) >> 1)) >> shift;
    let sum = image.iter().fold(0u32, |sum, rgb| sum + round(gray(*rgb)));
    // As many more places of the quotient as were rounded away.
    ((u64::from(sum) << shift) / image.len().max(1) as u64) as i32
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use crate::augment::color::autocontrast::device::stretch;
    use crate::augment::color::equalize::device::{equalized, nearest_byte};
    use crate::augment::levels::ONE;
    use crate::augment::levels::device::{Rgb, gray};
    use crate::augment::neighbourhood::device::evaluate;
    use crate::augment::pixel_op::code;
    use crate::augment::record::OP_PLACE;

    /// Threads of the cube that looks at an image. Every device allows 256.
    pub(crate) const NUM_THREADS: u32 = 256;
    /// Bins of three channels; the other statistics need fewer words.
    const SHARED_WORDS: usize = 768;

    /// A cube per job; jobs are pairs of layer and operation from word `jobs` on.
    #[cube(launch)]
    pub(crate) fn statistics_kernel(
        pixels: &[u32],         // [words], four bytes each: RGB8 images one after the other
        words: &[u32],          // records
        scratch: &[u32],        // images kept for their neighbourhoods
        statistics: &mut [u32], // those of the stages before, and room for these
        jobs: u32,
        height: u32,
        width: u32,
        #[comptime] shift: u32,
    ) {
        let job = (jobs + CUBE_POS_X * 2) as usize;
        let layer = words[job] as usize;
        let op = words[job + 1] as usize;
        let number = words[op];
        let place = words[op + OP_PLACE] as usize;
        let num_pixels = height * width;
        let shared = Shared::<[Atomic<u32>]>::new_slice(SHARED_WORDS);
        #[unroll]
        for part in 0..3usize {
            // Least values begin at their most.
            let start = select(number == code::AUTOCONTRAST && UNIT_POS < 3 && part == 0, u32::MAX, 0u32);
            shared[part * 256 + UNIT_POS as usize].store(start);
        }
        sync_cube();
        let mut sum = 0u32;
        let mut least = Rgb { red: i32::MAX.runtime(), green: i32::MAX.runtime(), blue: i32::MAX.runtime() };
        let mut most = Rgb { red: 0i32.runtime(), green: 0i32.runtime(), blue: 0i32.runtime() };
        let mut pixel = UNIT_POS;
        while pixel < num_pixels {
            let rgb =
                evaluate(pixels, words, scratch, &*statistics, layer, op, height, width, pixel / width, pixel % width);
            if number == code::CONTRAST {
                sum += (u32::reinterpret(gray(&rgb)) + comptime!((1u32 << shift) >> 1)) >> shift;
            } else if number == code::AUTOCONTRAST {
                least = Rgb {
                    red: min(least.red, rgb.red),
                    green: min(least.green, rgb.green),
                    blue: min(least.blue, rgb.blue),
                };
                most = Rgb {
                    red: max(most.red, rgb.red),
                    green: max(most.green, rgb.green),
                    blue: max(most.blue, rgb.blue),
                };
            } else {
                shared[nearest_byte(rgb.red) as usize].fetch_add(1u32);
                shared[256 + nearest_byte(rgb.green) as usize].fetch_add(1u32);
                shared[512 + nearest_byte(rgb.blue) as usize].fetch_add(1u32);
            }
            pixel += NUM_THREADS;
        }
        if number == code::CONTRAST {
            shared[0].fetch_add(sum);
        } else if number == code::AUTOCONTRAST {
            shared[0].fetch_min(u32::reinterpret(least.red));
            shared[1].fetch_min(u32::reinterpret(least.green));
            shared[2].fetch_min(u32::reinterpret(least.blue));
            shared[3].fetch_max(u32::reinterpret(most.red));
            shared[4].fetch_max(u32::reinterpret(most.green));
            shared[5].fetch_max(u32::reinterpret(most.blue));
        }
        sync_cube();
        if number == code::CONTRAST {
            if UNIT_POS == 0 {
                statistics[place] = mean(shared[0].load(), num_pixels, shift);
            }
        } else if number == code::AUTOCONTRAST {
            if UNIT_POS < 3 {
                let channel = UNIT_POS as usize;
                let least = shared[channel].load();
                let most = shared[channel + 3].load();
                let factor = stretch(least, most);
                statistics[place + 2 * channel] = select(factor == ONE, 0u32, least);
                statistics[place + 2 * channel + 1] = factor;
            }
        } else {
            let byte = UNIT_POS as usize;
            #[unroll]
            for channel in 0..3usize {
                let mut darker = 0u32;
                let mut brightest = 0u32;
                for other in 0..256usize {
                    let count = shared[channel * 256 + other].load();
                    if other < byte {
                        darker += count;
                    }
                    if count > 0 {
                        brightest = count;
                    }
                }
                statistics[place + channel * 256 + byte] = equalized(UNIT_POS, darker, brightest, num_pixels);
            }
        }
    }

    /// `sum / count`, with `shift` binary places, which the sum has lost.
    #[cube]
    fn mean(sum: u32, count: u32, #[comptime] shift: u32) -> u32 {
        let mut quotient = sum / count;
        let mut rest = sum % count;
        for _ in 0..shift {
            rest *= 2;
            quotient = quotient * 2 + select(rest >= count, 1u32, 0u32);
            rest -= select(rest >= count, count, 0u32);
        }
        quotient
    }
}
