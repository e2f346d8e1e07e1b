//! One sample to the bytes that are packed: kept, or decoded, made smaller and encoded.
//!
//! Every picture is decoded, kept ones too, so that nothing damaged is packed. Smaller means antialiased bicubic, as
//! Pillow's `thumbnail`. EXIF orientation is applied before encoding; a kept file keeps its EXIF. JPEG: chroma at half
//! resolution (4:2:0, as nearly all photographs have it) if the picture was made smaller, at full resolution
//! otherwise, so that small pictures such as CIFAR's lose little.

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::{PackConfig, PackForm};
use crate::dataset::webdataset::ppm_from_rgb;
use crate::dataset::{Content, Dataset};
use crate::decode::{ImageFormat, RgbImage, rgb_from_bytes, sniff};
use crate::error::DataError;

/// A picture as it goes into a shard.
pub(super) struct Packed {
    pub(super) bytes: Vec<u8>,
    /// Its ending.
    pub(super) ending: &'static str,
    pub(super) fate: Fate,
    /// Bytes it had.
    pub(super) source_bytes: u64,
}

/// What was done to a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its bytes are those of the file.
    Kept,
    /// It was encoded anew, made smaller or not.
    Encoded,
}

/// Reads a sample and makes what is packed of it.
pub(super) fn pack(dataset: &dyn Dataset, sample: usize, config: &PackConfig) -> Result<Packed, DataError> {
    let content = dataset.sample(sample)?.content;
    let source_bytes = content.bytes().len() as u64;
    let (image, file) = match content {
        Content::Rgb(image) => (image, None),
        Content::Encoded(bytes) => {
            let damaged = |verdict| DataError::Decode { name: dataset.name(sample), sample, verdict };
            (rgb_from_bytes(&bytes, &config.decode).map_err(damaged)?, Some(bytes))
        }
    };
    let is_small = image.width.min(image.height) <= config.short_side;
    let is_jpeg = |bytes: &Vec<u8>| sniff::format(bytes).is_ok_and(|format| format == ImageFormat::Jpeg);
    let (bytes, ending, fate) = match (config.form, file.filter(is_jpeg)) {
        (PackForm::Jpeg { .. }, Some(file)) if is_small => (file, "jpg", Fate::Kept),
        (PackForm::Jpeg { quality }, _) => {
            let sampling = if is_small { SamplingFactor::F_1_1 } else { SamplingFactor::F_2_2 };
            let failed = |reason| DataError::Encode { name: dataset.name(sample), sample, reason };
            let jpeg = jpeg_from_rgb(&smaller(image, config.short_side), quality, sampling).map_err(failed)?;
            (jpeg, "jpg", Fate::Encoded)
        }
        (PackForm::Raw, _) => (ppm_from_rgb(&smaller(image, config.short_side)), "ppm", Fate::Encoded),
    };
    Ok(Packed { bytes, ending, fate, source_bytes })
}

/// Makes the shorter side at most `short_side` pixels.
fn smaller(image: RgbImage, short_side: u32) -> RgbImage {
    let RgbImage { width, height, .. } = image;
    let shorter = width.min(height);
    if shorter <= short_side {
        return image;
    }
    let scaled = |side: u32| {
        // Rounded to the nearest pixel; it fits, since it is smaller than `side`.
        ((2 * u64::from(side) * u64::from(short_side) + u64::from(shorter)) / (2 * u64::from(shorter))) as u32
    };
    let mut scaled = Image::new(scaled(width), scaled(height), PixelType::U8x3);
    let source = ImageRef::new(width, height, &image.pixels, PixelType::U8x3).expect("three bytes a pixel");
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom));
    Resizer::new().resize(&source, &mut scaled, &options).expect("both have three bytes a pixel");
    RgbImage { width: scaled.width(), height: scaled.height(), pixels: scaled.into_vec() }
}

fn jpeg_from_rgb(image: &RgbImage, quality: u8, sampling: SamplingFactor) -> Result<Vec<u8>, String> {
    let too_long = || format!("{}x{} pixels; a JPEG has at most 65,535 a side", image.width, image.height);
    let width = u16::try_from(image.width).map_err(|_| too_long())?;
    let height = u16::try_from(image.height).map_err(|_| too_long())?;
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, quality);
    encoder.set_sampling_factor(sampling);
    encoder.encode(&image.pixels, width, height, ColorType::Rgb).map_err(|reason| reason.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_side_is_brought_to_the_limit_and_never_enlarged() {
        let sides = |width: u32, height: u32, short_side| {
            let pixels = vec![90; (width * height * 3) as usize];
            let image = smaller(RgbImage { width, height, pixels }, short_side);
            assert!(image.pixels.iter().all(|&byte| byte == 90), "a plain picture stays plain");
            (image.width, image.height)
        };
        assert_eq!(sides(50, 30, 10), (17, 10));
        assert_eq!(sides(30, 50, 10), (10, 17));
        assert_eq!(sides(50, 10, 10), (50, 10));
        assert_eq!(sides(7, 9, 400), (7, 9));
        assert_eq!(sides(3, 200, 1), (1, 67));
    }

    #[test]
    fn a_picture_that_is_made_smaller_is_averaged_and_not_sampled() {
        // Columns of black and white: sampled, a picture a quarter as wide would be all black or all white.
        let pixels = (0..64 * 64).flat_map(|index| [if index % 2 == 0 { 0 } else { 255 }; 3]).collect();
        let image = smaller(RgbImage { width: 64, height: 64, pixels }, 16);
        let middle = &image.pixels[(8 * 16 + 8) * 3..][..3];
        assert!(middle.iter().all(|byte| byte.abs_diff(127) < 8), "{middle:?}");
    }
}
