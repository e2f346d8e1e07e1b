//! The messages of an ONNX file that a ResNet needs, and how they are written.
//!
//! Source: `onnx/onnx.proto` of ONNX 1.19; numbers and meanings of the fields are that file's. Fields that nothing here
//! writes are left out, which protobuf permits. Keys and variable-length numbers are prost's.

use prost::encoding::{WireType, encode_key, encode_varint};

/// `TensorProto.DataType.FLOAT`.
pub(crate) const FLOAT: i64 = 1;
/// `TensorProto.DataType.INT64`.
pub(crate) const INT64: i64 = 7;

/// Something with numbered fields.
pub(crate) trait Message {
    /// Writes the fields.
    fn write(&self, out: &mut Fields);

    /// The message's bytes.
    fn bytes(&self) -> Vec<u8> {
        let mut fields = Fields(Vec::new());
        self.write(&mut fields);
        fields.0
    }
}

/// Fields of a message, written one after another.
pub(crate) struct Fields(Vec<u8>);

impl Fields {
    fn int(&mut self, tag: u32, value: i64) {
        encode_key(tag, WireType::Varint, &mut self.0);
        encode_varint(value as u64, &mut self.0);
    }

    fn float(&mut self, tag: u32, value: f32) {
        encode_key(tag, WireType::ThirtyTwoBit, &mut self.0);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, tag: u32, value: &[u8]) {
        encode_key(tag, WireType::LengthDelimited, &mut self.0);
        encode_varint(value.len() as u64, &mut self.0);
        self.0.extend(value);
    }

    fn text(&mut self, tag: u32, value: &str) {
        self.bytes(tag, value.as_bytes());
    }

    fn message(&mut self, tag: u32, value: &impl Message) {
        self.bytes(tag, &value.bytes());
    }

    fn messages(&mut self, tag: u32, values: &[impl Message]) {
        values.iter().for_each(|value| self.message(tag, value));
    }
}

/// `ModelProto`.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) ir_version: i64,
    pub(crate) producer_name: String,
    pub(crate) producer_version: String,
    pub(crate) graph: Graph,
    pub(crate) opset: i64,
    pub(crate) metadata: Vec<Entry>,
}

impl Message for Model {
    fn write(&self, out: &mut Fields) {
        out.int(1, self.ir_version);
        out.text(2, &self.producer_name);
        out.text(3, &self.producer_version);
        out.message(7, &self.graph);
        out.message(8, &OperatorSet(self.opset));
        out.messages(14, &self.metadata);
    }
}

/// `OperatorSetIdProto` of ONNX's own operators.
struct OperatorSet(i64);

impl Message for OperatorSet {
    fn write(&self, out: &mut Fields) {
        out.text(1, "");
        out.int(2, self.0);
    }
}

/// `StringStringEntryProto`.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl Message for Entry {
    fn write(&self, out: &mut Fields) {
        out.text(1, &self.key);
        out.text(2, &self.value);
    }
}

/// `GraphProto`.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) name: String,
    pub(crate) initializers: Vec<Tensor>,
    pub(crate) inputs: Vec<Value>,
    pub(crate) outputs: Vec<Value>,
}

impl Message for Graph {
    fn write(&self, out: &mut Fields) {
        out.messages(1, &self.nodes);
        out.text(2, &self.name);
        out.messages(5, &self.initializers);
        out.messages(11, &self.inputs);
        out.messages(12, &self.outputs);
    }
}

/// `NodeProto`.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) name: String,
    pub(crate) op: String,
    pub(crate) attributes: Vec<Attribute>,
}

impl Message for Node {
    fn write(&self, out: &mut Fields) {
        self.inputs.iter().for_each(|input| out.text(1, input));
        self.outputs.iter().for_each(|output| out.text(2, output));
        out.text(3, &self.name);
        out.text(4, &self.op);
        out.messages(5, &self.attributes);
    }
}

/// `AttributeProto`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) value: Setting,
}

/// What an attribute says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    Float(f32),
    Int(i64),
    Text(String),
    Ints(Vec<i64>),
}

impl Attribute {
    pub(crate) fn float(name: &str, value: f64) -> Self {
        Self { name: name.into(), value: Setting::Float(value as f32) }
    }

    pub(crate) fn int(name: &str, value: i64) -> Self {
        Self { name: name.into(), value: Setting::Int(value) }
    }

    pub(crate) fn text(name: &str, value: &str) -> Self {
        Self { name: name.into(), value: Setting::Text(value.into()) }
    }

    pub(crate) fn ints(name: &str, values: &[usize]) -> Self {
        Self { name: name.into(), value: Setting::Ints(values.iter().map(|&value| value as i64).collect()) }
    }
}

impl Message for Attribute {
    fn write(&self, out: &mut Fields) {
        /// Field of `AttributeProto.type`, whose values are the other numbers below.
        const TYPE: u32 = 20;
        out.text(1, &self.name);
        match &self.value {
            Setting::Float(value) => {
                out.float(2, *value);
                out.int(TYPE, 1);
            }
            Setting::Int(value) => {
                out.int(3, *value);
                out.int(TYPE, 2);
            }
            Setting::Text(value) => {
                out.text(4, value);
                out.int(TYPE, 3);
            }
            Setting::Ints(values) => {
                values.iter().for_each(|&value| out.int(8, value));
                out.int(TYPE, 7);
            }
        }
    }
}

/// `TensorProto`.
#[derive(Debug, Default)]
pub(crate) struct Tensor {
    pub(crate) dims: Vec<usize>,
    pub(crate) data_type: i64,
    pub(crate) name: String,
    /// Little-endian, row-major.
    pub(crate) raw_data: Vec<u8>,
}

impl Message for Tensor {
    fn write(&self, out: &mut Fields) {
        self.dims.iter().for_each(|&len| out.int(1, len as i64));
        out.int(2, self.data_type);
        out.text(8, &self.name);
        out.bytes(9, &self.raw_data);
    }
}

/// `ValueInfoProto` of an f32 tensor.
#[derive(Debug, Default)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) shape: Vec<Extent>,
}

/// `TensorShapeProto.Dimension`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Extent {
    Fixed(usize),
    Named(String),
}

impl Message for Value {
    fn write(&self, out: &mut Fields) {
        out.text(1, &self.name);
        out.message(2, &ValueType(&self.shape));
    }
}

/// `TypeProto` with a `TypeProto.Tensor` in it.
struct ValueType<'a>(&'a [Extent]);

impl Message for ValueType<'_> {
    fn write(&self, out: &mut Fields) {
        out.message(1, &TensorType(self.0));
    }
}

struct TensorType<'a>(&'a [Extent]);

impl Message for TensorType<'_> {
    fn write(&self, out: &mut Fields) {
        out.int(1, FLOAT);
        out.message(2, &Shape(self.0));
    }
}

struct Shape<'a>(&'a [Extent]);

impl Message for Shape<'_> {
    fn write(&self, out: &mut Fields) {
        out.messages(1, self.0);
    }
}

impl Message for Extent {
    fn write(&self, out: &mut Fields) {
        match self {
            Extent::Fixed(len) => out.int(1, *len as i64),
            Extent::Named(name) => out.text(2, name),
        }
    }
}
