//! The entries of a zip file that stores without compressing, which is how PyTorch writes `.pth`.
//!
//! In: the bytes of a file. Out: where each entry's bytes lie in it. Nothing is copied and nothing is unpacked, so no
//! entry can grow; every offset is checked against the file, and every entry against its checksum.
//! Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 (records) and 4.5.3 (zip64 sizes).
//! Not done: compression, encryption, several disks; PyTorch uses none of them.

use std::collections::HashMap;
use std::ops::Range;

use super::FileProblem;

/// Longest distance of the end record from the end of the file: its own 22 bytes and a comment.
const END_SEARCH: usize = 22 + 0xFFFF;

const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";

/// Entries by name: where their bytes lie in the file.
pub(super) type Entries<'a> = HashMap<&'a str, Range<usize>>;

/// Reads the directory and checks every entry's place and checksum.
///
/// # Errors
/// [`FileProblem::Damaged`] or [`FileProblem::Unsupported`], naming the entry where there is one.
pub(super) fn entries(bytes: &[u8]) -> Result<Entries<'_>, FileProblem> {
    let directory = directory(bytes)?;
    let mut rest = Fields { bytes, at: directory.start };
    let mut entries = Entries::new();
    while rest.at < directory.end {
        let (name, range) = entry(bytes, &mut rest)?;
        if entries.insert(name, range).is_some() {
            return Err(damaged(format!("two entries are called {name:?}")));
        }
    }
    Ok(entries)
}

/// Where the central directory lies.
fn directory(bytes: &[u8]) -> Result<Range<usize>, FileProblem> {
    let from = bytes.len().saturating_sub(END_SEARCH);
    let is_end = |at: &usize| {
        let comment = bytes.get(at + 20..at + 22).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])));
        bytes[*at..].starts_with(&END) && comment == Some(bytes.len() - at - 22)
    };
    let end = (from..bytes.len().saturating_sub(21)).rev().find(is_end);
    let end = end.ok_or_else(|| damaged("the zip directory at its end is missing; the file is cut short"))?;
    let mut fields = Fields { bytes, at: end + 12 };
    let (mut size, mut offset) = (u64::from(fields.u32()?), u64::from(fields.u32()?));
    if size == u64::from(u32::MAX) || offset == u64::from(u32::MAX) {
        (size, offset) = directory_64(bytes, end)?;
    }
    range(bytes, offset, size).ok_or_else(|| damaged("its zip directory lies outside of it"))
}

/// Size and offset of the directory of a file beyond 4 GiB.
fn directory_64(bytes: &[u8], end: usize) -> Result<(u64, u64), FileProblem> {
    let locator = end.checked_sub(20).ok_or_else(|| damaged("its zip64 locator is missing"))?;
    let mut fields = Fields { bytes, at: locator };
    fields.signature(LOCATOR_64, "zip64 locator")?;
    fields.skip(4)?;
    let at = usize::try_from(fields.u64()?).map_err(|_| damaged("its zip64 directory lies outside of it"))?;
    let mut fields = Fields { bytes, at };
    fields.signature(END_64, "zip64 directory end")?;
    fields.skip(36)?;
    Ok((fields.u64()?, fields.u64()?))
}

/// The next entry of the central directory, checked.
fn entry<'a>(bytes: &'a [u8], fields: &mut Fields<'a>) -> Result<(&'a str, Range<usize>), FileProblem> {
    fields.signature(CENTRAL, "zip directory entry")?;
    fields.skip(4)?;
    let (flags, method) = (fields.u16()?, fields.u16()?);
    fields.skip(4)?;
    let crc = fields.u32()?;
    let (packed, size) = (fields.u32()?, fields.u32()?);
    let [name_len, extra_len, comment_len] = [fields.u16()?, fields.u16()?, fields.u16()?].map(usize::from);
    fields.skip(8)?;
    let offset = fields.u32()?;
    let name = std::str::from_utf8(fields.take(name_len)?).map_err(|_| damaged("an entry's name isn't UTF-8"))?;
    let extra = fields.take(extra_len)?;
    fields.skip(comment_len)?;
    let [size, packed, offset] = sizes_64(extra, [size, packed, offset])?;
    if flags & 1 != 0 || method != 0 || size != packed {
        return Err(FileProblem::Unsupported { what: format!("entry {name:?} is compressed or encrypted") });
    }

    let mut local = Fields { bytes, at: usize::try_from(offset).unwrap_or(usize::MAX) };
    local.signature(LOCAL, name)?;
    local.skip(22)?;
    let [name_len, extra_len] = [local.u16()?, local.u16()?].map(usize::from);
    local.skip(name_len + extra_len)?;
    let outside = || damaged(format!("entry {name:?} of {size} bytes reaches beyond its end"));
    let range = range(bytes, local.at as u64, size).ok_or_else(outside)?;
    if crc32fast::hash(&bytes[range.clone()]) != crc {
        return Err(damaged(format!("the checksum of entry {name:?} doesn't match its bytes")));
    }
    Ok((name, range))
}

/// Size, packed size and offset, those that don't fit 32 bits taken from the zip64 field.
fn sizes_64(extra: &[u8], sizes: [u32; 3]) -> Result<[u64; 3], FileProblem> {
    let mut fields = Fields { bytes: extra, at: 0 };
    let mut wide: &[u8] = &[];
    while extra.len() - fields.at >= 4 {
        let (id, len) = (fields.u16()?, usize::from(fields.u16()?));
        let value = fields.take(len)?;
        if id == 1 {
            wide = value;
        }
    }
    let mut wide = Fields { bytes: wide, at: 0 };
    let mut result = [0; 3];
    for (result, size) in result.iter_mut().zip(sizes) {
        *result = if size == u32::MAX { wide.u64()? } else { u64::from(size) };
    }
    Ok(result)
}

/// `offset..offset + len`, if it lies within `bytes`.
fn range(bytes: &[u8], offset: u64, len: u64) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    (end <= bytes.len()).then_some(start..end)
}

/// Reads little-endian fields one after another.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], FileProblem> {
        let end = self.at.checked_add(len);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| damaged("its zip directory is cut short"))?;
        self.at += len;
        Ok(taken)
    }

    fn skip(&mut self, len: usize) -> Result<(), FileProblem> {
        self.take(len).map(|_| ())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FileProblem> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("take gives as many bytes as asked"))
    }

    fn u16(&mut self) -> Result<u16, FileProblem> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, FileProblem> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, FileProblem> {
        self.array().map(u64::from_le_bytes)
    }

    fn signature(&mut self, expected: [u8; 4], what: &str) -> Result<(), FileProblem> {
        match self.array()? == expected {
            true => Ok(()),
            false => Err(damaged(format!("{what:?} isn't where its zip directory says"))),
        }
    }
}

fn damaged(what: impl Into<String>) -> FileProblem {
    FileProblem::Damaged { what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zip file of one entry, its directory optionally in zip64 form.
    fn zip(name: &str, data: &[u8], wide: bool) -> Vec<u8> {
        let crc = crc32fast::hash(data).to_le_bytes();
        let size = (data.len() as u32).to_le_bytes();
        let lens = [(name.len() as u16).to_le_bytes(), [0; 2]].concat();
        let mut bytes = [&LOCAL[..], &[0; 10], &crc, &size, &size, &lens, name.as_bytes(), data].concat();
        let directory = bytes.len();
        let (shown, extra) = match wide {
            true => {
                let size = (data.len() as u64).to_le_bytes();
                (vec![0xFF; 4], [&[1, 0, 16, 0], &size[..], &size].concat())
            }
            false => (size.to_vec(), Vec::new()),
        };
        let extra_len = (extra.len() as u16).to_le_bytes();
        let lens = [&lens[..2], &extra_len, &[0; 2]].concat();
        bytes.extend([&CENTRAL[..], &[0; 12], &crc, &shown, &shown, &lens, &[0; 12], name.as_bytes(), &extra].concat());
        let size = bytes.len() - directory;
        let shown = if wide { [0xFF; 4] } else { (directory as u32).to_le_bytes() };
        if wide {
            let end = bytes.len() as u64;
            let (size, directory) = ((size as u64).to_le_bytes(), (directory as u64).to_le_bytes());
            bytes.extend([&END_64[..], &[0; 36], &size, &directory].concat());
            bytes.extend([&LOCATOR_64[..], &[0; 4], &end.to_le_bytes(), &[1, 0, 0, 0]].concat());
        }
        bytes.extend([&END[..], &[0; 8], &(size as u32).to_le_bytes(), &shown, &[0; 2]].concat());
        bytes
    }

    #[test]
    fn an_entry_is_found_where_it_lies_with_sizes_of_either_width() {
        for wide in [false, true] {
            let bytes = zip("a/data.pkl", b"hello", wide);
            let entries = entries(&bytes).expect("a whole file");
            assert_eq!(&bytes[entries["a/data.pkl"].clone()], b"hello", "wide: {wide}");
        }
    }

    #[test]
    fn a_changed_byte_of_an_entry_is_found_by_its_checksum() {
        let mut bytes = zip("data/0", b"hello", false);
        let at = bytes.windows(5).position(|w| w == b"hello").expect("stored as it is");
        bytes[at] ^= 1;
        let problem = entries(&bytes).expect_err("changed").to_string();
        assert!(problem.contains("data/0") && problem.contains("checksum"), "{problem}");
    }

    #[test]
    fn compression_is_refused_by_the_entry_s_name() {
        let mut bytes = zip("data/0", b"hello", false);
        let at = bytes.windows(4).position(|w| w == CENTRAL).expect("a directory");
        bytes[at + 10] = 8;
        let problem = entries(&bytes).expect_err("deflated").to_string();
        assert!(problem.contains("data/0"), "{problem}");
    }
}
