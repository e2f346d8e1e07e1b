//! Where things stand in a preview. All positions are `[left, top]`, all sizes `[width, height]`, in pixels.

use crate::decode::DecodeOptions;
use crate::error::DataError;
use crate::preview::canvas::{Ink, text_width};
use crate::preview::rows::Row;

/// Around everything, and between the labels, the originals and the draws.
const MARGIN: u32 = 24;
/// Between cells.
const GAP: u32 = 8;
/// Between a head and the first row.
const HEAD_GAP: u32 = 6;
/// Draws narrower than this are enlarged; a head of ten letters fits.
const MIN_CELL_WIDTH: u32 = 112;

/// The places of a grid.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    /// How often each pixel of a draw is repeated in both directions.
    pub(super) scale: u32,
    /// Of a cell.
    pub(super) cell_size: [u32; 2],
    label_width: u32,
    row_height: u32,
    num_rows: u32,
    num_draws: u32,
}

impl Layout {
    /// Room for `rows` and `num_draws` draws of `[height, width]`.
    ///
    /// # Errors
    /// [`DataError::Config`] if the picture would have more pixels than Kiln itself would decode.
    pub(super) fn new(rows: &[Row], num_draws: usize, [height, width]: [usize; 2]) -> Result<Self, DataError> {
        let (height, width) = (height as u32, width as u32);
        let scale = MIN_CELL_WIDTH.div_ceil(width);
        let cell_size = [width * scale, height * scale];
        let lines = rows.iter().flat_map(|row| [(row.name(), Ink::Loud), ("sample 000000".into(), Ink::Quiet)]);
        let label_width = lines.map(|(text, ink)| text_width(&text, ink)).max().unwrap_or(0);
        let row_height = cell_size[1].max(Ink::Loud.height() + 2 * Ink::Quiet.height());
        let (num_rows, num_draws) = (rows.len() as u32, num_draws as u32);
        let layout = Self { scale, cell_size, label_width, row_height, num_rows, num_draws };
        layout.check_size()?;
        Ok(layout)
    }

    /// Of the whole picture.
    pub(super) fn size(&self) -> [u32; 2] {
        self.wide_size().map(|side| side as u32)
    }

    /// Of a row's image: column 0 is the original, the draws follow.
    pub(super) fn cell(&self, row: usize, column: usize) -> [u32; 2] {
        let originals = MARGIN + self.label_width + MARGIN;
        let left = match column as u32 {
            0 => originals,
            column => originals + self.cell_size[0] + MARGIN + (column - 1) * (self.cell_size[0] + GAP),
        };
        [left, self.row_top(row) + (self.row_height - self.cell_size[1]) / 2]
    }

    /// Of the two lines above a column; `None` is the column of the labels.
    pub(super) fn head(&self, column: Option<usize>) -> [[u32; 2]; 2] {
        let left = column.map_or(MARGIN, |column| self.cell(0, column)[0]);
        [[left, MARGIN], [left, MARGIN + Ink::Loud.height()]]
    }

    /// Of the three lines beside a row.
    pub(super) fn label(&self, row: usize) -> [[u32; 2]; 3] {
        let (loud, quiet) = (Ink::Loud.height(), Ink::Quiet.height());
        let top = self.row_top(row) + (self.row_height - loud - 2 * quiet) / 2;
        [0, loud, loud + quiet].map(|down| [MARGIN, top + down])
    }

    fn row_top(&self, row: usize) -> u32 {
        let head = Ink::Loud.height() + Ink::Quiet.height() + HEAD_GAP;
        MARGIN + head + row as u32 * (self.row_height + GAP)
    }

    /// [`size`](Self::size), without overflow for any size of image.
    fn wide_size(&self) -> [u64; 2] {
        let [rows, draws] = [self.num_rows, self.num_draws].map(u64::from);
        let [cell, height] = [self.cell_size[0], self.row_height].map(u64::from);
        let [margin, gap] = [MARGIN, GAP].map(u64::from);
        let width = margin + u64::from(self.label_width) + margin + cell + margin + draws * (cell + gap) - gap + margin;
        [width, u64::from(self.row_top(0)) + rows * (height + gap) - gap + margin]
    }

    fn check_size(&self) -> Result<(), DataError> {
        let [width, height] = self.wide_size();
        let most = DecodeOptions::default().max_pixels;
        if width * height <= most {
            return Ok(());
        }
        let problem = format!(
            "the picture would have {width}x{height} pixels, more than {most}; ask for fewer images, fewer draws or \
             a smaller image size"
        );
        Err(DataError::Config { what: "preview options", problems: vec![problem] })
    }
}
