//! Who runs programs: the one list of backends, so that nothing else names them.
//!
//! In: tensors on any device. Out: the normalised batch on the same device, through the kernel on CUDA and wgpu and
//! through its scalar twin on the CPU. Autodiff takes the result as a constant: augmentation has no gradient.
//! Not done here: anything with pixels in it (`run.rs`).

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, AutodiffBackend, Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Int, Tensor, TensorData};

use crate::augment::run::{self, OutputFormat};

/// Runs the programs of a batch, wherever its pixels are.
///
/// # Shapes
/// `pixels`: u32 `[words]`, the batch's bytes, four a word, the first in the lowest bits; `records`: u32
/// `[words]`, on the same device. Returns `[B, 3, H, W]`, of the format's type and order in memory.
pub(crate) fn run_programs(pixels: Tensor<1, Int>, records: Tensor<1, Int>, format: OutputFormat) -> Tensor<4> {
    let is_channels_last = format.is_channels_last;
    let (pixels, records) = (pixels.into_dispatch(), records.into_dispatch());
    let output = Tensor::from_dispatch(<Dispatch as ProgramBackend>::run_programs(pixels, records, format));
    if is_channels_last { output.permute([0, 3, 1, 2]) } else { output }
}

/// A backend that runs programs.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait ProgramBackend: Backend {
    /// See [`run_programs`].
    #[fusion(meta = output_spec)]
    fn run_programs(pixels: IntTensor<Self>, records: IntTensor<Self>, format: OutputFormat) -> FloatTensor<Self>;
}

impl ProgramBackend for Flex {
    fn run_programs(pixels: IntTensor<Self>, records: IntTensor<Self>, format: OutputFormat) -> FloatTensor<Self> {
        let (pixels, records) = (pixels.to_contiguous(), records.to_contiguous());
        let records = records.storage::<u32>();
        let output = run::run_on_host(pixels.bytes(), records, &format);
        FlexTensor::from_data(TensorData::new(output, format.shape()).convert_dtype(format.dtype))
    }
}

impl<B: ProgramBackend, C: CheckpointStrategy> ProgramBackend for Autodiff<B, C> {
    fn run_programs(pixels: IntTensor<Self>, records: IntTensor<Self>, format: OutputFormat) -> FloatTensor<Self> {
        Self::from_inner(B::run_programs(pixels, records, format))
    }
}

#[cfg(feature = "cube")]
impl ProgramBackend for burn_cubecl::CubeBackend {
    fn run_programs(pixels: IntTensor<Self>, records: IntTensor<Self>, format: OutputFormat) -> FloatTensor<Self> {
        run::device::launch(pixels, records, &format)
    }
}

/// The shape of the result, known before the launch.
#[cfg(feature = "cube")]
fn output_spec(
    _pixels: &burn::backend::fusion::custom::TensorSpec,
    _records: &burn::backend::fusion::custom::TensorSpec,
    format: &OutputFormat,
) -> burn::backend::fusion::custom::TensorSpec {
    burn::backend::fusion::custom::TensorSpec::new(burn::tensor::Shape::new(format.shape()), format.dtype)
}
