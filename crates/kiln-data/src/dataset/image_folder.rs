//! ImageFolder: one folder per class, the layout torchvision made common.
//!
//! In: `train/<class>/**` and `val/<class>/**` under any of their usual names, or `<class>/**` alone, which is
//! then split by a seeded fraction. Out: [`Splits`]. Classes are sorted by name as bytes, so `"10"` comes before `"2"`,
//! as in torchvision; the training set defines them, and the validation set is mapped to them by name.
//!
//! A class of which no file begins like a picture would be a phantom among the indices: it is refused or left out, by name.
//! Of every class the first picture's first bytes are read, and no more.
//! Not done here: listing (`folder_scan.rs`), looking into the rest of the files (`decode.rs`), CSV labels and archives.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder_scan::{self, Listing, PassedOver, Pictures, Subfolder, text_from_name, text_from_path};
use super::{Dataset, Findings, Format, OpenOptions, Sample, Splits, UnusableClasses, layout_error, subset};
use crate::decode::sniff;
use crate::error::DataError;

/// Names of the training set's folder, lower case.
pub(super) const TRAIN_NAMES: [&str; 3] = ["train", "training", "trn"];

/// Names of the validation set's folder, lower case; the first that is there is taken.
pub(super) const VAL_NAMES: [&str; 9] =
    ["val", "valid", "validation", "dev", "eval", "evaluation", "test", "testing", "tst"];

/// Any folder, taken for a folder of class folders.
pub(super) struct ClassFolders;

impl Format for ClassFolders {
    fn name(&self) -> &'static str {
        "ImageFolder"
    }

    fn recognises(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn open(&self, path: &Path, options: &OpenOptions, findings: &mut Findings) -> Result<Splits, DataError> {
        let listing = folder_scan::list(path, &mut PassedOver::default())?;
        let mut scan = Scan { shown_from: path, unusable: options.unusable_classes, findings };
        match layout(&listing)? {
            Layout::TrainAndVal(train, val) => {
                let train = scan.training_set(&train.path)?;
                let val = scan.with_classes(&val.path, train.classes.clone())?;
                Ok(Splits { train: Arc::new(train), val: Arc::new(val) })
            }
            Layout::TrainOnly(train) => {
                let beside: Vec<_> = listing.subfolders.iter().filter(|other| other.name != train.name).collect();
                if !beside.is_empty() {
                    let names: Vec<_> = beside.iter().map(|folder| format!("{:?}", folder.name)).collect();
                    scan.findings.remark(format!("ignored beside {:?}: {}", train.name, names.join(", ")));
                }
                split(scan.training_set(&train.path)?, path, options)
            }
            Layout::Classes => split(scan.training_set(path)?, path, options),
        }
    }
}

fn split(whole: ImageFolder, path: &Path, options: &OpenOptions) -> Result<Splits, DataError> {
    let whole = Arc::new(whole);
    // Without the name of the split's folder, so that it doesn't matter which of the two folders is named.
    subset::split(whole.clone(), path, options, |index| whole.name_in_split(index))
}

enum Layout<'a> {
    TrainAndVal(&'a Subfolder, &'a Subfolder),
    TrainOnly(&'a Subfolder),
    Classes,
}

/// Tells splits from classes. `train` is also a vehicle: without a validation folder beside it, it's a split
/// only if it stands alone, or is the only one of the folders that has class folders.
fn layout(listing: &Listing) -> Result<Layout<'_>, DataError> {
    let num_inner = |folder: &Subfolder| {
        folder_scan::list(&folder.path, &mut PassedOver::default()).map(|inner| inner.subfolders.len())
    };
    let (train, val) = (named(listing, &TRAIN_NAMES), named(listing, &VAL_NAMES));
    match (train, val) {
        (Some(train), Some(val)) => Ok(Layout::TrainAndVal(train, val)),
        (Some(train), None) if listing.subfolders.len() == 1 => Ok(Layout::TrainOnly(train)),
        (Some(train), None) if num_inner(train)? >= 2 => {
            let mut others = listing.subfolders.iter().filter(|other| other.name != train.name);
            let alone = others.try_fold(true, |alone, other| num_inner(other).map(|number| alone && number == 0))?;
            Ok(if alone { Layout::TrainOnly(train) } else { Layout::Classes })
        }
        _ => Ok(Layout::Classes),
    }
}

/// The subfolder that goes by the first of `names` that is there, in upper or lower case.
pub(super) fn named<'a>(listing: &'a Listing, names: &[&str]) -> Option<&'a Subfolder> {
    names.iter().find_map(|known| listing.subfolders.iter().find(|folder| folder.name.eq_ignore_ascii_case(known)))
}

/// A folder of class folders.
#[derive(Clone, Debug)]
pub struct ImageFolder {
    /// Its own folder as names show it; empty if it is the one that was opened.
    prefix: String,
    classes: Vec<String>,
    /// Folders that hold files.
    folders: Vec<PathBuf>,
    /// The same from the split's own folder on, as text: a name is needed for each of a million files.
    folder_names: Vec<String>,
    files: Vec<File>,
}

#[derive(Clone, Debug)]
struct File {
    folder: u32,
    label: u32,
    name: Box<OsStr>,
}

impl ImageFolder {
    /// Opens a folder of class folders; its subfolders define the classes.
    ///
    /// # Errors
    /// [`DataError::Layout`] with fewer than two classes, [`DataError::EmptyClasses`], [`DataError::ReadFolder`].
    pub fn open(root: &Path) -> Result<Self, DataError> {
        Scan::logged(root, |scan| scan.training_set(root))
    }

    /// Opens a folder of class folders and maps them by name to classes defined elsewhere: by the training set,
    /// or by a checkpoint. Classes it lacks are reported and have no images.
    ///
    /// # Errors
    /// [`DataError::UnknownClasses`] if it has others, [`DataError::Layout`], [`DataError::ReadFolder`].
    pub fn open_with_classes(root: &Path, classes: Vec<String>) -> Result<Self, DataError> {
        Scan::logged(root, |scan| scan.with_classes(root, classes))
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

    /// The path from the split's own folder, with slashes.
    fn name_in_split(&self, index: usize) -> String {
        let file = &self.files[index];
        joined(&self.folder_names[file.folder as usize], text_from_name(&file.name))
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
        Ok(Sample::encoded(encoded, self.label(index)))
    }

    /// The path from the folder opened, with slashes.
    fn name(&self, index: usize) -> String {
        joined(&self.prefix, self.name_in_split(index))
    }

    fn label(&self, index: usize) -> u32 {
        self.files[index].label
    }
}

fn joined(folder: &str, name: String) -> String {
    if folder.is_empty() { name } else { format!("{folder}/{name}") }
}

fn text_below(folder: &Path, path: &Path) -> String {
    text_from_path(path.strip_prefix(folder).unwrap_or(path))
}

/// What reading class folders needs to know and where it reports.
struct Scan<'a> {
    shown_from: &'a Path,
    unusable: UnusableClasses,
    findings: &'a mut Findings,
}

/// The pictures of one class.
struct Class {
    name: String,
    pictures: Vec<Pictures>,
}

impl Scan<'_> {
    fn logged<T>(root: &Path, read: impl FnOnce(&mut Scan<'_>) -> Result<T, DataError>) -> Result<T, DataError> {
        let mut findings = Findings::default();
        let unusable = UnusableClasses::Refuse;
        let read = read(&mut Scan { shown_from: root, unusable, findings: &mut findings })?;
        findings.log();
        Ok(read)
    }

    /// A folder whose subfolders define the classes.
    fn training_set(&mut self, root: &Path) -> Result<ImageFolder, DataError> {
        let (usable, unusable): (Vec<_>, Vec<_>) = self.classes(root)?.into_iter().partition(Class::is_usable);
        if !unusable.is_empty() {
            self.leave_out_unusable(root, unusable)?;
        }
        match usable.as_slice() {
            [] => return Err(layout_error(root, "no class folder holds a readable image", MAKE_CLASS_FOLDERS)),
            [only] => {
                let problem = format!("there is one class folder only, {:?}", only.name);
                return Err(layout_error(
                    root,
                    problem,
                    "give the folder that holds one folder per class, at least two",
                ));
            }
            _ => {}
        }
        let names: Vec<_> = usable.iter().map(|class| class.name.clone()).collect();
        self.remark_on_case_twins(&names);
        Ok(self.image_folder(root, usable.into_iter().zip(0..), names))
    }

    /// A folder whose subfolders are mapped to `classes`.
    fn with_classes(&mut self, root: &Path, classes: Vec<String>) -> Result<ImageFolder, DataError> {
        let labels: HashMap<_, _> = classes.iter().cloned().zip(0u32..).collect();
        let (known, unknown): (Vec<_>, Vec<_>) =
            self.classes(root)?.into_iter().partition(|class| labels.contains_key(&class.name));
        if !unknown.is_empty() {
            let (path, unknown) = (root.to_path_buf(), unknown.into_iter().map(|class| class.name).collect());
            let error = DataError::UnknownClasses { path, unknown, known: classes.clone() };
            self.refuse_or_remark(error)?;
        }
        let labelled = known.into_iter().filter_map(|class| labels.get(&class.name).map(|&label| (class, label)));
        let found = self.image_folder(root, labelled, classes);
        if found.is_empty() {
            return Err(layout_error(root, "its class folders hold no images", "add images or remove the folder"));
        }
        for (class, count) in found.classes.iter().zip(found.images_per_class()) {
            if count == 0 {
                let folder = text_below(self.shown_from, root);
                self.findings
                    .remark(format!("no images of class {class:?} in {folder:?}: its accuracy can't be measured"));
            }
        }
        Ok(found)
    }

    /// The class folders of `root`, and all that lies beside pictures.
    fn classes(&mut self, root: &Path) -> Result<Vec<Class>, DataError> {
        let mut passed_over = PassedOver::default();
        let listing = folder_scan::list(root, &mut passed_over)?;
        let num_loose = listing.loose_pictures.len();
        match (listing.subfolders.is_empty(), num_loose) {
            (false, _) => {}
            (true, 0) => return Err(layout_error(root, "it has no class folders", MAKE_CLASS_FOLDERS)),
            (true, _) => {
                let problem = format!("it has {num_loose} images and no class folders");
                return Err(layout_error(root, problem, MAKE_CLASS_FOLDERS));
            }
        }
        for name in listing.loose_pictures {
            passed_over.entries.push((root.join(name), "it lies outside of the class folders".into()));
        }
        let mut classes = Vec::with_capacity(listing.subfolders.len());
        for folder in listing.subfolders {
            let pictures = folder_scan::pictures_below(&folder.path, &mut passed_over)?;
            classes.push(Class { name: text_from_name(&folder.name), pictures });
        }
        for (path, reason) in passed_over.entries {
            self.findings.leave_out(text_below(self.shown_from, &path), reason);
        }
        if passed_over.num_other_files > 0 {
            let (count, folder) = (passed_over.num_other_files, text_below(self.shown_from, root));
            self.findings.remark(format!("ignored {count} files in {folder:?} that don't end like pictures"));
        }
        Ok(classes)
    }

    fn leave_out_unusable(&mut self, root: &Path, unusable: Vec<Class>) -> Result<(), DataError> {
        let classes = unusable.iter().map(|class| class.name.clone()).collect();
        self.refuse_or_remark(DataError::EmptyClasses { path: root.to_path_buf(), classes })?;
        for path in unusable.iter().flat_map(Class::paths) {
            let reason = head_verdict(&path).err().unwrap_or_default();
            self.findings.leave_out(text_below(self.shown_from, &path), reason);
        }
        Ok(())
    }

    fn refuse_or_remark(&mut self, error: DataError) -> Result<(), DataError> {
        match self.unusable {
            UnusableClasses::Refuse => Err(error),
            UnusableClasses::Drop => {
                self.findings.remark(error.to_string());
                Ok(())
            }
        }
    }

    fn image_folder(
        &self,
        root: &Path,
        labelled: impl Iterator<Item = (Class, u32)>,
        classes: Vec<String>,
    ) -> ImageFolder {
        let (mut folders, mut folder_names, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for (class, label) in labelled {
            for Pictures { folder, files: names } in class.pictures {
                let index = folders.len() as u32;
                files.extend(names.into_iter().map(|name| File { folder: index, label, name }));
                folder_names.push(text_below(root, &folder));
                folders.push(folder);
            }
        }
        let prefix = text_below(self.shown_from, root);
        ImageFolder { prefix, classes, folders, folder_names, files }
    }

    /// `Cat` and `cat` are two classes here and one folder on Windows and macOS.
    fn remark_on_case_twins(&mut self, classes: &[String]) {
        let mut seen = HashMap::new();
        for class in classes {
            if let Some(twin) = seen.insert(class.to_lowercase(), class) {
                self.findings.remark(format!("classes {twin:?} and {class:?} differ only in upper and lower case"));
            }
        }
    }
}

impl Class {
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.pictures.iter().flat_map(|Pictures { folder, files }| files.iter().map(|name| folder.join(&**name)))
    }

    /// Says whether any of its files begins like a picture: reads files until one does.
    fn is_usable(&self) -> bool {
        self.paths().any(|path| head_verdict(&path).is_ok())
    }
}

const MAKE_CLASS_FOLDERS: &str = "put the images of each class in a folder named after the class";

/// Why a file can't be a picture, by its first bytes.
fn head_verdict(path: &Path) -> Result<(), String> {
    /// Enough to tell web pages and other text too.
    const HEAD_BYTES: u64 = 512;
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.map_err(|reason| reason.to_string())?;
    sniff::format(&head).map(drop).map_err(|verdict| verdict.to_string())
}

#[cfg(test)]
mod tests;
