//! The folder a run writes to.
//!
//! ```text
//! recipe.toml      the recipe as resolved, every default written out
//! metrics.jsonl    one JSON object an epoch, see `report.rs`
//! starts.jsonl     one JSON object a start, see `starts.rs`
//! checkpoints/     see `checkpoint.rs`
//! ```
//!
//! Every file is replaced as a whole (`atomic_file.rs`): a reader sees the lines of finished epochs, never half a line.

use crate::atomic_file;
use crate::checkpoint::Checkpoints;
use crate::error::TrainError;
use crate::recipe::Recipe;
use crate::report::EpochMetrics;
use crate::starts::Start;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const RECIPE: &str = "recipe.toml";
const METRICS: &str = "metrics.jsonl";
const STARTS: &str = "starts.jsonl";
const CHECKPOINTS: &str = "checkpoints";

/// The folder a run writes to.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// The run in `path`, which needn't exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run's checkpoints.
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(self.path.join(CHECKPOINTS))
    }

    /// The lines of `metrics.jsonl`; empty if there is none yet.
    ///
    /// # Errors
    /// [`TrainError::Io`] if it can't be read.
    pub fn metrics(&self) -> Result<String, TrainError> {
        self.text(METRICS)
    }

    /// The recipe as resolved; `None` if there is no run.
    ///
    /// # Errors
    /// [`TrainError::Io`] if it can't be read, [`TrainError::RecipeSyntax`] if it isn't a recipe.
    pub fn recipe(&self) -> Result<Option<Recipe>, TrainError> {
        let text = self.text(RECIPE)?;
        if text.is_empty() { Ok(None) } else { Recipe::from_toml(&text).map(Some) }
    }

    /// What the run was started with, the first start first. A line that isn't understood is passed over.
    ///
    /// # Errors
    /// [`TrainError::Io`] if it can't be read.
    pub fn starts(&self) -> Result<Vec<Start>, TrainError> {
        Ok(self.text(STARTS)?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Writes a file of the run, such as a report: whole or not at all.
    ///
    /// # Errors
    /// [`TrainError::Io`] with the file.
    pub fn write_file(&self, name: &str, bytes: &[u8]) -> Result<(), TrainError> {
        atomic_file::write(&self.path.join(name), bytes)
    }

    /// Adds a start to the record.
    pub(crate) fn add_start(&self, start: &Start) -> Result<(), TrainError> {
        let lines = self.text(STARTS)? + &start.line()?;
        atomic_file::write(&self.path.join(STARTS), lines.as_bytes())
    }

    /// The text of a file; empty if it isn't there.
    fn text(&self, name: &str) -> Result<String, TrainError> {
        let path = self.path.join(name);
        match fs::read_to_string(&path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(String::new()),
            read => read.map_err(TrainError::io("read", &path)),
        }
    }

    /// Refuses a folder that holds a run. Other files don't matter: none of ours has their name.
    pub(crate) fn refuse_existing(&self) -> Result<(), TrainError> {
        match self.run_file() {
            Some(found) => Err(TrainError::RunExists { path: self.path.clone(), found }),
            None => Ok(()),
        }
    }

    pub(crate) fn holds_run(&self) -> bool {
        self.run_file().is_some()
    }

    /// The first of a run's files that is there.
    fn run_file(&self) -> Option<&'static str> {
        [METRICS, CHECKPOINTS, RECIPE].into_iter().find(|name| self.path.join(name).exists())
    }

    /// Makes the folders, removes what a killed process left, and writes the recipe.
    pub(crate) fn prepare(&self, recipe: &Recipe) -> Result<(), TrainError> {
        let checkpoints = self.path.join(CHECKPOINTS);
        fs::create_dir_all(&checkpoints).map_err(TrainError::io("create", &checkpoints))?;
        atomic_file::sweep(&self.path)?;
        atomic_file::sweep(&checkpoints)?;
        atomic_file::write(&self.path.join(RECIPE), recipe.to_toml()?.as_bytes())
    }

    /// Replaces the record of the run.
    pub(crate) fn write_metrics(&self, lines: &str) -> Result<(), TrainError> {
        atomic_file::write(&self.path.join(METRICS), lines.as_bytes())
    }
}

/// The line of `metrics.jsonl` of an epoch, with its line break.
///
/// A value that isn't finite has no JSON; it is written as `null`.
pub(crate) fn metrics_line(metrics: &EpochMetrics) -> Result<String, TrainError> {
    let line = serde_json::to_string(metrics).map_err(|error| TrainError::Internal(error.to_string()))?;
    Ok(line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_run_is_refused_and_one_with_other_files_is_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("notes.txt"), "x").expect("a file");
        let run = RunFolder::new(folder.path());
        run.refuse_existing().expect("no run yet");
        run.prepare(&Recipe::default()).expect("prepared");
        let message = run.refuse_existing().expect_err("a run").to_string();
        assert!(message.contains("--resume"), "{message}");
        assert_eq!(fs::read(folder.path().join("notes.txt")).expect("still there"), b"x");
    }
}
