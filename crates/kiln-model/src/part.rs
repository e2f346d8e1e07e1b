//! The parts of a network by name, for freezing and for learning rates by depth.
//!
//! In: a parameter's name, as torchvision spells it, or a part's name as a person types it. Out: a [`Part`].

use std::fmt;
use std::str::FromStr;

use burn::module::Module;
use serde::{Deserialize, Serialize};

use crate::{ModelError, ResNet};

/// A part of a network, from the input to the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The first convolutions and their norms.
    Stem,
    /// The first stage.
    Layer1,
    /// The second stage.
    Layer2,
    /// The third stage.
    Layer3,
    /// The fourth stage.
    Layer4,
    /// The last, linear layer.
    Fc,
}

impl Part {
    /// Every part, from the input to the output.
    pub const ALL: [Part; 6] = [Part::Stem, Part::Layer1, Part::Layer2, Part::Layer3, Part::Layer4, Part::Fc];

    /// Everything but the last layer. To freeze it is to train a linear probe.
    pub const BODY: [Part; 5] = [Part::Stem, Part::Layer1, Part::Layer2, Part::Layer3, Part::Layer4];

    /// The part that the parameter or buffer `name` belongs to.
    pub fn of(name: &str) -> Part {
        let first = name.split('.').next().unwrap_or(name);
        Part::ALL.into_iter().find(|part| part.name() == first).unwrap_or(Part::Stem)
    }

    /// torchvision's name of it; `stem` for what comes before `layer1`.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Stem => "stem",
            Part::Layer1 => "layer1",
            Part::Layer2 => "layer2",
            Part::Layer3 => "layer3",
            Part::Layer4 => "layer4",
            Part::Fc => "fc",
        }
    }

    /// Parts between this one and the output: 5 for the stem, 0 for the last layer.
    pub const fn distance_from_output(self) -> usize {
        Part::Fc as usize - self as usize
    }

    /// Reads a list such as `stem,layer1`; `body` stands for everything but `fc`.
    ///
    /// # Errors
    /// [`ModelError::UnknownPart`] with the names there are.
    pub fn list(text: &str) -> Result<Vec<Part>, ModelError> {
        let mut parts = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "body" => parts.extend(Part::BODY),
                name => parts.push(name.parse()?),
            }
        }
        parts.sort_unstable();
        parts.dedup();
        Ok(parts)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Part {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        let found = Part::ALL.into_iter().find(|part| part.name() == name);
        found.ok_or_else(|| ModelError::UnknownPart { name: name.to_string() })
    }
}

impl ResNet {
    /// Stops `parts` from changing: no gradients for their parameters, and their batch norms normalise by their running
    /// statistics, which stay as they are. Loading weights afterwards leaves them frozen.
    pub fn freeze_parts(mut self, parts: &[Part]) -> Self {
        for part in parts {
            match part {
                Part::Stem => self.stem = self.stem.into_iter().map(Module::freeze).collect(),
                Part::Fc => self.fc = self.fc.freeze(),
                stage => {
                    let stage = *stage as usize - Part::Layer1 as usize;
                    let blocks = std::mem::take(&mut self.stages[stage]);
                    self.stages[stage] = blocks.into_iter().map(Module::freeze).collect();
                }
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, ResNetConfig};
    use burn::tensor::Tensor;

    #[test]
    fn names_lead_to_parts() {
        for (name, part) in [
            ("conv1.weight", Part::Stem),
            ("conv1.0.weight", Part::Stem),
            ("bn1.running_mean", Part::Stem),
            ("layer1.0.conv1.weight", Part::Layer1),
            ("layer4.2.bn3.bias", Part::Layer4),
            ("fc.bias", Part::Fc),
        ] {
            assert_eq!(Part::of(name), part, "{name}");
        }
        assert_eq!(Part::Stem.distance_from_output(), 5);
    }

    #[test]
    fn lists_are_read_sorted_and_unknown_names_answered_with_the_known() {
        assert_eq!(Part::list("layer1, stem,stem").expect("two parts"), [Part::Stem, Part::Layer1]);
        assert_eq!(Part::list("body").expect("a body"), Part::BODY);
        let message = Part::list("layer5").expect_err("no such part").to_string();
        assert!(message.contains("layer5") && message.contains("layer4") && message.contains("body"), "{message}");
    }

    #[test]
    fn frozen_parts_have_no_gradients_and_keep_their_statistics() {
        let device = kiln_device::cpu().autodiff();
        let config = ResNetConfig { width: 4, num_classes: 3, ..ResNetConfig::new(Arch::ResNet18) };
        let model = config.init(1, &device).freeze_parts(&[Part::Stem, Part::Layer2]);
        let before = model.state();
        let ramp = Tensor::<1, burn::tensor::Int>::arange(0..2 * 3 * 64 * 64, &device).float();
        let images = (ramp.reshape([2, 3, 64, 64]) * 0.7).sin();
        let loss = model.forward(images).square().sum();
        let mut gradients = burn::optim::GradientsParams::from_grads(loss.backward(), &model);
        for parameter in model.parameters() {
            let trained = match parameter.shape.len() {
                4 => gradients.remove::<4>(parameter.id).is_some(),
                2 => gradients.remove::<2>(parameter.id).is_some(),
                _ => gradients.remove::<1>(parameter.id).is_some(),
            };
            let frozen = matches!(Part::of(&parameter.name), Part::Stem | Part::Layer2);
            assert_eq!(trained, !frozen, "{}", parameter.name);
        }
        for ((name, before), (_, after)) in before.iter().zip(model.state()) {
            let moves = name.contains("running") || name.contains("num_batches");
            let frozen = matches!(Part::of(name), Part::Stem | Part::Layer2);
            assert_eq!(*before != after, moves && !frozen, "{name}");
        }
    }
}
