//! Levels: the fixed-point values in which all picture arithmetic is done, so that it is the same on every device.
//!
//! A value is a byte level, 0–255, in units of 2⁻¹⁶, in an `i32`; a factor is in units of 2⁻²⁴, in a `u32`. Products
//! are truncated, so that every operation is a function of whole numbers: no device, compiler or order of summation
//! changes a bit of the result, and a step such as posterize falls on the same side of its threshold everywhere.
//! An operation is off by at most a few units, 1e-7 of the range; PyTorch's f32 has the same precision.

/// One byte level.
pub(crate) const LEVEL: i32 = 1 << 16;
/// The brightest value, level 255.
pub(crate) const WHITE: i32 = 255 * LEVEL;
/// A factor of 1.
pub(crate) const ONE: u32 = 1 << 24;
/// The largest factor: beyond, every value would be black or white anyway.
const MAX_FACTOR: f64 = 100.0;

/// The weights of red, green and blue in a grey value, as factors; torchvision's `rgb_to_grayscale`.
pub(crate) const GRAY_WEIGHTS: [u32; 3] = [5_014_710, 9_848_226, 1_912_603];

/// Red, green and blue of one pixel.
pub(crate) type Levels = [i32; 3];

/// Rounds a factor to its fixed-point form, from 0 to 100.
pub(crate) fn factor(value: f64) -> u32 {
    // `as` makes 0 of NaN.
    (value.clamp(0.0, MAX_FACTOR) * f64::from(ONE)).round() as u32
}

/// Rounds a level, 0–255, to its fixed-point form.
pub(crate) fn level(value: f64) -> i32 {
    (value.clamp(0.0, 255.0) * f64::from(LEVEL)).round() as i32
}

/// `value` times `factor`, for a value from 0 to 256 levels and a product below 2³² units.
#[inline(always)]
pub(crate) fn scale(value: i32, factor: u32) -> i32 {
    ((u64::from(value as u32) * u64::from(factor)) >> 24) as i32
}

/// `start + (end - start) * factor`: beyond `end` for a factor above 1. The difference is at most 256 levels.
#[inline(always)]
pub(crate) fn blend(start: i32, end: i32, factor: u32) -> i32 {
    let part = scale((end - start).abs(), factor);
    if end < start { start - part } else { start + part }
}

/// Between black and white.
#[inline(always)]
pub(crate) fn clamp(value: i32) -> i32 {
    value.clamp(0, WHITE)
}

/// The grey value of a colour.
#[inline(always)]
pub(crate) fn gray(rgb: Levels) -> i32 {
    scale(rgb[0], GRAY_WEIGHTS[0]) + scale(rgb[1], GRAY_WEIGHTS[1]) + scale(rgb[2], GRAY_WEIGHTS[2])
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device.

    use cubecl::prelude::*;

    use super::{GRAY_WEIGHTS, WHITE};

    /// Red, green and blue of one pixel.
    #[derive(CubeType, CubeTypeMut, Clone, Copy)]
    pub(crate) struct Rgb {
        pub(crate) red: i32,
        pub(crate) green: i32,
        pub(crate) blue: i32,
    }

    /// [`super::scale`].
    #[cube]
    pub(crate) fn scale(value: i32, factor: u32) -> i32 {
        i32::reinterpret((u32::reinterpret(value) << 8).mul_hi(factor))
    }

    /// [`super::blend`].
    #[cube]
    pub(crate) fn blend(start: i32, end: i32, factor: u32) -> i32 {
        let part = scale((end - start).abs(), factor);
        select(end < start, start - part, start + part)
    }

    /// [`super::clamp`].
    #[cube]
    pub(crate) fn limit(value: i32) -> i32 {
        clamp(value, 0i32, comptime!(WHITE))
    }

    /// [`super::gray`].
    #[cube]
    pub(crate) fn gray(rgb: &Rgb) -> i32 {
        scale(rgb.red, comptime!(GRAY_WEIGHTS[0]))
            + scale(rgb.green, comptime!(GRAY_WEIGHTS[1]))
            + scale(rgb.blue, comptime!(GRAY_WEIGHTS[2]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_of_one_changes_nothing() {
        for value in [0, 1, LEVEL, 12_345_678, WHITE] {
            assert_eq!(scale(value, ONE), value);
            assert_eq!((blend(777, value, ONE), blend(value, 777, 0)), (value, value));
        }
    }

    #[test]
    fn a_blend_goes_either_way_and_beyond() {
        assert_eq!(blend(10 * LEVEL, 20 * LEVEL, factor(0.5)), 15 * LEVEL);
        assert_eq!(blend(20 * LEVEL, 10 * LEVEL, factor(1.5)), 5 * LEVEL);
        assert_eq!(clamp(blend(20 * LEVEL, 10 * LEVEL, factor(3.0))), 0);
    }

    #[test]
    fn factors_that_are_no_numbers_are_something() {
        assert_eq!([f64::NAN, -1.0, f64::INFINITY].map(factor), [0, 0, 100 * ONE]);
        assert_eq!([f64::NAN, -1.0, f64::INFINITY].map(level), [0, 0, WHITE]);
    }

    #[test]
    fn gray_weighs_as_torchvision_does() {
        for (weight, want) in GRAY_WEIGHTS.iter().zip([0.2989, 0.587, 0.114]) {
            assert_eq!(*weight, factor(want));
        }
        assert_eq!(gray([0, WHITE, 0]), scale(WHITE, factor(0.587)));
    }
}
