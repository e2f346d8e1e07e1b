//! An evaluation on disk: figures, pictures of them, and the photographs they are about.
//!
//! ```text
//! evaluation.json     what `kiln_train::evaluate` found
//! evaluation.html     the same to look at, one file
//! confusion.svg       who is taken for whom
//! calibration.svg     how sure the network is beside how often it is right
//! pictures/7.jpg      sample 7, small: the ones most wrong, and others spread over the data set
//! ```

use crate::chart::{Figure, calibration_chart, confusion_chart};
use crate::error::ReportError;
use crate::page::{charts, escaped, jpeg, page, section, table, tiles};
use crate::photo::{Photos, Picked};
use crate::write::percent;
use kiln_data::Dataset;
use kiln_train::{Answer, Evaluation, RunFolder};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder within a run.
const FOLDER: &str = "evaluation";
const JSON: &str = "evaluation.json";

/// Pairs in the list of mistakes.
const MOST_MISTAKES: usize = 10;

/// An evaluation and its photographs, as JPEG by sample.
#[derive(Clone, Debug)]
pub(crate) struct SavedEvaluation {
    pub(crate) evaluation: Evaluation,
    pub(crate) photos: Photos,
}

/// Where an evaluation of a run is kept.
pub fn evaluation_folder(run: &Path) -> PathBuf {
    run.join(FOLDER)
}

/// Writes an evaluation of `data` to `folder`, replacing an earlier one. Returns the page to look at.
///
/// # Errors
/// [`ReportError`] if something can't be written or drawn.
pub fn write_evaluation(
    folder: &Path,
    evaluation: &Evaluation,
    data: &Arc<dyn Dataset>,
) -> Result<PathBuf, ReportError> {
    let pictures = folder.join("pictures");
    let create = |source| ReportError::Io { action: "create", path: pictures.clone(), source };
    fs::create_dir_all(&pictures).map_err(create)?;
    let shown = evaluation.worst.iter().chain(&evaluation.samples).map(|answer| answer.sample);
    let photos = Picked::new(data.clone(), shown).photos();
    for (sample, bytes) in &photos {
        RunFolder::new(&pictures).write_file(&format!("{sample}.jpg"), bytes)?;
    }
    let saved = SavedEvaluation { evaluation: evaluation.clone(), photos };
    let out = RunFolder::new(folder);
    for (name, figure) in [("confusion.svg", saved.confusion()?), ("calibration.svg", saved.calibration()?)] {
        if let Some(figure) = figure {
            out.write_file(name, figure.standalone_svg().as_bytes())?;
        }
    }
    let title = format!("Evaluation of {}", evaluation.weights);
    let heading = format!("<h1>Evaluation</h1><p class=\"quiet\">{}</p>", escaped(&evaluation.weights));
    out.write_file("evaluation.html", page(&title, &[heading, saved.html()?]).as_bytes())?;
    let json = serde_json::to_vec_pretty(evaluation);
    let path = folder.join(JSON);
    out.write_file(JSON, &json.map_err(|error| ReportError::Malformed { path, problem: error.to_string() })?)?;
    Ok(folder.join("evaluation.html"))
}

/// The evaluation of the run in `run`, if there is one.
pub(crate) fn read(run: &Path) -> Result<Option<SavedEvaluation>, ReportError> {
    let folder = evaluation_folder(run);
    let path = folder.join(JSON);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ReportError::Io { action: "read", path, source }),
    };
    let evaluation: Evaluation = serde_json::from_slice(&text)
        .map_err(|error| ReportError::Malformed { path: path.clone(), problem: error.to_string() })?;
    let shown = evaluation.worst.iter().chain(&evaluation.samples);
    let photo = |answer: &Answer| {
        let bytes = fs::read(folder.join("pictures").join(format!("{}.jpg", answer.sample))).ok()?;
        Some((answer.sample, bytes))
    };
    let photos: BTreeMap<_, _> = shown.filter_map(photo).collect();
    Ok(Some(SavedEvaluation { evaluation, photos }))
}

impl SavedEvaluation {
    pub(crate) fn confusion(&self) -> Result<Option<Figure>, ReportError> {
        let names: Vec<String> = self.evaluation.classes.iter().map(|class| class.name.clone()).collect();
        confusion_chart(&names, &self.evaluation.confusion)
    }

    fn calibration(&self) -> Result<Option<Figure>, ReportError> {
        calibration_chart(&self.evaluation.calibration)
    }

    /// The pairs most often mistaken: true class, taken for, pictures.
    pub(crate) fn mistakes(&self) -> Vec<Vec<String>> {
        let mut wrong: Vec<_> = self.evaluation.confusion.iter().filter(|pair| pair.truth != pair.predicted).collect();
        wrong.sort_by_key(|pair| std::cmp::Reverse(pair.count));
        let row = |pair: &&kiln_train::Confused| {
            vec![self.class(pair.truth), self.class(pair.predicted), pair.count.to_string()]
        };
        wrong.iter().take(MOST_MISTAKES).map(row).collect()
    }

    /// Each class's name, pictures, precision, recall and F1, the lowest F1 first.
    pub(crate) fn classes(&self) -> Vec<Vec<String>> {
        let mut classes: Vec<_> = self.evaluation.classes.iter().collect();
        classes.sort_by(|a, b| a.f1.total_cmp(&b.f1));
        let row = |class: &&kiln_train::ClassResult| {
            let ratios = [class.precision, class.recall, class.f1].map(percent);
            [vec![class.name.clone(), class.images.to_string()], ratios.to_vec()].concat()
        };
        classes.iter().map(row).collect()
    }

    /// Everything, for a page.
    pub(crate) fn html(&self) -> Result<String, ReportError> {
        let Evaluation { num_images, loss, top1, top5, ece, f1_macro, worst, samples, .. } = &self.evaluation;
        let figures: Vec<Figure> = [self.confusion()?, self.calibration()?].into_iter().flatten().collect();
        let key = [
            (percent(*top1), "top-1".to_owned()),
            (percent(*top5), format!("top-{}", 5.min(self.evaluation.classes.len()))),
            (format!("{loss:.3}"), "loss".to_owned()),
            (percent(*f1_macro), "mean F1".to_owned()),
            (percent(*ece), "calibration error".to_owned()),
            (num_images.to_string(), "pictures".to_owned()),
        ];
        let mistakes = self.mistakes();
        let mistakes = match mistakes.is_empty() {
            true => String::new(),
            false => table(&["of class", "taken for", "pictures"], &mistakes, false),
        };
        let classes = table(&["class", "pictures", "precision", "recall", "F1"], &self.classes(), true);
        Ok([
            tiles(&key),
            charts(&figures),
            section("Classes, the hardest first", &classes),
            section("Most frequent mistakes", &mistakes),
            section("Most wrong", &self.gallery(worst)),
            section("Pictures from all over the data set", &self.gallery(samples)),
        ]
        .concat())
    }

    fn gallery(&self, answers: &[Answer]) -> String {
        let card = |answer: &Answer| {
            let bytes = self.photos.get(&answer.sample)?;
            let (truth, predicted) = (self.class(answer.truth), self.class(answer.predicted));
            let verdict = match answer.truth == answer.predicted {
                true => format!("<span class=\"good\">{}</span>", escaped(&truth)),
                false => format!("<span class=\"bad\">{}</span>, is {}", escaped(&predicted), escaped(&truth)),
            };
            Some(format!(
                "<figure>{}{verdict}<br><span class=\"quiet\">{} sure, loss {:.2}</span></figure>",
                jpeg(bytes, "photo", &answer.name),
                percent(answer.confidence),
                answer.loss
            ))
        };
        let cards: String = answers.iter().filter_map(card).collect();
        if cards.is_empty() { cards } else { format!("<div class=\"gallery\">{cards}</div>") }
    }

    fn class(&self, index: usize) -> String {
        self.evaluation.classes.get(index).map_or_else(|| index.to_string(), |class| class.name.clone())
    }
}
