//! The files by which the Vulkan loader finds drivers: the loader's own library and the JSON manifests.
//!
//! Nothing is loaded: a driver that is named and not there, or a manifest that isn't JSON, is found by reading.
//! Source: the Khronos Vulkan loader's documentation, "Driver interface to the Vulkan loader". Linux only; other
//! systems keep the list elsewhere.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use super::library_file;

/// One driver's manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The JSON file.
    pub(crate) path: PathBuf,
    /// What keeps the driver from being loaded.
    pub(crate) defect: Option<String>,
}

impl Manifest {
    /// Whether it is NVIDIA's own driver, by its file's name.
    pub(crate) fn is_nvidia(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        name.contains("nvidia")
    }
}

/// The manifests the loader would read in this process's environment.
pub(crate) fn manifests() -> Vec<Manifest> {
    if !cfg!(target_os = "linux") {
        return Vec::new();
    }
    manifests_of(&|name| env::var_os(name).filter(|value| !value.is_empty()))
}

fn manifests_of(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<Manifest> {
    let named = variable("VK_DRIVER_FILES").or_else(|| variable("VK_ICD_FILENAMES"));
    let paths = match &named {
        Some(list) => env::split_paths(list).collect(),
        None => default_folders(variable),
    };
    let mut files: Vec<PathBuf> = paths.into_iter().flat_map(|path| files_of(&path, named.is_some())).collect();
    files.dedup();
    files.into_iter().map(|path| Manifest { defect: defect(&path), path }).collect()
}

fn default_folders(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let home = variable("HOME").map(PathBuf::from);
    let of_home = |relative: &str| home.as_ref().map(|home| home.join(relative));
    let mut bases: Vec<PathBuf> = Vec::new();
    bases.extend(variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| of_home(".config")));
    bases.push("/etc".into());
    bases.extend(variable("XDG_DATA_HOME").map(PathBuf::from).or_else(|| of_home(".local/share")));
    let data = variable("XDG_DATA_DIRS").unwrap_or_else(|| "/usr/local/share:/usr/share".into());
    bases.extend(env::split_paths(&data));
    bases.into_iter().map(|base| base.join("vulkan/icd.d")).collect()
}

/// A folder's JSON files, or the file itself. A named file that doesn't exist is kept: it is a defect.
fn files_of(path: &Path, named: bool) -> Vec<PathBuf> {
    if !path.is_dir() {
        return if named { vec![path.to_owned()] } else { Vec::new() };
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_json(path)).collect();
    files.sort();
    files
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

fn defect(path: &Path) -> Option<String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return Some(format!("can't be read ({error})")),
    };
    if text.trim().is_empty() {
        return Some("is empty".to_owned());
    }
    let json: serde_json::Value = match serde_json::from_str(&text) {
        Ok(json) => json,
        Err(error) => return Some(format!("is not JSON ({error})")),
    };
    let Some(library) = json["ICD"]["library_path"].as_str() else {
        return Some("names no driver (ICD.library_path)".to_owned());
    };
    // A bare name is searched for by the loader; a path is relative to the manifest.
    if !library.contains('/') {
        return library_file::defects_of(library).into_iter().next().map(|defect| format!("names a driver: {defect}"));
    }
    let library = path.parent().unwrap_or(Path::new("")).join(library);
    if !library.exists() {
        return Some(format!("names {}, which doesn't exist", library.display()));
    }
    library_file::defect(&library).map(|defect| format!("names {}, which {defect}", library.display()))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn defects_of_manifests_are_found_by_reading() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dangling = r#"{"ICD": {"library_path": "/nowhere/libvulkan_x.so"}}"#;
        for (name, text) in [("1.json", ""), ("2.json", "{"), ("3.json", "{}"), ("4.json", dangling)] {
            fs::write(folder.path().join(name), text).expect("a written file");
        }
        fs::write(folder.path().join("notes.txt"), "not a manifest").expect("a written file");
        let value = folder.path().as_os_str().to_owned();
        let found = manifests_of(&|name| (name == "VK_DRIVER_FILES").then(|| value.clone()));
        let defects: Vec<String> = found.into_iter().filter_map(|manifest| manifest.defect).collect();
        assert_eq!(defects.len(), 4);
        for (defect, part) in defects.iter().zip(["is empty", "is not JSON", "names no driver", "doesn't exist"]) {
            assert!(defect.contains(part), "{defect}");
        }
    }

    #[test]
    fn a_named_file_that_is_not_there_is_a_defect() {
        let found = manifests_of(&|name| (name == "VK_ICD_FILENAMES").then(|| "/nowhere/nvidia_icd.json".into()));
        assert_eq!(found.len(), 1);
        assert!(found[0].is_nvidia());
        assert!(found[0].defect.as_deref().is_some_and(|defect| defect.contains("can't be read")));
    }

    #[test]
    fn data_folders_are_searched_as_the_loader_does() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir_all(folder.path().join("vulkan/icd.d")).expect("a folder");
        fs::write(folder.path().join("vulkan/icd.d/x_icd.json"), "{}").expect("a written file");
        let value = folder.path().as_os_str().to_owned();
        let found = manifests_of(&|name| (name == "XDG_DATA_DIRS").then(|| value.clone()));
        assert!(found.iter().any(|manifest| manifest.path.starts_with(folder.path())));
    }
}
