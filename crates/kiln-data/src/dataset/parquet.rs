//! Hugging Face's data sets: parquet files with a column of pictures and a column of labels.
//!
//! In: a `.parquet` file, or a folder with such files, or with a folder `data` of them; `train-...` and `validation-...` or
//! `test-...` in their names tell the sets apart. Out: [`Splits`]. A picture is `image.bytes` of a struct, as `datasets` writes it,
//! or a plain column of bytes; a label is a whole number, whose names stand in the file's `huggingface` entry, or text.
//!
//! Pages are found when a file is opened and read when a sample is asked for: a random order reads a page a sample, which
//! may hold hundreds of pictures, and the last few are kept. For training at speed, pack the set into shards.
//! The published `parquet` crate isn't used: it changes features of crates below burn, and it trusts a file's sizes.
//! Not done here: zstd, LZ4 and brotli, encodings that neither `datasets` nor pandas write for such columns, nested columns.

mod page;
mod thrift;

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::folder_scan::text_from_path;
use super::image_folder::{TRAIN_NAMES, VAL_NAMES};
use super::label_file::{FILE_COLUMNS, LABEL_COLUMNS, plain};
use super::{Dataset, Findings, Format, OpenOptions, Sample, Splits, layout_error, subset};
use crate::error::DataError;
use page::{Chunk, Codec, Found, Page, PageValues, Pages};
use thrift::Thrift;

const MAGIC: &[u8; 4] = b"PAR1";
const AGAIN: &str = "fetch the file again, or write it with `datasets` or pandas";

/// Bytes of pages that a file keeps for the next sample.
const KEPT_BYTES: usize = 64 << 20;

/// Parquet files.
pub(super) struct Parquet;

impl Format for Parquet {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn recognises(&self, path: &Path) -> bool {
        !files_at(path).is_empty()
    }

    fn open(&self, path: &Path, options: &OpenOptions, _: &mut Findings) -> Result<Splits, DataError> {
        let (train, val) = sorted(files_at(path));
        let open =
            |files: &[PathBuf]| files.iter().map(|file| ParquetFile::open(path, file)).collect::<Result<Vec<_>, _>>();
        let train = ParquetSet::training_set(path, open(&train)?)?;
        match val.is_empty() {
            false => {
                let val = ParquetSet::with_classes(open(&val)?, train.classes.clone())?;
                Ok(Splits { train: Arc::new(train), val: Arc::new(val) })
            }
            true => {
                let train: Arc<dyn Dataset> = Arc::new(train);
                subset::split(train.clone(), path, options, |index| train.name(index))
            }
        }
    }
}

/// The parquet files meant by a path, sorted.
fn files_at(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return if begins_as_parquet(path) { vec![path.to_path_buf()] } else { Vec::new() };
    }
    let in_folder = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let is_one = |path: &PathBuf| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"));
        let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(is_one).collect();
        files.sort();
        files
    };
    [path.to_path_buf(), path.join("data")]
        .iter()
        .map(|folder| in_folder(folder))
        .find(|files| !files.is_empty())
        .unwrap_or_default()
}

fn begins_as_parquet(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *MAGIC
}

/// Files for training and for validation, by the first word of their names. If none says, all are for training.
fn sorted(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let word = |path: &PathBuf| {
        let name = path.file_stem().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        name.split(['-', '_', '.']).next().unwrap_or_default().to_owned()
    };
    let of = |known: &str| files.iter().filter(|path| word(path) == known).cloned().collect::<Vec<_>>();
    let train: Vec<_> = TRAIN_NAMES.iter().flat_map(|known| of(known)).collect();
    let val = VAL_NAMES.iter().map(|known| of(known)).find(|files| !files.is_empty()).unwrap_or_default();
    match train.is_empty() {
        true => (files, Vec::new()),
        false => (train, val),
    }
}

/// One file, with where its pictures lie and all its labels.
struct ParquetFile {
    path: PathBuf,
    /// What stands before the number of a row in its name.
    name: String,
    file: Mutex<Open>,
    /// Pages of pictures, with the first row of each and its chunk's dictionary.
    pages: Vec<(usize, Page, Option<usize>)>,
    dictionaries: Vec<Page>,
    labels: Vec<Label>,
    /// Names of the labels that are numbers.
    names: Vec<String>,
}

/// A label as the file has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Number(i64),
    Text(String),
    Missing,
}

/// The open file and pages that were read last.
struct Open {
    file: File,
    kept: VecDeque<(u64, Arc<Kept>)>,
}

/// A page in memory.
struct Kept {
    values: PageValues,
    rows: Vec<Found>,
    num_bytes: usize,
}

impl ParquetFile {
    fn open(root: &Path, path: &Path) -> Result<Self, DataError> {
        let failed = |problem: String| layout_error(path, problem, AGAIN);
        let mut file = File::open(path).map_err(|reason| failed(reason.to_string()))?;
        let file_len = file.metadata().map_err(|reason| failed(reason.to_string()))?.len();
        let footer = footer(&mut file, file_len).map_err(failed)?;
        let columns = leaves(&footer).map_err(failed)?;
        let (image, label) = chosen(path, &columns)?;
        let read = read_columns(&mut file, file_len, &footer, image, label).map_err(failed)?;
        let shown = text_from_path(path.strip_prefix(root).unwrap_or(path));
        let own = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self {
            path: path.to_path_buf(),
            name: if shown.is_empty() { own } else { shown },
            file: Mutex::new(Open { file, kept: VecDeque::new() }),
            pages: read.pages,
            dictionaries: read.dictionaries,
            labels: read.labels,
            names: label_names(&footer, &label.path[0]),
        })
    }

    /// The bytes of the picture in a row.
    fn picture(&self, row: usize) -> Result<Vec<u8>, String> {
        let at =
            self.pages.partition_point(|(first, ..)| *first <= row).checked_sub(1).ok_or("there is no such row")?;
        let (first, page, dictionary) = &self.pages[at];
        let page = self.kept(at as u64, page)?;
        match *page.rows.get(row - first).ok_or("a page has fewer rows than it declares")? {
            Found::Here(begin, end) => Ok(page.values.bytes(begin, end).to_vec()),
            Found::Null => Err("the row has no picture".into()),
            Found::InDictionary(entry) => {
                let index = dictionary.ok_or("a page refers to a dictionary that isn't there")?;
                let dictionary = self.kept(self.pages.len() as u64 + index as u64, &self.dictionaries[index])?;
                match dictionary.rows.get(entry) {
                    Some(&Found::Here(begin, end)) => Ok(dictionary.values.bytes(begin, end).to_vec()),
                    _ => Err("a row refers to a picture beyond the dictionary".into()),
                }
            }
        }
    }

    /// A page, read now or lately.
    fn kept(&self, key: u64, page: &Page) -> Result<Arc<Kept>, String> {
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kept)) = open.kept.iter().find(|(found, _)| *found == key) {
            return Ok(kept.clone());
        }
        let values = page.read(&mut open.file)?;
        let rows = values.byte_rows().ok_or("the values of a page are cut off")?;
        let kept = Arc::new(Kept { values, rows, num_bytes: page.num_bytes() });
        open.kept.push_back((key, kept.clone()));
        while open.kept.len() > 1 && open.kept.iter().map(|(_, kept)| kept.num_bytes).sum::<usize>() > KEPT_BYTES {
            open.kept.pop_front();
        }
        Ok(kept)
    }

    /// What a label is called.
    fn class(&self, label: &Label) -> Option<String> {
        match label {
            Label::Text(text) => Some(text.clone()),
            Label::Missing => None,
            Label::Number(number) => {
                let name = usize::try_from(*number).ok().and_then(|index| self.names.get(index));
                Some(name.cloned().unwrap_or_else(|| number.to_string()))
            }
        }
    }
}

/// Reads what the file says of itself.
fn footer(file: &mut File, file_len: u64) -> Result<Thrift, String> {
    const TAIL: u64 = 8;
    let mut tail = [0; TAIL as usize];
    let begin = file_len.checked_sub(TAIL).ok_or("it is too short to be a parquet file")?;
    file.seek(SeekFrom::Start(begin)).map_err(|reason| reason.to_string())?;
    file.read_exact(&mut tail).map_err(|reason| reason.to_string())?;
    let [l0, l1, l2, l3, magic @ ..] = tail;
    if magic != *MAGIC {
        return Err("it doesn't end like a parquet file: it is truncated, or something else".into());
    }
    let len = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
    let begin = begin.checked_sub(len).ok_or("its footer is longer than the file")?;
    file.seek(SeekFrom::Start(begin)).map_err(|reason| reason.to_string())?;
    let mut bytes = Vec::new();
    file.take(len).read_to_end(&mut bytes).map_err(|reason| reason.to_string())?;
    Ok(Thrift::read(&bytes).ok_or("its footer makes no sense")?.0)
}

/// A column that holds values.
#[derive(Clone, Debug)]
struct Leaf {
    /// Names from the outermost in.
    path: Vec<String>,
    /// Its place among the leaves.
    index: usize,
    /// Number of its type in the format: 1 for i32, 2 for i64, 6 for bytes.
    kind: i64,
    max_level: u32,
    repeated: bool,
}

const KIND_INT32: i64 = 1;
const KIND_INT64: i64 = 2;
const KIND_BYTES: i64 = 6;

/// The columns of a schema, which is a tree in the order it is walked.
fn leaves(footer: &Thrift) -> Result<Vec<Leaf>, String> {
    let mut leaves = Vec::new();
    // Of each open group: children that are still to come, its path, levels, whether it repeats.
    let mut open: Vec<(i64, Vec<String>, u32, bool)> = Vec::new();
    for (at, element) in footer.list(2).iter().enumerate() {
        let num_children = element.int(5).unwrap_or(0);
        if at == 0 {
            open.push((num_children, Vec::new(), 0, false));
            continue;
        }
        while open.last().is_some_and(|group| group.0 <= 0) {
            open.pop();
        }
        let parent = open.last_mut().ok_or("its schema makes no sense")?;
        parent.0 -= 1;
        let repetition = element.int(3).unwrap_or(0);
        let name = element.text(4).ok_or("a column has no name")?.to_owned();
        let path = [parent.1.as_slice(), &[name]].concat();
        let (max_level, repeated) = (parent.2 + u32::from(repetition > 0), parent.3 || repetition == 2);
        match num_children {
            0 => {
                let kind = element.int(1).ok_or("a column has no type")?;
                leaves.push(Leaf { path, index: leaves.len(), kind, max_level, repeated });
            }
            _ => open.push((num_children, path, max_level, repeated)),
        }
        if open.len() > 64 {
            return Err("its schema is too deep".into());
        }
    }
    Ok(leaves)
}

/// The columns of pictures and of labels.
fn chosen<'a>(path: &Path, leaves: &'a [Leaf]) -> Result<(&'a Leaf, &'a Leaf), DataError> {
    let flat = || leaves.iter().filter(|leaf| !leaf.repeated);
    let is_bytes = |leaf: &&Leaf| leaf.kind == KIND_BYTES;
    let in_struct = flat().filter(is_bytes).find(|leaf| leaf.path.len() == 2 && leaf.path[1] == "bytes");
    let called = |leaf: &&Leaf, known: &str| leaf.path.len() == 1 && plain(&leaf.path[0]) == known;
    let by_name = FILE_COLUMNS.iter().find_map(|known| flat().filter(is_bytes).find(|leaf| called(leaf, known)));
    let label_kinds = [KIND_INT32, KIND_INT64, KIND_BYTES];
    let is_label = |leaf: &&Leaf| label_kinds.contains(&leaf.kind);
    let known_labels = LABEL_COLUMNS.iter().chain(&["fine_label"]);
    let label = known_labels.clone().find_map(|known| flat().filter(is_label).find(|leaf| called(leaf, known)));
    let names: Vec<_> = leaves.iter().map(|leaf| leaf.path.join(".")).collect();
    match (in_struct.or(by_name), label) {
        (Some(image), Some(label)) => Ok((image, label)),
        (None, _) => {
            let problem = format!("none of its columns {names:?} holds pictures");
            Err(layout_error(path, problem, "store the files' bytes in a column `image`, as `datasets` does"))
        }
        (_, None) => Err(super::label_file::no_column(path, &names, "the labels", &LABEL_COLUMNS, None)),
    }
}

struct Columns {
    pages: Vec<(usize, Page, Option<usize>)>,
    dictionaries: Vec<Page>,
    labels: Vec<Label>,
}

fn read_columns(
    file: &mut File,
    file_len: u64,
    footer: &Thrift,
    image: &Leaf,
    label: &Leaf,
) -> Result<Columns, String> {
    let mut columns = Columns { pages: Vec::new(), dictionaries: Vec::new(), labels: Vec::new() };
    for group in footer.list(4) {
        let num_rows = group.size(3).ok_or("a row group has no rows")?;
        // No file of pictures has more rows than bytes; a damaged one may say so.
        if (columns.labels.len() as u64).saturating_add(num_rows as u64) > file_len {
            return Err("it declares more rows than it has bytes".into());
        }
        let first = columns.labels.len();
        let Pages { dictionary, pages } = page::pages_of(file, file_len, &chunk(group, image, num_rows)?)?;
        let index = dictionary.is_some().then_some(columns.dictionaries.len());
        columns.dictionaries.extend(dictionary);
        let mut row = first;
        for page in pages {
            let num_values = page.num_values;
            columns.pages.push((row, page, index));
            row += num_values;
        }
        columns.labels.extend(labels(file, file_len, &chunk(group, label, num_rows)?, label.kind)?);
    }
    Ok(columns)
}

/// Where a column of a row group lies.
fn chunk(group: &Thrift, leaf: &Leaf, num_rows: usize) -> Result<Chunk, String> {
    const NONSENSE: &str = "a row group lacks a column";
    let details = group.list(1).get(leaf.index).and_then(|column| column.field(3)).ok_or(NONSENSE)?;
    let data = details.size(9).ok_or(NONSENSE)?;
    // Some writers put a zero for no dictionary.
    let begin = details.size(11).filter(|&dictionary| dictionary > 0).map_or(data, |dictionary| dictionary.min(data));
    let num_values = details.size(5).ok_or(NONSENSE)?;
    if num_values != num_rows {
        return Err(format!("a column has {num_values} values for {num_rows} rows"));
    }
    Ok(Chunk {
        codec: Codec::of(details.int(4).ok_or(NONSENSE)?)?,
        begin: begin as u64,
        len: details.size(7).ok_or(NONSENSE)? as u64,
        num_values,
        max_level: leaf.max_level,
    })
}

/// All labels of a chunk.
fn labels(file: &mut File, file_len: u64, chunk: &Chunk, kind: i64) -> Result<Vec<Label>, String> {
    const CUT: &str = "the labels are cut off";
    let Pages { dictionary, pages } = page::pages_of(file, file_len, chunk)?;
    let dictionary = dictionary.map(|page| Ok::<_, String>((page.num_values, page.read(file)?))).transpose()?;
    let width = if kind == KIND_INT32 { 4 } else { 8 };
    let mut labels = Vec::new();
    if kind != KIND_BYTES {
        let entries = dictionary.map(|(_, page)| page.number_rows(width, None).ok_or(CUT)).transpose()?;
        let entries: Option<Vec<_>> = entries.map(|entries| entries.into_iter().flatten().collect());
        for page in pages {
            let numbers = page.read(file)?.number_rows(width, entries.as_deref()).ok_or(CUT)?;
            labels.extend(numbers.into_iter().map(|number| number.map_or(Label::Missing, Label::Number)));
        }
        return Ok(labels);
    }
    let text =
        |page: &PageValues, begin, end| Label::Text(String::from_utf8_lossy(page.bytes(begin, end)).into_owned());
    let entries = match &dictionary {
        None => Vec::new(),
        Some((_, page)) => {
            let places = page.byte_rows().ok_or(CUT)?.into_iter();
            places
                .map(|place| if let Found::Here(begin, end) = place { text(page, begin, end) } else { Label::Missing })
                .collect()
        }
    };
    for page in pages {
        let values = page.read(file)?;
        for place in values.byte_rows().ok_or(CUT)? {
            labels.push(match place {
                Found::Here(begin, end) => text(&values, begin, end),
                Found::InDictionary(entry) => entries.get(entry).cloned().ok_or(CUT)?,
                Found::Null => Label::Missing,
            });
        }
    }
    Ok(labels)
}

/// The names that `datasets` wrote for the numbers of a column.
fn label_names(footer: &Thrift, column: &str) -> Vec<String> {
    let entry = footer.list(5).iter().find(|entry| entry.text(1) == Some("huggingface"));
    let json =
        entry.and_then(|entry| entry.text(2)).and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    let names = json.as_ref().and_then(|json| json["info"]["features"][column]["names"].as_array());
    names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The rows of some files. Rows without a label are no samples.
struct ParquetSet {
    files: Vec<ParquetFile>,
    classes: Vec<String>,
    /// File, row and label of each sample.
    samples: Vec<(u32, u32, u32)>,
}

impl ParquetSet {
    /// The labels that occur are the classes: numbers in their order, text sorted.
    fn training_set(path: &Path, files: Vec<ParquetFile>) -> Result<Self, DataError> {
        let occurring = files.iter().flat_map(|file| file.labels.iter().map(move |label| (label.clone(), file)));
        let by_label: BTreeMap<Label, &ParquetFile> = occurring.collect();
        let mut classes: Vec<String> = Vec::new();
        for class in by_label.iter().filter_map(|(label, file)| file.class(label)) {
            if !classes.contains(&class) {
                classes.push(class);
            }
        }
        if classes.len() < 2 {
            let problem = format!("its labels name {} class(es), {classes:?}", classes.len());
            return Err(layout_error(path, problem, "give a data set of at least two classes"));
        }
        Self::with_classes(files, classes)
    }

    fn with_classes(files: Vec<ParquetFile>, classes: Vec<String>) -> Result<Self, DataError> {
        let mut samples = Vec::new();
        for (number, file) in (0u32..).zip(&files) {
            let mut index_of = BTreeMap::new();
            for (row, label) in (0u32..).zip(&file.labels) {
                let index = index_of.entry(label).or_insert_with(|| {
                    let class = file.class(label)?;
                    Some(classes.iter().position(|known| *known == class).ok_or(class))
                });
                let index = match index {
                    None => continue,
                    Some(Ok(index)) => *index,
                    Some(Err(class)) => {
                        let (path, unknown) = (file.path.clone(), vec![class.clone()]);
                        return Err(DataError::UnknownClasses { path, unknown, known: classes });
                    }
                };
                samples.push((number, row, index as u32));
            }
        }
        Ok(Self { files, classes, samples })
    }
}

impl Dataset for ParquetSet {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let (file, row, label) = self.samples[index];
        let encoded = self.files[file as usize].picture(row as usize).map_err(|problem| DataError::Read {
            name: self.name(index),
            sample: index,
            reason: std::io::Error::new(std::io::ErrorKind::InvalidData, problem),
        })?;
        Ok(Sample::encoded(encoded, label))
    }

    /// The file, and the number of the row in it.
    fn name(&self, index: usize) -> String {
        let (file, row, _) = self.samples[index];
        format!("{}[{row}]", self.files[file as usize].name)
    }

    fn label(&self, index: usize) -> u32 {
        self.samples[index].2
    }
}

#[cfg(test)]
mod tests;
