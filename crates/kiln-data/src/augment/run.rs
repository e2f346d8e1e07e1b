//! Runs the programs of a batch in one launch: source bytes in, the model's input out.
//!
//! In: the bytes of all images of a batch as u32 words, and one [`ImageRecord`] per image. Out: f32
//! `[B, 3, H, W]`, normalised; where a program shows no source, the fill, black before normalising.
//! To-tensor and normalise are one multiply and one add: `value / 255`, less `mean`, divided by `std`.
//! Not done here: which backend runs what (`backend.rs`), sampling (`resample.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::augment::program::{ImageRecord, RECORD_WORDS};
use crate::augment::resample::Resampler;

/// Counts launches; on the CPU a pass over the batch is one. Clones share the count.
///
/// The promise that a batch costs one launch is tested with it. With `burn/fusion` a launch happens when the
/// tensor is needed, so wait for the device before reading.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaunchCounter(Arc<AtomicU64>);

impl LaunchCounter {
    /// Called by whoever launches.
    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Launches so far.
    #[cfg(test)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the model wants, the same for all images of a batch.
#[derive(Clone, Debug)]
pub(crate) struct OutputFormat {
    /// Height and width.
    pub(crate) size: [usize; 2],
    /// Per channel, what a byte value is multiplied with: `1 / (255 std)`.
    pub(crate) scale: [f32; 3],
    /// Per channel, what is added then: `-mean / std`.
    pub(crate) bias: [f32; 3],
    /// Counts the launches made for this batch.
    pub(crate) launches: LaunchCounter,
}

impl OutputFormat {
    /// `(value / 255 - mean) / std` for byte values.
    pub(crate) fn new(size: [usize; 2], mean: [f32; 3], std: [f32; 3], launches: &LaunchCounter) -> Self {
        let scale = std.map(|std| 1.0 / (255.0 * std));
        let bias = std::array::from_fn(|channel| -mean[channel] / std[channel]);
        Self { size, scale, bias, launches: launches.clone() }
    }
}

/// The scalar twin of the kernel, and what the CPU runs: rayon over images.
///
/// # Shapes
/// `pixels`: the batch's bytes; `records`: u32 `[B, RECORD_WORDS]`. Returns f32 `[B, 3, H, W]`.
pub(crate) fn run_on_host(pixels: &[u8], records: &[u32], format: &OutputFormat) -> Vec<f32> {
    format.launches.increment();
    let image_len = 3 * format.size[0] * format.size[1];
    let mut output = vec![0.0; records.len() / RECORD_WORDS * image_len];
    output.par_chunks_exact_mut(image_len).zip(records.par_chunks_exact(RECORD_WORDS)).for_each(|(output, words)| {
        run_one(pixels, &ImageRecord::from_words(words), format, output);
    });
    output
}

/// One image: f32 `[3, H, W]`.
fn run_one(pixels: &[u8], record: &ImageRecord, format: &OutputFormat, output: &mut [f32]) {
    let [height, width] = format.size;
    let mut resampler = Resampler::new(pixels, record);
    let (rows, columns) = (resampler.rows(), resampler.columns());
    let mut row_pixels = vec![[0.0; 4]; columns.len()];
    for row in 0..height {
        let shows_source = rows.contains(&row) && !columns.is_empty();
        if shows_source {
            resampler.row(row, &mut row_pixels);
        }
        for channel in 0..3 {
            let (scale, bias) = (format.scale[channel], format.bias[channel]);
            let line = &mut output[(channel * height + row) * width..][..width];
            if !shows_source || columns.len() < width {
                line.fill(bias);
            }
            if shows_source {
                let visible = line[columns.clone()].iter_mut();
                visible.zip(&row_pixels).for_each(|(value, pixel)| *value = pixel[channel] * scale + bias);
            }
        }
    }
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The kernel and its launcher.

    use burn::tensor::{DType, Shape};
    use burn_cubecl::kernel::into_contiguous;
    use burn_cubecl::tensor::CubeTensor;
    use cubecl::prelude::*;

    use super::OutputFormat;
    use crate::augment::program::RECORD_WORDS;
    use crate::augment::resample::device::{ROWS_PER_THREAD, resample};

    /// Threads of a cube: 32 neighbours in a row read neighbouring bytes and write 128 bytes at a time; eight rows of
    /// them make the 256 threads that every device allows.
    pub(crate) const CUBE_DIM: CubeDim = CubeDim::new_2d(32, 8);

    /// Runs the programs of a batch: one launch.
    ///
    /// # Shapes
    /// `pixels`: u32 `[words]`; `records`: u32 `[B * RECORD_WORDS]`. Returns f32 `[B, 3, H, W]`.
    pub(crate) fn launch(pixels: CubeTensor, records: CubeTensor, format: &OutputFormat) -> CubeTensor {
        let (pixels, records) = (into_contiguous(pixels), into_contiguous(records));
        let [height, width] = format.size;
        let shape = Shape::new([records.meta.shape().num_elements() / RECORD_WORDS, 3, height, width]);
        let client = pixels.client.clone();
        // Not `empty_tensor`: CUDA would pad the rows of an image.
        let memory = client.empty(shape.num_elements() * size_of::<f32>());
        let count = CubeCount::Static(
            (width as u32).div_ceil(CUBE_DIM.x),
            (height as u32).div_ceil(CUBE_DIM.y * ROWS_PER_THREAD as u32),
            shape[0] as u32,
        );
        let output = CubeTensor::new_contiguous(client.clone(), pixels.device.clone(), shape, memory, DType::F32);
        augment_kernel::launch(
            &client,
            count,
            CUBE_DIM,
            pixels.into_buffer_arg(),
            records.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            height as u32,
            width as u32,
            sequence(format.scale),
            sequence(format.bias),
        );
        format.launches.increment();
        output
    }

    fn sequence(values: [f32; 3]) -> SequenceArg<f32> {
        let mut sequence = SequenceArg::new();
        values.into_iter().for_each(|value| sequence.push(value));
        sequence
    }

    /// A thread makes [`ROWS_PER_THREAD`] pixels, one below the other; z is the image in the batch.
    #[cube(launch)]
    pub(crate) fn augment_kernel(
        pixels: &[u32],     // [words], four bytes each: RGB8 images one after the other
        records: &[u32],    // [B, RECORD_WORDS]
        output: &mut [f32], // [B, 3, height, width]
        height: u32,
        width: u32,
        scale: Sequence<f32>, // [3]
        bias: Sequence<f32>,  // [3]
    ) {
        let column = ABSOLUTE_POS_X;
        let row = ABSOLUTE_POS_Y * comptime!(ROWS_PER_THREAD as u32);
        if column >= width || row >= height {
            terminate!();
        }
        let image = CUBE_POS_Z as usize;

        // Geometry.
        let rgb = resample(pixels, records, image * RECORD_WORDS, row, column);

        // To-tensor, normalise, layout.
        let plane = (height * width) as usize;
        let pixel = image * 3 * plane + (row * width + column) as usize;
        #[unroll]
        for lane in 0..ROWS_PER_THREAD {
            if row + (lane as u32) < height {
                let pixel = pixel + lane * width as usize;
                output[pixel] = rgb.red.extract(lane) * *scale.index(0usize) + *bias.index(0usize);
                output[pixel + plane] = rgb.green.extract(lane) * *scale.index(1usize) + *bias.index(1usize);
                output[pixel + 2 * plane] = rgb.blue.extract(lane) * *scale.index(2usize) + *bias.index(2usize);
            }
        }
    }
}
