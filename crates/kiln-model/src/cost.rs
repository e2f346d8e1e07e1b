//! What a network costs: parameters, multiplications, memory.
//!
//! In: a configuration, an image size, a batch size. Out: counts, without building the network.
//! Multiply-accumulates are those of convolutions and the last layer, as torchvision and the papers count "FLOPs".
//! Activations are what burn's autodiff (0.22) holds when a backward pass begins: each convolution's output (for its
//! norm), the ReLU's input and the ReLU's output (for the next convolution), f32; a block's last norm is added to the
//! shortcut, and the sum takes its place. `tests/memory.rs` compares that with what is allocated on the processor; over wgpu,
//! with fusion, a ResNet-18 of width 16 held 21,127,744 bytes where 21,168,128 are predicted (8 images of 128 px).
//! Not counted: the workspace of kernels, what a memory pool holds in reserve, and the blur of `antialias`.

use crate::zoo::{BlockKind, ResNetConfig, Shortcut, Stem};

/// Bytes of an f32, and of an index of a max-pool on a GPU.
const F32: u64 = 4;

/// What a network costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Learnable numbers.
    pub parameters: u64,
    /// Numbers that follow the batches: running means and variances.
    pub statistics: u64,
    /// Multiply-accumulates of the forward pass of one image.
    pub macs: u64,
    /// Bytes that a training step of the whole batch holds when its backward pass begins, besides weights.
    pub activation_bytes: u64,
    /// Bytes of the largest activation of the batch; the backward pass holds a few gradients of that size.
    pub largest_activation_bytes: u64,
}

impl Cost {
    /// Bytes of weights and statistics.
    pub fn weight_bytes(&self) -> u64 {
        (self.parameters + self.statistics) * F32
    }

    /// Bytes of a training step at its fullest: weights, their gradients, `optimizer_copies` numbers of optimiser state
    /// for each (SGD with momentum 1, Adam 2), activations, and two gradients of the largest.
    pub fn training_bytes(&self, optimizer_copies: u64) -> u64 {
        let of_weights = self.weight_bytes() + (1 + optimizer_copies) * self.parameters * F32;
        of_weights + self.activation_bytes + 2 * self.largest_activation_bytes
    }
}

impl ResNetConfig {
    /// What this network costs for images of `height` × `width` pixels in batches of `batch`.
    pub fn cost(&self, [height, width]: [usize; 2], batch: usize) -> Cost {
        let mut tally = Tally { size: [height as u64, width as u64], ..Tally::default() };
        tally.saved += 3 * tally.pixels(); // the images
        tally.stem(self);
        let mut channels_in = self.width;
        for stage in 0..4 {
            for position in 0..self.depths[stage] {
                let stride = if stage > 0 && position == 0 { 2 } else { 1 };
                tally.block(self, stage, channels_in, stride);
                channels_in = self.stage_channels(stage);
            }
        }
        let (inputs, outputs) = (channels_in as u64, self.num_classes as u64);
        tally.parameters += outputs * (inputs + 1);
        tally.macs += outputs * inputs;
        let batch = batch as u64 * F32;
        Cost {
            parameters: tally.parameters,
            statistics: tally.statistics,
            macs: tally.macs,
            activation_bytes: tally.saved * batch,
            largest_activation_bytes: tally.largest * batch,
        }
    }
}

/// Counts while walking from the input to the output; per image.
#[derive(Default)]
struct Tally {
    size: [u64; 2],
    parameters: u64,
    statistics: u64,
    macs: u64,
    /// Values kept for the backward pass.
    saved: u64,
    largest: u64,
}

impl Tally {
    fn pixels(&self) -> u64 {
        self.size[0] * self.size[1]
    }

    /// Every stride here comes with a padding of half the kernel, so sizes round up.
    fn shrink(&mut self, stride: u64) {
        self.size = self.size.map(|side| side.div_ceil(stride));
    }

    /// A convolution and its norm; `copies` is how many tensors of its output's size are kept.
    fn conv(&mut self, channels: [usize; 2], kernel: u64, stride: u64, groups: usize, copies: u64) {
        let [channels_in, channels_out] = channels.map(|count| count as u64);
        self.shrink(stride);
        let weights = channels_in / groups as u64 * channels_out * kernel * kernel;
        let values = channels_out * self.pixels();
        self.parameters += weights + 2 * channels_out;
        self.statistics += 2 * channels_out;
        self.macs += weights * self.pixels();
        self.keep(values, copies);
    }

    fn keep(&mut self, values: u64, copies: u64) {
        self.saved += copies * values;
        self.largest = self.largest.max(values);
    }

    fn stem(&mut self, config: &ResNetConfig) {
        let width = config.width;
        match config.stem {
            Stem::Conv7x7 => self.conv([3, width], 7, 2, 1, 3),
            Stem::Small => self.conv([3, width], 3, 1, 1, 3),
            Stem::Deep3x3 => {
                self.conv([3, width / 2], 3, 2, 1, 3);
                self.conv([width / 2, width / 2], 3, 1, 1, 3);
                self.conv([width / 2, width], 3, 1, 1, 3);
            }
        }
        if config.stem != Stem::Small {
            self.shrink(2);
            self.keep(width as u64 * self.pixels(), 2); // values and where they were
        }
    }

    fn block(&mut self, config: &ResNetConfig, stage: usize, channels_in: usize, stride: u64) {
        let (inner, channels_out) = (config.inner_width(stage), config.stage_channels(stage));
        let before = self.size;
        match config.block {
            BlockKind::Basic => {
                self.conv([channels_in, inner], 3, stride, 1, 3);
                self.conv([inner, channels_out], 3, 1, 1, 3);
            }
            BlockKind::Bottleneck => {
                self.conv([channels_in, inner], 1, 1, 1, 3);
                self.conv([inner, inner], 3, stride, config.groups, 3);
                self.conv([inner, channels_out], 1, 1, 1, 3);
            }
        }
        if stride != 1 || channels_in != channels_out {
            let after = self.size;
            self.size = before;
            let averaged = config.shortcut == Shortcut::AveragePool && stride != 1;
            if averaged {
                self.shrink(stride);
                self.keep(channels_in as u64 * self.pixels(), 1);
            }
            self.conv([channels_in, channels_out], 1, if averaged { 1 } else { stride }, 1, 1);
            debug_assert_eq!(self.size, after, "both ways through a block end at one size");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arch;

    /// Billions of multiply-accumulates at 224 px, as torchvision 0.29 lists them with its weights.
    const PUBLISHED: [(Arch, f64); 10] = [
        (Arch::ResNet18, 1.814),
        (Arch::ResNet34, 3.664),
        (Arch::ResNet50, 4.089),
        (Arch::ResNet101, 7.801),
        (Arch::ResNet152, 11.514),
        (Arch::WideResNet50_2, 11.398),
        (Arch::WideResNet101_2, 22.753),
        (Arch::ResNeXt50_32x4d, 4.23),
        (Arch::ResNeXt101_32x8d, 16.414),
        (Arch::ResNeXt101_64x4d, 15.46),
    ];

    #[test]
    fn multiplications_are_those_that_torchvision_lists() {
        for (arch, giga_macs) in PUBLISHED {
            let cost = ResNetConfig::new(arch).cost([224, 224], 1);
            let found = cost.macs as f64 / 1e9;
            assert!((found - giga_macs).abs() < 0.0051, "{arch}: {found}, listed {giga_macs}");
        }
    }

    #[test]
    fn parameters_and_statistics_are_those_of_the_built_network() {
        for arch in Arch::ALL {
            let config = ResNetConfig { num_classes: 7, ..ResNetConfig::new(arch) };
            let entries = config.init(0, &kiln_device::cpu()).state_entries();
            let count = |learnable| -> usize {
                let wanted = entries.iter().filter(|entry| entry.learnable == learnable && !entry.shape.is_empty());
                wanted.map(|entry| entry.shape.iter().product::<usize>()).sum()
            };
            let cost = config.cost([64, 64], 1);
            assert_eq!((cost.parameters, cost.statistics), (count(true) as u64, count(false) as u64), "{arch}");
        }
    }
}
