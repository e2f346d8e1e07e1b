//! Decoding a window of a JPEG, against cutting it out of the whole, and at a scale, against resampling the whole.

use super::*;
use crate::augment::Draws;

/// The whole picture by the general decoder.
fn by_zune(encoded: &[u8]) -> RgbImage {
    // An end-of-image marker is followed by nothing; a byte after the last restart interval is beyond our own decoder.
    let mut padded = encoded[..encoded.len() - 2].to_vec();
    padded.extend([0, 0, 0xFF, 0xD9]);
    decoded(&padded)
}

/// Baseline JPEGs with chroma at half the resolution in either direction and in both, grey ones, and turned ones.
fn samples() -> Vec<(String, Vec<u8>)> {
    let mut samples = vec![
        ("restart".into(), include_bytes!("../../../tests/fixtures/restart.jpg").to_vec()),
        ("4:2:0".into(), include_bytes!("../../../tests/fixtures/420.jpg").to_vec()),
        ("4:2:2".into(), include_bytes!("../../../tests/fixtures/422.jpg").to_vec()),
        ("4:4:0".into(), include_bytes!("../../../tests/fixtures/440.jpg").to_vec()),
        ("4:4:4".into(), jpeg(45, 37)),
    ];
    for orientation in 1..=8 {
        let plain = include_bytes!("../../../tests/fixtures/420.jpg");
        samples.push((format!("orientation {orientation}"), turned(plain, orientation)));
    }
    samples
}

/// The same file with an EXIF orientation.
fn turned(plain: &[u8], orientation: u16) -> Vec<u8> {
    let segment = [b"Exif\0\0".to_vec(), exif(orientation)].concat();
    let length = (segment.len() as u16 + 2).to_be_bytes();
    [&plain[..2], &[0xFF, 0xE1], &length, &segment, &plain[2..]].concat()
}

/// Pixels of a window as those of the whole at the same scale.
fn assert_is_cut(name: &str, [whole, part]: [&(RgbImage, View); 2], window: &Window) {
    let scale = i64::from(window.scale);
    let (whole, whole_view) = whole;
    let (part, view) = part;
    let [left, top] = [(view.left - whole_view.left) / scale, (view.top - whole_view.top) / scale];
    let rows = part.pixels.chunks_exact(part.width as usize * 3);
    for (row, line) in rows.enumerate() {
        let start = ((top as usize + row) * whole.width as usize + left as usize) * 3;
        assert_eq!(line, &whole.pixels[start..start + line.len()], "{name}, {window:?}, row {row}");
    }
    let ends = [view.left + i64::from(part.width) * scale, view.top + i64::from(part.height) * scale];
    let covers = view.left <= i64::from(window.columns.start) && view.top <= i64::from(window.rows.start);
    assert!(covers && ends[0] >= i64::from(window.columns.end), "{name}, {window:?}: {view:?}");
    assert!(ends[1] >= i64::from(window.rows.end), "{name}, {window:?}: {view:?}");
}

#[test]
fn a_window_of_a_jpeg_is_cut_out_of_the_whole_at_any_scale_and_orientation() {
    for (name, encoded) in samples() {
        for scale in [1, 2, 4, 8] {
            let look = |window: &Window| {
                view_from_bytes(&encoded, &LIMITS, |_, _| window.clone())
                    .unwrap_or_else(|error| panic!("{name}: {error}"))
            };
            let size = decoded(&encoded);
            let whole = look(&Window { scale, ..Window::whole(size.width, size.height) });
            assert_eq!(whole.1.scale, scale, "{name} isn't decoded by ourselves");
            for sample in 0..12 {
                let mut draws = Draws::new(3, 0, sample, 0);
                let mut range = |length: u32| {
                    let start = draws.next_u32() % length;
                    start..start + 1 + draws.next_u32() % (length - start)
                };
                let window = Window { columns: range(size.width), rows: range(size.height), scale };
                assert_is_cut(&name, [&whole, &look(&window)], &window);
            }
        }
    }
}

#[test]
fn our_own_decoder_agrees_with_the_general_one() {
    // Different arithmetic of the transform and of the colours.
    const TOLERANCE: u8 = 4;
    for (name, encoded) in samples() {
        let (ours, general) = (decoded(&encoded), by_zune(&encoded));
        assert_eq!([ours.width, ours.height], [general.width, general.height], "{name}");
        let difference = ours.pixels.iter().zip(&general.pixels).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(difference.is_some_and(|it| it <= TOLERANCE), "{name}: {difference:?}");
    }
}

#[test]
fn a_file_is_refused_whatever_is_wanted_of_it() {
    let mut encoded = include_bytes!("../../../tests/fixtures/420.jpg").to_vec();
    let at = encoded.len() - 40;
    encoded.truncate(at);
    let corner = Window { columns: 0..8, rows: 0..8, scale: 1 };
    let verdict = view_from_bytes(&encoded, &LIMITS, |_, _| corner.clone()).expect_err("half a picture");
    assert_eq!(verdict.to_string(), refused(&encoded).to_string());
}
