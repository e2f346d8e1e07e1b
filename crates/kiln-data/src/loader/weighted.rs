//! Drawing in proportion to weights, in constant time per draw.
//!
//! In: weights and a stream of random numbers. Out: an index.
//! Source: the alias method, as Vose builds its table ("A linear algorithm for generating random numbers with a given
//! distribution", IEEE Trans. Software Engineering 17, 1991). Twelve bytes an entry.

use crate::augment::Draws;
use crate::dataset::Dataset;

/// Draws a class by its weight and then one of its samples, all of those equally likely.
pub(super) struct WeightedClasses {
    classes: WeightedSamples,
    /// The samples in the order of their classes.
    samples: Vec<u32>,
    /// Where each class begins in `samples`, and the end.
    starts: Vec<usize>,
}

/// Draws an index by its weight.
pub(super) struct WeightedSamples {
    /// The chance that a slot stands for itself.
    own: Vec<f64>,
    /// What it stands for otherwise.
    other: Vec<u32>,
}

impl WeightedClasses {
    /// Sorts the samples by class. A class without samples is never drawn, whatever its weight; if that leaves no weight at
    /// all, the classes that have samples are equally likely.
    pub(super) fn new(dataset: &dyn Dataset, weights: &[f64]) -> Self {
        let mut starts = vec![0; weights.len() + 1];
        (0..dataset.len()).for_each(|sample| starts[dataset.label(sample) as usize + 1] += 1);
        let filled: Vec<f64> = starts[1..].iter().map(|&count| f64::from(count > 0)).collect();
        let mut present: Vec<f64> = weights.iter().zip(&filled).map(|(weight, filled)| weight * filled).collect();
        if present.iter().sum::<f64>() <= 0.0 {
            present = filled;
        }
        for class in 0..weights.len() {
            starts[class + 1] += starts[class];
        }
        let mut next = starts.clone();
        let mut samples = vec![0; dataset.len()];
        for sample in 0..dataset.len() {
            let place = &mut next[dataset.label(sample) as usize];
            samples[*place] = sample as u32;
            *place += 1;
        }
        Self { classes: WeightedSamples::new(&present), samples, starts }
    }

    pub(super) fn draw(&self, draws: &mut Draws) -> usize {
        let class = self.classes.draw(draws);
        let members = &self.samples[self.starts[class]..self.starts[class + 1]];
        members[draws.below(members.len() as u64) as usize] as usize
    }
}

impl WeightedSamples {
    /// Makes the table. The weights are finite and not negative, and not all of them zero.
    pub(super) fn new(weights: &[f64]) -> Self {
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        let mut own: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let mut other: Vec<u32> = (0..weights.len() as u32).collect();
        let (mut small, mut large): (Vec<_>, Vec<_>) = (0..weights.len()).partition(|&slot| own[slot] < 1.0);
        while let (Some(&giver), Some(&taker)) = (large.last(), small.last()) {
            small.pop();
            other[taker] = giver as u32;
            own[giver] -= 1.0 - own[taker];
            if own[giver] < 1.0 {
                large.pop();
                small.push(giver);
            }
        }
        // A slot that is left differs from 1 by rounding alone, and stands for itself either way.
        Self { own, other }
    }

    pub(super) fn draw(&self, draws: &mut Draws) -> usize {
        let slot = draws.below(self.own.len() as u64) as usize;
        if draws.uniform() < self.own[slot] { slot } else { self.other[slot] as usize }
    }
}
