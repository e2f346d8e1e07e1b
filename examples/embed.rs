//! Your own training loop with two of Kiln's crates: `kiln-device` picks the GPU, `kiln-data` fills it.
//!
//! The network and the optimiser are plain burn. Run it with `cargo run --release --example embed`.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Tensor, activation::relu};
use kiln_data::{Augment, Loader, LoaderConfig, scenes};
use kiln_device::DeviceRequest;

const IMAGE_SIZE: usize = 48;
const EPOCHS: u32 = 4;
const SEED: u64 = 7;

/// Four strided convolutions, an average over what is left, a linear classifier.
#[derive(Module, Debug)]
struct SmallNet {
    convs: Vec<Conv2d>,
    head: Linear,
}

impl SmallNet {
    fn new(classes: usize, device: &Device) -> Self {
        let channels = [3, 32, 64, 96, 128];
        let conv = |pair: &[usize]| {
            Conv2dConfig::new([pair[0], pair[1]], [3, 3])
                .with_stride([2, 2])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .init(device)
        };
        Self { convs: channels.windows(2).map(conv).collect(), head: LinearConfig::new(128, classes).init(device) }
    }

    /// Logits `[B, K]` of images `[B, 3, H, W]`.
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let features = self.convs.iter().fold(images, |x, conv| relu(conv.forward(x)));
        self.head.forward(features.flatten::<3>(2, 3).mean_dim(2).flatten(1, 2))
    }
}

fn main() -> anyhow::Result<()> {
    kiln_device::probe_child();
    let device = kiln_device::open(&DeviceRequest::from_env()?.unwrap_or_default())?;
    println!("{}", device.summary());

    let splits = scenes::open_or_create(None, &scenes::ScenesConfig::default())?;
    let classes = splits.train.classes().len();
    let train = Loader::new(
        splits.train,
        LoaderConfig { batch_size: 32, shuffle: true, seed: SEED, ..LoaderConfig::default() },
    )?;
    let val = Loader::new(splits.val, LoaderConfig { batch_size: 64, shuffle: false, ..LoaderConfig::default() })?;

    let training_device = device.device.clone().autodiff();
    let mut net = SmallNet::new(classes, &training_device);
    let mut optimizer = AdamWConfig::new().init();
    let loss_of = CrossEntropyLossConfig::new().init(&training_device);

    for epoch in 0..EPOCHS {
        for batch in train.epoch(epoch).upload(&training_device, &Augment::train(IMAGE_SIZE), SEED) {
            let batch = batch?;
            let loss = loss_of.forward(net.forward(batch.images), batch.targets);
            let gradients = GradientsParams::from_grads(loss.backward(), &net);
            net = optimizer.step(2e-3, net, gradients);
        }

        let trained = net.valid();
        let (mut right, mut seen) = (0, 0);
        for batch in val.epoch(0).upload(&device.device, &Augment::eval(IMAGE_SIZE), SEED) {
            let batch = batch?;
            let guesses = trained.forward(batch.images).argmax(1).flatten::<1>(0, 1);
            right += guesses.equal(batch.targets).int().sum().into_scalar::<i64>();
            seen += batch.labels.len();
        }
        println!(
            "epoch {}/{EPOCHS}: {:.1} % of {seen} validation images",
            epoch + 1,
            100.0 * right as f64 / seen as f64
        );
    }
    Ok(())
}
