//! Grayscale: every channel becomes the grey of the colour.
//!
//! Source: torchvision 0.29 `v2.functional.rgb_to_grayscale`; the weights are ITU-R BT.601's, of which the sum is 0.9999.

use crate::augment::levels::{Levels, gray};

/// The grey of the colour, three times.
pub(crate) fn grayscale(rgb: Levels) -> Levels {
    [gray(rgb); 3]
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use crate::augment::levels::device::{Rgb, gray};

    /// [`super::grayscale`].
    #[cube]
    pub(crate) fn grayscale(rgb: &Rgb) -> Rgb {
        let gray = gray(rgb);
        Rgb { red: gray, green: gray, blue: gray }
    }
}
