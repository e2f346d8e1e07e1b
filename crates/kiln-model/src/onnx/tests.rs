//! ONNX files, read back: names and shapes, and the graph run operator by operator against the network.

use super::*;
use crate::{Arch, ResNetConfig, Shortcut, Stem};
use burn::nn::PaddingConfig2d;
use burn::nn::pool::{AvgPool2dConfig, MaxPool2dConfig};
use burn::tensor::activation::relu;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor as Numbers};
use proto::Setting;
use std::collections::HashSet;

mod reader;

/// Relative to the largest logit: folding rounds each weight once more.
const TOLERANCE: f32 = 1e-5;

fn networks() -> Vec<ResNetConfig> {
    let narrow =
        |arch| ResNetConfig { width: 8, num_classes: 5, zero_init_last_gamma: false, ..ResNetConfig::new(arch) };
    let grouped = ResNetConfig { groups: 2, width_per_group: 32, ..narrow(Arch::ResNet50) };
    vec![
        narrow(Arch::ResNet18),
        narrow(Arch::ResNet50),
        grouped,
        narrow(Arch::ResNet18d),
        ResNetConfig { stem: Stem::Small, shortcut: Shortcut::AveragePool, ..narrow(Arch::ResNet18) },
        ResNetConfig { antialias: true, ..narrow(Arch::ResNet50) },
    ]
}

/// A network whose statistics are no longer those it began with.
fn used(config: &ResNetConfig) -> ResNet {
    let device = kiln_device::cpu().autodiff();
    let model = config.init(4, &device);
    for step in 0..3 {
        model.forward(images(3, [40, 56], step as f32, &device));
    }
    burn::module::Module::valid(&model)
}

fn images(batch: usize, [height, width]: [usize; 2], phase: f32, device: &Device) -> Numbers<4> {
    let count = (batch * 3 * height * width) as i64;
    let ramp = Numbers::<1, burn::tensor::Int>::arange(0..count, device).float();
    (ramp.reshape([batch, 3, height, width]) * 0.37 + phase).sin()
}

fn read(bytes: &[u8]) -> Model {
    reader::model(bytes)
}

#[test]
fn the_graph_computes_what_the_network_does_for_free_batch_and_size() {
    let device = kiln_device::cpu();
    for config in networks() {
        let model = used(&config);
        for norms in [Norms::Folded, Norms::Kept] {
            let file = read(&model.to_onnx(&OnnxOptions { norms, image_size: None }, &Metadata::new()));
            for (batch, size) in [(1, [40, 56]), (2, [33, 47])] {
                let images = images(batch, size, 9.0, &device);
                let expected: Vec<f32> = model.forward(images.clone()).into_data().iter().collect();
                let found: Vec<f32> = run(&file, images).into_data().iter().collect();
                let largest = expected.iter().fold(0f32, |largest, v| largest.max(v.abs()));
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(&expected) {
                    let error = (found - expected).abs();
                    assert!(error <= TOLERANCE * largest, "{config:?} {norms:?}: {found}, want {expected}");
                }
            }
        }
    }
}

#[test]
fn kept_norms_have_the_state_s_names_shapes_and_bits() {
    for config in networks() {
        let model = used(&config);
        let options = OnnxOptions { norms: Norms::Kept, image_size: None };
        let graph = read(&model.to_onnx(&options, &Metadata::new())).graph;
        let weights: HashMap<_, _> = graph.initializers.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
        for (name, value) in model.state().iter().filter(|(name, _)| !name.ends_with("num_batches_tracked")) {
            let tensor = weights[name.as_str()];
            assert_eq!(tensor.dims, value.shape().as_slice(), "{name}");
            assert_eq!(tensor.raw_data, value.as_bytes(), "{name}");
        }
    }
}

#[test]
fn folded_norms_leave_no_norm_and_every_value_is_made_before_it_is_used() {
    for config in networks() {
        for norms in [Norms::Folded, Norms::Kept] {
            let bytes = used(&config).to_onnx(&OnnxOptions { norms, image_size: None }, &Metadata::new());
            let graph = read(&bytes).graph;
            let has_norms = graph.nodes.iter().any(|node| node.op == "BatchNormalization");
            assert_eq!(has_norms, norms == Norms::Kept);
            let mut known: HashSet<&str> = graph.initializers.iter().map(|tensor| tensor.name.as_str()).collect();
            assert_eq!(known.len(), graph.initializers.len(), "names of weights are unique");
            known.insert(&graph.inputs[0].name);
            for node in &graph.nodes {
                assert!(node.inputs.iter().all(|input| known.contains(input.as_str())), "{node:?}");
                assert!(node.outputs.iter().all(|output| known.insert(output)), "{} is made twice", node.name);
            }
            assert!(known.contains(graph.outputs[0].name.as_str()));
        }
    }
}

#[test]
fn the_file_says_what_it_is() {
    let config = &networks()[0];
    let metadata = Metadata::from([("classes".to_string(), "[\"a\"]".to_string())]);
    let options = OnnxOptions { image_size: Some([40, 56]), ..OnnxOptions::default() };
    let model = read(&used(config).to_onnx(&options, &metadata));
    assert_eq!((model.opset, model.ir_version), (17, 8));
    let of = |key: &str| model.metadata.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str());
    assert_eq!((of("classes"), of("arch")), (Some("[\"a\"]"), Some("resnet18")));
    let graph = &model.graph;
    let batch = Extent::Named("batch".to_string());
    assert_eq!(graph.inputs[0].shape, [batch.clone(), Extent::Fixed(3), Extent::Fixed(40), Extent::Fixed(56)]);
    assert_eq!(graph.outputs[0].shape, [batch, Extent::Fixed(5)]);
}

/// Runs a file by the operators' definitions.
fn run(model: &Model, images: Numbers<4>) -> Numbers<2> {
    let device = images.device();
    let graph = &model.graph;
    let weights: HashMap<_, _> = graph.initializers.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let mut values = HashMap::from([(graph.inputs[0].name.clone(), images)]);
    let vector = |name: &str| Numbers::<1>::from_data(data(weights[name]), &device);
    for node in &graph.nodes {
        let x = values[&node.inputs[0]].clone();
        let pair = |name: &str| ints(node, name).map(|v| [v[0] as usize, v[1] as usize]);
        let y = match node.op.as_str() {
            "Conv" => {
                let weight = Numbers::<4>::from_data(data(weights[node.inputs[1].as_str()]), &device);
                let bias = node.inputs.get(2).map(|name| vector(name));
                let [kernel, stride] = ["kernel_shape", "strides"].map(|name| pair(name).expect("sizes"));
                let padding = pair("pads").expect("pads");
                assert_eq!(kernel, [weight.dims()[2], weight.dims()[3]]);
                let groups = int(node, "group").expect("groups") as usize;
                conv2d(x, weight, bias, ConvOptions::new(stride, padding, [1, 1], groups))
            }
            "BatchNormalization" => {
                let [gamma, beta, mean, var] = [1, 2, 3, 4].map(|index| {
                    let field = vector(&node.inputs[index]);
                    let channels = field.dims()[0];
                    field.reshape([1, channels, 1, 1])
                });
                let Some(Setting::Float(epsilon)) = attribute(node, "epsilon") else { panic!("no epsilon") };
                (x - mean) / (var + *epsilon).sqrt() * gamma + beta
            }
            "Relu" => relu(x),
            "Add" => x + values[&node.inputs[1]].clone(),
            "MaxPool" => {
                let config = MaxPool2dConfig::new(pair("kernel_shape").expect("sizes"));
                let config = config.with_strides(pair("strides").expect("strides"));
                config.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init().forward(x)
            }
            "AveragePool" => {
                let config = AvgPool2dConfig::new(pair("kernel_shape").expect("sizes"));
                let ceil_mode = int(node, "ceil_mode") == Some(1);
                let config = config.with_strides(pair("strides").expect("strides")).with_ceil_mode(ceil_mode);
                config.with_count_include_pad(false).init().forward(x)
            }
            "Pad" => {
                assert_eq!(attribute(node, "mode"), Some(&Setting::Text("reflect".to_string())));
                let mirror = |x: Numbers<4>, axis: usize| {
                    let len = x.dims()[axis];
                    let [first, last] = [1, len - 2].map(|index| x.clone().narrow(axis, index, 1));
                    Numbers::cat(vec![first, x, last], axis)
                };
                mirror(mirror(x, 2), 3)
            }
            "GlobalAveragePool" => x.mean_dim(3).mean_dim(2),
            "Flatten" => x,
            "Gemm" => {
                let weight = Numbers::<2>::from_data(data(weights[node.inputs[1].as_str()]), &device);
                assert_eq!(int(node, "transB"), Some(1));
                let product = x.flatten::<2>(1, 3).matmul(weight.transpose());
                return product + vector(&node.inputs[2]).unsqueeze();
            }
            other => panic!("no definition of {other}"),
        };
        values.insert(node.outputs[0].clone(), y);
    }
    panic!("the last operator gives the logits")
}

fn data(tensor: &Tensor) -> TensorData {
    let (values, _) = tensor.raw_data.as_chunks::<4>();
    let values: Vec<f32> = values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    TensorData::new(values, tensor.dims.clone())
}

fn attribute<'a>(node: &'a Node, name: &str) -> Option<&'a Setting> {
    node.attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value)
}

fn int(node: &Node, name: &str) -> Option<i64> {
    match attribute(node, name)? {
        Setting::Int(value) => Some(*value),
        other => panic!("{name} is {other:?}"),
    }
}

fn ints<'a>(node: &'a Node, name: &str) -> Option<&'a [i64]> {
    match attribute(node, name)? {
        Setting::Ints(values) => Some(values),
        other => panic!("{name} is {other:?}"),
    }
}
