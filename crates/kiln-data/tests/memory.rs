//! The memory of a process that loads one epoch after the other.
//!
//! This file holds one test, so that nothing else allocates in its process.

#![cfg(target_os = "linux")]

use std::sync::Arc;

use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageEncoder};
use kiln_data::{Augment, DataError, Dataset, Loader, LoaderConfig, MeasureConfig, Sample};

/// JPEGs of many sizes, in memory.
struct Pictures(Vec<Vec<u8>>);

impl Pictures {
    fn new(num_pictures: u32) -> Self {
        Self((0..num_pictures).map(jpeg).collect())
    }
}

fn jpeg(index: u32) -> Vec<u8> {
    let (width, height) = (60 + index * 37 % 140, 60 + index * 53 % 110);
    let level = |at: u32| (at * (7 + index % 5) % 251) as u8;
    let pixels: Vec<u8> = (0..width * height * 3).map(level).collect();
    let mut encoded = Vec::new();
    JpegEncoder::new(&mut encoded).write_image(&pixels, width, height, ExtendedColorType::Rgb8).expect("encoded");
    encoded
}

impl Dataset for Pictures {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        Ok(Sample::encoded(self.0[index].clone(), 0))
    }

    fn name(&self, index: usize) -> String {
        index.to_string()
    }

    fn label(&self, _: usize) -> u32 {
        0
    }
}

/// What the issue asks for: growth from the second epoch to the tenth.
const GROWTH: f64 = 1.05;

#[test]
fn memory_after_ten_epochs_is_that_after_two() {
    let dataset = Arc::new(Pictures::new(48));
    let config = LoaderConfig { batch_size: 8, workers: 3, ..LoaderConfig::default() };
    let loader = Loader::new(dataset, config).expect("usable options");
    let report = loader
        .measure(&MeasureConfig {
            duration: std::time::Duration::from_secs(3600),
            epochs: Some(10),
            device: Some((kiln_device::cpu(), Augment::train(32))),
        })
        .expect("ten epochs");
    let resident = report.resident_bytes;
    assert_eq!((resident.len(), report.images), (10, 480));
    assert!(resident[9] as f64 <= GROWTH * resident[1] as f64, "{resident:?}");
}
