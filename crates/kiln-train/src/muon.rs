//! Muon: steps of convolutions made orthogonal, so that no direction of a layer is trained more than another.
//!
//! In: a parameter, its gradient, its state; all of one shape. Out: parameter and state after the step.
//! Source: Jordan et al., <https://kellerjordan.github.io/posts/muon/>, 2024; the update is burn's `Muon`, on a kernel
//! `[out, in, height, width]` as a matrix `[out, in * height * width]`, with the factor `0.2 * sqrt(max(out, in * ...))` of
//! Liu et al., arXiv 2502.16982, after which learning rate and decay are those AdamW would take.
//! Everything else, the last layer included, takes AdamW's step.

use crate::adam::{Adam, AdamState};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdjustLrFn, LearningRate, MuonConfig, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

/// Axes of a convolution's kernel.
const KERNEL_AXES: usize = 4;

/// Options of one update; the learning rate comes with each step.
#[derive(Clone)]
pub struct Muon {
    of_kernels: burn::optim::Muon,
    of_others: Adam,
}

/// Momentum of a kernel, as a matrix, or the moments of another parameter.
#[derive(Clone)]
pub enum MuonState<const D: usize> {
    /// Of a kernel.
    Kernel(Box<burn::optim::MuonState<2>>),
    /// Of a vector or matrix.
    Other(Box<AdamState<D>>),
}

impl Muon {
    /// An update with the usual momentum of 0.95 for kernels, and `of_others` for the rest.
    pub fn new(momentum: f64, nesterov: bool, weight_decay: f64, of_others: Adam) -> Self {
        let decay = (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay as f32));
        let config = MuonConfig::new()
            .with_momentum(MomentumConfig { momentum, dampening: 0.0, nesterov })
            .with_weight_decay(decay)
            .with_adjust_lr_fn(AdjustLrFn::MatchRmsAdamW);
        Self { of_kernels: config.build(), of_others }
    }
}

impl Optimizer for Muon {
    type State<const D: usize> = MuonState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        if D != KERNEL_AXES {
            let state = match state {
                Some(MuonState::Other(state)) => Some(*state),
                _ => None,
            };
            let (tensor, state) = self.of_others.step(lr, tensor, grad, state);
            return (tensor, state.map(|state| MuonState::Other(Box::new(state))));
        }
        let state = match state {
            Some(MuonState::Kernel(state)) => Some(*state),
            _ => None,
        };
        let shape = tensor.dims();
        let [matrix, grad]: [Tensor<2>; 2] = [tensor, grad].map(|kernel| kernel.flatten(1, D - 1));
        let (matrix, state) = self.of_kernels.step(lr, matrix, grad, state);
        (matrix.reshape(shape), state.map(|state| MuonState::Kernel(Box::new(state))))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        match state {
            MuonState::Kernel(state) => MuonState::Kernel(Box::new(burn::optim::Muon::to_device(*state, device))),
            MuonState::Other(state) => MuonState::Other(Box::new(Adam::to_device(*state, device))),
        }
    }
}

impl<const D: usize> RecordState for MuonState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        match self {
            Self::Kernel(state) => state.state_flatten(prefix, out),
            Self::Other(state) => state.state_flatten(prefix, out),
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        match D {
            KERNEL_AXES => {
                burn::optim::MuonState::state_unflatten(prefix, src, device).map(|state| Self::Kernel(Box::new(state)))
            }
            _ => AdamState::state_unflatten(prefix, src, device).map(|state| Self::Other(Box::new(state))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adam::Decay;
    use burn::tensor::TensorData;

    fn adam() -> Adam {
        Adam { betas: [0.9, 0.999], epsilon: 1e-8, amsgrad: false, weight_decay: 0.0, decay: Decay::Parameter }
    }

    fn numbers(len: usize) -> Vec<f32> {
        crate::golden::tens("muon", len, 1.0, 0.0)
    }

    #[test]
    fn a_kernel_s_step_is_nearly_orthogonal_and_as_long_as_adamw_s() {
        let device = kiln_device::cpu();
        let (out, columns) = (6, 2 * 3 * 3);
        let grad = Tensor::<4>::from_data(TensorData::new(numbers(out * columns), [out, 2, 3, 3]), &device);
        let before = Tensor::<4>::zeros([out, 2, 3, 3], &device);
        let (after, _) = Muon::new(0.95, true, 0.0, adam()).step(1.0, before, grad, None);
        let matrix: Tensor<2> = after.flatten(1, 3);
        let gram = matrix.clone().matmul(matrix.swap_dims(0, 1)).into_data();
        // Five steps of Newton's iteration leave singular values between about 0.7 and 1.2 of the factor.
        let factor = (0.2 * (columns as f64).sqrt()).powi(2);
        for (index, value) in gram.iter::<f64>().enumerate() {
            let (row, column) = (index / out, index % out);
            match row == column {
                true => assert!((0.3..1.7).contains(&(value / factor)), "[{row}, {column}]: {}", value / factor),
                false => assert!(value.abs() < 0.5 * factor, "[{row}, {column}]: {}", value / factor),
            }
        }
    }

    #[test]
    fn vectors_and_matrices_take_adamw_s_step() {
        let device = kiln_device::cpu();
        let tensor = |scale: f32| {
            let values = numbers(6).into_iter().map(|v| scale * v).collect::<Vec<_>>();
            Tensor::<2>::from_data(TensorData::new(values, [2, 3]), &device)
        };
        let muon = Muon::new(0.95, true, 0.5, adam());
        let (ours, _) = muon.step(0.1, tensor(1.0), tensor(2.0), None);
        let (want, _) = adam().step(0.1, tensor(1.0), tensor(2.0), None);
        assert_eq!(ours.into_data(), want.into_data());
    }
}
