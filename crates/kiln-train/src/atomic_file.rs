//! Files and folders that after a crash are the old ones or the new ones, never half of each.
//!
//! In: a path and its content. Out: the content on disk under that path: written under a temporary name in the same
//! folder, fsynced, renamed, and the folder fsynced, so that the name survives a power cut too.
//! A temporary name begins with a dot and ends in `.tmp`; what a killed process left is removed by [`sweep`].

use crate::error::TrainError;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes `bytes` to `path`, replacing what is there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let temporary = temporary(path);
    if let Err(error) = write_synced(&temporary, bytes) {
        // A full disk: give back what was taken. The error that matters is the first one.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    rename(&temporary, path)
}

/// Writes a folder of files to `path`, which must not exist.
pub(crate) fn write_folder(path: &Path, files: &[(&str, &[u8])]) -> Result<(), TrainError> {
    let temporary = temporary(path);
    remove(&temporary)?;
    fs::create_dir_all(&temporary).map_err(TrainError::io("create", &temporary))?;
    let written = files.iter().try_for_each(|(name, bytes)| write_synced(&temporary.join(name), bytes));
    if let Err(error) = written {
        // A full disk: give back what was taken. The error that matters is the first one.
        let _ = fs::remove_dir_all(&temporary);
        return Err(error);
    }
    sync_folder(&temporary)?;
    rename(&temporary, path)
}

/// Moves `from` to `to` for good.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), TrainError> {
    fs::rename(from, to).map_err(TrainError::io("rename to", to))?;
    to.parent().map_or(Ok(()), sync_folder)
}

/// Removes a folder of files; while it is being removed it has no valid name.
pub(crate) fn remove_folder(path: &Path) -> Result<(), TrainError> {
    let temporary = temporary(path);
    remove(&temporary)?;
    rename(path, &temporary)?;
    remove(&temporary)
}

/// Removes what killed processes left in `folder`.
pub(crate) fn sweep(folder: &Path) -> Result<(), TrainError> {
    for entry in fs::read_dir(folder).map_err(TrainError::io("list", folder))? {
        let entry = entry.map_err(TrainError::io("list", folder))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with(".tmp") {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file or folder, if there is one.
pub(crate) fn remove(path: &Path) -> Result<(), TrainError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(TrainError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.tmp"))
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|reason| TrainError::Write { path: path.to_owned(), num_bytes: bytes.len(), reason })
}

/// Makes the names in a folder durable. Windows has no such call and needs none.
fn sync_folder(folder: &Path) -> Result<(), TrainError> {
    if cfg!(unix) {
        let sync = || File::open(folder)?.sync_all();
        sync().map_err(TrainError::io("sync", folder))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("metrics.jsonl");
        write(&path, b"old and longer").expect("written");
        write(&path, b"new").expect("written");
        assert_eq!(fs::read(&path).expect("the file"), b"new");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn leftovers_of_a_killed_process_are_swept_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join(".epoch-0003.tmp")).expect("a folder");
        for name in [".a.tmp", ".hidden", "b.tmp"] {
            fs::write(folder.path().join(name), "x").expect("a file");
        }
        sweep(folder.path()).expect("swept");
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
        left.sort();
        assert_eq!(left, [".hidden", "b.tmp"]);
    }

    #[test]
    fn a_folder_appears_with_all_its_files_and_goes_at_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("epoch-0001");
        write_folder(&path, &[("a", b"1"), ("b", b"2")]).expect("written");
        assert_eq!(fs::read(path.join("b")).expect("the file"), b"2");
        remove_folder(&path).expect("removed");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn an_error_names_the_file_and_what_was_attempted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let message = write(&folder.path().join("no/such/file"), b"x").expect_err("no folder").to_string();
        assert!(message.starts_with("cannot write 1 bytes to ") && message.contains(".file.tmp"), "{message}");
    }
}
