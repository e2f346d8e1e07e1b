//! Policies: steps that choose among operations at random, with published tables of magnitudes.
//!
//! In: options. Out: operations with their arguments ([`Drawn`]), added to a program. What an operation does is in
//! `operation.rs`, how strongly in `magnitudes.rs` (torchvision) and `timm.rs`, which of them in each policy's file.
//! As everywhere, the geometric operations of a policy compose into one sampling, with the pixel operations after it;
//! see `geometry.rs` for what that changes.

pub(crate) mod aug_mix;
pub(crate) mod auto_augment;
pub(crate) mod magnitudes;
pub(crate) mod operation;
pub(crate) mod rand_augment;
pub(crate) mod three_augment;
pub(crate) mod timm;
pub(crate) mod timm_string;
pub(crate) mod trivial_augment_wide;

use crate::augment::geometry::{Fill, Filter};
use crate::augment::interpolation::Interpolation;
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use magnitudes::Space;
use operation::Operation;

/// An operation and its argument, see [`Operation::apply`].
type Drawn = (Operation, f64);

/// How the geometric operations of a policy look at the image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    pub(crate) filter: Filter,
    pub(crate) fill: Fill,
}

impl Sampling {
    /// `fill` is red, green and blue; black if nobody names it.
    fn new(interpolation: Interpolation, fill: Option<[u8; 3]>) -> Self {
        Self { filter: interpolation.warping(), fill: Fill::new(fill) }
    }
}

fn nearest() -> Interpolation {
    Interpolation::Nearest
}

/// Draws the sign of torchvision's magnitude number `bin` of `num_bins`, if the operation has one.
fn signed(space: Space, operation: Operation, [bin, num_bins]: [u32; 2], draws: &mut Draws, size: [u32; 2]) -> Drawn {
    let magnitude = space.magnitude(operation, [bin, num_bins], size);
    let is_negative = operation.is_signed() && draws.chance(0.5);
    (operation, operation.argument(if is_negative { -magnitude } else { magnitude }))
}

/// Adds what was drawn to `program`.
fn add(drawn: &[Drawn], sampling: Sampling, program: &mut Program) {
    drawn.iter().for_each(|(operation, argument)| operation.apply(*argument, sampling, program));
}

/// One of the operations, all equally likely.
fn any_of(operations: &[Operation], draws: &mut Draws) -> Operation {
    operations[draws.below(operations.len() as u64) as usize]
}

/// How often every operation was drawn, of all that were.
#[cfg(test)]
fn frequencies(drawn: impl Iterator<Item = Operation>) -> std::collections::BTreeMap<Operation, f64> {
    let mut counts = std::collections::BTreeMap::new();
    let mut total = 0.0;
    for operation in drawn {
        *counts.entry(operation).or_insert(0.0) += 1.0;
        total += 1.0;
    }
    counts.into_iter().map(|(operation, count)| (operation, count / total)).collect()
}

/// Asserts that every operation was drawn with its probability, within three standard errors of `num_draws`.
#[cfg(test)]
fn assert_frequencies(
    found: &std::collections::BTreeMap<Operation, f64>,
    want: impl Iterator<Item = (Operation, f64)>,
    num_draws: f64,
) {
    let mut num_wanted = 0;
    for (operation, probability) in want {
        let frequency = found.get(&operation).copied().unwrap_or(0.0);
        let error = (probability * (1.0 - probability) / num_draws).sqrt();
        assert!((frequency - probability).abs() <= 3.0 * error, "{operation:?}: {frequency}, not {probability}");
        num_wanted += usize::from(probability > 0.0);
    }
    assert_eq!(found.len(), num_wanted, "{found:?}");
}
