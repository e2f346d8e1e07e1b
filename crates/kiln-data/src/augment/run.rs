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

/// Counts kernel launches. Clones share the count.
///
/// The promise that a batch costs one launch is tested with it; with `burn/fusion` a launch happens when the
/// tensor is needed, so wait for the device before reading.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaunchCounter(Arc<AtomicU64>);

impl LaunchCounter {
    /// Called by whoever launches.
    #[cfg_attr(not(feature = "cube"), expect(dead_code, reason = "only devices launch kernels"))]
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
    /// Who wants to know of launches.
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
    //! The kernel, one thread per output pixel, and its launcher.

    use burn::tensor::{DType, Shape};
    use burn_cubecl::kernel::into_contiguous;
    use burn_cubecl::tensor::CubeTensor;
    use cubecl::prelude::*;

    use super::OutputFormat;
    use crate::augment::program::RECORD_WORDS;
    use crate::augment::resample::device::{resample, shows_source};

    pub(crate) static VARIANT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    /// Threads of a cube: 32 neighbouring pixels of a row read neighbouring bytes and write 128 bytes at a time, and
    /// eight rows of them make the 256 threads that every device allows.
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
            (height as u32).div_ceil(CUBE_DIM.y),
            shape[0] as u32,
        );
        let output = CubeTensor::new_contiguous(client.clone(), pixels.device.clone(), shape, memory, DType::F32);
        let v = VARIANT.load(std::sync::atomic::Ordering::Relaxed);
        let dim = match v / 10 { 0 => CubeDim::new_2d(32, 8), 1 => CubeDim::new_2d(8, 8), 2 => CubeDim::new_2d(64, 4), 3 => CubeDim::new_2d(16,16), 4 => CubeDim::new_2d(256,1), _ => CubeDim::new_2d(32,2) };
        let count = if v >= 10 { CubeCount::Static((width as u32).div_ceil(dim.x), (height as u32).div_ceil(dim.y), records.meta.shape().num_elements() as u32 / RECORD_WORDS as u32) } else { count };
        let a = (pixels.into_buffer_arg(),
            records.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            height as u32,
            width as u32,
            sequence(format.scale),
            sequence(format.bias));
        if v % 10 == 0 {
            augment_kernel::launch(&client, count, dim, a.0, a.1, a.2, a.3, a.4, a.5, a.6, 0);
        } else {
            #[expect(unsafe_code, reason = "scratch")]
            unsafe { augment_kernel::launch_unchecked(&client, count, dim, a.0, a.1, a.2, a.3, a.4, a.5, a.6, v % 10) };
        }
        format.launches.increment();
        output
    }

    fn sequence(values: [f32; 3]) -> SequenceArg<f32> {
        let mut sequence = SequenceArg::new();
        values.into_iter().for_each(|value| sequence.push(value));
        sequence
    }

    /// One thread an output pixel; an image of the batch per step of z.
    #[cube(launch, launch_unchecked)]
    pub(crate) fn augment_kernel(
        pixels: &[u32],     // [words], four bytes each: RGB8 images one after the other
        records: &[u32],    // [B, RECORD_WORDS]
        output: &mut [f32], // [B, 3, height, width]
        height: u32,
        width: u32,
        scale: Sequence<f32>, // [3]
        bias: Sequence<f32>,  // [3]
        #[comptime] variant: u32,
    ) {
        let column = ABSOLUTE_POS_X;
        let row = ABSOLUTE_POS_Y;
        if column >= width || row >= height {
            terminate!();
        }
        let image = CUBE_POS_Z as usize;
        let record = image * RECORD_WORDS;

        // Geometry. Where the program shows no source, black.
        let mut red = f32::new(0.0);
        let mut green = f32::new(0.0);
        let mut blue = f32::new(0.0);
        if variant == 5 {
            red = f32::cast_from(column);
        } else if variant == 6 {
            let a = crate::augment::resample::device::taps(records, record + 11, row);
            let b = crate::augment::resample::device::taps(records, record + 2, column);
            red = a.distance + f32::cast_from(a.first + a.end) + a.slope;
            green = b.distance + f32::cast_from(b.first + b.end) + b.slope;
        } else if variant == 7 {
            #[unroll]
            for i in 0..20usize {
                red += f32::cast_from(records[record + i]);
            }
        } else if variant == 8 {
            #[unroll]
            for i in 0..20usize {
                red += f32::cast_from(records[i]);
            }
        } else if shows_source(records, record, row, column) {
            let rgb = resample(pixels, records, record, row, column, variant);
            red = rgb.red;
            green = rgb.green;
            blue = rgb.blue;
        }

        // To-tensor, normalise, layout.
        let plane = (height * width) as usize;
        let position = image * 3 * plane + (row * width + column) as usize;
        output[position] = red * *scale.index(0usize) + *bias.index(0usize);
        output[position + plane] = green * *scale.index(1usize) + *bias.index(1usize);
        output[position + 2 * plane] = blue * *scale.index(2usize) + *bias.index(2usize);
    }
}
