//! A hash of what a picture looks like: two difference hashes, across and down.
//!
//! In: an RGB picture. Out: 128 bits, each saying whether a part of the picture is brighter than the part before it. Resizing,
//! another JPEG quality or a little more light change few bits; another picture changes about half.
//! Source: the dHash of N. Krawetz ("Kind of Like That", 2013), 64 bits across on 9x8 parts, and the same down on 8x9.

use crate::decode::RgbImage;

/// 64 bits across, 64 down.
pub(super) type PerceptualHash = u128;

/// Parts in the direction of the differences; one fewer differences.
const PARTS: usize = 9;
/// Parts in the other direction.
const LINES: usize = 8;

/// A brightness range below this, of 255, is noise on one colour, and so would be its hash.
const MIN_RANGE: f64 = 8.0;

/// The hash of a picture; `None` if it has fewer pixels than parts, or hardly any differences.
pub(super) fn of(image: &RgbImage) -> Option<PerceptualHash> {
    let (width, height) = (image.width as usize, image.height as usize);
    if width < PARTS || height < PARTS {
        return None;
    }
    let (mut across, mut down) = (Parts::new(PARTS, LINES), Parts::new(LINES, PARTS));
    for (y, row) in image.pixels.chunks_exact(3 * width).enumerate() {
        let (line, part) = (y * LINES / height, y * PARTS / height);
        for (x, pixel) in row.as_chunks::<3>().0.iter().enumerate() {
            let grey = luma(pixel);
            across.add(x * PARTS / width, line, grey);
            down.add(x * LINES / width, part, grey);
        }
    }
    let (across, down) = (across.means(), down.means());
    let (least, most) =
        across.iter().fold((f64::MAX, f64::MIN), |(least, most), &mean| (least.min(mean), most.max(mean)));
    if most - least < MIN_RANGE {
        return None;
    }
    let rising_across = (0..LINES).flat_map(|y| (1..PARTS).map(move |x| (y * PARTS + x, y * PARTS + x - 1)));
    let rising_down = (1..PARTS).flat_map(|y| (0..LINES).map(move |x| (y * LINES + x, (y - 1) * LINES + x)));
    let bits = rising_across.map(|(at, before)| across[at] > across[before]);
    let bits = bits.chain(rising_down.map(|(at, before)| down[at] > down[before]));
    Some(bits.fold(0, |hash, bit| hash << 1 | PerceptualHash::from(bit)))
}

/// Brightness by ITU-R BT.601 in eighths of a bit.
fn luma([red, green, blue]: &[u8; 3]) -> u32 {
    77 * u32::from(*red) + 150 * u32::from(*green) + 29 * u32::from(*blue)
}

/// Sums of brightness over a grid.
struct Parts {
    columns: usize,
    sums: Vec<(u64, u32)>,
}

impl Parts {
    fn new(columns: usize, rows: usize) -> Self {
        Self { columns, sums: vec![(0, 0); columns * rows] }
    }

    fn add(&mut self, column: usize, row: usize, grey: u32) {
        let (sum, count) = &mut self.sums[row * self.columns + column];
        *sum += u64::from(grey);
        *count += 1;
    }

    /// 0–255.
    fn means(&self) -> Vec<f64> {
        self.sums.iter().map(|&(sum, count)| sum as f64 / f64::from(count) / 256.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waves of their own for every `kind`.
    fn picture(width: u32, height: u32, kind: f64) -> RgbImage {
        let value = |x: u32, y: u32, channel: f64| {
            let (x, y) = (f64::from(x) / f64::from(width), f64::from(y) / f64::from(height));
            (120.0 + 60.0 * (7.0 * x * kind + channel).sin() + 50.0 * (9.0 * y / kind + x).cos()) as u8
        };
        let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| [0.0, 1.0, 2.0].map(|c| value(x, y, c))));
        RgbImage { width, height, pixels: pixels.collect() }
    }

    fn distance(a: &RgbImage, b: &RgbImage) -> u32 {
        (of(a).expect("a hash") ^ of(b).expect("a hash")).count_ones()
    }

    #[test]
    fn size_and_light_change_few_bits_and_another_picture_many() {
        let original = picture(90, 72, 1.0);
        let mut brighter = picture(64, 50, 1.0);
        brighter.pixels.iter_mut().for_each(|value| *value = value.saturating_add(9));
        assert!(distance(&original, &brighter) <= 4, "{}", distance(&original, &brighter));
        assert!(distance(&original, &picture(90, 72, 2.3)) > 24);
    }

    #[test]
    fn small_and_even_pictures_have_no_hash() {
        assert_eq!(of(&picture(8, 40, 1.0)), None);
        assert_eq!(of(&RgbImage { width: 20, height: 20, pixels: vec![200; 1200] }), None);
    }
}
