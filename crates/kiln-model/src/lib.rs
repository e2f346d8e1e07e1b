//! The ResNet family on burn, with PyTorch's numerics and torchvision's parameter names.
//!
//! In: float images `[B, 3, H, W]`, already normalised. Out: logits `[B, classes]`. Weights go in and
//! out as safetensors files that torchvision and timm can load, and that they wrote.
//!
//! ```
//! use kiln_model::{Arch, ResNetConfig};
//!
//! let device = kiln_device::cpu();
//! let config = ResNetConfig { num_classes: 10, ..ResNetConfig::new(Arch::ResNet18) };
//! let model = config.init(42, &device);
//! assert_eq!(model.num_parameters(), 11_181_642);
//! assert_eq!(model.state()[0].0, "conv1.weight");
//! ```
//!
//! Where to look: [`Arch`] names the models, `zoo.rs` says what each is made of, `resnet.rs` builds and
//! runs them, `batch_norm.rs` is PyTorch's batch norm, `init.rs` draws the first weights, `state.rs` maps
//! them to torchvision's names, `weights.rs` writes and reads safetensors, `weights_file.rs` reads what other programs
//! wrote, and `load.rs` puts that into a model and reports what fitted.
//!
//! The feature `fetch` adds [`PretrainedList::fetch`], for programs that download published weights when a person asks.
//!
//! Not here: data, losses, optimisers.

mod arch;
mod batch_norm;
mod blur_pool;
mod cost;
mod drop_path;
mod error;
#[cfg(feature = "fetch")]
mod fetch;
mod init;
mod load;
mod onnx;
mod part;
mod pretrained;
mod resnet;
mod state;
mod weights;
mod weights_file;
mod zoo;

pub use arch::Arch;
pub use batch_norm::{BatchNorm, BatchNormConfig};
pub use cost::Cost;
pub use error::{Classes, Misshaped, ModelError, StateMismatch};
#[cfg(feature = "fetch")]
pub use fetch::Fetched;
pub use load::{Head, LoadOptions, LoadReport};
pub use onnx::{Norms, OnnxOptions};
pub use part::Part;
pub use pretrained::{PretrainedList, PretrainedWeights};
pub use resnet::ResNet;
pub use state::{ParameterInfo, State, StateEntry};
pub use weights::{Metadata, load_safetensors, safetensors_from_state, save_safetensors, state_from_safetensors};
pub use weights_file::{Chosen, FileProblem, StridedTensor, TensorSet, WeightsFile};
pub use zoo::{BlockKind, ResNetConfig, Shortcut, Stem};

#[cfg(test)]
mod golden;
#[cfg(test)]
mod parity;
