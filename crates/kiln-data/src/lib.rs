//! From files on disk to normalised batches on a device.
//!
//! In: data sets of any known format ([`open`]), the embedded drawings ([`scenes`]), or anything that implements
//! [`Dataset`]. Out: [`Batch`], float `[B, 3, H, W]` on the device asked for.
//!
//! ```text
//! files ──dataset──> bytes + label ──decode──> RgbImage ──loader──> HostBatch ──upload──> DeviceBatch ──augment──> Batch
//!                                      worker threads              one thread, one ahead      consumer's thread
//! ```
//!
//! Pixels stay bytes until the augmentation kernel writes floats. What happens to a picture depends on
//! `(seed, epoch, sample index)` alone: batch size, number of workers and device don't change it.
//!
//! ```
//! use kiln_data::{Augment, Loader, LoaderConfig, scenes};
//!
//! # let folder = tempfile::tempdir()?;
//! # let cache = Some(folder.path());
//! let config = scenes::ScenesConfig { train_images: 20, val_images: 10, size: 48, ..Default::default() };
//! let splits = scenes::open_or_create(cache, &config)?; // `None` for the user's cache folder
//! let loader = Loader::new(splits.train, LoaderConfig { batch_size: 8, ..Default::default() })?;
//! let augment = Augment::train(32);
//! for batch in loader.epoch(0).upload(&kiln_device::cpu(), &augment, 42) {
//!     assert_eq!(batch?.images.dims()[1..], [3, 32, 32]);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod augment;
mod batch;
mod byte_size;
mod dataset;
mod decode;
mod error;
mod health;
mod loader;
mod nearest_name;
mod order;
mod pack;
mod preview;
mod upload;

pub use augment::{
    AugMix, Augment, Augmentation, AutoAugment, AutoAugmentPolicy, CenterCrop, ColorJitter, Corner, CornerCrop,
    EraseValue, GaussianBlur, Interpolation, KernelSize, MemoryOrder, Mix, MixedTargets, Mixing, OutputType, Pad,
    Padding, PaddingMode, Program, RandAugment, RandomAdjustSharpness, RandomAffine, RandomAutocontrast, RandomCrop,
    RandomEqualize, RandomErasing, RandomGamma, RandomGrayscale, RandomHorizontalFlip, RandomInvert, RandomPerspective,
    RandomPosterize, RandomResizedCrop, RandomRotation, RandomSolarize, RandomValue, RandomVerticalFlip, Resize,
    ResizeTo, Shear, Spread, TestTimeViews, ThreeAugment, TimmRandAugment, TimmRandAugmentConfig, TimmWeights,
    TrivialAugmentWide, augment,
};
pub use batch::{Batch, DeviceBatch, HostBatch, ImageSlot};
pub use byte_size::{ByteSize, ByteSizeError};
pub use dataset::image_folder::ImageFolder;
pub use dataset::{
    Content, Dataset, Findings, MemoryDataset, OpenOptions, Opened, Sample, Splits, Subset, UnusableClasses, open,
    open_with_findings, picture_files, scenes,
};
pub use decode::{
    DecodeError, DecodeOptions, ImageFormat, OnTruncated, RgbImage, View, Window, rgb_from_bytes, view_from_bytes,
};
pub use error::DataError;
pub use health::{
    ClassCount, DeepInspection, DuplicateGroup, InspectConfig, Inspection, InspectionPage, NearDuplicates, SizeRange,
    SizeStatistics, SkippedFile, inspect, inspection_page,
};
pub use loader::{
    Bound, EpochBatches, Feed, Loader, LoaderConfig, LoaderCounters, LoaderReport, MeasureConfig, OnError, Sampling,
    Shard, Skipped, StageCounters, WorkerShares,
};
pub use nearest_name::with_nearest_name;
pub use order::EpochOrder;
pub use pack::{PackConfig, PackForm, PackPlan, PackProgress, PackReport, PackedShard, pack};
pub use preview::{Preview, PreviewConfig, preview_grid, rgb_from_values};
pub use upload::{DeviceBatches, batch_from_tensor, batch_to_device};
