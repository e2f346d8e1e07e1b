//! What measuring and comparing all pictures of a data set says.
//!
//! In: the measures of each picture. Out: [`DeepInspection`].

use serde::Serialize;

use super::duplicates::{self, DuplicateGroup, NearDuplicates, Place};
use super::measure::Measured;
use super::{ClassCount, Looked, SkippedFile};

/// Lower bounds of the ranges of the shorter side, in pixels.
const SIDES: [u32; 9] = [1, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// Imbalance, sizes, colours and copies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeepInspection {
    /// Training pictures of the largest class over those of the smallest; absent if the smallest has none.
    pub imbalance: Option<f64>,
    /// Sizes of all pictures.
    pub sizes: SizeStatistics,
    /// Mean of each channel over the training pictures, 0–1. Every picture counts the same, whatever its size.
    pub mean: [f64; 3],
    /// Standard deviation of each channel over the training pictures, 0–1, around that mean.
    pub std: [f64; 3],
    /// Pictures that can be decoded and should be looked at.
    pub odd: Vec<SkippedFile>,
    /// Files of the same bytes.
    pub duplicates: Vec<DuplicateGroup>,
    /// Pictures that look alike and aren't the same bytes, the nearest first, at most 10,000 pairs.
    pub near_duplicates: Vec<NearDuplicates>,
    /// How near duplicates are found.
    pub near_method: String,
}

/// Sizes of pictures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeStatistics {
    /// Width and height of the picture of fewest pixels.
    pub smallest: [u32; 2],
    /// Width and height of the picture of most pixels.
    pub largest: [u32; 2],
    /// Middle one of the shorter sides.
    pub median_side: u32,
    /// How many pictures have their shorter side in which range.
    pub histogram: Vec<SizeRange>,
}

/// A range of sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeRange {
    /// Shortest side in it, in pixels.
    pub from: u32,
    /// Longest side in it; absent for the last range.
    pub to: Option<u32>,
    /// Pictures.
    pub images: usize,
}

/// One picture of either set.
struct One<'a> {
    place: Place,
    label: u32,
    measured: &'a Measured,
}

pub(super) fn deep(
    classes: &[ClassCount],
    looked: &[Vec<Looked>],
    name: impl Fn(usize, u32) -> String,
) -> DeepInspection {
    let all: Vec<_> = looked
        .iter()
        .enumerate()
        .flat_map(|(split, samples)| samples.iter().map(move |sample| (split, sample)))
        .filter_map(|(split, sample)| {
            let measured = sample.measured.as_deref()?;
            Some(One { place: (split, sample.index), label: sample.label, measured })
        })
        .collect();
    let path = |one: &One<'_>| name(one.place.0, one.place.1);
    let (mean, std) = colours(all.iter().filter(|one| one.place.0 == 0).map(|one| one.measured));
    let odd = all.iter().filter_map(|one| Some(SkippedFile { path: path(one), reason: one.measured.oddity()? }));
    DeepInspection {
        imbalance: imbalance(classes),
        sizes: sizes(&all),
        mean,
        std,
        odd: odd.collect(),
        duplicates: groups(&all, path),
        near_duplicates: pairs(&all, path),
        near_method: format!(
            "difference hashes across and down, 128 bits, at most {} of them different",
            duplicates::MAX_DISTANCE
        ),
    }
}

fn imbalance(classes: &[ClassCount]) -> Option<f64> {
    let counts = classes.iter().map(|class| class.train);
    let (least, most) = (counts.clone().min()?, counts.max()?);
    (least > 0).then(|| most as f64 / least as f64)
}

/// Mean and standard deviation of each channel.
fn colours<'a>(pictures: impl Iterator<Item = &'a Measured>) -> ([f64; 3], [f64; 3]) {
    let (mut count, mut mean, mut square) = (0.0f64, [0.0; 3], [0.0; 3]);
    for picture in pictures {
        count += 1.0;
        for channel in 0..3 {
            mean[channel] += picture.mean[channel];
            square[channel] += picture.mean_square[channel];
        }
    }
    let mean = mean.map(|sum| sum / count.max(1.0));
    let std = std::array::from_fn(|channel| (square[channel] / count.max(1.0) - mean[channel].powi(2)).max(0.0).sqrt());
    (mean, std)
}

fn sizes(all: &[One<'_>]) -> SizeStatistics {
    let area = |one: &&One<'_>| u64::from(one.measured.width) * u64::from(one.measured.height);
    let size = |one: Option<&One<'_>>| one.map_or([0; 2], |one| [one.measured.width, one.measured.height]);
    let mut sides: Vec<_> = all.iter().map(|one| one.measured.width.min(one.measured.height)).collect();
    sides.sort_unstable();
    let upper = |range: usize| SIDES.get(range + 1).map(|next| next - 1);
    let histogram = SIDES.iter().enumerate().map(|(range, &from)| {
        let to = upper(range);
        let images = sides.iter().filter(|&&side| side >= from && to.is_none_or(|to| side <= to)).count();
        SizeRange { from, to, images }
    });
    SizeStatistics {
        smallest: size(all.iter().min_by_key(area)),
        largest: size(all.iter().max_by_key(area)),
        median_side: sides.get(sides.len() / 2).copied().unwrap_or(0),
        histogram: histogram.filter(|range| range.images > 0).collect(),
    }
}

fn groups(all: &[One<'_>], path: impl Fn(&One<'_>) -> String) -> Vec<DuplicateGroup> {
    let hashes: Vec<_> = all.iter().map(|one| one.measured.hash).collect();
    let group = |members: Vec<usize>| {
        let first = &all[members[0]];
        DuplicateGroup {
            paths: members.iter().map(|&at| path(&all[at])).collect(),
            across: members.iter().any(|&at| all[at].place.0 != first.place.0),
            labels_differ: members.iter().any(|&at| all[at].label != first.label),
        }
    };
    duplicates::equal(&hashes).into_iter().map(group).collect()
}

fn pairs(all: &[One<'_>], path: impl Fn(&One<'_>) -> String) -> Vec<NearDuplicates> {
    let hashes: Vec<_> = all.iter().enumerate().filter_map(|(at, one)| Some((at, one.measured.perceptual?))).collect();
    let near = duplicates::near(&hashes).into_iter();
    let others = near.filter(|&(one, other, _)| all[one].measured.hash != all[other].measured.hash);
    let pair = |(one, other, distance): (usize, usize, u32)| {
        let (one, other) = (&all[one], &all[other]);
        NearDuplicates {
            paths: [path(one), path(other)],
            distance,
            across: one.place.0 != other.place.0,
            labels_differ: one.label != other.label,
        }
    };
    others.map(pair).collect()
}
