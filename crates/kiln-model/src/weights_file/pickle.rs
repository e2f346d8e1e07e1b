//! Reads the pickles of PyTorch's files without running them.
//!
//! In: bytes. Out: plain values, and tensors as descriptions of where their numbers lie. A pickle is a program for a
//! stack machine that may call any Python function; this machine knows a closed list of opcodes and of names, calls
//! nothing, and refuses the rest by name. Values live in one list and refer to each other by index, so neither a cycle
//! nor a deep nest can exhaust the stack, and their number is bounded by a budget taken from the file's size.
//! Source: Python's `pickletools` for the opcodes; `torch/_utils.py` and `torch/serialization.py` (2.14) for the calls.
//! Not done: the text opcodes of protocol 0, which PyTorch never wrote; Python objects of any class.

mod globals;
mod machine;

use burn::tensor::DType;

use super::FileProblem;
use globals::Global;
use machine::Machine;

/// Bytes of values that even the smallest file may make.
const BUDGET_FLOOR: usize = 256 << 10;

/// A value; what is larger than a number lives in the machine's list of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// Bytes `start..start + len` of the pickle, which are UTF-8.
    Text(u32, u32),
    Global(Global),
    Node(u32),
    /// Something that no weight depends on: a number with a fraction, a name space, an option of another program.
    Opaque,
}

#[derive(Debug)]
pub(super) enum Node {
    Sequence(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    Storage(Box<Storage>),
    Tensor(Box<Tensor>),
}

/// Numbers that tensors share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Storage {
    pub(super) dtype: DType,
    /// Its name in the file, a [`Value::Text`].
    pub(super) key: (u32, u32),
    pub(super) len: usize,
    /// Where this view of it begins.
    pub(super) start: usize,
}

/// A view of a storage; offset and strides count numbers, not bytes.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) storage: Storage,
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

/// What a pickle said.
pub(super) struct Pickle<'a> {
    bytes: &'a [u8],
    nodes: Vec<Node>,
    pub(super) root: Value,
    /// Bytes of it, up to and with its STOP.
    pub(super) len: usize,
}

impl<'a> Pickle<'a> {
    /// Reads the pickle at the beginning of `bytes`; `file_len` decides how much it may make.
    ///
    /// # Errors
    /// [`FileProblem::UnknownGlobal`] for a name outside the list, [`FileProblem::Unsupported`] for an opcode outside
    /// it, [`FileProblem::Damaged`] for a program that makes no sense, [`FileProblem::TooMuch`] for one that makes
    /// more than a file of that size can mean.
    pub(super) fn read(bytes: &'a [u8], file_len: usize) -> Result<Self, FileProblem> {
        let bytes = &bytes[..bytes.len().min(u32::MAX as usize)];
        let budget = file_len.saturating_add(BUDGET_FLOOR);
        let (nodes, root, len) = Machine::new(bytes, budget).run()?;
        Ok(Self { bytes, nodes, root, len })
    }

    pub(super) fn text(&self, value: Value) -> Option<&'a str> {
        text(self.bytes, value)
    }

    pub(super) fn dict(&self, value: Value) -> Option<&[(Value, Value)]> {
        match self.node(value)? {
            Node::Dict(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn sequence(&self, value: Value) -> Option<&[Value]> {
        match self.node(value)? {
            Node::Sequence(values) => Some(values),
            _ => None,
        }
    }

    pub(super) fn tensor(&self, value: Value) -> Option<&Tensor> {
        match self.node(value)? {
            Node::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Every storage the pickle names, in order, with repetitions.
    pub(super) fn storages(&self) -> impl Iterator<Item = &Storage> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Storage(storage) => Some(storage.as_ref()),
            _ => None,
        })
    }

    fn node(&self, value: Value) -> Option<&Node> {
        match value {
            Value::Node(index) => self.nodes.get(index as usize),
            _ => None,
        }
    }
}

fn text(bytes: &[u8], value: Value) -> Option<&str> {
    match value {
        Value::Text(start, len) => std::str::from_utf8(bytes.get(start as usize..)?.get(..len as usize)?).ok(),
        _ => None,
    }
}

fn damaged(what: &str) -> FileProblem {
    FileProblem::Damaged { what: what.to_string() }
}

#[cfg(test)]
mod tests;
