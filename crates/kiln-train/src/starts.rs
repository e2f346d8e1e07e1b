//! `starts.jsonl`: what a run was started with, each time it was: one JSON object a start.
//!
//! In: [`Started`], which the trainer tells its observer. Out: a line in the run folder. A run that was resumed on another
//! machine has a line for each, so that nobody has to guess which epochs ran where.

use crate::error::TrainError;
use crate::report::{Observer, Started};
use crate::run_folder::RunFolder;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// One start of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Start {
    /// When: seconds since 1970, UTC.
    pub unix_secs: u64,
    /// Kiln's version.
    pub kiln: String,
    /// The command line.
    pub command: Vec<String>,
    /// The data set's path; `None` for the embedded one.
    pub data: Option<PathBuf>,
    /// The device, why it was chosen and why the others weren't.
    pub device: String,
    /// Operating system and processor architecture.
    pub system: String,
    /// Threads of the processor.
    pub num_threads: usize,
    /// Training images.
    pub num_train_images: usize,
    /// Validation images.
    pub num_val_images: usize,
    /// Number of classes.
    pub num_classes: usize,
    /// Learnable numbers of the network.
    pub num_parameters: usize,
    /// Images in a step.
    pub batch_size: usize,
    /// Steps in an epoch.
    pub steps_per_epoch: usize,
    /// The epoch it began with, from 1.
    pub first_epoch: usize,
}

/// An observer that writes each start to the run folder.
#[derive(Clone, Debug)]
pub struct StartRecorder {
    data: Option<PathBuf>,
}

impl StartRecorder {
    /// For a run on the data set at `data`; `None` for the embedded one.
    pub fn new(data: Option<&Path>) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { data: data.map(absolute) }
    }
}

impl Observer for StartRecorder {
    fn started(&mut self, started: &Started) {
        let start = Start::new(started, self.data.clone());
        // The run is worth more than a line about it.
        if let Err(error) = RunFolder::new(&started.output).add_start(&start) {
            tracing::warn!(%error, "the start isn't on record");
        }
    }
}

impl Start {
    fn new(started: &Started, data: Option<PathBuf>) -> Self {
        Self {
            unix_secs: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            kiln: env!("CARGO_PKG_VERSION").to_owned(),
            command: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
            data,
            device: started.device.clone(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            num_threads: std::thread::available_parallelism().map_or(1, usize::from),
            num_train_images: started.num_train_images,
            num_val_images: started.num_val_images,
            num_classes: started.classes.len(),
            num_parameters: started.num_parameters,
            batch_size: started.batch_size,
            steps_per_epoch: started.steps_per_epoch,
            first_epoch: started.first_epoch,
        }
    }

    /// The line of `starts.jsonl`, with its line break.
    pub(crate) fn line(&self) -> Result<String, TrainError> {
        let line = serde_json::to_string(self).map_err(|error| TrainError::Internal(error.to_string()))?;
        Ok(line + "\n")
    }
}
