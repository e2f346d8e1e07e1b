//! The residual network: one builder for the whole family.
//!
//! In: float images `[B, 3, H, W]`, normalised. Out: logits `[B, num_classes]`, f32.
//! Convolutions compute in the type of the images; weights, batch norms and the last layer are f32 whatever that is.
//! Source: He et al., arXiv 1512.03385; torchvision 0.29 `models/resnet.py` (version 1.5: a bottleneck's
//! stride sits on its 3×3); timm 1.0 for the deep stem and the averaged shortcut (He et al., arXiv 1812.01187).
//! Not done here: which numbers make which model (`zoo.rs`), names and files (`state.rs`, `weights.rs`).

use burn::module::Module;
use burn::nn::conv::Conv2d;
use burn::nn::pool::{AvgPool2d, AvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{Linear, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Device, Tensor};

use crate::batch_norm::BatchNorm;
use crate::blur_pool::blur_pool;
use crate::drop_path::DropPath;
use crate::init::{ConvShape, Init};
use crate::zoo::{BlockKind, ResNetConfig, Shortcut, Stem};

/// A residual network. [`ResNetConfig::init`] builds it.
///
/// Cloning is cheap: weights are shared until one side changes. A clone's running statistics are its own.
#[derive(Module, Debug)]
pub struct ResNet {
    pub(crate) stem: Vec<ConvNorm>,
    pub(crate) max_pool: Option<MaxPool2d>,
    pub(crate) stages: Vec<Vec<Block>>,
    pub(crate) fc: Linear,
    #[module(skip)]
    config: ResNetConfig,
}

/// A convolution and the batch norm behind it.
#[derive(Module, Debug)]
pub(crate) struct ConvNorm {
    pub(crate) conv: Conv2d,
    pub(crate) norm: BatchNorm,
}

/// Convolutions around which the input is added back; their number makes it basic or a bottleneck.
#[derive(Module, Debug)]
pub(crate) struct Block {
    pub(crate) layers: Vec<ConvNorm>,
    pub(crate) downsample: Option<Downsample>,
    #[module(skip)]
    drop_path: DropPath,
    /// Index of the layer behind which a blur takes the stride's place; beyond the last if there is none.
    #[module(skip)]
    pub(crate) blur_behind: usize,
}

/// The projection of a shortcut whose ends differ in size.
#[derive(Module, Debug)]
pub(crate) struct Downsample {
    pub(crate) pool: Option<AvgPool2d>,
    pub(crate) layer: ConvNorm,
}

impl ResNet {
    /// What the network was built from.
    pub fn config(&self) -> &ResNetConfig {
        &self.config
    }

    /// Logits of a batch.
    ///
    /// # Shapes
    /// `images`: float `[B, 3, H, W]`, normalised, f32, f16 or bf16; output: f32 `[B, num_classes]`.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        self.forward_observed(images, |_, _| ())
    }

    /// Like [`forward`](Self::forward), and shows `observe` the activation behind each part as it passes:
    /// `bn1` (the stem after its ReLU), `maxpool`, `layer1` … `layer4`.
    pub fn forward_observed(&self, images: Tensor<4>, observe: impl FnMut(&str, &Tensor<4>)) -> Tensor<2> {
        self.classify(self.observed_features(images, observe))
    }

    /// The activation behind the last stage: all that [`classify`](Self::classify) sees of an image.
    ///
    /// # Shapes
    /// `images`: float `[B, 3, H, W]`, normalised; output: float `[B, C, h, w]`, a 32nd of the image's size for most nets.
    pub fn features(&self, images: Tensor<4>) -> Tensor<4> {
        self.observed_features(images, |_, _| ())
    }

    /// Logits of [`features`](Self::features): their mean over the image, and the last layer.
    ///
    /// # Shapes
    /// `features`: float `[B, C, h, w]`; output: float `[B, num_classes]`.
    pub fn classify(&self, features: Tensor<4>) -> Tensor<2> {
        let pooled: Tensor<3> = features.cast(DType::F32).flatten(2, 3).mean_dim(2);
        self.fc.forward(pooled.flatten(1, 2))
    }

    fn observed_features(&self, images: Tensor<4>, mut observe: impl FnMut(&str, &Tensor<4>)) -> Tensor<4> {
        let mut x = images;
        for layer in &self.stem {
            x = relu(layer.forward(x));
        }
        observe("bn1", &x);
        if let Some(max_pool) = &self.max_pool {
            x = max_pool.forward(x);
            if self.config.antialias {
                x = blur_pool(x);
            }
            observe("maxpool", &x);
        }
        for (index, blocks) in self.stages.iter().enumerate() {
            for block in blocks {
                x = block.forward(x);
            }
            observe(STAGE_NAMES[index], &x);
        }
        x
    }

    pub(crate) fn build(config: &ResNetConfig, seed: u64, device: &Device) -> Self {
        let init = Init { seed, device };
        let last_channels = config.stage_channels(3);
        Self {
            stem: stem(config, &init),
            max_pool: (config.stem != Stem::Small).then(|| {
                let stride = if config.antialias { 1 } else { 2 };
                MaxPool2dConfig::new([3, 3])
                    .with_strides([stride, stride])
                    .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                    .init()
            }),
            stages: (0..4).map(|index| stage(config, index, &init)).collect(),
            fc: init.linear("fc", last_channels, config.num_classes),
            config: config.clone(),
        }
    }
}

/// Names of the stem's convolutions and norms: torchvision's for one layer; timm's for several, a sequence of
/// (convolution, norm, ReLU) whose last norm is `bn1`.
pub(crate) fn stem_names(num_layers: usize) -> Vec<[String; 2]> {
    let name = |index: usize| match (num_layers, index + 1 == num_layers) {
        (1, _) => ["conv1".to_string(), "bn1".to_string()],
        (_, true) => [format!("conv1.{}", 3 * index), "bn1".to_string()],
        (_, false) => [format!("conv1.{}", 3 * index), format!("conv1.{}", 3 * index + 1)],
    };
    (0..num_layers).map(name).collect()
}

/// torchvision's names of the stages.
pub(crate) const STAGE_NAMES: [&str; 4] = ["layer1", "layer2", "layer3", "layer4"];

impl ConvNorm {
    fn new(names: [&str; 2], shape: ConvShape, gamma: f32, init: &Init<'_>) -> Self {
        Self { conv: init.conv(names[0], &shape), norm: init.norm(names[1], shape.channels_out, gamma) }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward(convolve(&self.conv, x))
    }
}

/// `conv` in the type of `x`. Weights are rounded to it on the way, and their gradients come back as f32.
fn convolve(conv: &Conv2d, x: Tensor<4>) -> Tensor<4> {
    if x.dtype() == DType::F32 {
        return conv.forward(x);
    }
    let weight = conv.weight.val().cast(x.dtype());
    let half = conv.kernel_size.map(|side| side / 2);
    conv2d(x, weight, None, ConvOptions::new(conv.stride, half, conv.dilation, conv.groups))
}

impl Block {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let identity = match &self.downsample {
            Some(downsample) => downsample.forward(x.clone()),
            None => x.clone(),
        };
        let (last, inner) = self.layers.split_last().expect("a block has two or three layers");
        let mut x = x;
        for (index, layer) in inner.iter().enumerate() {
            x = relu(layer.forward(x));
            if index == self.blur_behind {
                x = blur_pool(x);
            }
        }
        let batch = last.norm.num_batches_tracked.value();
        let drops = self.drop_path.is_active() && last.norm.is_training(&x.device());
        let mut branch = last.forward(x);
        if drops {
            branch = self.drop_path.apply(branch, batch);
        }
        relu(branch + identity)
    }
}

impl Downsample {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        match &self.pool {
            Some(pool) => self.layer.forward(pool.forward(x)),
            None => self.layer.forward(x),
        }
    }
}

fn stem(config: &ResNetConfig, init: &Init<'_>) -> Vec<ConvNorm> {
    let width = config.width;
    let layer = |names, channels_in, channels_out, kernel, stride| {
        let shape = ConvShape { channels_in, channels_out, kernel, stride, groups: 1 };
        ConvNorm::new(names, shape, 1.0, init)
    };
    match config.stem {
        Stem::Conv7x7 => vec![layer(["conv1", "bn1"], 3, width, 7, 2)],
        Stem::Small => vec![layer(["conv1", "bn1"], 3, width, 3, 1)],
        Stem::Deep3x3 => vec![
            layer(["conv1.0", "conv1.1"], 3, width / 2, 3, 2),
            layer(["conv1.3", "conv1.4"], width / 2, width / 2, 3, 1),
            layer(["conv1.6", "bn1"], width / 2, width, 3, 1),
        ],
    }
}

fn stage(config: &ResNetConfig, index: usize, init: &Init<'_>) -> Vec<Block> {
    let channels_out = config.stage_channels(index);
    let channels_in = match index {
        0 => config.width,
        _ => config.stage_channels(index - 1),
    };
    let stride = if index == 0 { 1 } else { 2 };
    (0..config.depths[index])
        .map(|position| {
            let name = format!("{}.{position}", STAGE_NAMES[index]);
            match position {
                0 => block(config, [index, position], &name, channels_in, stride, init),
                _ => block(config, [index, position], &name, channels_out, 1, init),
            }
        })
        .collect()
}

fn block(
    config: &ResNetConfig,
    [stage, position]: [usize; 2],
    name: &str,
    channels_in: usize,
    stride: usize,
    init: &Init<'_>,
) -> Block {
    let (before, blocks) = (config.depths[..stage].iter().sum::<usize>(), config.depths.iter().sum::<usize>());
    let drop_path = config.drop_path * (before + position) as f64 / (blocks - 1).max(1) as f64;
    let inner = config.inner_width(stage);
    let channels_out = config.stage_channels(stage);
    // Input channels, output channels, kernel, stride and groups of each convolution.
    let shapes: &[[usize; 5]] = match config.block {
        BlockKind::Basic => &[[channels_in, inner, 3, stride, 1], [inner, channels_out, 3, 1, 1]],
        BlockKind::Bottleneck => {
            &[[channels_in, inner, 1, 1, 1], [inner, inner, 3, stride, config.groups], [inner, channels_out, 1, 1, 1]]
        }
    };
    let blurs = |stride: usize| config.antialias && stride != 1;
    let blur_behind = shapes.iter().position(|&[_, _, _, stride, _]| blurs(stride)).unwrap_or(shapes.len());
    let layers = shapes.iter().enumerate().map(|(index, shape)| {
        let &[channels_in, channels_out, kernel, stride, groups] = shape;
        let stride = if blurs(stride) { 1 } else { stride };
        let shape = ConvShape { channels_in, channels_out, kernel, stride, groups };
        let silenced = config.zero_init_last_gamma && index + 1 == shapes.len();
        let names = [format!("{name}.conv{}", index + 1), format!("{name}.bn{}", index + 1)];
        ConvNorm::new([&names[0], &names[1]], shape, if silenced { 0.0 } else { 1.0 }, init)
    });
    Block {
        layers: layers.collect(),
        downsample: (stride != 1 || channels_in != channels_out)
            .then(|| downsample(config, name, [channels_in, channels_out], stride, init)),
        drop_path: DropPath::new(drop_path, init.seed, name),
        blur_behind,
    }
}

fn downsample(
    config: &ResNetConfig,
    name: &str,
    [channels_in, channels_out]: [usize; 2],
    stride: usize,
    init: &Init<'_>,
) -> Downsample {
    let averaged = config.shortcut == Shortcut::AveragePool;
    let [conv, norm] = downsample_positions(config).map(|i| format!("{name}.downsample.{i}"));
    let stride_of_conv = if averaged { 1 } else { stride };
    let shape = ConvShape { channels_in, channels_out, kernel: 1, stride: stride_of_conv, groups: 1 };
    Downsample {
        // timm's `AvgPool2d(2, stride, ceil_mode=True, count_include_pad=False)`.
        pool: (averaged && stride != 1).then(|| {
            AvgPool2dConfig::new([2, 2])
                .with_strides([stride, stride])
                .with_count_include_pad(false)
                .with_ceil_mode(true)
                .init()
        }),
        layer: ConvNorm::new([&conv, &norm], shape, 1.0, init),
    }
}

/// Positions of the convolution and its norm in torchvision's `downsample` sequence, which timm's averaged
/// shortcut begins with a pool (an identity where the stride is 1).
pub(crate) fn downsample_positions(config: &ResNetConfig) -> [usize; 2] {
    match config.shortcut {
        Shortcut::StridedConv => [0, 1],
        Shortcut::AveragePool => [1, 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arch;

    fn narrow(arch: Arch) -> ResNetConfig {
        ResNetConfig { width: 8, num_classes: 5, ..ResNetConfig::new(arch) }
    }

    #[test]
    fn every_stem_and_shortcut_gives_logits_for_odd_image_sizes() {
        let device = kiln_device::cpu();
        for stem in [Stem::Conv7x7, Stem::Deep3x3, Stem::Small] {
            for shortcut in [Shortcut::StridedConv, Shortcut::AveragePool] {
                let config = ResNetConfig { stem, shortcut, ..narrow(Arch::ResNet18) };
                let logits = config.init(0, &device).forward(Tensor::ones([2, 3, 33, 47], &device));
                assert_eq!(logits.dims(), [2, 5], "{stem:?} {shortcut:?}");
            }
        }
    }

    #[test]
    fn stages_shrink_as_published() {
        let device = kiln_device::cpu();
        let mut seen = Vec::new();
        let model = narrow(Arch::ResNet50).init(0, &device);
        model.forward_observed(Tensor::ones([1, 3, 64, 96], &device), |name, x| {
            seen.push((name.to_string(), x.dims()));
        });
        let expected = [
            ("bn1", [1, 8, 32, 48]),
            ("maxpool", [1, 8, 16, 24]),
            ("layer1", [1, 32, 16, 24]),
            ("layer2", [1, 64, 8, 12]),
            ("layer3", [1, 128, 4, 6]),
            ("layer4", [1, 256, 2, 3]),
        ];
        assert_eq!(seen, expected.map(|(name, dims)| (name.to_string(), dims)));
    }

    #[test]
    fn a_zero_last_gamma_makes_each_block_pass_its_input_on() {
        let device = kiln_device::cpu();
        let images = Tensor::<4>::ones([1, 3, 32, 32], &device);
        let mut pooled_and_layer1 = Vec::new();
        narrow(Arch::ResNet18).init(0, &device).forward_observed(images, |name, x| {
            if matches!(name, "maxpool" | "layer1") {
                pooled_and_layer1.push(x.clone().into_data());
            }
        });
        assert_eq!(pooled_and_layer1[0], pooled_and_layer1[1]);
    }

    #[test]
    fn a_seed_gives_the_same_weights_again_and_another_seed_others() {
        let device = kiln_device::cpu();
        let state = |seed| narrow(Arch::ResNet18).init(seed, &device).state();
        assert_eq!(state(3), state(3));
        assert_ne!(state(3), state(4));
    }

    #[test]
    fn a_clone_keeps_parameter_ids_and_its_own_statistics() {
        let device = kiln_device::cpu().autodiff();
        let model = narrow(Arch::ResNet18).init(0, &device);
        let copy = model.clone();
        assert_eq!(model.parameter_names(), copy.parameter_names());
        model.forward(Tensor::ones([2, 3, 32, 32], &device));
        let batches = |model: &ResNet| model.stem[0].norm.num_batches_tracked.value();
        assert_eq!((batches(&model), batches(&copy)), (1, 0));
    }
}
