//! The `.idx` file beside a shard, in the form that DALI's `wds2idx` writes: where each member of each sample lies.
//!
//! ```text
//! v1.2 2
//! cls 512 1 00000000.cls jpg 1536 51342 00000000.jpg
//! cls 53760 1 00000001.cls jpg 54784 48013 00000001.jpg
//! ```
//!
//! A line is a sample; of each member it has the ending, the byte its content begins at, its size and its name.
//! Source: tools/wds2idx.py of DALI. Names with white space can't be written in this form.
//!
//! An index is used if it isn't older than its shard and nothing in it contradicts the shard: members lie one after
//! another within the file, the last is followed by the end mark, and the header in front of everything but pictures
//! is the one the index describes, so that no sample disappears. Headers of pictures aren't read: that is what the
//! index saves. Otherwise it counts for nothing: the shard itself is read, and a remark says so.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::archive::{BLOCK, Member, Members, check_end};
use super::samples::{is_picture, split_name};
use super::shard::Window;

/// Versions with the names of members, which we need.
const VERSION: &str = "v1.2";

/// Longest line; a sample of a few members takes a hundred bytes.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Appends the line of one sample: the ending, offset, size and name of each member.
pub(crate) fn write_line(lines: &mut String, members: &[(&str, Member)]) {
    for (index, (ending, Member { name, offset, size })) in members.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        write!(lines, "{space}{ending} {offset} {size} {name}").expect("a String takes all that is written");
    }
    lines.push('\n');
}

/// The first line of an index of so many samples.
pub(crate) fn first_line(num_samples: usize) -> String {
    format!("{VERSION} {num_samples}\n")
}

/// The members that an index lists, in the order of the shard.
pub(super) struct IndexFile {
    lines: BufReader<File>,
    num_lines_left: u64,
    line: String,
    /// How much of `line` is read.
    read: usize,
    /// Where the last member ended.
    end: u64,
}

impl IndexFile {
    /// Opens the index of `shard` if there is one.
    ///
    /// # Errors
    /// Why it can't be used.
    pub(super) fn beside(shard: &Path) -> Result<Option<Self>, String> {
        let path = shard.with_extension("idx");
        let Ok(file) = File::open(&path) else { return Ok(None) };
        let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        if modified(&path) < modified(shard) {
            return Err("it is older than the shard".into());
        }
        let mut index = Self { lines: BufReader::new(file), num_lines_left: 1, line: String::new(), read: 0, end: 0 };
        index.next_line()?;
        let num_samples = index.line.trim_end().strip_prefix(VERSION).and_then(|count| count.trim().parse().ok());
        index.num_lines_left = num_samples.ok_or_else(|| format!("it does not begin with {VERSION} and a number"))?;
        index.read = index.line.len();
        Ok(Some(index))
    }

    /// The next member; `None` after the last one of the last sample.
    ///
    /// # Errors
    /// What contradicts the shard.
    pub(super) fn next(&mut self, window: &mut Window<'_>) -> Result<Option<Member>, String> {
        while self.line[self.read..].trim().is_empty() {
            if self.num_lines_left == 0 {
                self.check_end(window)?;
                return Ok(None);
            }
            self.next_line()?;
        }
        let member = self.member().ok_or_else(|| format!("this is no sample: {:?}", abridged(&self.line)))?;
        let within = member.size <= window.len() && member.offset <= window.len() - member.size;
        if !within || member.offset % BLOCK != 0 || member.header_offset() < self.end || member.offset == 0 {
            return Err(format!("{:?} can't lie at byte {}", abridged(&member.name), member.offset));
        }
        self.check_header(&member, window)?;
        self.end = member.end();
        Ok(Some(member))
    }

    /// Compares what the index says of a member with its header, if that is no more than a read that is needed anyway.
    fn check_header(&self, member: &Member, window: &mut Window<'_>) -> Result<(), String> {
        let is_next = member.header_offset() == self.end;
        let Some((_, ending)) = split_name(&member.name) else { return Err("it lists a hidden file".into()) };
        if is_next && is_picture(ending) {
            return Ok(());
        }
        // Between two members there may be what is passed over: long names, folders, hidden files.
        let mut members = Members::from(self.end);
        loop {
            match members.next(window) {
                Ok(Some(found)) if found == *member => return Ok(()),
                Ok(Some(found)) if split_name(&found.name).is_none() => {}
                _ => return Err(format!("{:?} is not what comes next", abridged(&member.name))),
            }
        }
    }

    /// Reads ending, offset, size and name.
    fn member(&mut self) -> Option<Member> {
        let mut words = self.line[self.read..].split_ascii_whitespace();
        let [ending, offset, size, name] = [words.next()?, words.next()?, words.next()?, words.next()?];
        self.read = name.as_ptr() as usize - self.line.as_ptr() as usize + name.len();
        let member = Member { name: name.into(), offset: offset.parse().ok()?, size: size.parse().ok()? };
        name.ends_with(ending).then_some(member)
    }

    fn next_line(&mut self) -> Result<(), String> {
        self.line.clear();
        self.read = 0;
        let read = self.lines.by_ref().take(MAX_LINE_BYTES).read_line(&mut self.line);
        match read {
            Ok(0) => Err("it ends early".into()),
            Ok(_) if !self.line.ends_with('\n') => Err("it ends in the middle of a line".into()),
            Ok(_) => {
                self.num_lines_left -= 1;
                Ok(())
            }
            Err(reason) => Err(reason.to_string()),
        }
    }

    fn check_end(&mut self, window: &mut Window<'_>) -> Result<(), String> {
        if !matches!(self.lines.read(&mut [0]), Ok(0)) {
            return Err("it has more samples than it says".into());
        }
        check_end(window, self.end).map_err(|_| "the shard goes on after the last sample".into())
    }
}

/// The first characters of a text of unknown length.
fn abridged(text: &str) -> String {
    text.chars().take(40).collect()
}
