//! Augmentation: a program per image, drawn on the host, run for the whole batch in one launch.
//!
//! In: a [`DeviceBatch`], bytes of images of different sizes. Out: a [`Batch`], f32 `[B, 3, H, W]`, normalised.
//!
//! ```text
//! list of augmentations ──draw(seed, epoch, sample)──> Program ──record──> one launch over the batch
//!      Augment                                     geometry, ...           kernel, or its scalar twin
//! ```
//!
//! A draw depends on the seed, the epoch and the index of the sample alone: not on the batch, the number of workers,
//! the device or whether the run was resumed. The kernel draws nothing; it is a function of pixels and records.
//!
//! A new augmentation is a file with its options, defaults and draw, and one arm in [`Augmentation`].
//! Mixing, which needs two images, is no step: see [`Mixing`].

mod backend;
mod color;
mod erase;
mod geometric;
mod geometry;
mod levels;
mod mixing;
mod neighbourhood;
mod output;
mod philox;
mod pixel_op;
mod program;
mod random_erasing;
mod record;
mod resample;
mod run;
mod statistics;
mod taps;
mod warp;

use burn::tensor::{DType, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

pub use geometric::center_crop::CenterCrop;
pub use geometric::random_horizontal_flip::RandomHorizontalFlip;
pub use geometric::random_resized_crop::RandomResizedCrop;
pub use geometric::resize::{Resize, ResizeTo};
pub use mixing::{Mix, MixedTargets, Mixing};
pub(crate) use mixing::{labels_on_device, one_hot};
pub use output::{MemoryOrder, OutputType};
pub(crate) use philox::Draws;
pub use program::Program;
pub use random_erasing::{EraseValue, RandomErasing, RandomValue};

use crate::batch::{Batch, DeviceBatch};
use geometry::Filter;
use record::Records;
use run::{LaunchCounter, OutputFormat};

/// Mean of ImageNet's channels, 0–1; torchvision's numbers.
const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// Standard deviation of ImageNet's channels, 0–1; torchvision's numbers.
const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];

/// Longest side of an output. A kernel's positions count output pixels in 16 bits, and nothing is trained beyond.
const MAX_SIDE: usize = 65_535;
/// Images in a batch: what every device accepts as the third dimension of a launch.
const MAX_BATCH: usize = 65_535;
/// Steps in a list. Far above any use, and below what the streams of [`Draws`] can number.
const MAX_STEPS: usize = 1000;

/// One step of a list of augmentations.
///
/// In a recipe a table whose `op` names the step; options left out have their defaults, unknown ones are errors:
///
/// ```
/// use kiln_data::{Augmentation, RandomResizedCrop};
///
/// let step: Augmentation = serde_json::from_str(r#"{"op": "random_resized_crop", "scale": [0.35, 1.0]}"#)?;
/// let crop = RandomResizedCrop { scale: [0.35, 1.0], ..Default::default() };
/// assert_eq!(step, Augmentation::RandomResizedCrop(crop));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Augmentation {
    /// A random part of the image, stretched to the size of the output.
    RandomResizedCrop(RandomResizedCrop),
    /// The whole image, to a shorter side or to a height and width.
    Resize(Resize),
    /// The middle of the image.
    CenterCrop(CenterCrop),
    /// Mirrors left and right.
    RandomHorizontalFlip(RandomHorizontalFlip),
    /// Paints over a random rectangle.
    RandomErasing(RandomErasing),
}

impl Augmentation {
    /// The step's name in a recipe.
    fn op(&self) -> &'static str {
        match self {
            Self::RandomResizedCrop(_) => "random_resized_crop",
            Self::Resize(_) => "resize",
            Self::CenterCrop(_) => "center_crop",
            Self::RandomHorizontalFlip(_) => "random_horizontal_flip",
            Self::RandomErasing(_) => "random_erasing",
        }
    }

    fn problems(&self) -> Vec<String> {
        match self {
            Self::RandomResizedCrop(step) => step.problems(),
            Self::Resize(step) => step.problems(),
            Self::CenterCrop(step) => step.problems(),
            Self::RandomHorizontalFlip(step) => step.problems(),
            Self::RandomErasing(step) => step.problems(),
        }
    }

    /// Adds one draw of the step to `program`; `size` is that of the output.
    fn draw(&self, draws: &mut Draws, program: &mut Program, size: [u32; 2]) {
        match self {
            Self::RandomResizedCrop(step) => step.draw(draws, program, size),
            Self::Resize(step) => step.apply(program),
            Self::CenterCrop(step) => step.apply(program, size),
            Self::RandomHorizontalFlip(step) => step.draw(draws, program),
            Self::RandomErasing(step) => step.draw(draws, program, size),
        }
    }
}

/// What happens to images between the disk and the model: steps in order, then to-tensor and normalise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Augment {
    /// Applied in order. An image that they leave at another size than `size` is stretched to it.
    pub steps: Vec<Augmentation>,
    /// Height and width of the output, in pixels.
    pub size: [usize; 2],
    /// Subtracted from each channel of values 0–1. Default ImageNet's.
    #[serde(default = "imagenet_mean")]
    pub mean: [f32; 3],
    /// Each channel is divided by it then. Default ImageNet's.
    #[serde(default = "imagenet_std")]
    pub std: [f32; 3],
    /// Type of the output's values. Default f32.
    #[serde(default)]
    pub output_type: OutputType,
    /// Order of the output's values in memory. Default channels first.
    #[serde(default)]
    pub memory_order: MemoryOrder,
    /// Mixes images of a batch, after all steps. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mixing>,
}

fn imagenet_mean() -> [f32; 3] {
    IMAGENET_MEAN
}

fn imagenet_std() -> [f32; 3] {
    IMAGENET_STD
}

impl Augment {
    /// `steps` to an output of `size`, height and width in pixels, with ImageNet's mean and standard deviation.
    pub fn new(steps: Vec<Augmentation>, size: [usize; 2]) -> Self {
        let (output_type, memory_order) = Default::default();
        Self { steps, size, mean: IMAGENET_MEAN, std: IMAGENET_STD, output_type, memory_order, mix: None }
    }

    /// What ResNets are trained on ImageNet with: a random resized crop to `size` × `size` and a random flip.
    pub fn train(size: usize) -> Self {
        let steps = vec![
            Augmentation::RandomResizedCrop(RandomResizedCrop::default()),
            Augmentation::RandomHorizontalFlip(RandomHorizontalFlip::default()),
        ];
        Self::new(steps, [size, size])
    }

    /// What ResNets are evaluated on ImageNet with: the shorter side to `size / 0.875` (256 for 224), then the centre.
    pub fn eval(size: usize) -> Self {
        let shorter = u32::try_from(size * 8 / 7).unwrap_or(u32::MAX);
        let steps = vec![
            Augmentation::Resize(Resize::new(ResizeTo::ShorterSide(shorter))),
            Augmentation::CenterCrop(CenterCrop::default()),
        ];
        Self::new(steps, [size, size])
    }

    /// Checks every option.
    ///
    /// # Errors
    /// All problems at once, a sentence each.
    pub fn validate(&self) -> Result<(), Vec<String>> {
        let mut problems = Vec::new();
        if self.size.iter().any(|side| !(1..=MAX_SIDE).contains(side)) {
            problems.push(format!("size is {:?}; a side has 1 to {MAX_SIDE} pixels", self.size));
        }
        if !self.mean.iter().all(|mean| mean.is_finite()) {
            problems.push(format!("mean is {:?}; it must be three finite numbers", self.mean));
        }
        if !self.std.iter().all(|std| std.is_finite() && *std > 0.0) {
            problems.push(format!("std is {:?}; it must be three finite numbers above 0", self.std));
        }
        if self.steps.len() > MAX_STEPS {
            problems.push(format!("steps has {} entries; at most {MAX_STEPS} make sense", self.steps.len()));
        }
        for (index, step) in self.steps.iter().enumerate() {
            problems.extend(
                step.problems().into_iter().map(|problem| format!("steps[{index}] ({}): {problem}", step.op())),
            );
        }
        problems.extend(self.uneven_resize());
        let mixing = self.mix.iter().flat_map(Mixing::problems);
        problems.extend(mixing.map(|problem| format!("mix: {problem}")));
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// A resize to a shorter side leaves images of different shapes, which stretching to `size` would distort.
    fn uneven_resize(&self) -> Option<String> {
        let mut steps = self.steps.iter().enumerate().rev();
        let keeps_shape =
            |step: &_| matches!(step, Augmentation::RandomHorizontalFlip(_) | Augmentation::RandomErasing(_));
        let (index, last) = steps.find(|(_, step)| !keeps_shape(step))?;
        let uneven = matches!(last, Augmentation::Resize(Resize { size: ResizeTo::ShorterSide(_), .. }));
        let problem = "only the shorter side is set, so images would differ in shape; add a center_crop";
        uneven.then(|| format!("steps[{index}] (resize): {problem}"))
    }

    /// Draws the program of one image of `width` × `height`.
    ///
    /// `seed` is that of the run, `epoch` counts from 0, `sample` is the index in the data set; nothing else has a part
    /// in the draws. The generator and how its numbers are used are documented in `augment/philox.rs`.
    pub fn draw(&self, seed: u64, epoch: u32, sample: u64, width: u32, height: u32) -> Program {
        let size = self.output_size();
        let mut program = Program::new(width, height);
        for (index, step) in self.steps.iter().enumerate() {
            let mut draws = Draws::new(seed, epoch, sample, index as u16);
            step.draw(&mut draws, &mut program, size);
        }
        program.resize(size, Filter::BilinearAntialiased);
        program
    }

    /// Draws what the images of a batch, which are `samples` of the data set, are mixed with; empty without [`mix`](Self::mix).
    pub fn draw_mixes(&self, seed: u64, epoch: u32, samples: &[u64]) -> Vec<Mix> {
        self.mix.as_ref().map_or(Vec::new(), |mixing| mixing.draw(seed, epoch, samples, self.output_size()))
    }

    fn output_size(&self) -> [u32; 2] {
        self.size.map(|side| u32::try_from(side).unwrap_or(u32::MAX))
    }
}

/// Runs the programs of a batch: one launch on CUDA and wgpu, rayon over images on the CPU.
///
/// Two small copies to the device, the programs and the targets; no wait.
///
/// # Panics
/// If the batch is empty or has more than 65,535 images, another number of programs than of images, an image beyond its
/// pixels, a program drawn for another image, or one for another size than that of `augment`; or if the device can't
/// compute the type of the output.
pub fn augment(batch: DeviceBatch, augment: &Augment) -> Batch {
    augment_as(batch, OutputFormat::of(augment, &LaunchCounter::default()))
}

/// [`augment`], with the count of launches in `format`.
fn augment_as(batch: DeviceBatch, format: OutputFormat) -> Batch {
    let DeviceBatch { pixels, images, labels, samples, epoch: _, programs, mixes } = batch;
    assert!((1..=MAX_BATCH).contains(&images.len()), "a batch of {} images", images.len());
    assert_eq!(images.len(), programs.len(), "one program per image");
    assert!(mixes.is_empty() || mixes.len() == images.len(), "{} mixes of {} images", mixes.len(), images.len());
    let num_bytes = pixels.dims()[0] * 4;
    let device = pixels.device();
    for (slot, program) in images.iter().zip(&programs) {
        assert!(slot.offset + slot.num_bytes() <= num_bytes, "{slot:?} in {num_bytes} bytes");
        assert!(program.reads_within(slot.width, slot.height), "a program drawn for another image than {slot:?}");
        assert_eq!(program.size().map(|side| side as usize), format.size, "the size of a program's output");
    }
    let Records { words, plan } = Records::new(&images, &programs, &mixes, format.size);
    let num_words = words.len();
    let records = Tensor::<1, Int>::from_data(TensorData::new(words, [num_words]), (&device, DType::U32));
    let format = OutputFormat { plan, ..format };
    let targets = labels_on_device(&labels, &device);
    let mix = MixedTargets::new(&mixes, &labels);
    Batch { images: backend::run_programs(pixels, records, format), targets, labels, samples, mix }
}

#[cfg(test)]
mod tests;
