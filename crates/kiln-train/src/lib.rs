//! A readable training loop for image classifiers: recipe, schedule, checkpoints, metrics.
//!
//! In: a [`Recipe`], an open device, the two splits of a data set, a model. Out: a trained model, and a run folder that
//! can be resumed at any time.
//!
//! ```text
//! files ─> kiln-data ─> [Batch] float [B,3,S,S]
//!                         │ kiln-model     logits [B,K]
//!                         │ loss.rs        cross entropy, with targets smoothed and, of mixed images, mixed
//!                         │ backward       (burn)
//!                         │ optimizer.rs   SGD, AdamW, ...; schedule.rs gives the learning rate of the step
//!                         │ metrics.rs     loss, top-1, top-5; the only wait for the device
//!                         ▼ checkpoint.rs  every few minutes and epochs: weights, optimiser, record, checksums
//! ```
//!
//! Begin reading at `trainer.rs`: the loop is one screen.
//!
//! ```
//! use kiln_data::scenes::{self, ScenesConfig};
//! use kiln_device::DeviceRequest;
//! use kiln_train::{Recipe, Trainer};
//!
//! # let folder = tempfile::tempdir()?;
//! # let (cache, output) = (folder.path().join("cache"), folder.path().join("run"));
//! let recipe = Recipe::from_toml(
//!     "[run]
//!      epochs = 1
//!      [data]
//!      batch_size = 4
//!      [model]
//!      arch = 'resnet18'
//!      width = 8
//!      [augment]
//!      image_size = 32",
//! )?;
//! let device = kiln_device::open(&DeviceRequest::Cpu)?;
//! let scenes = ScenesConfig { train_images: 20, val_images: 10, size: 48, ..Default::default() };
//! let data = scenes::open_or_create(Some(&cache), &scenes)?;
//! let classes = data.train.classes().len();
//! let model = recipe.model.resnet(classes).init(recipe.run.seed, &device.device);
//! let summary = Trainer::new(recipe, &device, data, &output)?.run(model, &mut ())?;
//! assert_eq!(summary.num_epochs_done, 1);
//! assert!(output.join("metrics.jsonl").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Not here: file formats and backends. Nothing here prints; `tracing` events and an [`Observer`] tell what happens.

mod adam;
mod atomic_file;
mod batch_fit;
mod calibration;
mod checkpoint;
mod confusion;
mod divergence;
mod ema;
mod epoch_files;
mod error;
mod evaluate;
mod failure;
mod grad_cam;
mod lamb;
mod lars;
mod loss;
mod loss_scale;
mod lr_find;
mod metrics;
mod micro_batch;
mod muon;
mod optimizer;
mod position;
mod precision;
mod predict;
mod recipe;
mod report;
mod resume;
mod rmsprop;
mod run_folder;
mod schedule;
mod sgd;
mod starts;
mod stop;
mod swa;
mod tensorboard;
mod throughput;
mod trained_model;
mod trainer;
mod verdict;
mod watchdog;
mod weight_average;

pub use adam::{Adam, AdamState, Decay};
pub use batch_fit::largest_batch;
pub use calibration::Calibration;
pub use checkpoint::{Checkpoint, Checkpoints, Found, ResumeFrom, RunState, UnderWay};
pub use confusion::{ClassFigures, ConfusionMatrix};
pub use ema::Ema;
pub use error::{Damaged, TrainError};
pub use evaluate::{Answer, ClassResult, ConfidenceLevel, Confused, EvaluateConfig, Evaluation, evaluate};
pub use grad_cam::HeatMap;
pub use lamb::Lamb;
pub use lars::{Lars, LarsState};
pub use loss::{Loss, cross_entropy, cross_entropy_soft};
pub use loss_scale::LossScale;
pub use lr_find::{LrCurve, LrPoint, LrSweep, lr_find};
pub use metrics::{Answers, Meter, MeterError, StepId, Totals};
pub use muon::{Muon, MuonState};
pub use optimizer::{ModelOptimizer, StateError};
pub use position::Position;
pub use precision::Precision;
pub use predict::{Guess, read_pictures, top_k};
pub use recipe::{
    AugmentConfig, BestBy, DataConfig, EmaConfig, LossConfig, LossKind, ModelConfig, OptimizerConfig, OptimizerKind,
    ProgressiveResize, Recipe, RunConfig, ScheduleConfig, ScheduleKind, Setting, SwaConfig, ValidationConfig,
};
pub use report::{
    Best, EpochMetrics, EpochReport, Notice, Observer, Resumed, Started, StepReport, Stopped, Summary, ValidationReport,
};
pub use rmsprop::{RmsProp, RmsPropState};
pub use run_folder::RunFolder;
pub use schedule::{AfterWarmup, Anneal, Curve, OneCycle, Phases, Schedule, Warmup, WarmupShape};
pub use sgd::{Residence, Sgd, SgdState};
pub use starts::{Start, StartRecorder};
pub use stop::StopFlag;
pub use swa::Swa;
pub use tensorboard::{Event, EventFile, What};
pub use trained_model::{OpenModel, TrainedModel};
pub use trainer::Trainer;
pub use weight_average::{AverageRule, WeightAverage};

#[cfg(test)]
mod golden;
#[cfg(test)]
mod golden_run;
#[cfg(test)]
mod shipped_recipes;
