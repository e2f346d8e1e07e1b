//! The embedded data set: drawn scenes of ten things, so that everything runs with nothing downloaded.
//!
//! In: [`ScenesConfig`]. Out: [`Splits`] over real JPEG files, written once into a cache folder.
//! Colour, position, scale, rotation, background, lighting and noise are drawn for every picture and say nothing
//! about the class; the shape does. The nearest training picture by pixels has the right class for less than half of the
//! validation pictures, which a test asserts.
//!
//! A picture depends on the seed, its split and its index alone. The folder appears under its name when it is
//! complete (written aside, then renamed), with a marker that holds the options it was made with.
//! Not done here: the drawings themselves (`scenes/drawing.rs`, `scenes/things.rs`).

mod drawing;
mod things;

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use image::codecs::jpeg::JpegEncoder;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Dataset, Splits, image_folder::ImageFolder};
use crate::error::DataError;
pub use things::CLASSES;

/// Grows when the same options give other pictures, so that an old cache isn't taken for a new one.
const VERSION: u32 = 2;

/// Name of the marker file. It holds [`ScenesConfig::description`].
const MARKER: &str = "scenes.txt";

/// JPEG quality of the files: visible edges stay clean, a file takes about 8 kB.
const QUALITY: u8 = 90;

/// How many pictures, how large, which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenesConfig {
    /// Training pictures, spread evenly over the classes. Default 1,000.
    pub train_images: usize,
    /// Validation pictures. Default 250.
    pub val_images: usize,
    /// Width and height in pixels. Default 160.
    pub size: u32,
    /// Determines every picture. Default 0.
    pub seed: u64,
}

impl Default for ScenesConfig {
    fn default() -> Self {
        Self { train_images: 1000, val_images: 250, size: 160, seed: 0 }
    }
}

impl ScenesConfig {
    fn validate(&self) -> Result<(), DataError> {
        let num_classes = CLASSES.len();
        let mut problems = Vec::new();
        for (name, count) in [("train_images", self.train_images), ("val_images", self.val_images)] {
            if count < num_classes {
                problems.push(format!("{name} is {count}; every one of the {num_classes} classes needs an image"));
            }
        }
        if !(16..=4096).contains(&self.size) {
            problems.push(format!("size is {}; it must lie between 16 and 4096", self.size));
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(DataError::Config { what: "options of the embedded data set", problems }),
        }
    }

    fn folder_name(&self) -> String {
        let Self { train_images, val_images, size, seed } = self;
        format!("scenes-v{VERSION}-{train_images}+{val_images}-{size}px-seed{seed}")
    }

    /// The marker's text.
    fn description(&self) -> String {
        let Self { train_images, val_images, size, seed } = self;
        format!(
            "# Drawn by Kiln; delete this folder and it is drawn again.\nversion = {VERSION}\n\
             train_images = {train_images}\nval_images = {val_images}\nsize = {size}\nseed = {seed}\n"
        )
    }
}

/// Opens the embedded data set, drawing it first if the cache doesn't hold it.
///
/// `cache_dir`: where to keep it; `None` takes [`default_cache_dir`].
///
/// # Errors
/// [`DataError::Config`], [`DataError::NoCacheFolder`], or [`DataError::Write`] with the file that failed.
pub fn open_or_create(cache_dir: Option<&Path>, config: &ScenesConfig) -> Result<Splits, DataError> {
    config.validate()?;
    let cache = match cache_dir {
        Some(folder) => folder.to_path_buf(),
        None => default_cache_dir()?,
    };
    let folder = cache.join(config.folder_name());
    match open_complete(&folder, config) {
        Some(splits) => Ok(splits),
        None => {
            tracing::info!(?folder, images = config.train_images + config.val_images, "drawing the embedded data set");
            create(&cache, &folder, config)?;
            open_both(&folder)
        }
    }
}

/// The folder for what can be made again: `KILN_CACHE_DIR`, or `kiln` in `XDG_CACHE_HOME`, `~/.cache` or, on Windows,
/// `LOCALAPPDATA`.
///
/// # Errors
/// [`DataError::NoCacheFolder`] if none of the variables is set.
pub fn default_cache_dir() -> Result<PathBuf, DataError> {
    cache_dir_from(|name| env::var_os(name)).ok_or(DataError::NoCacheFolder)
}

fn cache_dir_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The XDG specification has relative paths ignored, and an empty variable is an unset one.
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let chosen = variable("KILN_CACHE_DIR").filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let local = || if cfg!(windows) { absolute("LOCALAPPDATA") } else { None };
    chosen.or_else(|| Some(local().or_else(cache)?.join("kiln")))
}

/// The data set in `folder`, if it is there, was made with these options and has all its files.
fn open_complete(folder: &Path, config: &ScenesConfig) -> Option<Splits> {
    let marker = fs::read_to_string(folder.join(MARKER)).ok()?;
    let splits = open_both(folder).ok()?;
    let complete = splits.train.len() == config.train_images && splits.val.len() == config.val_images;
    (marker == config.description() && complete).then_some(splits)
}

fn open_both(folder: &Path) -> Result<Splits, DataError> {
    let train = ImageFolder::open(&folder.join("train"))?;
    let val = ImageFolder::open_with_classes(&folder.join("val"), train.classes().to_vec())?;
    Ok(Splits { train: Arc::new(train), val: Arc::new(val) })
}

/// Draws everything beside `folder`, then gives it the name.
fn create(cache: &Path, folder: &Path, config: &ScenesConfig) -> Result<(), DataError> {
    let unfinished = Unfinished::new(cache, &config.folder_name())?;
    draw_split(&unfinished.0, "train", 0, config.train_images, config)?;
    draw_split(&unfinished.0, "val", 1, config.val_images, config)?;
    write(&unfinished.0.join(MARKER), |file| file.write_all(config.description().as_bytes()))?;
    match fs::rename(&unfinished.0, folder) {
        Ok(()) => Ok(()),
        // Another process was faster.
        Err(_) if open_complete(folder, config).is_some() => Ok(()),
        // A damaged copy is in the way. The marker makes sure that it is ours.
        Err(_) if folder.join(MARKER).is_file() => fs::remove_dir_all(folder)
            .and_then(|()| fs::rename(&unfinished.0, folder))
            .map_err(|reason| DataError::Write { path: folder.to_path_buf(), reason }),
        Err(reason) => Err(DataError::Write { path: folder.to_path_buf(), reason }),
    }
}

/// Draws the pictures of one split, all classes in turn.
fn draw_split(root: &Path, name: &str, split: u64, num_images: usize, config: &ScenesConfig) -> Result<(), DataError> {
    for class in CLASSES {
        let path = root.join(name).join(class);
        fs::create_dir_all(&path).map_err(|reason| DataError::Write { path, reason })?;
    }
    (0..num_images).into_par_iter().try_for_each(|index| {
        let class = index % CLASSES.len();
        let pixels = drawing::scene(class, config.size, config.seed, split, index as u64);
        write(&root.join(name).join(CLASSES[class]).join(format!("{index:05}.jpg")), |file| {
            let mut encoder = JpegEncoder::new_with_quality(file, QUALITY);
            encoder.encode(&pixels, config.size, config.size, image::ExtendedColorType::Rgb8).map_err(io::Error::other)
        })
    })
}

/// Writes one file; the error names it.
fn write(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), DataError> {
    let written = File::create(path).map(BufWriter::new).and_then(|mut file| {
        content(&mut file)?;
        file.flush()
    });
    written.map_err(|reason| DataError::Write { path: path.to_path_buf(), reason })
}

/// A folder under a temporary name. Dropping it removes what is left of it.
struct Unfinished(PathBuf);

impl Unfinished {
    fn new(cache: &Path, name: &str) -> Result<Self, DataError> {
        // Two threads of one process must not share the folder either.
        static NUM_MADE: AtomicU32 = AtomicU32::new(0);
        let number = NUM_MADE.fetch_add(1, Ordering::Relaxed);
        let path = cache.join(format!(".{name}.{}-{number}", process::id()));
        // A run that was killed may have had the same process id.
        let _ = fs::remove_dir_all(&path);
        match fs::create_dir_all(&path) {
            Ok(()) => Ok(Self(path)),
            Err(reason) => Err(DataError::Write { path, reason }),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests;
