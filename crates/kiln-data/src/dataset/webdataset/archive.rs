//! Walks the members of a tar archive, reading headers and nothing of the pictures between them.
//!
//! In: a shard. Out: its regular files, each with name, offset and size, or a [`Fault`] at the byte where the archive
//! can't be trusted. Headers: ustar, GNU with long names, PAX. Source: POSIX.1-2017, `pax`, "ustar Interchange Format"
//! and "pax Header Block"; GNU tar manual, appendix "Basic Tar Format".
//!
//! An archive is whole: every header has its checksum, every member lies within the file, and two blocks of zeros end
//! it, since one that was cut between two members looks like a shorter one otherwise. What follows the end must be
//! padding, since members after it (archives joined by `cat`) would be lost without a word. Not done here: links,
//! sparse files and compressed archives, which are refused.

use tar::{EntryType, Header};

use super::shard::{Fault, Window};

/// Unit of a tar archive.
pub(crate) const BLOCK: u64 = 512;

/// Longest name or extended header read into memory; anything longer is damage.
const MAX_EXTENSION_BYTES: u64 = 1 << 20;

/// Padding after the end mark. GNU tar pads to 10 KiB, tapes to a few hundred.
const MAX_PADDING_BYTES: u64 = 1 << 20;

const DAMAGED: &str = "fetch or write the shard again";
const PACK_AGAIN: &str = "write the shard again without it";

/// A regular file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its path in the archive.
    pub(crate) name: String,
    /// Where its content begins; the block before is its header.
    pub(crate) offset: u64,
    /// Bytes of its content.
    pub(crate) size: u64,
}

impl Member {
    /// Where the header that describes it begins.
    pub(super) fn header_offset(&self) -> u64 {
        self.offset.saturating_sub(BLOCK)
    }

    /// Where the next header begins.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.size).next_multiple_of(BLOCK)
    }
}

/// The walk.
pub(super) struct Members {
    position: u64,
}

/// What extended headers say about the member after them.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Members {
    /// Begins at a header, or at the end mark.
    pub(super) fn from(position: u64) -> Self {
        Self { position }
    }

    /// The next regular file; `None` at the end mark.
    pub(super) fn next(&mut self, window: &mut Window<'_>) -> Result<Option<Member>, Fault> {
        let mut extended = Extended::default();
        loop {
            let at = self.position;
            let Some(header) = header(window, at)? else {
                check_end(window, at)?;
                return Ok(None);
            };
            let kind = header.entry_type();
            if kind.is_dir() {
                self.position = at + BLOCK;
                extended = Extended::default();
                continue;
            }
            let size = extended.size.filter(|_| !is_extension(kind));
            let member = member(window, at, &header, size)?;
            self.position = member.end();
            match kind {
                EntryType::GNULongName => extended.path = Some(long_name(window, &member)?),
                EntryType::XHeader => extended.read(window, &member)?,
                EntryType::GNULongLink | EntryType::XGlobalHeader => {}
                EntryType::Regular | EntryType::Continuous => {
                    let member = extended.renamed(member);
                    // Before POSIX, a folder was a regular file with a slash.
                    if !member.name.ends_with('/') {
                        return Ok(Some(member));
                    }
                    extended = Extended::default();
                }
                other => return Err(unusable(at, other, &extended.renamed(member).name)),
            }
        }
    }
}

impl Extended {
    fn renamed(&mut self, member: Member) -> Member {
        match self.path.take() {
            Some(path) => Member { name: String::from_utf8_lossy(&path).into_owned(), ..member },
            None => member,
        }
    }

    /// Reads the records of a PAX header: `length key=value\n`, the length in bytes of the whole record.
    fn read(&mut self, window: &mut Window<'_>, member: &Member) -> Result<(), Fault> {
        let at = member.header_offset();
        let mut records = extension(window, member)?;
        while records.iter().any(|&byte| byte != 0) {
            let (key, value, rest) =
                pax_record(records).ok_or_else(|| Fault::new(at, "a PAX header is damaged", DAMAGED))?;
            match key {
                b"path" => self.path = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    let damaged = || Fault::new(at, "the size in a PAX header is no number", DAMAGED);
                    self.size = Some(size.ok_or_else(damaged)?);
                }
                key if key.starts_with(b"GNU.sparse.") => return Err(sparse(at)),
                _ => {}
            }
            records = rest;
        }
        Ok(())
    }
}

/// Key and value of the first record, and the records after it.
fn pax_record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = records.iter().position(|&byte| byte == b' ')?;
    let length: usize = std::str::from_utf8(&records[..space]).ok()?.parse().ok()?;
    let (record, rest) = records.split_at_checked(length)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|&byte| byte == b'=')?;
    Some((&record[..equals], &record[equals + 1..], rest))
}

fn is_extension(kind: EntryType) -> bool {
    kind.is_gnu_longname()
        || kind.is_gnu_longlink()
        || kind.is_pax_local_extensions()
        || kind.is_pax_global_extensions()
}

/// The header block at `at`, its checksum checked; `None` if it is the end mark.
fn header(window: &mut Window<'_>, at: u64) -> Result<Option<Header>, Fault> {
    if at.saturating_add(BLOCK) > window.len() {
        let problem = "it ends without the two blocks of zeros that end an archive: it was cut short";
        return Err(Fault::new(at.min(window.len()), problem, DAMAGED));
    }
    let block = window.bytes(at, BLOCK)?;
    if block.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    let gzip = block.starts_with(&[0x1F, 0x8B]);
    let header = Header::from_byte_slice(block);
    match has_checksum(header) {
        true => Ok(Some(header.clone())),
        false if at == 0 && gzip => {
            let remedy = "unpack it with gunzip; pictures can't be read at random from a compressed archive";
            Err(Fault::new(at, "it is compressed by gzip", remedy))
        }
        false if at == 0 => Err(Fault::new(at, "it does not begin like a tar archive", DAMAGED)),
        false => Err(Fault::new(at, "the checksum of a header is wrong", DAMAGED)),
    }
}

/// Compares the sum of a header's bytes, its checksum field counted as spaces, with that field.
pub(super) fn has_checksum(header: &Header) -> bool {
    let bytes = header.as_bytes();
    let sum: u32 = bytes[..148].iter().chain(&bytes[156..]).map(|&byte| u32::from(byte)).sum();
    header.cksum().is_ok_and(|stated| stated == sum + 8 * u32::from(b' '))
}

fn member(window: &Window<'_>, at: u64, header: &Header, size: Option<u64>) -> Result<Member, Fault> {
    let damaged = |_| Fault::new(at, "the size in a header is no number", DAMAGED);
    let size = size.map_or_else(|| header.entry_size().map_err(damaged), Ok)?;
    let offset = at + BLOCK;
    if size > window.len().saturating_sub(offset) {
        let name = String::from_utf8_lossy(&header.path_bytes()).into_owned();
        let problem = format!("{name:?} should have {size} bytes, more than the shard has left");
        return Err(Fault::new(at, problem, DAMAGED));
    }
    Ok(Member { name: String::from_utf8_lossy(&header.path_bytes()).into_owned(), offset, size })
}

/// The content of an extended header.
fn extension<'w>(window: &'w mut Window<'_>, member: &Member) -> Result<&'w [u8], Fault> {
    if member.size > MAX_EXTENSION_BYTES {
        let problem = format!("an extended header has {} bytes, more than {MAX_EXTENSION_BYTES}", member.size);
        return Err(Fault::new(member.header_offset(), problem, DAMAGED));
    }
    window.bytes(member.offset, member.size)
}

fn long_name(window: &mut Window<'_>, member: &Member) -> Result<Vec<u8>, Fault> {
    let name = extension(window, member)?;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Ok(name[..end].to_vec())
}

fn sparse(at: u64) -> Fault {
    Fault::new(at, "a member is stored sparse", "write the shard again without --sparse")
}

fn unusable(at: u64, kind: EntryType, name: &str) -> Fault {
    if kind.is_gnu_sparse() {
        return sparse(at);
    }
    if kind.is_hard_link() || kind.is_symlink() {
        let remedy = "write the shard again with tar --dereference --hard-dereference";
        return Fault::new(at, format!("{name:?} is a link and holds no picture"), remedy);
    }
    Fault::new(at, format!("{name:?} is no regular file (type {:?})", char::from(kind.as_byte())), PACK_AGAIN)
}

/// After the first block of zeros there must be another one, and nothing but zeros.
pub(super) fn check_end(window: &mut Window<'_>, at: u64) -> Result<(), Fault> {
    let padding = window.len().saturating_sub(at);
    if padding < 2 * BLOCK {
        return Err(Fault::new(at, "one block of the two that end an archive is missing: it was cut short", DAMAGED));
    }
    let looked_at = padding.min(MAX_PADDING_BYTES);
    let is_zero = window.bytes(at, looked_at)?.iter().all(|&byte| byte == 0);
    match is_zero && padding == looked_at {
        true => Ok(()),
        false => {
            let remedy = "join archives with tar --concatenate, not with cat, or keep them apart";
            Err(Fault::new(at, "data follows the end of the archive, which no program reads", remedy))
        }
    }
}
