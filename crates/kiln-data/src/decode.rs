//! One encoded picture to RGB bytes, or a verdict that says why not.
//!
//! In: the bytes of a file; the name plays no part. Out: [`RgbImage`], 8 bits a channel, always three channels.
//! - Size: the declared dimensions are checked before anything is decoded.
//! - EXIF orientation 1–8 is applied (JPEG, PNG, WebP); a broken or unknown value counts as 1.
//! - Grey is repeated, palettes are looked up, CMYK and YCCK are converted, 16 bits keep their high byte.
//! - Alpha is composited on white, the page most pictures with alpha were made for.
//! - Of an animation the first frame is taken.
//! - A truncated file is refused, as Pillow does and the JPEG decoder alone doesn't (see `decode/jpeg.rs`).
//!
//! A decoder that panics is caught and gives [`DecodeError::Panicked`]. The same bytes give the same verdict.
//! Decoders: zune-jpeg 0.5, and `image` 0.25 for the rest. Not done here: decoding at reduced scale, colour profiles.

mod jpeg;
pub(crate) mod sniff;

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits};
use serde::{Deserialize, Serialize};

/// A decoded picture, the way it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RgbImage {
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// RGB8 `[height, width, 3]`, rows tightly packed.
    pub pixels: Vec<u8>,
}

/// What a file may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecodeLimits {
    /// Most pixels a file may declare. Default 178,956,970 (512 MiB of RGB), the size at which Pillow
    /// raises `DecompressionBombError`: what trains with PyTorch isn't refused here.
    pub max_pixels: u64,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { max_pixels: 178_956_970 }
    }
}

/// The formats Kiln decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImageFormat {
    /// JPEG, baseline and progressive.
    Jpeg,
    /// PNG.
    Png,
    /// WebP, lossy and lossless.
    WebP,
    /// Windows bitmap.
    Bmp,
    /// GIF, its first frame.
    Gif,
}

impl fmt::Display for ImageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::WebP => "WebP",
            Self::Bmp => "BMP",
            Self::Gif => "GIF",
        })
    }
}

/// Why a file isn't a usable picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not a single byte.
    #[error("the file is empty")]
    Empty,
    /// The first bytes belong to no format we decode.
    #[error("not a JPEG, PNG, WebP, BMP or GIF but {found}")]
    UnknownFormat {
        /// What the bytes look like, with a remedy if there is one.
        found: String,
    },
    /// The header declares more pixels than allowed. Nothing was decoded.
    #[error("declares {width}x{height} pixels, more than max_pixels = {max_pixels}")]
    TooLarge {
        /// Declared width.
        width: u32,
        /// Declared height.
        height: u32,
        /// The limit in force.
        max_pixels: u64,
    },
    /// The file ends before the picture does.
    #[error("truncated {format}: the file ends before the picture does")]
    Truncated {
        /// What the file begins as.
        format: ImageFormat,
    },
    /// The file contradicts its format, or uses a part of it that we can't decode.
    #[error("damaged or unsupported {format}: {reason}")]
    Damaged {
        /// What the file begins as.
        format: ImageFormat,
        /// The decoder's words.
        reason: Box<dyn Error + Send + Sync>,
    },
    /// The decoder panicked, which is its fault; the file is most likely damaged.
    #[error("the {format} decoder panicked: {message}")]
    Panicked {
        /// What the file begins as.
        format: ImageFormat,
        /// The panic's message.
        message: String,
    },
}

/// Decodes one picture.
///
/// # Errors
/// [`DecodeError`], the verdict on these bytes.
pub fn rgb_from_bytes(encoded: &[u8], limits: &DecodeLimits) -> Result<RgbImage, DecodeError> {
    match sniff::format(encoded)? {
        ImageFormat::Jpeg => jpeg::rgb_from_jpeg(encoded, limits),
        format => guarded(format, || decode(encoded, format, limits)),
    }
}

/// Runs a decoder and turns a panic inside it into a verdict.
fn guarded(
    format: ImageFormat,
    decode: impl FnOnce() -> Result<RgbImage, DecodeError>,
) -> Result<RgbImage, DecodeError> {
    // Unwind safe: everything a decoder touches is made and dropped inside.
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|panic| Err(DecodeError::Panicked { format, message: panic_message(&*panic) }))
}

fn decode(encoded: &[u8], format: ImageFormat, limits: &DecodeLimits) -> Result<RgbImage, DecodeError> {
    let refused = |error| error_from_image(error, format);
    let mut reader = ImageReader::with_format(io::Cursor::new(encoded), codec(format));
    reader.limits(memory_limits(limits));
    let mut decoder = reader.into_decoder().map_err(refused)?;
    check_size(decoder.dimensions(), format, limits)?;
    // Broken metadata doesn't make a broken picture.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let raw = DynamicImage::from_decoder(decoder).map_err(refused)?;
    Ok(oriented(DynamicImage::ImageRgb8(rgb_from_raster(raw)), orientation))
}

/// Turns a picture the way it is looked at.
fn oriented(mut rgb: DynamicImage, orientation: Orientation) -> RgbImage {
    rgb.apply_orientation(orientation);
    RgbImage { width: rgb.width(), height: rgb.height(), pixels: rgb.into_rgb8().into_raw() }
}

fn codec(format: ImageFormat) -> image::ImageFormat {
    match format {
        ImageFormat::Jpeg => image::ImageFormat::Jpeg,
        ImageFormat::Png => image::ImageFormat::Png,
        ImageFormat::WebP => image::ImageFormat::WebP,
        ImageFormat::Bmp => image::ImageFormat::Bmp,
        ImageFormat::Gif => image::ImageFormat::Gif,
    }
}

/// What a decoder may allocate: eight bytes a pixel (16-bit RGBA, the largest we read) and room for its
/// tables. It stops compressed metadata and frames that exceed the declared canvas.
fn memory_limits(limits: &DecodeLimits) -> Limits {
    const TABLES_BYTES: u64 = 16 << 20;
    let mut memory = Limits::no_limits();
    memory.max_alloc = Some(limits.max_pixels.saturating_mul(8).saturating_add(TABLES_BYTES));
    memory
}

fn check_size((width, height): (u32, u32), format: ImageFormat, limits: &DecodeLimits) -> Result<(), DecodeError> {
    let max_pixels = limits.max_pixels;
    match u64::from(width) * u64::from(height) {
        0 => Err(DecodeError::Damaged { format, reason: format!("declares {width}x{height} pixels").into() }),
        pixels if pixels > max_pixels => Err(DecodeError::TooLarge { width, height, max_pixels }),
        _ => Ok(()),
    }
}

fn error_from_image(error: image::ImageError, format: ImageFormat) -> DecodeError {
    match &error {
        image::ImageError::IoError(cause) if ends_early(cause) => DecodeError::Truncated { format },
        other if ends_early(other) => DecodeError::Truncated { format },
        _ => DecodeError::Damaged { format, reason: error.into() },
    }
}

/// Looks for an unexpected end of the data anywhere in the chain of causes.
fn ends_early(error: &(dyn Error + 'static)) -> bool {
    let is_end = error.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::UnexpectedEof);
    is_end || error.source().is_some_and(ends_early)
}

/// Brings any raster the decoders give to RGB8.
fn rgb_from_raster(raster: DynamicImage) -> image::RgbImage {
    let (width, height) = (raster.width(), raster.height());
    let pixels = match raster {
        DynamicImage::ImageRgb8(rgb) => return rgb,
        DynamicImage::ImageLuma8(grey) => grey.iter().flat_map(|&y| [y; 3]).collect(),
        DynamicImage::ImageLumaA8(image) => flatten(&image, |&[y, a]: &[u8; 2]| [over_white(y, a); 3]),
        DynamicImage::ImageRgba8(image) => {
            flatten(&image, |&[r, g, b, a]: &[u8; 4]| [r, g, b].map(|c| over_white(c, a)))
        }
        DynamicImage::ImageLuma16(grey) => grey.iter().flat_map(|&y| [high(y); 3]).collect(),
        DynamicImage::ImageRgb16(rgb) => rgb.iter().map(|&c| high(c)).collect(),
        DynamicImage::ImageLumaA16(image) => flatten(&image, |&[y, a]: &[u16; 2]| [over_white(high(y), high(a)); 3]),
        DynamicImage::ImageRgba16(image) => {
            flatten(&image, |&[r, g, b, a]: &[u16; 4]| [r, g, b].map(|c| over_white(high(c), high(a))))
        }
        // Floating-point rasters come from formats we don't enable.
        other => return other.into_rgb8(),
    };
    image::RgbImage::from_raw(width, height, pixels).expect("three bytes were made for each pixel")
}

/// Maps pixels of `N` channels to RGB8.
fn flatten<T, const N: usize>(samples: &[T], rgb: impl Fn(&[T; N]) -> [u8; 3]) -> Vec<u8> {
    samples.as_chunks::<N>().0.iter().flat_map(rgb).collect()
}

/// The high byte, as libpng's `png_set_strip_16` takes it.
fn high(sample: u16) -> u8 {
    (sample >> 8) as u8
}

/// `color * alpha + white * (1 - alpha)`, rounded.
fn over_white(color: u8, alpha: u8) -> u8 {
    let (color, alpha) = (u32::from(color), u32::from(alpha));
    ((color * alpha + 255 * (255 - alpha) + 127) / 255) as u8
}

/// The text a panic was raised with, if it had one.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_string()
}

#[cfg(test)]
mod tests;
