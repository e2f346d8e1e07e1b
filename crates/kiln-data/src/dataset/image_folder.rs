//! ImageFolder: one folder per class, the layout torchvision made common.
//!
//! In: `train/<class>/**` and `val/<class>/**` under any of their usual names, or `<class>/**` alone, which is
//! then split by a seeded fraction. Out: [`Splits`]. Classes are sorted by name as bytes, so `"10"` comes before `"2"`,
//! as in torchvision; the training set defines them, and the validation set is mapped to them by name.
//!
//! The split is drawn for each class from a hash of each file's path: the order of the file system plays no part,
//! and a new file doesn't move the others across.
//! Not done here: looking into the files (`decode.rs`), CSV labels and archives.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder_scan::{self, Listing, Pictures, Subfolder, text_from_name};
use super::{Dataset, OpenOptions, Sample, Splits};
use crate::augment::Draws;
use crate::error::DataError;

/// Names of the training set's folder, lower case.
const TRAIN_NAMES: [&str; 3] = ["train", "training", "trn"];

/// Names of the validation set's folder, lower case; the first that is there is taken.
const VAL_NAMES: [&str; 9] = ["val", "valid", "validation", "dev", "eval", "evaluation", "test", "testing", "tst"];

/// A folder of class folders.
#[derive(Clone, Debug)]
pub struct ImageFolder {
    root: PathBuf,
    classes: Vec<String>,
    /// Folders that hold files. Shared by the two halves of a split.
    folders: Arc<[PathBuf]>,
    files: Vec<File>,
}

#[derive(Clone, Debug)]
struct File {
    folder: u32,
    label: u32,
    name: Box<OsStr>,
}

/// Opens an image folder in any of its layouts.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Splits, DataError> {
    if !(options.val_fraction > 0.0 && options.val_fraction < 1.0) {
        let problem = format!("val_fraction is {}; it must lie between 0 and 1", options.val_fraction);
        return Err(DataError::Config { what: "data set options", problems: vec![problem] });
    }
    let listing = folder_scan::list(&checked_root(path)?)?;
    let (train, val) = match layout(&listing) {
        Layout::TrainAndVal(train, val) => {
            let train = ImageFolder::open(&train.path)?;
            let val = ImageFolder::open_with_classes(&val.path, train.classes.clone())?;
            (train, val)
        }
        Layout::TrainOnly(train) => ImageFolder::open(&train.path)?.split(options),
        Layout::Classes => ImageFolder::open(path)?.split(options),
    };
    for (split, found) in [("train", &train), ("val", &val)] {
        tracing::info!(split, folder = ?found.root, images = found.len(), classes = found.classes.len(), "opened");
    }
    if val.is_empty() {
        let problem = "no class has the two images it takes to set one aside for validation".into();
        return Err(layout_error(path, problem, "add images or give a val folder"));
    }
    Ok(Splits { train: Arc::new(train), val: Arc::new(val) })
}

enum Layout<'a> {
    TrainAndVal(&'a Subfolder, &'a Subfolder),
    TrainOnly(&'a Subfolder),
    Classes,
}

/// Tells splits from classes. `train` is also a vehicle: without a validation folder beside it, it's a split
/// only if it stands alone.
fn layout(listing: &Listing) -> Layout<'_> {
    let find = |names: &[&str]| {
        names.iter().find_map(|known| listing.subfolders.iter().find(|folder| folder.name.eq_ignore_ascii_case(known)))
    };
    match (find(&TRAIN_NAMES), find(&VAL_NAMES)) {
        (Some(train), Some(val)) => Layout::TrainAndVal(train, val),
        (Some(train), None) if listing.subfolders.len() == 1 => Layout::TrainOnly(train),
        _ => Layout::Classes,
    }
}

fn checked_root(path: &Path) -> Result<PathBuf, DataError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(path.to_path_buf()),
        Ok(_) => Err(layout_error(path, "it is a file".into(), "give the folder that holds the class folders")),
        Err(reason) => Err(layout_error(path, reason.to_string(), "check the path")),
    }
}

impl ImageFolder {
    /// Opens a folder of class folders; its subfolders define the classes.
    ///
    /// # Errors
    /// [`DataError::Layout`] with fewer than two classes, [`DataError::EmptyClasses`], [`DataError::ReadFolder`].
    pub fn open(root: &Path) -> Result<Self, DataError> {
        let class_folders = class_folders(root)?;
        let classes: Vec<_> = class_folders.iter().map(|folder| text_from_name(&folder.name)).collect();
        let labelled = class_folders.iter().zip(0..);
        let found = Self::scan(root, labelled, classes.clone())?;
        let counts = found.images_per_class();
        let empty = classes.iter().zip(counts).filter(|(_, count)| *count == 0).map(|(class, _)| class.clone());
        let empty: Vec<_> = empty.collect();
        match (empty.is_empty(), classes.len()) {
            (false, _) => Err(DataError::EmptyClasses { path: root.to_path_buf(), classes: empty }),
            (true, 1) => {
                let problem = format!("there is one class folder only, {:?}", classes[0]);
                Err(layout_error(root, problem, "give the folder that holds one folder per class, at least two"))
            }
            (true, _) => {
                warn_of_case_twins(&classes);
                Ok(found)
            }
        }
    }

    /// Opens a folder of class folders and maps them by name to classes defined elsewhere: by the training set,
    /// or by a checkpoint. Classes it lacks are reported and have no images.
    ///
    /// # Errors
    /// [`DataError::UnknownClasses`] if it has others, [`DataError::Layout`], [`DataError::ReadFolder`].
    pub fn open_with_classes(root: &Path, classes: Vec<String>) -> Result<Self, DataError> {
        let class_folders = class_folders(root)?;
        let labels: HashMap<_, _> = classes.iter().zip(0u32..).map(|(class, label)| (class.as_str(), label)).collect();
        let (mut labelled, mut unknown) = (Vec::new(), Vec::new());
        for folder in &class_folders {
            let class = text_from_name(&folder.name);
            match labels.get(class.as_str()) {
                Some(&label) => labelled.push((folder, label)),
                None => unknown.push(class),
            }
        }
        if !unknown.is_empty() {
            return Err(DataError::UnknownClasses { path: root.to_path_buf(), unknown, known: classes });
        }
        let found = Self::scan(root, labelled.into_iter(), classes)?;
        if found.is_empty() {
            return Err(layout_error(
                root,
                "its class folders hold no images".into(),
                "add images or remove the folder",
            ));
        }
        for (class, count) in found.classes.iter().zip(found.images_per_class()) {
            if count == 0 {
                tracing::warn!(class, folder = ?root, "no images of this class; its accuracy can't be measured here");
            }
        }
        Ok(found)
    }

    fn scan<'a>(
        root: &Path,
        labelled: impl Iterator<Item = (&'a Subfolder, u32)>,
        classes: Vec<String>,
    ) -> Result<Self, DataError> {
        let (mut folders, mut files) = (Vec::new(), Vec::new());
        for (class_folder, label) in labelled {
            for Pictures { folder, files: names } in folder_scan::pictures_below(&class_folder.path)? {
                let index = folders.len() as u32;
                files.extend(names.into_iter().map(|name| File { folder: index, label, name }));
                folders.push(folder);
            }
        }
        Ok(Self { root: root.to_path_buf(), classes, folders: folders.into(), files })
    }

    /// Sets a seeded share of every class aside, at least one image of a class of two or more.
    fn split(self, options: &OpenOptions) -> (Self, Self) {
        let mut by_class = vec![Vec::new(); self.classes.len()];
        for index in 0..self.files.len() {
            let rank = Draws::new(options.seed, 0, fnv1a(self.name(index).as_bytes()), Draws::ORDER).next_u64();
            by_class[self.files[index].label as usize].push((rank, index));
        }
        let mut in_val = vec![false; self.files.len()];
        for mut ranked in by_class {
            ranked.sort_unstable();
            let wanted = (ranked.len() as f64 * options.val_fraction).round() as usize;
            let num_val = wanted.max(1).min(ranked.len().saturating_sub(1));
            ranked[..num_val].iter().for_each(|&(_, index)| in_val[index] = true);
        }
        let half = |val| Self { files: self.filtered(|index| in_val[index] == val), ..self.clone_without_files() };
        (half(false), half(true))
    }

    fn filtered(&self, keep: impl Fn(usize) -> bool) -> Vec<File> {
        (0..self.files.len()).filter(|&index| keep(index)).map(|index| self.files[index].clone()).collect()
    }

    fn clone_without_files(&self) -> Self {
        Self {
            root: self.root.clone(),
            classes: self.classes.clone(),
            folders: self.folders.clone(),
            files: Vec::new(),
        }
    }

    fn images_per_class(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes.len()];
        self.files.iter().for_each(|file| counts[file.label as usize] += 1);
        counts
    }

    fn path(&self, index: usize) -> PathBuf {
        let file = &self.files[index];
        self.folders[file.folder as usize].join(&*file.name)
    }
}

impl Dataset for ImageFolder {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let encoded = fs::read(self.path(index));
        let encoded = encoded.map_err(|reason| DataError::Read { name: self.name(index), sample: index, reason })?;
        Ok(Sample { encoded, label: self.label(index) })
    }

    /// The path from the root, with slashes.
    fn name(&self, index: usize) -> String {
        let path = self.path(index);
        let inside = path.strip_prefix(&self.root).unwrap_or(&path);
        let parts: Vec<_> = inside.iter().map(text_from_name).collect();
        parts.join("/")
    }

    fn label(&self, index: usize) -> u32 {
        self.files[index].label
    }
}

/// The subfolders of `root`; loose pictures are reported.
fn class_folders(root: &Path) -> Result<Vec<Subfolder>, DataError> {
    let listing = folder_scan::list(root)?;
    let num_loose = listing.loose_pictures.len();
    match (listing.subfolders.is_empty(), num_loose) {
        (false, 0) => {}
        (false, _) => {
            let first = listing.loose_pictures.iter().min();
            tracing::warn!(folder = ?root, num_loose, ?first, "ignored images that lie outside of class folders");
        }
        (true, 0) => return Err(layout_error(root, "it has no class folders".into(), MAKE_CLASS_FOLDERS)),
        (true, _) => {
            let problem = format!("it has {num_loose} images and no class folders");
            return Err(layout_error(root, problem, MAKE_CLASS_FOLDERS));
        }
    }
    Ok(listing.subfolders)
}

const MAKE_CLASS_FOLDERS: &str = "put the images of each class in a folder named after the class";

fn layout_error(path: &Path, problem: String, remedy: &str) -> DataError {
    DataError::Layout { path: path.to_path_buf(), problem, remedy: remedy.into() }
}

/// `Cat` and `cat` are two classes here and one folder on Windows and macOS.
fn warn_of_case_twins(classes: &[String]) {
    let mut seen = HashMap::new();
    for class in classes {
        if let Some(twin) = seen.insert(class.to_lowercase(), class) {
            tracing::warn!(class, twin, "two classes differ only in upper and lower case");
        }
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): the hash must stay the same for ever, unlike the standard library's.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

#[cfg(test)]
mod tests;
