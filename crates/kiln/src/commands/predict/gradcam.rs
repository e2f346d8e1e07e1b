//! Heat maps on disk: one PNG a picture, under the picture's name.

use anyhow::Context;
use kiln_train::HeatMap;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A folder that heat maps are written to.
pub(super) struct GradCam {
    folder: PathBuf,
    names: HashSet<String>,
}

impl GradCam {
    /// Makes the folder if need be.
    pub(super) fn into_folder(folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {} for --gradcam", folder.display()))?;
        Ok(Self { folder: folder.to_owned(), names: HashSet::new() })
    }

    /// Writes the map of `file`; of several files with one name, the later ones get a number.
    pub(super) fn write(&mut self, file: &Path, map: &HeatMap) -> anyhow::Result<()> {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut name = format!("{stem}.png");
        for number in 2.. {
            if self.names.insert(name.clone()) {
                break;
            }
            name = format!("{stem}-{number}.png");
        }
        Ok(map.picture().write_png(&self.folder.join(name))?)
    }
}
