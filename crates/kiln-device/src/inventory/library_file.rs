//! What is wrong with a shared library, told from its first bytes and its length.
//!
//! The loader's own messages are poor ("file too short", or silence about a library for another processor, which
//! it passes over). Source: the ELF format, System V gABI chapter 4. Other formats than ELF aren't judged.

use std::{
    env, fs,
    io::Read,
    path::{Path, PathBuf},
};

/// The folders that loaders search on the distributions we know, beside `LD_LIBRARY_PATH`.
const FOLDERS: [&str; 7] = [
    "/usr/lib/wsl/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/tegra",
    "/usr/lib",
    "/run/opengl-driver/lib",
];

/// Where `name` lies: in the folders of `LD_LIBRARY_PATH`, then in the usual ones.
pub(crate) fn places_of(name: &str) -> Vec<PathBuf> {
    let path = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    let all = folders.chain(FOLDERS.iter().map(PathBuf::from)).map(|folder| folder.join(name));
    all.filter(|path| path.symlink_metadata().is_ok()).collect()
}

/// Sentences about the files called `name` that can't be loaded. One for another processor in a usual folder is
/// left out: systems keep 32-bit libraries there.
pub(crate) fn defects_of(name: &str) -> Vec<String> {
    if !cfg!(target_os = "linux") {
        return Vec::new();
    }
    places_of(name)
        .iter()
        .filter_map(|path| {
            let defect = defect(path)?;
            let usual = FOLDERS.iter().any(|folder| path.starts_with(folder));
            (!(usual && defect.contains("another processor"))).then(|| format!("{} {defect}", path.display()))
        })
        .collect()
}

/// What keeps the file from being loaded: `is empty`, `is not a library`, `is cut off ...`, `is for another
/// processor ...`.
pub(crate) fn defect(path: &Path) -> Option<String> {
    let (header, length) = match read_header(path) {
        Ok(read) => read,
        Err(error) => return Some(format!("can't be read ({error})")),
    };
    defect_of(&header, length)
}

fn read_header(path: &Path) -> std::io::Result<(Vec<u8>, u64)> {
    let file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut header = Vec::new();
    file.take(64).read_to_end(&mut header)?;
    Ok((header, length))
}

fn defect_of(header: &[u8], length: u64) -> Option<String> {
    const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    if header.is_empty() {
        return Some("is empty".to_owned());
    }
    if !header.starts_with(b"\x7fELF") {
        return Some("is not a library".to_owned());
    }
    if header.len() < 64 {
        return Some(format!("is cut off after {length} bytes"));
    }
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let machine = half(18);
    if header[4] != 2 || header[5] != 1 || machine != MACHINE {
        return Some(format!("is for another processor ({})", machine_name(machine)));
    }
    let word = |at: usize| header[at..at + 8].iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    // The tables of segments and of sections; linkers put the latter at the end.
    let table = |offset: u64, size: u16, count: u16| offset.saturating_add(u64::from(size) * u64::from(count));
    let needed = table(word(32), half(54), half(56)).max(table(word(40), half(58), half(60)));
    (length < needed).then(|| format!("is cut off: {length} of at least {needed} bytes are there"))
}

fn machine_name(machine: u16) -> String {
    match machine {
        3 => "32-bit x86".to_owned(),
        40 => "32-bit ARM".to_owned(),
        62 => "x86-64".to_owned(),
        183 => "ARM64".to_owned(),
        other => format!("ELF machine {other}"),
    }
}

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {
    use super::*;

    /// This test program, which is a sound ELF file.
    fn own_header() -> (Vec<u8>, u64) {
        read_header(&env::current_exe().expect("a path")).expect("a readable file")
    }

    #[test]
    fn a_sound_file_has_no_defect() {
        let (header, length) = own_header();
        assert_eq!(defect_of(&header, length), None);
    }

    #[test]
    fn damaged_and_foreign_files_are_told_apart() {
        let (header, length) = own_header();
        let mut foreign = header.clone();
        foreign[18] = 0xf3;
        for (header, length, expected) in [
            (&header[..0], 0, "is empty"),
            (b"ignore me, I am text", 20, "is not a library"),
            (&header[..20], 20, "is cut off"),
            (&header, length / 2, "is cut off"),
            (&foreign, length, "is for another processor"),
        ] {
            let defect = defect_of(header, length).expect("a defect");
            assert!(defect.starts_with(expected), "{defect}");
        }
    }
}
