//! Paints a preview: plain areas, pictures, lines of text.
//!
//! Glyphs are those of Noto Sans Mono, rasterised beforehand: ASCII and the Latin letters of Europe. Others become `?`.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

use crate::decode::RgbImage;

/// Behind everything: light enough for text, dark enough to tell a white picture from it.
const BACKGROUND: [u8; 3] = [238, 238, 235];
/// Behind a picture that doesn't fill its cell.
const CELL: [u8; 3] = [220, 220, 216];

/// How a line of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Names.
    Loud,
    /// What is read second.
    Quiet,
}

impl Ink {
    /// Of a line, in pixels.
    pub(crate) fn height(self) -> u32 {
        self.raster().val() as u32
    }

    fn raster(self) -> RasterHeight {
        match self {
            Self::Loud => RasterHeight::Size20,
            Self::Quiet => RasterHeight::Size16,
        }
    }

    fn color(self) -> [u8; 3] {
        match self {
            Self::Loud => [28, 28, 30],
            Self::Quiet => [100, 100, 105],
        }
    }
}

/// Width of a line of text in pixels.
pub(crate) fn text_width(text: &str, ink: Ink) -> u32 {
    (text.chars().count() * get_raster_width(FontWeight::Regular, ink.raster())) as u32
}

/// A picture being painted. Whatever lies outside isn't.
pub(crate) struct Canvas {
    picture: RgbImage,
}

impl Canvas {
    /// An empty one of `[width, height]`.
    pub(crate) fn new([width, height]: [u32; 2]) -> Self {
        let pixels = BACKGROUND.repeat(width as usize * height as usize);
        Self { picture: RgbImage { width, height, pixels } }
    }

    pub(crate) fn into_picture(self) -> RgbImage {
        self.picture
    }

    /// Paints an area as an empty cell.
    pub(crate) fn fill(&mut self, [left, top]: [u32; 2], [width, height]: [u32; 2]) {
        for y in top..top + height {
            for x in left..left + width {
                self.set(x, y, CELL);
            }
        }
    }

    /// Puts `image` at a place.
    pub(crate) fn paste(&mut self, image: &RgbImage, [left, top]: [u32; 2]) {
        for (index, &pixel) in image.pixels.as_chunks::<3>().0.iter().enumerate() {
            let (x, y) = (index as u32 % image.width, index as u32 / image.width);
            self.set(left + x, top + y, pixel);
        }
    }

    /// Writes one line.
    pub(crate) fn text(&mut self, text: &str, [left, top]: [u32; 2], ink: Ink) {
        let glyph = |letter| get_raster(letter, FontWeight::Regular, ink.raster());
        let mut x = left;
        for glyph in text.chars().filter_map(|letter| glyph(letter).or_else(|| glyph('?'))) {
            for (y, row) in (top..).zip(glyph.rows()) {
                for (x, &coverage) in (x..).zip(row) {
                    self.set(x, y, blended(ink.color(), coverage));
                }
            }
            x += glyph.width() as u32;
        }
    }

    fn set(&mut self, x: u32, y: u32, color: [u8; 3]) {
        if x < self.picture.width && y < self.picture.height {
            let at = 3 * (y as usize * self.picture.width as usize + x as usize);
            self.picture.pixels[at..at + 3].copy_from_slice(&color);
        }
    }
}

/// `color` on the background.
fn blended(color: [u8; 3], coverage: u8) -> [u8; 3] {
    let coverage = u32::from(coverage);
    std::array::from_fn(|c| {
        ((u32::from(color[c]) * coverage + u32::from(BACKGROUND[c]) * (255 - coverage) + 127) / 255) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pixels that aren't background.
    fn num_painted(text: &str) -> usize {
        let mut canvas = Canvas::new([200, 30]);
        canvas.text(text, [4, 4], Ink::Loud);
        canvas.picture.pixels.as_chunks::<3>().0.iter().filter(|pixel| **pixel != BACKGROUND).count()
    }

    #[test]
    fn letters_leave_ink_and_unknown_ones_a_question_mark() {
        assert!(num_painted("Käse") > 100);
        assert_eq!(num_painted("   "), 0);
        assert_eq!(num_painted("猫"), num_painted("?"));
    }

    #[test]
    fn text_beyond_the_edge_is_cut_off() {
        let mut canvas = Canvas::new([8, 8]);
        canvas.text("wide", [4, 4], Ink::Quiet);
        assert_eq!(canvas.into_picture().pixels.len(), 3 * 64);
    }
}
