//! Interpolation: the filters that a recipe can ask for, by torchvision's names.
//!
//! Source: torchvision 0.29 `InterpolationMode`; which of them are there is what its tensor functions have.

use serde::{Deserialize, Serialize};

use crate::augment::geometry::Filter;

/// How the source pixels around a position are weighed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The pixel under an output pixel's first corner, as old OpenCV and PyTorch do it; of a rotation the nearest pixel.
    Nearest,
    /// The nearest pixel.
    NearestExact,
    /// A straight line between two pixels.
    #[default]
    Bilinear,
    /// A cubic through four pixels.
    Bicubic,
}

impl Interpolation {
    /// The filter of a resize; `antialias` widens it when making smaller, which nearest pixels ignore.
    pub(crate) fn resizing(self, antialias: bool) -> Filter {
        match (self, antialias) {
            (Self::Nearest, _) => Filter::Nearest,
            (Self::NearestExact, _) => Filter::NearestExact,
            (Self::Bilinear, antialias) => Filter::bilinear(antialias),
            (Self::Bicubic, false) => Filter::Bicubic,
            (Self::Bicubic, true) => Filter::BicubicAntialiased,
        }
    }

    /// The filter of a rotation, shear or perspective.
    pub(crate) fn warping(self) -> Filter {
        match self {
            Self::Nearest | Self::NearestExact => Filter::NearestExact,
            Self::Bilinear | Self::Bicubic => Filter::Bilinear,
        }
    }

    /// The problem of the interpolation for a rotation, shear or perspective, if it is one.
    pub(crate) fn warping_problem(self) -> Option<String> {
        let possible = self != Self::Bicubic;
        (!possible).then(|| "interpolation is bicubic, which only resizing has; use bilinear or nearest".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_torchvisions() {
        let read = |json| serde_json::from_str::<Interpolation>(json).expect(json);
        assert_eq!(read(r#""nearest_exact""#).resizing(true), Filter::NearestExact);
        assert_eq!(read(r#""bicubic""#).resizing(true), Filter::BicubicAntialiased);
        assert_eq!(read(r#""bicubic""#).resizing(false), Filter::Bicubic);
        assert_eq!(read(r#""nearest""#).warping(), Filter::NearestExact);
        assert!(serde_json::from_str::<Interpolation>(r#""lanczos""#).is_err());
    }

    #[test]
    fn only_a_resize_is_bicubic() {
        let problems = [Interpolation::Nearest, Interpolation::Bilinear, Interpolation::Bicubic]
            .map(|interpolation| interpolation.warping_problem().is_some());
        assert_eq!(problems, [false, false, true]);
    }
}
