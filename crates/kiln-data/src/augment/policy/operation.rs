//! The operations of the published policies: a name and an argument become a part of a program.
//!
//! Source: torchvision 0.29 `v2` policies (`_apply_image_or_video_transform`) and timm 1.0 `auto_augment.py`, which
//! do the same: they shear about the top left corner and turn counter-clockwise about the middle.

use super::Sampling;
use crate::augment::color::posterize::PosterizeRange;
use crate::augment::geometric::affine::Affine;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;

/// What timm's `SolarizeAdd` adds to: levels below this.
const SOLARIZE_ADD_THRESHOLD: f64 = 128.0;

/// An operation, by torchvision's name; one of timm's beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// Nothing; without argument.
    Identity,
    /// Source pixels to the right per pixel down.
    ShearX,
    /// Source pixels down per pixel to the right.
    ShearY,
    /// Pixels to the right.
    TranslateX,
    /// Pixels down.
    TranslateY,
    /// Degrees, counter-clockwise.
    Rotate,
    /// Factor.
    Brightness,
    /// Factor of the saturation.
    Color,
    /// Factor.
    Contrast,
    /// Factor.
    Sharpness,
    /// Bits that stay, of which the fraction doesn't count.
    Posterize,
    /// The darkest level that is inverted.
    Solarize,
    /// Levels that are added to the darker half; timm's.
    SolarizeAdd,
    /// Without argument.
    AutoContrast,
    /// Without argument.
    Equalize,
    /// Without argument.
    Invert,
}

impl Operation {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 16] = [
        Self::Identity,
        Self::ShearX,
        Self::ShearY,
        Self::TranslateX,
        Self::TranslateY,
        Self::Rotate,
        Self::Brightness,
        Self::Color,
        Self::Contrast,
        Self::Sharpness,
        Self::Posterize,
        Self::Solarize,
        Self::SolarizeAdd,
        Self::AutoContrast,
        Self::Equalize,
        Self::Invert,
    ];

    /// The operation of torchvision's name.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| format!("{operation:?}") == name)
    }

    /// Whether the operation takes an image further in some direction.
    pub(crate) fn is_geometric(self) -> bool {
        matches!(self, Self::ShearX | Self::ShearY | Self::TranslateX | Self::TranslateY | Self::Rotate)
    }

    /// Whether the operation's argument is a factor, 1 of which is the image.
    pub(crate) fn is_enhancement(self) -> bool {
        matches!(self, Self::Brightness | Self::Color | Self::Contrast | Self::Sharpness)
    }

    /// Whether torchvision draws the sign of the magnitude.
    pub(crate) fn is_signed(self) -> bool {
        self.is_geometric() || self.is_enhancement()
    }

    /// The argument that torchvision makes of a magnitude: it counts factors from 1, and moves by whole pixels.
    pub(crate) fn argument(self, magnitude: f64) -> f64 {
        match self {
            Self::TranslateX | Self::TranslateY => magnitude.trunc(),
            _ if self.is_enhancement() => 1.0 + magnitude,
            _ => magnitude,
        }
    }

    /// Adds the operation to `program`.
    pub(crate) fn apply(self, argument: f64, sampling: Sampling, program: &mut Program) {
        if self == Self::Identity {
            return;
        }
        match self.pixel_op(argument) {
            Some(op) => program.push(op),
            None => self.warp(argument, sampling, program),
        }
    }

    /// The operation on values, if it is one.
    fn pixel_op(self, argument: f64) -> Option<PixelOp> {
        Some(match self {
            Self::Brightness => PixelOp::Brightness { factor: argument },
            Self::Color => PixelOp::Saturation { factor: argument },
            Self::Contrast => PixelOp::Contrast { factor: argument },
            Self::Sharpness => PixelOp::Sharpness { factor: argument },
            Self::Posterize => PixelOp::Posterize { bits: argument as u32, range: PosterizeRange::Bytes },
            Self::Solarize => PixelOp::Solarize { threshold: argument },
            Self::SolarizeAdd => PixelOp::SolarizeAdd { addend: argument, threshold: SOLARIZE_ADD_THRESHOLD },
            Self::AutoContrast => PixelOp::Autocontrast,
            Self::Equalize => PixelOp::Equalize,
            Self::Invert => PixelOp::Invert,
            Self::Identity | Self::ShearX | Self::ShearY | Self::TranslateX | Self::TranslateY | Self::Rotate => {
                return None;
            }
        })
    }

    fn warp(self, argument: f64, sampling: Sampling, program: &mut Program) {
        let size = program.size();
        let shear = argument.atan().to_degrees();
        let (affine, center) = match self {
            Self::ShearX => (Affine { shear_degrees: [shear, 0.0], ..Affine::IDENTITY }, [0.0; 2]),
            Self::ShearY => (Affine { shear_degrees: [0.0, shear], ..Affine::IDENTITY }, [0.0; 2]),
            Self::TranslateX => (Affine { translate: [argument, 0.0], ..Affine::IDENTITY }, [0.0; 2]),
            Self::TranslateY => (Affine { translate: [0.0, argument], ..Affine::IDENTITY }, [0.0; 2]),
            _ => {
                let middle = [f64::from(size[1]) / 2.0, f64::from(size[0]) / 2.0];
                (Affine { angle_degrees: -argument, ..Affine::IDENTITY }, middle)
            }
        };
        program.warp(affine.about(center), size, sampling.filter, sampling.fill);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::interpolation::Interpolation;

    fn applied(operation: Operation, argument: f64) -> Program {
        let mut program = Program::new(20, 10);
        operation.apply(argument, Sampling::new(Interpolation::Nearest, None), &mut program);
        program
    }

    #[test]
    fn every_operation_changes_a_program_once() {
        for operation in Operation::ALL {
            let program = applied(operation, 0.5);
            let layer = &program.layers[0];
            let num_changes = usize::from(layer.geometry.warp.is_some()) + layer.ops.len();
            assert_eq!(num_changes, usize::from(operation != Operation::Identity), "{operation:?}");
            assert_eq!(layer.geometry.warp.is_some(), operation.is_geometric(), "{operation:?}");
        }
    }

    #[test]
    fn geometric_arguments_are_pixels_slopes_and_degrees() {
        let position =
            |operation, argument| applied(operation, argument).layers[0].geometry.source_position([4.0, 6.0]);
        let near = |found: [f64; 2], want: [f64; 2]| (0..2).all(|axis| (found[axis] - want[axis]).abs() < 1e-9);
        assert!(near(position(Operation::ShearX, 0.5), [7.0, 6.0]));
        assert!(near(position(Operation::ShearY, 0.5), [4.0, 8.0]));
        assert!(near(position(Operation::TranslateX, 3.0), [1.0, 6.0]));
        assert!(near(position(Operation::TranslateY, -3.0), [4.0, 9.0]));
        assert!(near(position(Operation::Rotate, 90.0), [9.0, -1.0]));
    }

    #[test]
    fn torchvision_counts_factors_from_one_and_moves_by_whole_pixels() {
        assert_eq!(Operation::Color.argument(-0.25), 0.75);
        assert_eq!([Operation::TranslateX.argument(3.9), Operation::TranslateY.argument(-3.9)], [3.0, -3.0]);
        assert_eq!(Operation::Rotate.argument(-12.5), -12.5);
    }

    #[test]
    fn names_are_torchvisions() {
        assert_eq!(Operation::named("AutoContrast"), Some(Operation::AutoContrast));
        assert_eq!(Operation::named("autocontrast"), None);
    }
}
