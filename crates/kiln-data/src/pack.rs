//! Packing: any data set to WebDataset shards of smaller pictures, which read faster and travel better.
//!
//! In: an opened data set and a folder. Out, in the folder:
//!
//! | file | what |
//! | --- | --- |
//! | `train-000000.tar`, ..., `val-000000.tar`, ... | the samples, in an order drawn from the seed |
//! | `train-000000.idx`, ... | where each member lies, as DALI's `wds2idx` writes it |
//! | `classes.txt` | a name a line; labels are indices into it, from 0 |
//! | `SHA256SUMS` | for `sha256sum -c` |
//! | `pack.json` | the report: options, and of each shard what was kept, encoded and left out, and why |
//!
//! A sample is `<position>.cls`, the label as text, and `<position>.jpg` or `.ppm` (`pack/picture.rs`); the position
//! is that in the drawn order, so damaged files leave gaps. Nothing in the files depends on time, machine or number of
//! threads.
//!
//! **Killed at any moment**, the same call goes on after the last finished shard and ends with the same bytes. A file
//! appears under its name when it is whole and on the disk (written aside, synced, renamed), and until all are,
//! `pack-unfinished.json` stands in the place of `pack.json`: readers refuse such a folder. That the data set is the
//! same one is told by the names and labels of its samples; files that changed under the same name in between aren't
//! noticed.
//!
//! **Memory**: pictures are made by rayon in chunks, two at a time, one being written; a chunk takes 64 MiB of what is
//! written, plus a decoded picture a thread. Not done here: colour profiles, which no reader of ours applies, aren't
//! carried over; kept files keep theirs.

mod folder;
mod picture;
mod report;
mod shard;

use std::path::Path;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, Opened};
use crate::decode::DecodeOptions;
use crate::error::DataError;
use crate::loader::{OnError, Skipped};
use crate::order::EpochOrder;
use folder::Folder;
pub(crate) use folder::UNFINISHED;
use picture::{Fate, Packed};
pub use report::{PackPlan, PackReport, PackedShard};
use shard::ShardWriter;

/// Bytes of packed pictures that may wait in memory, twice.
const CHUNK_BYTES: u64 = 64 << 20;

/// How to pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackConfig {
    /// Most pixels on the shorter side; larger pictures are made smaller, none larger. Default 400: room for
    /// crops of 224 pixels.
    pub short_side: u32,
    /// What a picture is stored as. Default: JPEG of quality 90.
    pub form: PackForm,
    /// A shard ends before the sample that would make it larger than this many bytes. Default 256 MiB.
    pub shard_bytes: u64,
    /// Determines the order of the samples. Default 0.
    pub seed: u64,
    /// What to do about a file that isn't a usable picture. Default: leave it out and report it.
    pub on_error: OnError,
    /// What a file may cost.
    pub decode: DecodeOptions,
}

impl Default for PackConfig {
    fn default() -> Self {
        Self {
            short_side: 400,
            form: PackForm::Jpeg { quality: 90 },
            shard_bytes: 256 << 20,
            seed: 0,
            on_error: OnError::Skip,
            decode: DecodeOptions::default(),
        }
    }
}

/// What a picture is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackForm {
    /// JPEG. Files that are small enough JPEGs already keep their bytes.
    Jpeg {
        /// 1–100, as in libjpeg.
        quality: u8,
    },
    /// RGB bytes, as PPM: no decoding, ten times the size.
    Raw,
}

/// How far packing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackProgress {
    /// Samples done, of both splits.
    pub done: usize,
    /// Samples in all.
    pub total: usize,
    /// Those that were done before: an earlier call was interrupted.
    pub resumed: usize,
}

/// Packs a data set into `folder`, or goes on with it; says what is there in the end.
///
/// `progress` is called now and then, from any thread.
///
/// # Errors
/// [`DataError::Config`] for options out of range; [`DataError::PackFolder`] if the folder holds something else, is in
/// use, or can't be written, as when the disk is full: what is finished stays, and the same call goes on from there;
/// [`DataError::NothingLeft`] if no training picture is usable; [`DataError::Read`], [`DataError::Decode`] and
/// [`DataError::Encode`] with [`OnError::Fail`].
pub fn pack(
    opened: &Opened,
    folder: &Path,
    config: &PackConfig,
    progress: &mut (dyn FnMut(PackProgress) + Send),
) -> Result<PackReport, DataError> {
    config.validate()?;
    let splits = &opened.splits;
    let class_list = class_list(splits.train.classes(), folder)?;
    let mut folder = Folder::claim(folder)?;
    let mut report = folder.report_for(&PackPlan::new(opened, config))?;
    if folder.is_finished() {
        return Ok(report);
    }
    let total = splits.train.len() + splits.val.len();
    let resumed = end_position(&report.train) + end_position(&report.val);
    progress(PackProgress { done: resumed, total, resumed });
    for (split, dataset) in [(Split::Train, &*splits.train), (Split::Val, &*splits.val)] {
        let before = if split == Split::Train { 0 } else { splits.train.len() };
        let mut tell = |position: usize| progress(PackProgress { done: before + position, total, resumed });
        Packing { split, dataset, config, folder: &folder }.run(&mut report, &mut tell)?;
    }
    folder.finish(&report, &class_list)?;
    Ok(report)
}

impl PackConfig {
    fn validate(&self) -> Result<(), DataError> {
        let mut problems = Vec::new();
        if self.short_side == 0 {
            problems.push("short_side is 0".to_owned());
        }
        if self.shard_bytes == 0 {
            problems.push("shard_bytes is 0".to_owned());
        }
        if let PackForm::Jpeg { quality } = self.form
            && !(1..=100).contains(&quality)
        {
            problems.push(format!("quality is {quality}; it must lie between 1 and 100"));
        }
        if problems.is_empty() { Ok(()) } else { Err(DataError::Config { what: "packing options", problems }) }
    }
}

/// The content of `classes.txt`.
fn class_list(classes: &[String], folder: &Path) -> Result<String, DataError> {
    match classes.iter().find(|name| name.contains(['\n', '\r']) || name.trim().is_empty()) {
        None => Ok(classes.iter().flat_map(|name| [name.as_str(), "\n"]).collect()),
        Some(name) => Err(DataError::PackFolder {
            path: folder.to_path_buf(),
            problem: format!("the class name {name:?} can't stand on a line of classes.txt"),
            remedy: "rename the class".into(),
        }),
    }
}

fn end_position(shards: &[PackedShard]) -> usize {
    shards.last().map_or(0, |shard| shard.end_position)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    Train,
    Val,
}

impl Split {
    fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
        }
    }

    fn shards(self, report: &mut PackReport) -> &mut Vec<PackedShard> {
        match self {
            Self::Train => &mut report.train,
            Self::Val => &mut report.val,
        }
    }

    /// Training and validation set are shuffled apart.
    fn order(self, num_samples: usize, seed: u64) -> EpochOrder {
        EpochOrder::shuffled(num_samples, seed, self as u32)
    }
}

/// The packing of one split.
struct Packing<'a> {
    split: Split,
    dataset: &'a dyn Dataset,
    config: &'a PackConfig,
    folder: &'a Folder,
}

/// What became of one position.
type Outcome = Result<Packed, DataError>;

impl Packing<'_> {
    /// Writes the shards that are missing.
    fn run(&self, report: &mut PackReport, tell: &mut (dyn FnMut(usize) + Send)) -> Result<(), DataError> {
        let order = self.split.order(self.dataset.len(), self.config.seed);
        let (mut position, mut chunk_len) = (end_position(self.split.shards(report)), rayon::current_num_threads());
        let mut made = self.make(&order, position, chunk_len);
        let mut writer = None;
        while !made.is_empty() {
            let next = position + made.len();
            chunk_len = chunk_len_after(&made);
            let write = || self.write(std::mem::take(&mut made), position, &order, &mut writer, report, tell);
            let (written, upcoming) = rayon::join(write, || self.make(&order, next, chunk_len));
            written?;
            (position, made) = (next, upcoming);
        }
        match writer {
            None => Ok(()),
            Some(writer) if writer.has_samples() => self.finish(writer, report),
            Some(writer) => Err(nothing_left(&writer.abandon())),
        }
    }

    /// Makes the pictures of a chunk, on all cores.
    fn make(&self, order: &EpochOrder, from: usize, len: usize) -> Vec<Outcome> {
        let end = self.dataset.len().min(from + len);
        (from..end)
            .into_par_iter()
            .map(|position| picture::pack(self.dataset, order.sample(position), self.config))
            .collect()
    }

    /// Writes a chunk that begins at `from`.
    fn write(
        &self,
        chunk: Vec<Outcome>,
        from: usize,
        order: &EpochOrder,
        writer: &mut Option<ShardWriter>,
        report: &mut PackReport,
        tell: &mut (dyn FnMut(usize) + Send),
    ) -> Result<(), DataError> {
        for (position, outcome) in (from..).zip(chunk) {
            let sample = order.sample(position);
            match outcome {
                Ok(packed) => {
                    let full = |writer: &ShardWriter| writer.bytes_with(&packed) > self.config.shard_bytes;
                    if let Some(full) = writer.take_if(|writer| writer.has_samples() && full(writer)) {
                        self.finish(full, report)?;
                    }
                    self.current(writer, report)?.append(position, self.dataset.label(sample), &packed)?;
                }
                Err(error) if self.config.on_error == OnError::Fail || !error.is_about_one_file() => return Err(error),
                Err(error) => {
                    let skipped = Skipped { name: self.dataset.name(sample), reason: error.reason_alone() };
                    self.current(writer, report)?.leave_out(position, skipped);
                }
            }
            tell(position + 1);
        }
        Ok(())
    }

    /// The shard under way, begun if need be.
    fn current<'w>(
        &self,
        writer: &'w mut Option<ShardWriter>,
        report: &mut PackReport,
    ) -> Result<&'w mut ShardWriter, DataError> {
        if writer.is_none() {
            let number = self.split.shards(report).len();
            *writer = Some(ShardWriter::begin(self.folder, &format!("{}-{number:06}", self.split.name()))?);
        }
        Ok(writer.as_mut().expect("begun above"))
    }

    fn finish(&self, writer: ShardWriter, report: &mut PackReport) -> Result<(), DataError> {
        let shard = writer.finish(self.folder)?;
        self.split.shards(report).push(shard);
        self.folder.save(report)
    }
}

/// How many samples like these make [`CHUNK_BYTES`].
fn chunk_len_after(made: &[Outcome]) -> usize {
    const MOST: usize = 1024;
    let bytes: usize = made.iter().flatten().map(|packed| packed.bytes.len()).sum();
    let average = (bytes / made.len().max(1)).max(1);
    (CHUNK_BYTES as usize / average).min(MOST).max(rayon::current_num_threads())
}

fn nothing_left(skipped: &[Skipped]) -> DataError {
    let first = skipped.first().map_or(String::new(), |first| format!("{:?} ({})", first.name, first.reason));
    DataError::NothingLeft { num_skipped: skipped.len(), first }
}

#[cfg(test)]
mod tests;
