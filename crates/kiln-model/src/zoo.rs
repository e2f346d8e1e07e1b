//! What each model of the family is made of.
//!
//! In: an [`Arch`]. Out: a [`ResNetConfig`], which `resnet.rs` builds. One builder serves all: a model is
//! a row of numbers here, not a constructor.
//! Source: torchvision 0.29 `models/resnet.py`; timm 1.0 `models/resnet.py` for the `d` variants.
//! Not here: what a network costs (`cost.rs`).

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::{Arch, ModelError, ResNet};

/// Everything that decides a network's shape. [`ResNetConfig::new`] fills in a known model; any field may
/// be changed afterwards, and the arch then only names where it started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResNetConfig {
    /// The model this started from.
    pub arch: Arch,
    /// Outputs of the last layer. Default 1000, ImageNet's.
    pub num_classes: usize,
    /// Start every residual branch at zero by a zero last gamma, so that a block begins as the identity.
    /// Default true (Goyal et al., arXiv 1706.02677, section 5.1); torchvision's constructors say false.
    pub zero_init_last_gamma: bool,
    /// Channels of the stem and of the first stage's blocks; stage `i` has `width * 2^i`. Default 64.
    /// Tests train networks of width 8.
    pub width: usize,
    /// Kind of residual block.
    pub block: BlockKind,
    /// Blocks of each stage.
    pub depths: [usize; 4],
    /// Groups of the bottleneck's 3×3 convolution. Default 1; ResNeXt has 32 or 64.
    pub groups: usize,
    /// Channels a group has per 64 of a stage's width, as torchvision counts. Default 64; wide nets 128.
    pub width_per_group: usize,
    /// First layers. `Stem::Small` is for images of about 32 px.
    pub stem: Stem,
    /// How the shortcut shrinks.
    pub shortcut: Shortcut,
    /// Chance that training leaves the last block's residual branch out, for one image; earlier blocks' are in proportion
    /// to their depth (stochastic depth, arXiv 1603.09382). 0–1, 1 excluded. Default 0.
    #[serde(default)]
    pub drop_path: f64,
    /// Blur before every stride (arXiv 1904.11486). Default false, as published; names stay the same.
    #[serde(default)]
    pub antialias: bool,
}

/// Kind of residual block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// Two 3×3 convolutions.
    Basic,
    /// 1×1, 3×3 with the stride (version 1.5), 1×1 to four times the width.
    Bottleneck,
}

impl BlockKind {
    /// Output channels of a block per channel of its stage's width.
    pub const fn expansion(self) -> usize {
        match self {
            BlockKind::Basic => 1,
            BlockKind::Bottleneck => 4,
        }
    }
}

/// First layers of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stem {
    /// One 7×7 convolution with stride 2, then a max-pool: a quarter of the resolution.
    Conv7x7,
    /// Three 3×3 convolutions, the first with stride 2, then a max-pool (ResNet-C and -D).
    Deep3x3,
    /// One 3×3 convolution and no pooling, so that small images keep their resolution (He et al., section 4.2).
    Small,
}

/// How the shortcut of a block that changes resolution shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortcut {
    /// A 1×1 convolution with the block's stride, which skips three pixels in four.
    StridedConv,
    /// A 2×2 average first, then the convolution with stride 1 (ResNet-D).
    AveragePool,
}

/// Most channels of a layer: eight times what the widest published model has.
const MOST_CHANNELS: usize = 1 << 14;

/// Most blocks of a stage: ResNet-1001 has 111, ResNet-152 36.
const MOST_BLOCKS: usize = 256;

impl ResNetConfig {
    /// The model by that name, with 1000 classes and zero-initialised last gammas.
    pub const fn new(arch: Arch) -> Self {
        use BlockKind::{Basic, Bottleneck};
        let (block, depths, groups, width_per_group) = match arch {
            Arch::ResNet18 | Arch::ResNet18d => (Basic, [2, 2, 2, 2], 1, 64),
            Arch::ResNet34 => (Basic, [3, 4, 6, 3], 1, 64),
            Arch::ResNet50 | Arch::ResNet50d => (Bottleneck, [3, 4, 6, 3], 1, 64),
            Arch::ResNet101 => (Bottleneck, [3, 4, 23, 3], 1, 64),
            Arch::ResNet152 => (Bottleneck, [3, 8, 36, 3], 1, 64),
            Arch::WideResNet50_2 => (Bottleneck, [3, 4, 6, 3], 1, 128),
            Arch::WideResNet101_2 => (Bottleneck, [3, 4, 23, 3], 1, 128),
            Arch::ResNeXt50_32x4d => (Bottleneck, [3, 4, 6, 3], 32, 4),
            Arch::ResNeXt101_32x8d => (Bottleneck, [3, 4, 23, 3], 32, 8),
            Arch::ResNeXt101_64x4d => (Bottleneck, [3, 4, 23, 3], 64, 4),
        };
        let (stem, shortcut) = match arch {
            Arch::ResNet18d | Arch::ResNet50d => (Stem::Deep3x3, Shortcut::AveragePool),
            _ => (Stem::Conv7x7, Shortcut::StridedConv),
        };
        Self {
            arch,
            num_classes: 1000,
            zero_init_last_gamma: true,
            width: 64,
            block,
            depths,
            groups,
            width_per_group,
            stem,
            shortcut,
            drop_path: 0.0,
            antialias: false,
        }
    }

    /// Builds the network on `device` (autodiff or plain), with weights drawn from `seed`.
    ///
    /// The draw happens on the host, by seed and parameter name, so a seed means the same weights on every
    /// device. It happens at a parameter's first use: a model that is loaded right away never draws.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) would return an error.
    pub fn init(&self, seed: u64, device: &Device) -> ResNet {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        ResNet::build(self, seed, device)
    }

    /// Checks the fields against each other, and against sizes that only a damaged file asks for.
    ///
    /// # Errors
    /// [`ModelError::InvalidConfig`] with every problem found.
    pub fn validate(&self) -> Result<(), ModelError> {
        let mut problems = Vec::new();
        for (what, value, most) in [
            ("num_classes", self.num_classes, 1 << 24),
            ("width", self.width, MOST_CHANNELS),
            ("groups", self.groups, MOST_CHANNELS),
            ("width_per_group", self.width_per_group, MOST_CHANNELS),
            ("depths[0]", self.depths[0], MOST_BLOCKS),
            ("depths[1]", self.depths[1], MOST_BLOCKS),
            ("depths[2]", self.depths[2], MOST_BLOCKS),
            ("depths[3]", self.depths[3], MOST_BLOCKS),
        ] {
            if !(1..=most).contains(&value) {
                problems.push(format!("{what} must lie in 1..={most}, not {value}"));
            }
        }
        if !(0.0..1.0).contains(&self.drop_path) {
            problems.push(format!("drop_path must lie in 0..1, not {}", self.drop_path));
        }
        if self.block == BlockKind::Basic && (self.groups != 1 || self.width_per_group != 64) {
            problems.push("a basic block takes groups = 1 and width_per_group = 64 only".to_string());
        }
        if self.stem == Stem::Deep3x3 && self.width < 2 {
            problems.push("a deep stem needs a width of at least 2".to_string());
        }
        if problems.is_empty() {
            problems.extend(self.channel_problems());
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(ModelError::InvalidConfig { arch: self.arch, problems }),
        }
    }

    /// What is wrong with the channels that come out of otherwise acceptable fields.
    fn channel_problems(&self) -> Option<String> {
        let Self { width, width_per_group, groups, .. } = self;
        let most = self.stage_channels(3).max(self.inner_width(3));
        if self.inner_width(0) == 0 {
            return Some(format!(
                "width {width} with width_per_group {width_per_group} leaves groups without channels"
            ));
        }
        (most > MOST_CHANNELS).then(|| {
            format!("width {width}, width_per_group {width_per_group} and groups {groups} make {most} channels")
        })
    }

    /// Checks that a training batch gives every batch norm more than one value per channel.
    ///
    /// PyTorch refuses such a batch too; a last batch of one small image is the usual way to meet it.
    ///
    /// # Errors
    /// [`ModelError::BatchTooSmall`].
    pub fn validate_batch(&self, batch: usize, [height, width]: [usize; 2]) -> Result<(), ModelError> {
        let smallest = batch * self.final_size(height) * self.final_size(width);
        match smallest > 1 {
            true => Ok(()),
            false => Err(ModelError::BatchTooSmall { arch: self.arch, batch, height, width }),
        }
    }

    /// Channels of a block's output in stage `stage` (0–3).
    pub(crate) fn stage_channels(&self, stage: usize) -> usize {
        (self.width << stage) * self.block.expansion()
    }

    /// Channels inside a block of stage `stage`.
    pub(crate) fn inner_width(&self, stage: usize) -> usize {
        let width = self.width << stage;
        match self.block {
            BlockKind::Basic => width,
            BlockKind::Bottleneck => width * self.width_per_group / 64 * self.groups,
        }
    }

    /// Pixels along an axis after the last stage: every halving rounds up.
    fn final_size(&self, pixels: usize) -> usize {
        let stem_halvings = match self.stem {
            Stem::Conv7x7 | Stem::Deep3x3 => 2,
            Stem::Small => 0,
        };
        (0..stem_halvings + 3).fold(pixels, |size, _| size.div_ceil(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_model_is_valid() {
        for arch in Arch::ALL {
            ResNetConfig::new(arch).validate().expect("a known model");
        }
    }

    #[test]
    fn validate_reports_every_problem_at_once() {
        let config = ResNetConfig { num_classes: 0, width: 0, groups: 2, ..ResNetConfig::new(Arch::ResNet18) };
        let message = config.validate().expect_err("three problems").to_string();
        for part in ["resnet18", "num_classes must", "width must", "basic block"] {
            assert!(message.contains(part), "{part:?} missing in {message}");
        }
    }

    #[test]
    fn a_narrow_resnext_without_channels_in_its_groups_is_refused() {
        let narrow = ResNetConfig { width: 8, ..ResNetConfig::new(Arch::ResNeXt50_32x4d) };
        assert!(narrow.validate().is_err());
    }

    #[test]
    fn sizes_beyond_any_network_are_refused_without_overflow() {
        let base = ResNetConfig::new(Arch::ResNet50);
        for config in [
            ResNetConfig { width: usize::MAX, ..base.clone() },
            ResNetConfig { num_classes: usize::MAX, ..base.clone() },
            ResNetConfig { depths: [1, 1, 1, 100_000], ..base.clone() },
            ResNetConfig { width: 16_000, groups: 16_000, ..base.clone() },
        ] {
            assert!(config.validate().is_err(), "{config:?}");
        }
    }

    #[test]
    fn a_batch_that_leaves_one_value_per_channel_is_refused() {
        let config = ResNetConfig::new(Arch::ResNet50);
        assert!(config.validate_batch(1, [32, 32]).is_err());
        assert!(config.validate_batch(2, [32, 32]).is_ok());
        assert!(config.validate_batch(1, [33, 32]).is_ok());
        let small = ResNetConfig { stem: Stem::Small, ..config };
        assert!(small.validate_batch(1, [32, 32]).is_ok());
        assert!(small.validate_batch(1, [8, 8]).is_err());
    }

    #[test]
    fn the_config_survives_json_and_refuses_unknown_keys() {
        let config = ResNetConfig::new(Arch::ResNet50d);
        let json = serde_json::to_string(&config).expect("plain fields");
        assert_eq!(serde_json::from_str::<ResNetConfig>(&json).expect("its own JSON"), config);
        let extra = json.replacen('{', "{\"dropout\":1,", 1);
        assert!(serde_json::from_str::<ResNetConfig>(&extra).is_err());
    }
}
