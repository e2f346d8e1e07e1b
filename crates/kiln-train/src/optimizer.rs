//! The optimiser of a whole model: one update rule per group of parameters, state kept by parameter name.
//!
//! In: a model and the gradients of a backward pass. Out: the model after the step.
//! Groups: vectors and scalars (norms' gammas and betas, biases) are kept from decaying, the rest decays, as in
//! He et al., arXiv 1812.01187, section 3.1, and torchvision's `--norm-weight-decay 0 --bias-weight-decay 0`.
//! State is saved and loaded under the names torchvision gives the parameters, never by burn's random ids, and lands on
//! the device of its parameter. (burn's `ModuleOptimizer::load_record` opens the default device, which may not exist.)
//! Learning rates may fall from the last layer back to the stem; gradients may be cut off at a value, as
//! `torch.nn.utils.clip_grad_value_` does, or shortened by their common norm, as `clip_grad_norm_` does, without waiting
//! for the device.
//! Not done here: the rules (`optimizer/rule.rs`); averages of the weights (`weight_average.rs`). A rule is anything that implements
//! burn's `Optimizer`.

mod clip;
mod rule;

use crate::recipe::{OptimizerConfig, OptimizerKind};
use crate::sgd::Residence;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::{DynOptimizer, DynState, StateSink, StateSource};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use kiln_model::Part;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Parameters of at most this many axes are norms and biases.
const MAX_RANK_WITHOUT_DECAY: usize = 1;

/// Updates every parameter of one model.
pub struct ModelOptimizer {
    decayed: Arc<dyn DynOptimizer>,
    undecayed: Arc<dyn DynOptimizer>,
    names: HashMap<ParamId, String>,
    state: HashMap<ParamId, DynState>,
    config: OptimizerConfig,
    residence: Residence,
}

/// Why saved optimiser state doesn't fit a model.
#[derive(Debug, thiserror::Error)]
#[error("optimiser state doesn't fit the model: {0}")]
pub struct StateError(String);

impl ModelOptimizer {
    /// An optimiser without state. `names` are the model's parameters by torchvision's names.
    pub fn new(config: &OptimizerConfig, names: HashMap<ParamId, String>, residence: Residence) -> Self {
        Self {
            decayed: rule::rule(config, config.weight_decay, residence),
            undecayed: rule::rule(config, config.norm_bias_weight_decay, residence),
            names,
            state: HashMap::new(),
            config: config.clone(),
            residence,
        }
    }

    /// Takes another momentum from the next step on, for schedules that move it; rules without one take it for the share
    /// kept of the gradient's running mean.
    pub fn set_momentum(&mut self, momentum: f64) {
        self.config.momentum = momentum;
        if matches!(self.config.kind, OptimizerKind::Adam | OptimizerKind::AdamW | OptimizerKind::Lamb) {
            self.config.betas[0] = momentum;
        }
        self.decayed = rule::rule(&self.config, self.config.weight_decay, self.residence);
        self.undecayed = rule::rule(&self.config, self.config.norm_bias_weight_decay, self.residence);
    }

    /// Takes one step. Parameters without a gradient stay as they are.
    pub fn step<M: Module>(&mut self, lr: f64, model: M, grads: Gradients) -> M {
        let largest = self.config.max_grad_value();
        let shortening = self.config.max_grad_norm().and_then(|limit| clip::shortening(&model, &grads, limit));
        model.map(&mut Step { optimizer: self, lr, grads, largest, shortening })
    }

    /// The state by name: `<parameter>.<field>`, sorted. Waits for the device.
    pub fn state(&self) -> BTreeMap<String, TensorData> {
        let mut sink = StateSink::default();
        for (id, state) in &self.state {
            // Which group is asked doesn't matter: both keep the same kind of state.
            self.decayed.state_flatten(&self.names[id], state, &mut sink);
        }
        sink.tensors.into_iter().collect()
    }

    /// Replaces the state by a saved one, on `device`.
    ///
    /// # Errors
    /// If a parameter that isn't frozen has no state while others do, or state of another rank, or if a name is left over.
    pub fn load_state<M: Module>(
        &mut self,
        model: &M,
        saved: BTreeMap<String, TensorData>,
        device: &Device,
    ) -> Result<(), StateError> {
        self.state.clear();
        if saved.is_empty() {
            return Ok(());
        }
        let mut left: Vec<String> = saved.keys().cloned().collect();
        let mut load = Load { optimizer: self, source: StateSource::default(), device, missing: Vec::new() };
        for (name, data) in saved {
            load.source.insert_tensor(name, data);
        }
        model.visit(&mut load);
        let missing = load.missing;
        left.retain(|name| !self.names.values().any(|parameter| belongs_to(name, parameter)));
        match (missing.as_slice(), left.as_slice()) {
            ([], []) => Ok(()),
            ([], left) => Err(StateError(format!("no parameter for {}", left.join(", ")))),
            (missing, _) => Err(StateError(format!("nothing usable for {}", missing.join(", ")))),
        }
    }

    /// Learning rate of the parameter `id` over the step's.
    fn lr_factor(&self, id: &ParamId) -> f64 {
        match self.names.get(id) {
            Some(name) if self.config.layer_lr_decay != 1.0 => {
                self.config.layer_lr_decay.powi(Part::of(name).distance_from_output() as i32)
            }
            _ => 1.0,
        }
    }

    fn rule(&self, rank: usize) -> Arc<dyn DynOptimizer> {
        if rank <= MAX_RANK_WITHOUT_DECAY { self.undecayed.clone() } else { self.decayed.clone() }
    }
}

/// Whether `name` is a field of `parameter`'s state.
fn belongs_to(name: &str, parameter: &str) -> bool {
    name.strip_prefix(parameter).is_some_and(|field| field.starts_with('.'))
}

/// Walks the model and updates it.
struct Step<'a> {
    optimizer: &'a mut ModelOptimizer,
    lr: f64,
    grads: Gradients,
    /// Where a gradient's values are cut off.
    largest: Option<f64>,
    /// What every gradient is multiplied with, one number on the device.
    shortening: Option<Tensor<1>>,
}

impl ModuleMapper for Step<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        let Some(grad) = tensor.grad_remove(&mut self.grads) else {
            return Param::from_mapped_value(id, tensor, mapper);
        };
        let grad = match self.largest {
            Some(largest) => grad.clamp(-largest, largest),
            None => grad,
        };
        let grad = match &self.shortening {
            Some(factor) => grad * factor.clone().reshape([1; D]),
            None => grad,
        };
        let lr = self.lr * self.optimizer.lr_factor(&id);
        let checkpointing = tensor.gradient_checkpointing_strategy();
        let state = self.optimizer.state.remove(&id);
        let rule = self.optimizer.rule(D);
        let bridge = tensor.inner().into_bridge();
        let (updated, state) = rule.step_dyn(D, lr, bridge, grad.into_bridge(), state);
        if let Some(state) = state {
            self.optimizer.state.insert(id, state);
        }
        let mut updated = Tensor::<D>::from_bridge(updated).autodiff();
        if let Some(strategy) = checkpointing {
            updated = updated.with_gradient_checkpointing_strategy(strategy);
        }
        Param::from_mapped_value(id, updated.require_grad(), mapper)
    }
}

/// Walks the model and gives each parameter its saved state.
struct Load<'a> {
    optimizer: &'a mut ModelOptimizer,
    source: StateSource,
    device: &'a Device,
    missing: Vec<String>,
}

impl ModuleVisitor for Load<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(name) = self.optimizer.names.get(&param.id) else { return };
        if !param.val().is_require_grad() {
            return; // frozen: it has never been updated
        }
        let rule = self.optimizer.rule(D);
        match rule.state_unflatten(D, name, &mut self.source, self.device) {
            Some(state) => {
                self.optimizer.state.insert(param.id, state);
            }
            None => self.missing.push(name.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
