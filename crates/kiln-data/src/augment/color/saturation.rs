//! Saturation: every colour moved towards or away from its own grey.
//!
//! Source: torchvision 0.29 `v2.functional.adjust_saturation`: 0 is a grey image, 1 the image.

use crate::augment::levels::{Levels, blend, clamp, gray};

/// Blends from the grey of the colour to the colour.
pub(crate) fn saturation(rgb: Levels, factor: u32) -> Levels {
    let gray = gray(rgb);
    rgb.map(|value| clamp(blend(gray, value, factor)))
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use crate::augment::levels::device::{Rgb, blend, gray, limit};

    /// [`super::saturation`].
    #[cube]
    pub(crate) fn saturation(rgb: &Rgb, factor: u32) -> Rgb {
        let gray = gray(rgb);
        Rgb {
            red: limit(blend(gray, rgb.red, factor)),
            green: limit(blend(gray, rgb.green, factor)),
            blue: limit(blend(gray, rgb.blue, factor)),
        }
    }
}
