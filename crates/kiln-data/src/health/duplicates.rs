//! Pictures that are there twice, to the bit or nearly.
//!
//! In: hashes of samples. Out: [`DuplicateGroup`]s of equal ones, and pairs that look alike.
//! Near: perceptual hashes that differ in at most [`MAX_DISTANCE`] of 128 bits. Two such hashes agree in at least one of eight
//! bands of 16 bits (pigeonhole), so only samples that share a band are compared. Where more than [`MAX_BAND`] share one, as
//! drawings on an empty page do, each is compared with its neighbours in the order of hashes alone.

use serde::Serialize;

use super::measure::ContentHash;
use super::perceptual_hash::PerceptualHash;

/// Bits in which the hashes of near duplicates differ at most. Fewer than the number of bands.
pub(super) const MAX_DISTANCE: u32 = 5;
const NUM_BANDS: u32 = 8;
const BAND_BITS: u32 = 16;
/// Samples of one band that are all compared with each other.
const MAX_BAND: usize = 1000;
/// Neighbours that a sample of a larger band is compared with.
const NEIGHBOURS: usize = 32;
/// Pairs that are kept: nobody reads more.
const MAX_PAIRS: usize = 10_000;

/// Where a sample is: 0 for training, 1 for validation, and its index there.
pub(super) type Place = (usize, u32);

/// Files of the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DuplicateGroup {
    /// Their paths, those for training first.
    pub paths: Vec<String>,
    /// Both sets have one: the validation accuracy counts what was learned by heart.
    pub across: bool,
    /// They have different labels: at least one is wrong.
    pub labels_differ: bool,
}

impl DuplicateGroup {
    /// The first and the last: one of each set, if both have any.
    pub(super) fn pair(&self) -> [String; 2] {
        let path = |path: Option<&String>| path.cloned().unwrap_or_default();
        [path(self.paths.first()), path(self.paths.last())]
    }
}

/// Two pictures that look alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NearDuplicates {
    /// Their paths.
    pub paths: [String; 2],
    /// Bits in which their hashes differ, of 128.
    pub distance: u32,
    /// One is for training, the other for validation.
    pub across: bool,
    /// They have different labels.
    pub labels_differ: bool,
}

/// Groups of equal hashes, as indices into `hashes`.
pub(super) fn equal(hashes: &[ContentHash]) -> Vec<Vec<usize>> {
    let mut order: Vec<_> = (0..hashes.len()).collect();
    order.sort_unstable_by_key(|&index| (hashes[index], index));
    let mut groups: Vec<_> = order
        .chunk_by(|&a, &b| hashes[a] == hashes[b])
        .filter(|group| group.len() > 1)
        .map(<[usize]>::to_vec)
        .collect();
    groups.sort_unstable();
    groups
}

/// Pairs of near hashes with their distance, as indices into `hashes`, the nearest first.
pub(super) fn near(hashes: &[(usize, PerceptualHash)]) -> Vec<(usize, usize, u32)> {
    let mut pairs = Vec::new();
    for band in 0..NUM_BANDS {
        let mut order: Vec<_> = hashes.to_vec();
        order.sort_unstable_by_key(|&(index, hash)| (part(hash, band), hash, index));
        for same in order.chunk_by(|a, b| part(a.1, band) == part(b.1, band)) {
            let reach = if same.len() > MAX_BAND { NEIGHBOURS } else { same.len() };
            for (at, one) in same.iter().enumerate() {
                pairs.extend(same[at + 1..].iter().take(reach).filter_map(|other| pair(*one, *other)));
            }
            if pairs.len() > 4 * MAX_PAIRS {
                keep_nearest(&mut pairs);
            }
        }
    }
    keep_nearest(&mut pairs);
    pairs
}

fn keep_nearest(pairs: &mut Vec<(usize, usize, u32)>) {
    pairs.sort_unstable_by_key(|&(one, other, distance)| (distance, one, other));
    // A pair may share several bands.
    pairs.dedup();
    pairs.truncate(MAX_PAIRS);
}

fn part(hash: PerceptualHash, band: u32) -> u16 {
    (hash >> (band * BAND_BITS)) as u16
}

/// The pair, if it is near.
fn pair(one: (usize, PerceptualHash), other: (usize, PerceptualHash)) -> Option<(usize, usize, u32)> {
    let distance = (one.1 ^ other.1).count_ones();
    (distance <= MAX_DISTANCE).then(|| (one.0.min(other.0), one.0.max(other.0), distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_hashes_are_found_once_wherever_their_bits_differ() {
        let base: PerceptualHash = 0x0123_4567_89AB_CDEF_0F1E_2D3C_4B5A_6978;
        let spread = base ^ (1 | 1 << 20 | 1 << 40 | 1 << 60 | 1 << 127);
        let far = base ^ 0x3F;
        assert_eq!(near(&[(0, base), (1, spread), (2, far), (3, !base)]), [(0, 1, 5)]);
        assert_eq!(near(&[(7, base), (4, base)]), [(4, 7, 0)]);
    }

    #[test]
    fn equal_hashes_are_grouped() {
        let hash = |byte| [byte; 16];
        assert_eq!(equal(&[hash(1), hash(2), hash(1), hash(3), hash(1)]), [vec![0, 2, 4]]);
    }
}
