//! Tells by the first bytes what a file is, never by its name.
//!
//! In: the bytes of a file. Out: a format we decode, or a verdict with the name of what it is instead:
//! phones, browsers and download scripts leave HEIC, AVIF and HTML pages under the name `.jpg`.
//! Source of the signatures: the formats' specifications, and the `file` utility's magic numbers.

use super::{DecodeError, ImageFormat};

/// Says which format the bytes begin as.
pub(crate) fn format(encoded: &[u8]) -> Result<ImageFormat, DecodeError> {
    match encoded {
        [] => Err(DecodeError::Empty),
        [0xFF, 0xD8, ..] => Ok(ImageFormat::Jpeg),
        [0x89, b'P', b'N', b'G', ..] => Ok(ImageFormat::Png),
        [b'G', b'I', b'F', b'8', ..] => Ok(ImageFormat::Gif),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Ok(ImageFormat::WebP),
        [b'B', b'M', ..] => Ok(ImageFormat::Bmp),
        _ => Err(DecodeError::UnknownFormat { found: describe(encoded) }),
    }
}

/// Names what the bytes are, as well as we can tell, with the way out.
fn describe(encoded: &[u8]) -> String {
    const CONVERT: &str = "; convert it to JPEG or PNG";
    if let [_, _, _, _, b'f', b't', b'y', b'p', brand @ ..] = encoded {
        return match brand.get(..4) {
            Some(b"avif" | b"avis") => format!("AVIF{CONVERT}"),
            Some(b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"mif1" | b"msf1") => format!("HEIC{CONVERT}"),
            _ => "a video or another ISO media file".into(),
        };
    }
    const PICTURES: [(&[u8], &str); 10] = [
        (b"II*\0", "TIFF"),
        (b"MM\0*", "TIFF"),
        (b"II+\0", "BigTIFF"),
        (b"8BPS", "a Photoshop document"),
        (b"\xFF\x0A", "JPEG XL"),
        (b"\0\0\0\x0CJXL ", "JPEG XL"),
        (b"\0\0\0\x0CjP  ", "JPEG 2000"),
        (b"\0\0\x01\0", "an icon (ICO)"),
        (b"qoif", "QOI"),
        (b"#?RADIANCE", "Radiance HDR"),
    ];
    if let Some((_, name)) = PICTURES.iter().find(|(magic, _)| encoded.starts_with(magic)) {
        return format!("{name}{CONVERT}");
    }
    if let [b'P', b'1'..=b'7', b' ' | b'\n' | b'\r' | b'\t', ..] = encoded {
        return format!("a portable anymap (PNM){CONVERT}");
    }
    const OTHERS: [(&[u8], &str); 4] = [
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive; unpack it first"),
        (b"\x1F\x8B", "a gzip archive; unpack it first"),
        (b"version https://git-lfs", "a Git LFS pointer; fetch the file itself with `git lfs pull`"),
    ];
    if let Some((_, name)) = OTHERS.iter().find(|(magic, _)| encoded.starts_with(magic)) {
        return (*name).into();
    }
    describe_unnamed(encoded)
}

/// Text, zeros or unknown bytes.
fn describe_unnamed(encoded: &[u8]) -> String {
    const LOOKED_AT: usize = 512;
    let head = &encoded[..encoded.len().min(LOOKED_AT)];
    if encoded.iter().all(|&byte| byte == 0) {
        return format!("{} zero bytes, as an interrupted download or a disk fault leaves", encoded.len());
    }
    let text = String::from_utf8_lossy(head).trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    if text.starts_with("<!doctype html") || text.starts_with("<html") {
        return "a web page, most likely an error page saved by a download".into();
    }
    if text.contains("<svg") {
        return "an SVG drawing; render it to PNG".into();
    }
    if head.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7E)) {
        return "text".into();
    }
    let hex: Vec<_> = head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("an unknown format that begins with the bytes {}", hex.join(" "))
}
