//! A picture of what the model sees: one row an image, the original beside draws of its augmentation.
//!
//! In: a [`Dataset`] and an [`Augment`]. Out: [`Preview`], an RGB picture with labels.
//! Column `k` of the draws is a batch of epoch `epoch + k - 1`, augmented as in training and brought back to bytes:
//! un-normalised, clamped, rounded. Where the augmentation mixes, images are mixed within the column, which stands for the
//! batch; in training the partner is another one, the share and the box are the same.
//! Draws are enlarged by a whole factor if they are small, so that each of their pixels can be told; originals are fitted.
//! Not done here: which images (`preview/rows.rs`), where things stand (`preview/layout.rs`), painting
//! (`preview/canvas.rs`), the file (`preview/png.rs`).

pub(crate) mod canvas;
mod layout;
pub(crate) mod png;
mod rows;

use std::path::Path;

use burn::tensor::Device;
use image::imageops::{self, FilterType};

use crate::augment::{Augment, augment as augmented};
use crate::batch::HostBatch;
use crate::dataset::Dataset;
use crate::decode::RgbImage;
use crate::error::DataError;
use crate::loader::Skipped;
use crate::upload::batch_to_device;
use canvas::{Canvas, Ink};
use layout::Layout;
use rows::Row;

/// More rows and columns than anyone looks at; all images are in memory at once.
const MAX_IMAGES: usize = 100;
const MAX_DRAWS: usize = 100;

/// What to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviewConfig {
    /// Rows: images, spread over the classes; fewer if the data set has fewer. Default 8.
    pub images: usize,
    /// Columns beside the original. Default 4.
    pub draws: usize,
    /// Seed of the run. Default 0.
    pub seed: u64,
    /// Epoch of the first draw, from 0; each further draw is that of the next epoch. Default 0.
    pub epoch: u32,
}

impl Default for PreviewConfig {
    fn default() -> Self {
        Self { images: 8, draws: 4, seed: 0, epoch: 0 }
    }
}

impl PreviewConfig {
    /// Finds every option that can't work.
    ///
    /// # Errors
    /// One sentence a problem.
    pub fn validate(&self) -> Result<(), Vec<String>> {
        let mut problems = Vec::new();
        for (name, count, most) in [("images", self.images, MAX_IMAGES), ("draws", self.draws, MAX_DRAWS)] {
            if !(1..=most).contains(&count) {
                problems.push(format!("{name} is {count}; it must be between 1 and {most}"));
            }
        }
        if self.epoch > u32::MAX - MAX_DRAWS as u32 {
            problems.push(format!("epoch is {}; no run is that long", self.epoch));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// The picture, and what it shows.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The grid with its labels.
    pub picture: RgbImage,
    /// The sample of each row, as an index in the data set.
    pub samples: Vec<usize>,
    /// Damaged files, in whose place others are shown.
    pub skipped: Vec<Skipped>,
}

impl Preview {
    /// Writes the picture as [`RgbImage::write_png`] does.
    ///
    /// # Errors
    /// [`DataError::WritePicture`] with the path.
    pub fn write_png(&self, path: &Path) -> Result<(), DataError> {
        self.picture.write_png(path)
    }
}

impl RgbImage {
    /// Writes the picture as a PNG: aside, then under its name, so that there is never half of one.
    ///
    /// # Errors
    /// [`DataError::WritePicture`] with the path.
    pub fn write_png(&self, path: &Path) -> Result<(), DataError> {
        png::write(self, path)
    }
}

/// Shows images of `dataset` and what `augment` makes of them.
///
/// Waits for the device once a column.
///
/// # Errors
/// [`DataError::Config`] if options can't work, there are no images or the picture would be too large;
/// [`DataError::NothingLeft`] if none can be decoded; [`DataError::Device`].
pub fn preview_grid(
    dataset: &dyn Dataset,
    augment: &Augment,
    config: &PreviewConfig,
    device: &Device,
) -> Result<Preview, DataError> {
    config.validate().map_err(|problems| DataError::Config { what: "preview options", problems })?;
    augment.validate().map_err(|problems| DataError::Config { what: "augmentation", problems })?;
    let (rows, skipped) = rows::choose(dataset, config.images)?;
    let layout = Layout::new(&rows, config.draws, augment.size)?;

    let mut canvas = Canvas::new(layout.size());
    paint_labels(&mut canvas, &layout, &rows, config);
    for (index, row) in rows.iter().enumerate() {
        paint_original(&mut canvas, &layout, index, &row.image);
    }
    for draw in 0..config.draws {
        let images = draw_images(&rows, augment, config.seed, config.epoch + draw as u32, device)?;
        for (index, image) in images.iter().enumerate() {
            canvas.paste(&enlarged(image, layout.scale), layout.cell(index, 1 + draw));
        }
    }
    let samples = rows.iter().map(|row| row.sample).collect();
    Ok(Preview { picture: canvas.into_picture(), samples, skipped })
}

/// The images of `rows` as the model sees them in `epoch`, as bytes.
fn draw_images(
    rows: &[Row],
    augment: &Augment,
    seed: u64,
    epoch: u32,
    device: &Device,
) -> Result<Vec<RgbImage>, DataError> {
    let mut host = HostBatch::new(epoch);
    for row in rows {
        host.push(&row.image, row.label, row.sample as u64);
    }
    let batch = augmented(batch_to_device(host, augment, seed, device), augment);
    let values: Vec<f32> =
        batch.images.try_into_vec_as().map_err(|error| DataError::Device { message: error.to_string() })?;
    let [height, width] = augment.size;
    Ok(values.chunks_exact(3 * height * width).map(|image| rgb_from_values(image, augment)).collect())
}

/// Undoes to-tensor and normalise of one image: what the network saw, as bytes.
///
/// # Shapes
/// `values`: `[3, H, W]` of the size that `augment` makes.
///
/// # Panics
/// If there are fewer values.
pub fn rgb_from_values(values: &[f32], augment: &Augment) -> RgbImage {
    let [height, width] = augment.size;
    let area = height * width;
    let byte = |channel: usize, at: usize| {
        let value = values[channel * area + at] * augment.std[channel] + augment.mean[channel];
        (255.0 * value.clamp(0.0, 1.0)).round() as u8
    };
    let pixels = (0..area).flat_map(|at| [byte(0, at), byte(1, at), byte(2, at)]).collect();
    RgbImage { width: width as u32, height: height as u32, pixels }
}

/// Every pixel `factor` times as wide and high.
fn enlarged(image: &RgbImage, factor: u32) -> RgbImage {
    let (width, height) = (image.width * factor, image.height * factor);
    let pixel = |x: u32, y: u32| {
        let at = 3 * ((y / factor) as usize * image.width as usize + (x / factor) as usize);
        [image.pixels[at], image.pixels[at + 1], image.pixels[at + 2]]
    };
    let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(x, y))).collect();
    RgbImage { width, height, pixels }
}

/// `image` as large as it fits into `width` × `height`, its aspect kept.
pub(crate) fn fitted(image: &RgbImage, [width, height]: [u32; 2]) -> RgbImage {
    let factor = (f64::from(width) / f64::from(image.width)).min(f64::from(height) / f64::from(image.height));
    let side = |side: u32, most: u32| ((f64::from(side) * factor).round() as u32).clamp(1, most);
    let (width, height) = (side(image.width, width), side(image.height, height));
    if (width, height) == (image.width, image.height) {
        return image.clone();
    }
    let source = image::ImageBuffer::<image::Rgb<u8>, _>::from_raw(image.width, image.height, image.pixels.as_slice())
        .expect("three bytes a pixel");
    let pixels = imageops::resize(&source, width, height, FilterType::Triangle).into_raw();
    RgbImage { width, height, pixels }
}

fn paint_original(canvas: &mut Canvas, layout: &Layout, row: usize, image: &RgbImage) {
    let [left, top] = layout.cell(row, 0);
    let [width, height] = layout.cell_size;
    let image = fitted(image, layout.cell_size);
    canvas.fill([left, top], layout.cell_size);
    canvas.paste(&image, [left + (width - image.width) / 2, top + (height - image.height) / 2]);
}

fn paint_labels(canvas: &mut Canvas, layout: &Layout, rows: &[Row], config: &PreviewConfig) {
    let head = layout.head(None);
    canvas.text(&format!("seed {}", config.seed), head[1], Ink::Quiet);
    canvas.text("original", layout.head(Some(0))[0], Ink::Loud);
    for draw in 0..config.draws {
        let [first, second] = layout.head(Some(1 + draw));
        canvas.text(&format!("draw {}", 1 + draw), first, Ink::Loud);
        canvas.text(&format!("epoch {}", 1 + u64::from(config.epoch) + draw as u64), second, Ink::Quiet);
    }
    for (index, row) in rows.iter().enumerate() {
        let [first, second, third] = layout.label(index);
        canvas.text(&row.name(), first, Ink::Loud);
        canvas.text(&format!("sample {}", row.sample), second, Ink::Quiet);
        canvas.text(&format!("{}×{} px", row.image.width, row.image.height), third, Ink::Quiet);
    }
}

#[cfg(test)]
mod tests;
