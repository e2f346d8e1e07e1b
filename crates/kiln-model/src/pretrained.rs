//! Published weights that fit the networks here: what they are and where to fetch them.
//!
//! In: `weights.toml` beside this crate's manifest, part of the program, or a list of one's own in that form. Out:
//! [`PretrainedList`]. Not done here: fetching (`fetch.rs`).

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Arch, ModelError};

/// Every entry, and what they have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretrainedList {
    /// The publisher's page.
    pub page: String,
    /// What a file's name is appended to: an `https`, `http` or `file` address, or a folder.
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
    /// [`ModelError::WeightsList`] if the built-in file is malformed, which a test rules out.
    pub fn built_in() -> Result<Self, ModelError> {
        Self::parse("weights.toml".as_ref(), include_str!("../weights.toml"))
    }

    /// A list of one's own, in the form of the built-in one.
    ///
    /// # Errors
    /// [`ModelError::ReadFile`], or [`ModelError::WeightsList`] with what is wrong and where.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ModelError::ReadFile { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// The entry called `name`; case doesn't matter.
    ///
    /// # Errors
    /// [`ModelError::UnknownWeights`] with the nearest names, or all.
    pub fn find(&self, name: &str) -> Result<&PretrainedWeights, ModelError> {
        let wanted = name.trim().to_ascii_lowercase();
        let found = self.weights.iter().find(|weights| weights.name.to_ascii_lowercase() == wanted);
        found.ok_or_else(|| ModelError::UnknownWeights { name: name.to_owned(), meant: self.nearest(&wanted) })
    }

    /// Names that begin with `wanted`, else the one that is spelt most alike, else all.
    fn nearest(&self, wanted: &str) -> Vec<String> {
        let names = || self.weights.iter().map(|weights| weights.name.clone());
        let longer: Vec<String> = names().filter(|name| !wanted.is_empty() && name.starts_with(wanted)).collect();
        if !longer.is_empty() {
            return longer;
        }
        // One letter in three may be wrong.
        let alike = names().map(|name| (strsim::levenshtein(wanted, &name), name)).min();
        match alike.filter(|(distance, name)| 3 * distance <= name.len()) {
            Some((_, name)) => vec![name],
            None => names().collect(),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        let wrong = |reason: String| ModelError::WeightsList { path: path.to_owned(), reason };
        let list: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            let line = line.map_or_else(String::new, |line| format!("line {line}: "));
            wrong(format!("{line}{}", error.message()))
        })?;
        match list.weights.iter().find_map(PretrainedWeights::problem) {
            Some(problem) => Err(wrong(problem)),
            None => Ok(list),
        }
    }
}

impl PretrainedWeights {
    /// What the form of the file can't rule out.
    fn problem(&self) -> Option<String> {
        let Self { name, file, sha256_begins, .. } = self;
        let digits = sha256_begins.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !digits || !(8..=64).contains(&sha256_begins.len()) {
            return Some(format!("{name}: sha256_begins has to be 8 to 64 of the digits 0-9 and a-f"));
        }
        let is_plain = !file.is_empty() && !file.starts_with('.') && !file.contains(['/', '\\', ':']);
        (!is_plain).then(|| format!("{name}: file has to be a file's name, without a folder"))
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
            assert_eq!(weights.file, format!("{}-{}.pth", weights.arch, weights.sha256_begins), "{weights:?}");
            assert!(
                (60.0..100.0).contains(&weights.top1) && weights.name.starts_with(weights.arch.name()),
                "{weights:?}"
            );
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_those_that_may_be_meant() {
        let list = PretrainedList::built_in().expect("well-formed");
        let answer = |name| list.find(name).expect_err("no such weights").to_string();
        assert_eq!(list.find("ResNet50-V2").expect("case is forgiven").file, "resnet50-11ad3fa6.pth");
        assert!(answer("resnet50").contains("resnet50-v1 or resnet50-v2"), "{}", answer("resnet50"));
        assert!(answer("resnt34").contains("did you mean resnet34?"), "{}", answer("resnt34"));
        assert!(answer("vgg16").contains("resnet18") && answer("vgg16").contains("wide_resnet101_2-v2"));
    }

    #[test]
    fn a_list_with_a_mistake_is_refused_with_its_place() {
        let good = toml::to_string(&PretrainedList::built_in().expect("well-formed")).expect("TOML");
        for (from, to, part) in [
            ("page =", "pag =", "line 1"),
            ("sha256_begins = \"f37072fd\"", "sha256_begins = \"f37\"", "8 to 64"),
            ("file = \"resnet18-f37072fd.pth\"", "file = \"../resnet18.pth\"", "without a folder"),
            ("arch = \"resnet18\"", "arch = \"resnet19\"", "resnet18"),
        ] {
            assert!(good.contains(from), "{from} in {good}");
            let error = PretrainedList::parse("my.toml".as_ref(), &good.replacen(from, to, 1)).expect_err(to);
            let text = error.to_string();
            assert!(text.contains("my.toml") && text.contains(part), "{text}");
        }
    }
}
