//! Kiln under one name: device choice, data, models and trainer, and the pieces that its programs share.
//!
//! Each crate can be used by itself; this one re-exports them as [`device`], [`data`], [`model`] and [`train`], and adds
//! what a program with a terminal needs: the options of a training run ([`TrainArgs`]), a progress bar
//! ([`TerminalProgress`]), and Ctrl-C ([`stop_on_ctrl_c`]).
//!
//! ```text
//! device: which GPU, and why ──┐
//! data:   files → batches    ──┼──> train: recipe, loop, checkpoints
//! model:  ResNet             ──┘
//! ```

mod interrupt;
mod logging;
mod outcome;
mod progress;
mod restart;
mod run_defaults;
mod shipped_recipe;
mod train_args;

pub use interrupt::{INTERRUPTED, stop_on_ctrl_c};
pub use kiln_data as data;
pub use kiln_device as device;
pub use kiln_model as model;
pub use kiln_train as train;
pub use logging::log_to_stderr;
pub use outcome::Outcome;
pub use progress::TerminalProgress;
pub use restart::restart_after;
pub use run_defaults::RunDefaults;
pub use shipped_recipe::ShippedRecipe;
pub use train_args::{BatchSize, Parts, TrainArgs};

/// The programs in the embedding guide, compiled by `cargo test`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct EmbeddingGuide;
