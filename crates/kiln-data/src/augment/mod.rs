//! Augmentation: a program per image, drawn on the host, run for the whole batch in one launch.
//!
//! In: a [`DeviceBatch`], bytes of images of different sizes. Out: a [`Batch`], float `[B, 3, H, W]`, normalised.
//!
//! ```text
//! list of augmentations ──draw(seed, epoch, sample)──> Program ──record──> one launch over the batch
//!      Augment                                     geometry, ...           kernel, or its scalar twin
//! ```
//!
//! A draw depends on the seed, the epoch and the index of the sample alone: not on the batch, the number of workers,
//! the device or whether the run was resumed. The kernel draws nothing; it is a function of pixels and records.
//!
//! A new augmentation is a file with its options, defaults and draw ([`Step`]), and two lines in [`Augmentation`].
//! Mixing, which needs two images, is no step: see [`Mixing`].

mod backend;
mod color;
mod erase;
mod geometric;
mod geometry;
mod interpolation;
mod levels;
mod mixing;
mod neighbourhood;
mod output;
mod philox;
mod pixel_op;
mod policy;
mod program;
mod random_erasing;
mod record;
mod resample;
mod run;
mod spread;
mod statistics;
mod step;
mod taps;
mod warp;
mod window;

use burn::tensor::{DType, Int, Tensor, TensorData};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use color::autocontrast::RandomAutocontrast;
pub use color::color_jitter::ColorJitter;
pub use color::equalize::RandomEqualize;
pub use color::gamma::RandomGamma;
pub use color::grayscale::RandomGrayscale;
pub use color::invert::RandomInvert;
pub use color::posterize::RandomPosterize;
pub use color::solarize::RandomSolarize;
pub use geometric::center_crop::CenterCrop;
pub use geometric::corner_crop::{Corner, CornerCrop};
pub use geometric::pad::{Pad, Padding, PaddingMode};
pub use geometric::random_affine::{RandomAffine, Shear};
pub use geometric::random_crop::RandomCrop;
pub use geometric::random_horizontal_flip::RandomHorizontalFlip;
pub use geometric::random_perspective::RandomPerspective;
pub use geometric::random_resized_crop::RandomResizedCrop;
pub use geometric::random_rotation::RandomRotation;
pub use geometric::random_vertical_flip::RandomVerticalFlip;
pub use geometric::resize::{Resize, ResizeTo};
pub use geometric::views::TestTimeViews;
pub use interpolation::Interpolation;
pub use mixing::{Mix, MixedTargets, Mixing};
pub(crate) use mixing::{labels_on_device, one_hot};
pub use neighbourhood::gaussian_blur::{GaussianBlur, KernelSize};
pub use neighbourhood::sharpness::RandomAdjustSharpness;
pub use output::{MemoryOrder, OutputType};
pub(crate) use philox::Draws;
pub use policy::aug_mix::AugMix;
pub use policy::auto_augment::{AutoAugment, AutoAugmentPolicy};
pub use policy::rand_augment::RandAugment;
pub use policy::three_augment::ThreeAugment;
pub use policy::timm::TimmRandAugment;
pub use policy::timm_string::{TimmRandAugmentConfig, TimmWeights};
pub use policy::trivial_augment_wide::TrivialAugmentWide;
pub use program::Program;
pub use random_erasing::{EraseValue, RandomErasing, RandomValue};
pub use spread::Spread;

use crate::batch::{Batch, DeviceBatch};
use crate::nearest_name::with_nearest_name;
use geometry::Filter;
use program::MAX_LAYERS;
use record::Records;
use run::{LaunchCounter, OutputFormat};
use step::{Output, Step};

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
#[serde(remote = "Self", tag = "op", rename_all = "snake_case")]
pub enum Augmentation {
    /// A random part of the image, stretched to the size of the output.
    RandomResizedCrop(RandomResizedCrop),
    /// A random part of the image in its own scale, after padding.
    RandomCrop(RandomCrop),
    /// The whole image, to a shorter side or to a height and width.
    Resize(Resize),
    /// The middle of the image.
    CenterCrop(CenterCrop),
    /// A corner of the image.
    CornerCrop(CornerCrop),
    /// Pixels around the image.
    Pad(Pad),
    /// Mirrors left and right.
    RandomHorizontalFlip(RandomHorizontalFlip),
    /// Paints over a random rectangle.
    RandomErasing(RandomErasing),
    /// Mirrors top and bottom.
    RandomVerticalFlip(RandomVerticalFlip),
    /// Turns the image.
    RandomRotation(RandomRotation),
    /// Turns, moves, scales and shears the image.
    RandomAffine(RandomAffine),
    /// Moves the corners of the image inwards.
    RandomPerspective(RandomPerspective),
    /// Brightness, contrast, saturation and hue, in random order.
    ColorJitter(ColorJitter),
    /// Takes the colour away.
    RandomGrayscale(RandomGrayscale),
    /// Makes a negative.
    RandomInvert(RandomInvert),
    /// Inverts what is bright.
    RandomSolarize(RandomSolarize),
    /// Leaves fewer steps between black and white.
    RandomPosterize(RandomPosterize),
    /// Stretches each channel from black to white.
    RandomAutocontrast(RandomAutocontrast),
    /// Flattens the histogram of each channel.
    RandomEqualize(RandomEqualize),
    /// Raises every value to a power.
    RandomGamma(RandomGamma),
    /// Sharpens or smooths.
    RandomAdjustSharpness(RandomAdjustSharpness),
    /// Blurs.
    GaussianBlur(GaussianBlur),
    /// One operation of random strength.
    TrivialAugmentWide(TrivialAugmentWide),
    /// A few operations of one strength.
    RandAugment(RandAugment),
    /// The same as timm does it, from its string.
    TimmRandAugment(TimmRandAugment),
    /// One of the pairs of operations that were searched for.
    AutoAugment(AutoAugment),
    /// The image blended with augmented copies of itself.
    AugMix(AugMix),
    /// Grey, solarized or blurred; then colour jitter.
    ThreeAugment(ThreeAugment),
}

impl Augmentation {
    /// The step's name in a recipe, and what it does.
    fn step(&self) -> (&'static str, &dyn Step) {
        match self {
            Self::RandomResizedCrop(step) => ("random_resized_crop", step),
            Self::RandomCrop(step) => ("random_crop", step),
            Self::Resize(step) => ("resize", step),
            Self::CenterCrop(step) => ("center_crop", step),
            Self::CornerCrop(step) => ("corner_crop", step),
            Self::Pad(step) => ("pad", step),
            Self::RandomHorizontalFlip(step) => ("random_horizontal_flip", step),
            Self::RandomVerticalFlip(step) => ("random_vertical_flip", step),
            Self::RandomErasing(step) => ("random_erasing", step),
            Self::RandomRotation(step) => ("random_rotation", step),
            Self::RandomAffine(step) => ("random_affine", step),
            Self::RandomPerspective(step) => ("random_perspective", step),
            Self::ColorJitter(step) => ("color_jitter", step),
            Self::RandomGrayscale(step) => ("random_grayscale", step),
            Self::RandomInvert(step) => ("random_invert", step),
            Self::RandomSolarize(step) => ("random_solarize", step),
            Self::RandomPosterize(step) => ("random_posterize", step),
            Self::RandomAutocontrast(step) => ("random_autocontrast", step),
            Self::RandomEqualize(step) => ("random_equalize", step),
            Self::RandomGamma(step) => ("random_gamma", step),
            Self::RandomAdjustSharpness(step) => ("random_adjust_sharpness", step),
            Self::GaussianBlur(step) => ("gaussian_blur", step),
            Self::TrivialAugmentWide(step) => ("trivial_augment_wide", step),
            Self::RandAugment(step) => ("rand_augment", step),
            Self::TimmRandAugment(step) => ("timm_rand_augment", step),
            Self::AutoAugment(step) => ("auto_augment", step),
            Self::AugMix(step) => ("aug_mix", step),
            Self::ThreeAugment(step) => ("three_augment", step),
        }
    }

    /// Whether the step decides the size and the shape of the image, whatever they were.
    fn sets_shape(&self) -> bool {
        let (Self::RandomResizedCrop(_)
        | Self::RandomCrop(_)
        | Self::Resize(_)
        | Self::CenterCrop(_)
        | Self::CornerCrop(_)) = self
        else {
            return false;
        };
        true
    }
}

impl Serialize for Augmentation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Augmentation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AugmentationVisitor)
    }
}

/// Reads a step; an unknown name gets the nearest one. The error is made here, within the table, so that the format
/// can still say where the table is.
struct AugmentationVisitor;

impl<'de> Visitor<'de> for AugmentationVisitor {
    type Value = Augmentation;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an augmentation: a table with op and its options")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Augmentation, A::Error> {
        Augmentation::deserialize(MapAccessDeserializer::new(map)).map_err(|error| {
            let message = error.to_string();
            let message = message.trim_end();
            match with_nearest_name(message) {
                suggested if suggested != message => A::Error::custom(suggested),
                _ => error,
            }
        })
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
        for (index, (name, step)) in self.steps.iter().map(Augmentation::step).enumerate() {
            problems.extend(step.problems().into_iter().map(|problem| format!("steps[{index}] ({name}): {problem}")));
        }
        problems.extend(self.uneven_resize());
        let mixing = self.mix.iter().flat_map(Mixing::problems);
        problems.extend(mixing.map(|problem| format!("mix: {problem}")));
        problems.extend(self.too_many_layers());
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// A resize to a shorter side leaves images of different shapes, which stretching to `size` would distort.
    fn uneven_resize(&self) -> Option<String> {
        let (index, last) = self.steps.iter().enumerate().rev().find(|(_, step)| step.sets_shape())?;
        let uneven = matches!(last, Augmentation::Resize(Resize { size: ResizeTo::ShorterSide(_), .. }));
        let problem = "only the shorter side is set, so images would differ in shape; add a center_crop";
        uneven.then(|| format!("steps[{index}] (resize): {problem}"))
    }

    /// Each AugMix multiplies the copies that there are already.
    fn too_many_layers(&self) -> Option<String> {
        let num_copies = self.steps.iter().map(|step| match step {
            Augmentation::AugMix(step) => step.num_layers(),
            _ => 1,
        });
        let total = num_copies.fold(1, usize::saturating_mul);
        (total > MAX_LAYERS).then(|| {
            format!("the aug_mix steps together blend {total} copies; at most {MAX_LAYERS} work, so use fewer of them")
        })
    }

    /// Draws the program of one image of `width` × `height`.
    ///
    /// `seed` is that of the run, `epoch` counts from 0, `sample` is the index in the data set; nothing else has a part
    /// in the draws. The generator and how its numbers are used are documented in `augment/philox.rs`.
    pub fn draw(&self, seed: u64, epoch: u32, sample: u64, width: u32, height: u32) -> Program {
        let size = self.output_size();
        let output = Output { size, mean_color: self.mean.map(|mean| (255.0 * mean).round() as u8) };
        let mut program = Program::new(width, height);
        for (index, (_, step)) in self.steps.iter().map(Augmentation::step).enumerate() {
            let mut draws = Draws::new(seed, epoch, sample, index as u16);
            step.draw(&mut draws, &mut program, &output);
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
    let DeviceBatch { pixels, images, labels, samples, draws: _, epoch: _, programs, mixes } = batch;
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
