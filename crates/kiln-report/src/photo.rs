//! Photographs small enough for a page: JPEG of at most [`SIDE`] pixels.

use image::codecs::jpeg::JpegEncoder;
use image::imageops::{self, FilterType};
use image::{ExtendedColorType, ImageBuffer, Rgb};
use kiln_data::{DataError, Dataset, HostBatch, Loader, LoaderConfig, RgbImage, Sample};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Longer side: sharp on a telephone's dense screen at the size of a gallery.
const SIDE: u32 = 192;

/// JPEG quality: 192 pixels take about 6 kB.
const QUALITY: u8 = 80;

/// JPEG files by sample.
pub(crate) type Photos = BTreeMap<usize, Vec<u8>>;

/// Some samples of a data set.
pub(crate) struct Picked {
    data: Arc<dyn Dataset>,
    samples: Vec<usize>,
}

impl Picked {
    pub(crate) fn new(data: Arc<dyn Dataset>, samples: impl Iterator<Item = usize>) -> Self {
        let samples: BTreeSet<usize> = samples.collect();
        Self { data, samples: samples.into_iter().collect() }
    }

    /// Their photographs. What can't be read any more is left out.
    pub(crate) fn photos(self) -> Photos {
        let samples = self.samples.clone();
        let config = LoaderConfig { batch_size: 8, shuffle: false, ..LoaderConfig::default() };
        let Ok(loader) = Loader::new(Arc::new(self), config) else { return Photos::new() };
        let mut photos = Photos::new();
        for batch in loader.epoch(0).map_while(Result::ok) {
            photos.extend(batch_photos(&batch).map(|(picked, bytes)| (samples[picked], bytes)));
        }
        photos
    }
}

fn batch_photos(batch: &HostBatch) -> impl Iterator<Item = (usize, Vec<u8>)> + '_ {
    (0..batch.len()).filter_map(|index| {
        let slot = batch.images[index];
        let image = RgbImage { width: slot.width, height: slot.height, pixels: batch.image(index).to_vec() };
        Some((batch.samples[index] as usize, jpeg(image, Some(SIDE))?))
    })
}

/// `image` as JPEG, its longer side shortened to `side` if it is longer.
pub(crate) fn jpeg(image: RgbImage, side: Option<u32>) -> Option<Vec<u8>> {
    let mut picture = ImageBuffer::<Rgb<u8>, _>::from_raw(image.width, image.height, image.pixels)?;
    let (width, height) = picture.dimensions();
    let longer = width.max(height);
    if let Some(side) = side.filter(|&side| longer > side) {
        let scaled = |length: u32| (u64::from(length) * u64::from(side) / u64::from(longer)).max(1) as u32;
        picture = imageops::resize(&picture, scaled(width), scaled(height), FilterType::Triangle);
    }
    let (width, height) = picture.dimensions();
    let mut bytes = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut bytes, QUALITY);
    image::ImageEncoder::write_image(encoder, &picture, width, height, ExtendedColorType::Rgb8).ok()?;
    Some(bytes)
}

impl Dataset for Picked {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn classes(&self) -> &[String] {
        self.data.classes()
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        self.data.sample(self.samples[index])
    }

    fn name(&self, index: usize) -> String {
        self.data.name(self.samples[index])
    }

    fn label(&self, index: usize) -> u32 {
        self.data.label(self.samples[index])
    }
}
