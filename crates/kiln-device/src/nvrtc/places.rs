//! Where an NVRTC library and CUDA headers may be, found by looking at folders only.
//!
//! In the order of preference: `CUDA_PATH` and `CUDA_HOME`, the active virtual or conda environment,
//! `LD_LIBRARY_PATH` (`PATH` on Windows), the toolkit's usual folders, then the Pythons on `PATH` with their
//! site-packages. A Python's packages are found from where its program lies; no Python is run.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// A library and the folders of headers that go with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) library: PathBuf,
    pub(super) includes: Vec<PathBuf>,
}

/// A place to look in.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A CUDA toolkit, a conda environment, or anything else with `lib` and `include`.
    Root(PathBuf),
    /// A folder of libraries.
    Libraries(PathBuf),
    /// A Python's `site-packages`.
    SitePackages(PathBuf),
}

/// The places of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Vec<Place>);

impl Places {
    /// The places this process's environment names, and the usual ones.
    pub(super) fn of_this_process() -> Self {
        Self::from_variables(&|name| env::var_os(name))
    }

    pub(super) fn from_variables(variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut places = Self::default();
        for name in ["CUDA_PATH", "CUDA_HOME"] {
            places.extend(set(name).map(|path| Place::Root(path.into())));
        }
        // `uv` keeps a project's environment here and needs no activation.
        let active = set("VIRTUAL_ENV").map(PathBuf::from);
        for prefix in active.into_iter().chain(std::path::absolute(".venv")) {
            places.add_prefix(&prefix);
        }
        if let Some(prefix) = set("CONDA_PREFIX").map(PathBuf::from) {
            places.extend([Place::Root(prefix.clone())]);
            places.add_prefix(&prefix);
        }
        let library_path = if cfg!(windows) { "PATH" } else { "LD_LIBRARY_PATH" };
        if let Some(paths) = set(library_path) {
            places.extend(env::split_paths(&paths).map(Place::Libraries));
        }
        places.extend(usual_roots().into_iter().map(Place::Root));
        if let Some(paths) = set("PATH") {
            for folder in env::split_paths(&paths) {
                places.add_python(&folder);
            }
        }
        let user_base = if cfg!(windows) {
            set("APPDATA").map(|path| PathBuf::from(path).join("Python"))
        } else {
            set("HOME").map(|path| PathBuf::from(path).join(".local"))
        };
        if let Some(base) = user_base {
            places.add_prefix(&base);
        }
        places
    }

    fn extend(&mut self, places: impl IntoIterator<Item = Place>) {
        for place in places {
            if !self.0.contains(&place) {
                self.0.push(place);
            }
        }
    }

    /// Adds the packages of the Python installed at `prefix`.
    fn add_prefix(&mut self, prefix: &Path) {
        let mut folders = vec![prefix.join("Lib").join("site-packages")];
        for lib in ["lib", "lib64", "local/lib", ""] {
            for version in subfolders(&prefix.join(lib)) {
                let name = version.file_name().unwrap_or_default().to_string_lossy();
                if name.to_ascii_lowercase().starts_with("python3") {
                    folders.push(version.join("site-packages"));
                    folders.push(version.join("dist-packages"));
                }
            }
        }
        let existing = folders.into_iter().filter(|folder| folder.is_dir());
        self.extend(existing.map(Place::SitePackages));
    }

    /// Adds the packages of the Python whose program lies in `folder`, if one does.
    fn add_python(&mut self, folder: &Path) {
        // pyenv puts scripts of that name in a folder of their own, beside the versions they start.
        if folder.file_name().is_some_and(|name| name == "shims") {
            let versions = folder.parent().map(|root| root.join("versions"));
            for version in versions.iter().flat_map(|versions| subfolders(versions)) {
                self.add_prefix(&version);
            }
            return;
        }
        let names: &[&str] = if cfg!(windows) { &["python.exe"] } else { &["python3", "python"] };
        let Some(program) = names.iter().map(|name| folder.join(name)).find(|path| path.is_file()) else {
            return;
        };
        // On Windows the program lies in the prefix itself, elsewhere in its `bin`. Behind a link lies the
        // Python that a virtual environment was made from; the environment's own packages come first.
        for program in [Some(program.clone()), fs::canonicalize(&program).ok()] {
            let Some(folder) = program.as_deref().and_then(Path::parent) else {
                continue;
            };
            if cfg!(windows) {
                self.add_prefix(folder);
            }
            if let Some(prefix) = folder.parent() {
                self.add_prefix(prefix);
            }
        }
    }

    /// Every NVRTC library found in these places with the headers beside it, in order. A library without
    /// headers gets those of the first other place that has some.
    pub(super) fn installations(&self) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        for place in &self.0 {
            for new in place.installations() {
                let same = |known: &Found| fs::canonicalize(&known.library).ok() == fs::canonicalize(&new.library).ok();
                if !found.iter().any(same) {
                    found.push(new);
                }
            }
        }
        let elsewhere = self
            .0
            .iter()
            .map(Place::includes)
            .find(|includes| includes.iter().any(|folder| folder.join("cuda_runtime.h").exists()));
        if let Some(elsewhere) = elsewhere {
            for installation in &mut found {
                if installation.includes.is_empty() {
                    installation.includes.clone_from(&elsewhere);
                }
            }
        }
        found
    }
}

impl Place {
    fn installations(&self) -> Vec<Found> {
        let includes = self.includes();
        self.library_folders()
            .iter()
            .flat_map(|folder| libraries_in(folder))
            .map(|library| Found { includes: Self::includes_for(&library, &includes), library })
            .collect()
    }

    fn library_folders(&self) -> Vec<PathBuf> {
        match self {
            Self::Libraries(folder) => vec![folder.clone()],
            Self::Root(root) => [
                "lib64",
                "lib",
                "lib/x86_64-linux-gnu",
                "lib/aarch64-linux-gnu",
                "targets/x86_64-linux/lib",
                "targets/sbsa-linux/lib",
                "bin",
                "bin/x64",
                "Library/bin",
            ]
            .map(|name| root.join(name))
            .into(),
            Self::SitePackages(packages) => {
                let nvidia = packages.join("nvidia");
                let mut folders: Vec<_> = major_folders(&nvidia)
                    .into_iter()
                    .chain([nvidia.join("cuda_nvrtc")])
                    .flat_map(|root| ["lib", "bin", "bin/x86_64"].map(|name| root.join(name)))
                    .collect();
                folders.retain(|folder| folder.is_dir());
                folders
            }
        }
    }

    /// Folders of headers in this place that exist.
    fn includes(&self) -> Vec<PathBuf> {
        let mut folders = match self {
            Self::Libraries(folder) => folder.parent().map(|root| root.join("include")).into_iter().collect(),
            Self::Root(root) => {
                ["include", "targets/x86_64-linux/include", "targets/sbsa-linux/include", "Library/include"]
                    .map(|name| root.join(name))
                    .to_vec()
            }
            Self::SitePackages(packages) => {
                let nvidia = packages.join("nvidia");
                ["cuda_runtime", "cuda_nvcc", "cuda_cccl"]
                    .map(|wheel| nvidia.join(wheel))
                    .into_iter()
                    .chain(major_folders(&nvidia))
                    .map(|root| root.join("include"))
                    .collect()
            }
        };
        folders.retain(|folder| folder.is_dir());
        if let Self::Root(_) | Self::Libraries(_) = self {
            // A system's `include` is listed only if it holds CUDA's headers; the first that does is enough.
            folders.retain(|folder| folder.join("cuda_runtime.h").exists());
            folders.truncate(1);
        }
        folders
    }

    /// Of a place's folders of headers those that go with `library`: wheels of CUDA 13 keep theirs beside the
    /// library, in a folder they don't share with CUDA 12.
    fn includes_for(library: &Path, includes: &[PathBuf]) -> Vec<PathBuf> {
        let root = |path: &Path| {
            path.ancestors()
                .find(|folder| folder.file_name().is_some_and(|name| is_major(&name.to_string_lossy())))
                .map(Path::to_owned)
        };
        let ours = root(library);
        includes.iter().filter(|folder| root(folder) == ours).cloned().collect()
    }
}

/// `cu13`, `cu14`, ... in the `nvidia` folder of a Python, newest first.
fn major_folders(nvidia: &Path) -> Vec<PathBuf> {
    let mut folders = subfolders(nvidia);
    folders.retain(|folder| is_major(&folder.file_name().unwrap_or_default().to_string_lossy()));
    folders.sort();
    folders.reverse();
    folders
}

fn is_major(name: &str) -> bool {
    name.strip_prefix("cu").is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// NVRTC libraries in a folder, newest first: `libnvrtc.so.12` or, if there is no numbered one, `libnvrtc.so`;
/// `nvrtc64_120_0.dll` on Windows. Not the builtins, and not the build without the C++ library.
fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbered: Vec<(u32, PathBuf)> =
        names.filter_map(|entry| Some((major_of(entry.file_name().to_str()?, cfg!(windows))?, entry.path()))).collect();
    numbered.sort();
    numbered.reverse();
    let plain = folder.join("libnvrtc.so");
    if numbered.is_empty() && plain.is_file() {
        return vec![plain];
    }
    numbered.into_iter().map(|(_, path)| path).collect()
}

fn major_of(name: &str, on_windows: bool) -> Option<u32> {
    if on_windows {
        let number: u32 = name.strip_prefix("nvrtc64_")?.strip_suffix("_0.dll")?.parse().ok()?;
        return Some(number / 10);
    }
    name.strip_prefix("libnvrtc.so.")?.parse().ok()
}

fn usual_roots() -> Vec<PathBuf> {
    if cfg!(windows) {
        let toolkits = Path::new("C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA");
        let mut versions = subfolders(toolkits);
        versions.sort();
        versions.reverse();
        return versions;
    }
    ["/usr/local/cuda", "/opt/cuda", "/usr"].map(PathBuf::from).into()
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    // Folders come in no particular order; what is found first must not depend on that.
    folders.sort();
    folders.reverse();
    folders
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn touch(path: PathBuf) -> PathBuf {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, "").expect("a written file");
        path
    }

    fn site_packages(prefix: &Path) -> PathBuf {
        prefix.join("lib/python3.11/site-packages")
    }

    /// Places from a table of variables; everything else unset.
    fn places(variables: &[(&str, &Path)]) -> Places {
        Places::from_variables(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, path)| path.as_os_str().to_owned())
        })
    }

    /// What is found below `folder`: the machine that runs the test may have CUDA.
    fn found_below(places: &Places, folder: &Path) -> Vec<Found> {
        let mut found = places.installations();
        found.retain(|found| found.library.starts_with(folder));
        found
    }

    #[test]
    fn wheels_of_cuda_12_in_a_virtual_environment_are_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let nvidia = site_packages(folder.path()).join("nvidia");
        let library = touch(nvidia.join("cuda_nvrtc/lib/libnvrtc.so.12"));
        touch(nvidia.join("cuda_nvrtc/lib/libnvrtc-builtins.so.12.4"));
        touch(nvidia.join("cuda_runtime/include/cuda_runtime.h"));
        touch(nvidia.join("cuda_nvcc/include/crt/mma.h"));

        let found = found_below(&places(&[("VIRTUAL_ENV", folder.path())]), folder.path());
        let includes = ["cuda_runtime", "cuda_nvcc"].map(|name| nvidia.join(name).join("include"));
        assert_eq!(found, [Found { library, includes: includes.into() }]);
    }

    #[test]
    fn wheels_of_cuda_13_and_12_side_by_side_keep_their_own_headers() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let nvidia = site_packages(folder.path()).join("nvidia");
        let new = touch(nvidia.join("cu13/lib/libnvrtc.so.13"));
        touch(nvidia.join("cu13/include/cuda_runtime.h"));
        let old = touch(nvidia.join("cuda_nvrtc/lib/libnvrtc.so.12"));
        touch(nvidia.join("cuda_runtime/include/cuda_runtime.h"));

        let found = found_below(&places(&[("VIRTUAL_ENV", folder.path())]), folder.path());
        let expected = [(new, nvidia.join("cu13/include")), (old, nvidia.join("cuda_runtime/include"))]
            .map(|(library, include)| Found { library, includes: vec![include] });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_toolkit_named_by_cuda_path_goes_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let toolkit = folder.path().join("cuda-12.4");
        let first = touch(toolkit.join("lib64/libnvrtc.so.12"));
        touch(toolkit.join("include/cuda_runtime.h"));
        let environment = folder.path().join("venv");
        let second = touch(site_packages(&environment).join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12"));

        let places = places(&[("VIRTUAL_ENV", &environment), ("CUDA_PATH", &toolkit)]);
        let found = found_below(&places, folder.path());
        assert_eq!(found[0].library, first);
        assert_eq!(found[0].includes, [toolkit.join("include")]);
        assert_eq!(found[1].library, second);
        // It has no headers of its own and takes the toolkit's.
        assert_eq!(found[1].includes, [toolkit.join("include")]);
    }

    #[test]
    fn conda_environments_and_library_paths_are_searched() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let conda = folder.path().join("conda");
        let first = touch(conda.join("lib/libnvrtc.so.12"));
        touch(conda.join("targets/x86_64-linux/include/cuda_runtime.h"));
        let libraries = folder.path().join("libs");
        let second = touch(libraries.join("libnvrtc.so"));

        let places = places(&[("LD_LIBRARY_PATH", &libraries), ("CONDA_PREFIX", &conda)]);
        let found: Vec<_> = found_below(&places, folder.path()).into_iter().map(|found| found.library).collect();
        assert_eq!(found, [first, second]);
    }

    #[test]
    fn a_python_on_the_path_leads_to_its_packages_and_those_behind_a_link() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let base = folder.path().join("base");
        touch(base.join("bin/python3.11"));
        let behind = touch(site_packages(&base).join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12"));
        let environment = folder.path().join("environment");
        let own = touch(site_packages(&environment).join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12"));
        fs::create_dir_all(environment.join("bin")).expect("a folder");
        std::os::unix::fs::symlink(base.join("bin/python3.11"), environment.join("bin/python3")).expect("a link");

        let places = places(&[("PATH", &environment.join("bin"))]);
        let found: Vec<_> = found_below(&places, folder.path()).into_iter().map(|found| found.library).collect();
        assert_eq!(found, [own, behind]);
    }

    #[test]
    fn every_version_behind_pyenvs_scripts_is_searched() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let version = folder.path().join("versions/3.11.2");
        let library = touch(site_packages(&version).join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12"));
        let places = places(&[("PATH", &folder.path().join("shims"))]);
        assert_eq!(found_below(&places, folder.path())[0].library, library);
    }

    #[test]
    fn only_nvrtc_itself_counts_as_the_library() {
        for (name, major) in [
            ("libnvrtc.so.12", Some(12)),
            ("libnvrtc.so.13", Some(13)),
            ("libnvrtc.so.12.4.127", None),
            ("libnvrtc-builtins.so.12.4", None),
            ("libnvrtc.alt.so.12", None),
            ("libnvrtc.so", None),
        ] {
            assert_eq!(major_of(name, false), major, "{name}");
        }
        for (name, major) in [
            ("nvrtc64_120_0.dll", Some(12)),
            ("nvrtc64_130_0.dll", Some(13)),
            ("nvrtc64_112_0.dll", Some(11)),
            ("nvrtc-builtins64_124.dll", None),
            ("nvrtc64_120_0.alt.dll", None),
        ] {
            assert_eq!(major_of(name, true), major, "{name}");
        }
    }
}
