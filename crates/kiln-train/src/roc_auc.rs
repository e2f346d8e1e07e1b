//! How well each class's probability sorts its samples ahead of the others: the area under the ROC curve.
//!
//! In: a score for each class and the true class, sample by sample. Out: the area for each class against the rest, and
//! their mean. Only the order of a class's scores counts, so probabilities and their logarithms give the same.
//! Source: Mann and Whitney, Annals of Mathematical Statistics 18, 1947: the area is the share of pairs of one sample of
//! the class and one of another in which the former has the higher score, a tie counting half. scikit-learn 1.9
//! `roc_auc_score(multi_class="ovr", average="macro")` gives the same where every class occurs.
//! It keeps every score, 4 bytes each; above a limit it keeps none and has no answer.

/// Scores kept at most, 512 MiB of them: those of 50,000 samples of 1,000 classes are 200 MB.
const MOST_SCORES: usize = 1 << 27;

/// Collects scores.
#[derive(Clone, Debug)]
pub struct RocAuc {
    num_classes: usize,
    /// Row by row; `None` if there were too many.
    scores: Option<Vec<f32>>,
    labels: Vec<usize>,
}

impl RocAuc {
    /// Nothing yet, of `num_classes` classes.
    pub fn new(num_classes: usize) -> Self {
        Self { num_classes, scores: Some(Vec::new()), labels: Vec::new() }
    }

    /// Counts a sample of class `truth`; `row` has a score for each class.
    pub fn add(&mut self, row: &[f32], truth: usize) {
        self.labels.push(truth);
        match &mut self.scores {
            Some(scores) if scores.len() + row.len() <= MOST_SCORES => scores.extend_from_slice(row),
            _ => self.scores = None,
        }
    }

    /// The mean over the classes, 0–1; 0.5 is what guessing gives. Classes without samples, or without others', are left
    /// out; `None` if that leaves none, or there were too many scores.
    pub fn macro_mean(&self) -> Option<f64> {
        let areas: Vec<f64> = (0..self.num_classes).filter_map(|class| self.class(class)).collect();
        (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64)
    }

    /// The area of `class` against the rest, 0–1; `None` without a sample of it or of another.
    pub fn class(&self, class: usize) -> Option<f64> {
        let rows = self.scores.as_ref()?.chunks_exact(self.num_classes);
        let mut sorted: Vec<(f32, bool)> = rows.zip(&self.labels).map(|(row, &of)| (row[class], of == class)).collect();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (mut others_below, mut own, mut pairs_won) = (0usize, 0usize, 0.0);
        for tied in sorted.chunk_by(|a, b| a.0 == b.0) {
            let own_here = tied.iter().filter(|(_, own)| *own).count();
            let others_here = tied.len() - own_here;
            pairs_won += own_here as f64 * (others_below as f64 + 0.5 * others_here as f64);
            others_below += others_here;
            own += own_here;
        }
        (own > 0 && others_below > 0).then(|| pairs_won / (own as f64 * others_below as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{Golden, tensor_f64};
    use safetensors::SafeTensors;

    #[test]
    fn the_mean_area_equals_that_of_scikit_learn() {
        let golden = Golden::open();
        if golden.entry("metrics.json").is_none() {
            return;
        }
        let want: serde_json::Value = serde_json::from_str(&golden.text("metrics.json")).expect("JSON");
        let want = want["roc_auc_ovr_macro"].as_f64().expect("a number");
        let bytes = golden.bytes("metrics.safetensors");
        let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        let (logits, labels) = (tensor_f64(&file, "logits"), tensor_f64(&file, "labels"));
        let classes = tensor_f64(&file, "support").len();
        let mut auc = RocAuc::new(classes);
        for (row, &label) in logits.chunks_exact(classes).zip(&labels).skip(1) {
            let log_sum = row.iter().map(|logit| logit.exp()).sum::<f64>().ln();
            let row: Vec<f32> = row.iter().map(|logit| (logit - log_sum) as f32).collect();
            auc.add(&row, label as usize);
        }
        let got = auc.macro_mean().expect("every class occurs");
        assert!((got - want).abs() <= 1e-9, "{got}, want {want}");
    }

    #[test]
    fn a_tie_counts_half_and_a_class_without_samples_not_at_all() {
        let mut auc = RocAuc::new(3);
        for (score, truth) in [(0.1, 1), (0.5, 0), (0.5, 1), (0.9, 0)] {
            auc.add(&[score, -score, 0.0], truth);
        }
        assert_eq!(auc.class(0), Some(3.5 / 4.0));
        assert_eq!((auc.class(1), auc.class(2)), (Some(3.5 / 4.0), None));
        assert_eq!(auc.macro_mean(), Some(3.5 / 4.0));
        let mut one_class = RocAuc::new(2);
        one_class.add(&[0.5, 0.5], 0);
        assert_eq!(one_class.macro_mean(), None, "there is no other class");
    }
}
