//! What the model wants of its input: the type of its values and their order in memory.
//!
//! Shapes are `[B, 3, H, W]` whatever the order. Source of the names: PyTorch's `memory_format`.

use burn::tensor::{DType, Device};
use serde::{Deserialize, Serialize};

/// Type of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputType {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits, 11 of them significant.
    F16,
    /// 16 bits, 8 of them significant, with the range of f32. Not on every device.
    Bf16,
}

impl OutputType {
    /// Whether `device` can hold and compute values of the type.
    pub fn is_supported_by(self, device: &Device) -> bool {
        device.supports_dtype(self.dtype())
    }

    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }
}

/// Order of the values in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryOrder {
    /// All of red, then green, then blue: what burn's convolutions take fastest on a CPU.
    #[default]
    ChannelsFirst,
    /// Red, green and blue of a pixel side by side: what tensor cores take.
    ChannelsLast,
}
