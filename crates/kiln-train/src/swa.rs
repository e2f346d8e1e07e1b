//! Stochastic weight averaging: the plain mean of the weights at the ends of the last epochs.
//!
//! In: the number of epochs finished. Out: the share of the weights that enters the average, or nothing to do.
//! Source: Izmailov et al., arXiv 1803.05407; `torch.optim.swa_utils.AveragedModel` (2.14) with `use_buffers = True`:
//! running statistics are averaged like weights, where the paper takes them anew from a pass over the training images.
//! The learning rate of those epochs is the schedule's business (`[swa] lr`).

/// When the average takes the weights in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swa {
    /// The first epoch, from 1, whose final weights count.
    pub start_epoch: u64,
}

impl Swa {
    /// The share of the weights that enters the average at the end of `epoch`, from 1; `None` for none.
    pub fn share(&self, epoch: u64) -> Option<f64> {
        let nth = (epoch + 1).saturating_sub(self.start_epoch.max(1));
        (nth > 0).then(|| 1.0 / nth as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_last_epochs_count_alike() {
        let swa = Swa { start_epoch: 3 };
        let mut average = 0.0;
        for epoch in 1..=5 {
            let share = swa.share(epoch);
            assert_eq!(share.is_some(), epoch >= 3, "epoch {epoch}");
            let share = share.unwrap_or(0.0);
            average = (1.0 - share) * average + share * epoch as f64;
        }
        assert!((average - 4.0f64).abs() < 1e-12, "{average}");
    }
}
