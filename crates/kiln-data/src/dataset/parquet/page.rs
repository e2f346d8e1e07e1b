//! The pages of a column: where they lie, and the values in them.
//!
//! In: a file and what its footer says of a column. Out: [`Page`]s, and of each its values. Read are PLAIN and dictionary
//! encodings, uncompressed, snappy and gzip, flat columns that may have nulls, data pages of both versions.
//! A page never becomes larger than its compression can make the bytes that are there, whatever it declares.
//! Source: the Apache Parquet format, `parquet.thrift` and `Encodings.md`, version 2.11.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use flate2::read::MultiGzDecoder;

use super::thrift::Thrift;

/// What a column chunk is compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    None,
    Snappy,
    Gzip,
}

impl Codec {
    /// By its number in the format.
    pub(super) fn of(number: i64) -> Result<Self, String> {
        const NAMES: [&str; 8] = ["none", "snappy", "gzip", "LZO", "brotli", "LZ4", "zstd", "LZ4"];
        match number {
            0 => Ok(Self::None),
            1 => Ok(Self::Snappy),
            2 => Ok(Self::Gzip),
            other => {
                let name =
                    usize::try_from(other).ok().and_then(|at| NAMES.get(at)).copied().unwrap_or("something unknown");
                Err(format!("its columns are compressed with {name}"))
            }
        }
    }

    /// The most bytes one byte can become: snappy copies 64 with three, deflate makes 1,032 of one.
    fn most(self) -> usize {
        match self {
            Self::None => 1,
            Self::Snappy => 22,
            Self::Gzip => 1032,
        }
    }
}

/// A column of one row group.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) codec: Codec,
    /// Where its first page begins.
    pub(super) begin: u64,
    /// Bytes of all its pages.
    pub(super) len: u64,
    pub(super) num_values: usize,
    /// Levels of definition: how many of its ancestors and itself may be null.
    pub(super) max_level: u32,
}

/// How the values of a page are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Plain,
    Dictionary,
}

/// One page of values.
#[derive(Clone, Debug)]
pub(super) struct Page {
    codec: Codec,
    begin: u64,
    compressed: usize,
    uncompressed: usize,
    encoding: Encoding,
    pub(super) num_values: usize,
    max_level: u32,
    /// Of a page of version 2: the bytes of its levels, which aren't compressed.
    level_bytes: Option<usize>,
}

/// The pages of a chunk, and its dictionary.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pub(super) dictionary: Option<Page>,
    pub(super) pages: Vec<Page>,
}

/// Finds the pages of a chunk by their heads.
pub(super) fn pages_of(file: &mut File, file_len: u64, chunk: &Chunk) -> Result<Pages, String> {
    let end = chunk.begin.checked_add(chunk.len).filter(|&end| end <= file_len);
    let end = end.ok_or("a column lies beyond the end of the file")?;
    let mut found = Pages { dictionary: None, pages: Vec::new() };
    let (mut at, mut num_values) = (chunk.begin, 0usize);
    while num_values < chunk.num_values {
        let (head, head_len) = head(file, at, end)?;
        let begin = at + head_len as u64;
        let (page, kind) = page(&head, begin, chunk).ok_or("the head of a page makes no sense")??;
        at = begin.checked_add(page.compressed as u64).filter(|&at| at <= end).ok_or("a page is cut off")?;
        match kind {
            Kind::Data if page.num_values == 0 => return Err("a page has no values".into()),
            Kind::Data => {
                num_values = num_values.saturating_add(page.num_values);
                found.pages.push(page);
            }
            Kind::Dictionary => found.dictionary = Some(page),
            Kind::Other => {}
        }
    }
    match num_values == chunk.num_values {
        true => Ok(found),
        false => Err("the pages of a column have more values than it".into()),
    }
}

enum Kind {
    Data,
    Dictionary,
    Other,
}

/// Reads the head of the page at `at`.
fn head(file: &mut File, at: u64, end: u64) -> Result<(Thrift, usize), String> {
    /// A head is some tens of bytes; statistics of long values make it longer.
    const FIRST_READ: u64 = 256;
    const MOST: u64 = 1 << 20;
    let mut len = FIRST_READ;
    loop {
        let available = len.min(end.saturating_sub(at));
        let bytes = read_at(file, at, available as usize).map_err(|reason| reason.to_string())?;
        match Thrift::read(&bytes) {
            Some(head) => return Ok(head),
            None if available < len || len >= MOST => return Err("the head of a page makes no sense".into()),
            None => len *= 16,
        }
    }
}

/// The page a head describes; the outer `None` if it describes none.
fn page(head: &Thrift, begin: u64, chunk: &Chunk) -> Option<Result<(Page, Kind), String>> {
    let (uncompressed, compressed) = (head.size(2)?, head.size(3)?);
    let (kind, details, encoding_field) = match head.int(1)? {
        0 => (Kind::Data, head.field(5)?, 2),
        2 => (Kind::Dictionary, head.field(7)?, 2),
        3 => (Kind::Data, head.field(8)?, 4),
        _ => (Kind::Other, head, 1),
    };
    let encoding = match details.int(encoding_field)? {
        0 => Encoding::Plain,
        // PLAIN_DICTIONARY, the old name, is PLAIN in the dictionary itself.
        2 | 8 if matches!(kind, Kind::Data) => Encoding::Dictionary,
        2 => Encoding::Plain,
        _ if matches!(kind, Kind::Other) => Encoding::Plain,
        other => return Some(Err(format!("its pages use encoding {other}, which isn't read here"))),
    };
    let is_second = head.int(1)? == 3;
    let level_bytes = match is_second {
        true if details.size(6).unwrap_or(0) > 0 => return Some(Err("a column holds lists".into())),
        true => Some(details.size(5)?),
        false => None,
    };
    let is_compressed = !matches!(details.field(7), Some(Thrift::Bool(false))) || !is_second;
    let codec = if is_compressed { chunk.codec } else { Codec::None };
    let num_values = if matches!(kind, Kind::Other) { 0 } else { details.size(1)? };
    let max_level = if matches!(kind, Kind::Dictionary) { 0 } else { chunk.max_level };
    Some(Ok((Page { codec, begin, compressed, uncompressed, encoding, num_values, max_level, level_bytes }, kind)))
}

fn read_at(file: &mut File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::with_capacity(len);
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Page {
    /// Reads the page and takes it apart.
    pub(super) fn read(&self, file: &mut File) -> Result<PageValues, String> {
        let stored = read_at(file, self.begin, self.compressed).map_err(|reason| reason.to_string())?;
        let levels_len = self.level_bytes.unwrap_or(0);
        let (levels, packed) = stored.split_at_checked(levels_len).ok_or("a page is cut off")?;
        let values_len = self.uncompressed.checked_sub(levels_len).ok_or("a page is smaller than its levels")?;
        let bytes = inflated(self.codec, packed, values_len)?;
        let (levels, begin) = match (self.level_bytes, self.max_level) {
            (_, 0) => (None, 0),
            (Some(_), _) => (Some(levels.to_vec()), 0),
            (None, _) => {
                let len = bytes.first_chunk::<4>().ok_or("a page is cut off")?;
                let end = 4 + u32::from_le_bytes(*len) as usize;
                (Some(bytes.get(4..end).ok_or("a page is cut off")?.to_vec()), end)
            }
        };
        let width = u32::BITS - self.max_level.leading_zeros();
        let present = match levels {
            None => None,
            Some(levels) => {
                let levels = unpacked(&levels, width, self.num_values).ok_or("the levels of a page are cut off")?;
                Some(levels.into_iter().map(|level| level == self.max_level).collect())
            }
        };
        Ok(PageValues { bytes, begin, encoding: self.encoding, num_values: self.num_values, present })
    }

    /// What it takes in memory once read.
    pub(super) fn num_bytes(&self) -> usize {
        self.uncompressed
    }
}

/// Undoes a compression whose result has `len` bytes.
fn inflated(codec: Codec, packed: &[u8], len: usize) -> Result<Vec<u8>, String> {
    if len > packed.len().saturating_mul(codec.most()).saturating_add(64) {
        return Err(format!("a page declares {len} bytes and has {}", packed.len()));
    }
    let bytes = match codec {
        Codec::None => packed.to_vec(),
        Codec::Snappy => match snap::raw::decompress_len(packed) {
            Ok(found) if found == len => {
                snap::raw::Decoder::new().decompress_vec(packed).map_err(|error| error.to_string())?
            }
            _ => return Err("a page isn't as long as it declares".into()),
        },
        Codec::Gzip => {
            let mut bytes = Vec::new();
            let read = MultiGzDecoder::new(packed).take(len as u64 + 1).read_to_end(&mut bytes);
            read.map_err(|error| error.to_string())?;
            bytes
        }
    };
    match bytes.len() == len {
        true => Ok(bytes),
        false => Err("a page isn't as long as it declares".into()),
    }
}

/// A page in memory.
pub(super) struct PageValues {
    bytes: Vec<u8>,
    /// Where the values begin.
    begin: usize,
    encoding: Encoding,
    num_values: usize,
    /// Which rows have a value; `None` if all do.
    present: Option<Vec<bool>>,
}

/// What a row of a byte column holds, as a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Bytes of this page.
    Here(usize, usize),
    /// An entry of the dictionary.
    InDictionary(usize),
    /// Nothing.
    Null,
}

impl PageValues {
    pub(super) fn bytes(&self, begin: usize, end: usize) -> &[u8] {
        &self.bytes[begin..end]
    }

    /// Which value each row has; `None` for null.
    fn ranks(&self) -> Vec<Option<usize>> {
        let mut next = 0;
        let mut rank = |present: bool| {
            next += usize::from(present);
            present.then(|| next - 1)
        };
        match &self.present {
            None => (0..self.num_values).map(Some).collect(),
            Some(present) => present.iter().map(|&present| rank(present)).collect(),
        }
    }

    /// What every row of a byte column holds.
    pub(super) fn byte_rows(&self) -> Option<Vec<Found>> {
        let ranks = self.ranks();
        let num_present = ranks.iter().flatten().count();
        let values: Vec<Found> = match self.encoding {
            Encoding::Plain => self.byte_values(num_present)?,
            Encoding::Dictionary => {
                self.indices(num_present)?.into_iter().map(|index| Found::InDictionary(index as usize)).collect()
            }
        };
        ranks.into_iter().map(|rank| rank.map_or(Some(Found::Null), |rank| values.get(rank).copied())).collect()
    }

    /// A length of four bytes before each value.
    fn byte_values(&self, count: usize) -> Option<Vec<Found>> {
        let mut at = self.begin;
        let mut value = || {
            let len = u32::from_le_bytes(*self.bytes.get(at..)?.first_chunk::<4>()?) as usize;
            let begin = at + 4;
            at = begin.checked_add(len).filter(|&end| end <= self.bytes.len())?;
            Some(Found::Here(begin, at))
        };
        (0..count).map(|_| value()).collect()
    }

    /// The numbers of every row of a column of `width` bytes each; `dictionary` where the page refers to one.
    pub(super) fn number_rows(&self, width: usize, dictionary: Option<&[i64]>) -> Option<Vec<Option<i64>>> {
        let ranks = self.ranks();
        let num_present = ranks.iter().flatten().count();
        let values = match self.encoding {
            Encoding::Plain => self.numbers(width, num_present)?,
            Encoding::Dictionary => {
                let indices = self.indices(num_present)?.into_iter();
                indices.map(|index| dictionary?.get(index as usize).copied()).collect::<Option<_>>()?
            }
        };
        ranks.into_iter().map(|rank| rank.map_or(Some(None), |rank| values.get(rank).copied().map(Some))).collect()
    }

    /// Little-endian numbers, one after the other.
    fn numbers(&self, width: usize, count: usize) -> Option<Vec<i64>> {
        let bytes = self.bytes.get(self.begin..)?.get(..count.checked_mul(width)?)?;
        let number = |bytes: &[u8]| match width {
            4 => bytes.first_chunk().map(|bytes| i64::from(i32::from_le_bytes(*bytes))),
            _ => bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)),
        };
        bytes.chunks_exact(width).map(number).collect()
    }

    /// Indices into the dictionary: their width, then runs.
    fn indices(&self, count: usize) -> Option<Vec<u32>> {
        let (&width, packed) = self.bytes.get(self.begin..)?.split_first()?;
        unpacked(packed, u32::from(width), count)
    }
}

/// `count` numbers of `width` bits from runs: repeated ones, and groups of eight packed from the lowest bit on.
fn unpacked(bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
    if width > 32 {
        return None;
    }
    let mut values = Vec::new();
    let mut rest = bytes;
    while values.len() < count {
        let head = varint(&mut rest)?;
        let wanted = count - values.len();
        if head & 1 == 0 {
            let len = width.div_ceil(8) as usize;
            let (value, after) = rest.split_at_checked(len)?;
            let value = value.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte)) as u32;
            let repeats = usize::try_from(head >> 1).ok()?.min(wanted);
            // A run of none would go on for ever.
            if repeats == 0 {
                return None;
            }
            // Rows are counted by the footer: a few bytes may stand for many of them, four bytes each here.
            values.resize(values.len() + repeats, value);
            rest = after;
        } else {
            let groups = usize::try_from(head >> 1).ok()?;
            let len = groups.checked_mul(width as usize)?;
            // The last run may leave out bytes that no value needs.
            let (packed, after) = rest.split_at(len.min(rest.len()));
            let available = if width == 0 { groups.checked_mul(8)? } else { packed.len() * 8 / width as usize };
            let repeats = available.min(wanted);
            if repeats == 0 {
                return None;
            }
            values.extend((0..repeats).map(|index| bits(packed, index * width as usize, width)));
            rest = after;
        }
    }
    Some(values)
}

/// `width` bits from bit `at` on, all of them there.
fn bits(packed: &[u8], at: usize, width: u32) -> u32 {
    let bytes = packed[at / 8..].iter().take(5).rev();
    let word = bytes.fold(0u64, |word, &byte| word << 8 | u64::from(byte));
    (word >> (at % 8) & ((1u64 << width) - 1)) as u32
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_packed_groups_are_unpacked() {
        // Four times 5 in a byte, then a group of eight of three bits: 0 to 7 (the example of Encodings.md).
        let bytes = [4 << 1, 5, 1 << 1 | 1, 0x88, 0xC6, 0xFA];
        assert_eq!(unpacked(&bytes, 3, 12), Some(vec![5, 5, 5, 5, 0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(unpacked(&bytes, 3, 13), None);
        assert_eq!(unpacked(&[0], 3, 1), None, "a run of none");
        assert_eq!(unpacked(&[0xFF; 20], 40, 1), None);
    }

    #[test]
    fn a_page_never_becomes_larger_than_its_bytes_allow() {
        assert!(inflated(Codec::Snappy, &[0xFF, 0xFF, 0xFF, 0xFF, 7, 0], 1 << 31).is_err());
        assert!(inflated(Codec::Gzip, &[0x1F, 0x8B], 1 << 30).is_err());
        assert_eq!(inflated(Codec::None, &[1, 2], 2), Ok(vec![1, 2]));
    }
}
