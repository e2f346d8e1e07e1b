//! A tensor that lies in a file: a view with strides, of bytes that others may share.
//!
//! In: where it lies. Out: its numbers, row-major. The place is checked once, when the view is made, so that reading it
//! can't go outside; nothing is allocated before someone who knows the shape he wants asks for the numbers.

use std::ops::Range;

use burn::tensor::{DType, TensorData, bf16, f16};

/// A tensor in a file.
#[derive(Clone, Debug)]
pub struct StridedTensor {
    dtype: DType,
    shape: Vec<usize>,
    /// In bytes.
    strides: Vec<usize>,
    /// Where its first number lies in the file, in bytes.
    start: usize,
}

impl StridedTensor {
    /// A view of the storage that lies at `storage` in the file; strides and offset count numbers. `None` if it reaches
    /// beyond the storage, or is too large to count.
    pub(super) fn new(
        dtype: DType,
        shape: Vec<usize>,
        strides: Vec<usize>,
        storage: Range<usize>,
        offset: usize,
    ) -> Option<Self> {
        let size = dtype.size();
        let start = storage.start.checked_add(offset.checked_mul(size)?)?;
        let strides = strides.iter().map(|stride| stride.checked_mul(size)).collect::<Option<Vec<_>>>()?;
        let bytes = shape.iter().try_fold(size, |bytes, &len| bytes.checked_mul(len))?;
        if bytes == 0 {
            return Some(Self { dtype, shape, strides, start: 0 });
        }
        let mut end = start.checked_add(size)?;
        for (&len, &stride) in shape.iter().zip(&strides) {
            end = end.checked_add((len - 1).checked_mul(stride)?)?;
        }
        (end <= storage.end).then_some(Self { dtype, shape, strides, start })
    }

    /// A row-major tensor at `range` of the file.
    pub(super) fn contiguous(dtype: DType, shape: Vec<usize>, range: Range<usize>) -> Option<Self> {
        let mut strides = vec![1usize; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis].checked_mul(shape[axis].max(1))?;
        }
        Self::new(dtype, shape, strides, range, 0)
    }

    /// Type of its numbers.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its shape, in the layout of the program that wrote it.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Bytes of its numbers, once they lie one after another; a view that repeats numbers has more than the file.
    pub fn num_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size()
    }

    /// Its numbers, row-major. `bytes` are the file's.
    pub(super) fn read(&self, bytes: &[u8]) -> TensorData {
        let shape = self.shape.clone();
        match self.dtype {
            DType::F64 => TensorData::new(self.gather(bytes, f64::from_le_bytes), shape),
            DType::F16 => TensorData::new(self.gather(bytes, f16::from_le_bytes), shape),
            DType::BF16 => TensorData::new(self.gather(bytes, bf16::from_le_bytes), shape),
            DType::I64 => TensorData::new(self.gather(bytes, i64::from_le_bytes), shape),
            DType::I32 => TensorData::new(self.gather(bytes, i32::from_le_bytes), shape),
            DType::I16 => TensorData::new(self.gather(bytes, i16::from_le_bytes), shape),
            DType::I8 => TensorData::new(self.gather(bytes, i8::from_le_bytes), shape),
            DType::U8 => TensorData::new(self.gather(bytes, u8::from_le_bytes), shape),
            DType::Bool(_) => TensorData::new(self.gather(bytes, |[byte]| byte != 0), shape),
            DType::F32 => TensorData::new(self.gather(bytes, f32::from_le_bytes), shape),
            other => unreachable!("no reader makes tensors of {other:?}"),
        }
    }

    fn gather<T, const N: usize>(&self, bytes: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
        let count: usize = self.shape.iter().product();
        let mut values = Vec::with_capacity(count);
        if count == 0 {
            return values;
        }
        // The innermost axis is walked in a tight loop, the others as an odometer.
        let (inner, step) = match (self.shape.split_last(), self.strides.last()) {
            (Some((&len, _)), Some(&stride)) => (len, stride),
            _ => (1, 0),
        };
        let outer = self.shape.len().saturating_sub(1);
        let mut position = vec![0usize; outer];
        loop {
            let row: usize =
                self.start + position.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum::<usize>();
            values.extend((0..inner).map(|i| {
                let at = row + i * step;
                number(bytes[at..at + N].try_into().expect("a slice of N bytes"))
            }));
            let Some(axis) = (0..outer).rev().find(|&axis| position[axis] + 1 < self.shape[axis]) else { break };
            position[axis] += 1;
            position[axis + 1..].fill(0);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 6] = [0, 1, 2, 3, 4, 5];

    fn view(shape: &[usize], strides: &[usize], offset: usize) -> Option<Vec<u8>> {
        let tensor = StridedTensor::new(DType::U8, shape.to_vec(), strides.to_vec(), 0..6, offset)?;
        Some(tensor.read(&BYTES).iter::<u8>().collect())
    }

    #[test]
    fn strides_transpose_skip_and_repeat() {
        assert_eq!(view(&[2, 3], &[3, 1], 0), Some(vec![0, 1, 2, 3, 4, 5]));
        assert_eq!(view(&[3, 2], &[1, 3], 0), Some(vec![0, 3, 1, 4, 2, 5]));
        assert_eq!(view(&[2], &[2], 1), Some(vec![1, 3]));
        assert_eq!(view(&[2, 2], &[0, 1], 4), Some(vec![4, 5, 4, 5]));
        assert_eq!(view(&[], &[], 3), Some(vec![3]));
        assert_eq!(view(&[0, 7], &[7, 1], 0), Some(vec![]));
    }

    #[test]
    fn a_view_beyond_its_storage_or_beyond_counting_is_refused() {
        assert_eq!(view(&[7], &[1], 0), None);
        assert_eq!(view(&[2], &[1], 5), None);
        assert_eq!(view(&[usize::MAX, 2], &[0, 0], 0), None);
        assert_eq!(view(&[2], &[usize::MAX], 0), None);
        assert_eq!(view(&[1], &[1], usize::MAX), None);
    }
}
