//! PyTorch's two containers: the zip file of today and the sequence of pickles from before version 1.6.
//!
//! In: the bytes of a file. Out: its sets of tensors, each a view of the file's bytes.
//! Source: `torch/serialization.py` (2.14), `_save` and `_legacy_save`.

use std::collections::HashMap;
use std::ops::Range;

use super::pickle::{Pickle, Storage, Tensor, Value};
use super::strided::StridedTensor;
use super::zip;
use super::{FileProblem, TensorSet};

/// What a legacy file begins with: its magic number, pickled.
pub(super) const LEGACY_MAGIC: [u8; 15] =
    [0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, b'.'];

/// How deep the dictionaries of a checkpoint are searched for weights: Lightning's are in the first.
const MOST_LEVELS: usize = 4;

/// The tensors of a zip file.
///
/// # Errors
/// [`FileProblem`], naming what can't be read.
pub(super) fn sets_from_zip(bytes: &[u8]) -> Result<Vec<TensorSet>, FileProblem> {
    let entries = zip::entries(bytes)?;
    let name = entries.keys().find(|name| name.ends_with("/data.pkl")).copied();
    let name = name.ok_or_else(|| FileProblem::Unrecognised { what: zip_without_weights(&entries) })?;
    let root = name.trim_end_matches("data.pkl");
    if let Some(order) = entries.get(format!("{root}byteorder").as_str())
        && &bytes[order.clone()] != b"little"
    {
        return Err(FileProblem::Unsupported { what: "numbers in big-endian order".to_string() });
    }
    let pickle = Pickle::read(&bytes[entries[name].clone()], bytes.len())?;
    sets(&pickle, &|key| entries.get(format!("{root}data/{key}").as_str()).cloned())
}

fn zip_without_weights(entries: &zip::Entries<'_>) -> String {
    match entries.keys().any(|name| name.contains("/constants.pkl") || name.contains("/code/")) {
        true => "a TorchScript program".to_string(),
        false => "a zip file without PyTorch's data.pkl".to_string(),
    }
}

/// The tensors of a legacy file.
///
/// # Errors
/// [`FileProblem`], naming what can't be read.
pub(super) fn sets_from_legacy(bytes: &[u8]) -> Result<Vec<TensorSet>, FileProblem> {
    let mut at = LEGACY_MAGIC.len();
    let mut next = || {
        let pickle = Pickle::read(&bytes[at..], bytes.len())?;
        at += pickle.len;
        Ok(pickle)
    };
    let (version, system, objects, keys) = (next()?, next()?, next()?, next()?);
    if version.root != Value::Int(1001) {
        return Err(FileProblem::Unsupported { what: "a legacy file of an unknown version".to_string() });
    }
    let is_order = |pair: &&(Value, Value)| system.text(pair.0) == Some("little_endian");
    let order = system.dict(system.root).and_then(|entries| entries.iter().find(is_order));
    if order.map(|pair| pair.1) == Some(Value::Bool(false)) {
        return Err(FileProblem::Unsupported { what: "numbers in big-endian order".to_string() });
    }
    let ranges = legacy_storages(bytes, at, &objects, &keys)?;
    sets(&objects, &|key| ranges.get(key).cloned())
}

/// Where each storage's numbers lie, by key: a count of eight bytes, then the numbers, in the order of `keys`.
fn legacy_storages<'a>(
    bytes: &[u8],
    mut at: usize,
    objects: &Pickle<'a>,
    keys: &Pickle<'a>,
) -> Result<HashMap<&'a str, Range<usize>>, FileProblem> {
    let dtypes: HashMap<&str, _> =
        objects.storages().filter_map(|storage| Some((key_of(objects, storage)?, storage.dtype))).collect();
    let mut ranges = HashMap::new();
    for &key in keys.sequence(keys.root).unwrap_or_default() {
        let key = keys.text(key).ok_or_else(|| damaged("the key of a storage isn't a text"))?;
        let dtype = dtypes.get(key).ok_or_else(|| damaged(format!("storage {key} belongs to no tensor")))?;
        let cut = || damaged(format!("storage {key} reaches beyond its end"));
        let count = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).ok_or_else(cut)?;
        let len = usize::try_from(u64::from_le_bytes(*count)).ok().and_then(|n| n.checked_mul(dtype.size()));
        let start = at + 8;
        let end = len.and_then(|len| start.checked_add(len)).filter(|&end| end <= bytes.len()).ok_or_else(cut)?;
        ranges.insert(key, start..end);
        at = end;
    }
    Ok(ranges)
}

fn key_of<'a>(pickle: &Pickle<'a>, storage: &Storage) -> Option<&'a str> {
    pickle.text(Value::Text(storage.key.0, storage.key.1))
}

/// Every dictionary that holds tensors by name, with the path that leads to it.
fn sets(pickle: &Pickle<'_>, range_of: &dyn Fn(&str) -> Option<Range<usize>>) -> Result<Vec<TensorSet>, FileProblem> {
    let mut sets = Vec::new();
    let mut open = vec![(String::new(), pickle.root, 0)];
    while let Some((path, value, level)) = open.pop() {
        let entries = pickle.dict(value).unwrap_or_default();
        let mut tensors = Vec::new();
        let mut inner = Vec::new();
        for &(key, value) in entries {
            let Some(key) = pickle.text(key) else { continue };
            if let Some(tensor) = pickle.tensor(value) {
                tensors.push((key.to_string(), strided(pickle, key, tensor, range_of)?));
            } else if level < MOST_LEVELS && pickle.dict(value).is_some() {
                let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
                inner.push((path, value, level + 1));
            }
        }
        if !tensors.is_empty() {
            sets.push(TensorSet { name: path, tensors });
        }
        // The last of `open` is the next to be looked at: reversed, the sets come in the file's order.
        inner.reverse();
        if sets.len() + open.len() + inner.len() > pickle.len {
            return Err(FileProblem::TooMuch); // dictionaries that hold each other
        }
        open.extend(inner);
    }
    Ok(sets)
}

/// A tensor's place in the file, checked against its storage.
fn strided(
    pickle: &Pickle<'_>,
    name: &str,
    tensor: &Tensor,
    range_of: &dyn Fn(&str) -> Option<Range<usize>>,
) -> Result<StridedTensor, FileProblem> {
    let Tensor { storage, offset, shape, strides } = tensor;
    let missing = || damaged(format!("the numbers of {name:?} are missing"));
    let range = key_of(pickle, storage).and_then(range_of).ok_or_else(missing)?;
    StridedTensor::new(storage.dtype, shape.clone(), strides.clone(), range, *offset).ok_or_else(|| {
        damaged(format!("{name:?} of shape {shape:?} reaches beyond its storage of {} numbers", storage.len))
    })
}

fn damaged(what: impl Into<String>) -> FileProblem {
    FileProblem::Damaged { what: what.into() }
}
