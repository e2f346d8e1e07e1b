//! Hue: every colour turned around the hexagon of hues; its brightest and darkest channel values stay.
//!
//! Source: torchvision 0.29 `v2.functional.adjust_hue`, which goes through HSV (Smith, SIGGRAPH 1978). Along the
//! hexagon's border the three channels are trapezoids of the position, so no division is needed: the position is
//! measured in units of the chroma, six of which are the whole way around.

use crate::augment::levels::{Levels, ONE, scale};

/// Rounds an angle in turns, of which only the fraction counts, to sextants as a factor.
pub(crate) fn sextants(turns: f64) -> u32 {
    // `as` makes 0 of NaN.
    (turns.rem_euclid(1.0) * 6.0 * f64::from(ONE)).round() as u32
}

/// Turns the hue by `sextants`, below 6.
pub(crate) fn hue([red, green, blue]: Levels, sextants: u32) -> Levels {
    let most = red.max(green).max(blue);
    let least = red.min(green).min(blue);
    let chroma = most - least;
    let position = if most == red {
        green - blue
    } else if most == green {
        2 * chroma + blue - red
    } else {
        4 * chroma + red - green
    };
    let turned = position + scale(chroma, sextants);
    let turned = if turned < 0 { turned + 6 * chroma } else { turned };
    let turned = if turned >= 6 * chroma { turned - 6 * chroma } else { turned };
    let slope = |value: i32| least + value.clamp(0, chroma);
    [
        slope((turned - 3 * chroma).abs() - chroma),
        slope(2 * chroma - (turned - 2 * chroma).abs()),
        slope(2 * chroma - (turned - 4 * chroma).abs()),
    ]
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use crate::augment::levels::device::{Rgb, scale};

    /// [`super::hue`].
    #[cube]
    pub(crate) fn hue(rgb: &Rgb, sextants: u32) -> Rgb {
        let most = max(max(rgb.red, rgb.green), rgb.blue);
        let least = min(min(rgb.red, rgb.green), rgb.blue);
        let chroma = most - least;
        let green_or_blue =
            select(most == rgb.green, 2 * chroma + rgb.blue - rgb.red, 4 * chroma + rgb.red - rgb.green);
        let position = select(most == rgb.red, rgb.green - rgb.blue, green_or_blue);
        let turned = position + scale(chroma, sextants);
        let turned = select(turned < 0, turned + 6 * chroma, turned);
        let turned = select(turned >= 6 * chroma, turned - 6 * chroma, turned);
        Rgb {
            red: least + clamp((turned - 3 * chroma).abs() - chroma, 0i32, chroma),
            green: least + clamp(2 * chroma - (turned - 2 * chroma).abs(), 0i32, chroma),
            blue: least + clamp(2 * chroma - (turned - 4 * chroma).abs(), 0i32, chroma),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::levels::WHITE;

    #[test]
    fn a_third_of_a_turn_moves_the_channels_on() {
        assert_eq!(hue([WHITE, 0, 0], sextants(1.0 / 3.0)), [0, WHITE, 0]);
        assert_eq!(hue([0, WHITE, 0], sextants(1.0 / 3.0)), [0, 0, WHITE]);
        assert_eq!(hue([0, 0, WHITE], sextants(-2.0 / 3.0)), [WHITE, 0, 0]);
        assert_eq!(hue([WHITE, 0, 0], sextants(1.0 / 6.0)), [WHITE, WHITE, 0]);
    }

    #[test]
    fn no_turn_and_grey_stay_as_they_are() {
        for rgb in [[1, 2, 3], [3, 1, 2], [900, 70_000, 5], [WHITE, 12, WHITE], [4, 4, 4], [0, 9, 9]] {
            assert_eq!(hue(rgb, 0), rgb);
            assert_eq!(hue(rgb, sextants(1.0)), rgb);
        }
        assert_eq!(hue([7; 3], sextants(0.4)), [7; 3]);
    }
}
