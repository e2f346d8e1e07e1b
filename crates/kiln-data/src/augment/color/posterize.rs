//! Posterize: fewer steps between black and white.
//!
//! Source: torchvision 0.29 `v2.functional.posterize`. On bytes it clears all but the highest bits, so that the brightest
//! step is darker than white; on floats it divides 0–1 evenly and names each step by its lower end.

use crate::augment::levels::{LEVEL, Levels, WHITE};

/// What is divided into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PosterizeRange {
    /// Bytes, 0–255, of which the highest bits stay; what policies are published with.
    Bytes,
    /// Fractions, 0–1, as torchvision does with float images.
    #[cfg_attr(not(test), expect(dead_code, reason = "the scalar twin is compared with torchvision in both forms"))]
    Fractions,
}

/// Size of a step, and the number of steps, that `bits` give: all of 8 or more, one of none.
pub(crate) fn steps(bits: u32, range: PosterizeRange) -> [i32; 2] {
    let count = 1 << bits.min(8);
    match range {
        PosterizeRange::Bytes => [(256 / count) * LEVEL, count],
        PosterizeRange::Fractions => [WHITE / count, count],
    }
}

/// Rounds down to a multiple of `step`, at most the `count`-th.
pub(crate) fn posterize(rgb: Levels, [step, count]: [i32; 2]) -> Levels {
    rgb.map(|value| (value / step).min(count - 1) * step)
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use crate::augment::levels::device::Rgb;

    /// [`super::posterize`].
    #[cube]
    pub(crate) fn posterize(rgb: &Rgb, step: i32, count: i32) -> Rgb {
        Rgb {
            red: min(rgb.red / step, count - 1) * step,
            green: min(rgb.green / step, count - 1) * step,
            blue: min(rgb.blue / step, count - 1) * step,
        }
    }
}
