//! Published weights that fit the networks here: what they are and where to fetch them.
//!
//! In: `weights.toml` beside this crate's manifest, part of the program. Out: [`PretrainedList`].
//! Not done: fetching. A file is the person's own, under its publisher's terms; `--weights` takes it.

use serde::{Deserialize, Serialize};

use crate::{Arch, ModelError};

/// Every entry, and what they have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretrainedList {
    /// The publisher's page.
    pub page: String,
    /// What a file's name is appended to.
    pub folder: String,
    /// Under which terms.
    pub licence: String,
    /// Mean of each channel on the scale 0–1 that the networks expect to be subtracted.
    pub mean: [f32; 3],
    /// Standard deviation of each channel on the scale 0–1 that the networks expect to be divided by.
    pub std: [f32; 3],
    /// Side of an evaluation image in pixels.
    pub input_size: usize,
    /// The files.
    pub weights: Vec<PretrainedWeights>,
}

/// One file of weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretrainedWeights {
    /// Its name here.
    pub name: String,
    /// The network it is for.
    pub arch: Arch,
    /// The publisher's file.
    pub file: String,
    /// The first digits of its SHA-256, as published.
    pub sha256_begins: String,
    /// Its top-1 accuracy on ImageNet's validation images, in percent, as published.
    pub top1: f64,
    /// Pixels of the shorter side before the centre is cropped.
    pub resize: usize,
}

impl PretrainedList {
    /// The list this version knows.
    ///
    /// # Errors
    /// [`ModelError::Metadata`] if the built-in file is malformed, which a test rules out.
    pub fn built_in() -> Result<Self, ModelError> {
        toml::from_str(include_str!("../weights.toml"))
            .map_err(|error| ModelError::Metadata { reason: error.message().to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_built_in_list_is_well_formed_and_names_each_file_once() {
        let list = PretrainedList::built_in().expect("well-formed");
        let names: HashSet<_> = list.weights.iter().map(|weights| &weights.name).collect();
        let files: HashSet<_> = list.weights.iter().map(|weights| &weights.file).collect();
        assert_eq!((names.len(), files.len()), (list.weights.len(), list.weights.len()));
        for weights in &list.weights {
            let digits = weights.sha256_begins.chars().all(|c| c.is_ascii_hexdigit());
            assert!(digits && weights.file == format!("{}-{}.pth", weights.arch, weights.sha256_begins), "{weights:?}");
            assert!(
                (60.0..100.0).contains(&weights.top1) && weights.name.starts_with(weights.arch.name()),
                "{weights:?}"
            );
        }
    }
}
