//! Brightness: every value times a factor.
//!
//! Source: torchvision 0.29 `v2.functional.adjust_brightness`: 0 is black, 1 the image, beyond 1 brighter, clamped.

use crate::augment::levels::{Levels, clamp, scale};

/// Scales all channels by `factor`, see [`levels`](crate::augment::levels).
pub(crate) fn brightness(rgb: Levels, factor: u32) -> Levels {
    rgb.map(|value| clamp(scale(value, factor)))
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use crate::augment::levels::device::{Rgb, limit, scale};

    /// [`super::brightness`].
    #[cube]
    pub(crate) fn brightness(rgb: &Rgb, factor: u32) -> Rgb {
        Rgb {
            red: limit(scale(rgb.red, factor)),
            green: limit(scale(rgb.green, factor)),
            blue: limit(scale(rgb.blue, factor)),
        }
    }
}
