//! Gamma: every value raised to a power.
//!
//! Source: torchvision 0.29 `v2.functional.adjust_gamma`, `255 gain (v / 255)^gamma`. Powers differ between devices, so
//! the host makes a table of all bytes, and a value between two bytes lies on the straight line between their results.

use crate::augment::levels::{LEVEL, Levels, blend, clamp, level};

/// Words of a table: all bytes, and one more so that every byte has a neighbour.
pub(crate) const NUM_WORDS: usize = 257;

/// The result for every byte.
pub(crate) fn curve(gamma: f64, gain: f64) -> [i32; NUM_WORDS] {
    std::array::from_fn(|byte| level(255.0 * gain * (byte.min(255) as f64 / 255.0).powf(gamma)))
}

/// Looks the values up in `curve`.
pub(crate) fn apply_curve(rgb: Levels, curve: impl Fn(usize) -> i32) -> Levels {
    rgb.map(|value| {
        let byte = (value / LEVEL) as usize;
        clamp(blend(curve(byte), curve(byte + 1), ((value % LEVEL) as u32) << 8))
    })
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::LEVEL;
    use crate::augment::levels::device::{Rgb, blend, limit};

    /// [`super::apply_curve`]; the curve begins at word `start`.
    #[cube]
    pub(crate) fn apply_curve(rgb: &Rgb, words: &[u32], start: usize) -> Rgb {
        Rgb {
            red: look_up(rgb.red, words, start),
            green: look_up(rgb.green, words, start),
            blue: look_up(rgb.blue, words, start),
        }
    }

    #[cube]
    fn look_up(value: i32, words: &[u32], start: usize) -> i32 {
        let value = u32::reinterpret(value);
        let byte = start + (value / comptime!(LEVEL as u32)) as usize;
        let low = i32::reinterpret(words[byte]);
        let high = i32::reinterpret(words[byte + 1]);
        limit(blend(low, high, (value % comptime!(LEVEL as u32)) << 8))
    }
}
