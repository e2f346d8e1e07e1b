//! Parameters and buffers under torchvision's names.
//!
//! In and out: a state, names to values in torchvision's layout. Order, names and shapes are those of
//! `state_dict()` in torchvision 0.29 (and timm 1.0 for the `d` variants).
//! The one layout that differs: burn's linear layer stores `[in, out]`, torchvision's `[out, in]`; the
//! transposition happens here, on the host.
//! Not done here: files (`weights.rs`), other programs' wrappings and heads of another size (`load.rs`).

use std::collections::{BTreeMap, HashMap};

use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::tensor::{DType, Tensor, TensorData, Transaction};

use crate::batch_norm::{BatchCounter, BatchNorm, RunningTensor};
use crate::resnet::{Block, ConvNorm, ResNet, STAGE_NAMES, downsample_positions, stem_names};
use crate::{Misshaped, ModelError, StateMismatch};

/// Values by torchvision's names.
pub type State = BTreeMap<String, TensorData>;

/// One learnable parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterInfo {
    /// burn's identity of it, stable across clones, `valid` and `train`.
    pub id: ParamId,
    /// torchvision's name.
    pub name: String,
    /// Its shape in torchvision's layout. Weight decay usually skips those of one dimension (norms, biases).
    pub shape: Vec<usize>,
}

/// One entry of the state, without its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateEntry {
    /// torchvision's name.
    pub name: String,
    /// Its shape in torchvision's layout; empty for a batch counter.
    pub shape: Vec<usize>,
    /// `F32`, or `I64` for a batch counter.
    pub dtype: DType,
    /// Whether training changes it by gradients; the others are buffers.
    pub learnable: bool,
}

impl ResNet {
    /// Every parameter and buffer, in torchvision's order and layout: f32, and i64 for the batch counters.
    ///
    /// Waits for the device and copies everything to the host, in one transaction.
    pub fn state(&self) -> Vec<(String, TensorData)> {
        let entries = self.entries();
        let on_device = entries.iter().filter_map(|(_, slot)| slot.on_device());
        let mut read = on_device
            .fold(Transaction::default(), |transaction, tensor| tensor.register(transaction))
            .execute()
            .into_iter();
        let mut next = || read.next().expect("one value was registered per slot on the device");
        let state = entries.into_iter().map(|(name, slot)| {
            let value = match slot {
                Slot::Counter(counter) => TensorData::new(vec![counter.value()], [0usize; 0]),
                Slot::Matrix(_) => transposed_data(next()),
                _ => next(),
            };
            (name, value)
        });
        state.collect()
    }

    /// Replaces every parameter and buffer by the state's.
    ///
    /// Floats of any width become the model's own; whether a parameter requires gradients stays as it was.
    ///
    /// # Errors
    /// [`ModelError::StateMismatch`] listing every name that is missing, unexpected, or of another shape or
    /// kind. Nothing is loaded then.
    pub fn load_state(self, state: &State) -> Result<Self, ModelError> {
        let mismatch = self.compare_state(state);
        if !mismatch.is_empty() {
            return Err(ModelError::StateMismatch { arch: self.config().arch, mismatch: Box::new(mismatch) });
        }
        Ok(self.set_values(state))
    }

    /// Replaces the values that `state` has; their names, shapes and kinds fit. The others stay.
    pub(crate) fn set_values(self, state: &State) -> Self {
        let mut loader = Loader { values: HashMap::new() };
        for (name, slot) in self.entries() {
            let Some(value) = state.get(&name).cloned() else { continue };
            match slot {
                Slot::Counter(counter) => counter.set(value.iter::<i64>().next().unwrap_or(0)),
                Slot::Running(running) => {
                    let device = running.value().device();
                    running.set(Tensor::from_data(value.convert::<f32>(), &device));
                }
                Slot::Matrix(param) => {
                    loader.values.insert(param.id, transposed_data(value.convert::<f32>()));
                }
                Slot::Vector(Param { id, .. }) | Slot::Kernel(Param { id, .. }) => {
                    loader.values.insert(*id, value.convert::<f32>());
                }
            }
        }
        self.map(&mut loader)
    }

    /// How a state differs from what this model holds; empty means [`load_state`](Self::load_state) succeeds.
    pub fn compare_state(&self, state: &State) -> StateMismatch {
        self.compare(state.iter().map(|(name, value)| (name.as_str(), value.shape().as_slice(), value.dtype())))
    }

    /// How tensors of these names, shapes and types differ from what this model holds.
    pub(crate) fn compare<'a>(&self, found: impl Iterator<Item = (&'a str, &'a [usize], DType)>) -> StateMismatch {
        let mut left: BTreeMap<&str, (&[usize], DType)> =
            found.map(|(name, shape, dtype)| (name, (shape, dtype))).collect();
        let mut mismatch = StateMismatch::default();
        for (name, slot) in self.entries() {
            let expected = slot.shape();
            match left.remove(name.as_str()) {
                None => mismatch.missing.push(name),
                Some((shape, _)) if shape != expected => {
                    mismatch.misshaped.push(Misshaped { name, expected, found: shape.to_vec() });
                }
                Some((_, dtype)) if !slot.accepts(dtype) => mismatch.mistyped.push(name),
                Some(_) => {}
            }
        }
        mismatch.unexpected = left.into_keys().map(str::to_string).collect();
        mismatch
    }

    /// Names, shapes and types of the state, in torchvision's order. Draws and copies nothing.
    pub fn state_entries(&self) -> Vec<StateEntry> {
        let describe = |(name, slot): (String, Slot<'_>)| StateEntry {
            name,
            shape: slot.shape(),
            dtype: match slot {
                Slot::Counter(_) => DType::I64,
                _ => DType::F32,
            },
            learnable: slot.parameter_id().is_some(),
        };
        self.entries().into_iter().map(describe).collect()
    }

    /// The learnable parameters, in torchvision's order.
    pub fn parameters(&self) -> Vec<ParameterInfo> {
        let entries = self.entries().into_iter();
        let learnable = entries.filter_map(|(name, slot)| {
            let id = slot.parameter_id()?;
            Some(ParameterInfo { id, name, shape: slot.shape() })
        });
        learnable.collect()
    }

    /// torchvision's name of each learnable parameter, by burn's identity of it.
    pub fn parameter_names(&self) -> HashMap<ParamId, String> {
        self.parameters().into_iter().map(|info| (info.id, info.name)).collect()
    }

    /// Learnable values; running statistics don't count, as in PyTorch.
    pub fn num_parameters(&self) -> usize {
        self.parameters().iter().map(|info| info.shape.iter().product::<usize>()).sum()
    }

    /// Every entry of the state, in torchvision's order.
    fn entries(&self) -> Vec<(String, Slot<'_>)> {
        let mut entries = Entries(Vec::new());
        for ([conv, norm], layer) in stem_names(self.stem.len()).iter().zip(&self.stem) {
            entries.conv_norm([conv, norm], layer);
        }
        let downsample = downsample_positions(self.config());
        for (stage, blocks) in STAGE_NAMES.iter().zip(&self.stages) {
            for (index, block) in blocks.iter().enumerate() {
                entries.block(&format!("{stage}.{index}"), block, downsample);
            }
        }
        entries.push("fc.weight", Slot::Matrix(&self.fc.weight));
        if let Some(bias) = &self.fc.bias {
            entries.push("fc.bias", Slot::Vector(bias));
        }
        entries.0
    }
}

/// Where one entry of the state lives in the model.
#[derive(Clone, Copy)]
enum Slot<'a> {
    /// A convolution's weight, `[out, in / groups, height, width]` on both sides.
    Kernel(&'a Param<Tensor<4>>),
    /// The linear layer's weight, `[in, out]` here and `[out, in]` in the state.
    Matrix(&'a Param<Tensor<2>>),
    Vector(&'a Param<Tensor<1>>),
    Running(&'a RunningTensor),
    Counter(&'a BatchCounter),
}

/// A slot's value on its device.
enum OnDevice {
    Kernel(Tensor<4>),
    Matrix(Tensor<2>),
    Vector(Tensor<1>),
}

impl OnDevice {
    fn register(self, transaction: Transaction) -> Transaction {
        match self {
            OnDevice::Kernel(tensor) => transaction.register(tensor.without_autodiff()),
            OnDevice::Matrix(tensor) => transaction.register(tensor.without_autodiff()),
            OnDevice::Vector(tensor) => transaction.register(tensor.without_autodiff()),
        }
    }
}

impl Slot<'_> {
    fn on_device(self) -> Option<OnDevice> {
        match self {
            Slot::Kernel(param) => Some(OnDevice::Kernel(param.val())),
            Slot::Matrix(param) => Some(OnDevice::Matrix(param.val())),
            Slot::Vector(param) => Some(OnDevice::Vector(param.val())),
            Slot::Running(running) => Some(OnDevice::Vector(running.value())),
            Slot::Counter(_) => None,
        }
    }

    /// The shape in torchvision's layout; draws nothing.
    fn shape(self) -> Vec<usize> {
        match self {
            Slot::Kernel(param) => param.lazy_shape().to_vec(),
            Slot::Matrix(param) => param.lazy_shape().iter().rev().copied().collect(),
            Slot::Vector(param) => param.lazy_shape().to_vec(),
            Slot::Running(running) => running.value().dims().to_vec(),
            Slot::Counter(_) => Vec::new(),
        }
    }

    fn accepts(self, dtype: DType) -> bool {
        match self {
            Slot::Counter(_) => matches!(dtype, DType::I64 | DType::I32),
            _ => matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16),
        }
    }

    fn parameter_id(self) -> Option<ParamId> {
        match self {
            Slot::Kernel(param) => Some(param.id),
            Slot::Matrix(param) => Some(param.id),
            Slot::Vector(param) => Some(param.id),
            Slot::Running(_) | Slot::Counter(_) => None,
        }
    }
}

/// Collects entries in torchvision's order.
struct Entries<'a>(Vec<(String, Slot<'a>)>);

impl<'a> Entries<'a> {
    fn push(&mut self, name: impl Into<String>, slot: Slot<'a>) {
        self.0.push((name.into(), slot));
    }

    fn conv_norm(&mut self, [conv, norm]: [&str; 2], layer: &'a ConvNorm) {
        self.push(format!("{conv}.weight"), Slot::Kernel(&layer.conv.weight));
        self.norm(norm, &layer.norm);
    }

    fn norm(&mut self, name: &str, norm: &'a BatchNorm) {
        self.push(format!("{name}.weight"), Slot::Vector(&norm.weight));
        self.push(format!("{name}.bias"), Slot::Vector(&norm.bias));
        self.push(format!("{name}.running_mean"), Slot::Running(&norm.running_mean));
        self.push(format!("{name}.running_var"), Slot::Running(&norm.running_var));
        let counter = Slot::Counter(&norm.num_batches_tracked);
        self.push(format!("{name}.num_batches_tracked"), counter);
    }

    fn block(&mut self, name: &str, block: &'a Block, downsample: [usize; 2]) {
        for (index, layer) in block.layers.iter().enumerate() {
            let conv = format!("{name}.conv{}", index + 1);
            let norm = format!("{name}.bn{}", index + 1);
            self.conv_norm([&conv, &norm], layer);
        }
        if let Some(shortcut) = &block.downsample {
            let [conv, norm] = downsample.map(|i| format!("{name}.downsample.{i}"));
            self.conv_norm([&conv, &norm], &shortcut.layer);
        }
    }
}

/// Puts values into the parameters they are meant for.
struct Loader {
    values: HashMap<ParamId, TensorData>,
}

impl ModuleMapper for Loader {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        // A running statistic isn't in the map: it was set in place.
        let Some(value) = self.values.remove(&param.id) else {
            return param;
        };
        // `lazy_device` carries the autodiff context, without which the parameter would never train.
        let device = param.lazy_device();
        let tensor = device.memory_persistent_allocations(value, |value| Tensor::from_data(value, &device));
        let id = param.id;
        param.transform_for_load(tensor, id)
    }
}

fn transposed_data(data: TensorData) -> TensorData {
    let &[rows, columns] = data.shape().as_slice() else {
        unreachable!("only matrices are transposed, not {:?}", data.shape());
    };
    let values: Vec<f32> = data.iter().collect();
    TensorData::new(transposed(&values, rows, columns), [columns, rows])
}

/// A row-major matrix of `rows` × `columns`, turned.
pub(crate) fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    assert_eq!(values.len(), rows * columns, "a matrix has rows × columns values");
    let mut turned = Vec::with_capacity(values.len());
    for column in 0..columns {
        turned.extend((0..rows).map(|row| values[row * columns + column]));
    }
    turned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, ResNetConfig};
    use burn::tensor::Device;

    fn narrow(seed: u64, device: &Device) -> ResNet {
        ResNetConfig { width: 8, num_classes: 5, ..ResNetConfig::new(Arch::ResNet18) }.init(seed, device)
    }

    fn state_of(model: &ResNet) -> State {
        model.state().into_iter().collect()
    }

    #[test]
    fn a_loaded_state_comes_out_unchanged_on_every_device() {
        let source = state_of(&narrow(1, &kiln_device::cpu()));
        for (name, device) in kiln_device::parity_devices() {
            let loaded = narrow(2, &device).load_state(&source).expect("the same architecture");
            assert_eq!(state_of(&loaded), source, "{name}");
        }
    }

    #[test]
    fn a_seed_draws_the_same_weights_on_every_device() {
        let expected = narrow(1, &kiln_device::cpu()).state();
        for (name, device) in kiln_device::parity_devices() {
            assert_eq!(narrow(1, &device.autodiff()).state(), expected, "{name}");
        }
    }

    #[test]
    fn loading_keeps_gradients_on_for_parameters_and_off_for_buffers() {
        let device = kiln_device::cpu().autodiff();
        let model = narrow(1, &device);
        let names = model.parameter_names();
        let source = state_of(&narrow(2, &kiln_device::cpu()));
        let model = model.load_state(&source).expect("the same architecture");
        assert_eq!(model.parameter_names(), names);
        for (name, slot) in model.entries() {
            match slot {
                Slot::Kernel(param) => assert!(param.val().is_require_grad(), "{name}"),
                Slot::Matrix(param) => assert!(param.val().is_require_grad(), "{name}"),
                Slot::Vector(param) => assert!(param.val().is_require_grad(), "{name}"),
                Slot::Running(running) => assert!(!running.value().is_autodiff(), "{name}"),
                Slot::Counter(_) => {}
            }
        }
    }

    #[test]
    fn loading_trained_statistics_discards_the_model_s_own() {
        let device = kiln_device::cpu().autodiff();
        let model = narrow(1, &device);
        model.forward(Tensor::ones([2, 3, 32, 32], &device));
        let fresh = state_of(&narrow(1, &device));
        let model = model.load_state(&fresh).expect("the same architecture");
        assert_eq!(state_of(&model), fresh);
    }

    #[test]
    fn every_difference_is_named() {
        let device = kiln_device::cpu();
        let mut state = state_of(&narrow(1, &device));
        state.remove("layer3.1.bn2.bias");
        state.remove("bn1.num_batches_tracked");
        state.insert("head.weight".into(), TensorData::zeros::<f32, _>([1]));
        state.insert("fc.weight".into(), TensorData::zeros::<f32, _>([7, 64]));
        state.insert("bn1.weight".into(), TensorData::zeros::<i64, _>([8]));
        let message = narrow(1, &device).load_state(&state).expect_err("four differences");
        assert_eq!(
            message.to_string(),
            "cannot load these weights into resnet18: \
             2 missing: bn1.num_batches_tracked, layer3.1.bn2.bias; \
             1 unexpected: head.weight; \
             1 of another shape: fc.weight (the model has [5, 64], the weights [7, 64]); \
             1 of another kind: bn1.weight"
        );
    }

    #[test]
    fn half_precision_weights_load_as_f32() {
        let device = kiln_device::cpu();
        let source = state_of(&narrow(1, &device));
        let half: State = source
            .iter()
            .map(|(name, value)| match value.dtype() {
                DType::F32 => (name.clone(), value.clone().convert_dtype(DType::F16)),
                _ => (name.clone(), value.clone()),
            })
            .collect();
        let loaded = state_of(&narrow(2, &device).load_state(&half).expect("floats of any width"));
        assert_eq!(loaded["fc.weight"].dtype(), DType::F32);
        assert_eq!(loaded["fc.weight"], half["fc.weight"].clone().convert::<f32>());
    }

    #[test]
    fn parameters_exclude_buffers() {
        let model = narrow(1, &kiln_device::cpu());
        let values: usize = model.state().iter().map(|(_, value)| value.num_elements()).sum();
        let parameters = model.parameters();
        assert_eq!(parameters.len(), 62);
        assert_eq!(parameters[61].name, "fc.bias");
        assert_eq!(parameters[60].shape, [5, 64]);
        assert!(model.num_parameters() < values);
    }

    #[test]
    fn a_matrix_turns_around_its_diagonal() {
        assert_eq!(transposed(&[1., 2., 3., 4., 5., 6.], 2, 3), [1., 4., 2., 5., 3., 6.]);
    }
}
