//! Equalize: maps each channel so that its histogram becomes as flat as it can.
//!
//! Source: torchvision 0.29 `v2.functional.equalize`, after Pillow's `ImageOps.equalize`. Like torchvision's for float
//! images, ours works on the nearest byte of each value and gives bytes.

use crate::augment::levels::{LEVEL, clamp};

/// Words of the statistic: a byte for every byte of every channel.
pub(crate) const NUM_WORDS: usize = 3 * 256;

/// The byte nearest to a value.
#[inline(always)]
pub(crate) fn nearest_byte(value: i32) -> usize {
    ((clamp(value) + LEVEL / 2) / LEVEL) as usize
}

/// The byte that each byte of a channel becomes.
pub(crate) fn equalizing(histogram: &[u32; 256]) -> [u32; 256] {
    let total: u32 = histogram.iter().sum();
    let brightest = histogram.iter().rposition(|count| *count > 0).unwrap_or(0);
    let step = (total - histogram[brightest]) / 255;
    if step == 0 {
        return std::array::from_fn(|byte| byte as u32);
    }
    let mut darker = 0;
    histogram.map(|count| {
        let place = (darker + step / 2) / step;
        darker += count;
        place.min(255)
    })
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::LEVEL;
    use crate::augment::levels::device::limit;

    /// [`super::nearest_byte`].
    #[cube]
    pub(crate) fn nearest_byte(value: i32) -> u32 {
        u32::reinterpret(limit(value) + comptime!(LEVEL / 2)) / comptime!(LEVEL as u32)
    }

    /// [`super::equalizing`], for one byte: `darker` pixels are darker, `brightest` have the brightest byte there is.
    #[cube]
    pub(crate) fn equalized(byte: u32, darker: u32, brightest: u32, total: u32) -> u32 {
        let step = (total - brightest) / 255;
        let place = min((darker + step / 2) / max(step, 1u32), 255u32);
        select(step == 0, byte, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_histogram_stays() {
        assert_eq!(equalizing(&[3; 256]), std::array::from_fn(|byte| byte as u32));
    }

    #[test]
    fn few_pixels_or_one_brightness_stay() {
        let mut histogram = [0; 256];
        histogram[9] = 100_000;
        assert_eq!(equalizing(&histogram)[9], 9);
        histogram[9] = 1;
        histogram[70] = 100;
        assert_eq!(equalizing(&histogram)[70], 70);
    }

    #[test]
    fn two_brightnesses_are_drawn_apart() {
        let mut histogram = [0; 256];
        (histogram[100], histogram[101]) = (510, 510);
        let map = equalizing(&histogram);
        assert_eq!([map[0], map[100], map[101], map[102]], [0, 0, 255, 255]);
    }
}
