//! Which images a preview shows: spread over the classes, and within a class over its samples.
//!
//! In: a data set and a number. Out: decoded images in the order of the classes.
//! A damaged file's place is taken by the next sample of its class, as a run that skips it would go on.

use std::collections::BTreeMap;

use crate::dataset::{Dataset, Sample};
use crate::decode::{DecodeOptions, RgbImage};
use crate::error::DataError;
use crate::loader::Skipped;

/// Characters of a class's name that are shown; longer ones end in two dots.
const MAX_NAME_CHARS: usize = 22;

/// One image of the preview.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Index in the data set.
    pub(super) sample: usize,
    /// Index of the class.
    pub(super) label: u32,
    /// Name of the class.
    pub(super) class: String,
    /// The original.
    pub(super) image: RgbImage,
}

impl Row {
    /// The class's name, cut off if it is long.
    pub(super) fn name(&self) -> String {
        if self.class.chars().count() <= MAX_NAME_CHARS {
            return self.class.clone();
        }
        self.class.chars().take(MAX_NAME_CHARS - 2).chain("..".chars()).collect()
    }
}

/// Chooses and decodes `num_rows` images, fewer if there are fewer; and the files that can't be.
///
/// # Errors
/// [`DataError::Config`] if there are no images, [`DataError::NothingLeft`] if none can be decoded, and whatever isn't
/// about one file.
pub(super) fn choose(dataset: &dyn Dataset, num_rows: usize) -> Result<(Vec<Row>, Vec<Skipped>), DataError> {
    let (mut rows, mut skipped) = (Vec::new(), Vec::new());
    for candidates in candidates((0..dataset.len()).map(|index| dataset.label(index)), num_rows) {
        rows.extend(first_readable(dataset, &candidates, &mut skipped)?);
    }
    match (rows.is_empty(), skipped.first()) {
        (false, _) => Ok((rows, skipped)),
        (true, None) => Err(DataError::Config { what: "data set", problems: vec!["it has no images".into()] }),
        (true, Some(Skipped { name, reason })) => {
            Err(DataError::NothingLeft { num_skipped: skipped.len(), first: format!("{name}: {reason}") })
        }
    }
}

/// The samples that each row may show; together they are all samples.
fn candidates(labels: impl Iterator<Item = u32>, num_rows: usize) -> Vec<Vec<usize>> {
    let mut samples_by_class = BTreeMap::<u32, Vec<usize>>::new();
    for (sample, label) in labels.enumerate() {
        samples_by_class.entry(label).or_default().push(sample);
    }
    let sizes: Vec<_> = samples_by_class.values().map(Vec::len).collect();
    let classes = samples_by_class.values().zip(shares(&sizes, num_rows));
    let parts = |(samples, share): (&Vec<usize>, usize)| -> Vec<_> {
        let edge = |part: usize| part * samples.len() / share;
        (0..share).map(|part| samples[edge(part)..edge(part + 1)].to_vec()).collect()
    };
    classes.flat_map(parts).collect()
}

/// How many of `num_rows` rows each class gets: as even as their sizes allow, and evenly spaced where not all get one.
fn shares(sizes: &[usize], num_rows: usize) -> Vec<usize> {
    let mut shares = vec![0; sizes.len()];
    let mut num_left = num_rows.min(sizes.iter().sum());
    while num_left > 0 {
        let open: Vec<_> = (0..sizes.len()).filter(|&class| shares[class] < sizes[class]).collect();
        let num_taken = num_left.min(open.len());
        for turn in 0..num_taken {
            shares[open[turn * open.len() / num_taken]] += 1;
        }
        num_left -= num_taken;
    }
    shares
}

/// The first of `candidates` that is a picture.
fn first_readable(
    dataset: &dyn Dataset,
    candidates: &[usize],
    skipped: &mut Vec<Skipped>,
) -> Result<Option<Row>, DataError> {
    for &sample in candidates {
        let reason = match dataset.sample(sample) {
            Ok(Sample { content, label }) => match content.into_rgb(&DecodeOptions::default()) {
                Ok(image) => {
                    let class = dataset.classes().get(label as usize).cloned().unwrap_or_default();
                    return Ok(Some(Row { sample, label, class, image }));
                }
                Err(verdict) => verdict.to_string(),
            },
            Err(DataError::Read { reason, .. }) => reason.to_string(),
            Err(error) => return Err(error),
        };
        skipped.push(Skipped { name: dataset.name(sample), reason });
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_rows_than_classes_are_spread_over_the_classes() {
        assert_eq!(shares(&[5; 10], 4), [1, 0, 1, 0, 0, 1, 0, 1, 0, 0]);
    }

    #[test]
    fn a_small_class_leaves_its_rows_to_the_others() {
        assert_eq!(shares(&[1, 9, 9], 8), [1, 4, 3]);
        assert_eq!(shares(&[1, 2], 8), [1, 2], "there are no more");
        assert!(shares(&[], 8).is_empty());
    }

    #[test]
    fn every_sample_belongs_to_one_row() {
        let labels = [1, 0, 1, 1, 0, 1, 1];
        let rows = candidates(labels.into_iter(), 4);
        assert_eq!(rows, [vec![1], vec![4], vec![0, 2], vec![3, 5, 6]]);
    }
}
