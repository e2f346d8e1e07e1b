//! Brings large pictures to a smaller size right after decoding.
//!
//! In and out: RGB8 `[H, W, 3]`. The aspect ratio is kept up to rounding; smaller pictures stay as they are.
//! The filter is a triangle as wide as the reduction (`image`'s), which is what Pillow's bilinear `resize` does.

use image::imageops::FilterType;

use crate::decode::RgbImage;

/// Shrinks a picture until its shorter side is `shorter_side` pixels; 0 leaves all as they are.
pub(super) fn shrink(image: RgbImage, shorter_side: u32) -> RgbImage {
    let shorter = image.width.min(image.height);
    if shorter_side == 0 || shorter <= shorter_side {
        return image;
    }
    let scaled = |side: u32| {
        let rounded = (u64::from(side) * u64::from(shorter_side) + u64::from(shorter) / 2) / u64::from(shorter);
        // Not above `side`, which is a u32.
        rounded.max(1) as u32
    };
    let (width, height) = (scaled(image.width), scaled(image.height));
    let full = image::RgbImage::from_raw(image.width, image.height, image.pixels);
    let full = full.expect("a decoded picture has three bytes a pixel");
    let pixels = image::imageops::resize(&full, width, height, FilterType::Triangle).into_raw();
    RgbImage { width, height, pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(width: u32, height: u32) -> RgbImage {
        RgbImage { width, height, pixels: vec![100; (width * height * 3) as usize] }
    }

    #[test]
    fn the_shorter_side_is_what_was_asked_for_and_the_ratio_stays() {
        for (from, to) in
            [((500, 375), (341, 256)), ((375, 500), (256, 341)), ((256, 900), (256, 900)), ((9, 8), (9, 8))]
        {
            let image = shrink(grey(from.0, from.1), 256);
            assert_eq!((image.width, image.height), to);
            assert_eq!(image.pixels, vec![100; (to.0 * to.1 * 3) as usize]);
        }
        assert_eq!(shrink(grey(500, 400), 0).width, 500);
    }

    #[test]
    fn every_pixel_counts() {
        let mut image = grey(4, 4);
        image.pixels[..12].fill(220);
        // The triangle over two rows out of four weighs the first row 3, its neighbours in turn 3 and 1, of 7.
        assert_eq!(shrink(image, 2).pixels[0], 151);
    }
}
