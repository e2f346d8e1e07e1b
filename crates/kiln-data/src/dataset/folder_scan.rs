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
use std::fs::{self, DirEntry};
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

/// Lists a folder of folders.
pub(crate) fn list(folder: &Path) -> Result<Listing, DataError> {
    let mut listing = Listing::default();
    for entry in entries(folder)? {
        let (name, path) = (entry.file_name(), entry.path());
        match kind(&entry, folder)? {
            Kind::Folder => listing.subfolders.push(Subfolder { name, path }),
            Kind::LinkedFolder if encloses(&path, folder) => {
                tracing::warn!(link = ?path, "ignored a link to a folder that contains it");
            }
            Kind::LinkedFolder => listing.subfolders.push(Subfolder { name, path }),
            Kind::File if is_picture(&name) => listing.loose_pictures.push(name),
            Kind::File | Kind::Other => {}
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
    let found = pictures_below(folder)?;
    let paths = |Pictures { folder, files }| files.into_iter().map(move |name: Box<OsStr>| folder.join(&*name));
    Ok(found.into_iter().flat_map(paths).collect())
}

/// Lists the pictures of a class folder and of all folders in it.
pub(crate) fn pictures_below(class_folder: &Path) -> Result<Vec<Pictures>, DataError> {
    let mut found = Vec::new();
    let mut num_ignored = 0u64;
    let mut pending = vec![class_folder.to_path_buf()];
    while let Some(folder) = pending.pop() {
        let mut files = Vec::new();
        let mut deeper = Vec::new();
        for entry in entries(&folder)? {
            match kind(&entry, &folder)? {
                Kind::Folder => deeper.push(entry.path()),
                Kind::LinkedFolder => {
                    tracing::warn!(link = ?entry.path(), "ignored a link to a folder inside a class folder")
                }
                Kind::File if is_picture(&entry.file_name()) => files.push(entry.file_name().into_boxed_os_str()),
                Kind::File | Kind::Other => num_ignored += 1,
            }
        }
        // The first folder in order is the next one taken.
        pending.extend(deeper.into_iter().rev());
        found.push(Pictures { folder, files });
    }
    if num_ignored > 0 {
        tracing::info!(folder = ?class_folder, num_ignored, "ignored files that don't end like pictures");
    }
    Ok(found)
}

/// The entries of a folder without litter, sorted by name as bytes.
fn entries(folder: &Path) -> Result<Vec<DirEntry>, DataError> {
    let failed = |reason| DataError::ReadFolder { path: folder.to_path_buf(), reason };
    let listed: Result<Vec<_>, _> = fs::read_dir(folder).map_err(failed)?.collect();
    let mut entries = listed.map_err(failed)?;
    entries.retain(|entry| !is_litter(&entry.file_name()));
    entries.sort_by_cached_key(DirEntry::file_name);
    Ok(entries)
}

enum Kind {
    File,
    Folder,
    LinkedFolder,
    /// Pipes, devices, links to nothing.
    Other,
}

fn kind(entry: &DirEntry, folder: &Path) -> Result<Kind, DataError> {
    let reported = entry.file_type().map_err(|reason| DataError::ReadFolder { path: folder.to_path_buf(), reason })?;
    if !reported.is_symlink() {
        return Ok(match (reported.is_file(), reported.is_dir()) {
            (true, _) => Kind::File,
            (_, true) => Kind::Folder,
            _ => Kind::Other,
        });
    }
    match fs::metadata(entry.path()) {
        Ok(target) if target.is_dir() => Ok(Kind::LinkedFolder),
        Ok(target) if target.is_file() => Ok(Kind::File),
        Ok(_) => Ok(Kind::Other),
        Err(reason) => {
            tracing::warn!(link = ?entry.path(), %reason, "ignored a link that leads nowhere");
            Ok(Kind::Other)
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

fn is_picture(name: &OsStr) -> bool {
    let extension = Path::new(name).extension();
    extension.is_some_and(|extension| PICTURES.iter().any(|known| extension.eq_ignore_ascii_case(known)))
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
