//! Reads the messages back, by field number and wire type.

use super::proto::{Attribute, Entry, Extent, Graph, Model, Node, Setting, Tensor, Value};
use prost::encoding::{WireType, decode_key, decode_varint};

/// One field of a message.
enum Field<'a> {
    Int(i64),
    Float(f32),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn int(&self) -> i64 {
        let Field::Int(value) = self else { panic!("not a number") };
        *value
    }

    fn bytes(&self) -> &'a [u8] {
        let Field::Bytes(value) = self else { panic!("not bytes") };
        value
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("UTF-8")
    }
}

fn fields(mut bytes: &[u8]) -> Vec<(u32, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let (tag, kind) = decode_key(&mut bytes).expect("a key");
        let field = match kind {
            WireType::Varint => Field::Int(decode_varint(&mut bytes).expect("a number") as i64),
            WireType::ThirtyTwoBit => {
                let (value, rest) = bytes.split_first_chunk().expect("four bytes");
                bytes = rest;
                Field::Float(f32::from_le_bytes(*value))
            }
            WireType::LengthDelimited => {
                let len = decode_varint(&mut bytes).expect("a length") as usize;
                let (value, rest) = bytes.split_at(len);
                bytes = rest;
                Field::Bytes(value)
            }
            other => panic!("no field here is of {other:?}"),
        };
        fields.push((tag, field));
    }
    fields
}

pub(super) fn model(bytes: &[u8]) -> Model {
    let mut model = Model::default();
    for (tag, field) in fields(bytes) {
        match tag {
            1 => model.ir_version = field.int(),
            2 => model.producer_name = field.text(),
            3 => model.producer_version = field.text(),
            7 => model.graph = graph(field.bytes()),
            8 => model.opset = fields(field.bytes()).iter().find(|(tag, _)| *tag == 2).expect("a version").1.int(),
            14 => model.metadata.push(entry(field.bytes())),
            other => panic!("a model has no field {other}"),
        }
    }
    model
}

fn entry(bytes: &[u8]) -> Entry {
    let [key, value] = [1, 2].map(|wanted| {
        let found = fields(bytes).into_iter().find(|(tag, _)| *tag == wanted);
        found.expect("key and value").1.text()
    });
    Entry { key, value }
}

fn graph(bytes: &[u8]) -> Graph {
    let mut graph = Graph::default();
    for (tag, field) in fields(bytes) {
        match tag {
            1 => graph.nodes.push(node(field.bytes())),
            2 => graph.name = field.text(),
            5 => graph.initializers.push(tensor(field.bytes())),
            11 => graph.inputs.push(value(field.bytes())),
            12 => graph.outputs.push(value(field.bytes())),
            other => panic!("a graph has no field {other}"),
        }
    }
    graph
}

fn node(bytes: &[u8]) -> Node {
    let mut node = Node::default();
    for (tag, field) in fields(bytes) {
        match tag {
            1 => node.inputs.push(field.text()),
            2 => node.outputs.push(field.text()),
            3 => node.name = field.text(),
            4 => node.op = field.text(),
            5 => node.attributes.push(attribute(field.bytes())),
            other => panic!("a node has no field {other}"),
        }
    }
    node
}

fn attribute(bytes: &[u8]) -> Attribute {
    let fields = fields(bytes);
    let all = |wanted: u32| fields.iter().filter(move |(tag, _)| *tag == wanted).map(|(_, field)| field);
    let one = |wanted: u32| all(wanted).next().expect("one field");
    let value = match one(20).int() {
        1 => {
            let Field::Float(value) = one(2) else { panic!("not a float") };
            Setting::Float(*value)
        }
        2 => Setting::Int(one(3).int()),
        3 => Setting::Text(one(4).text()),
        7 => Setting::Ints(all(8).map(Field::int).collect()),
        other => panic!("no attribute here is of type {other}"),
    };
    Attribute { name: one(1).text(), value }
}

fn tensor(bytes: &[u8]) -> Tensor {
    let mut tensor = Tensor::default();
    for (tag, field) in fields(bytes) {
        match tag {
            1 => tensor.dims.push(field.int() as usize),
            2 => tensor.data_type = field.int(),
            8 => tensor.name = field.text(),
            9 => tensor.raw_data = field.bytes().to_vec(),
            other => panic!("a tensor has no field {other}"),
        }
    }
    tensor
}

fn value(bytes: &[u8]) -> Value {
    let inner = |bytes, wanted| fields(bytes).into_iter().find(|(tag, _)| *tag == wanted).expect("nested").1.bytes();
    let name = fields(bytes).into_iter().find(|(tag, _)| *tag == 1).expect("a name").1.text();
    let shape = inner(inner(inner(bytes, 2), 1), 2);
    let extent = |dim: &[u8]| match fields(dim).into_iter().next().expect("an extent") {
        (1, field) => Extent::Fixed(field.int() as usize),
        (_, field) => Extent::Named(field.text()),
    };
    Value { name, shape: fields(shape).into_iter().map(|(_, dim)| extent(dim.bytes())).collect() }
}
