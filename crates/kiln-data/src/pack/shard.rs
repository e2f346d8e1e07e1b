//! Writes one shard and its index: aside, then synced, then under their names.
//!
//! A tar file of ustar headers that depend on names and sizes alone (time 0, user 0), a sample's label before its
//! picture, so that one read of a page brings the label and both headers. Checksums are taken of what is written.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use super::folder::{Folder, cannot_write};
use super::report::{PackedShard, hex};
use super::{Fate, Packed};
use crate::dataset::webdataset::{BLOCK, Member, first_line, write_line};
use crate::error::DataError;
use crate::loader::Skipped;

/// A shard under way.
pub(super) struct ShardWriter {
    stem: String,
    aside: PathBuf,
    file: BufWriter<File>,
    hash: Sha256,
    lines: String,
    shard: PackedShard,
}

impl ShardWriter {
    /// Begins `<stem>.tar`.
    pub(super) fn begin(folder: &Folder, stem: &str) -> Result<Self, DataError> {
        let name = format!("{stem}.tar");
        let aside = folder.aside(&name);
        let file = File::create(&aside).map_err(|reason| cannot_write(&aside, &reason))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        let shard = PackedShard { name, ..PackedShard::default() };
        Ok(Self { stem: stem.into(), aside, file, hash: Sha256::new(), lines: String::new(), shard })
    }

    pub(super) fn has_samples(&self) -> bool {
        self.shard.samples() > 0
    }

    /// What the finished shard would have with this sample.
    pub(super) fn bytes_with(&self, packed: &Packed) -> u64 {
        let label = 2 * BLOCK;
        let end_mark = 2 * BLOCK;
        self.shard.bytes + label + BLOCK + (packed.bytes.len() as u64).next_multiple_of(BLOCK) + end_mark
    }

    /// Appends a sample.
    pub(super) fn append(&mut self, position: usize, label: u32, packed: &Packed) -> Result<(), DataError> {
        let label = self.member(format!("{position:08}.cls"), label.to_string().as_bytes())?;
        let picture = self.member(format!("{position:08}.{}", packed.ending), &packed.bytes)?;
        write_line(&mut self.lines, &[("cls", label), (packed.ending, picture)]);
        let shard = &mut self.shard;
        match packed.fate {
            Fate::Kept => shard.kept += 1,
            Fate::Encoded => shard.encoded += 1,
        }
        shard.source_bytes += packed.source_bytes;
        shard.picture_bytes += packed.bytes.len() as u64;
        shard.end_position = position + 1;
        Ok(())
    }

    /// Notes a sample that isn't packed.
    pub(super) fn leave_out(&mut self, position: usize, skipped: Skipped) {
        self.shard.skipped.push(skipped);
        self.shard.end_position = position + 1;
    }

    /// Removes a shard without samples, and says what was left out.
    pub(super) fn abandon(self) -> Vec<Skipped> {
        // What is left behind has no final name.
        let _ = std::fs::remove_file(&self.aside);
        self.shard.skipped
    }

    /// Gives the shard and its index their names.
    pub(super) fn finish(mut self, folder: &Folder) -> Result<PackedShard, DataError> {
        self.write(&[0; 2 * BLOCK as usize])?;
        let Self { stem, aside, file, hash, lines, mut shard } = self;
        let synced = file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        synced.map_err(|reason| discard(&aside, &reason))?;
        let index = first_line(shard.samples()) + &lines;
        shard.sha256 = hex(&hash.finalize());
        shard.index_sha256 = hex(&Sha256::digest(&index));
        folder.rename(&aside, &shard.name)?;
        // After the shard, so that it isn't older.
        folder.write(&format!("{stem}.idx"), index.as_bytes())?;
        Ok(shard)
    }

    fn member(&mut self, name: String, content: &[u8]) -> Result<Member, DataError> {
        let mut header = Header::new_ustar();
        header.set_path(&name).map_err(|reason| discard(&self.aside, &reason))?;
        header.set_entry_type(EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        for set in [Header::set_uid, Header::set_gid, Header::set_mtime] {
            set(&mut header, 0);
        }
        header.set_cksum();
        self.write(header.as_bytes())?;
        let (offset, size) = (self.shard.bytes, content.len() as u64);
        self.write(content)?;
        let padding = size.next_multiple_of(BLOCK) - size;
        self.write(&[0; BLOCK as usize][..padding as usize])?;
        Ok(Member { name, offset, size })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.hash.update(bytes);
        self.shard.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|reason| discard(&self.aside, &reason))
    }
}

/// Removes half a file, which gives a full disk its room back, and makes the error.
fn discard(aside: &PathBuf, reason: &io::Error) -> DataError {
    // The error that matters is the first one.
    let _ = std::fs::remove_file(aside);
    cannot_write(aside, reason)
}
