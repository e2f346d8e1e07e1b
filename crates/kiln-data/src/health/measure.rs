//! What one picture is measured for: size, colours, sameness.

use sha2::{Digest, Sha256};

use super::perceptual_hash::{self, PerceptualHash};
use crate::decode::RgbImage;

/// The first half of SHA-256: enough that equal means equal, for any number of files and for files made to collide.
pub(super) type ContentHash = [u8; 16];

/// The measures of one picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) width: u32,
    pub(super) height: u32,
    /// Of its bytes, as they are stored.
    pub(super) hash: ContentHash,
    /// Absent if it is too small or too even to be told by its shape.
    pub(super) perceptual: Option<PerceptualHash>,
    /// Mean of each channel, 0–1.
    pub(super) mean: [f64; 3],
    /// Mean of the squares of each channel.
    pub(super) mean_square: [f64; 3],
}

impl Measured {
    /// Measures `image`, which was decoded from bytes of this hash.
    pub(super) fn of(image: &RgbImage, hash: ContentHash) -> Self {
        let (mut sum, mut sum_squares) = ([0u64; 3], [0u64; 3]);
        let pixels = image.pixels.as_chunks::<3>().0;
        for pixel in pixels {
            for (channel, &value) in pixel.iter().enumerate() {
                sum[channel] += u64::from(value);
                sum_squares[channel] += u64::from(value) * u64::from(value);
            }
        }
        let num_pixels = pixels.len() as f64;
        Self {
            width: image.width,
            height: image.height,
            hash,
            perceptual: perceptual_hash::of(image),
            mean: sum.map(|sum| sum as f64 / num_pixels / 255.0),
            mean_square: sum_squares.map(|sum| sum as f64 / num_pixels / (255.0 * 255.0)),
        }
    }

    /// What is unusual about it, in words.
    pub(super) fn oddity(&self) -> Option<String> {
        /// Below it nothing can be seen; the smallest set in use, MNIST, has 28.
        const MIN_SIDE: u32 = 16;
        /// A crop of training would show a strip of it.
        const MAX_ASPECT: u32 = 4;
        let (width, height) = (self.width, self.height);
        let (short, long) = (width.min(height), width.max(height));
        let is_even = (0..3).all(|channel| self.mean_square[channel] - self.mean[channel].powi(2) < 1e-9);
        match (short < MIN_SIDE, long > MAX_ASPECT * short, is_even) {
            (true, ..) => Some(format!("only {width}x{height} pixels")),
            (_, true, _) => Some(format!("{width}x{height} pixels: more than {MAX_ASPECT} times as long as wide")),
            (.., true) => Some("one colour all over".into()),
            _ => None,
        }
    }
}

/// The hash of bytes as they are stored.
pub(super) fn content_hash(bytes: &[u8]) -> ContentHash {
    let digest = Sha256::digest(bytes);
    let mut hash = ContentHash::default();
    hash.copy_from_slice(&digest[..16]);
    hash
}
