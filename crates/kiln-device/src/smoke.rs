//! The smoke test: a device counts as usable once it has computed something right.
//!
//! In: a burn [`Device`]. Out: nothing, or what went wrong. Kiln's own kernel ([`kernel`]), arithmetic, a reduction, a matrix
//! product and a convolution with its gradient run on small integers; the results are exact in every float format that
//! a GPU may use inside (TF32 included), and are compared with plain loops on the host. The first use of an operation
//! compiles it and, for products and convolutions, times several variants: that costs seconds on a GPU and
//! minutes on a software driver, which therefore does only the kernel, arithmetic and the reduction.
//! [`float_test`] does the same in f16 or bf16, for whoever wants to train in it.

mod kernel;

use burn::tensor::{DType, Device, ExecutionError, FloatDType, Tensor, TensorData, module::conv2d, ops::ConvOptions};

/// How much to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Our own kernel, arithmetic and a reduction.
    Quick,
    /// Also more elements than one axis of a launch has workgroups, a matrix product, and a convolution with its
    /// gradient.
    Thorough,
}

/// Computes on `device` and compares with the host. Waits for the device.
///
/// # Errors
/// What differs, or what the device reported. Panics of the backend are the caller's to catch.
pub(crate) fn smoke_test(device: &Device, depth: Depth) -> Result<(), String> {
    own_kernel(device, DType::F32)?;
    arithmetic(device)?;
    if depth == Depth::Thorough {
        many_elements(device)?;
        matrix_product(device, DType::F32)?;
        convolution(device, DType::F32)?;
        gradient(device)?;
    }
    Ok(())
}

/// Computes in `float` on `device` and compares with the host: our own kernel, and beyond [`Depth::Quick`] a matrix
/// product and a convolution. Waits for the device.
///
/// # Errors
/// What differs, or that the device has no such type: it isn't tried then, since a driver may fail for good.
pub(crate) fn float_test(device: &Device, float: FloatDType, depth: Depth) -> Result<(), String> {
    let dtype = DType::from(float);
    if !device.supports_dtype(dtype) {
        return Err(format!("it does not compute in {}", float_name(float)));
    }
    own_kernel(device, dtype)?;
    if depth == Depth::Thorough {
        matrix_product(device, dtype)?;
        convolution(device, dtype)?;
    }
    Ok(())
}

/// The type as people write it.
pub(crate) fn float_name(float: FloatDType) -> String {
    format!("{float:?}").to_ascii_lowercase()
}

fn own_kernel(device: &Device, dtype: DType) -> Result<(), String> {
    compare("Kiln's own kernel", kernel::run(device, dtype).try_into_data(), &kernel::expected())
}

/// `n` small integers, different at neighbouring positions.
fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 7 % 11) as f32 - 5.0).collect()
}

fn arithmetic(device: &Device) -> Result<(), String> {
    let input = numbers(4097);
    let expected: Vec<f32> = input.iter().map(|x| x * 3.0 + 1.0).collect();
    let sum: f32 = expected.iter().sum();

    let x = Tensor::<1>::from_data(TensorData::from(&input[..]), device);
    let y = x.mul_scalar(3.0).add_scalar(1.0);
    compare("arithmetic", y.clone().try_into_data(), &expected)?;
    compare("a sum", y.sum().try_into_data(), &[sum])
}

/// A batch's activation has more elements than 65535 workgroups, the most along one axis, times a workgroup of 64:
/// a launch that doesn't spread over two axes fails here and not in training.
fn many_elements(device: &Device) -> Result<(), String> {
    const COUNT: usize = 65_536 * 64 + 1;
    let ones = Tensor::<1>::ones([COUNT], device).add_scalar(1.0);
    let last = ones.clone().narrow(0, COUNT - 1, 1);
    compare("the last of many elements", last.try_into_data(), &[2.0])?;
    // Below 2^24, so that it is exact in any order. llvmpipe (Mesa 22.3.6) fails here: its loops end
    // after 65533 rounds, so 4.2 million ones sum up to 65533 there, without an error. Software drivers aren't asked.
    compare("a sum of many elements", ones.sum().try_into_data(), &[2.0 * COUNT as f32])
}

/// The gradient of a convolution's sum by its weights: the sum of the pixels under each weight.
fn gradient(device: &Device) -> Result<(), String> {
    let (channels_in, channels_out, size, kernel) = (2, 4, 7, 3);
    let images = numbers(channels_in * size * size);
    let size_out = size - kernel + 1;
    let expected: Vec<f32> = (0..channels_out * channels_in * kernel * kernel)
        .map(|at| {
            let (c, dy, dx) = (at / (kernel * kernel) % channels_in, at / kernel % kernel, at % kernel);
            let pixel = |i: usize| images[(c * size + i / size_out + dy) * size + i % size_out + dx];
            (0..size_out * size_out).map(pixel).sum()
        })
        .collect();
    let device = device.clone().autodiff();
    let weights = Tensor::<4>::ones([channels_out, channels_in, kernel, kernel], &device).require_grad();
    let output = conv2d(
        Tensor::<4>::from_data(TensorData::new(images, [1, channels_in, size, size]), &device),
        weights.clone(),
        None,
        ConvOptions::new([1, 1], [0, 0], [1, 1], 1),
    );
    let gradients = output.sum().backward();
    let found = weights.grad(&gradients).ok_or("a convolution has no gradient")?;
    compare("a convolution's gradient", found.try_into_data(), &expected)
}

fn matrix_product(device: &Device, dtype: DType) -> Result<(), String> {
    let (m, k, n) = (33, 17, 9);
    let (a, b) = (numbers(m * k), numbers(k * n));
    let expected: Vec<f32> = (0..m * n)
        .map(|at| {
            let (row, column) = (at / n, at % n);
            (0..k).map(|i| a[row * k + i] * b[i * n + column]).sum()
        })
        .collect();
    let product = Tensor::<2>::from_data(TensorData::new(a, [m, k]), (device, dtype))
        .matmul(Tensor::from_data(TensorData::new(b, [k, n]), (device, dtype)));
    compare("a matrix product", product.try_into_data(), &expected)
}

fn convolution(device: &Device, dtype: DType) -> Result<(), String> {
    let (channels_in, channels_out, size, kernel) = (3, 8, 9, 3);
    let images = numbers(channels_in * size * size);
    let weights = numbers(channels_out * channels_in * kernel * kernel);
    let size_out = size - kernel + 1;
    let expected: Vec<f32> = (0..channels_out * size_out * size_out)
        .map(|at| {
            let (channel, y, x) = (at / (size_out * size_out), at / size_out % size_out, at % size_out);
            let tap = |i: usize| {
                let (c, dy, dx) = (i / (kernel * kernel), i / kernel % kernel, i % kernel);
                images[(c * size + y + dy) * size + x + dx] * weights[channel * channels_in * kernel * kernel + i]
            };
            (0..channels_in * kernel * kernel).map(tap).sum()
        })
        .collect();
    let output = conv2d(
        Tensor::<4>::from_data(TensorData::new(images, [1, channels_in, size, size]), (device, dtype)),
        Tensor::from_data(TensorData::new(weights, [channels_out, channels_in, kernel, kernel]), (device, dtype)),
        None,
        ConvOptions::new([1, 1], [0, 0], [1, 1], 1),
    );
    compare("a convolution", output.try_into_data(), &expected)
}

fn compare(what: &str, found: Result<TensorData, ExecutionError>, expected: &[f32]) -> Result<(), String> {
    let found = found.map_err(|error| format!("{what} failed: {error}"))?;
    // Whole numbers are exact in f32 and f16 here; bf16 keeps eight bits, so that a sum is off by as much as its last one.
    let tolerance = if found.dtype() == DType::BF16 { 2.0_f32.powi(-7) } else { 0.0 };
    let found: Vec<f32> = found.iter().collect();
    let largest = expected.iter().fold(1.0_f32, |largest, value| largest.max(value.abs()));
    let near = |a: &f32, b: &f32| (a - b).abs() <= tolerance * largest;
    let wrong = found.iter().zip(expected).position(|(a, b)| !near(a, b));
    match wrong {
        _ if found.len() != expected.len() => {
            Err(format!("{what} gave {} values, expected {}", found.len(), expected.len()))
        }
        Some(index) => Err(format!("{what} is wrong: value {index} is {}, expected {}", found[index], expected[index])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_passes() {
        assert_eq!(smoke_test(&crate::cpu(), Depth::Thorough), Ok(()));
    }

    #[test]
    fn every_device_computes_in_the_types_it_says_it_has() {
        for (name, device) in crate::parity_devices() {
            for float in [FloatDType::F16, FloatDType::BF16] {
                let tested = float_test(&device, float, Depth::Quick);
                let refused = Err(format!("it does not compute in {}", float_name(float)));
                let expected = if device.supports_dtype(DType::from(float)) { Ok(()) } else { refused };
                assert_eq!(tested, expected, "{name} {float:?}");
            }
        }
    }

    #[test]
    fn the_processor_multiplies_and_convolves_in_half_precision() {
        assert_eq!(float_test(&crate::cpu(), FloatDType::F16, Depth::Thorough), Ok(()));
        assert_eq!(float_test(&crate::cpu(), FloatDType::BF16, Depth::Thorough), Ok(()));
    }

    #[test]
    fn a_wrong_value_is_named() {
        let data = TensorData::from([1.0_f32, 2.0, 4.0]);
        assert_eq!(
            compare("a test", Ok(data), &[1.0, 2.0, 3.0]),
            Err("a test is wrong: value 2 is 4, expected 3".to_owned())
        );
    }
}
