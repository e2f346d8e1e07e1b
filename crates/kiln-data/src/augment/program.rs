//! A program: all that is to happen to one image, drawn on the host and run by one launch.
//!
//! In: what the steps of an [`Augment`](super::Augment) drew. Out: [`Program`], and its form on a device, a record of
//! [`RECORD_WORDS`] u32 words, laid out as [`ImageRecord`] says.
//! Not done here: drawing (each step's own file) and running (`run.rs`).

use crate::augment::geometry::{AxisRecord, Geometry};
use crate::batch::ImageSlot;

/// What to do to one image, from source pixels to the model's input.
///
/// Drawn by [`Augment::draw`](super::Augment::draw); a value that can be compared and printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Which source pixels each output pixel is made of.
    pub(crate) geometry: Geometry,
}

impl Program {
    /// Starts with the whole image of `width` × `height`, unchanged.
    pub(crate) fn new(width: u32, height: u32) -> Self {
        Self { geometry: Geometry::new(width, height) }
    }

    /// Height and width of the image that the program makes.
    pub fn size(&self) -> [u32; 2] {
        self.geometry.size()
    }

    /// Says whether the program can be run on an image of `width` × `height`.
    pub(crate) fn reads_within(&self, width: u32, height: u32) -> bool {
        self.geometry.rows.taps[1] <= height && self.geometry.columns.taps[1] <= width
    }

    /// The source box that the output shows: top, left, bottom and right, in pixels of the source image.
    ///
    /// Left is greater than right if the program mirrors the image; a box beyond the image shows fill there.
    pub fn source_box(&self) -> [f64; 4] {
        let Geometry { rows, columns, .. } = &self.geometry;
        let end = |axis: &super::geometry::Axis| axis.origin + axis.step * f64::from(axis.length);
        [rows.origin, columns.origin, end(rows), end(columns)]
    }
}

/// u32 words of an [`ImageRecord`] on a device.
pub(crate) const RECORD_WORDS: usize = 20;
/// Where the columns' [`AxisRecord`] begins in a record.
pub(crate) const COLUMNS: usize = 2;
/// Where the rows' [`AxisRecord`] begins in a record.
pub(crate) const ROWS: usize = 11;

/// One image of a batch and its program, as the kernel and its scalar twin read them.
///
/// | word | | |
/// | --- | --- | --- |
/// | 0 | `first_word` | where the image begins in the batch |
/// | 1 | `width` | pixels per row |
/// | 2–10 | `columns` | origin low, high; step low, high; taps first, end; window first, end; support as bits |
/// | 11–19 | `rows` | the same |
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ImageRecord {
    /// Word of the batch's buffer with which the image begins.
    pub(crate) first_word: u32,
    /// Pixels per row of the source image.
    pub(crate) width: u32,
    /// Left to right.
    pub(crate) columns: AxisRecord,
    /// Top to bottom.
    pub(crate) rows: AxisRecord,
}

impl ImageRecord {
    /// Joins an image and its program.
    ///
    /// # Panics
    /// If the image doesn't begin at a word of a buffer of less than 16 GiB.
    pub(crate) fn new(slot: &ImageSlot, program: &Program) -> Self {
        let Geometry { rows, columns, filter } = &program.geometry;
        assert_eq!(slot.offset % 4, 0, "images begin at words");
        Self {
            first_word: u32::try_from(slot.offset / 4).expect("a batch of less than 16 GiB"),
            width: slot.width,
            columns: columns.record(*filter),
            rows: rows.record(*filter),
        }
    }

    pub(crate) fn to_words(self) -> [u32; RECORD_WORDS] {
        let mut words = [0; RECORD_WORDS];
        words[..COLUMNS].copy_from_slice(&[self.first_word, self.width]);
        words[COLUMNS..ROWS].copy_from_slice(&axis_to_words(&self.columns));
        words[ROWS..].copy_from_slice(&axis_to_words(&self.rows));
        words
    }

    /// # Panics
    /// If `words` aren't [`RECORD_WORDS`].
    pub(crate) fn from_words(words: &[u32]) -> Self {
        assert_eq!(words.len(), RECORD_WORDS, "words of one record");
        Self {
            first_word: words[0],
            width: words[1],
            columns: axis_from_words(&words[COLUMNS..ROWS]),
            rows: axis_from_words(&words[ROWS..]),
        }
    }
}

fn axis_to_words(axis: &AxisRecord) -> [u32; ROWS - COLUMNS] {
    let AxisRecord { origin, step, taps, window, support } = *axis;
    let low_high = |value: i64| [value as u32, (value >> 32) as u32];
    let [[o0, o1], [s0, s1]] = [low_high(origin), low_high(step)];
    [o0, o1, s0, s1, taps[0], taps[1], window[0], window[1], support.to_bits()]
}

fn axis_from_words(words: &[u32]) -> AxisRecord {
    let signed = |low: u32, high: u32| (u64::from(low) | u64::from(high) << 32) as i64;
    AxisRecord {
        origin: signed(words[0], words[1]),
        step: signed(words[2], words[3]),
        taps: [words[4], words[5]],
        window: [words[6], words[7]],
        support: f32::from_bits(words[8]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::geometry::Filter;

    #[test]
    fn a_record_survives_its_words() {
        let mut program = Program::new(500, 375);
        program.geometry.crop([-3, 20], [300, 301]);
        program.geometry.resize([224, 192], Filter::BilinearAntialiased);
        program.geometry.flip_horizontally();
        let record = ImageRecord::new(&ImageSlot { offset: 40, width: 500, height: 375 }, &program);
        assert!(record.columns.step < 0 && record.rows.origin < 0, "{record:?}");
        assert_eq!(ImageRecord::from_words(&record.to_words()), record);
        assert_eq!(record.to_words()[..2], [10, 500]);
    }

    #[test]
    fn a_program_says_which_box_it_shows() {
        let mut program = Program::new(50, 40);
        program.geometry.crop([4, 10], [20, 30]);
        program.geometry.resize([10, 10], Filter::BilinearAntialiased);
        assert_eq!(program.source_box(), [4.0, 10.0, 24.0, 40.0]);
        program.geometry.flip_horizontally();
        assert_eq!(program.source_box(), [4.0, 40.0, 24.0, 10.0]);
        assert_eq!(program.size(), [10, 10]);
    }
}
