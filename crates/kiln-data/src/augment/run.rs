//! Runs the programs of a batch in one launch: source bytes in, the model's input out.
//!
//! In: the bytes of all images of a batch as u32 words, and their programs' [`Records`](crate::augment::record::Records).
//! Out: float `[B, 3, H, W]`, normalised. To-tensor and normalise are one multiply and one add of the fixed-point level:
//! `value / 255`, less `mean`, divided by `std`.
//!
//! Statistics and neighbourhoods cost launches before that one, one each for every depth at which any image needs them.
//! Not done here: which backend runs what (`backend.rs`), sampling (`resample.rs`), the operations (`pixel_op.rs`).

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::tensor::DType;
use multiversion::multiversion;
use rayon::prelude::*;

use crate::augment::erase::erased;
use crate::augment::levels::{LEVEL, Levels};
use crate::augment::pixel_op::{self, Encoded};
use crate::augment::record::{
    LAYER_OPS, OP_PARAMETERS, OP_PLACE, OP_WORDS, OUTPUT_WORDS, Plan, TERM_ERASED, TERM_REGION, TERM_WEIGHT, TERM_WORDS,
};
use crate::augment::resample::Resampler;
use crate::augment::{Augment, MemoryOrder};

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
    /// Per channel, what a fixed-point level is multiplied with: `1 / (255 std)`, for units of 2⁻¹⁶.
    pub(crate) scale: [f32; 3],
    /// Per channel, what is added then: `-mean / std`.
    pub(crate) bias: [f32; 3],
    /// Type of the values.
    pub(crate) dtype: DType,
    /// Whether a pixel's channels lie side by side: then the result is `[B, H, W, 3]`.
    pub(crate) is_channels_last: bool,
    /// What to launch.
    pub(crate) plan: Plan,
    /// Counts the launches made for this batch.
    pub(crate) launches: LaunchCounter,
}

impl OutputFormat {
    /// `(value / 255 - mean) / std` for byte values.
    pub(crate) fn new(size: [usize; 2], mean: [f32; 3], std: [f32; 3], launches: &LaunchCounter) -> Self {
        let scale = std.map(|std| (1.0 / (255.0 * f64::from(LEVEL) * f64::from(std))) as f32);
        let bias = std::array::from_fn(|channel| -mean[channel] / std[channel]);
        let plan = Plan::default();
        Self { size, scale, bias, dtype: DType::F32, is_channels_last: false, plan, launches: launches.clone() }
    }

    /// What `augment` asks for.
    pub(crate) fn of(augment: &Augment, launches: &LaunchCounter) -> Self {
        let Augment { size, mean, std, output_type, memory_order, .. } = augment;
        let is_channels_last = *memory_order == MemoryOrder::ChannelsLast;
        Self { dtype: output_type.dtype(), is_channels_last, ..Self::new(*size, *mean, *std, launches) }
    }

    /// The result's shape.
    pub(crate) fn shape(&self) -> [usize; 4] {
        let ([height, width], batch) = (self.size, self.plan.num_outputs);
        if self.is_channels_last { [batch, height, width, 3] } else { [batch, 3, height, width] }
    }
}

/// The scalar twin of the launches, and what the CPU runs: rayon over images.
///
/// # Shapes
/// `pixels`: the batch's bytes; `words`: the records of `format.plan`. Returns f32 of [`OutputFormat::shape`].
pub(crate) fn run_on_host(pixels: &[u8], words: &[u32], format: &OutputFormat) -> Vec<f32> {
    format.launches.increment();
    let image_len = 3 * format.size[0] * format.size[1];
    let len = format.plan.num_outputs * image_len;
    let mut output = Vec::with_capacity(len);
    let images = output.spare_capacity_mut()[..len].par_chunks_exact_mut(image_len);
    images.enumerate().for_each(|(index, image)| {
        let image = zeroed(image);
        let [first_term, num_terms] = [0, 1].map(|word| words[index * OUTPUT_WORDS + word] as usize);
        let terms = words[first_term..][..num_terms * TERM_WORDS].as_chunks::<TERM_WORDS>().0;
        for term in terms {
            let weight = (num_terms > 1).then(|| f32::from_bits(term[TERM_WEIGHT]));
            run_term(pixels, words, term, weight, format, image);
        }
    });
    #[expect(unsafe_code, reason = "only so does each thread zero its own images, and not one all of them")]
    // SAFETY: the chunks cover `len` values exactly, and each was zeroed.
    unsafe {
        output.set_len(len);
    }
    output
}

fn zeroed(image: &mut [MaybeUninit<f32>]) -> &mut [f32] {
    image.fill(MaybeUninit::new(0.0));
    #[expect(unsafe_code, reason = "there is no other way to say that a slice is initialised")]
    // SAFETY: all of it was filled the line before.
    unsafe {
        image.assume_init_mut()
    }
}

/// One term of an output, f32 `[3, H, W]`, or `[H, W, 3]`: added if it has a weight, else all there is.
fn run_term(
    pixels: &[u8],
    words: &[u32],
    term: &[u32; TERM_WORDS],
    weight: Option<f32>,
    format: &OutputFormat,
    output: &mut [f32],
) {
    let [height, width] = format.size;
    let layer = term[0] as usize;
    let mut resampler = Resampler::new(pixels, words, layer, format.size);
    let ops = decode_ops(words, layer);
    let rectangles = [term[TERM_ERASED], term[TERM_ERASED + 1]];
    let is_whole = term[TERM_REGION] == 0 && rectangles[1] == 0;
    let mut write = |row: usize, line: &[Levels]| {
        for channel in 0..3 {
            let (scale, bias) = (format.scale[channel], format.bias[channel]);
            if is_whole && !format.is_channels_last && weight.is_none() {
                normalise(line, channel, [scale, bias], &mut output[(channel * height + row) * width..][..width]);
                continue;
            }
            let [first, step] = match format.is_channels_last {
                true => [row * width * 3 + channel, 3],
                false => [(channel * height + row) * width, 1],
            };
            for (column, (value, rgb)) in output[first..].iter_mut().step_by(step).zip(line).enumerate() {
                if in_region(&term[TERM_REGION..], [row, column]) {
                    let covering = erased(words, rectangles, format.plan.deviations, [row, column], width);
                    let seen = covering.map_or(rgb[channel] as f32 * scale + bias, |color| color[channel]);
                    *value = weight.map_or(seen, |weight| *value + weight * seen);
                }
            }
        }
    };
    if ops.is_empty() {
        let mut line = vec![[0; 3]; width];
        for row in 0..height {
            resampler.row(row, &mut line);
            write(row, &line);
        }
        return;
    }
    let mut image = vec![[0; 3]; height * width];
    image.chunks_exact_mut(width).enumerate().for_each(|(row, line)| resampler.row(row, line));
    pixel_op::clamp_image(&mut image);
    ops.iter().for_each(|op| pixel_op::apply(op, &mut image, format.size));
    image.chunks_exact(width).enumerate().for_each(|(row, line)| write(row, line));
}

/// One channel of a row, from levels to what the model wants.
#[multiversion(targets = "simd")]
fn normalise(line: &[Levels], channel: usize, [scale, bias]: [f32; 2], output: &mut [f32]) {
    for (value, rgb) in output.iter_mut().zip(line) {
        *value = rgb[channel] as f32 * scale + bias;
    }
}

/// Whether the region of a term, its kind and edges, has pixel `[row, column]` in it.
fn in_region(region: &[u32], [row, column]: [usize; 2]) -> bool {
    let [top, left, bottom, right] = [1, 2, 3, 4].map(|edge| region[edge] as usize);
    let is_inside = (top..bottom).contains(&row) && (left..right).contains(&column);
    region[0] == 0 || is_inside == (region[0] == 1)
}

/// The operations of the layer at word `layer`, with their tables.
fn decode_ops(words: &[u32], layer: usize) -> Vec<Encoded> {
    let [count, first] = [0, 1].map(|word| words[layer + LAYER_OPS + word] as usize);
    let records = words[first..][..count * OP_WORDS].as_chunks::<OP_WORDS>().0;
    records
        .iter()
        .map(|record| {
            let parameters = std::array::from_fn(|index| record[OP_PARAMETERS + index]);
            Encoded::from_record(record[0], record[OP_PLACE], parameters, words)
        })
        .collect()
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The kernels' launchers, and the kernel that makes the output.

    use burn::backend::cubecl::dtype_to_storage_type;
    use burn::tensor::{DType, Shape};
    use burn_cubecl::kernel::into_contiguous;
    use burn_cubecl::tensor::CubeTensor;
    use cubecl::prelude::*;

    use super::OutputFormat;
    use crate::augment::erase::device::{Color, erase};
    use crate::augment::neighbourhood::device::{evaluate, keep_kernel};
    use crate::augment::record::{OUTPUT_WORDS, TERM_ERASED, TERM_REGION, TERM_WEIGHT, TERM_WORDS};
    use crate::augment::resample::device::resample;
    use crate::augment::statistics::device::{NUM_THREADS, statistics_kernel};
    use crate::augment::statistics::sum_shift;

    /// Threads of a cube: 32 neighbours in a row read neighbouring bytes and write 128 bytes at a time; eight rows of
    /// them make the 256 threads that every device allows.
    pub(crate) const CUBE_DIM: CubeDim = CubeDim::new_2d(32, 8);

    /// Runs the programs of a batch: one launch, and those of the plan's stages before it.
    ///
    /// # Shapes
    /// `pixels`: u32 `[words]`; `records`: u32 `[words]`. Returns values of [`OutputFormat::shape`].
    pub(crate) fn launch(pixels: CubeTensor, records: CubeTensor, format: &OutputFormat) -> CubeTensor {
        let (pixels, records) = (into_contiguous(pixels), into_contiguous(records));
        let [height, width] = format.size;
        let plan = &format.plan;
        let client = pixels.client.clone();
        let words = |count: usize| {
            // No buffer is empty.
            let shape = Shape::new([count.max(1)]);
            let memory = client.empty(count.max(1) * size_of::<u32>());
            CubeTensor::new_contiguous(client.clone(), pixels.device.clone(), shape, memory, DType::U32)
        };
        let (statistics, scratch) = (words(plan.statistics_words), words(plan.scratch_words));
        for stage in &plan.stages {
            let jobs = stage.statistics;
            if jobs.count > 0 {
                statistics_kernel::launch(
                    &client,
                    CubeCount::Static(jobs.count as u32, 1, 1),
                    CubeDim::new_1d(NUM_THREADS),
                    pixels.clone().into_buffer_arg(),
                    records.clone().into_buffer_arg(),
                    scratch.clone().into_buffer_arg(),
                    statistics.clone().into_buffer_arg(),
                    jobs.first_word as u32,
                    height as u32,
                    width as u32,
                    sum_shift(height * width),
                );
                format.launches.increment();
            }
            let jobs = stage.neighbourhoods;
            if jobs.count > 0 {
                keep_kernel::launch(
                    &client,
                    cube_count(format.size, jobs.count),
                    CUBE_DIM,
                    pixels.clone().into_buffer_arg(),
                    records.clone().into_buffer_arg(),
                    scratch.clone().into_buffer_arg(),
                    statistics.clone().into_buffer_arg(),
                    jobs.first_word as u32,
                    height as u32,
                    width as u32,
                );
                format.launches.increment();
            }
        }
        let shape = Shape::new(format.shape());
        // Not `empty_tensor`: CUDA would pad the rows of an image.
        let memory = client.empty(shape.num_elements() * format.dtype.size());
        let output = CubeTensor::new_contiguous(client.clone(), pixels.device.clone(), shape, memory, format.dtype);
        augment_kernel::launch(
            &client,
            cube_count(format.size, plan.num_outputs),
            CUBE_DIM,
            pixels.into_buffer_arg(),
            records.into_buffer_arg(),
            scratch.into_buffer_arg(),
            statistics.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            height as u32,
            width as u32,
            plan.deviations as u32,
            sequence(format.scale),
            sequence(format.bias),
            plan.is_plain,
            format.is_channels_last,
            dtype_to_storage_type(format.dtype),
        );
        format.launches.increment();
        output
    }

    /// A thread per pixel, z the image.
    fn cube_count([height, width]: [usize; 2], images: usize) -> CubeCount {
        CubeCount::Static((width as u32).div_ceil(CUBE_DIM.x), (height as u32).div_ceil(CUBE_DIM.y), images as u32)
    }

    fn sequence(values: [f32; 3]) -> SequenceArg<f32> {
        let mut sequence = SequenceArg::new();
        values.into_iter().for_each(|value| sequence.push(value));
        sequence
    }

    /// A thread makes a pixel; z is the image in the batch.
    #[cube(launch)]
    pub(crate) fn augment_kernel<F: Float>(
        pixels: &[u32],     // [words], four bytes each: RGB8 images one after the other
        words: &[u32],      // records
        scratch: &[u32],    // images kept for their neighbourhoods
        statistics: &[u32], // of whole images
        output: &mut [F],   // [B, 3, height, width], or [B, height, width, 3]
        height: u32,
        width: u32,
        deviations: u32,
        scale: Sequence<f32>, // [3]
        bias: Sequence<f32>,  // [3]
        #[comptime] is_plain: bool,
        #[comptime] is_channels_last: bool,
        #[define(F)] _dtype: ElemType,
    ) {
        let column = ABSOLUTE_POS_X;
        let row = ABSOLUTE_POS_Y;
        if column >= width || row >= height {
            terminate!();
        }
        let image = CUBE_POS_Z as usize;
        let mut term = words[image * OUTPUT_WORDS] as usize;
        let mut color = Color { red: 0.0f32.runtime(), green: 0.0f32.runtime(), blue: 0.0f32.runtime() };
        if comptime!(is_plain) {
            let rgb = resample(pixels, words, words[term] as usize, height, width, row, column, false);
            color.red = f32::cast_from(rgb.red) * *scale.index(0usize) + *bias.index(0usize);
            color.green = f32::cast_from(rgb.green) * *scale.index(1usize) + *bias.index(1usize);
            color.blue = f32::cast_from(rgb.blue) * *scale.index(2usize) + *bias.index(2usize);
        } else {
            let num_terms = words[image * OUTPUT_WORDS + 1];
            for _ in 0..num_terms {
                if in_region(words, term + TERM_REGION, row, column) {
                    let layer = words[term] as usize;
                    let rgb = evaluate(pixels, words, scratch, statistics, layer, 0usize, height, width, row, column);
                    let seen = Color {
                        red: f32::cast_from(rgb.red) * *scale.index(0usize) + *bias.index(0usize),
                        green: f32::cast_from(rgb.green) * *scale.index(1usize) + *bias.index(1usize),
                        blue: f32::cast_from(rgb.blue) * *scale.index(2usize) + *bias.index(2usize),
                    };
                    let first = words[term + TERM_ERASED];
                    let count = words[term + TERM_ERASED + 1];
                    let seen = erase(seen, words, first, count, deviations, width, row, column);
                    let weight = f32::reinterpret(words[term + TERM_WEIGHT]);
                    color.red += weight * seen.red;
                    color.green += weight * seen.green;
                    color.blue += weight * seen.blue;
                }
                term += TERM_WORDS;
            }
        }
        let plane = (height * width) as usize;
        let pixel = (row * width + column) as usize;
        if comptime!(is_channels_last) {
            let place = (image * plane + pixel) * 3;
            output[place] = F::cast_from(color.red);
            output[place + 1] = F::cast_from(color.green);
            output[place + 2] = F::cast_from(color.blue);
        } else {
            let place = image * 3 * plane + pixel;
            output[place] = F::cast_from(color.red);
            output[place + plane] = F::cast_from(color.green);
            output[place + 2 * plane] = F::cast_from(color.blue);
        }
    }

    /// [`super::in_region`].
    #[cube]
    fn in_region(words: &[u32], region: usize, row: u32, column: u32) -> bool {
        let is_inside = row >= words[region + 1]
            && column >= words[region + 2]
            && row < words[region + 3]
            && column < words[region + 4];
        let kind = words[region];
        kind == 0 || (kind == 1 && is_inside) || (kind == 2 && !is_inside)
    }
}
