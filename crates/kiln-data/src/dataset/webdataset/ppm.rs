//! Pixels as they are: a portable pixmap (binary PPM, `P6`), the form in which `kiln pack --raw` stores pictures.
//!
//! A header of text, then RGB bytes, rows from the top, nothing between them:
//! ```text
//! P6\n<width> <height>\n255\n<width * height * 3 bytes>
//! ```
//! Source: the netpbm documentation, `ppm(5)`. Every image viewer opens it. Not read here: comments, other depths.

use crate::decode::RgbImage;

const MAGIC: &[u8] = b"P6";

/// Says whether the bytes begin like a PPM.
pub(super) fn is_ppm(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The bytes of a PPM.
pub(crate) fn ppm_from_rgb(image: &RgbImage) -> Vec<u8> {
    let mut bytes = format!("P6\n{} {}\n255\n", image.width, image.height).into_bytes();
    bytes.extend_from_slice(&image.pixels);
    bytes
}

/// The picture in a PPM, in the memory it came in.
///
/// # Errors
/// What is wrong with it.
pub(super) fn rgb_from_ppm(mut bytes: Vec<u8>) -> Result<RgbImage, String> {
    let (width, height, pixels_at) = header(&bytes).ok_or("its header isn't `P6 <width> <height> 255`")?;
    let wanted = (u64::from(width) * u64::from(height)).saturating_mul(3);
    let num_bytes = bytes.len() - pixels_at;
    if wanted == 0 || wanted != num_bytes as u64 {
        return Err(format!("{width}x{height} pixels take {wanted} bytes; it has {num_bytes}"));
    }
    bytes.drain(..pixels_at);
    Ok(RgbImage { width, height, pixels: bytes })
}

/// Width, height and where the pixels begin.
fn header(bytes: &[u8]) -> Option<(u32, u32, usize)> {
    /// Two numbers of ten digits, and white space.
    const LONGEST: usize = 64;
    let text = &bytes[..bytes.len().min(LONGEST)];
    let mut at = MAGIC.len();
    let mut number = || {
        let start = at + text.get(at..)?.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let end = start + text[start..].iter().position(u8::is_ascii_whitespace)?;
        at = end;
        std::str::from_utf8(&text[start..end]).ok()?.parse::<u32>().ok()
    };
    let (width, height, depth) = (number()?, number()?, number()?);
    (is_ppm(bytes) && depth == 255).then_some((width, height, at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_comes_back_to_the_byte_even_if_its_pixels_look_like_text() {
        let image =
            RgbImage { width: 2, height: 3, pixels: b"\n 255\n P6\n1 1\n255".iter().copied().chain([7]).collect() };
        assert_eq!(rgb_from_ppm(ppm_from_rgb(&image)), Ok(image));
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        for text in [
            "P6",
            "P6\n",
            "P6 1 1 255",
            "P6\n1 1\n255\nab",
            "P6\n1 1\n255\nabcd",
            "P6\n0 0\n255\n",
            "P6 1 1 65535\nabcdef",
        ] {
            assert!(rgb_from_ppm(text.as_bytes().to_vec()).is_err(), "{text:?}");
        }
        let absurd = "P6\n4294967295 4294967295\n255\nabc";
        assert!(rgb_from_ppm(absurd.as_bytes().to_vec()).is_err_and(|reason| reason.contains("it has 3")));
    }
}
