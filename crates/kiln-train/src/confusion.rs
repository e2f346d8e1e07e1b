//! Who is taken for whom: a confusion matrix and the figures that follow from it.
//!
//! In: pairs of true and predicted class. Out: their counts; precision, recall and F1 of each class and their means; how
//! far truth and prediction agree beyond chance.
//! Only pairs that occur take memory, so that twenty thousand classes are no matter.
//! Source: scikit-learn 1.9 `metrics`; a ratio whose denominator is 0 is 0, as with `zero_division=0`. Its means over the
//! classes leave out those that are neither the truth nor a prediction of any sample; `balanced_accuracy` those without
//! a sample.

use std::collections::BTreeMap;

/// Counts of (true, predicted) pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfusionMatrix {
    counts: BTreeMap<(usize, usize), u64>,
    /// Samples of each class.
    truths: Vec<u64>,
    /// Predictions of each class.
    predictions: Vec<u64>,
}

/// The figures of one class, 0–1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassFigures {
    /// Samples of the class.
    pub support: u64,
    /// Share of those predicted to be of the class that are.
    pub precision: f64,
    /// Share of the class that is predicted to be.
    pub recall: f64,
    /// Harmonic mean of precision and recall.
    pub f1: f64,
}

impl ConfusionMatrix {
    /// An empty matrix of `num_classes` classes.
    pub fn new(num_classes: usize) -> Self {
        Self { counts: BTreeMap::new(), truths: vec![0; num_classes], predictions: vec![0; num_classes] }
    }

    /// Counts a sample.
    ///
    /// # Panics
    /// If a class isn't below the number of classes.
    pub fn add(&mut self, truth: usize, predicted: usize) {
        self.truths[truth] += 1;
        self.predictions[predicted] += 1;
        *self.counts.entry((truth, predicted)).or_default() += 1;
    }

    /// Number of classes.
    pub fn num_classes(&self) -> usize {
        self.truths.len()
    }

    /// Samples of class `truth` that were taken for `predicted`.
    pub fn count(&self, truth: usize, predicted: usize) -> u64 {
        self.counts.get(&(truth, predicted)).copied().unwrap_or(0)
    }

    /// Samples in all.
    pub fn num_samples(&self) -> u64 {
        self.truths.iter().sum()
    }

    /// The figures of each class.
    pub fn classes(&self) -> Vec<ClassFigures> {
        (0..self.num_classes()).map(|class| self.class(class)).collect()
    }

    /// Share of the samples that are predicted right; NaN without samples.
    pub fn accuracy(&self) -> f64 {
        self.num_hits() as f64 / self.num_samples() as f64
    }

    /// The mean recall of the classes that have samples; NaN without samples.
    pub fn balanced_accuracy(&self) -> f64 {
        mean(self.classes().iter().filter(|class| class.support > 0).map(|class| class.recall))
    }

    /// The mean F1 of the classes that occur; NaN without samples.
    pub fn f1_macro(&self) -> f64 {
        self.macro_mean(|class| class.f1)
    }

    /// The mean of a figure over the classes that occur, as truth or as prediction.
    pub fn macro_mean(&self, figure: impl Fn(&ClassFigures) -> f64) -> f64 {
        let occurs = |class: usize| self.truths[class] + self.predictions[class] > 0;
        mean((0..self.num_classes()).filter(|&class| occurs(class)).map(|class| figure(&self.class(class))))
    }

    /// The mean of a figure over the samples: each class counts as often as it has samples; NaN without samples.
    pub fn weighted_mean(&self, figure: impl Fn(&ClassFigures) -> f64) -> f64 {
        let sum: f64 = self.classes().iter().map(|class| class.support as f64 * figure(class)).sum();
        sum / self.num_samples() as f64
    }

    /// Matthews' correlation coefficient of truth and prediction, −1 to 1: 0 is what guessing gives, however rare a class.
    ///
    /// `(s·c − Σtₖpₖ) / √((s² − Σtₖ²)(s² − Σpₖ²))` of `s` samples, `c` of them right, `tₖ` of class k and `pₖ` taken for it
    /// (Gorodkin, Computational Biology and Chemistry 28, 2004). 0 if all samples are of one class or taken for one.
    pub fn mcc(&self) -> f64 {
        let [beyond_chance, truths, predictions] = self.agreement();
        quotient(beyond_chance, (truths * predictions).sqrt())
    }

    /// Cohen's kappa: the accuracy beyond that of chance over what chance leaves, at most 1.
    ///
    /// `(s·c − Σtₖpₖ) / (s² − Σtₖpₖ)`, with the letters of [`mcc`](Self::mcc) (Cohen, Educational and Psychological
    /// Measurement 20, 1960). 0 if all samples are of one class and taken for it.
    pub fn cohen_kappa(&self) -> f64 {
        let [beyond_chance, ..] = self.agreement();
        let wrong = self.num_samples() as f64 * (self.num_samples() - self.num_hits()) as f64;
        quotient(beyond_chance, beyond_chance + wrong)
    }

    /// `s·c − Σtₖpₖ`, `s² − Σtₖ²` and `s² − Σpₖ²`.
    fn agreement(&self) -> [f64; 3] {
        let samples = self.num_samples() as f64;
        let products = |left: &[u64], right: &[u64]| -> f64 {
            left.iter().zip(right).map(|(&left, &right)| left as f64 * right as f64).sum()
        };
        let (truths, predictions) = (&self.truths, &self.predictions);
        [
            samples * self.num_hits() as f64 - products(truths, predictions),
            samples * samples - products(truths, truths),
            samples * samples - products(predictions, predictions),
        ]
    }

    fn num_hits(&self) -> u64 {
        (0..self.num_classes()).map(|class| self.count(class, class)).sum()
    }

    fn class(&self, class: usize) -> ClassFigures {
        let (hits, support, predicted) = (self.count(class, class), self.truths[class], self.predictions[class]);
        let (precision, recall) = (ratio(hits, predicted), ratio(hits, support));
        ClassFigures { support, precision, recall, f1: ratio(2 * hits, support + predicted) }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn quotient(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{Golden, tensor_f64};
    use safetensors::SafeTensors;

    /// Ratios of counts, in f64 on both sides.
    const RATIO: f64 = 1e-9;

    #[test]
    fn figures_equal_those_of_scikit_learn() {
        let golden = Golden::open();
        if golden.entry("metrics.json").is_none() {
            return;
        }
        let want: serde_json::Value = serde_json::from_str(&golden.text("metrics.json")).expect("JSON");
        let bytes = golden.bytes("metrics.safetensors");
        let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        let (logits, labels) = (tensor_f64(&file, "logits"), tensor_f64(&file, "labels"));
        let wanted = tensor_f64(&file, "confusion");
        let classes = tensor_f64(&file, "support").len();
        let mut matrix = ConfusionMatrix::new(classes);
        for (row, label) in logits.chunks_exact(classes).zip(&labels).skip(1) {
            let best = (0..classes).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("classes");
            matrix.add(*label as usize, best);
        }
        for truth in 0..classes {
            for predicted in 0..classes {
                let (got, want) = (matrix.count(truth, predicted), wanted[truth * classes + predicted] as u64);
                assert_eq!(got, want, "[{truth}, {predicted}]");
            }
        }
        for (name, figure) in [
            ("support", (|class| class.support as f64) as fn(&ClassFigures) -> f64),
            ("precision", |class| class.precision),
            ("recall", |class| class.recall),
            ("f1", |class| class.f1),
        ] {
            for (index, (class, want)) in matrix.classes().iter().zip(tensor_f64(&file, name)).enumerate() {
                assert!((figure(class) - want).abs() <= RATIO, "{name}[{index}]: {}, want {want}", figure(class));
            }
        }
        let scalars = [
            ("accuracy", matrix.accuracy()),
            ("balanced_accuracy", matrix.balanced_accuracy()),
            ("precision_macro", matrix.macro_mean(|class| class.precision)),
            ("recall_macro", matrix.macro_mean(|class| class.recall)),
            ("f1_macro", matrix.f1_macro()),
            // Each sample has one class and one prediction, so counting all classes together gives the accuracy.
            ("precision_micro", matrix.accuracy()),
            ("recall_micro", matrix.accuracy()),
            ("f1_micro", matrix.accuracy()),
            ("precision_weighted", matrix.weighted_mean(|class| class.precision)),
            ("recall_weighted", matrix.weighted_mean(|class| class.recall)),
            ("f1_weighted", matrix.weighted_mean(|class| class.f1)),
            ("mcc", matrix.mcc()),
            ("cohen_kappa", matrix.cohen_kappa()),
        ];
        for (name, got) in scalars {
            let want = want[name].as_f64().expect("a number");
            assert!((got - want).abs() <= RATIO, "{name}: {got}, want {want}");
        }
    }

    #[test]
    fn a_class_nobody_predicts_has_figures_of_zero() {
        let mut matrix = ConfusionMatrix::new(4);
        for (truth, predicted) in [(0, 0), (0, 0), (1, 0), (2, 2)] {
            matrix.add(truth, predicted);
        }
        let class = matrix.classes()[1];
        assert_eq!((class.support, class.precision, class.recall, class.f1), (1, 0.0, 0.0, 0.0));
        assert_eq!(matrix.balanced_accuracy(), (1.0 + 0.0 + 1.0) / 3.0, "the class without samples is left out");
        assert_eq!(matrix.f1_macro(), (0.8 + 0.0 + 1.0) / 3.0);
    }

    #[test]
    fn agreement_is_1_for_all_right_and_0_for_what_says_nothing() {
        let of = |pairs: &[(usize, usize)]| {
            let mut matrix = ConfusionMatrix::new(3);
            pairs.iter().for_each(|&(truth, predicted)| matrix.add(truth, predicted));
            (matrix.mcc(), matrix.cohen_kappa())
        };
        assert_eq!(of(&[(0, 0), (1, 1), (2, 2), (2, 2)]), (1.0, 1.0));
        assert_eq!(of(&[(0, 1), (1, 1), (2, 1)]), (0.0, 0.0), "always the same answer");
        assert_eq!(of(&[(1, 1), (1, 1)]), (0.0, 0.0), "one class leaves nothing to tell apart");
        assert_eq!(of(&[(0, 1), (1, 0)]), (-1.0, -1.0), "always the other class");
        assert_eq!(of(&[]), (0.0, 0.0));
    }
}
