mod corpus;
mod fitted;
mod mutated;

use super::*;
use image::codecs::{bmp::BmpEncoder, gif::GifEncoder, jpeg::JpegEncoder, webp::WebPEncoder};
use image::{ExtendedColorType, ImageEncoder};

const LIMITS: DecodeOptions =
    DecodeOptions { max_pixels: 1 << 20, on_truncated: OnTruncated::Refuse, fit_to_crop: true };

fn decoded(encoded: &[u8]) -> RgbImage {
    rgb_from_bytes(encoded, &LIMITS).expect("a picture")
}

fn refused(encoded: &[u8]) -> DecodeError {
    let size = rgb_from_bytes(encoded, &LIMITS).map(|image| [image.width, image.height]);
    size.expect_err("a verdict")
}

/// A chunk of PNG: length, name, data, checksum.
fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let named = [name.as_slice(), data].concat();
    let crc = named.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
    });
    [&(data.len() as u32).to_be_bytes(), named.as_slice(), &(!crc).to_be_bytes()].concat()
}

/// A PNG with stored, that is uncompressed, rows.
fn png([width, height]: [u32; 2], depth: u8, color: u8, rows: &[&[u8]], extra: &[Vec<u8>]) -> Vec<u8> {
    let raw: Vec<u8> = rows.iter().flat_map(|row| [&[0], *row].concat()).collect();
    let (low, high) = raw.iter().fold((1u32, 0u32), |(low, high), &byte| {
        let low = (low + u32::from(byte)) % 65521;
        (low, (high + low) % 65521)
    });
    let length = (raw.len() as u16).to_le_bytes();
    let complement = (!(raw.len() as u16)).to_le_bytes();
    let zlib = [&[0x78, 1, 1], &length[..], &complement, &raw, &(high << 16 | low).to_be_bytes()].concat();
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[depth, color, 0, 0, 0]].concat();
    let mut file = [b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &header)].concat();
    extra.iter().for_each(|chunk| file.extend(chunk));
    [file, chunk(b"IDAT", &zlib), chunk(b"IEND", &[])].concat()
}

/// A textured picture, so that every block of a JPEG needs bits.
fn texture(width: u32, height: u32) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..width * height * 3).map(|_| next()).collect()
}

fn jpeg(width: u32, height: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = JpegEncoder::new_with_quality(&mut file, 90);
    encoder.encode(&texture(width, height), width, height, ExtendedColorType::Rgb8).expect("encoded");
    file
}

/// One file of every format we decode.
fn every_format() -> [(ImageFormat, Vec<u8>); 5] {
    let (pixels, [width, height]) = (texture(20, 12), [20, 12]);
    let rgb = ExtendedColorType::Rgb8;
    let rows: Vec<_> = pixels.chunks(60).collect();
    let (mut webp, mut bmp, mut gif) = (Vec::new(), Vec::new(), Vec::new());
    WebPEncoder::new_lossless(&mut webp).encode(&pixels, width, height, rgb).expect("encoded");
    BmpEncoder::new(&mut bmp).write_image(&pixels, width, height, rgb).expect("encoded");
    GifEncoder::new(&mut gif).encode(&pixels, width, height, rgb).expect("encoded");
    [
        (ImageFormat::Jpeg, jpeg(width, height)),
        (ImageFormat::Png, png([width, height], 8, 2, &rows, &[])),
        (ImageFormat::WebP, webp),
        (ImageFormat::Bmp, bmp),
        (ImageFormat::Gif, gif),
    ]
}

#[test]
fn every_format_is_recognised_by_its_content() {
    for (format, encoded) in every_format() {
        let image = decoded(&encoded);
        assert_eq!((image.width, image.height), (20, 12), "{format}");
        assert_eq!(image.pixels.len(), 20 * 12 * 3, "{format}");
    }
    let lossless = every_format()
        .into_iter()
        .filter(|(format, _)| matches!(format, ImageFormat::Png | ImageFormat::WebP | ImageFormat::Bmp));
    for (format, encoded) in lossless {
        assert_eq!(decoded(&encoded).pixels, texture(20, 12), "{format}");
    }
}

/// A TIFF header with one entry, the orientation: what EXIF is.
fn exif(orientation: u16) -> Vec<u8> {
    let entry = [&[0x01, 0x12, 0, 3, 0, 0, 0, 1][..], &orientation.to_be_bytes(), &[0, 0]].concat();
    [b"MM\0*\0\0\0\x08\0\x01".to_vec(), entry, vec![0; 4]].concat()
}

/// Orientation, and what a stored `1 2 / 3 4 / 5 6` looks like: width, then row by row.
const ORIENTED: [(u16, u32, [u8; 6]); 10] = [
    (0, 2, [1, 2, 3, 4, 5, 6]),
    (1, 2, [1, 2, 3, 4, 5, 6]),
    (2, 2, [2, 1, 4, 3, 6, 5]),
    (3, 2, [6, 5, 4, 3, 2, 1]),
    (4, 2, [5, 6, 3, 4, 1, 2]),
    (5, 3, [1, 3, 5, 2, 4, 6]),
    (6, 3, [5, 3, 1, 6, 4, 2]),
    (7, 3, [6, 4, 2, 5, 3, 1]),
    (8, 3, [2, 4, 6, 1, 3, 5]),
    (9, 2, [1, 2, 3, 4, 5, 6]),
];

#[test]
fn exif_orientation_turns_a_png() {
    for (orientation, width, expected) in ORIENTED {
        let file = png([2, 3], 8, 0, &[&[1, 2], &[3, 4], &[5, 6]], &[chunk(b"eXIf", &exif(orientation))]);
        let image = decoded(&file);
        assert_eq!((image.width, image.height), (width, 6 / width), "orientation {orientation}");
        assert_eq!(image.pixels, expected.map(|grey| [grey; 3]).concat(), "orientation {orientation}");
    }
}

#[test]
fn exif_orientation_turns_a_jpeg() {
    // Blocks of 8x8 pixels, grey 40 for 1 to 240 for 6, survive compression.
    let stored: Vec<u8> = (0..24 * 16).map(|i| 40 * (1 + i % 16 / 8 + i / 128 * 2) as u8).collect();
    let mut plain = Vec::new();
    JpegEncoder::new(&mut plain).encode(&stored, 16, 24, ExtendedColorType::L8).expect("encoded");
    for (orientation, width, expected) in ORIENTED {
        let segment = [b"Exif\0\0".to_vec(), exif(orientation)].concat();
        let length = (segment.len() as u16 + 2).to_be_bytes();
        let image = decoded(&[&plain[..2], &[0xFF, 0xE1], &length, &segment, &plain[2..]].concat());
        assert_eq!(image.width, 8 * width, "orientation {orientation}");
        for (i, value) in (0u32..).zip(expected) {
            let (x, y) = (i % width * 8 + 4, i / width * 8 + 4);
            let grey = image.pixels[(y * image.width + x) as usize * 3];
            assert!(grey.abs_diff(40 * value) <= 4, "orientation {orientation}, block {i}: {grey}, not {}", 40 * value);
        }
    }
}

#[test]
fn broken_exif_does_not_break_the_picture() {
    let file = png([1, 1], 8, 0, &[&[9]], &[chunk(b"eXIf", b"MM\0*\0\0\0\x08\xFF\xFF\xEE")]);
    assert_eq!(decoded(&file).pixels, [9, 9, 9]);
}

#[test]
fn any_colour_type_becomes_rgb_on_white() {
    let palette = chunk(b"PLTE", &[10, 20, 30, 200, 90, 30]);
    let alpha = chunk(b"tRNS", &[255, 128]);
    let cases: [(&str, Vec<u8>, [u8; 3]); 10] = [
        ("grey", png([1, 1], 8, 0, &[&[77]], &[]), [77; 3]),
        ("1-bit grey", png([1, 1], 1, 0, &[&[0x80]], &[]), [255; 3]),
        ("grey 16 bit", png([1, 1], 16, 0, &[&[0x01, 0xFF]], &[]), [1; 3]),
        ("grey and half alpha", png([1, 1], 8, 4, &[&[100, 128]], &[]), [177; 3]),
        ("palette", png([1, 1], 8, 3, &[&[1]], std::slice::from_ref(&palette)), [200, 90, 30]),
        ("palette and half alpha", png([1, 1], 8, 3, &[&[1]], &[palette, alpha]), [227, 172, 142]),
        ("RGB 16 bit", png([1, 1], 16, 2, &[&[0xC8, 0xFF, 0x5A, 0, 0x1E, 0x80]], &[]), [200, 90, 30]),
        ("opaque RGBA", png([1, 1], 8, 6, &[&[200, 90, 30, 255]], &[]), [200, 90, 30]),
        ("hidden magenta", png([1, 1], 8, 6, &[&[255, 0, 255, 0]], &[]), [255; 3]),
        ("RGBA 16 bit", png([1, 1], 16, 6, &[&[200, 9, 100, 9, 0, 9, 128, 9]], &[]), [227, 177, 127]),
    ];
    for (name, encoded, expected) in cases {
        assert_eq!(decoded(&encoded).pixels, expected, "{name}");
    }
}

#[test]
fn cmyk_of_adobe_is_not_inverted() {
    // 200/255 of cyan, 40/255 of magenta, 20/255 of yellow; made with Pillow 13.
    let image = decoded(include_bytes!("../../tests/fixtures/cmyk.jpg"));
    for (channel, expected) in [55u8, 215, 235].into_iter().enumerate() {
        assert!(image.pixels[channel].abs_diff(expected) <= 3, "{:?}", &image.pixels[..3]);
    }
}

#[test]
fn a_jpeg_cut_anywhere_is_truncated() {
    let files = [
        jpeg(64, 48),
        include_bytes!("../../tests/fixtures/progressive.jpg").to_vec(),
        include_bytes!("../../tests/fixtures/restart.jpg").to_vec(),
    ];
    for (file, encoded) in files.iter().enumerate() {
        decoded(encoded);
        // The last three bytes are the end marker and one that may hold nothing but padding bits.
        for length in (2..encoded.len() - 3).step_by(3) {
            let verdict = refused(&encoded[..length]);
            assert!(matches!(verdict, DecodeError::Truncated { .. }), "file {file}, {length} bytes: {verdict}");
        }
    }
}

#[test]
fn a_baseline_jpeg_that_lost_only_its_end_marker_is_whole() {
    for encoded in [jpeg(64, 48), include_bytes!("../../tests/fixtures/restart.jpg").to_vec()] {
        let whole = decoded(&encoded);
        assert_eq!(decoded(&encoded[..encoded.len() - 2]), whole);
        assert_eq!(decoded(&[&encoded[..], &[0; 5000], b"PK\x03\x04"].concat()), whole);
    }
}

#[test]
fn a_progressive_jpeg_without_an_end_marker_may_lack_scans() {
    let encoded = include_bytes!("../../tests/fixtures/progressive.jpg");
    assert!(matches!(refused(&encoded[..encoded.len() - 2]), DecodeError::Truncated { .. }));
}

#[test]
fn truncated_files_are_accepted_if_asked_for() {
    let options = DecodeOptions { on_truncated: OnTruncated::Accept, ..LIMITS };
    for (format, encoded) in every_format() {
        let cut = &encoded[..encoded.len() * 3 / 4];
        let verdict = rgb_from_bytes(cut, &options);
        // Their decoders give all or nothing.
        if matches!(format, ImageFormat::WebP | ImageFormat::Gif) {
            assert!(matches!(verdict, Err(DecodeError::Truncated { .. } | DecodeError::Damaged { .. })), "{verdict:?}");
            continue;
        }
        let (found, whole) = (verdict.unwrap_or_else(|error| panic!("{format}: {error}")), decoded(&encoded));
        assert_eq!([found.width, found.height], [20, 12], "{format}");
        assert_ne!(found.pixels, whole.pixels, "{format}: something is missing");
    }
    let header = &jpeg(64, 48)[..100];
    assert!(matches!(rgb_from_bytes(header, &options), Err(DecodeError::Truncated { .. })), "no pixel at all");
}

#[test]
fn other_formats_cut_in_half_are_refused() {
    for (format, encoded) in every_format() {
        let verdict = refused(&encoded[..encoded.len() / 2]);
        let ends = matches!(verdict, DecodeError::Truncated { .. } | DecodeError::Damaged { .. });
        assert!(ends, "{format}: {verdict}");
    }
}

#[test]
fn the_declared_size_is_checked_before_anything_is_decoded() {
    let bomb = png([60_000, 50_000], 8, 2, &[&[0; 3]], &[]);
    let verdict = rgb_from_bytes(&bomb, &DecodeOptions::default()).expect_err("three gigapixels");
    assert_eq!(
        verdict.to_string(),
        "declares 60000x50000 pixels, more than max_pixels = 178956970; make it smaller or raise max_pixels"
    );
    let allowed = DecodeOptions { max_pixels: 63, ..LIMITS };
    assert!(matches!(rgb_from_bytes(&jpeg(8, 8), &allowed), Err(DecodeError::TooLarge { width: 8, height: 8, .. })));
    assert!(rgb_from_bytes(&jpeg(8, 8), &DecodeOptions { max_pixels: 64, ..LIMITS }).is_ok());
}

#[test]
fn what_is_not_a_picture_is_named() {
    let cases: [(&[u8], &str); 9] = [
        (b"", "the file is empty"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC; convert it"),
        (b"\0\0\0\x18ftypavif\0\0\0\0mif1", "AVIF; convert it"),
        (b"\xEF\xBB\xBF \n<!DOCTYPE HTML><html>404", "a web page"),
        (b"<?xml version=\"1.0\"?><svg xmlns=\"x\"/>", "an SVG drawing"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
        (b"II*\0\x08\0\0\0", "TIFF; convert it"),
        (&[0; 700], "700 zero bytes"),
        (b"\x01\x02\xFE\xFF", "begins with the bytes 01 02 fe ff"),
    ];
    for (encoded, expected) in cases {
        let message = refused(encoded).to_string();
        assert!(message.contains(expected), "{message:?} should contain {expected:?}");
    }
}

#[test]
fn contradictions_are_damage() {
    let cases = [
        ("markers only", b"\xFF\xD8\xFF\xD9".to_vec()),
        (
            "no deflate",
            [&png([1, 1], 8, 0, &[&[1]], &[])[..33], &chunk(b"IDAT", b"not zlib at all"), &chunk(b"IEND", &[])]
                .concat(),
        ),
        ("no width", png([0, 1], 8, 0, &[&[]], &[])),
    ];
    for (name, encoded) in cases {
        let verdict = refused(&encoded);
        assert!(matches!(verdict, DecodeError::Damaged { .. }), "{name}: {verdict}");
    }
}

#[test]
fn a_panic_in_a_decoder_is_a_verdict() {
    let verdict = guarded::<()>(ImageFormat::Gif, || panic!("index {} out of bounds", 7)).expect_err("a verdict");
    assert_eq!(verdict.to_string(), "the GIF decoder panicked: index 7 out of bounds");
}

#[test]
fn flipped_bytes_never_panic_and_get_the_same_verdict_twice() {
    let mut state = 7u64;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % bound
    };
    for (format, encoded) in every_format() {
        for round in 0..150 {
            let mut mutated = encoded.clone();
            for _ in 0..1 + next(4) {
                let at = next(mutated.len());
                mutated[at] = next(256) as u8;
            }
            let verdict = || rgb_from_bytes(&mutated, &LIMITS).map_err(|error| error.to_string());
            let first = verdict();
            assert_eq!(first, verdict(), "{format}, round {round}");
            assert!(!first.is_err_and(|reason| reason.contains("panicked")), "{format}, round {round}");
        }
    }
}
