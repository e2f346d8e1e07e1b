//! Dynamic loss scaling, which keeps f16 gradients from vanishing.
//!
//! In: whether a step's gradients were finite. Out: the factor the next step's loss is multiplied with.
//! f16 has no number between 0 and 6e-8, and gradients of a mean loss are smaller. Multiplied with the scale they aren't; if
//! they overflow instead, the step is left out and the scale halved, and it grows back after a while without.
//! Source: Micikevicius et al., arXiv 1710.03740, section 3.2; numbers of `torch.amp.GradScaler` (2.14).

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};
use serde::{Deserialize, Serialize};

const FIRST_SCALE: f64 = 65536.0;
const GROWTH: f64 = 2.0;
const BACKOFF: f64 = 0.5;
const STEPS_TO_GROW: u32 = 2000;

/// Larger scales would overflow f32, in which the loss is.
const LARGEST_SCALE: f64 = 1e30;

/// The scale and what led to it; part of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    /// What the loss is multiplied with: a power of two, so that nothing is rounded.
    pub scale: f64,
    /// Steps with finite gradients since the scale last changed.
    pub good_steps: u32,
    /// Steps left out in a row.
    pub skipped_steps: usize,
}

impl Default for LossScale {
    fn default() -> Self {
        Self { scale: FIRST_SCALE, good_steps: 0, skipped_steps: 0 }
    }
}

impl LossScale {
    /// A step had finite gradients.
    pub fn passed(&mut self) {
        (self.good_steps, self.skipped_steps) = (self.good_steps + 1, 0);
        if self.good_steps == STEPS_TO_GROW && self.scale < LARGEST_SCALE {
            (self.scale, self.good_steps) = (self.scale * GROWTH, 0);
        }
    }

    /// A step's gradients overflowed, and it was left out.
    pub fn overflowed(&mut self) {
        (self.scale, self.good_steps) = (self.scale * BACKOFF, 0);
        self.skipped_steps += 1;
    }
}

/// The gradients of `model` divided by `scale`; `None` if one isn't finite. Waits for the device.
pub(crate) fn unscaled<M: Module>(model: &M, gradients: Gradients, scale: f64) -> Option<Gradients> {
    let mut division = Division { gradients, factor: 1.0 / scale, checks: Vec::new() };
    model.visit(&mut division);
    // Zero times a number is zero, and NaN times anything else.
    let checks: Vec<f32> = Tensor::cat(division.checks, 0).into_data().iter().collect();
    checks.iter().all(|check| *check == 0.0).then_some(division.gradients)
}

struct Division {
    gradients: Gradients,
    factor: f64,
    checks: Vec<Tensor<1>>,
}

impl ModuleVisitor for Division {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        let Some(gradient) = tensor.grad_remove(&mut self.gradients) else { return };
        self.checks.push(gradient.clone().mul_scalar(0.0).sum());
        tensor.grad_replace(&mut self.gradients, gradient.mul_scalar(self.factor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::nn::LinearConfig;

    #[test]
    fn the_scale_halves_with_every_overflow_and_doubles_after_two_thousand_good_steps() {
        let mut scale = LossScale::default();
        scale.overflowed();
        scale.overflowed();
        assert_eq!(scale, LossScale { scale: 16384.0, good_steps: 0, skipped_steps: 2 });
        for _ in 0..1999 {
            scale.passed();
        }
        assert_eq!(scale, LossScale { scale: 16384.0, good_steps: 1999, skipped_steps: 0 });
        scale.passed();
        assert_eq!(scale, LossScale { scale: 32768.0, good_steps: 0, skipped_steps: 0 });
        scale.passed();
        scale.overflowed();
        assert_eq!((scale.scale, scale.good_steps), (16384.0, 0));
    }

    #[test]
    fn gradients_are_divided_and_one_that_overflowed_condemns_all() {
        let device = kiln_device::cpu().autodiff();
        let model = LinearConfig::new(2, 1).with_bias(false).init(&device);
        let gradients = |input: [f32; 2]| model.forward(Tensor::<2>::from_data([input], &device)).backward();
        let divided = unscaled(&model, gradients([8.0, 4.0]), 4.0).expect("finite");
        let gradient = model.weight.val().grad(&divided).expect("kept").into_data();
        assert_eq!(gradient.iter::<f32>().collect::<Vec<_>>(), [2.0, 1.0]);
        for broken in [f32::INFINITY, f32::NAN] {
            assert!(unscaled(&model, gradients([8.0, broken]), 4.0).is_none(), "{broken}");
        }
    }
}
