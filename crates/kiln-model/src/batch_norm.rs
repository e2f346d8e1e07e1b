//! Batch normalisation with PyTorch's semantics.
//!
//! In and out: float `[B, C, H, W]`; in 16 bits too, while statistics and arithmetic are f32. On an autodiff device the batch's own statistics normalise and the
//! running ones follow them; on a plain device the running ones normalise.
//! Source: Ioffe and Szegedy, arXiv 1502.03167; `torch.nn.BatchNorm2d` of PyTorch 2.14.
//! Differs from burn's `BatchNorm`: the running variance is the unbiased one (× n/(n-1)), as PyTorch's; an
//! update is visible at once instead of one step late; a clone of a module keeps its own statistics instead
//! of sharing them with the original; batches are counted.
//! Not done: `momentum = None` (a plain average), `track_running_stats = false`.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::module::{
    Content, Devices, Flag, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor, Param, ParamId,
};
use burn::tensor::module::batch_norm_train;
use burn::tensor::{DType, Device, Tensor};

/// Options of a [`BatchNorm`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNormConfig {
    /// Channels, at least 1.
    pub num_features: usize,
    /// Added to the variance. Default 1e-5, PyTorch's.
    pub epsilon: f64,
    /// Share of the newest batch in the running statistics, 0–1. Default 0.1, PyTorch's.
    pub momentum: f64,
}

impl BatchNormConfig {
    /// PyTorch's defaults for that many channels.
    pub const fn new(num_features: usize) -> Self {
        Self { num_features, epsilon: 1e-5, momentum: 0.1 }
    }

    /// Builds the layer: gamma 1, beta 0, running mean 0, running variance 1.
    pub fn init(&self, device: &Device) -> BatchNorm {
        let channels = [self.num_features];
        BatchNorm {
            weight: Param::from_tensor(Tensor::ones(channels, device)),
            bias: Param::from_tensor(Tensor::zeros(channels, device)),
            training: Param::from_bool(true),
            running_mean: RunningTensor::new(Tensor::zeros(channels, device)),
            running_var: RunningTensor::new(Tensor::ones(channels, device)),
            num_batches_tracked: BatchCounter::default(),
            momentum: self.momentum,
            epsilon: self.epsilon,
        }
    }
}

/// Normalises each channel, then scales by `weight` (gamma) and shifts by `bias` (beta).
///
/// `freeze` and `freeze_group` of burn's modules switch it to its running statistics while the rest trains.
#[derive(Module, Debug)]
pub struct BatchNorm {
    pub(crate) weight: Param<Tensor<1>>,
    pub(crate) bias: Param<Tensor<1>>,
    training: Param<Flag>,
    pub(crate) running_mean: RunningTensor,
    pub(crate) running_var: RunningTensor,
    #[module(skip)]
    pub(crate) num_batches_tracked: BatchCounter,
    #[module(skip)]
    momentum: f64,
    #[module(skip)]
    pub(crate) epsilon: f64,
}

impl BatchNorm {
    /// Normalises `input`, in training (autodiff device, not frozen) also updating the running statistics.
    ///
    /// # Shapes
    /// `input` and output: float `[B, C, H, W]`.
    /// # Panics
    /// In training, if a channel holds a single value (`B * H * W == 1`): its variance is undefined. PyTorch
    /// refuses this too; [`validate_batch`](crate::ResNetConfig::validate_batch) tells beforehand.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let dtype = input.dtype();
        let input = input.cast(DType::F32);
        let output = match self.is_training(&input.device()) {
            true => self.forward_train(input),
            false => self.forward_eval(input),
        };
        output.cast(dtype)
    }

    /// Whether a forward pass on `device` trains: it is an autodiff device, and the layer isn't frozen.
    pub(crate) fn is_training(&self, device: &Device) -> bool {
        device.is_autodiff() && self.training.is_enabled()
    }

    fn forward_train(&self, input: Tensor<4>) -> Tensor<4> {
        let [batch, _, height, width] = input.dims();
        let values = batch * height * width;
        assert!(values > 1, "batch norm needs more than {values} value per channel to train");

        let batch_norm = batch_norm_train(input, self.weight.val(), self.bias.val(), self.epsilon);
        let unbiased = values as f64 / (values - 1) as f64;
        self.running_mean.blend(batch_norm.mean, self.momentum, 1.0);
        self.running_var.blend(batch_norm.variance, self.momentum, unbiased);
        self.num_batches_tracked.increment();
        batch_norm.output
    }

    /// One multiplication and one addition per value, after folding the statistics into them: half the
    /// passes over the activation of burn's `batch_norm`, and what PyTorch's CPU kernel does.
    fn forward_eval(&self, input: Tensor<4>) -> Tensor<4> {
        let device = input.device();
        let mean = self.running_mean.value().to_device(&device);
        let var = self.running_var.value().to_device(&device);
        let scale = self.weight.val() / (var + self.epsilon).sqrt();
        let shift = self.bias.val() - mean * scale.clone();
        let channels = [1, scale.dims()[0], 1, 1];
        input * scale.reshape(channels) + shift.reshape(channels)
    }
}

/// A statistic that `forward` updates although it only borrows the module.
///
/// Always a plain tensor, also in a module on an autodiff device: in a computation with tracked tensors it
/// counts as a constant. Visitors and mappers see it as a float parameter that requires no gradient.
pub(crate) struct RunningTensor {
    id: ParamId,
    value: Mutex<Tensor<1>>,
}

impl RunningTensor {
    fn new(value: Tensor<1>) -> Self {
        Self::with_id(ParamId::new(), value)
    }

    fn with_id(id: ParamId, value: Tensor<1>) -> Self {
        Self { id, value: Mutex::new(value.without_autodiff()) }
    }

    pub(crate) fn value(&self) -> Tensor<1> {
        self.lock().clone()
    }

    pub(crate) fn set(&self, value: Tensor<1>) {
        *self.lock() = value.without_autodiff();
    }

    /// `value = (1 - momentum) * value + momentum * factor * observed`.
    fn blend(&self, observed: Tensor<1>, momentum: f64, factor: f64) {
        let mut value = self.lock();
        let observed = observed.without_autodiff().to_device(&value.device());
        *value = value.clone() * (1.0 - momentum) + observed * (momentum * factor);
    }

    /// A panic elsewhere can't leave the tensor half-written, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, Tensor<1>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_value(self) -> Tensor<1> {
        self.value.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for RunningTensor {
    fn clone(&self) -> Self {
        Self::with_id(self.id, self.value())
    }
}

impl fmt::Debug for RunningTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunningTensor({})", self.id)
    }
}

impl Module for RunningTensor {
    fn collect_devices(&self, mut devices: Devices) -> Devices {
        let device = self.lock().device();
        if !devices.contains(&device) {
            devices.push(device);
        }
        devices
    }

    fn fork(self, device: &Device) -> Self {
        self.to_device(device)
    }

    fn to_device(self, device: &Device) -> Self {
        let id = self.id;
        Self::with_id(id, self.into_value().to_device(device))
    }

    fn train(self) -> Self {
        self
    }

    fn valid(&self) -> Self {
        self.clone()
    }

    fn materialize(self) -> Self {
        self
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        visitor.visit_float(&Param::initialized(self.id, self.value()));
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let id = self.id;
        let param = mapper.map_float(Param::initialized(id, self.into_value()));
        Self::with_id(id, param.into_value())
    }
}

impl ModuleDisplayDefault for RunningTensor {
    fn content(&self, content: Content) -> Option<Content> {
        content.add_formatted(&"RunningTensor".to_string()).optional()
    }
}

impl ModuleDisplay for RunningTensor {}

/// PyTorch's `num_batches_tracked`, kept on the host.
#[derive(Debug, Default)]
pub(crate) struct BatchCounter(AtomicI64);

impl BatchCounter {
    pub(crate) fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Clone for BatchCounter {
    fn clone(&self) -> Self {
        Self(AtomicI64::new(self.value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two images of one channel and two pixels: mean 3, biased variance 5, unbiased 20/3.
    fn four_values(device: &Device) -> Tensor<4> {
        Tensor::from_data([[[[0.0f32, 2.0]]], [[[4.0, 6.0]]]], device)
    }

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().try_to_vec().expect("f32")
    }

    fn assert_close(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (index, (a, b)) in found.iter().zip(expected).enumerate() {
            assert!((a - b).abs() < 1e-6, "value {index}: {a} is not {b}");
        }
    }

    #[test]
    fn the_running_variance_is_the_unbiased_one() {
        let device = kiln_device::cpu().autodiff();
        let norm = BatchNormConfig::new(1).init(&device);
        norm.forward(four_values(&device));
        assert_close(&values(norm.running_mean.value()), &[0.1 * 3.0]);
        assert_close(&values(norm.running_var.value()), &[0.9 + 0.1 * 20.0 / 3.0]);
        assert_eq!(norm.num_batches_tracked.value(), 1);
    }

    #[test]
    fn training_normalises_by_the_biased_variance_of_the_batch() {
        let device = kiln_device::cpu().autodiff();
        let norm = BatchNormConfig { epsilon: 0.0, ..BatchNormConfig::new(1) }.init(&device);
        let output = values(norm.forward(four_values(&device)));
        let unit = 1.0 / 5f32.sqrt();
        assert_close(&output, &[-3.0 * unit, -unit, unit, 3.0 * unit]);
    }

    #[test]
    fn evaluation_uses_the_running_statistics_and_leaves_them_alone() {
        let device = kiln_device::cpu();
        let norm = BatchNormConfig { epsilon: 0.0, ..BatchNormConfig::new(1) }.init(&device);
        norm.running_mean.set(Tensor::from_data([1.0f32], &device));
        norm.running_var.set(Tensor::from_data([4.0f32], &device));
        let output = values(norm.forward(four_values(&device)));
        assert_close(&output, &[-0.5, 0.5, 1.5, 2.5]);
        assert_close(&values(norm.running_mean.value()), &[1.0]);
        assert_eq!(norm.num_batches_tracked.value(), 0);
    }

    #[test]
    fn a_frozen_layer_evaluates_on_an_autodiff_device() {
        let device = kiln_device::cpu().autodiff();
        let norm = BatchNormConfig::new(1).init(&device).freeze();
        let output = values(norm.forward(four_values(&device)));
        let scale = 1.0 / 1.00001f32.sqrt();
        assert_close(&output, &[0.0, 2.0 * scale, 4.0 * scale, 6.0 * scale]);
        assert_eq!(norm.num_batches_tracked.value(), 0);
    }

    #[test]
    fn valid_sees_the_last_update_and_training_goes_on_apart() {
        let device = kiln_device::cpu().autodiff();
        let norm = BatchNormConfig::new(1).init(&device);
        norm.forward(four_values(&device));
        let snapshot = norm.valid();
        norm.forward(four_values(&device));
        assert_close(&values(snapshot.running_mean.value()), &[0.3]);
        assert_close(&values(norm.running_mean.value()), &[0.57]);
        assert_eq!((snapshot.num_batches_tracked.value(), norm.num_batches_tracked.value()), (1, 2));
        assert!(!snapshot.weight.val().is_autodiff());
    }

    #[test]
    fn updates_from_another_thread_count_at_once() {
        let device = kiln_device::cpu().autodiff();
        let norm = BatchNormConfig::new(1).init(&device);
        std::thread::scope(|scope| {
            scope.spawn(|| norm.forward(four_values(&device)));
        });
        assert_close(&values(norm.running_mean.value()), &[0.3]);
    }

    #[test]
    #[should_panic(expected = "more than 1 value per channel")]
    fn a_single_value_per_channel_has_no_variance() {
        let device = kiln_device::cpu().autodiff();
        let norm = BatchNormConfig::new(2).init(&device);
        norm.forward(Tensor::ones([1, 2, 1, 1], &device));
    }
}
