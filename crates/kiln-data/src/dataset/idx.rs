//! IDX: the files of MNIST, Fashion-MNIST and their relatives, plain or gzipped.
//!
//! In: a folder with `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, and `t10k-...` for validation, each maybe with
//! `.gz`, or the folder whose subfolder `raw` has them. Out: [`Splits`] of pixels, the files in memory.
//! Source: Y. LeCun, "The IDX file format", on the MNIST page: big-endian sizes after a magic number that says type and rank.
//! Names of the classes: a `classes.txt` beside the files, a line a label; Fashion-MNIST, recognised by its first training
//! labels, has its published names; else the labels themselves.
//! Not done here: IDX of other types than bytes, EMNIST's transposed axes.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::folder_scan::text_from_name;
use super::raw_images::{PixelOrder, RawFile, RawImages};
use super::{Dataset, Findings, Format, OpenOptions, Splits, layout_error, subset};
use crate::error::DataError;

/// The published names of Fashion-MNIST (Xiao, Rasul and Vollgraf, arXiv 1708.07747, table 2).
const FASHION: [&str; 10] =
    ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"];

/// The first labels of Fashion-MNIST's 60,000.
const FASHION_LABELS: [u8; 16] = [9, 0, 0, 3, 0, 2, 7, 2, 5, 5, 0, 9, 5, 5, 7, 9];

/// Deflate makes at most 1,032 bytes of one, so no gzip file holds more times its own length.
const MOST_INFLATED: u64 = 1032;

/// A folder of IDX files.
pub(super) struct Idx;

impl Format for Idx {
    fn name(&self) -> &'static str {
        "IDX"
    }

    fn recognises(&self, path: &Path) -> bool {
        folder_with_files(path).is_some()
    }

    fn open(&self, path: &Path, options: &OpenOptions, _: &mut Findings) -> Result<Splits, DataError> {
        let folder = folder_with_files(path).unwrap_or_else(|| path.to_path_buf());
        let files = image_files(&folder);
        let (train, size) = read_pair(path, one_of(&folder, &files, |name| name.contains("train"))?)?;
        let names = class_names(&folder, &train)?;
        let name = |label: u8| names.get(usize::from(label)).cloned().unwrap_or_else(|| label.to_string());
        let train = RawImages::training_set(path, vec![train], size, PixelOrder::Grey, name)?;
        let is_val =
            |name: &str| ["t10k", "test", "val"].iter().any(|word| name.contains(word)) && !name.contains("train");
        if !files.iter().any(|file| is_val(&file.stem)) {
            let train: Arc<dyn Dataset> = Arc::new(train);
            return subset::split(train.clone(), path, options, |index| index.to_string());
        }
        let (val, size) = read_pair(path, one_of(&folder, &files, is_val)?)?;
        let val = train.with_same_classes(vec![val], size)?;
        Ok(Splits { train: Arc::new(train), val: Arc::new(val) })
    }
}

/// `path`, or its subfolder `raw` as torchvision makes it.
fn folder_with_files(path: &Path) -> Option<PathBuf> {
    let has_training_images = |folder: &PathBuf| image_files(folder).iter().any(|file| file.stem.contains("train"));
    [path.to_path_buf(), path.join("raw")].into_iter().find(has_training_images)
}

/// A file of images.
struct ImageFile {
    path: PathBuf,
    /// Its name without `.gz`, lower case.
    stem: String,
}

/// The files of images in a folder. Of a plain and a gzipped one the plain one counts.
fn image_files(folder: &Path) -> Vec<ImageFile> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().to_lowercase();
            ImageFile { path: entry.path(), stem: name.strip_suffix(".gz").unwrap_or(&name).to_owned() }
        })
        .filter(|file| file.stem.contains("images") && file.stem.ends_with("idx3-ubyte"))
        .collect();
    // A name sorts before the same name with an ending.
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|later, first| later.stem == first.stem);
    files
}

/// The only file that is meant.
fn one_of<'a>(
    folder: &Path,
    files: &'a [ImageFile],
    is_meant: impl Fn(&str) -> bool,
) -> Result<&'a ImageFile, DataError> {
    let meant: Vec<_> = files.iter().filter(|file| is_meant(&file.stem)).collect();
    match meant.as_slice() {
        [only] => Ok(only),
        [first, second, ..] => {
            let problem = format!("it has the files of more than one data set, {:?} and {:?}", first.stem, second.stem);
            Err(layout_error(folder, problem, "put each set into a folder of its own"))
        }
        [] => Err(layout_error(folder, "its training images are gone", "check the folder")),
    }
}

/// Images with their labels, and the height and width of one.
fn read_pair(root: &Path, images: &ImageFile) -> Result<(RawFile, [u32; 2]), DataError> {
    let labels_path = labels_path(&images.path)?;
    let (sizes, bytes) = read(&images.path, 3)?;
    let (label_sizes, label_bytes) = read(&labels_path, 1)?;
    if sizes[0] != label_sizes[0] {
        let problem = format!("it has {} labels for {} images of {:?}", label_sizes[0], sizes[0], images.path);
        return Err(layout_error(&labels_path, problem, "fetch both files again"));
    }
    let (height, width) = (sizes[1], sizes[2]);
    let shown = images.path.strip_prefix(root).unwrap_or(&images.path);
    let file = RawFile {
        path: images.path.clone(),
        name: super::folder_scan::text_from_path(shown),
        bytes,
        first: header_len(3),
        stride: height as usize * width as usize,
        labels: label_bytes[header_len(1)..].to_vec(),
    };
    Ok((file, [height, width]))
}

/// The file of labels beside one of images, plain or gzipped.
fn labels_path(images: &Path) -> Result<PathBuf, DataError> {
    let name = images.file_name().map(text_from_name).unwrap_or_default();
    let name = name.replacen("images", "labels", 1).replacen("idx3", "idx1", 1);
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    let candidates = [plain.to_owned(), format!("{plain}.gz")].map(|name| images.with_file_name(name));
    let found = candidates.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| layout_error(images, format!("the labels, {name:?}, aren't beside it"), "fetch them too"))
}

fn header_len(rank: usize) -> usize {
    4 + 4 * rank
}

/// Reads a file of bytes of `rank` axes, header included; the sizes are checked against the file's length first.
fn read(path: &Path, rank: usize) -> Result<(Vec<u32>, Vec<u8>), DataError> {
    const AGAIN: &str = "fetch it again";
    let failed = |reason: std::io::Error| layout_error(path, reason.to_string(), AGAIN);
    let mut file = File::open(path).map_err(failed)?;
    let file_len = file.metadata().map_err(failed)?.len();
    let mut head = Vec::new();
    (&mut file).take(2).read_to_end(&mut head).map_err(failed)?;
    let is_gzip = head == [0x1F, 0x8B];
    let whole = head.as_slice().chain(file);
    let mut reader: Box<dyn Read + '_> = if is_gzip { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };

    let mut bytes = Vec::new();
    reader.by_ref().take(header_len(rank) as u64).read_to_end(&mut bytes).map_err(failed)?;
    let sizes = sizes(&bytes, rank).map_err(|problem| layout_error(path, problem, AGAIN))?;
    let content = sizes.iter().try_fold(1u64, |product, &size| product.checked_mul(u64::from(size)));
    let most = if is_gzip { file_len.saturating_mul(MOST_INFLATED) } else { file_len };
    let Some(content) = content.filter(|&content| content <= most) else {
        let problem = format!("it declares {} bytes and has {file_len}", product(&sizes));
        return Err(layout_error(path, problem, AGAIN));
    };
    if content == 0 {
        return Err(layout_error(path, format!("it declares {}, which is nothing", product(&sizes)), AGAIN));
    }
    // One byte more, to see that the end is the end.
    reader.take(content + 1).read_to_end(&mut bytes).map_err(failed)?;
    match (bytes.len() - header_len(rank)) as u64 {
        found if found == content => Ok((sizes, bytes)),
        found if found < content => {
            let problem = format!("it is truncated: {found} bytes where it declares {}", product(&sizes));
            Err(layout_error(path, problem, AGAIN))
        }
        _ => Err(layout_error(path, format!("it is longer than the {} it declares", product(&sizes)), AGAIN)),
    }
}

/// `60000x28x28`.
fn product(sizes: &[u32]) -> String {
    sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("x")
}

/// The sizes in a header of unsigned bytes (type 8) of `rank` axes.
fn sizes(header: &[u8], rank: usize) -> Result<Vec<u32>, String> {
    match header.split_first_chunk::<4>() {
        Some(([0, 0, 8, found], sizes)) if usize::from(*found) == rank && sizes.len() == 4 * rank => {
            Ok(sizes.as_chunks::<4>().0.iter().map(|size| u32::from_be_bytes(*size)).collect())
        }
        Some((magic, sizes)) if sizes.len() == 4 * rank => {
            Err(format!("it begins with the bytes {magic:02x?}, not with [00, 00, 08, {rank:02x}]"))
        }
        _ => Err("it is shorter than its header".into()),
    }
}

/// What the labels are called, in their order; empty if that isn't known.
fn class_names(folder: &Path, train: &RawFile) -> Result<Vec<String>, DataError> {
    let list = folder.join("classes.txt");
    if list.is_file() {
        let text = fs::read_to_string(&list);
        let text = text.map_err(|reason| layout_error(&list, reason.to_string(), "write one name a line, as UTF-8"))?;
        return Ok(text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect());
    }
    let is_fashion = train.labels.len() == 60_000 && train.labels.starts_with(&FASHION_LABELS);
    Ok(if is_fashion { FASHION.map(str::to_owned).to_vec() } else { Vec::new() })
}

#[cfg(test)]
mod tests;
