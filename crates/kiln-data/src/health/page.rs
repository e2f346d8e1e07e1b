//! A page of pictures from an inspection: some of every class, and pairs that are the same or look alike.
//!
//! In: a data set's path and its [`Inspection`]. Out: [`InspectionPage`], an RGB picture with labels.
//! Pictures are fitted into equal cells. The page reads only what it shows.

use std::collections::HashMap;
use std::path::Path;

use super::{InspectConfig, Inspection};
use crate::dataset::{Dataset, OpenOptions, Splits, UnusableClasses, open_with_findings};
use crate::decode::{DecodeOptions, RgbImage};
use crate::error::DataError;
use crate::preview::canvas::{Canvas, Ink};
use crate::preview::{fitted, png};

const MARGIN: u32 = 24;
const GAP: u32 = 8;
/// Side of a cell.
const CELL: u32 = 96;
/// Room for the name of a class.
const LABEL_WIDTH: u32 = 280;
/// Letters of the larger size that fit there.
const LABEL_CHARS: usize = 27;
/// Pictures of a class.
const COLUMNS: usize = 8;
/// Classes shown, evenly spaced if there are more.
const MAX_CLASSES: usize = 60;
/// Pairs shown.
const MAX_PAIRS: usize = 20;
/// Letters of the smaller size that fit beside a pair.
const PAIR_CHARS: usize = 80;

/// A picture of what an inspection found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectionPage {
    /// The page.
    pub picture: RgbImage,
}

impl InspectionPage {
    /// Writes the page as a PNG: aside, then under its name, so that there is never half of one.
    ///
    /// # Errors
    /// [`DataError::WritePicture`] with the path.
    pub fn write_png(&self, path: &Path) -> Result<(), DataError> {
        png::write(&self.picture, path)
    }
}

/// Shows pictures of the data set at `path`, inspected with `config`. Pairs are there if the inspection was deep.
///
/// # Errors
/// As of [`open`](crate::open).
pub fn inspection_page(
    path: &Path,
    config: &InspectConfig,
    inspection: &Inspection,
) -> Result<InspectionPage, DataError> {
    let open = OpenOptions { unusable_classes: UnusableClasses::Drop, ..config.open };
    let splits = open_with_findings(path, &open)?.splits;
    let mut rows = class_rows(&*splits.train, inspection, &config.decode);
    rows.extend(pair_rows(&splits, inspection, &config.decode));

    let width = 2 * MARGIN + LABEL_WIDTH + COLUMNS as u32 * (CELL + GAP);
    let top = MARGIN + 2 * Ink::Loud.height();
    let mut canvas = Canvas::new([width, top + rows.len() as u32 * (CELL + GAP) + MARGIN]);
    let Inspection { format, readable, skipped, .. } = inspection;
    let head =
        format!("{format}: {readable} pictures in {} classes, {} skipped", inspection.classes.len(), skipped.len());
    canvas.text(&head, [MARGIN, MARGIN], Ink::Loud);
    for (row, y) in rows.iter().zip((top..).step_by((CELL + GAP) as usize)) {
        row.paint(&mut canvas, y);
    }
    Ok(InspectionPage { picture: canvas.into_picture() })
}

/// Pictures with what is to be said about them.
struct Row {
    title: String,
    pictures: Vec<RgbImage>,
    /// Lines beside the pictures.
    notes: Vec<String>,
}

impl Row {
    fn paint(&self, canvas: &mut Canvas, top: u32) {
        canvas.text(&shortened(&self.title, LABEL_CHARS), [MARGIN, top], Ink::Loud);
        let mut left = MARGIN + LABEL_WIDTH;
        for picture in &self.pictures {
            let picture = fitted(picture, [CELL; 2]);
            canvas.fill([left, top], [CELL; 2]);
            canvas.paste(&picture, [left + (CELL - picture.width) / 2, top + (CELL - picture.height) / 2]);
            left += CELL + GAP;
        }
        let (left, first) = if self.pictures.len() > 2 { (MARGIN, top + Ink::Loud.height()) } else { (left, top) };
        for (note, y) in self.notes.iter().zip((first..).step_by(Ink::Quiet.height() as usize)) {
            canvas.text(&shortened(note, PAIR_CHARS), [left, y], Ink::Quiet);
        }
    }
}

fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 2).chain("..".chars()).collect(),
        false => text.to_owned(),
    }
}

/// Some pictures of every class of the training set, evenly spaced.
fn class_rows(train: &dyn Dataset, inspection: &Inspection, limits: &DecodeOptions) -> Vec<Row> {
    let mut samples = vec![Vec::new(); inspection.classes.len()];
    for index in 0..train.len() {
        samples[train.label(index) as usize].push(index);
    }
    let shown = evenly(inspection.classes.len(), MAX_CLASSES);
    shown
        .map(|label| {
            let (class, samples) = (&inspection.classes[label], &samples[label]);
            let pictures =
                evenly(samples.len(), COLUMNS).filter_map(|at| picture(train, samples[at], limits)).collect();
            Row { title: class.name.clone(), pictures, notes: vec![format!("{} + {} val", class.train, class.val)] }
        })
        .collect()
}

/// At most `most` of the numbers below `count`, evenly spaced.
fn evenly(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let shown = count.min(most);
    (0..shown).map(move |at| at * count / shown)
}

fn picture(dataset: &dyn Dataset, index: usize, limits: &DecodeOptions) -> Option<RgbImage> {
    dataset.sample(index).ok()?.content.into_rgb(limits).ok()
}

/// Files that are the same, then pictures that look alike; those that are in both sets first.
fn pair_rows(splits: &Splits, inspection: &Inspection, limits: &DecodeOptions) -> Vec<Row> {
    let Some(deep) = &inspection.deep else { return Vec::new() };
    let same = deep.duplicates.iter().map(|group| (!group.across, "the same bytes".to_owned(), group.pair()));
    let alike = deep.near_duplicates.iter().map(|pair| {
        let [one, other] = &pair.paths;
        (!pair.across, format!("alike ({} bits apart)", pair.distance), [one.clone(), other.clone()])
    });
    let mut pairs: Vec<_> = same.chain(alike).collect();
    pairs.sort_by_key(|pair| pair.0);
    pairs.truncate(MAX_PAIRS);
    let mut wanted: HashMap<String, Option<RgbImage>> =
        pairs.iter().flat_map(|(_, _, paths)| paths.clone()).map(|path| (path, None)).collect();
    for split in [&*splits.train, &*splits.val] {
        // Names cost a little; only a data set with copies has to go through them.
        for index in 0..if wanted.is_empty() { 0 } else { split.len() } {
            if let Some(found) = wanted.get_mut(&split.name(index)) {
                *found = picture(split, index, limits);
            }
        }
    }
    let row = |(_, title, paths): (bool, String, [String; 2])| {
        let pictures = paths.iter().filter_map(|path| wanted.get(path).cloned().flatten()).collect();
        Row { title, pictures, notes: paths.to_vec() }
    };
    pairs.into_iter().map(row).collect()
}
