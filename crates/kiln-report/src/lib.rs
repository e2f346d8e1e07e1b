//! What a training run did, as one HTML page, as Markdown, and as charts.
//!
//! In: a run folder (`metrics.jsonl`, `recipe.toml`, `starts.jsonl`, and `evaluation/` if it was evaluated). Out: [`Report`],
//! whose page needs no network, script or other file. What isn't on record is left out.
//!
//! ```text
//! run.rs         reads the record
//! summary.rs     one run's page        markdown.rs    the same as text
//! comparison.rs  several runs' page
//! evaluation.rs  `kiln_train::Evaluation` on disk, and as part of a page
//! chart.rs       curves, bars, confusion matrix, calibration as SVG (plotters); ink.rs their colours
//! page.rs        the HTML around it all; photo.rs small JPEGs within it
//! ```
//!
//! Not here: training and evaluating, which are `kiln-train`'s; it stays free of what only pages need.

mod chart;
mod comparison;
mod error;
mod evaluation;
mod ink;
mod markdown;
mod page;
mod photo;
mod run;
mod summary;
mod write;

pub use chart::{Bar, Figure, Line, LineChart, bar_chart, calibration_chart, confusion_chart, line_chart};
pub use comparison::compare;
pub use error::ReportError;
pub use evaluation::{evaluation_folder, write_evaluation};
pub use ink::Ink;
pub use summary::{Report, ReportConfig, report};
