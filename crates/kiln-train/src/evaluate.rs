//! How good a trained network is on a data set: figures, who is taken for whom, and the pictures it is most wrong about.
//!
//! In: a [`TrainedModel`] and a [`Dataset`], whose classes are mapped to the network's by name. Out: an [`Evaluation`], which
//! a program reads as JSON.
//! A picture is prepared as the training's validation prepared it. Loss and ranks follow from the log-softmax that is read
//! back for each batch; ties go to the lower class index, as in `metrics.rs`, so both give the same accuracies.
//! Not done here: pictures of the result.

use crate::calibration::Calibration;
use crate::confusion::ConfusionMatrix;
use crate::error::TrainError;
use crate::roc_auc::RocAuc;
use crate::trained_model::TrainedModel;
use burn::tensor::activation::log_softmax;
use kiln_data::{Dataset, Loader, LoaderConfig, Skipped};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// The k of the second accuracy, or the number of classes if that is smaller.
const TOP_K: usize = 5;

/// How to evaluate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvaluateConfig {
    /// Images at a time; `None`, the default, takes what suits their size.
    pub batch_size: Option<usize>,
    /// Decoding threads; 0, the default, takes one per core.
    pub workers: usize,
    /// End after this many batches; `None`, the default, is never.
    pub limit_batches: Option<usize>,
    /// Pictures kept of those with the highest loss. Default 24.
    pub worst: usize,
    /// Pictures kept as examples, spread evenly over the data set. Default 24.
    pub samples: usize,
}

/// What came out. Serialised, it is the JSON of `kiln eval`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The file with the network's weights.
    pub weights: String,
    /// Pictures that were judged.
    pub num_images: u64,
    /// Mean cross entropy, without label smoothing.
    pub loss: f64,
    /// Share of pictures whose class was the first guess, 0–1.
    pub top1: f64,
    /// Share of pictures whose class was among the first five guesses, 0–1; K with K < 5 classes.
    pub top5: f64,
    /// Mean recall of the classes that have pictures, 0–1.
    pub balanced_accuracy: f64,
    /// Mean F1 of the classes that occur, 0–1.
    pub f1_macro: f64,
    /// Matthews' correlation coefficient, −1 to 1; 0 is what guessing gives.
    #[serde(default)]
    pub mcc: f64,
    /// Cohen's kappa, at most 1; 0 is what guessing gives.
    #[serde(default)]
    pub cohen_kappa: f64,
    /// Mean area under the ROC curve of each class against the rest, 0–1; 0.5 is what guessing gives. `None` if no class
    /// can be told from another, or there were too many answers to keep.
    #[serde(default)]
    pub roc_auc: Option<f64>,
    /// Expected calibration error, 0–1.
    pub ece: f64,
    /// Seconds it took.
    pub secs: f64,
    /// The figures of each class, in the order of the network's outputs.
    pub classes: Vec<ClassResult>,
    /// Who was taken for whom: the pairs that occur.
    pub confusion: Vec<Confused>,
    /// How sure the network was and how often it was right, from unsure to sure; only levels that occur.
    pub calibration: Vec<ConfidenceLevel>,
    /// Pictures with the highest loss, the highest first.
    pub worst: Vec<Answer>,
    /// Pictures spread evenly over the data set.
    pub samples: Vec<Answer>,
    /// Files that couldn't be used.
    pub skipped: Vec<Skipped>,
}

/// The figures of one class, ratios 0–1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassResult {
    /// Its name.
    pub name: String,
    /// Pictures of it.
    pub images: u64,
    /// Share of those taken for it that are of it.
    pub precision: f64,
    /// Share of its pictures that were taken for it.
    pub recall: f64,
    /// Harmonic mean of both.
    pub f1: f64,
}

/// A cell of the confusion matrix. Classes are indices into [`Evaluation::classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confused {
    /// The true class.
    pub truth: usize,
    /// What it was taken for.
    pub predicted: usize,
    /// Pictures.
    pub count: u64,
}

/// Answers that were about equally sure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfidenceLevel {
    /// How many there are.
    pub count: u64,
    /// Their mean probability, 0–1.
    pub confidence: f64,
    /// Share of them that were right, 0–1.
    pub accuracy: f64,
}

/// What the network said to one picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Index in the data set.
    pub sample: usize,
    /// Path within the data set.
    pub name: String,
    /// The true class, an index into [`Evaluation::classes`].
    pub truth: usize,
    /// The first guess.
    pub predicted: usize,
    /// Probability of the first guess, 0–1.
    pub confidence: f64,
    /// Cross entropy.
    pub loss: f64,
}

impl Default for EvaluateConfig {
    fn default() -> Self {
        Self { batch_size: None, workers: 0, limit_batches: None, worst: 24, samples: 24 }
    }
}

/// Judges `model` by `data`. `progress` is told after each batch how many of how many are done.
///
/// # Errors
/// [`TrainError::ForeignClasses`] if the data has classes that the network doesn't tell apart; [`TrainError::Data`];
/// [`TrainError::Asking`] if the device fails.
pub fn evaluate(
    model: &TrainedModel,
    data: &Arc<dyn Dataset>,
    config: &EvaluateConfig,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Evaluation, TrainError> {
    let begin = Instant::now();
    let output_of = outputs_by_name(model, data.classes())?;
    let loader = Loader::new(
        data.clone(),
        LoaderConfig {
            batch_size: config.batch_size.unwrap_or_else(|| model.batch_size()),
            workers: config.workers,
            shuffle: false,
            limit_batches: config.limit_batches,
            ..LoaderConfig::default()
        },
    )?;
    let mut tally = Tally::new(model.num_classes());
    let mut batches = loader.epoch(0).upload(&model.device(), &model.augment, 0);
    for (done, batch) in (1..).zip(batches.by_ref()) {
        let batch = batch?;
        let logits = model.model.forward(batch.images);
        let rows = log_softmax(logits, 1).try_into_vec_as::<f32>().map_err(TrainError::asking)?;
        for ((row, &label), &sample) in rows.chunks_exact(model.num_classes()).zip(&batch.labels).zip(&batch.samples) {
            tally.add(row, output_of[label as usize], sample as usize);
        }
        progress(done, loader.num_batches());
    }
    let skipped = batches.skipped();
    Ok(tally.finish(model, data.as_ref(), config, skipped, begin.elapsed().as_secs_f64()))
}

/// The network's output for each class of the data, found by name; by place if the network's classes have no names.
fn outputs_by_name(model: &TrainedModel, classes: &[String]) -> Result<Vec<usize>, TrainError> {
    let foreign = |unknown| TrainError::ForeignClasses {
        weights: model.weights.clone(),
        unknown,
        known: (0..model.num_classes()).map(|class| model.class(class)).collect(),
    };
    let Some(known) = &model.classes else {
        return if classes.len() == model.num_classes() {
            Ok((0..classes.len()).collect())
        } else {
            Err(foreign(classes.to_vec()))
        };
    };
    let places: HashMap<&str, usize> = known.iter().map(String::as_str).zip(0..).collect();
    let unknown: Vec<String> = classes.iter().filter(|class| !places.contains_key(class.as_str())).cloned().collect();
    if !unknown.is_empty() {
        return Err(foreign(unknown));
    }
    Ok(classes.iter().filter_map(|class| places.get(class.as_str()).copied()).collect())
}

/// Sums over the pictures so far.
struct Tally {
    confusion: ConfusionMatrix,
    calibration: Calibration,
    roc_auc: RocAuc,
    answers: Vec<Answer>,
    loss_sum: f64,
    top5_hits: u64,
}

impl Tally {
    fn new(num_classes: usize) -> Self {
        Self {
            confusion: ConfusionMatrix::new(num_classes),
            calibration: Calibration::default(),
            roc_auc: RocAuc::new(num_classes),
            answers: Vec::new(),
            loss_sum: 0.0,
            top5_hits: 0,
        }
    }

    /// Counts a picture of class `truth`; `row` is the logarithm of each class's probability.
    fn add(&mut self, row: &[f32], truth: usize, sample: usize) {
        let predicted = (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
        let (loss, confidence) = (-f64::from(row[truth]), f64::from(row[predicted]).exp());
        self.confusion.add(truth, predicted);
        self.calibration.add(confidence, truth == predicted);
        self.roc_auc.add(row, truth);
        self.loss_sum += loss;
        self.top5_hits += u64::from(num_ahead(row, truth) < TOP_K.min(row.len()));
        self.answers.push(Answer { sample, name: String::new(), truth, predicted, confidence, loss });
    }

    fn finish(
        self,
        model: &TrainedModel,
        data: &dyn Dataset,
        config: &EvaluateConfig,
        skipped: Vec<Skipped>,
        secs: f64,
    ) -> Evaluation {
        let num_images = self.confusion.num_samples();
        let named = |answer: &Answer| Answer { name: data.name(answer.sample), ..answer.clone() };
        let mut worst: Vec<&Answer> = self.answers.iter().collect();
        worst.sort_by(|a, b| b.loss.total_cmp(&a.loss));
        let of_class = |(figures, name): (crate::confusion::ClassFigures, usize)| ClassResult {
            name: model.class(name),
            images: figures.support,
            precision: figures.precision,
            recall: figures.recall,
            f1: figures.f1,
        };
        Evaluation {
            weights: model.weights.display().to_string(),
            num_images,
            loss: self.loss_sum / num_images as f64,
            top1: self.confusion.accuracy(),
            top5: self.top5_hits as f64 / num_images as f64,
            balanced_accuracy: self.confusion.balanced_accuracy(),
            f1_macro: self.confusion.f1_macro(),
            mcc: self.confusion.mcc(),
            cohen_kappa: self.confusion.cohen_kappa(),
            roc_auc: self.roc_auc.macro_mean(),
            ece: self.calibration.error(),
            secs,
            classes: self.confusion.classes().into_iter().zip(0..).map(of_class).collect(),
            confusion: pairs(&self.answers),
            calibration: self.calibration.levels(),
            worst: worst.into_iter().take(config.worst).map(named).collect(),
            samples: spread(&self.answers, config.samples).map(named).collect(),
            skipped,
        }
    }
}

/// How many classes lie ahead of `class`; ties go to the lower index, and what is not a number lies ahead of everything.
fn num_ahead(row: &[f32], class: usize) -> usize {
    let ahead = |&other: &usize| match row[other].partial_cmp(&row[class]) {
        Some(std::cmp::Ordering::Less) => false,
        Some(std::cmp::Ordering::Equal) => other < class,
        _ => true,
    };
    (0..row.len()).filter(ahead).count()
}

/// The pairs that occur, in order.
fn pairs(answers: &[Answer]) -> Vec<Confused> {
    let mut counts = std::collections::BTreeMap::<(usize, usize), u64>::new();
    for answer in answers {
        *counts.entry((answer.truth, answer.predicted)).or_default() += 1;
    }
    counts.into_iter().map(|((truth, predicted), count)| Confused { truth, predicted, count }).collect()
}

/// `number` of the answers, as far from each other as possible.
fn spread(answers: &[Answer], number: usize) -> impl Iterator<Item = &Answer> {
    let number = number.min(answers.len());
    (0..number).map(move |index| &answers[index * answers.len() / number])
}
