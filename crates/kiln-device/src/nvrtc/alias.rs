//! A shared library that is only another name for one already loaded.
//!
//! cudarc asks the loader for `libnvrtc.so` first, then for numbered names of the CUDA version it was compiled
//! for. The loader answers with a library it has already loaded if that one's SONAME is the name asked for, but
//! NVRTC's SONAME is `libnvrtc.so.12` or `.13`; and a wheel's folder isn't on the search path, while an unfit
//! NVRTC may be. So we load a library of 0.5 kB that has the SONAME `libnvrtc.so`, no code, and needs the
//! library we want: symbols looked up in it are found in that one.
//!
//! Source: the ELF format, System V gABI chapters 4 and 5. 64-bit little-endian Linux only.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

/// Makes the loader answer `name` with `library`, for the rest of the process.
///
/// `library` must already be loaded. The file is written to the temporary folder and removed once it is loaded.
///
/// # Errors
/// The temporary folder can't be written to or forbids loading from it, or `library` isn't ELF with a name.
pub(super) fn load(name: &str, library: &Path) -> io::Result<()> {
    let needed = library.to_str().ok_or_else(|| io::Error::other("the library's path is not UTF-8"))?;
    let path = std::env::temp_dir().join(format!("kiln-{}-{name}", std::process::id()));
    // A file of this name is left from a crashed process, or someone else's trap: never write through it.
    let _ = fs::remove_file(&path);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    let loaded =
        file.write_all(&elf(name, needed)).and_then(|()| crate::environment::preload(&path).map_err(io::Error::other));
    let _ = fs::remove_file(&path);
    loaded
}

/// The bytes of a library named `soname` that needs `needed` and defines nothing.
fn elf(soname: &str, needed: &str) -> Vec<u8> {
    const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    const HEADER: usize = 64;
    const SEGMENT: usize = 56;
    const NUM_SEGMENTS: usize = 3;

    // String table: an empty string, then the two names.
    let mut strings = vec![0];
    let mut add = |text: &str| {
        let offset = strings.len() as u64;
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        offset
    };
    let (soname, needed) = (add(soname), add(needed));

    // Layout: header, segments, dynamic table, symbol table (one empty symbol), hash table, strings.
    let dynamic = HEADER + NUM_SEGMENTS * SEGMENT;
    let num_entries = 8;
    let symbols = dynamic + num_entries * 16;
    let hash = symbols + 24;
    let text = hash + 16;
    let size = text + strings.len();

    let mut out = Vec::with_capacity(size);
    let word = |out: &mut Vec<u8>, values: &[u64]| {
        for value in values {
            out.extend_from_slice(&value.to_le_bytes());
        }
    };
    out.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    out.extend_from_slice(&3_u16.to_le_bytes()); // ET_DYN
    out.extend_from_slice(&MACHINE.to_le_bytes());
    out.extend_from_slice(&1_u32.to_le_bytes());
    word(&mut out, &[0, HEADER as u64, 0]); // entry, segment table, no section table
    out.extend_from_slice(&0_u32.to_le_bytes());
    for value in [HEADER, SEGMENT, NUM_SEGMENTS, 0, 0, 0] {
        out.extend_from_slice(&(value as u16).to_le_bytes());
    }
    // PT_LOAD of everything, PT_DYNAMIC, PT_GNU_STACK (not executable). Writable: some loaders relocate the
    // dynamic table in place.
    let mut segment = |kind: u32, offset: usize, size: usize, align: u64| {
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&6_u32.to_le_bytes()); // read, write
        let (offset, size) = (offset as u64, size as u64);
        word(&mut out, &[offset, offset, offset, size, size, align]);
    };
    segment(1, 0, size, 0x1_0000);
    segment(2, dynamic, num_entries * 16, 8);
    segment(0x6474_e551, 0, 0, 16);
    let entries: [(u64, u64); 8] = [
        (14, soname),               // DT_SONAME
        (1, needed),                // DT_NEEDED
        (4, hash as u64),           // DT_HASH
        (5, text as u64),           // DT_STRTAB
        (6, symbols as u64),        // DT_SYMTAB
        (10, strings.len() as u64), // DT_STRSZ
        (11, 24),                   // DT_SYMENT
        (0, 0),                     // DT_NULL
    ];
    for (tag, value) in entries {
        word(&mut out, &[tag, value]);
    }
    out.extend_from_slice(&[0; 24]);
    // One bucket, one symbol, both empty.
    for value in [1_u32, 1, 0, 0] {
        out.extend_from_slice(&value.to_le_bytes());
    }
    out.extend_from_slice(&strings);
    debug_assert_eq!(out.len(), size, "the layout and the bytes agree");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_finds_the_library_under_its_other_name() {
        // libm is everywhere and isn't part of what Rust links by itself under this name.
        let name = "libkiln-alias-test.so";
        load(name, Path::new("libm.so.6")).expect("an alias for libm");
        // SAFETY: libm's initialisers have run already; `cos` has this signature.
        #[expect(unsafe_code, reason = "the loader is what is tested")]
        let cosine = unsafe {
            let library = libloading::Library::new(name).expect("found by SONAME");
            let cos =
                library.get::<unsafe extern "C" fn(f64) -> f64>(b"cos\0").expect("found in the library behind it");
            cos(0.0)
        };
        assert_eq!(cosine, 1.0);
    }

    #[test]
    fn an_alias_of_nothing_is_an_error() {
        assert!(load("libkiln-alias-none.so", Path::new("/nowhere/libnone.so")).is_err());
    }
}
