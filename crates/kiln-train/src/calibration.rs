//! Whether a network knows what it knows: the expected calibration error.
//!
//! In: the probability a network gave its answer, and whether the answer was right. Out: the mean distance, 0–1, between
//! how sure it was and how often it was right, over fifteen bins of equal width.
//! Source: Guo et al., arXiv 1706.04599, equation 3, with its number of bins; a probability on the edge of two bins falls
//! into the lower, as in the paper.

use crate::evaluate::ConfidenceLevel;

/// The paper's.
const BINS: usize = 15;

/// Counts answers by how sure they were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    bins: [Bin; BINS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bin {
    count: u64,
    hits: u64,
    confidence_sum: f64,
}

impl Calibration {
    /// Counts an answer given with probability `confidence`, 0–1. What is not a number is counted as certainty.
    pub fn add(&mut self, confidence: f64, right: bool) {
        let confidence = if confidence.is_nan() { 1.0 } else { confidence.clamp(0.0, 1.0) };
        let index = ((confidence * BINS as f64).ceil() as usize).clamp(1, BINS) - 1;
        let bin = &mut self.bins[index];
        bin.count += 1;
        bin.hits += u64::from(right);
        bin.confidence_sum += confidence;
    }

    /// The levels of confidence that occur, from unsure to sure.
    pub fn levels(&self) -> Vec<ConfidenceLevel> {
        let level = |bin: &Bin| {
            let (count, total) = (bin.count, bin.count as f64);
            ConfidenceLevel { count, confidence: bin.confidence_sum / total, accuracy: bin.hits as f64 / total }
        };
        self.bins.iter().filter(|bin| bin.count > 0).map(level).collect()
    }

    /// The expected calibration error, 0–1; NaN before the first answer.
    pub fn error(&self) -> f64 {
        let total: u64 = self.bins.iter().map(|bin| bin.count).sum();
        let distances = self.bins.iter().map(|bin| (bin.hits as f64 - bin.confidence_sum).abs());
        distances.sum::<f64>() / total as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_honest_network_has_no_error_and_a_boaster_the_difference() {
        let mut honest = Calibration::default();
        for right in [true, true, true, false] {
            honest.add(0.75, right);
        }
        assert_eq!(honest.error(), 0.0);
        let mut boaster = Calibration::default();
        for right in [true, false] {
            boaster.add(1.0, right);
        }
        assert_eq!(boaster.error(), 0.5);
    }

    #[test]
    fn bins_are_weighed_by_their_answers() {
        let mut calibration = Calibration::default();
        calibration.add(0.9, true); // off by 0.1
        calibration.add(0.9, true);
        calibration.add(0.5, false); // off by 0.5
        assert!((calibration.error() - (2.0 * 0.1 + 0.5) / 3.0).abs() < 1e-12, "{}", calibration.error());
    }

    #[test]
    fn opposite_mistakes_in_one_bin_cancel_and_in_two_do_not() {
        let mut one = Calibration::default();
        one.add(0.5, true);
        one.add(0.5, false);
        assert_eq!(one.error(), 0.0);
        let mut two = Calibration::default();
        two.add(0.45, true);
        two.add(0.55, false);
        assert!((two.error() - 0.55).abs() < 1e-12, "{}", two.error());
    }
}
