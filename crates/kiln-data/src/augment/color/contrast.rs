//! Contrast: every value moved towards or away from the mean grey of the image.
//!
//! Source: torchvision 0.29 `v2.functional.adjust_contrast`: 0 is all mean grey, 1 the image.
//! The mean is a statistic of the image as the steps before have left it.

use crate::augment::levels::{Levels, blend, clamp};

/// Blends from `mean`, the image's mean grey value, to the colour.
pub(crate) fn contrast(rgb: Levels, mean: i32, factor: u32) -> Levels {
    rgb.map(|value| clamp(blend(mean, value, factor)))
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use crate::augment::levels::device::{Rgb, blend, limit};

    /// [`super::contrast`].
    #[cube]
    pub(crate) fn contrast(rgb: &Rgb, mean: i32, factor: u32) -> Rgb {
        Rgb {
            red: limit(blend(mean, rgb.red, factor)),
            green: limit(blend(mean, rgb.green, factor)),
            blue: limit(blend(mean, rgb.blue, factor)),
        }
    }
}
