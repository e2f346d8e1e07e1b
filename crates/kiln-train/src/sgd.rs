//! SGD with momentum, the update of one tensor.
//!
//! In: a parameter, its gradient, its momentum buffer; all of one shape. Out: parameter and buffer after the step.
//! Source: `torch.optim.SGD` (2.14): weight decay is added to the gradient, the buffer starts as the first gradient,
//! and the learning rate is not in the buffer, so a schedule may change it freely:
//!
//! ```text
//! g = grad + weight_decay * p
//! v = g                                   at the first step
//! v = momentum * v + (1 - dampening) * g  afterwards
//! p = p - lr * (g + momentum * v)         with Nesterov; p - lr * v without
//! ```
//!
//! Differs from burn's `Sgd`: dampening 0 by default (burn: 0.1), and where tensors lie in host memory the update is
//! one pass over it instead of eight, with the same roundings. On a GPU, fusion does that.

use crate::adam::loaded;
use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{DType, Device, Tensor, TensorData};
use kiln_device::Backend;
use rayon::prelude::*;

/// Numbers a thread takes at once: large enough to hide the hand-over, small enough for the L2 cache.
const CHUNK: usize = 16 * 1024;

/// Name of the momentum buffer in a saved state, PyTorch's.
const BUFFER: &str = "momentum_buffer";

/// Options of one update; the learning rate comes with each step.
#[derive(Clone, Debug, PartialEq)]
pub struct Sgd {
    /// Share of the buffer kept from step to step; 0 keeps no buffer. The usual value is 0.9.
    pub momentum: f64,
    /// Share of the gradient kept out of the buffer. PyTorch's default is 0.
    pub dampening: f64,
    /// Whether the step looks ahead along the buffer (Sutskever et al., ICML 2013, as PyTorch writes it).
    pub nesterov: bool,
    /// Share of the parameter added to its gradient. ResNet's is 1e-4.
    pub weight_decay: f64,
    /// Where the tensors are.
    pub residence: Residence,
}

/// Where a device keeps its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// In host memory: reading a tensor is free, and arithmetic is as fast as memory.
    Host,
    /// Behind a queue: reading a tensor waits, and arithmetic is a launch.
    Device,
}

impl Residence {
    /// Where `backend` keeps them.
    pub fn of(backend: Backend) -> Self {
        if backend == Backend::Cpu { Self::Host } else { Self::Device }
    }
}

/// The momentum buffer of one parameter.
#[derive(Clone, Debug)]
pub struct SgdState<const D: usize> {
    momentum_buffer: Tensor<D>,
}

impl Optimizer for Sgd {
    type State<const D: usize> = SgdState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let buffer = state.map(|state| state.momentum_buffer);
        let all_f32 = tensor.dtype() == DType::F32
            && grad.dtype() == DType::F32
            && buffer.as_ref().is_none_or(|buffer| buffer.dtype() == DType::F32);
        let (tensor, buffer) = match self.residence {
            Residence::Host if all_f32 => self.step_in_memory(lr, tensor, grad, buffer),
            _ => self.step_as_tensors(lr, tensor, grad, buffer),
        };
        (tensor, buffer.map(|momentum_buffer| SgdState { momentum_buffer }))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        SgdState { momentum_buffer: state.momentum_buffer.to_device(device) }
    }
}

impl Sgd {
    /// The update in tensor operations, each rounding as PyTorch's.
    fn step_as_tensors<const D: usize>(
        &self,
        lr: f64,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        buffer: Option<Tensor<D>>,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        let grad = match self.weight_decay {
            0.0 => grad,
            decay => grad + tensor.clone().mul_scalar(decay),
        };
        if self.momentum == 0.0 {
            return (tensor - grad.mul_scalar(lr), None);
        }
        let buffer = match buffer {
            None => grad.clone(),
            Some(buffer) => buffer.mul_scalar(self.momentum) + scaled(grad.clone(), 1.0 - self.dampening),
        };
        let direction = match self.nesterov {
            true => grad + buffer.clone().mul_scalar(self.momentum),
            false => buffer.clone(),
        };
        (tensor - direction.mul_scalar(lr), Some(buffer))
    }

    /// The same update in one pass over host memory. Copies nothing if no one else holds the tensors.
    fn step_in_memory<const D: usize>(
        &self,
        lr: f64,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        buffer: Option<Tensor<D>>,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        let device = tensor.device();
        let back = |data: TensorData| Tensor::from_data(data, (&device, DType::F32));
        let (mut tensor, grad) = (tensor.into_data(), grad.into_data());
        if self.momentum == 0.0 {
            self.update_without_buffer(lr as f32, numbers_mut(&mut tensor), numbers(&grad));
            return (back(tensor), None);
        }
        let buffer = match buffer {
            Some(buffer) => {
                let mut buffer = buffer.into_data();
                self.update(lr as f32, numbers_mut(&mut tensor), numbers(&grad), numbers_mut(&mut buffer));
                buffer
            }
            None => {
                let mut first = grad;
                self.first_update(lr as f32, numbers_mut(&mut tensor), numbers_mut(&mut first));
                first
            }
        };
        (back(tensor), Some(back(buffer)))
    }

    fn update(&self, lr: f32, tensor: &mut [f32], grad: &[f32], buffer: &mut [f32]) {
        let (decay, momentum) = (self.weight_decay as f32, self.momentum as f32);
        let kept = (1.0 - self.dampening) as f32;
        let nesterov = self.nesterov;
        tensor.par_chunks_mut(CHUNK).zip(grad.par_chunks(CHUNK)).zip(buffer.par_chunks_mut(CHUNK)).for_each(
            |((tensor, grad), buffer)| {
                for ((p, &grad), v) in tensor.iter_mut().zip(grad).zip(buffer) {
                    let g = grad + *p * decay;
                    *v = *v * momentum + g * kept;
                    let direction = if nesterov { g + *v * momentum } else { *v };
                    *p -= direction * lr;
                }
            },
        );
    }

    /// Turns the gradient in `buffer` into the momentum buffer of the first step, and takes that step.
    fn first_update(&self, lr: f32, tensor: &mut [f32], buffer: &mut [f32]) {
        let (decay, momentum) = (self.weight_decay as f32, self.momentum as f32);
        let nesterov = self.nesterov;
        tensor.par_chunks_mut(CHUNK).zip(buffer.par_chunks_mut(CHUNK)).for_each(|(tensor, buffer)| {
            for (p, v) in tensor.iter_mut().zip(buffer) {
                *v += *p * decay;
                let direction = if nesterov { *v + *v * momentum } else { *v };
                *p -= direction * lr;
            }
        });
    }

    fn update_without_buffer(&self, lr: f32, tensor: &mut [f32], grad: &[f32]) {
        let decay = self.weight_decay as f32;
        tensor.par_chunks_mut(CHUNK).zip(grad.par_chunks(CHUNK)).for_each(|(tensor, grad)| {
            for (p, &grad) in tensor.iter_mut().zip(grad) {
                *p -= (grad + *p * decay) * lr;
            }
        });
    }
}

impl<const D: usize> RecordState for SgdState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_tensor(prefix, BUFFER, self.momentum_buffer.to_data());
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        Some(Self { momentum_buffer: loaded(src.take_tensor(prefix, BUFFER)?, device)? })
    }
}

/// `tensor * factor`, without a launch for a factor of one.
fn scaled<const D: usize>(tensor: Tensor<D>, factor: f64) -> Tensor<D> {
    if factor == 1.0 { tensor } else { tensor.mul_scalar(factor) }
}

fn numbers(data: &TensorData) -> &[f32] {
    data.as_slice().expect("an f32 tensor, the type was checked")
}

fn numbers_mut(data: &mut TensorData) -> &mut [f32] {
    data.as_mut_slice().expect("an f32 tensor, the type was checked")
}

#[cfg(test)]
mod tests;
