//! WebP: what its decoder doesn't look at before it allocates.
//!
//! In: the bytes of a file. Out: a verdict if a chunk declares more bytes than the file has. The decoder would make room for
//! all of a chunk of metadata, up to 4 GiB, before it finds that they aren't there.
//! Source: WebP container specification, "RIFF file format".

use super::{DecodeError, ImageFormat};

/// The file's name, its size and the name of the format.
const HEADER_BYTES: usize = 12;

/// Checks that every chunk ends within the file.
pub(super) fn check_chunks(encoded: &[u8]) -> Result<(), DecodeError> {
    let mut position = HEADER_BYTES;
    while let Some([_, _, _, _, s0, s1, s2, s3]) = encoded.get(position..position + 8) {
        let size = u32::from_le_bytes([*s0, *s1, *s2, *s3]) as usize;
        if size > encoded.len() - position - 8 {
            // What follows the container is none of its chunks.
            return if position < end(encoded) {
                Err(DecodeError::Truncated { format: ImageFormat::WebP })
            } else {
                Ok(())
            };
        }
        // Chunks begin at even positions.
        position += 8 + size + size % 2;
    }
    Ok(())
}

/// Where the container ends by its own account.
fn end(encoded: &[u8]) -> usize {
    let declared = encoded.get(4..8).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
    (u32::from_le_bytes(declared) as usize).saturating_add(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(chunk_bytes: u32, rest: &[u8]) -> Vec<u8> {
        [b"RIFF\x10\0\0\0WEBPEXIF".as_slice(), &chunk_bytes.to_le_bytes(), rest].concat()
    }

    #[test]
    fn a_chunk_may_not_be_longer_than_the_file() {
        assert!(check_chunks(&file(4, b"abcd")).is_ok());
        assert!(check_chunks(&file(3, b"abc")).is_ok(), "the last byte of padding may be missing");
        assert!(matches!(check_chunks(&file(5, b"abcd")), Err(DecodeError::Truncated { .. })));
        assert!(matches!(check_chunks(&file(u32::MAX, b"abcd")), Err(DecodeError::Truncated { .. })));
    }

    #[test]
    fn what_follows_the_container_is_no_chunk() {
        assert!(check_chunks(&file(4, b"abcdJUNK\xFF\xFF\xFF\xFF")).is_ok());
    }
}
