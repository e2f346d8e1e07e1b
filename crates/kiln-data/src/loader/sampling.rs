//! Which sample an epoch takes at which position, for one of several processes.
//!
//! In: the options, the data set's labels, `(seed, epoch)`. Out: the sample at any position, and the number that its random
//! draws are made from. Nothing is listed per epoch: a permutation is computed ([`EpochOrder`]), and drawing with
//! replacement is a function of `(seed, epoch, position)` over a table that is made once, when the loader is.
//!
//! **Sharing an epoch among processes** ([`Shard`]): the order is that of one process, and is dealt out in turn, so that
//! batch `i` of all ranks together is what one process with a batch as large takes. All ranks get the same number of
//! samples: with `drop_last` the samples that can't be dealt out evenly are left out, else the order begins again for the
//! last round, as PyTorch's `DistributedSampler` does.
//!
//! **With replacement** a sample may come twice in an epoch. Its random draws are then made from the position in place of the
//! sample's index, so that the copies are augmented differently.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::LoaderConfig;
use super::weighted::{WeightedClasses, WeightedSamples};
use crate::augment::Draws;
use crate::dataset::Dataset;
use crate::order::EpochOrder;

/// Marks draws that are made from a position: no data set has as many samples.
const POSITION: u64 = 1 << 63;

/// How the samples of a training epoch are chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Every sample exactly once.
    #[default]
    EverySample,
    /// With replacement: a class, all of them equally likely, then a sample of it. Classes without samples are left out.
    ClassBalanced,
    /// With replacement: a class in proportion to its weight, then a sample of it.
    ClassWeights(Vec<f64>),
    /// With replacement: a sample in proportion to its weight.
    SampleWeights(Vec<f64>),
}

/// The part of an epoch that one of several processes takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// This process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub world: usize,
}

impl Default for Shard {
    /// All of it.
    fn default() -> Self {
        Self { rank: 0, world: 1 }
    }
}

impl Shard {
    /// Positions each process takes of an epoch of `num_samples`.
    pub(super) fn num_positions(&self, num_samples: usize, drop_last: bool) -> usize {
        if drop_last { num_samples / self.world } else { num_samples.div_ceil(self.world) }
    }

    /// The position in the order of all processes.
    fn position(&self, position: usize, num_samples: usize) -> usize {
        (position * self.world + self.rank) % num_samples
    }
}

/// Finds what can't work in the options that this file is about.
pub(super) fn problems(dataset: &dyn Dataset, config: &LoaderConfig) -> Vec<String> {
    let Shard { rank, world } = config.shard;
    let mut problems = Vec::new();
    if rank >= world {
        problems.push(format!("shard.rank is {rank} and shard.world {world}; ranks are 0 to world - 1"));
    } else if config.drop_last && dataset.len() < world {
        problems.push(format!("{} images are fewer than the {world} processes of shard.world", dataset.len()));
    }
    let weights = match &config.sampling {
        Sampling::EverySample => return problems,
        Sampling::ClassBalanced => None,
        Sampling::ClassWeights(weights) => Some(("class_weights", weights, dataset.classes().len())),
        Sampling::SampleWeights(weights) => Some(("sample_weights", weights, dataset.len())),
    };
    if !config.shuffle {
        problems.push("sampling with replacement needs shuffle = true".into());
    }
    if u32::try_from(dataset.len()).is_err() {
        problems.push("sampling with replacement takes at most 4,294,967,295 images".into());
    }
    if let Some((name, weights, wanted)) = weights {
        problems.extend(weight_problems(name, weights, wanted));
    }
    if !matches!(config.sampling, Sampling::SampleWeights(_)) {
        let classes = dataset.classes().len();
        let stray = (0..dataset.len()).find(|&sample| dataset.label(sample) as usize >= classes);
        problems.extend(stray.map(|sample| format!("sample {sample} has no class: there are {classes}")));
    }
    problems
}

fn weight_problems(name: &str, weights: &[f64], wanted: usize) -> Option<String> {
    if weights.len() != wanted {
        return Some(format!("sampling.{name} has {} weights; {wanted} are needed", weights.len()));
    }
    if let Some(bad) = weights.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
        return Some(format!("sampling.{name} has a weight of {bad}; it must be finite and not negative"));
    }
    let total: f64 = weights.iter().sum();
    (total.is_nan() || total.is_infinite() || total <= 0.0)
        .then(|| format!("sampling.{name} add up to {total}; they must to a finite number above 0"))
}

/// The tables of a loader, made once.
#[derive(Clone)]
pub(super) enum Sampler {
    EachOnce,
    ByClass(Arc<WeightedClasses>),
    BySample(Arc<WeightedSamples>),
}

impl Sampler {
    /// Makes the tables; the options have no [`problems`].
    pub(super) fn new(dataset: &dyn Dataset, sampling: &Sampling) -> Self {
        let by_class = |weights: &[f64]| Self::ByClass(Arc::new(WeightedClasses::new(dataset, weights)));
        match sampling {
            Sampling::EverySample => Self::EachOnce,
            Sampling::ClassBalanced => by_class(&vec![1.0; dataset.classes().len()]),
            Sampling::ClassWeights(weights) => by_class(weights),
            Sampling::SampleWeights(weights) => Self::BySample(Arc::new(WeightedSamples::new(weights))),
        }
    }
}

/// What stands at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Index in the data set.
    pub(super) sample: usize,
    /// What its random draws are made from, with seed and epoch.
    pub(super) draw: u64,
}

/// The samples of one epoch of one process.
#[derive(Clone)]
pub(super) struct EpochSamples {
    sampler: Sampler,
    order: EpochOrder,
    num_samples: usize,
    shard: Shard,
    seed: u64,
    epoch: u32,
}

impl EpochSamples {
    pub(super) fn new(num_samples: usize, sampler: Sampler, config: &LoaderConfig, epoch: u32) -> Self {
        let order = match config.shuffle {
            true => EpochOrder::shuffled(num_samples, config.seed, epoch),
            false => EpochOrder::sequential(num_samples),
        };
        Self { sampler, order, num_samples, shard: config.shard, seed: config.seed, epoch }
    }

    /// The sample at a position of this process.
    pub(super) fn at(&self, position: usize) -> Chosen {
        let position = self.shard.position(position, self.num_samples);
        let mut draws = Draws::new(self.seed, self.epoch, position as u64, Draws::SAMPLING);
        let drawn = |sample| Chosen { sample, draw: POSITION | position as u64 };
        match &self.sampler {
            Sampler::EachOnce => {
                let sample = self.order.sample(position);
                Chosen { sample, draw: sample as u64 }
            }
            Sampler::ByClass(classes) => drawn(classes.draw(&mut draws)),
            Sampler::BySample(samples) => drawn(samples.draw(&mut draws)),
        }
    }
}

#[cfg(test)]
mod tests;
