//! Gives burn's CUDA backend one folder of CUDA headers.
//!
//! It looks in `$CUDA_PATH/include` and `$CUDA_PATH/include/cccl` and nowhere else, while NVIDIA's wheels for
//! CUDA 12 spread the headers over `cuda_runtime`, `cuda_nvcc` and `cuda_cccl`. Where they are spread, a tree
//! of links to them is made once in the user's cache folder (copies on Windows, where links need a privilege).

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The folder to set `CUDA_PATH` to, so that all headers of `includes` are found.
///
/// # Errors
/// Neither the cache folder nor the temporary folder can be written to.
pub(super) fn cuda_path(includes: &[PathBuf]) -> io::Result<PathBuf> {
    if let [only] = includes
        && only.file_name().is_some_and(|name| name == "include")
        && let Some(parent) = only.parent()
    {
        return Ok(parent.to_owned());
    }
    let places = cache_folder().into_iter().chain([env::temp_dir()]);
    let mut result = Err(io::Error::other("no folder to gather them in"));
    for place in places {
        result = gather(includes, &place.join("kiln"));
        if result.is_ok() {
            break;
        }
    }
    result
}

fn cache_folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if cfg!(windows) {
        return set("LOCALAPPDATA");
    }
    set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))
}

/// Makes, or finds, the tree for `includes` below `place`. Its name depends on the folders and their times, so
/// that upgraded wheels get a new one.
fn gather(includes: &[PathBuf], place: &Path) -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    for folder in includes {
        folder.hash(&mut hasher);
        let modified = fs::metadata(folder)?.modified();
        modified.unwrap_or(SystemTime::UNIX_EPOCH).hash(&mut hasher);
    }
    let tree = place.join(format!("cuda-headers-{:016x}", hasher.finish()));
    if tree.is_dir() {
        return Ok(tree);
    }
    // Built beside and renamed, so that another process never sees half of it.
    let unfinished = place.join(format!(".cuda-headers-{}", std::process::id()));
    let _ = fs::remove_dir_all(&unfinished);
    fill(includes, &unfinished.join("include"))?;
    if let Err(error) = fs::rename(&unfinished, &tree) {
        let _ = fs::remove_dir_all(&unfinished);
        if !tree.is_dir() {
            return Err(error);
        }
    }
    Ok(tree)
}

fn fill(includes: &[PathBuf], target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    for folder in includes {
        // The C++ standard library for CUDA is expected in a folder of its own.
        if folder.join("cuda/barrier").exists() && !target.join("cccl").exists() {
            link(folder, &target.join("cccl"))?;
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = target.join(entry.file_name());
            // The first folder that has a header wins.
            if !name.exists() {
                link(&entry.path(), &name)?;
            }
        }
    }
    Ok(())
}

#[cfg(unix)]
fn link(original: &Path, name: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(original, name)
}

#[cfg(not(unix))]
fn link(original: &Path, name: &Path) -> io::Result<()> {
    if !original.is_dir() {
        return fs::copy(original, name).map(drop);
    }
    fs::create_dir_all(name)?;
    for entry in fs::read_dir(original)? {
        let entry = entry?;
        link(&entry.path(), &name.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a written file");
    }

    #[test]
    fn a_single_include_folder_is_used_as_it_is() {
        let includes = [PathBuf::from("/usr/local/cuda/include")];
        assert_eq!(cuda_path(&includes).expect("nothing to gather"), Path::new("/usr/local/cuda"));
    }

    #[test]
    fn spread_headers_are_gathered_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let wheel = |name: &str| folder.path().join("nvidia").join(name).join("include");
        write(wheel("cuda_runtime").join("cuda_runtime.h"), "runtime");
        write(wheel("cuda_runtime").join("mma.h"), "mma");
        write(wheel("cuda_nvcc").join("crt/mma.h"), "crt");
        write(wheel("cuda_cccl").join("cuda/barrier"), "barrier");
        let includes = [wheel("cuda_runtime"), wheel("cuda_nvcc"), wheel("cuda_cccl")];

        let tree = gather(&includes, &folder.path().join("cache")).expect("a tree");
        for (name, text) in [
            ("cuda_runtime.h", "runtime"),
            ("mma.h", "mma"),
            ("crt/mma.h", "crt"),
            ("cuda/barrier", "barrier"),
            ("cccl/cuda/barrier", "barrier"),
        ] {
            let found = fs::read_to_string(tree.join("include").join(name)).expect(name);
            assert_eq!(found, text);
        }
        let again = gather(&includes, &folder.path().join("cache")).expect("the same tree");
        assert_eq!(again, tree);
    }
}
