//! Puts an NVRTC library and its headers where burn's CUDA backend looks for them.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use super::{Installation, headers};
use crate::{environment, inventory::Problem};

/// Makes burn's CUDA backend use `installation`: loads its library, so that cudarc's later search finds it
/// loaded, and sets `CUDA_PATH` to its headers. The first call of a process decides; cudarc keeps what it found
/// first.
///
/// # Errors
/// What kept the library or the headers from being used.
pub(crate) fn prepare(installation: &Installation) -> Result<(), Problem> {
    static PREPARED: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = &*prepared {
        if *library != installation.library {
            tracing::warn!(
                "{} is in use already; {} is not loaded beside it",
                library.display(),
                installation.library.display()
            );
        }
        return Ok(());
    }
    environment::preload(&installation.library).map_err(Problem::new)?;
    #[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
    if let Err(error) = super::alias::load("libnvrtc.so", &installation.library) {
        // Without it cudarc may find another NVRTC of the system first.
        tracing::debug!("no alias for NVRTC: {error}");
    }
    let cuda_path = headers::cuda_path(&installation.includes).map_err(|error| {
        Problem::new(format!("the CUDA headers can't be gathered: {error}"))
            .with_remedy("set CUDA_PATH to a CUDA toolkit")
    })?;
    environment::set_cuda_path(&cuda_path);
    *prepared = Some(installation.library.clone());
    Ok(())
}
