//! What Kiln changes about its own process: three environment variables, the libraries it loads ahead of burn,
//! and how cubecl tunes kernels. Everything that reaches outside the crate's values is in this file.

use std::path::{Path, PathBuf};

/// `XDG_RUNTIME_DIR` and a folder to set it to, if it isn't set.
///
/// Mesa's Vulkan drivers want such a folder and print an error without one, in containers and cron jobs for
/// example. It is made in the temporary folder, readable by this user only.
pub(crate) fn missing_runtime_dir() -> Option<(&'static str, PathBuf)> {
    const NAME: &str = "XDG_RUNTIME_DIR";
    if !cfg!(target_os = "linux") || std::env::var_os(NAME).is_some() {
        return None;
    }
    Some((NAME, private_folder()?))
}

/// Sets `XDG_RUNTIME_DIR` if it isn't set.
pub(crate) fn set_runtime_dir() {
    if let Some((name, folder)) = missing_runtime_dir() {
        set_variable(name, &folder);
    }
}

/// Sets `CUDA_PATH`, where burn's CUDA backend looks for headers.
#[cfg(feature = "cuda")]
pub(crate) fn set_cuda_path(path: &Path) {
    set_variable("CUDA_PATH", path);
}

/// A folder in the temporary folder that belongs to this user alone.
#[cfg(unix)]
fn private_folder() -> Option<PathBuf> {
    use std::{
        fs,
        os::unix::fs::{DirBuilderExt, MetadataExt},
    };
    // The owner of this process's own entry is this user.
    let user = fs::metadata("/proc/self").ok()?.uid();
    let folder = std::env::temp_dir().join(format!("kiln-runtime-{user}"));
    let _ = fs::DirBuilder::new().mode(0o700).create(&folder);
    // Someone else may have made it first, as a folder or as a link.
    let made = fs::symlink_metadata(&folder).ok()?;
    (made.is_dir() && made.uid() == user && made.mode() & 0o077 == 0).then_some(folder)
}

#[cfg(not(unix))]
fn private_folder() -> Option<PathBuf> {
    None
}

fn set_variable(name: &str, value: &Path) {
    // SAFETY: Rust's own accesses to the environment exclude each other; what remains is C code calling
    // `getenv` in another thread at this moment. Kiln has no such thread running here: it sets variables only
    // before it loads a driver. The documentation of `inventory` and `open` asks the same of the program.
    #[expect(unsafe_code, reason = "libraries written in C read the environment")]
    unsafe {
        std::env::set_var(name, value);
    }
}

/// Loads a shared library for the rest of the process and makes its symbols visible to libraries loaded later.
///
/// # Errors
/// The loader's message.
#[cfg(any(feature = "cuda", test))]
pub(crate) fn preload(path: &Path) -> Result<(), String> {
    #[cfg(unix)]
    let opened = {
        use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
        // SAFETY: the initialisers of NVIDIA's libraries set up their own memory, and an alias has none.
        #[expect(unsafe_code, reason = "loading a shared library runs code in it")]
        unsafe {
            Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL)
        }
    };
    #[cfg(not(unix))]
    let opened = {
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "loading a shared library runs code in it")]
        unsafe {
            libloading::Library::new(path)
        }
    };
    match opened {
        Ok(library) => {
            // burn keeps using it until the process ends.
            std::mem::forget(library);
            Ok(())
        }
        Err(error) => Err(format!("{} does not load ({error})", path.display())),
    }
}

/// Tells cubecl how to search for the fastest kernels on a software driver, before anything else uses cubecl.
///
/// At its usual level cubecl first measures the device's peak rates, to know when a kernel is fast enough to
/// stop searching. That takes a GPU little and a software driver most of the search: five convolutions forward
/// and backward take 111 s for the first time on llvmpipe (2 cores), and 31 s at the level `Full`, which
/// measures no peaks, with one sample a candidate. What the user sets in `CUBECL_AUTOTUNE_LEVEL` or
/// `cubecl.toml` stands, and so does a configuration that the program has set itself.
#[cfg(feature = "wgpu")]
pub(crate) fn set_software_tuning() {
    use cubecl::config::{
        CubeClRuntimeConfig, RuntimeConfig,
        autotune::{AutotuneLevel, BenchConfig},
    };
    let mut config = CubeClRuntimeConfig::from_current_dir();
    if matches!(config.autotune.level, AutotuneLevel::Balanced) {
        config.autotune.level = AutotuneLevel::Full;
        config.autotune.bench = BenchConfig { min_samples: 1, max_samples: 1, ..BenchConfig::default() };
    }
    CubeClRuntimeConfig::try_set(config.override_from_env());
}
