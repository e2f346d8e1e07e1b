//! Some samples of a data set, and the seeded split of one that comes without a validation set.
//!
//! In: a [`Dataset`] and what each sample is known by. Out: [`Splits`] over the same data.
//! The split is drawn for each class from a hash of each sample's key: neither the order of the file system nor that of
//! a table plays a part, and a new sample doesn't move the others across.

use std::path::Path;
use std::sync::Arc;

use super::{Dataset, OpenOptions, Sample, Splits, layout_error};
use crate::augment::Draws;
use crate::error::DataError;

/// Some samples of another data set, with its classes.
#[derive(Clone)]
pub struct Subset {
    whole: Arc<dyn Dataset>,
    indices: Vec<u32>,
}

impl Subset {
    /// The samples of `whole` at `indices`, in that order.
    ///
    /// # Errors
    /// [`DataError::Config`] if an index is beyond the end.
    pub fn new(whole: Arc<dyn Dataset>, indices: Vec<u32>) -> Result<Self, DataError> {
        match indices.iter().find(|&&index| index as usize >= whole.len()) {
            None => Ok(Self { whole, indices }),
            Some(index) => {
                let problem = format!("index {index} is beyond the end; there are {} samples", whole.len());
                Err(DataError::Config { what: "subset", problems: vec![problem] })
            }
        }
    }

    fn inner(&self, index: usize) -> usize {
        self.indices[index] as usize
    }
}

impl Dataset for Subset {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn classes(&self) -> &[String] {
        self.whole.classes()
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let inner = self.inner(index);
        self.whole.sample(inner).map_err(|error| match error {
            DataError::Read { name, reason, .. } => DataError::Read { name, sample: index, reason },
            other => other,
        })
    }

    fn name(&self, index: usize) -> String {
        self.whole.name(self.inner(index))
    }

    fn label(&self, index: usize) -> u32 {
        self.whole.label(self.inner(index))
    }
}

/// Sets a seeded share of every class of `whole` aside for validation, at least one image of a class of two or more.
///
/// `key`: what a sample is known by, whatever else there is.
///
/// # Errors
/// [`DataError::Layout`] with `path` if no class has two images.
pub(crate) fn split(
    whole: Arc<dyn Dataset>,
    path: &Path,
    options: &OpenOptions,
    key: impl Fn(usize) -> String,
) -> Result<Splits, DataError> {
    let mut by_class = vec![Vec::new(); whole.classes().len()];
    for index in 0..whole.len() {
        let rank = Draws::new(options.seed, 0, fnv1a(key(index).as_bytes()), Draws::ORDER).next_u64();
        by_class[whole.label(index) as usize].push((rank, index as u32));
    }
    let mut val = Vec::new();
    for mut ranked in by_class {
        let wanted = (ranked.len() as f64 * options.val_fraction).round() as usize;
        let num_val = wanted.max(1).min(ranked.len().saturating_sub(1));
        ranked.sort_unstable();
        val.extend(ranked[..num_val].iter().map(|&(_, index)| index));
    }
    if val.is_empty() {
        let problem = "no class has the two images it takes to set one aside for validation";
        return Err(layout_error(path, problem, "add images or give a val folder"));
    }
    val.sort_unstable();
    let train = (0..whole.len() as u32).filter(|index| val.binary_search(index).is_err()).collect();
    let half = |indices| Arc::new(Subset { whole: whole.clone(), indices });
    Ok(Splits { train: half(train), val: half(val) })
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): the hash must stay the same for ever, unlike the standard library's.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::MemoryDataset;

    fn numbered(len: usize) -> Arc<dyn Dataset> {
        let samples = (0..len).map(|index| Sample::encoded(vec![index as u8], index as u32 % 2)).collect();
        Arc::new(MemoryDataset::new(vec!["even".into(), "odd".into()], samples).expect("a data set"))
    }

    fn bytes(dataset: &dyn Dataset) -> Vec<u8> {
        (0..dataset.len()).map(|index| dataset.sample(index).expect("a sample").content.bytes()[0]).collect()
    }

    #[test]
    fn a_subset_has_its_samples_in_its_own_order() {
        let subset = Subset::new(numbered(6), vec![5, 0, 2]).expect("a subset");
        assert_eq!(bytes(&subset), [5, 0, 2]);
        assert_eq!((subset.label(0), subset.label(1)), (1, 0));
        assert!(Subset::new(numbered(6), vec![6]).is_err());
    }

    #[test]
    fn a_split_takes_the_same_share_of_each_class_and_loses_nothing() {
        let options = OpenOptions { val_fraction: 0.3, ..OpenOptions::default() };
        let splits = split(numbered(20), Path::new("x"), &options, |index| index.to_string()).expect("a split");
        let (train, val) = (bytes(&*splits.train), bytes(&*splits.val));
        assert_eq!(val.iter().filter(|byte| *byte % 2 == 0).count(), 3);
        assert_eq!(val.len(), 6);
        let mut all = [train, val].concat();
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<u8>>());
    }
}
