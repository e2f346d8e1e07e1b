//! Colour operations: each a function of the values of one pixel, some with a statistic of the image.

pub(crate) mod autocontrast;
pub(crate) mod brightness;
pub(crate) mod color_jitter;
pub(crate) mod contrast;
pub(crate) mod equalize;
pub(crate) mod gamma;
pub(crate) mod grayscale;
pub(crate) mod hue;
pub(crate) mod invert;
pub(crate) mod posterize;
pub(crate) mod saturation;
pub(crate) mod solarize;
