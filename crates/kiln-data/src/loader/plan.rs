//! Which positions of an epoch make which batch, computed rather than listed.
//!
//! In: a number of positions and a batch size. Out: the positions of any batch. An epoch of a million samples begins
//! as fast as one of ten, at any of its batches.

use std::ops::Range;

use super::LoaderConfig;

/// The batches of an epoch: all of one size, but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    batch_size: usize,
    num_batches: usize,
    /// Position after the last batch.
    end: usize,
}

impl Plan {
    /// Plans an epoch of `num_positions`. A last batch of one joins the one before it; one that isn't full is left out
    /// if `drop_last` says so and it isn't the only one.
    pub(super) fn new(num_positions: usize, config: &LoaderConfig) -> Self {
        let batch_size = config.batch_size;
        let (full, rest) = (num_positions / batch_size, num_positions % batch_size);
        let (num_batches, end) = match rest {
            _ if full > 0 && config.drop_last => (full, full * batch_size),
            1 if full > 0 => (full, num_positions),
            0 => (full, num_positions),
            _ => (full + 1, num_positions),
        };
        match config.limit_batches {
            Some(limit) if limit < num_batches => Self { batch_size, num_batches: limit, end: limit * batch_size },
            _ => Self { batch_size, num_batches, end },
        }
    }

    /// Number of batches.
    pub(super) fn num_batches(&self) -> usize {
        self.num_batches
    }

    /// Number of positions in all batches.
    pub(super) fn num_positions(&self) -> usize {
        self.end
    }

    /// The positions of batch `step`; empty, behind the last, from the end of the epoch on.
    pub(super) fn positions(&self, step: usize) -> Range<usize> {
        if step >= self.num_batches {
            return self.end..self.end;
        }
        let start = step * self.batch_size;
        start..if step + 1 == self.num_batches { self.end } else { start + self.batch_size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(num_positions: usize, batch_size: usize, drop_last: bool, limit_batches: Option<usize>) -> Plan {
        let config = LoaderConfig { batch_size, drop_last, limit_batches, ..LoaderConfig::default() };
        Plan::new(num_positions, &config)
    }

    #[test]
    fn batches_follow_each_other_without_a_gap_and_end_where_the_epoch_does() {
        for num_positions in 1..40 {
            for batch_size in 1..12 {
                for (drop_last, limit) in [(false, None), (true, None), (false, Some(2)), (true, Some(3))] {
                    let plan = plan(num_positions, batch_size, drop_last, limit);
                    let mut next = 0;
                    for step in 0..plan.num_batches() {
                        let positions = plan.positions(step);
                        assert_eq!(positions.start, next, "{num_positions} by {batch_size}, batch {step}");
                        assert!(positions.len() > 1 || batch_size == 1 || num_positions == 1, "{plan:?}");
                        next = positions.end;
                    }
                    assert_eq!(next, plan.num_positions());
                    assert!(plan.positions(plan.num_batches()).is_empty());
                    assert!(limit.is_some() || drop_last || next == num_positions, "{plan:?}");
                }
            }
        }
    }

    #[test]
    fn the_last_batch_of_a_limited_epoch_is_an_ordinary_one() {
        assert_eq!(plan(9, 4, false, Some(1)).positions(0), 0..4);
        assert_eq!(plan(9, 4, false, Some(2)).positions(1), 4..9);
    }
}
