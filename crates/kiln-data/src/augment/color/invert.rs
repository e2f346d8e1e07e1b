//! Invert: black becomes white.
//!
//! Source: torchvision 0.29 `v2.functional.invert`.

use crate::augment::levels::{Levels, WHITE};

/// White less the colour.
pub(crate) fn invert(rgb: Levels) -> Levels {
    rgb.map(|value| WHITE - value)
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::WHITE;
    use crate::augment::levels::device::Rgb;

    /// [`super::invert`].
    #[cube]
    pub(crate) fn invert(rgb: &Rgb) -> Rgb {
        Rgb { red: WHITE - rgb.red, green: WHITE - rgb.green, blue: WHITE - rgb.blue }
    }
}
