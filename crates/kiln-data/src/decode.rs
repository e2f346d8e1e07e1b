//! One encoded picture to RGB bytes, or a verdict that says why not.
//!
//! In: the bytes of a file; the name plays no part. Out: [`RgbImage`], 8 bits a channel, always three channels.
//! - Size: the declared dimensions are checked before anything is decoded.
//! - Whoever says which part of the picture he looks at ([`view_from_bytes`]) may get less of it, and smaller: JPEGs are
//!   decoded no further than that.
//! - EXIF orientation 1–8 is applied (JPEG, PNG, WebP); a broken or unknown value counts as 1.
//! - Grey is repeated, palettes are looked up, CMYK and YCCK are converted, 16 bits keep their high byte.
//! - Alpha is composited on white, the page most pictures with alpha were made for.
//! - Of an animation the first frame is taken.
//! - A truncated file is refused, as Pillow does and the JPEG decoder alone doesn't (see `decode/jpeg.rs`), unless the
//!   options accept it ([`OnTruncated`]).
//!
//! A decoder that panics is caught and gives [`DecodeError::Panicked`]. The same bytes give the same verdict, whatever
//! part of the picture is asked for.
//! Decoders: our own for baseline JPEG, zune-jpeg 0.5 for other JPEGs, and `image` 0.25 for the rest. Not done here: colour
//! profiles.

mod jpeg;
pub(crate) mod sniff;
mod view;
mod webp;

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits};
use serde::{Deserialize, Serialize};

pub use view::{View, Window};

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

/// How files are decoded and what one may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecodeOptions {
    /// Most pixels a file may declare. Default 178,956,970 (512 MiB of RGB), the size at which Pillow
    /// raises `DecompressionBombError`: what trains with PyTorch isn't refused here.
    pub max_pixels: u64,
    /// What to do with a file that ends before its picture does. Default: refuse it.
    pub on_truncated: OnTruncated,
    /// Decode no more of a JPEG than the drawn crop shows, and at 1/2, 1/4 or 1/8 where that still leaves the crop as many
    /// pixels as the output has. Default true. Pixels differ slightly from those of the whole picture at full scale,
    /// because the scale's filter is another one; without a scale they are the same.
    pub fit_to_crop: bool,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self { max_pixels: 178_956_970, on_truncated: OnTruncated::Refuse, fit_to_crop: true }
    }
}

/// What to do with a file that ends before its picture does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTruncated {
    /// It is damaged: half of it may be grey.
    #[default]
    Refuse,
    /// Take what there is, if that is anything; the rest is as the decoder leaves it, grey or black. Of a WebP, a GIF or a
    /// JPEG cut in its header there is nothing.
    Accept,
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
    #[error(
        "declares {width}x{height} pixels, more than max_pixels = {max_pixels}; make it smaller or raise max_pixels"
    )]
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
pub fn rgb_from_bytes(encoded: &[u8], options: &DecodeOptions) -> Result<RgbImage, DecodeError> {
    view_from_bytes(encoded, options, Window::whole).map(|(image, _)| image)
}

/// Decodes what is wanted of a picture, or more.
///
/// `wanted` is told the picture's width and height and answers with a window. JPEGs of the kind that cameras write are
/// decoded no further than that, others wholly; the [`View`] says which.
///
/// # Errors
/// [`DecodeError`], the verdict on these bytes; it doesn't depend on the window.
pub fn view_from_bytes(
    encoded: &[u8],
    options: &DecodeOptions,
    wanted: impl Fn(u32, u32) -> Window,
) -> Result<(RgbImage, View), DecodeError> {
    match sniff::format(encoded)? {
        ImageFormat::Jpeg => jpeg::view_from_jpeg(encoded, options, wanted),
        format => guarded(format, || decode(encoded, format, options)).map(wholly),
    }
}

/// An image that is all of its picture.
fn wholly(image: RgbImage) -> (RgbImage, View) {
    let view = View::whole(image.width, image.height);
    (image, view)
}

/// Runs a decoder and turns a panic inside it into a verdict.
fn guarded<T>(format: ImageFormat, decode: impl FnOnce() -> Result<T, DecodeError>) -> Result<T, DecodeError> {
    // Unwind safe: everything a decoder touches is made and dropped inside.
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|panic| Err(DecodeError::Panicked { format, message: panic_message(&*panic) }))
}

fn decode(encoded: &[u8], format: ImageFormat, options: &DecodeOptions) -> Result<RgbImage, DecodeError> {
    if format == ImageFormat::WebP {
        webp::check_chunks(encoded)?;
    }
    let refused = |error| error_from_image(error, format);
    let mut reader = ImageReader::with_format(io::Cursor::new(encoded), codec(format));
    reader.limits(memory_limits(options));
    let mut decoder = reader.into_decoder().map_err(refused)?;
    check_size(decoder.dimensions(), format, options)?;
    // Broken metadata doesn't make a broken picture.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok(oriented(DynamicImage::ImageRgb8(rgb_from_decoder(decoder, format, options)?), orientation))
}

/// Decodes any raster and brings it to RGB8.
fn rgb_from_decoder(
    decoder: impl ImageDecoder,
    format: ImageFormat,
    options: &DecodeOptions,
) -> Result<image::RgbImage, DecodeError> {
    let ((width, height), color) = (decoder.dimensions(), decoder.color_type());
    let mut bytes = vec![0; usize::try_from(decoder.total_bytes()).map_err(|error| damaged(format, error))?];
    if let Err(error) = decoder.read_image(&mut bytes) {
        let verdict = error_from_image(error, format);
        let accepts = options.on_truncated == OnTruncated::Accept && matches!(verdict, DecodeError::Truncated { .. });
        if !accepts || bytes.iter().all(|&byte| byte == 0) {
            return Err(verdict);
        }
    }
    let channels = color.channel_count();
    match color.bytes_per_pixel() / channels {
        1 => {}
        2 => keep_high_bytes(&mut bytes),
        // Floating-point rasters come from formats we don't enable.
        _ => return Err(damaged(format, format!("pixels of type {color:?}"))),
    }
    let pixels = rgb_from_channels(bytes, channels);
    image::RgbImage::from_raw(width, height, pixels).ok_or_else(|| damaged(format, "its size isn't what it declares"))
}

fn damaged(format: ImageFormat, reason: impl Into<Box<dyn Error + Send + Sync>>) -> DecodeError {
    DecodeError::Damaged { format, reason: reason.into() }
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
fn memory_limits(options: &DecodeOptions) -> Limits {
    const TABLES_BYTES: u64 = 16 << 20;
    let mut memory = Limits::no_limits();
    memory.max_alloc = Some(options.max_pixels.saturating_mul(8).saturating_add(TABLES_BYTES));
    memory
}

fn check_size((width, height): (u32, u32), format: ImageFormat, options: &DecodeOptions) -> Result<(), DecodeError> {
    let max_pixels = options.max_pixels;
    match u64::from(width) * u64::from(height) {
        0 => Err(damaged(format, format!("declares {width}x{height} pixels"))),
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

/// Looks for an unexpected end of the data anywhere in the chain of causes; the GIF decoder has only words for it.
fn ends_early(error: &(dyn Error + 'static)) -> bool {
    let is_end = error.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::UnexpectedEof);
    let is_end = is_end || error.to_string().eq_ignore_ascii_case("unexpected end of file");
    is_end || error.source().is_some_and(ends_early)
}

/// Keeps of each 16-bit sample the high byte, as libpng's `png_set_strip_16` does. In place: the largest pictures
/// allowed take a gibibyte.
fn keep_high_bytes(bytes: &mut Vec<u8>) {
    let num_samples = bytes.len() / 2;
    for index in 0..num_samples {
        bytes[index] = (u16::from_ne_bytes([bytes[2 * index], bytes[2 * index + 1]]) >> 8) as u8;
    }
    bytes.truncate(num_samples);
}

/// RGB8 of pixels of one to four channels: grey, grey and alpha, RGB, RGBA.
fn rgb_from_channels(mut bytes: Vec<u8>, channels: u8) -> Vec<u8> {
    match channels {
        1 => bytes.iter().flat_map(|&grey| [grey; 3]).collect(),
        2 => bytes.as_chunks::<2>().0.iter().flat_map(|&[grey, alpha]| [over_white(grey, alpha); 3]).collect(),
        3 => bytes,
        _ => {
            let num_pixels = bytes.len() / 4;
            for index in 0..num_pixels {
                let alpha = bytes[4 * index + 3];
                for channel in 0..3 {
                    bytes[3 * index + channel] = over_white(bytes[4 * index + channel], alpha);
                }
            }
            bytes.truncate(3 * num_pixels);
            bytes.shrink_to_fit();
            bytes
        }
    }
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
