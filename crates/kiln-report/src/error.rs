//! Why a report can't be made.

use std::io;
use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// There is no run where the caller pointed.
    #[error("{} is no run folder: neither metrics.jsonl nor recipe.toml is in it; give the folder that kiln train wrote", path.display())]
    NoRun {
        /// Where the caller pointed.
        path: PathBuf,
    },
    /// A file can't be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted: "read", "write", "create".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file of the run isn't what it should be.
    #[error("cannot read {}: {problem}; make it anew with kiln eval", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A chart can't be drawn.
    #[error("cannot draw the chart {title:?}: {problem}")]
    Chart {
        /// Which.
        title: String,
        /// What is wrong.
        problem: String,
    },
    /// The record of the run can't be read.
    #[error(transparent)]
    Train(#[from] kiln_train::TrainError),
}
