//! The folder that is packed into: one packing at a time, and never another one's files.
//!
//! `pack-unfinished.json` is there from the first moment, is replaced after each shard, and becomes `pack.json` by one
//! rename when all else is on the disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::report::{PackPlan, PackReport, PackedShard, hex};
use crate::error::DataError;

/// The report so far. A folder that has it isn't a whole data set.
pub(crate) const UNFINISHED: &str = "pack-unfinished.json";

/// The report.
const FINISHED: &str = "pack.json";

/// Held while packing, gone afterwards.
const LOCK: &str = ".pack-lock";

const CLASSES: &str = "classes.txt";
const CHECKSUMS: &str = "SHA256SUMS";

/// A folder that this call alone packs into.
pub(super) struct Folder {
    path: PathBuf,
    finished: bool,
    /// Locked until it is dropped or the process ends.
    _lock: File,
}

impl Folder {
    /// Makes the folder if need be and locks it.
    pub(super) fn claim(path: &Path) -> Result<Self, DataError> {
        fs::create_dir_all(path).map_err(|reason| cannot_write(path, &reason))?;
        let is_ours = [UNFINISHED, FINISHED].iter().any(|report| path.join(report).is_file());
        if !is_ours {
            check_empty(path)?;
        }
        let lock = File::create(path.join(LOCK)).map_err(|reason| cannot_write(&path.join(LOCK), &reason))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(refused(
                    path,
                    "another kiln pack is writing it",
                    "wait for it to end, or choose another folder",
                ));
            }
            // Some network file systems have no locks.
            Err(fs::TryLockError::Error(error)) => tracing::warn!(%error, ?path, "cannot lock the folder"),
        }
        Ok(Self { path: path.to_path_buf(), finished: false, _lock: lock })
    }

    /// What an interrupted call has finished, or nothing yet. All its shards are there.
    pub(super) fn report_for(&mut self, plan: &PackPlan) -> Result<PackReport, DataError> {
        let new = PackReport { plan: plan.clone(), train: Vec::new(), val: Vec::new() };
        let Some((mut report, finished)) = self.saved()? else {
            self.save(&new)?;
            return Ok(new);
        };
        if report.plan != *plan {
            let what = if report.plan.has_options_of(plan) { "of other data" } else { "with other options" };
            let problem = format!("it holds a packed data set made {what}");
            return Err(refused(&self.path, &problem, "choose another folder, or delete it"));
        }
        let there = |shards: &[PackedShard]| shards.iter().take_while(|shard| self.has(shard)).count();
        let (num_train, num_val) = (there(&report.train), there(&report.val));
        self.finished = finished && num_train == report.train.len() && num_val == report.val.len();
        if num_train < report.train.len() {
            report.val.clear();
        }
        report.train.truncate(num_train);
        report.val.truncate(num_val.min(report.val.len()));
        if finished && !self.finished {
            self.reopen(&report)?;
        }
        Ok(report)
    }

    /// Says whether everything was there already.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Where a file is written before it has its name.
    pub(super) fn aside(&self, name: &str) -> PathBuf {
        self.path.join(format!(".{name}.tmp"))
    }

    /// Gives a synced file its name.
    pub(super) fn rename(&self, aside: &Path, name: &str) -> Result<(), DataError> {
        let path = self.path.join(name);
        let renamed = fs::rename(aside, &path).and_then(|()| sync_folder(&self.path));
        renamed.map_err(|reason| cannot_write(&path, &reason))
    }

    /// Writes a small file: aside, synced, renamed.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<(), DataError> {
        let aside = self.aside(name);
        let written = File::create(&aside).and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        });
        written.map_err(|reason| {
            let _ = fs::remove_file(&aside);
            cannot_write(&self.path.join(name), &reason)
        })?;
        self.rename(&aside, name)
    }

    /// Saves the report so far.
    pub(super) fn save(&self, report: &PackReport) -> Result<(), DataError> {
        self.write(UNFINISHED, json(report).as_bytes())
    }

    /// Writes what stands beside the shards and declares the folder whole.
    pub(super) fn finish(self, report: &PackReport, classes: &str) -> Result<(), DataError> {
        self.write(CLASSES, classes.as_bytes())?;
        let mut sums = format!("{}  {CLASSES}\n", hex(&Sha256::digest(classes)));
        for PackedShard { name, sha256, index_sha256, .. } in report.train.iter().chain(&report.val) {
            let index = Path::new(name).with_extension("idx");
            sums += &format!("{sha256}  {name}\n{index_sha256}  {}\n", index.display());
        }
        self.write(CHECKSUMS, sums.as_bytes())?;
        self.save(report)?;
        self.rename(&self.path.join(UNFINISHED), FINISHED)
    }

    /// The report that is there, and whether it is of a whole data set.
    fn saved(&self) -> Result<Option<(PackReport, bool)>, DataError> {
        for (name, finished) in [(UNFINISHED, false), (FINISHED, true)] {
            let path = self.path.join(name);
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(refused(&path, &error.to_string(), "choose another folder, or delete it")),
            };
            let damaged = |error: serde_json::Error| {
                refused(&path, &format!("it is no report of kiln pack: {error}"), "choose another folder, or delete it")
            };
            return serde_json::from_str(&text).map_err(damaged).map(|report| Some((report, finished)));
        }
        Ok(None)
    }

    /// A shard of a whole data set is missing: it isn't whole any more.
    fn reopen(&self, report: &PackReport) -> Result<(), DataError> {
        self.save(report)?;
        let path = self.path.join(FINISHED);
        fs::remove_file(&path).map_err(|reason| cannot_write(&path, &reason))
    }

    fn has(&self, shard: &PackedShard) -> bool {
        let path = self.path.join(&shard.name);
        let size = |path: &Path| fs::metadata(path).map(|metadata| metadata.len()).ok();
        size(&path) == Some(shard.bytes) && size(&path.with_extension("idx")).is_some()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // One that stays behind does no harm.
        let _ = fs::remove_file(self.path.join(LOCK));
    }
}

fn json(report: &PackReport) -> String {
    serde_json::to_string_pretty(report).expect("numbers and texts are JSON") + "\n"
}

/// A folder without a report must be empty: nobody's files are mixed with a data set.
fn check_empty(path: &Path) -> Result<(), DataError> {
    let first_report = format!(".{UNFINISHED}.tmp");
    let entries = fs::read_dir(path).map_err(|reason| cannot_write(path, &reason))?;
    let mut others = entries.flatten().filter(|entry| entry.file_name() != LOCK && entry.file_name() != *first_report);
    match others.next() {
        None => Ok(()),
        Some(entry) => {
            let problem = format!("it holds {:?}, which is not of kiln pack", entry.file_name());
            Err(refused(path, &problem, "choose a new folder or an empty one"))
        }
    }
}

/// On Linux a rename is on the disk when its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

fn refused(path: &Path, problem: &str, remedy: &str) -> DataError {
    DataError::PackFolder { path: path.to_path_buf(), problem: problem.into(), remedy: remedy.into() }
}

/// A write failed; what is finished stays.
pub(super) fn cannot_write(path: &Path, reason: &io::Error) -> DataError {
    let remedy = match reason.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "make room and run the same command again: it goes on after the last finished shard"
        }
        _ => "choose another folder, or set this right and run the same command again",
    };
    refused(path, &reason.to_string(), remedy)
}
