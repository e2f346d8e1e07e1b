//! Loss and top-k accuracy of an epoch. The only file that waits for the device inside the loop.
//!
//! In: loss and logits of each step, on the device. Out: means over samples, on the host, and of a validation who is taken
//! for whom (`confusion.rs`) and how sure the network is (`calibration.rs`).
//! A step leaves three numbers on the device, in a validation two more for each image; [`Meter::read`] fetches those of all steps since the last read in one
//! transfer and adds them up in f64, in the order of the steps. When it is called changes no result, so the trainer
//! reads as often as the progress bar needs and as seldom as keeps the device's queue full.
//! Source: a sample counts for top-k if fewer than k classes lie ahead of its target. Ties go to the lower class index,
//! as argmax breaks them, so a network that outputs the same for all classes gets the accuracy of always answering
//! class 0. A NaN lies ahead of everything: broken logits are never right.

use crate::calibration::Calibration;
use crate::confusion::ConfusionMatrix;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The k of the second accuracy, or the number of classes if that is smaller.
const TOP_K: usize = 5;

/// How often a progress bar wants a new loss from a device that works in the background. A read drains the device's
/// queue, a gap of about one step's launch time.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Sums loss and hits over the steps of an epoch.
pub struct Meter {
    top_k: i64,
    eager: bool,
    pending: Vec<Pending>,
    last_read: Instant,
    totals: Totals,
    answers: Answers,
}

/// A step whose numbers are still on the device: float `[3]`, mean loss, top-1 hits, top-k hits; and if its answers are
/// wanted, float `[3 + 2 * B]`: the class that each image was taken for, then how sure the network was.
struct Pending {
    step: StepId,
    num_samples: usize,
    /// The true classes; empty if the answers aren't wanted.
    labels: Vec<u32>,
    numbers: Tensor<1>,
}

/// What a network answered in a validation.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// Who was taken for whom.
    pub confusion: ConfusionMatrix,
    /// How sure the network was, and how often it was right.
    pub calibration: Calibration,
}

/// Which step a loss belongs to, for the message when it isn't finite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepId {
    /// Step in its epoch, from 1.
    pub step: usize,
    /// Learning rate of the step; in validation, of the last training step.
    pub lr: f64,
}

/// Sums over the steps read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Sum of the losses of the samples.
    pub loss_sum: f64,
    /// Samples whose target had the highest logit.
    pub top1_hits: u64,
    /// Samples whose target was among the five highest.
    pub top5_hits: u64,
    /// Number of samples.
    pub num_samples: u64,
}

/// Why the numbers of a step can't be used.
#[derive(Debug, thiserror::Error)]
pub enum MeterError {
    /// A loss is infinite or not a number.
    #[error("the loss of step {} is {loss}", .step.step)]
    NonFinite {
        /// The first such step.
        step: StepId,
        /// What it was.
        loss: f64,
    },
    /// The device didn't answer.
    #[error("{0}")]
    Device(String),
}

impl Meter {
    /// A meter for `num_classes` classes.
    ///
    /// `eager`: the device computes when called, so that reading costs nothing and every step is read at once.
    pub fn new(num_classes: usize, eager: bool) -> Self {
        Self {
            top_k: TOP_K.min(num_classes) as i64,
            eager,
            pending: Vec::new(),
            last_read: Instant::now(),
            totals: Totals::default(),
            answers: Answers { confusion: ConfusionMatrix::new(num_classes), calibration: Calibration::default() },
        }
    }

    /// Goes on with the sums of an epoch that was interrupted.
    pub fn with_totals(mut self, totals: Totals) -> Self {
        self.totals = totals;
        self
    }

    /// Takes the numbers of a step; launches a few small kernels and doesn't wait.
    ///
    /// # Shapes
    /// `loss`: float `[1]`, the mean over the batch; `logits`: float `[B, K]`; `targets`: int `[B]`.
    pub fn push(&mut self, step: StepId, loss: Tensor<1>, logits: Tensor<2>, targets: Tensor<1, Int>) {
        let num_samples = logits.dims()[0];
        let numbers = self.numbers(loss, logits, targets);
        self.pending.push(Pending { step, num_samples, labels: Vec::new(), numbers });
    }

    /// Takes the numbers of a validation step and its answers, as [`push`](Self::push) does.
    ///
    /// # Shapes
    /// As those of `push`; `labels`: the targets once more, on the host.
    pub fn push_answers(
        &mut self,
        step: StepId,
        loss: Tensor<1>,
        logits: Tensor<2>,
        targets: Tensor<1, Int>,
        labels: &[u32],
    ) {
        let (predicted, confidence) = answers(logits.clone());
        let numbers = Tensor::cat(vec![self.numbers(loss, logits, targets), predicted, confidence], 0);
        self.pending.push(Pending { step, num_samples: labels.len(), labels: labels.to_vec(), numbers });
    }

    /// Mean loss, top-1 hits and top-k hits: float `[3]`.
    fn numbers(&self, loss: Tensor<1>, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let ahead = classes_ahead(logits.without_autodiff(), targets.without_autodiff());
        let hits = |k: i64| ahead.clone().lower_scalar(k).float().sum();
        Tensor::cat(vec![loss.without_autodiff(), hits(1), hits(self.top_k)], 0)
    }

    /// Whether to [`read`](Self::read): the device computes eagerly, or the last read is long enough ago.
    pub fn is_due(&self) -> bool {
        self.eager || self.last_read.elapsed() >= READ_EVERY
    }

    /// Waits for the device and adds up the steps pushed since the last read.
    ///
    /// # Errors
    /// [`MeterError::NonFinite`] with the first step whose loss is infinite or NaN; [`MeterError::Device`] if
    /// nothing could be read.
    pub fn read(&mut self) -> Result<(), MeterError> {
        self.last_read = Instant::now();
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let numbers = pending.iter().map(|step| step.numbers.clone()).collect();
        let numbers: Vec<f32> =
            Tensor::cat(numbers, 0).try_into_vec_as().map_err(|error| MeterError::Device(error.to_string()))?;
        let mut rest = numbers.as_slice();
        for step in &pending {
            let (numbers, behind) = rest.split_at(3 + 2 * step.labels.len());
            rest = behind;
            self.add(step, numbers)?;
        }
        Ok(())
    }

    /// What was answered in the steps read so far, of those that were pushed with their answers.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Sums over the steps read so far; pushed steps that weren't read are not in it.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    fn add(&mut self, step: &Pending, numbers: &[f32]) -> Result<(), MeterError> {
        let loss = f64::from(numbers[0]);
        if !loss.is_finite() {
            return Err(MeterError::NonFinite { step: step.step, loss });
        }
        self.totals.loss_sum += loss * step.num_samples as f64;
        self.totals.top1_hits += numbers[1] as u64;
        self.totals.top5_hits += numbers[2] as u64;
        self.totals.num_samples += step.num_samples as u64;
        let (predicted, confidences) = numbers[3..].split_at(step.labels.len());
        for ((&label, &predicted), &confidence) in step.labels.iter().zip(predicted).zip(confidences) {
            self.answers.add(label as usize, predicted as usize, confidence.into());
        }
        Ok(())
    }
}

impl Answers {
    fn add(&mut self, truth: usize, predicted: usize, confidence: f64) {
        // Logits that are no numbers have no highest one; their loss is no number either, which ends the run.
        let predicted = predicted.min(self.confusion.num_classes() - 1);
        self.confusion.add(truth, predicted);
        self.calibration.add(confidence, truth == predicted);
    }
}

impl Totals {
    /// Mean loss of a sample; NaN before the first.
    pub fn loss(&self) -> f64 {
        self.loss_sum / self.num_samples as f64
    }

    /// Share of samples whose target had the highest logit, 0–1; NaN before the first sample.
    pub fn top1(&self) -> f64 {
        self.top1_hits as f64 / self.num_samples as f64
    }

    /// Share of samples whose target was among the five highest logits, 0–1.
    pub fn top5(&self) -> f64 {
        self.top5_hits as f64 / self.num_samples as f64
    }
}

/// The class with the highest logit, of several the first, and its probability.
///
/// # Shapes
/// `logits`: float `[B, K]`. Returns float `[B]`, 0 to K - 1 (K if a logit is not a number), and float `[B]`, 0–1.
fn answers(logits: Tensor<2>) -> (Tensor<1>, Tensor<1>) {
    let logits = logits.without_autodiff();
    let [batch, classes] = logits.dims();
    let highest = logits.clone().max_dim(1);
    let index = Tensor::<1, Int>::arange(0..classes as i64, &logits.device()).float();
    let index = index.unsqueeze_dim::<2>(0).expand([batch, classes]);
    let below = logits.clone().equal(highest.expand([batch, classes])).bool_not();
    let predicted = index.mask_fill(below, classes as f32).min_dim(1);
    let confidence = log_softmax(logits, 1).max_dim(1).exp();
    (predicted.squeeze_dim(1), confidence.squeeze_dim(1))
}

/// How many classes a model ranks ahead of the target: 0 means the target has the highest logit.
///
/// Counts instead of sorting: a sort isn't one launch on a GPU.
///
/// # Shapes
/// `logits`: float `[B, K]`; `targets`: int `[B]`. Returns int `[B]`, 0 to K.
fn classes_ahead(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1, Int> {
    let [batch, classes] = logits.dims();
    let index = crate::loss::class_index(&targets, classes).expand([batch, classes]);
    let targets: Tensor<2, Int> = targets.unsqueeze_dim(1);
    let of_target = logits.clone().gather(1, targets.clone()).expand([batch, classes]);
    let not_above = logits.clone().lower_equal(of_target.clone());
    let tied_before = logits.equal(of_target).bool_and(index.lower(targets.expand([batch, classes])));
    not_above.bool_not().bool_or(tied_before).int().sum_dim(1).squeeze_dim(1)
}

#[cfg(test)]
mod tests;
