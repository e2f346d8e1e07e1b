//! Lists folders of pictures without touching the pictures.
//!
//! In: a folder. Out: its subfolders, or all picture files below it, sorted by name as bytes, whatever order the
//! file system lists them in. Only links cost a system call each; the type of everything else comes with the list.
//!
//! - Whether a file is a picture goes by its ending, upper or lower case; what it really is shows when it's decoded.
//! - Litter is passed over: names that begin with a dot, and what Windows, macOS and NAS boxes leave behind.
//! - A link to a file counts as the file. A link to a folder is followed where a class folder or a split may
//!   stand, never below, so there are no loops.

use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

use crate::error::DataError;

/// Endings of pictures. The second row isn't decoded yet: listing such files makes the loader name them with
/// the reason, instead of losing them silently.
const PICTURES: [&str; 25] = [
    "jpg", "jpeg", "jpe", "jfif", "png", "webp", "bmp", "dib", "gif", //
    "tif", "tiff", "heic", "heif", "avif", "jxl", "jp2", "svg", "ico", "ppm", "pgm", "pbm", "pnm", "tga", "psd", "qoi",
];

/// Names that operating systems and NAS boxes leave in folders, lower case.
const LITTER: [&str; 4] = ["__macosx", "@eadir", "thumbs.db", "desktop.ini"];

/// A subfolder.
pub(crate) struct Subfolder {
    /// Its name in the folder listed.
    pub(crate) name: OsString,
    /// Its path.
    pub(crate) path: PathBuf,
}

/// The picture files of one folder.
pub(crate) struct Pictures {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// Names in it, sorted.
    pub(crate) files: Vec<Box<OsStr>>,
}

/// What stands in a folder where class folders are expected.
#[derive(Default)]
pub(crate) struct Listing {
    /// Folders and links to folders, sorted by name.
    pub(crate) subfolders: Vec<Subfolder>,
    /// Picture files that lie loose.
    pub(crate) loose_pictures: Vec<OsString>,
}

/// What a scan found and passed over.
#[derive(Default)]
pub(crate) struct PassedOver {
    /// Files and links, each with the reason.
    pub(crate) entries: Vec<(PathBuf, String)>,
    /// Files that don't end like pictures.
    pub(crate) num_other_files: u64,
}

/// Lists a folder of folders.
pub(crate) fn list(folder: &Path, passed_over: &mut PassedOver) -> Result<Listing, DataError> {
    let mut listing = Listing::default();
    for Entry { name, kind } in entries(folder)? {
        let path = folder.join(&name);
        match settled(kind, &path, passed_over) {
            Kind::Folder => listing.subfolders.push(Subfolder { name, path }),
            Kind::LinkedFolder if encloses(&path, folder) => {
                passed_over.entries.push((path, "a link to a folder that contains it".into()));
            }
            Kind::LinkedFolder => listing.subfolders.push(Subfolder { name, path }),
            Kind::File if is_picture(&name) => listing.loose_pictures.push(name),
            Kind::File | Kind::Link | Kind::Other => {}
        }
    }
    Ok(listing)
}

/// The picture files in `folder` and in all folders below it, folder by folder, sorted by name as bytes.
///
/// Whether a file is a picture goes by its ending.
///
/// # Errors
/// [`DataError::ReadFolder`] with the folder that can't be listed.
pub fn picture_files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut passed_over = PassedOver::default();
    let found = pictures_below(folder, &mut passed_over)?;
    for (path, reason) in passed_over.entries {
        tracing::warn!(?path, reason, "ignored");
    }
    let paths = |Pictures { folder, files }| files.into_iter().map(move |name: Box<OsStr>| folder.join(&*name));
    Ok(found.into_iter().flat_map(paths).collect())
}

/// Lists the pictures of a class folder and of all folders in it.
pub(crate) fn pictures_below(class_folder: &Path, passed_over: &mut PassedOver) -> Result<Vec<Pictures>, DataError> {
    let mut found = Vec::new();
    let mut pending = vec![class_folder.to_path_buf()];
    while let Some(folder) = pending.pop() {
        let mut files = Vec::new();
        let mut deeper = Vec::new();
        for Entry { name, kind } in entries(&folder)? {
            // A path is made for links and folders alone: a class may have a million files.
            let kind = if matches!(kind, Kind::Link) { settled(kind, &folder.join(&name), passed_over) } else { kind };
            match kind {
                Kind::Folder => deeper.push(folder.join(name)),
                Kind::LinkedFolder => {
                    passed_over.entries.push((folder.join(name), "a link to a folder inside a class folder".into()));
                }
                Kind::File if is_picture(&name) => files.push(name.into_boxed_os_str()),
                Kind::File => passed_over.num_other_files += 1,
                Kind::Link | Kind::Other => {}
            }
        }
        // The first folder in order is the next one taken.
        pending.extend(deeper.into_iter().rev());
        found.push(Pictures { folder, files });
    }
    Ok(found)
}

struct Entry {
    name: OsString,
    kind: Kind,
}

/// The entries of a folder without litter, sorted by name as bytes.
fn entries(folder: &Path) -> Result<Vec<Entry>, DataError> {
    let failed = |reason| DataError::ReadFolder { path: folder.to_path_buf(), reason };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if !is_litter(&name) {
            entries.push(Entry { name, kind: Kind::of(entry.file_type().map_err(failed)?) });
        }
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

#[derive(Clone, Copy)]
enum Kind {
    File,
    Folder,
    LinkedFolder,
    /// A link that hasn't been followed yet.
    Link,
    /// Pipes, devices, links to nothing.
    Other,
}

impl Kind {
    fn of(reported: FileType) -> Self {
        match (reported.is_symlink(), reported.is_file(), reported.is_dir()) {
            (true, ..) => Self::Link,
            (_, true, _) => Self::File,
            (_, _, true) => Self::Folder,
            _ => Self::Other,
        }
    }
}

/// Follows a link.
fn settled(kind: Kind, path: &Path, passed_over: &mut PassedOver) -> Kind {
    if !matches!(kind, Kind::Link) {
        return kind;
    }
    match fs::metadata(path) {
        Ok(target) if target.is_dir() => Kind::LinkedFolder,
        Ok(target) if target.is_file() => Kind::File,
        Ok(_) => Kind::Other,
        Err(reason) => {
            passed_over.entries.push((path.to_path_buf(), format!("a link that leads nowhere ({reason})")));
            Kind::Other
        }
    }
}

/// Says whether the folder behind `link` is `folder` or one above it.
fn encloses(link: &Path, folder: &Path) -> bool {
    match (link.canonicalize(), folder.canonicalize()) {
        (Ok(target), Ok(folder)) => folder.starts_with(target),
        _ => false,
    }
}

fn is_litter(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") || LITTER.iter().any(|litter| name.eq_ignore_ascii_case(litter))
}

/// Says whether a file is named like a picture.
pub(crate) fn is_picture(name: &OsStr) -> bool {
    let extension = Path::new(name).extension();
    extension.is_some_and(|extension| PICTURES.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

/// A path inside a data set as text, with slashes.
pub(crate) fn text_from_path(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(text_from_name).collect();
    parts.join("/")
}

/// A name as text; bytes that aren't UTF-8 are shown as `\xE9`.
pub(crate) fn text_from_name(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}")));
    }
    text
}
