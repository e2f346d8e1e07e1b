//! Adam and AdamW, the update of one tensor.
//!
//! In: a parameter, its gradient, its running moments; all of one shape. Out: parameter and moments after the step.
//! Source: `torch.optim.Adam` and `AdamW` (2.14):
//!
//! ```text
//! m = beta1 * m + (1 - beta1) * g,  v = beta2 * v + (1 - beta2) * g²          from 0
//! direction = m / (1 - beta1^t) / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)     v the largest so far with amsgrad
//! p = p - lr * direction
//! ```
//!
//! Decay enters the gradient (Adam) or shrinks the parameter by `lr * weight_decay` before the step (AdamW).
//! Differs from burn's: betas are f64, so that `1 - beta` is exact to f32.

use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor, TensorData};

/// Options of one update; the learning rate comes with each step.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    /// Shares kept of the mean and of the mean square, each below 1. The usual values are 0.9 and 0.999.
    pub betas: [f64; 2],
    /// Added to the denominator. PyTorch's is 1e-8.
    pub epsilon: f64,
    /// Whether to divide by the largest mean square so far (Reddi et al., arXiv 1904.09237).
    pub amsgrad: bool,
    /// Share of the parameter that decays. AdamW's default in PyTorch is 0.01.
    pub weight_decay: f64,
    /// Where it decays.
    pub decay: Decay,
}

/// Where weight decay enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decay {
    /// The gradient, as an L2 penalty would: Adam.
    Gradient,
    /// The parameter itself: AdamW.
    Parameter,
}

/// The running moments of one parameter.
#[derive(Clone, Debug)]
pub struct AdamState<const D: usize> {
    /// Steps taken.
    step: u64,
    mean: Tensor<D>,
    mean_square: Tensor<D>,
    largest_mean_square: Option<Tensor<D>>,
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let (tensor, grad) = match self.decay {
            _ if self.weight_decay == 0.0 => (tensor, grad),
            Decay::Gradient => (tensor.clone(), grad + tensor.mul_scalar(self.weight_decay)),
            Decay::Parameter => (tensor.mul_scalar(1.0 - lr * self.weight_decay), grad),
        };
        let state = AdamState::advanced(state, grad, self.betas, self.amsgrad);
        let direction = state.direction(self.betas, self.epsilon);
        (tensor - direction.mul_scalar(lr), Some(state))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        state.to_device(device)
    }
}

impl<const D: usize> AdamState<D> {
    /// The moments after one more gradient.
    pub(crate) fn advanced(before: Option<Self>, grad: Tensor<D>, betas: [f64; 2], amsgrad: bool) -> Self {
        let [of_mean, of_square] = betas;
        let mean = grad.clone().mul_scalar(1.0 - of_mean);
        let mean_square = grad.square().mul_scalar(1.0 - of_square);
        let (step, mean, mean_square, largest) = match before {
            None => (1, mean, mean_square, None),
            Some(before) => (
                before.step + 1,
                before.mean.mul_scalar(of_mean) + mean,
                before.mean_square.mul_scalar(of_square) + mean_square,
                before.largest_mean_square,
            ),
        };
        let largest_mean_square = amsgrad.then(|| match largest {
            Some(largest) => largest.max_pair(mean_square.clone()),
            None => mean_square.clone(),
        });
        Self { step, mean, mean_square, largest_mean_square }
    }

    /// Where to go, before the learning rate.
    pub(crate) fn direction(&self, betas: [f64; 2], epsilon: f64) -> Tensor<D> {
        let [of_mean, of_square] = betas.map(|beta| 1.0 - beta.powf(self.step as f64));
        let mean_square = self.largest_mean_square.as_ref().unwrap_or(&self.mean_square);
        let scale = mean_square.clone().sqrt().div_scalar(of_square.sqrt()).add_scalar(epsilon);
        self.mean.clone().div_scalar(of_mean) / scale
    }

    pub(crate) fn to_device(&self, device: &Device) -> Self {
        let moved = |tensor: &Tensor<D>| tensor.clone().to_device(device);
        Self {
            step: self.step,
            mean: moved(&self.mean),
            mean_square: moved(&self.mean_square),
            largest_mean_square: self.largest_mean_square.as_ref().map(moved),
        }
    }
}

/// PyTorch's names of the fields.
const STEP: &str = "step";
const MEAN: &str = "exp_avg";
const MEAN_SQUARE: &str = "exp_avg_sq";
const LARGEST: &str = "max_exp_avg_sq";

impl<const D: usize> RecordState for AdamState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_tensor(prefix, STEP, TensorData::new(vec![self.step as i64], [1]));
        out.push_tensor(prefix, MEAN, self.mean.to_data());
        out.push_tensor(prefix, MEAN_SQUARE, self.mean_square.to_data());
        if let Some(largest) = &self.largest_mean_square {
            out.push_tensor(prefix, LARGEST, largest.to_data());
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let step = src.take_tensor(prefix, STEP)?.iter::<i64>().next()?;
        let mut tensor = |name| loaded(src.take_tensor(prefix, name)?, device);
        Some(Self {
            step: u64::try_from(step).ok().filter(|&step| step > 0)?,
            mean: tensor(MEAN)?,
            mean_square: tensor(MEAN_SQUARE)?,
            largest_mean_square: tensor(LARGEST),
        })
    }
}

/// A saved tensor, if it has D axes.
pub(crate) fn loaded<const D: usize>(data: TensorData, device: &Device) -> Option<Tensor<D>> {
    (data.shape().num_dims() == D).then(|| Tensor::from_data(data, device))
}
