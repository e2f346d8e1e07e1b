//! JPEG: our own decoder for what cameras write, zune-jpeg for the rest, and what counts as truncated.
//!
//! `decode/jpeg/baseline.rs` takes files that are as the standard says from beginning to end, and makes only what is
//! wanted of them. All others, and everything odd about a file, are left to zune-jpeg, which makes the whole picture.
//!
//! zune-jpeg, like browsers, fills what is missing of a cut file with grey or repeated blocks and reports
//! success. Such pixels must not enter training. So we walk the marker segments of ITU-T T.81, annex B, to the
//! end-of-image marker: thumbnails inside a segment and whatever follows the marker (a second picture, a gain
//! map, junk) don't confuse it.
//!
//! | no end marker, and ... | verdict |
//! | --- | --- |
//! | the data before it decodes to the same pixels whatever follows | whole: only the marker is lost |
//! | else, or progressive, where whole scans may be missing | truncated |
//!
//! With an end marker zune-jpeg is lenient, as libjpeg is. So a file cut in the middle to which somebody
//! appended a marker isn't noticed; Pillow doesn't notice it either.

mod baseline;
mod bits;
mod colour;
mod frame;
mod idct;
mod scan;

use std::io;

use image::DynamicImage;
use image::metadata::Orientation;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::view::{View, Window};
use super::{
    DecodeError, DecodeOptions, ImageFormat, OnTruncated, RgbImage, check_size, damaged, guarded, oriented, wholly,
};
use frame::Frame;

const MARKER: u8 = 0xFF;
const END_OF_IMAGE: u8 = 0xD9;

/// What the decoder does about errors in the coded data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conduct {
    /// Fill and go on.
    Lenient,
    /// Stop.
    Strict,
}

/// Decodes what is wanted of a JPEG, or all of it.
pub(super) fn view_from_jpeg(
    encoded: &[u8],
    options: &DecodeOptions,
    wanted: impl Fn(u32, u32) -> Window,
) -> Result<(RgbImage, View), DecodeError> {
    match guarded(ImageFormat::Jpeg, || view_from_baseline(encoded, options, &wanted))? {
        Some(view) => Ok(view),
        None => rgb_from_jpeg(encoded, options).map(wholly),
    }
}

/// `None` if the file isn't of the kind that we decode ourselves.
fn view_from_baseline(
    encoded: &[u8],
    options: &DecodeOptions,
    wanted: impl Fn(u32, u32) -> Window,
) -> Result<Option<(RgbImage, View)>, DecodeError> {
    let Some(frame) = Frame::parse(encoded) else { return Ok(None) };
    check_size((frame.width, frame.height), ImageFormat::Jpeg, options)?;
    let [width, height] = frame.size_as_seen();
    Ok(baseline::decode(encoded, frame, &wanted(width, height)))
}

/// Decodes a whole JPEG of any kind.
fn rgb_from_jpeg(encoded: &[u8], options: &DecodeOptions) -> Result<RgbImage, DecodeError> {
    match ending(encoded) {
        Ending::Marked => decode(encoded, options, Conduct::Lenient),
        Ending::Missing { .. } if options.on_truncated == OnTruncated::Accept => {
            decode(encoded, options, Conduct::Lenient).map_err(truncated_unless_large)
        }
        Ending::Missing { progressive: true } => Err(truncated()),
        Ending::Missing { progressive: false } => decode_without_marker(encoded, options),
    }
}

/// Decodes three times, which only files without an end marker pay for.
fn decode_without_marker(encoded: &[u8], options: &DecodeOptions) -> Result<RgbImage, DecodeError> {
    let [ended, others @ ..] = with_tails(encoded);
    let image = decode(&ended, options, Conduct::Strict).map_err(truncated_unless_large)?;
    let same = |bytes: &Vec<u8>| decode(bytes, options, Conduct::Strict).is_ok_and(|other| other == image);
    if others.iter().all(same) { Ok(image) } else { Err(truncated()) }
}

fn truncated_unless_large(error: DecodeError) -> DecodeError {
    if matches!(error, DecodeError::TooLarge { .. }) { error } else { truncated() }
}

fn decode(encoded: &[u8], limits: &DecodeOptions, conduct: Conduct) -> Result<RgbImage, DecodeError> {
    let options = DecoderOptions::default()
        .set_strict_mode(conduct == Conduct::Strict)
        // Our own limit is on pixels, and JPEG itself ends at 65,535 a side.
        .set_max_width(usize::MAX)
        .set_max_height(usize::MAX)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    guarded(ImageFormat::Jpeg, || {
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(encoded), options);
        decoder.decode_headers().map_err(unreadable)?;
        let (width, height) = decoder.dimensions().unwrap_or_default();
        let (width, height) = (width as u32, height as u32);
        check_size((width, height), ImageFormat::Jpeg, limits)?;
        // Broken metadata doesn't make a broken picture.
        let orientation = decoder.exif().and_then(|exif| Orientation::from_exif_chunk(exif));
        let pixels = decoder.decode().map_err(unreadable)?;
        let Some(rgb) = image::RgbImage::from_raw(width, height, pixels) else {
            return Err(damaged(ImageFormat::Jpeg, "its channels aren't those of a picture"));
        };
        Ok(oriented(DynamicImage::ImageRgb8(rgb), orientation.unwrap_or(Orientation::NoTransforms)))
    })
}

fn unreadable(error: DecodeErrors) -> DecodeError {
    damaged(ImageFormat::Jpeg, io::Error::other(error.to_string()))
}

fn truncated() -> DecodeError {
    DecodeError::Truncated { format: ImageFormat::Jpeg }
}

/// How a JPEG ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// With an end-of-image marker.
    Marked,
    /// Without one.
    Missing {
        /// The frame is progressive: every scan refines the whole picture.
        progressive: bool,
    },
}

/// Walks the segments of a JPEG to its end marker.
fn ending(encoded: &[u8]) -> Ending {
    let mut progressive = false;
    let mut position = 2;
    while let Some((code, after)) = next_marker(encoded, position) {
        position = match code {
            END_OF_IMAGE => return Ending::Marked,
            // Stand alone: stuffed zero, TEM, restart markers, start of image.
            0x00 | 0x01 | 0xD0..=0xD8 => after,
            _ => {
                progressive |= matches!(code, 0xC2 | 0xC6 | 0xCA | 0xCE);
                match encoded.get(after..after + 2) {
                    Some(length) => after + usize::from(u16::from_be_bytes([length[0], length[1]])).max(2),
                    None => break,
                }
            }
        };
    }
    Ending::Missing { progressive }
}

/// The code of the next marker at or after `position`, and the position after it.
fn next_marker(encoded: &[u8], position: usize) -> Option<(u8, usize)> {
    let rest = encoded.get(position..)?;
    let start = position + rest.iter().position(|&byte| byte == MARKER)?;
    // A marker may be preceded by any number of fill bytes, which are 0xFF too.
    let fill = encoded[start..].iter().position(|&byte| byte != MARKER)?;
    Some((encoded[start + fill], start + fill + 1))
}

/// The file with an end marker, after which the decoder reads zero bits, and with other bits before the marker.
///
/// Whatever code the cut went through, one of the three completes it to something else.
fn with_tails(encoded: &[u8]) -> [Vec<u8>; 3] {
    /// More than a block of coefficients can take.
    const TAIL_BYTES: usize = 4096;
    // A last 0xFF is half a marker, or data that lost its stuffed zero. With a tail it would be another marker.
    let whole = encoded.iter().rposition(|&byte| byte != MARKER).map_or(0, |last| last + 1);
    let with = |tail: &[u8]| [&encoded[..whole], tail, &[MARKER, END_OF_IMAGE]].concat();
    [with(&[]), with(&[0x55; TAIL_BYTES]), with(&[0xAA; TAIL_BYTES])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_marker_of_a_thumbnail_does_not_count() {
        // SOI, APP1 of 6 bytes that holds an end marker, SOS of 2 bytes, two bytes of data with a stuffed zero.
        let mut encoded =
            vec![0xFF, 0xD8, 0xFF, 0xE1, 0, 6, 0xFF, 0xD9, 0, 0, 0xFF, 0xDA, 0, 2, 7, 0xFF, 0, 0xFF, 0xD0, 9];
        assert_eq!(ending(&encoded), Ending::Missing { progressive: false });
        encoded.extend([0xFF, 0xFF, 0xD9, 1, 2, 3]);
        assert_eq!(ending(&encoded), Ending::Marked);
    }

    #[test]
    fn a_progressive_frame_is_recognised() {
        let encoded = [0xFF, 0xD8, 0xFF, 0xC2, 0, 4, 1, 2, 0xFF, 0xDA, 0, 2, 7];
        assert_eq!(ending(&encoded), Ending::Missing { progressive: true });
    }

    #[test]
    fn no_prefix_of_a_header_trips_the_walk() {
        let encoded = [0xFF, 0xD8, 0xFF, 0xE1, 0xFF, 0xFF, 1, 2, 0xFF, 0xFF];
        for length in 2..=encoded.len() {
            assert_eq!(ending(&encoded[..length]), Ending::Missing { progressive: false }, "{length} bytes");
        }
    }
}
