//! Where a run begins: anew, or at a checkpoint.
//!
//! In: what the person asked for and what the output folder holds. Out: the checkpoint to load, if any, and what to tell
//! about it. Whatever would lose an earlier run's results, or start from nothing without saying so, is an error.

use crate::checkpoint::{Checkpoint, Checkpoints, Found, ResumeFrom};
use crate::error::TrainError;
use crate::recipe::Recipe;
use crate::report::Resumed;
use crate::run_folder::RunFolder;
use kiln_model::ResNetConfig;
use std::path::Path;

/// What a checkpoint must agree with.
pub(crate) struct Expected<'a> {
    pub(crate) recipe: &'a Recipe,
    pub(crate) classes: &'a [String],
    pub(crate) model: &'a ResNetConfig,
}

/// Finds the checkpoint to begin from and readies the output folder for going on.
///
/// Checkpoints newer than the one used are renamed, damaged ones among them; the best model is written again if its copy
/// isn't what it should be.
pub(crate) fn origin(
    from: Option<&ResumeFrom>,
    folder: &RunFolder,
    expected: &Expected<'_>,
) -> Result<(Option<Found>, Option<Resumed>), TrainError> {
    let checkpoints = folder.checkpoints();
    let found = match from {
        None => {
            folder.refuse_existing()?;
            return Ok((None, None));
        }
        Some(ResumeFrom::Auto) => checkpoints.newest()?,
        Some(ResumeFrom::Path(path)) => Some(find(path)?),
    };
    let Some(mut found) = found else {
        return Ok((None, folder.holds_run().then(Resumed::at_the_beginning)));
    };
    found.checkpoint.check(&found.path, expected.classes, expected.model)?;
    let mut damaged = found.damaged.clone();
    let state = &mut found.checkpoint.state;
    if checkpoints.contains(&found.path) {
        checkpoints.set_aside_after(state.position())?;
        damaged.extend(checkpoints.repair_best(state.best)?);
    } else {
        // Another run's checkpoint: this folder must not hold a run, and has no model of that run's best epoch.
        folder.refuse_existing()?;
        state.best = None;
    }
    let resumed = Resumed {
        checkpoint: Some(found.path.clone()),
        num_epochs_done: state.num_epochs_done,
        num_batches_done: state.position().batches,
        damaged,
        changed: expected.recipe.differences(&state.recipe),
    };
    for damaged in &resumed.damaged {
        tracing::info!(%damaged, "damaged");
    }
    for change in &resumed.changed {
        tracing::info!(%change, "the recipe changed since the checkpoint");
    }
    Ok((Some(found), Some(resumed)))
}

/// The checkpoint at `path`, or the newest usable one of the run or checkpoint folder at `path`.
fn find(path: &Path) -> Result<Found, TrainError> {
    if Checkpoint::is_at(path) {
        let damaged = |found| TrainError::AllDamaged { path: path.to_owned(), damaged: vec![found] };
        let checkpoint = Checkpoint::read(path).map_err(damaged)?;
        return Ok(Found { path: path.to_owned(), checkpoint, damaged: Vec::new() });
    }
    for checkpoints in [RunFolder::new(path).checkpoints(), Checkpoints::new(path.to_owned())] {
        if let Some(found) = checkpoints.newest()? {
            return Ok(found);
        }
    }
    Err(TrainError::NoCheckpoint { path: path.to_owned() })
}

impl Resumed {
    /// An earlier run was ended before its first checkpoint.
    fn at_the_beginning() -> Self {
        Self { checkpoint: None, num_epochs_done: 0, num_batches_done: 0, damaged: Vec::new(), changed: Vec::new() }
    }
}
