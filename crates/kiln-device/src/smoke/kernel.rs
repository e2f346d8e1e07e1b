//! The smoke test's own kernel, of the shape of those that Kiln trains with: bytes packed in words go in, floats of
//! the wanted type come out.
//!
//! In: four lists of words, each the same number of pictures of bytes, four to a word. Out: per byte the sum of the four.
//! Like the augmentation it uses five buffers, workgroups of 32 × 8 threads and the pictures along z: a device that
//! can't launch that, or whose driver compiles it wrongly, can't train here. Sums stay below 256, which every float
//! type holds exactly.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, AutodiffBackend, Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

/// Pictures, height and width: neither side is a multiple of a workgroup's, and a picture isn't one of whole words.
const SHAPE: [usize; 3] = [131, 13, 41];

/// The inputs as bytes, 0–63.
fn inputs() -> [Vec<u8>; 4] {
    let count: usize = SHAPE.iter().product();
    [7, 11, 13, 29].map(|step| (0..count).map(|i| (i * step % 64) as u8).collect())
}

/// What the kernel has to give.
pub(super) fn expected() -> Vec<f32> {
    let [a, b, c, d] = inputs();
    (0..a.len()).map(|i| f32::from(a[i]) + f32::from(b[i]) + f32::from(c[i]) + f32::from(d[i])).collect()
}

/// Runs the kernel on `device`; floats `[pictures, height, width]` of `dtype`.
pub(super) fn run(device: &Device, dtype: DType) -> Tensor<3> {
    let [a, b, c, d] = inputs().map(|mut bytes| {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let words: Vec<u32> = bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let data = TensorData::new(words, [bytes.len() / 4]);
        Tensor::<1, Int>::from_data(data, (device, DType::U32)).into_dispatch()
    });
    Tensor::from_dispatch(<Dispatch as SumBackend>::sum_bytes(a, b, c, d, Output(dtype)))
}

/// The type of the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output(DType);

/// A backend that can run the kernel.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait SumBackend: Backend {
    /// See [`run`].
    #[fusion(meta = output_spec)]
    fn sum_bytes(
        a: IntTensor<Self>,
        b: IntTensor<Self>,
        c: IntTensor<Self>,
        d: IntTensor<Self>,
        output: Output,
    ) -> FloatTensor<Self>;
}

impl SumBackend for Flex {
    fn sum_bytes(
        a: IntTensor<Self>,
        b: IntTensor<Self>,
        c: IntTensor<Self>,
        d: IntTensor<Self>,
        output: Output,
    ) -> FloatTensor<Self> {
        let lists = [a, b, c, d].map(|list| list.to_contiguous());
        let count = SHAPE.iter().product();
        let sums: Vec<f32> = (0..count).map(|i| lists.iter().map(|list| f32::from(list.bytes()[i])).sum()).collect();
        FlexTensor::from_data(TensorData::new(sums, SHAPE).convert_dtype(output.0))
    }
}

impl<B: SumBackend, C: CheckpointStrategy> SumBackend for Autodiff<B, C> {
    fn sum_bytes(
        a: IntTensor<Self>,
        b: IntTensor<Self>,
        c: IntTensor<Self>,
        d: IntTensor<Self>,
        output: Output,
    ) -> FloatTensor<Self> {
        Self::from_inner(B::sum_bytes(a, b, c, d, output))
    }
}

#[cfg(feature = "cube")]
impl SumBackend for burn_cubecl::CubeBackend {
    fn sum_bytes(
        a: IntTensor<Self>,
        b: IntTensor<Self>,
        c: IntTensor<Self>,
        d: IntTensor<Self>,
        output: Output,
    ) -> FloatTensor<Self> {
        device::launch([a, b, c, d], output.0)
    }
}

/// The shape and type of the result, known before the launch.
#[cfg(feature = "cube")]
fn output_spec(
    _a: &burn::backend::fusion::custom::TensorSpec,
    _b: &burn::backend::fusion::custom::TensorSpec,
    _c: &burn::backend::fusion::custom::TensorSpec,
    _d: &burn::backend::fusion::custom::TensorSpec,
    output: &Output,
) -> burn::backend::fusion::custom::TensorSpec {
    burn::backend::fusion::custom::TensorSpec::new(burn::tensor::Shape::new(SHAPE), output.0)
}

#[cfg(feature = "cube")]
mod device {
    //! The kernel and its launcher.

    use burn::backend::cubecl::dtype_to_storage_type;
    use burn::tensor::{DType, Shape};
    use burn_cubecl::kernel::into_contiguous;
    use burn_cubecl::tensor::CubeTensor;
    use cubecl::prelude::*;

    use super::SHAPE;

    /// The augmentation's.
    const CUBE_DIM: CubeDim = CubeDim::new_2d(32, 8);

    pub(super) fn launch(lists: [CubeTensor; 4], dtype: DType) -> CubeTensor {
        let [a, b, c, d] = lists.map(into_contiguous);
        let [pictures, height, width] = SHAPE.map(|side| side as u32);
        let client = a.client.clone();
        let shape = Shape::new(SHAPE);
        let memory = client.empty(shape.num_elements() * dtype.size());
        let output = CubeTensor::new_contiguous(client.clone(), a.device.clone(), shape, memory, dtype);
        sum_kernel::launch(
            &client,
            CubeCount::Static(width.div_ceil(CUBE_DIM.x), height.div_ceil(CUBE_DIM.y), pictures),
            CUBE_DIM,
            a.into_buffer_arg(),
            b.into_buffer_arg(),
            c.into_buffer_arg(),
            d.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            height,
            width,
            dtype_to_storage_type(dtype),
        );
        output
    }

    /// A thread sums one place of a picture; z is the picture.
    #[cube(launch)]
    fn sum_kernel<F: Float>(
        a: &[u32],        // [words]
        b: &[u32],        // [words]
        c: &[u32],        // [words]
        d: &[u32],        // [words]
        output: &mut [F], // [pictures, height, width]
        height: u32,
        width: u32,
        #[define(F)] _dtype: ElemType,
    ) {
        let column = ABSOLUTE_POS_X;
        let row = ABSOLUTE_POS_Y;
        if column >= width || row >= height {
            terminate!();
        }
        let place = CUBE_POS_Z * height * width + row * width + column;
        let sum = byte(a, place) + byte(b, place) + byte(c, place) + byte(d, place);
        output[place as usize] = F::cast_from(sum);
    }

    #[cube]
    fn byte(words: &[u32], place: u32) -> u32 {
        (words[(place / 4) as usize] >> ((place % 4) * 8)) & 255
    }
}
