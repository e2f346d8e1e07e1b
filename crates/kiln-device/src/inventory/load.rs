//! Loading a driver's library, and telling one that isn't there from one that is broken.
//!
//! In: a path or a name. Out: the library, or a [`LoadError`]. Loaders say so in words only: glibc's on Linux, and
//! Windows' in the language of the system, which ends in a code all the same. Source: dlopen(3); "System Error Codes"
//! of the Windows API (126 is ERROR_MOD_NOT_FOUND, which is also said of a file whose own libraries are missing).

use std::path::Path;

use libloading::Library;

/// Why a library isn't loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadError {
    /// There is no such file.
    Absent,
    /// It is there and can't be loaded: the loader's own words.
    Broken(String),
}

/// Loads the library at `path`; a bare name is searched for as the system does.
pub(crate) fn load(path: &Path) -> Result<Library, LoadError> {
    // SAFETY: loading runs the library's initialisers. The file is the driver's, or one that the administrator or the
    // user put in its place; there is no way to use the driver without running it.
    #[expect(unsafe_code, reason = "loading a shared library runs code in it")]
    let loaded = unsafe { Library::new(path) };
    loaded.map_err(|error| {
        // libloading's message without its own wrapping.
        let inner = std::error::Error::source(&error).map(ToString::to_string);
        judge(path, inner.unwrap_or_else(|| error.to_string()), path.exists())
    })
}

/// What the loader's words mean, where the file at `path` `exists` or not.
fn judge(path: &Path, text: String, exists: bool) -> LoadError {
    // glibc begins with the file that it means, which may be one that the library needs.
    let by_glibc = text.starts_with(&*path.to_string_lossy()) && text.contains("cannot open shared object file");
    let by_windows = text.trim_end().ends_with("(os error 126)") && !exists;
    let absent = by_glibc || by_windows || (is_whole_path(path) && !exists);
    if absent { LoadError::Absent } else { LoadError::Broken(text) }
}

/// Whether the path leads from a root, of Linux or of Windows, on either.
fn is_whole_path(path: &Path) -> bool {
    path.is_absolute() || path.to_string_lossy().as_bytes().get(1) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_linux_and_windows_are_understood() {
        const NVML: &str = "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvml.dll";
        let not_found = "cannot open shared object file: No such file or directory";
        for (path, text, exists, absent) in [
            ("libcuda.so.1", &*format!("libcuda.so.1: {not_found}"), false, true),
            ("libcuda.so.1", &format!("libnvidia-ptxjitcompiler.so.1: {not_found}"), false, false),
            ("libcuda.so.1", "/usr/lib/libcuda.so.1: file too short", false, false),
            ("libcuda.so.1", "/usr/lib/libcuda.so.1: invalid ELF header", false, false),
            ("/usr/lib/wsl/lib/libcuda.so.1", "wrong ELF class: ELFCLASS32", true, false),
            ("/run/opengl-driver/lib/libcuda.so.1", "anything", false, true),
            ("nvcuda.dll", "The specified module could not be found. (os error 126)", false, true),
            ("nvcuda.dll", "Das angegebene Modul wurde nicht gefunden. (os error 126)", false, true),
            ("nvcuda.dll", "指定されたモジュールが見つかりません。 (os error 126)", false, true),
            ("nvcuda.dll", "%1 is not a valid Win32 application. (os error 193)", false, false),
            ("nvml.dll", "A dynamic link library (DLL) initialization routine failed. (os error 1114)", false, false),
            (NVML, "The specified module could not be found. (os error 126)", true, false),
            (NVML, "The system cannot find the path specified. (os error 3)", false, true),
        ] {
            let judged = judge(Path::new(path), text.to_owned(), exists);
            let expected = if absent { LoadError::Absent } else { LoadError::Broken(text.to_owned()) };
            assert_eq!(judged, expected, "{path}: {text}");
        }
    }
}
