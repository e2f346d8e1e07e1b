//! The stack machine of a pickle: opcodes to values.
//!
//! In: bytes and a budget. Out: nodes and the value that STOP leaves. Every push, node and remembered value is paid from
//! the budget before it is stored.

use super::globals::{Global, known};
use super::{Node, Storage, Tensor, Value, damaged, text};
use crate::FileProblem;

/// Most axes of a tensor: convolutions have four.
const MOST_AXES: usize = 8;

/// The stack machine.
pub(super) struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Vec<Value>,
    /// Bytes that may still be taken for values.
    budget: usize,
}

impl<'a> Machine<'a> {
    /// A machine at the beginning of a pickle.
    pub(super) fn new(bytes: &'a [u8], budget: usize) -> Self {
        Self { bytes, at: 0, nodes: Vec::new(), stack: Vec::new(), marks: Vec::new(), memo: Vec::new(), budget }
    }

    /// Takes opcodes up to STOP: the nodes, the result, and the bytes taken.
    pub(super) fn run(mut self) -> Result<(Vec<Node>, Value, usize), FileProblem> {
        while self.step()? {}
        let root = self.pop()?;
        Ok((self.nodes, root, self.at))
    }

    /// Takes one opcode; `false` after STOP.
    fn step(&mut self) -> Result<bool, FileProblem> {
        match self.u8()? {
            b'.' => return Ok(false),
            0x80 => self.protocol()?,
            0x95 => self.skip(8)?, // FRAME
            b'N' => self.push(Value::None)?,
            0x88 => self.push(Value::Bool(true))?,
            0x89 => self.push(Value::Bool(false))?,
            b'K' => self.push_int::<1>()?,
            b'M' => self.push_int::<2>()?,
            b'J' => {
                let value = i32::from_le_bytes(self.array()?);
                self.push(Value::Int(value.into()))?;
            }
            0x8a => self.long()?,
            b'G' => self.skip(8).and_then(|()| self.push(Value::Opaque))?, // BINFLOAT
            b'X' => self.text_of_len::<4>()?,
            0x8c => self.text_of_len::<1>()?,
            0x8d => self.text_of_len::<8>()?,
            b'U' => self.text_of_len::<1>()?, // SHORT_BINSTRING, Python 2
            b'T' => self.text_of_len::<4>()?, // BINSTRING, Python 2
            b'B' => self.bytes_of_len::<4>()?,
            b'C' => self.bytes_of_len::<1>()?,
            0x8e => self.bytes_of_len::<8>()?,
            b'(' => {
                self.spend(size_of::<usize>())?;
                self.marks.push(self.stack.len());
            }
            b'0' => self.pop().map(|_| ())?,
            b'1' => self.pop_mark().map(|_| ())?,
            b'2' => self.top().and_then(|value| self.push(value))?,
            b']' => self.push_node(Node::Sequence(Vec::new()))?,
            0x8f => self.push_node(Node::Sequence(Vec::new()))?, // EMPTY_SET
            b')' => self.push_node(Node::Sequence(Vec::new()))?,
            b'}' => self.push_node(Node::Dict(Vec::new()))?,
            b't' | b'l' | 0x91 => {
                let values = self.pop_mark()?;
                self.push_node(Node::Sequence(values))?;
            }
            b'd' => {
                let values = self.pop_mark()?;
                let pairs = pairs(&values)?;
                self.push_node(Node::Dict(pairs))?;
            }
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b'a' => {
                let value = self.pop()?;
                self.append(&[value])?;
            }
            b'e' | 0x90 => {
                let values = self.pop_mark()?;
                self.append(&values)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set_items(&[(key, value)])?;
            }
            b'u' => {
                let values = self.pop_mark()?;
                let pairs = pairs(&values)?;
                self.set_items(&pairs)?;
            }
            b'c' => self.global()?,
            0x93 => self.stack_global()?,
            b'R' | 0x81 => self.reduce()?,
            0x92 => {
                self.pop()?; // NEWOBJ_EX: keyword arguments
                self.reduce()?;
            }
            // Attributes of a dictionary, a parameter or an opaque object: none of them is a weight.
            b'b' => self.pop().and_then(|_| self.top()).map(|_| ())?,
            b'Q' => self.persistent()?,
            b'q' => {
                let index = self.u8()?;
                self.put(index.into())?;
            }
            b'r' => {
                let index = u32::from_le_bytes(self.array()?);
                self.put(index as usize)?;
            }
            0x94 => self.put(self.memo.len())?,
            b'h' => {
                let index = self.u8()?;
                self.get(index.into())?;
            }
            b'j' => {
                let index = u32::from_le_bytes(self.array()?);
                self.get(index as usize)?;
            }
            other => {
                let what = format!("opcode {other:#04x} in its pickle, at byte {}", self.at - 1);
                return Err(FileProblem::Unsupported { what });
            }
        }
        Ok(true)
    }

    fn protocol(&mut self) -> Result<(), FileProblem> {
        match self.u8()? {
            2..=5 => Ok(()),
            other => Err(FileProblem::Unsupported { what: format!("pickle protocol {other}") }),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], FileProblem> {
        let end = self.at.checked_add(len);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| damaged("its pickle is cut short"))?;
        self.at += len;
        Ok(taken)
    }

    fn skip(&mut self, len: usize) -> Result<(), FileProblem> {
        self.take(len).map(|_| ())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FileProblem> {
        Ok(self.take(N)?.try_into().expect("take gives as many bytes as asked"))
    }

    fn u8(&mut self) -> Result<u8, FileProblem> {
        self.array().map(u8::from_le_bytes)
    }

    /// An unsigned little-endian number of N bytes.
    fn unsigned<const N: usize>(&mut self) -> Result<u64, FileProblem> {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&self.array::<N>()?);
        Ok(u64::from_le_bytes(wide))
    }

    fn push_int<const N: usize>(&mut self) -> Result<(), FileProblem> {
        let value = self.unsigned::<N>()?;
        self.push(Value::Int(value as i64))
    }

    /// A number of up to eight bytes; a longer one is opaque.
    fn long(&mut self) -> Result<(), FileProblem> {
        let len = self.u8()?;
        let digits = self.take(len.into())?;
        let Some(wide) = (digits.len() <= 8).then(|| {
            let sign = if digits.last().is_some_and(|byte| byte & 0x80 != 0) { 0xFF } else { 0 };
            let mut wide = [sign; 8];
            wide[..digits.len()].copy_from_slice(digits);
            i64::from_le_bytes(wide)
        }) else {
            return self.push(Value::Opaque);
        };
        self.push(Value::Int(wide))
    }

    fn length<const N: usize>(&mut self) -> Result<usize, FileProblem> {
        let len = self.unsigned::<N>()?;
        usize::try_from(len).map_err(|_| damaged("its pickle is cut short"))
    }

    fn text_of_len<const N: usize>(&mut self) -> Result<(), FileProblem> {
        let len = self.length::<N>()?;
        let start = self.at;
        let bytes = self.take(len)?;
        std::str::from_utf8(bytes).map_err(|_| damaged("a text of its pickle isn't UTF-8"))?;
        // Both fit: the pickle was cut to what a u32 can count.
        self.push(Value::Text(start as u32, len as u32))
    }

    fn bytes_of_len<const N: usize>(&mut self) -> Result<(), FileProblem> {
        let len = self.length::<N>()?;
        self.skip(len)?;
        self.push(Value::Opaque)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), FileProblem> {
        self.budget = self.budget.checked_sub(bytes).ok_or(FileProblem::TooMuch)?;
        Ok(())
    }

    fn push(&mut self, value: Value) -> Result<(), FileProblem> {
        self.spend(size_of::<Value>())?;
        self.stack.push(value);
        Ok(())
    }

    fn push_node(&mut self, node: Node) -> Result<(), FileProblem> {
        self.spend(size_of::<Node>())?;
        let index = u32::try_from(self.nodes.len()).map_err(|_| FileProblem::TooMuch)?;
        self.nodes.push(node);
        self.push(Value::Node(index))
    }

    fn pop(&mut self) -> Result<Value, FileProblem> {
        if self.marks.last().is_some_and(|&mark| mark >= self.stack.len()) {
            return Err(damaged("its pickle takes more values than it made"));
        }
        let value = self.stack.pop().ok_or_else(|| damaged("its pickle takes more values than it made"))?;
        self.budget += size_of::<Value>();
        Ok(value)
    }

    fn top(&self) -> Result<Value, FileProblem> {
        self.stack.last().copied().ok_or_else(|| damaged("its pickle takes more values than it made"))
    }

    /// The values above the newest mark. They keep what they cost: they move into a node.
    fn pop_mark(&mut self) -> Result<Vec<Value>, FileProblem> {
        let mark = self.marks.pop().ok_or_else(|| damaged("its pickle ends a list that it didn't begin"))?;
        self.budget += size_of::<usize>();
        Ok(self.stack.split_off(mark))
    }

    fn tuple(&mut self, len: usize) -> Result<(), FileProblem> {
        let mut values = vec![Value::None; len];
        for value in values.iter_mut().rev() {
            *value = self.pop()?;
        }
        self.spend(len * size_of::<Value>())?;
        self.push_node(Node::Sequence(values))
    }

    /// Adds values to the list on top. What isn't a list of ours is opaque.
    fn append(&mut self, values: &[Value]) -> Result<(), FileProblem> {
        self.spend(size_of_val(values))?;
        if let Value::Node(index) = self.top()?
            && let Some(Node::Sequence(list)) = self.nodes.get_mut(index as usize)
        {
            list.extend_from_slice(values);
        }
        Ok(())
    }

    fn set_items(&mut self, pairs: &[(Value, Value)]) -> Result<(), FileProblem> {
        self.spend(size_of_val(pairs))?;
        if let Value::Node(index) = self.top()?
            && let Some(Node::Dict(entries)) = self.nodes.get_mut(index as usize)
        {
            entries.extend_from_slice(pairs);
        }
        Ok(())
    }

    fn put(&mut self, index: usize) -> Result<(), FileProblem> {
        let value = self.top()?;
        if index >= self.memo.len() {
            self.spend((index + 1 - self.memo.len()).saturating_mul(size_of::<Value>()))?;
            self.memo.resize(index + 1, Value::Opaque);
        }
        self.memo[index] = value;
        Ok(())
    }

    fn get(&mut self, index: usize) -> Result<(), FileProblem> {
        let value = self.memo.get(index).copied();
        self.push(value.ok_or_else(|| damaged("its pickle remembers what it never said"))?)
    }

    fn line(&mut self) -> Result<&'a str, FileProblem> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|&byte| byte == b'\n').ok_or_else(|| damaged("its pickle is cut short"))?;
        self.at += len + 1;
        std::str::from_utf8(&rest[..len]).map_err(|_| damaged("a name of its pickle isn't UTF-8"))
    }

    fn global(&mut self) -> Result<(), FileProblem> {
        let (module, name) = (self.line()?, self.line()?);
        self.push(Value::Global(known(module, name)?))
    }

    fn stack_global(&mut self) -> Result<(), FileProblem> {
        let (name, module) = (self.pop()?, self.pop()?);
        match (text(self.bytes, module), text(self.bytes, name)) {
            (Some(module), Some(name)) => self.push(Value::Global(known(module, name)?)),
            _ => Err(damaged("a name of its pickle isn't a text")),
        }
    }

    /// A call, or a new object: the few that make tensors and dictionaries; nothing is run.
    fn reduce(&mut self) -> Result<(), FileProblem> {
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let result = self.called(callee, arguments, 0)?;
        self.push(result)
    }

    fn called(&mut self, callee: Value, arguments: Value, depth: usize) -> Result<Value, FileProblem> {
        let Value::Global(global) = callee else {
            return Err(damaged("its pickle calls something that isn't a function"));
        };
        let first = |machine: &Self| machine.items(arguments).first().copied().unwrap_or(Value::None);
        let node = match global {
            Global::Opaque => return Ok(Value::Opaque),
            Global::Storage(_) => return Err(damaged("its pickle calls a class of storage")),
            Global::Parameter => return Ok(first(self)),
            Global::Typed if depth == 0 => {
                let &[callee, _, arguments, ..] = self.items(arguments) else {
                    return Err(damaged("a tensor of its pickle is incomplete"));
                };
                return self.called(callee, arguments, 1);
            }
            Global::Typed => return Err(damaged("its pickle rebuilds a tensor of a tensor")),
            Global::Dict => Node::Dict(self.initial_pairs(first(self))?),
            Global::Tensor => Node::Tensor(Box::new(self.rebuilt_tensor(arguments)?)),
        };
        self.push_node(node)?;
        self.pop()
    }

    /// What `OrderedDict(argument)` starts with: nothing, or a list of pairs.
    fn initial_pairs(&mut self, argument: Value) -> Result<Vec<(Value, Value)>, FileProblem> {
        let pairs: Vec<_> = match argument {
            Value::Node(index) => match self.nodes.get(index as usize) {
                Some(Node::Dict(entries)) => entries.clone(),
                Some(Node::Sequence(list)) => list
                    .iter()
                    .filter_map(|&pair| self.items(pair).try_into().ok())
                    .map(|[k, v]: [_; 2]| (k, v))
                    .collect(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        self.spend(size_of_val(pairs.as_slice()))?;
        Ok(pairs)
    }

    /// `(storage, offset, size, stride, ...)`.
    fn rebuilt_tensor(&mut self, arguments: Value) -> Result<Tensor, FileProblem> {
        let incomplete = || damaged("a tensor of its pickle is incomplete");
        let &[storage, offset, size, stride, ..] = self.items(arguments) else { return Err(incomplete()) };
        let Value::Node(index) = storage else { return Err(incomplete()) };
        let Some(Node::Storage(storage)) = self.nodes.get(index as usize) else { return Err(incomplete()) };
        let storage = **storage;
        let (shape, strides) = (self.counts(size)?, self.counts(stride)?);
        if shape.len() != strides.len() {
            return Err(incomplete());
        }
        self.spend(size_of::<Tensor>() + 2 * size_of_val(shape.as_slice()))?;
        let offset = count(offset)?.checked_add(storage.start).ok_or_else(incomplete)?;
        Ok(Tensor { storage, offset, shape, strides })
    }

    /// `('storage', class, key, place, length)`, and in old files a view `(key, offset, length)` behind it.
    fn persistent(&mut self) -> Result<(), FileProblem> {
        let id = self.pop()?;
        let unknown = || damaged("a storage of its pickle isn't described as PyTorch does");
        let &[kind, class, key, _, len, ref view @ ..] = self.items(id) else { return Err(unknown()) };
        let (Some("storage"), Value::Global(Global::Storage(dtype)), Value::Text(start, key_len)) =
            (text(self.bytes, kind), class, key)
        else {
            return Err(unknown());
        };
        let view = view.first().copied().unwrap_or(Value::None);
        let view_start = match self.items(view) {
            [] => 0,
            [_, offset, _] => count(*offset)?,
            _ => return Err(unknown()),
        };
        self.spend(size_of::<Storage>())?;
        let storage = Storage { dtype, key: (start, key_len), len: count(len)?, start: view_start };
        self.push_node(Node::Storage(Box::new(storage)))
    }

    fn items(&self, value: Value) -> &[Value] {
        match value {
            Value::Node(index) => match self.nodes.get(index as usize) {
                Some(Node::Sequence(values)) => values,
                _ => &[],
            },
            _ => &[],
        }
    }

    fn counts(&self, value: Value) -> Result<Vec<usize>, FileProblem> {
        let items = self.items(value);
        if items.len() > MOST_AXES {
            return Err(FileProblem::Unsupported { what: format!("a tensor of {} axes", items.len()) });
        }
        items.iter().map(|&item| count(item)).collect()
    }
}

fn pairs(values: &[Value]) -> Result<Vec<(Value, Value)>, FileProblem> {
    match values.as_chunks::<2>() {
        (pairs, []) => Ok(pairs.iter().map(|&[key, value]| (key, value)).collect()),
        _ => Err(damaged("its pickle has a key without a value")),
    }
}

fn count(value: Value) -> Result<usize, FileProblem> {
    match value {
        Value::Int(number) => usize::try_from(number).map_err(|_| damaged("a size in its pickle is negative")),
        _ => Err(damaged("a size in its pickle isn't a number")),
    }
}
