//! Solarize: inverts what is bright; and timm's variant that brightens what is dark.
//!
//! Source: torchvision 0.29 `v2.functional.solarize`; timm 1.0 `auto_augment.solarize_add`.

use crate::augment::levels::{Levels, WHITE};

/// Inverts values of at least `threshold`.
pub(crate) fn solarize(rgb: Levels, threshold: i32) -> Levels {
    rgb.map(|value| if value >= threshold { WHITE - value } else { value })
}

/// Adds `addend` to values below `threshold`.
pub(crate) fn solarize_add(rgb: Levels, addend: i32, threshold: i32) -> Levels {
    rgb.map(|value| if value < threshold { (value + addend).min(WHITE) } else { value })
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::WHITE;
    use crate::augment::levels::device::Rgb;

    /// [`super::solarize`].
    #[cube]
    pub(crate) fn solarize(rgb: &Rgb, threshold: i32) -> Rgb {
        Rgb {
            red: select(rgb.red >= threshold, WHITE - rgb.red, rgb.red),
            green: select(rgb.green >= threshold, WHITE - rgb.green, rgb.green),
            blue: select(rgb.blue >= threshold, WHITE - rgb.blue, rgb.blue),
        }
    }

    /// [`super::solarize_add`].
    #[cube]
    pub(crate) fn solarize_add(rgb: &Rgb, addend: i32, threshold: i32) -> Rgb {
        Rgb {
            red: select(rgb.red < threshold, min(rgb.red + addend, comptime!(WHITE)), rgb.red),
            green: select(rgb.green < threshold, min(rgb.green + addend, comptime!(WHITE)), rgb.green),
            blue: select(rgb.blue < threshold, min(rgb.blue + addend, comptime!(WHITE)), rgb.blue),
        }
    }
}
