//! The update rule that a recipe names.
//!
//! In: the recipe's table, a weight decay, where tensors lie. Out: a rule for one group of parameters.
//! All of them but Muon's heart are ours. burn's Adam, AdamW, RMSprop and Lamb take their betas as f32, in which 1 - 0.999 is off by 5e-5
//! of itself: Adam's golden trace is missed by 1.0005e-6 where 1e-6 is allowed (`optimizer/tests.rs`). `sgd.rs` says what
//! keeps burn's SGD away, and burn has no LARS.

use crate::adam::{Adam, Decay};
use crate::lamb::Lamb;
use crate::lars::Lars;
use crate::muon::Muon;
use crate::recipe::{OptimizerConfig, OptimizerKind};
use crate::rmsprop::RmsProp;
use crate::sgd::{Residence, Sgd};
use burn::optim::DynOptimizer;
use std::sync::Arc;

/// The rule `config` names, with `weight_decay`.
pub(super) fn rule(config: &OptimizerConfig, weight_decay: f64, residence: Residence) -> Arc<dyn DynOptimizer> {
    let &OptimizerConfig { momentum, nesterov, betas, amsgrad, alpha, trust_coefficient, .. } = config;
    let epsilon = config.epsilon();
    let sgd = Sgd { momentum, dampening: 0.0, nesterov, weight_decay, residence };
    let adam = |decay| Adam { betas, epsilon, amsgrad, weight_decay, decay };
    match config.kind {
        OptimizerKind::Sgd => Arc::new(sgd),
        OptimizerKind::Adam => Arc::new(adam(Decay::Gradient)),
        OptimizerKind::AdamW => Arc::new(adam(Decay::Parameter)),
        OptimizerKind::RmsProp => Arc::new(RmsProp { alpha, epsilon, momentum, weight_decay }),
        OptimizerKind::Lamb => Arc::new(Lamb { betas, epsilon, weight_decay }),
        OptimizerKind::Muon => Arc::new(Muon::new(momentum, nesterov, weight_decay, adam(Decay::Parameter))),
        OptimizerKind::Lars => {
            let sgd = Sgd { weight_decay: 0.0, ..sgd };
            Arc::new(Lars { sgd, weight_decay, trust_coefficient, epsilon })
        }
    }
}
