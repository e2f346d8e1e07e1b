//! WebDataset: tar files ("shards") with a picture and a label a sample, read at random by their index.
//!
//! In: a tar file, or a folder of them (`webdataset/layout.rs` says which). Out: [`Splits`]; a single set is split by a
//! seeded fraction. A sample's picture is any format that Kiln decodes, or pixels as PPM, whatever its ending says.
//! `kiln pack` writes such folders.
//!
//! Opening reads the headers and labels of all shards, several at a time: a million samples take a second or two if
//! the disk's cache has them. The index in memory takes 24 bytes a sample, and its name. Source: the WebDataset
//! format, github.com/webdataset/webdataset. Not done here: walking an archive (`archive.rs`), grouping
//! (`samples.rs`), class names (`classes.rs`), writing (`pack.rs`).

mod archive;
mod classes;
mod index_file;
mod layout;
mod ppm;
mod samples;
mod shard;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use tar::Header;

use super::folder_scan::text_from_path;
use super::{Content, Dataset, Findings, Format, OpenOptions, Sample, Splits, subset};
use crate::error::DataError;
pub(crate) use archive::{BLOCK, Member};
use classes::Classes;
pub(crate) use index_file::{first_line, write_line};
pub(crate) use ppm::ppm_from_rgb;
use samples::{Names, Picture, ShardSamples};
use shard::{Fault, MAX_OPEN_FILES, Shard};

/// Tar files, or a folder of them.
pub(super) struct Shards;

impl Format for Shards {
    fn name(&self) -> &'static str {
        "WebDataset"
    }

    fn recognises(&self, path: &Path) -> bool {
        match path.is_dir() {
            true => layout::has_shards(path),
            false => path.is_file() && is_tar(path),
        }
    }

    fn open(&self, path: &Path, options: &OpenOptions, findings: &mut Findings) -> Result<Splits, DataError> {
        let layout = layout::shards(path, findings)?;
        let (train, val) = (read_all(path, &layout.train, findings)?, read_all(path, &layout.val, findings)?);
        let labels = train.iter().flat_map(|(_, samples)| &samples.labels);
        let classes = Classes::define(path, &folders(path, &layout.train), labels)?;
        let train = Arc::new(WebDataset::training_set(train, &classes)?);
        train.remark_on_empty_classes("training", findings);
        if layout.val.is_empty() {
            return subset::split(train.clone(), path, options, |index| train.key(index));
        }
        let val = WebDataset::validation_set(path, val, &classes, options, findings)?;
        val.remark_on_empty_classes("validation", findings);
        Ok(Splits { train, val: Arc::new(val) })
    }
}

/// Samples in shards.
struct WebDataset {
    shards: Vec<Shard>,
    classes: Vec<String>,
    entries: Vec<Entry>,
    names: Names,
}

/// A picture: where it lies, and its class.
#[derive(Clone, Copy)]
struct Entry {
    picture: Picture,
    shard: u32,
    label: u32,
}

impl Dataset for WebDataset {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let Entry { picture, shard, label } = self.entries[index];
        let failed = |reason| DataError::Read { name: self.name(index), sample: index, reason };
        let bytes = self.shards[shard as usize].read(picture.offset, picture.size as usize).map_err(failed)?;
        let content = match ppm::is_ppm(&bytes) {
            true => {
                let damaged = |problem| io::Error::new(io::ErrorKind::InvalidData, format!("damaged PPM: {problem}"));
                Content::Rgb(ppm::rgb_from_ppm(bytes).map_err(|problem| failed(damaged(problem)))?)
            }
            false => Content::Encoded(bytes),
        };
        Ok(Sample { content, label })
    }

    /// `shard.tar/member`, from the folder opened.
    fn name(&self, index: usize) -> String {
        format!("{}/{}", self.shards[self.entries[index].shard as usize].shown, self.names.get(index))
    }

    fn label(&self, index: usize) -> u32 {
        self.entries[index].label
    }
}

impl WebDataset {
    /// All samples; each must have a class.
    fn training_set(read: Vec<(Shard, ShardSamples)>, classes: &Classes) -> Result<Self, DataError> {
        let mut set = Self::new(classes);
        for (shard, samples) in read {
            if let Some(index) = samples.labels.iter().position(|label| classes.index(label).is_none()) {
                let (name, number) = (samples.names.get(index), classes.names.len());
                let problem = format!("{name:?} has the label {}; there are {number} classes", samples.labels[index]);
                let remedy = "correct the list of classes beside the shards";
                return Err(Fault::new(samples.pictures[index].offset - BLOCK, problem, remedy).of(&shard.path));
            }
            set.add(shard, samples, classes);
        }
        Ok(set)
    }

    /// The samples of known classes; the others are refused or dropped.
    fn validation_set(
        path: &Path,
        read: Vec<(Shard, ShardSamples)>,
        classes: &Classes,
        options: &OpenOptions,
        findings: &mut Findings,
    ) -> Result<Self, DataError> {
        let labels = read.iter().flat_map(|(_, samples)| &samples.labels);
        let unknown = labels.filter(|label| classes.index(label).is_none());
        let mut unknown: Vec<_> = unknown.map(ToString::to_string).collect();
        if !unknown.is_empty() {
            unknown.sort_unstable();
            unknown.dedup();
            classes.unknown(path, unknown, options.unusable_classes, findings)?;
        }
        let mut set = Self::new(classes);
        read.into_iter().for_each(|(shard, samples)| set.add(shard, samples, classes));
        Ok(set)
    }

    fn new(classes: &Classes) -> Self {
        let classes = classes.names.clone();
        Self { shards: Vec::new(), classes, entries: Vec::new(), names: Names::default() }
    }

    /// Appends the samples of a shard that have a class.
    fn add(&mut self, mut shard: Shard, samples: ShardSamples, classes: &Classes) {
        let number = self.shards.len();
        if number >= MAX_OPEN_FILES {
            shard.close();
        }
        self.shards.push(shard);
        let ShardSamples { pictures, names, labels } = samples;
        for (index, (picture, label)) in pictures.into_iter().zip(labels).enumerate() {
            if let Some(label) = classes.index(&label) {
                self.entries.push(Entry { picture, shard: number as u32, label });
                self.names.push(names.get(index));
            }
        }
    }

    /// What a sample is known by, whatever folder its shard lies in.
    fn key(&self, index: usize) -> String {
        let shard = &self.shards[self.entries[index].shard as usize];
        let file = shard.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{file}/{}", self.names.get(index))
    }

    fn remark_on_empty_classes(&self, split: &str, findings: &mut Findings) {
        let mut is_there = vec![false; self.classes.len()];
        self.entries.iter().for_each(|entry| is_there[entry.label as usize] = true);
        let mut absent = self.classes.iter().zip(is_there).filter(|(_, there)| !there).map(|(class, _)| class);
        if let Some(first) = absent.next() {
            let more = absent.count();
            let others = if more == 0 { String::new() } else { format!(" and of {more} other classes") };
            findings.remark(format!("the {split} shards have no picture of class {first:?}{others}"));
        }
    }
}

/// Reads the headers and labels of shards, several at a time.
fn read_all(path: &Path, shards: &[PathBuf], findings: &mut Findings) -> Result<Vec<(Shard, ShardSamples)>, DataError> {
    let read: Vec<_> = shards.par_iter().map(|shard| read_one(path, shard)).collect();
    let mut all = Vec::with_capacity(shards.len());
    let mut unused = Vec::new();
    for result in read {
        let (shard, samples, why_unused) = result?;
        unused.extend(why_unused.map(|why| format!("{:?} ({why})", shard.shown)));
        all.push((shard, samples));
    }
    if let Some(first) = unused.first() {
        let (number, of) = (unused.len(), shards.len());
        findings.remark(format!("the .idx of {number} of {of} shards was not used; the first is that of {first}"));
    }
    Ok(all)
}

fn read_one(path: &Path, shard: &Path) -> Result<(Shard, ShardSamples, Option<String>), DataError> {
    let failed = |reason: io::Error| Fault::new(0, reason.to_string(), "check the file").of(shard);
    let file = File::open(shard).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    let (samples, unused) = samples::read(shard, &file, len).map_err(|fault| fault.of(shard))?;
    let below = shard.strip_prefix(path).ok().filter(|below| !below.as_os_str().is_empty());
    let shown = text_from_path(below.unwrap_or(Path::new(shard.file_name().unwrap_or_default())));
    Ok((Shard::new(shard.to_path_buf(), shown, file, len), samples, unused))
}

/// Where a file with the names of classes may lie: in the folder opened, or beside the training shards.
fn folders(path: &Path, train: &[PathBuf]) -> Vec<PathBuf> {
    let beside = train.first().and_then(|shard| shard.parent());
    let mut folders: Vec<_> = [Some(path).filter(|path| path.is_dir()), beside].into_iter().flatten().collect();
    folders.dedup();
    folders.into_iter().map(Path::to_path_buf).collect()
}

/// Says whether a file is a tar archive, by its first header. One that is called so and isn't gets its error when it's
/// opened.
fn is_tar(path: &Path) -> bool {
    if layout::is_named_like_a_shard(path) {
        return true;
    }
    let mut block = [0; BLOCK as usize];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut block));
    read.is_ok() && archive::has_checksum(Header::from_byte_slice(&block))
}

#[cfg(test)]
mod tests;
