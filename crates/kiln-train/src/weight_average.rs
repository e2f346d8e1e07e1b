//! Averaged weights: a second set of values beside the model's, on the same device.
//!
//! In: the model after a step. Out: the same model with averaged weights and running statistics, to validate and to save.
//! Which share of the new weights enters is `ema.rs`'s or `swa.rs`'s to say; here it is done. Everything in the model that
//! is a float is averaged, running statistics too; counters of batches are those of the model.
//! Costs one set of weights in memory and one pass over it at each update; nothing waits for the device.
//! Not done here: when to save it (`checkpoint.rs`).

use crate::ema::Ema;
use crate::swa::Swa;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;
use std::collections::HashMap;

/// How weights are averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AverageRule {
    /// Each update keeps most of the average.
    Ema(Ema),
    /// The ends of epochs count alike.
    Swa(Swa),
}

/// The average of a model's weights over its steps.
#[derive(Clone, Debug)]
pub struct WeightAverage {
    rule: AverageRule,
    /// Each float of the model, flattened.
    values: HashMap<ParamId, Tensor<1>>,
}

impl WeightAverage {
    /// An average that nothing has entered yet.
    pub fn new(rule: AverageRule) -> Self {
        Self { rule, values: HashMap::new() }
    }

    /// Takes in the weights of `model` as they are after `step` optimiser steps, counted from 1, if the rule is for steps.
    pub fn after_step<M: Module>(&mut self, step: u64, model: &M) {
        if let AverageRule::Ema(rule) = self.rule {
            self.blend(model, rule.share(step));
        }
    }

    /// Takes in the weights of `model` as they are after `epoch` epochs, counted from 1, if the rule is for epochs.
    pub fn after_epoch<M: Module>(&mut self, epoch: u64, model: &M) {
        if let AverageRule::Swa(rule) = self.rule {
            self.blend(model, rule.share(epoch));
        }
    }

    /// Replaces the average by that share of `model` and the rest of what it was; 1 copies, and so does the first time.
    fn blend<M: Module>(&mut self, model: &M, share: Option<f64>) {
        if let Some(share) = share {
            model.visit(&mut Blend { values: &mut self.values, share });
        }
    }

    /// Whether anything has entered. Until then the average is the model itself.
    pub fn has_begun(&self) -> bool {
        !self.values.is_empty()
    }

    /// `model` with averaged values, without gradients.
    pub fn model<M: Module>(&self, model: &M) -> M {
        model.valid().map(&mut Replace { values: &self.values })
    }

    /// Goes on from an earlier average: `averaged` is the same model holding its values.
    pub fn load<M: Module>(&mut self, averaged: &M) {
        self.values.clear();
        self.blend(averaged, Some(1.0));
    }
}

/// Walks the model and updates the average.
struct Blend<'a> {
    values: &'a mut HashMap<ParamId, Tensor<1>>,
    share: f64,
}

impl ModuleVisitor for Blend<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value: Tensor<1> = param.val().without_autodiff().reshape([-1]);
        let value = match self.values.remove(&param.id) {
            Some(average) if self.share < 1.0 => average.mul_scalar(1.0 - self.share) + value.mul_scalar(self.share),
            _ => value,
        };
        self.values.insert(param.id, value);
    }
}

/// Walks the model and puts the average's values in.
struct Replace<'a> {
    values: &'a HashMap<ParamId, Tensor<1>>,
}

impl ModuleMapper for Replace<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        let value = match self.values.get(&id) {
            Some(average) => average.clone().reshape(tensor.dims()),
            None => tensor,
        };
        Param::from_mapped_value(id, value, mapper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{Golden, tensor_f64};
    use burn::tensor::{Device, TensorData};
    use kiln_model::{Arch, BatchNorm, BatchNormConfig, ResNetConfig};
    use safetensors::SafeTensors;

    /// The float tensors of the golden model: parameters and running statistics.
    const NAMES: [&str; 7] =
        ["bn.bias", "bn.running_mean", "bn.running_var", "bn.weight", "conv.weight", "fc.bias", "fc.weight"];

    /// A module of seven floats, whatever they mean.
    #[derive(Module, Debug)]
    struct Floats {
        values: Vec<Param<Tensor<1>>>,
    }

    impl Floats {
        fn read(file: &SafeTensors<'_>, prefix: &str, ids: &[ParamId], device: &Device) -> Self {
            let value = |(name, id): (&&str, &ParamId)| {
                let values: Vec<f32> =
                    tensor_f64(file, &format!("{prefix}/{name}")).into_iter().map(|v| v as f32).collect();
                let len = values.len();
                Param::initialized(*id, Tensor::from_data(TensorData::new(values, [len]), device))
            };
            Self { values: NAMES.iter().zip(ids).map(value).collect() }
        }
    }

    #[test]
    fn averages_equal_those_of_timm_and_torchvision() {
        let golden = Golden::open();
        let Some(entry) = golden.entry("ema.safetensors") else { return };
        let tolerance: f64 = entry["tolerance"].as_str().and_then(|text| text.parse().ok()).expect("a tolerance");
        let decay = entry["decay"].as_f64().expect("a decay");
        let bytes = golden.bytes("ema.safetensors");
        let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        let device = kiln_device::cpu();
        let ids: Vec<ParamId> = NAMES.iter().map(|_| ParamId::new()).collect();
        let plain = Ema { decay, every: 1, start: 0, warmup: false };
        let kinds = [
            ("tv", plain),
            ("timm_v3", plain),
            ("timm_v3_warmup", Ema { decay: 0.9998, warmup: true, ..plain }),
            ("timm_v3_update_after2", Ema { start: 2, ..plain }),
            ("timm_v2", plain),
        ];
        for (kind, ema) in kinds {
            let mut average = WeightAverage::new(AverageRule::Ema(ema));
            // timm's V2 begins as a copy of the first weights and averages from the first step on.
            let begins_before = kind == "timm_v2";
            if begins_before {
                average.load(&Floats::read(&file, "model/0", &ids, &device));
            }
            for step in 1..=4 {
                let model = Floats::read(&file, &format!("model/{step}"), &ids, &device);
                match begins_before {
                    true => average.blend(&model, Some(1.0 - decay)),
                    false => average.after_step(step, &model),
                }
                let ours = average.model(&model);
                for (name, value) in NAMES.iter().zip(&ours.values) {
                    let want = tensor_f64(&file, &format!("{kind}/after{step}/{name}"));
                    let got = value.val().into_data();
                    for (index, (got, want)) in got.iter::<f64>().zip(&want).enumerate() {
                        let at = format!("{kind} step {step} {name}[{index}]");
                        assert!((got - want).abs() <= tolerance, "{at}: {got}, want {want}");
                    }
                }
            }
        }
    }

    #[test]
    fn running_statistics_are_averaged_and_the_model_keeps_its_own() {
        let device = kiln_device::cpu().autodiff();
        let norm = BatchNormConfig::new(1).init(&device);
        let rule = AverageRule::Swa(Swa { start_epoch: 1 });
        let mut average = WeightAverage::new(rule);
        let mean_of = |norm: &BatchNorm| {
            struct Means(Vec<f32>);
            impl ModuleVisitor for Means {
                fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                    self.0.extend(param.val().into_data().iter::<f32>());
                }
            }
            let mut means = Means(Vec::new());
            norm.visit(&mut means);
            means.0[2]
        };
        let mut means = Vec::new();
        for epoch in 1..=2 {
            norm.forward(Tensor::from_data([[[[0.0f32, 4.0]]]], &device));
            average.after_epoch(epoch, &norm);
            means.push(mean_of(&norm));
        }
        assert_ne!(means[0], means[1]);
        let averaged = mean_of(&average.model(&norm));
        assert!((averaged - (means[0] + means[1]) / 2.0).abs() < 1e-6, "{averaged} of {means:?}");
        assert_eq!(mean_of(&norm), means[1]);
    }

    #[test]
    fn a_saved_average_goes_on_with_the_same_bits() {
        let device = kiln_device::cpu().autodiff();
        let config = ResNetConfig { width: 4, num_classes: 3, ..ResNetConfig::new(Arch::ResNet18) };
        let model = |seed| config.init(seed, &device);
        let rule = AverageRule::Ema(Ema { decay: 0.9, every: 1, start: 0, warmup: false });
        // The same parameters holding other values, as after a step.
        let with_values_of =
            |seed| model(1).load_state(&model(seed).state().into_iter().collect()).expect("one network");
        let first = model(1);
        let later = first.clone().load_state(&with_values_of(2).state().into_iter().collect()).expect("one network");
        let mut average = WeightAverage::new(rule);
        average.after_step(1, &first);
        let saved = average.model(&first).state();
        let mut resumed = WeightAverage::new(rule);
        assert!(!resumed.has_begun());
        resumed.load(&first.clone().load_state(&saved.into_iter().collect()).expect("one network"));
        average.after_step(2, &later);
        resumed.after_step(2, &later);
        let bits = |average: &WeightAverage| {
            let state = average.model(&later).state();
            state.into_iter().map(|(name, data)| (name, data.as_bytes().to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(bits(&average), bits(&resumed));
        let unlike_model = later.state().into_iter().zip(average.model(&later).state());
        assert!(unlike_model.into_iter().any(|((_, model), (_, averaged))| model != averaged));
    }
}
