//! Other people's weights put into a model, with a report by name.
//!
//! In: a file, and what to do about its last layer. Out: the model with the file's weights, and what was used.
//! Every tensor is compared by name, shape and type before one is read, so a view that claims a huge shape costs
//! nothing, and nothing is loaded if anything doesn't fit. A last layer for other classes is the exception worth having:
//! it is refused with both lists of classes, or left out on request.
//! Files from before PyTorch 0.4.1 lack `num_batches_tracked`; PyTorch counts from 0 then, and so do we.

use std::fmt;

use burn::tensor::TensorData;

use crate::{Classes, ModelError, ResNet, State, StateMismatch, WeightsFile};

/// Entries of the last layer.
const HEAD: [&str; 2] = ["fc.weight", "fc.bias"];

/// What to take from a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions<'a> {
    /// The key under which the tensors lie, such as `model_ema`; without it the likeliest is taken.
    pub set: Option<&'a str>,
    /// The classes the model is to tell apart, in the order of its outputs, if they have names.
    pub classes: Option<&'a [String]>,
    /// What to do about the last layer.
    pub head: Head,
}

/// What to do about the last layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Head {
    /// It must fit: as many outputs, and the same classes where both sides name theirs.
    #[default]
    MustFit,
    /// The model keeps its own, freshly drawn one.
    Reinit,
}

/// What a file gave to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReport {
    /// The file.
    pub file: String,
    /// The set of tensors that was taken; empty for the file's top level.
    pub set: String,
    /// What was taken off the names, such as `module.`.
    pub prefix: String,
    /// Entries of the model that have the file's values now, in the model's order.
    pub matched: Vec<String>,
    /// Batch counters that the file lacks and that start from 0.
    pub assumed: Vec<String>,
    /// Tensors of the set that weren't used.
    pub unused: Vec<String>,
    /// Other sets of the file.
    pub other_sets: Vec<String>,
    /// Whether the last layer is the model's own.
    pub head: Head,
}

impl ResNet {
    /// Replaces parameters and buffers by those of a file.
    ///
    /// # Errors
    /// [`ModelError::UnreadableWeights`] if there is no such set; [`ModelError::OtherHead`] if only the last layer
    /// doesn't fit and must; [`ModelError::OtherWeights`] listing every name that is missing, unexpected, or of
    /// another shape or kind. Nothing is loaded then.
    pub fn load_weights(self, file: &WeightsFile, options: &LoadOptions<'_>) -> Result<(Self, LoadReport), ModelError> {
        let chosen = file.choose(options.set)?;
        let found = chosen.tensors.iter().map(|(&name, tensor)| (name, tensor.shape(), tensor.dtype()));
        let mut mismatch = self.compare(found);
        let (assumed, missing) = mismatch.missing.into_iter().partition(|name| name.ends_with(".num_batches_tracked"));
        mismatch.missing = missing;
        let head_fits = take_head(&mut mismatch);
        let mut unused: Vec<String> = chosen.foreign.iter().map(|name| name.to_string()).collect();
        if options.head == Head::Reinit {
            unused.extend(HEAD.iter().filter(|name| chosen.tensors.contains_key(*name)).map(|name| name.to_string()));
        }
        let is_used = |name: &str| options.head == Head::MustFit || !HEAD.contains(&name);
        let mut state = State::new();
        if mismatch.is_empty() {
            if options.head == Head::MustFit {
                self.check_head(file, options, head_fits, chosen.tensors.get(HEAD[0]).map(|head| head.shape()))?;
            }
            let used = chosen.tensors.iter().filter(|(name, _)| is_used(name));
            state.extend(used.map(|(name, tensor)| (name.to_string(), file.read(tensor))));
            state.extend(assumed.iter().map(|name: &String| (name.clone(), TensorData::new(vec![0i64], [0usize; 0]))));
        } else {
            let known = self.state_entries().len();
            let matched = known - mismatch.missing.len() - mismatch.misshaped.len() - mismatch.mistyped.len();
            let (file, arch) = (file.name().to_string(), self.config().arch);
            return Err(ModelError::OtherWeights { file, arch, matched, mismatch: Box::new(mismatch) });
        }
        let entries = self.state_entries().into_iter().map(|entry| entry.name);
        let report = LoadReport {
            file: file.name().to_string(),
            set: chosen.set.to_string(),
            prefix: chosen.prefix,
            matched: entries.filter(|name| is_used(name) && !assumed.contains(name)).collect(),
            assumed,
            unused,
            other_sets: file.sets().map(|set| set.name.clone()).filter(|name| name != chosen.set).collect(),
            head: options.head,
        };
        Ok((self.set_values(&state), report))
    }

    /// Refuses a last layer of other classes; `fits` says whether its shapes are the model's.
    fn check_head(
        &self,
        file: &WeightsFile,
        options: &LoadOptions<'_>,
        fits: bool,
        shape: Option<&[usize]>,
    ) -> Result<(), ModelError> {
        let (of_file, of_model) = (file.classes(), options.classes.map(<[String]>::to_vec));
        let other_names = of_file.is_some() && of_model.is_some() && of_file != of_model;
        if fits && !other_names {
            return Ok(());
        }
        let counted = |count: Option<usize>| count.map_or(Classes::None, Classes::Counted);
        Err(ModelError::OtherHead {
            file: file.name().to_string(),
            file_classes: match of_file {
                Some(names) => Classes::Named(names),
                None => counted(shape.and_then(|shape| shape.first().copied())),
            },
            model_classes: of_model.map_or(Classes::Counted(self.config().num_classes), Classes::Named),
        })
    }
}

/// Takes the last layer's entries out of a mismatch; whether there were none.
fn take_head(mismatch: &mut StateMismatch) -> bool {
    let is_head = |name: &String| HEAD.contains(&name.as_str());
    let before = mismatch.missing.len() + mismatch.misshaped.len() + mismatch.mistyped.len();
    mismatch.missing.retain(|name| !is_head(name));
    mismatch.mistyped.retain(|name| !is_head(name));
    mismatch.misshaped.retain(|misshaped| !is_head(&misshaped.name));
    before == mismatch.missing.len() + mismatch.misshaped.len() + mismatch.mistyped.len()
}

impl fmt::Display for LoadReport {
    /// One line: what was taken from where, and what wasn't used.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, set, prefix, matched, assumed, unused, other_sets, head } = self;
        write!(f, "{} tensors of {file}", matched.len())?;
        if !set.is_empty() {
            write!(f, ", from {set:?}")?;
        }
        if !prefix.is_empty() {
            write!(f, ", without the prefix {prefix:?}")?;
        }
        if !assumed.is_empty() {
            write!(f, "; {} batch counters start from 0, as the file has none", assumed.len())?;
        }
        if *head == Head::Reinit {
            write!(f, "; the last layer is drawn anew")?;
        }
        if !unused.is_empty() {
            write!(f, "; not used: {}", unused.join(", "))?;
        }
        if !other_sets.is_empty() {
            write!(f, "; the file also has {}", other_sets.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
