//! The names of the models.
//!
//! In: a name as torchvision (or, for the `d` variants, timm) spells it. Out: an [`Arch`], or an error that
//! lists every name and the nearest one. What each model is made of stands in `zoo.rs`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ModelError;

/// A model of the family, by torchvision's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Arch {
    /// `resnet18`: He et al., arXiv 1512.03385, table 1.
    ResNet18,
    /// `resnet34`.
    ResNet34,
    /// `resnet50`, version 1.5: the stride sits on the 3×3 convolution.
    ResNet50,
    /// `resnet101`.
    ResNet101,
    /// `resnet152`.
    ResNet152,
    /// `wide_resnet50_2`: twice the width inside the bottleneck. Zagoruyko and Komodakis, arXiv 1605.07146.
    WideResNet50_2,
    /// `wide_resnet101_2`.
    WideResNet101_2,
    /// `resnext50_32x4d`: 32 groups of 4 channels. Xie et al., arXiv 1611.05431.
    ResNeXt50_32x4d,
    /// `resnext101_32x8d`.
    ResNeXt101_32x8d,
    /// `resnext101_64x4d`.
    ResNeXt101_64x4d,
    /// `resnet18d`, timm's: deep stem and average-pooled shortcuts. He et al., arXiv 1812.01187.
    ResNet18d,
    /// `resnet50d`, timm's.
    ResNet50d,
}

impl Arch {
    /// Every model, in the order help texts list them.
    pub const ALL: [Arch; 12] = [
        Arch::ResNet18,
        Arch::ResNet34,
        Arch::ResNet50,
        Arch::ResNet101,
        Arch::ResNet152,
        Arch::WideResNet50_2,
        Arch::WideResNet101_2,
        Arch::ResNeXt50_32x4d,
        Arch::ResNeXt101_32x8d,
        Arch::ResNeXt101_64x4d,
        Arch::ResNet18d,
        Arch::ResNet50d,
    ];

    /// The name as torchvision or timm spells it, which is also what [`FromStr`] reads.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::ResNet18 => "resnet18",
            Arch::ResNet34 => "resnet34",
            Arch::ResNet50 => "resnet50",
            Arch::ResNet101 => "resnet101",
            Arch::ResNet152 => "resnet152",
            Arch::WideResNet50_2 => "wide_resnet50_2",
            Arch::WideResNet101_2 => "wide_resnet101_2",
            Arch::ResNeXt50_32x4d => "resnext50_32x4d",
            Arch::ResNeXt101_32x8d => "resnext101_32x8d",
            Arch::ResNeXt101_64x4d => "resnext101_64x4d",
            Arch::ResNet18d => "resnet18d",
            Arch::ResNet50d => "resnet50d",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Arch {
    type Err = ModelError;

    /// Reads a name; case doesn't matter, and `-` counts as `_`.
    ///
    /// # Errors
    /// [`ModelError::UnknownArch`] when no model has that name.
    fn from_str(name: &str) -> Result<Self, ModelError> {
        let wanted = name.trim().to_ascii_lowercase().replace('-', "_");
        Arch::ALL
            .into_iter()
            .find(|arch| arch.name() == wanted)
            .ok_or_else(|| ModelError::UnknownArch { name: name.to_string(), nearest: nearest(&wanted) })
    }
}

impl TryFrom<String> for Arch {
    type Error = ModelError;

    fn try_from(name: String) -> Result<Self, ModelError> {
        name.parse()
    }
}

impl From<Arch> for &'static str {
    fn from(arch: Arch) -> Self {
        arch.name()
    }
}

/// The model whose name takes the fewest edits to reach; the first of [`Arch::ALL`] among equals.
fn nearest(name: &str) -> Arch {
    let mut best = (usize::MAX, Arch::ResNet50);
    for arch in Arch::ALL {
        let distance = strsim::levenshtein(name, arch.name());
        if distance < best.0 {
            best = (distance, arch);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_as_its_model() {
        for arch in Arch::ALL {
            assert_eq!(arch.to_string().parse::<Arch>().expect("a known name"), arch);
            let json = serde_json::to_string(&arch).expect("a string");
            assert_eq!(json, format!("\"{arch}\""));
            assert_eq!(serde_json::from_str::<Arch>(&json).expect("a known name"), arch);
        }
    }

    #[test]
    fn spelling_is_forgiven_where_it_is_unambiguous() {
        assert_eq!("ResNet50".parse::<Arch>().expect("case"), Arch::ResNet50);
        let dashes = "resnext50-32x4d".parse::<Arch>().expect("dashes");
        assert_eq!(dashes, Arch::ResNeXt50_32x4d);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_and_the_whole_list() {
        let message = "resnet_5O".parse::<Arch>().expect_err("not a model").to_string();
        assert!(message.contains("did you mean \"resnet50\""), "{message}");
        for arch in Arch::ALL {
            assert!(message.contains(arch.name()), "{arch} missing in {message}");
        }
    }

    #[test]
    fn edits_are_counted_as_levenshtein_does() {
        assert_eq!(strsim::levenshtein("kitten", "sitting"), 3);
        assert_eq!(strsim::levenshtein("", "abc"), 3);
        assert_eq!(strsim::levenshtein("abc", "abc"), 0);
    }
}
