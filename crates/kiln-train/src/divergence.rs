//! Whether a run is getting worse, before it breaks. Pure: the record so far in, yes or no out.

use serde::Deserialize;

/// A loss this many times the lowest before it isn't chance: epochs of a run that learns differ by a few hundredths, and
/// stronger augmentation halfway through a recipe adds less.
const RISE: f64 = 1.5;

#[derive(Deserialize)]
struct Line {
    train_loss: Option<f64>,
}

/// The lowest training loss of the lines of `metrics.jsonl` but the last, if the last is far above it.
pub(crate) fn risen_from(metrics: &str) -> Option<f64> {
    let losses = metrics.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()?.train_loss);
    let losses: Vec<f64> = losses.collect();
    let (last, before) = losses.split_last()?;
    let lowest = before.iter().copied().reduce(f64::min)?;
    (*last > RISE * lowest).then_some(lowest)
}

#[cfg(test)]
mod tests {
    use super::risen_from;

    fn record(losses: &[f64]) -> String {
        losses.iter().map(|loss| format!("{{\"epoch\": 1, \"train_loss\": {loss}}}\n")).collect()
    }

    #[test]
    fn a_loss_that_rises_far_above_its_lowest_is_told_and_a_wavering_one_is_not() {
        assert_eq!(risen_from(&record(&[2.3, 1.0, 1.6])), Some(1.0));
        for fine in [&[2.3, 1.0, 1.4][..], &[2.3], &[2.3, 2.2, 2.1], &[]] {
            assert_eq!(risen_from(&record(fine)), None, "{fine:?}");
        }
    }
}
