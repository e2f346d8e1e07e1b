//! RMSprop with momentum, the update of one tensor.
//!
//! In: a parameter, its gradient, its running square and momentum buffer; all of one shape. Out: the same after the step.
//! Source: `torch.optim.RMSprop` (2.14), not centred:
//!
//! ```text
//! g = grad + weight_decay * p
//! s = alpha * s + (1 - alpha) * g²                     from 0
//! v = momentum * v + g / (sqrt(s) + epsilon)           from 0
//! p = p - lr * v
//! ```

use crate::adam::loaded;
use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

/// Options of one update; the learning rate comes with each step.
#[derive(Clone, Debug, PartialEq)]
pub struct RmsProp {
    /// Share kept of the running square. PyTorch's default is 0.99.
    pub alpha: f64,
    /// Added to the denominator. PyTorch's default is 1e-8.
    pub epsilon: f64,
    /// Share of the buffer kept from step to step; 0 keeps no buffer.
    pub momentum: f64,
    /// Share of the parameter added to its gradient.
    pub weight_decay: f64,
}

/// The running square and momentum of one parameter.
#[derive(Clone, Debug)]
pub struct RmsPropState<const D: usize> {
    mean_square: Tensor<D>,
    buffer: Option<Tensor<D>>,
}

impl Optimizer for RmsProp {
    type State<const D: usize> = RmsPropState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let grad = match self.weight_decay {
            0.0 => grad,
            decay => grad + tensor.clone().mul_scalar(decay),
        };
        let (before, buffer) = state.map_or((None, None), |state| (Some(state.mean_square), state.buffer));
        let square = grad.clone().square().mul_scalar(1.0 - self.alpha);
        let mean_square = match before {
            Some(before) => before.mul_scalar(self.alpha) + square,
            None => square,
        };
        let direction = grad / mean_square.clone().sqrt().add_scalar(self.epsilon);
        let direction = match buffer {
            Some(buffer) => buffer.mul_scalar(self.momentum) + direction,
            None => direction,
        };
        let buffer = (self.momentum != 0.0).then(|| direction.clone());
        (tensor - direction.mul_scalar(lr), Some(RmsPropState { mean_square, buffer }))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        RmsPropState {
            mean_square: state.mean_square.to_device(device),
            buffer: state.buffer.map(|buffer| buffer.to_device(device)),
        }
    }
}

/// PyTorch's names of the fields.
const MEAN_SQUARE: &str = "square_avg";
const BUFFER: &str = "momentum_buffer";

impl<const D: usize> RecordState for RmsPropState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_tensor(prefix, MEAN_SQUARE, self.mean_square.to_data());
        if let Some(buffer) = &self.buffer {
            out.push_tensor(prefix, BUFFER, buffer.to_data());
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let mut tensor = |name| loaded(src.take_tensor(prefix, name)?, device);
        Some(Self { mean_square: tensor(MEAN_SQUARE)?, buffer: tensor(BUFFER) })
    }
}
