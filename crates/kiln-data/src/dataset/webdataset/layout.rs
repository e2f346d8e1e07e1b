//! Which tar files at a path are shards, and of which split.
//!
//! In: a path. Out: [`Layout`]. Known are
//! - a single tar file;
//! - a folder of shards named after their split (`train-000000.tar`, `imagenet-val-0003.tar`), or not (then all are
//!   one set);
//! - a folder with `train/*.tar` and `val/*.tar`.
//!
//! Shards are sorted by name as bytes. Names of splits are those of image folders. Not done here: opening the shards;
//! patterns such as `{000..123}`, since the folder says it too.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::folder_scan::text_from_path;
use super::super::image_folder::{TRAIN_NAMES, VAL_NAMES};
use super::super::{Findings, layout_error};
use crate::error::DataError;
use crate::pack::UNFINISHED;

/// Endings of shards. The compressed ones are refused when they are opened, with the remedy.
const ENDINGS: [&str; 3] = [".tar", ".tar.gz", ".tgz"];

/// The shards of a data set.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Shards of the training set, or of everything if `val` is empty.
    pub(super) train: Vec<PathBuf>,
    /// Shards of the validation set.
    pub(super) val: Vec<PathBuf>,
}

/// Says whether a file is called like a shard.
pub(super) fn is_named_like_a_shard(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Says whether a folder holds shards: in it and no folders beside them, which would be class folders, or in folders
/// of splits.
pub(super) fn has_shards(folder: &Path) -> bool {
    if folder.join(UNFINISHED).is_file() {
        return true;
    }
    let Ok(listed) = Listing::of(folder) else { return false };
    let has_shards_alone =
        |inner: &PathBuf| Listing::of(inner).is_ok_and(|listed| !listed.shards.is_empty() && listed.folders.is_empty());
    match listed.shards.is_empty() {
        false => listed.folders.iter().all(|inner| split_of(inner).is_some() && has_no_folders(inner)),
        true => listed.folders.iter().any(|inner| split_of(inner) == Some(Split::Train) && has_shards_alone(inner)),
    }
}

fn has_no_folders(folder: &Path) -> bool {
    Listing::of(folder).is_ok_and(|listed| listed.folders.is_empty())
}

/// Finds the shards at `path`, a tar file or a folder for which [`has_shards`] holds.
///
/// # Errors
/// [`DataError::Layout`] without training shards, or for a folder that is still being packed.
pub(super) fn shards(path: &Path, findings: &mut Findings) -> Result<Layout, DataError> {
    if path.is_file() {
        return Ok(Layout { train: vec![path.to_path_buf()], val: Vec::new() });
    }
    if path.join(UNFINISHED).is_file() {
        let remedy = "run the same kiln pack command again: it goes on where it stopped";
        return Err(layout_error(path, "kiln pack has not finished writing it", remedy));
    }
    let Listing { shards, folders } = Listing::of(path)?;
    let mut by_split = Vec::new();
    for shard in shards {
        by_split.push((split_of(&shard), shard));
    }
    for folder in folders {
        let split = split_of(&folder);
        by_split.extend(Listing::of(&folder)?.shards.into_iter().map(|shard| (split, shard)));
    }
    layout(path, by_split, findings)
}

/// A split, the validation sets in the order in which they are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Split {
    Train,
    Val(usize),
}

fn layout(path: &Path, by_split: Vec<(Option<Split>, PathBuf)>, findings: &mut Findings) -> Result<Layout, DataError> {
    let chosen_val = by_split.iter().filter_map(|(split, _)| *split).filter(|&split| split != Split::Train).min();
    let named = by_split.iter().any(|(split, _)| split.is_some());
    let mut found = Layout::default();
    for (split, shard) in by_split {
        match split {
            Some(Split::Train) => found.train.push(shard),
            None if !named => found.train.push(shard),
            Some(_) if split == chosen_val => found.val.push(shard),
            _ => {
                let name = text_from_path(shard.strip_prefix(path).unwrap_or(&shard));
                findings.leave_out(name, "it belongs neither to the training nor to the validation set");
            }
        }
    }
    match found.train.is_empty() {
        true => {
            let remedy = "name the shards after their split: train-000000.tar, val-000000.tar";
            Err(layout_error(path, "none of its shards belongs to a training set", remedy))
        }
        false => Ok(found),
    }
}

/// The split that a word of a file's or folder's name stands for.
fn split_of(path: &Path) -> Option<Split> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphabetic());
    words.find_map(|word| {
        let val = VAL_NAMES.iter().position(|known| *known == word);
        if TRAIN_NAMES.contains(&word) { Some(Split::Train) } else { val.map(Split::Val) }
    })
}

/// Tar files and folders in a folder, each sorted by name; hidden ones are passed over.
struct Listing {
    shards: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Listing {
    fn of(folder: &Path) -> Result<Self, DataError> {
        let failed = |reason| DataError::ReadFolder { path: folder.to_path_buf(), reason };
        let mut listing = Self { shards: Vec::new(), folders: Vec::new() };
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            // The type comes with the list, except for links: a folder may hold a million pictures.
            let (kind, path) = (entry.file_type().map_err(failed)?, entry.path());
            let is_folder = kind.is_dir() || kind.is_symlink() && path.is_dir();
            if is_folder {
                listing.folders.push(path);
            } else if is_named_like_a_shard(&path) && path.is_file() {
                listing.shards.push(path);
            }
        }
        listing.shards.sort();
        listing.folders.sort();
        Ok(listing)
    }
}
