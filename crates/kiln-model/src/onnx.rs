//! A network as an ONNX file.
//!
//! In: a network and what its file should say of itself. Out: the bytes of an ONNX model, opset 17, IR version 8, for
//! evaluation: float images `[batch, 3, H, W]`, normalised, named `images`; logits `[batch, classes]`, named `logits`. The
//! batch is free; height and width are free too, unless a size is given.
//! Weights are called as in torchvision. Norms are folded into the convolutions before them or kept as they are.
//! Source: the ONNX operator specification, opset 17; the messages in `onnx/proto.rs`.
//! Not done: reading ONNX files; lower precision.

mod proto;

use burn::nn::pool::AvgPool2d;
use burn::tensor::TensorData;
use std::collections::HashMap;
use std::path::Path;

use crate::resnet::{Block, ConvNorm, Downsample, ResNet, STAGE_NAMES, downsample_positions, stem_names};
use crate::weights::replace_file;
use crate::{Metadata, ModelError};
use proto::{Attribute, Entry, Extent, Graph, Message, Model, Node, Tensor, Value};

/// How a file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnnxOptions {
    /// What becomes of the norms. Default folded.
    pub norms: Norms,
    /// Height and width in pixels, if only one size is to be accepted.
    pub image_size: Option<[usize; 2]>,
}

/// What becomes of the norms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Norms {
    /// Multiplied into the weights before them, with a bias: fewer operations, other roundings.
    #[default]
    Folded,
    /// Operators of their own, with the weights as they were trained.
    Kept,
}

/// Name of the input.
const IMAGES: &str = "images";
/// Name of the output.
const LOGITS: &str = "logits";
/// Version of the operators, and the file format that came with it.
const OPSET: i64 = 17;
const IR_VERSION: i64 = 8;

impl ResNet {
    /// Writes an ONNX file; it appears whole or not at all.
    ///
    /// # Errors
    /// [`ModelError::WriteFile`].
    pub fn save_onnx(&self, path: &Path, options: &OnnxOptions, metadata: &Metadata) -> Result<(), ModelError> {
        let write_error = |source| ModelError::WriteFile { path: path.to_path_buf(), source };
        replace_file(path, &self.to_onnx(options, metadata)).map_err(write_error)
    }

    /// The bytes of an ONNX file that evaluates as this network does. Waits for the device.
    pub fn to_onnx(&self, options: &OnnxOptions, metadata: &Metadata) -> Vec<u8> {
        let mut builder =
            Builder { state: self.state().into_iter().collect(), norms: options.norms, graph: Graph::default() };
        let logits = builder.network(self);
        let config = self.config();
        let sides = match options.image_size {
            Some(size) => size.map(Extent::Fixed),
            None => ["height", "width"].map(|name| Extent::Named(name.into())),
        };
        let [height, width] = sides;
        let batch = || Extent::Named("batch".into());
        let mut graph = builder.graph;
        graph.name = config.arch.name().to_string();
        graph.inputs = vec![value(IMAGES, vec![batch(), Extent::Fixed(3), height, width])];
        graph.outputs = vec![value(&logits, vec![batch(), Extent::Fixed(config.num_classes)])];
        let mut metadata = metadata.clone();
        metadata.extend(config.to_metadata());
        let model = Model {
            ir_version: IR_VERSION,
            producer_name: "kiln".to_string(),
            producer_version: env!("CARGO_PKG_VERSION").to_string(),
            graph,
            opset: OPSET,
            metadata: metadata.into_iter().map(|(key, value)| Entry { key, value }).collect(),
        };
        model.bytes()
    }
}

fn value(name: &str, shape: Vec<Extent>) -> Value {
    Value { name: name.to_string(), shape }
}

/// Adds nodes and weights from the input to the output. Functions take and give names of values.
struct Builder {
    state: HashMap<String, TensorData>,
    norms: Norms,
    graph: Graph,
}

impl Builder {
    fn network(&mut self, model: &ResNet) -> String {
        let mut x = IMAGES.to_string();
        for ([conv, norm], layer) in stem_names(model.stem.len()).iter().zip(&model.stem) {
            x = self.conv_norm([conv, norm], layer, x);
            x = self.relu(&format!("{conv}.relu"), x);
        }
        let antialias = model.config().antialias;
        if model.max_pool.is_some() {
            let stride = if antialias { 1 } else { 2 };
            let attributes =
                [("kernel_shape", [3; 2]), ("strides", [stride; 2])].map(|(name, v)| Attribute::ints(name, &v));
            let pads = Attribute::ints("pads", &[1; 4]);
            x = self.node("MaxPool", "maxpool", vec![x], attributes.into_iter().chain([pads]).collect());
            if antialias {
                x = self.blur("maxpool", x);
            }
        }
        let positions = downsample_positions(model.config());
        for (stage, blocks) in STAGE_NAMES.iter().zip(&model.stages) {
            for (index, block) in blocks.iter().enumerate() {
                x = self.block(&format!("{stage}.{index}"), block, positions, x);
            }
        }
        x = self.node("GlobalAveragePool", "avgpool", vec![x], Vec::new());
        x = self.node("Flatten", "flatten", vec![x], vec![Attribute::int("axis", 1)]);
        let [weight, bias] = ["fc.weight", "fc.bias"].map(|name| self.trained(name));
        self.add("Gemm", "fc", vec![x, weight, bias], vec![Attribute::int("transB", 1)], LOGITS)
    }

    fn block(&mut self, name: &str, block: &Block, positions: [usize; 2], input: String) -> String {
        let last = block.layers.len() - 1;
        let mut x = input.clone();
        for (index, layer) in block.layers.iter().enumerate() {
            let names = [format!("{name}.conv{}", index + 1), format!("{name}.bn{}", index + 1)];
            x = self.conv_norm([&names[0], &names[1]], layer, x);
            if index < last {
                x = self.relu(&format!("{name}.relu{}", index + 1), x);
            }
            if index == block.blur_behind {
                x = self.blur(&names[0], x);
            }
        }
        let identity = match &block.downsample {
            Some(downsample) => self.downsample(name, downsample, positions, input),
            None => input,
        };
        x = self.node("Add", &format!("{name}.add"), vec![x, identity], Vec::new());
        self.relu(&format!("{name}.relu"), x)
    }

    fn downsample(&mut self, name: &str, downsample: &Downsample, positions: [usize; 2], mut x: String) -> String {
        if let Some(AvgPool2d { stride, ceil_mode, .. }) = &downsample.pool {
            let attributes = vec![
                Attribute::ints("kernel_shape", &[2; 2]),
                Attribute::ints("strides", stride),
                Attribute::int("ceil_mode", (*ceil_mode).into()),
            ];
            x = self.node("AveragePool", &format!("{name}.downsample.pool"), vec![x], attributes);
        }
        let [conv, norm] = positions.map(|position| format!("{name}.downsample.{position}"));
        self.conv_norm([&conv, &norm], &downsample.layer, x)
    }

    fn conv_norm(&mut self, [conv, norm]: [&str; 2], layer: &ConvNorm, x: String) -> String {
        let kernel = layer.conv.kernel_size;
        let [top, left] = kernel.map(|side| side / 2);
        let attributes = vec![
            Attribute::ints("kernel_shape", &kernel),
            Attribute::ints("strides", &layer.conv.stride),
            Attribute::ints("pads", &[top, left, top, left]),
            Attribute::int("group", layer.conv.groups as i64),
        ];
        match self.norms {
            Norms::Kept => {
                let weight = self.trained(&format!("{conv}.weight"));
                let y = self.node("Conv", conv, vec![x, weight], attributes);
                let fields = ["weight", "bias", "running_mean", "running_var"];
                let fields = fields.map(|field| self.trained(&format!("{norm}.{field}")));
                let inputs = std::iter::once(y).chain(fields).collect();
                self.node("BatchNormalization", norm, inputs, vec![Attribute::float("epsilon", layer.norm.epsilon)])
            }
            Norms::Folded => {
                let [weight, bias] = self.folded([conv, norm], layer.norm.epsilon);
                self.node("Conv", conv, vec![x, weight, bias], attributes)
            }
        }
    }

    /// The convolution's weight and a bias, with the norm in them; in f64, rounded once.
    fn folded(&mut self, [conv, norm]: [&str; 2], epsilon: f64) -> [String; 2] {
        let numbers = |name: String| -> Vec<f64> { self.state[&name].iter().collect() };
        let [gamma, beta, mean, var] =
            ["weight", "bias", "running_mean", "running_var"].map(|field| numbers(format!("{norm}.{field}")));
        let scale: Vec<f64> = gamma.iter().zip(&var).map(|(gamma, var)| gamma / (var + epsilon).sqrt()).collect();
        let weight = numbers(format!("{conv}.weight"));
        let shape = self.state[&format!("{conv}.weight")].shape().to_vec();
        let per_channel = weight.len() / scale.len();
        let weight =
            weight.chunks(per_channel).zip(&scale).flat_map(|(w, scale)| w.iter().map(move |w| (w * scale) as f32));
        let weight: Vec<f32> = weight.collect();
        let bias = beta.iter().zip(&mean).zip(&scale).map(|((beta, mean), scale)| (beta - mean * scale) as f32);
        let bias: Vec<f32> = bias.collect();
        let channels = [scale.len()];
        [
            self.weights(&format!("{conv}.weight"), &shape, &weight),
            self.weights(&format!("{conv}.bias"), &channels, &bias),
        ]
    }

    /// An entry of the state, as it is.
    fn trained(&mut self, name: &str) -> String {
        let data = self.state[name].clone();
        let values: Vec<f32> = data.iter().collect();
        self.weights(name, data.shape().as_slice(), &values)
    }

    fn weights(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String {
        self.graph.initializers.push(Tensor {
            dims: shape.to_vec(),
            data_type: proto::FLOAT,
            name: name.to_string(),
            raw_data: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        });
        name.to_string()
    }

    /// The blur of `blur_pool.rs`: mirrored borders, then two averages of two.
    fn blur(&mut self, name: &str, x: String) -> String {
        let pads = format!("{name}.blur.pads");
        self.graph.initializers.push(Tensor {
            dims: vec![8],
            data_type: proto::INT64,
            name: pads.clone(),
            raw_data: [0i64, 0, 1, 1, 0, 0, 1, 1].iter().flat_map(|pad| pad.to_le_bytes()).collect(),
        });
        let mirror = vec![Attribute::text("mode", "reflect")];
        let mut x = self.node("Pad", &format!("{name}.blur.pad"), vec![x, pads], mirror);
        for stride in [1, 2] {
            let attributes = vec![Attribute::ints("kernel_shape", &[2; 2]), Attribute::ints("strides", &[stride; 2])];
            x = self.node("AveragePool", &format!("{name}.blur.{stride}"), vec![x], attributes);
        }
        x
    }

    fn relu(&mut self, name: &str, x: String) -> String {
        self.node("Relu", name, vec![x], Vec::new())
    }

    fn node(&mut self, op: &str, name: &str, inputs: Vec<String>, attributes: Vec<Attribute>) -> String {
        self.add(op, name, inputs, attributes, &format!("{name}.out"))
    }

    fn add(&mut self, op: &str, name: &str, inputs: Vec<String>, attributes: Vec<Attribute>, output: &str) -> String {
        let outputs = vec![output.to_string()];
        self.graph.nodes.push(Node { inputs, outputs, name: name.to_string(), op: op.to_string(), attributes });
        output.to_string()
    }
}

#[cfg(test)]
mod tests;
