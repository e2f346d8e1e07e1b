//! Gradient accumulation: a step's batch goes through the network in parts that fit the device.
//!
//! In: how many images a batch has, and how many fit. Out: ranges of it, and the sum of the parts' gradients.
//! A part counts by its share of the images, so the sum is the gradient of the batch's mean loss, also where parts differ
//! in size: in a last batch that isn't full, and where the parts don't divide. What depends on the whole batch differs:
//! batch norms see the parts.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};
use std::ops::Range;

/// Cuts `batch` images into the fewest parts of at most `micro_batch` images, as equal as can be.
///
/// Equal, because a part of one image can't train a batch norm. 0 cuts nothing.
pub(crate) fn parts(batch: usize, micro_batch: usize) -> Vec<Range<usize>> {
    let num_parts = if micro_batch == 0 { 1 } else { batch.div_ceil(micro_batch).max(1) };
    (0..num_parts).map(|part| part * batch / num_parts..(part + 1) * batch / num_parts).collect()
}

/// Adds the gradients `added` of `model`'s parameters to `sum`.
pub(crate) fn add<M: Module>(model: &M, sum: Option<Gradients>, added: Gradients) -> Gradients {
    let Some(sum) = sum else { return added };
    let mut addition = Addition { sum, added };
    model.visit(&mut addition);
    addition.sum
}

struct Addition {
    sum: Gradients,
    added: Gradients,
}

impl ModuleVisitor for Addition {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        let Some(added) = tensor.grad_remove(&mut self.added) else { return };
        let sum = match tensor.grad_remove(&mut self.sum) {
            Some(sum) => sum + added,
            None => added,
        };
        tensor.grad_replace(&mut self.sum, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn parts_cover_the_batch_and_differ_by_one_at_most() {
        for (batch, micro_batch, sizes) in [
            (32, 8, vec![8, 8, 8, 8]),
            (20, 8, vec![6, 7, 7]),
            (9, 8, vec![4, 5]),
            (33, 32, vec![16, 17]),
            (5, 0, vec![5]),
            (3, 8, vec![3]),
        ] {
            let found = parts(batch, micro_batch);
            assert_eq!(found.iter().map(|part| part.len()).collect::<Vec<_>>(), sizes, "{batch} by {micro_batch}");
            assert_eq!((found[0].start, found[found.len() - 1].end), (0, batch));
            assert!(found.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
