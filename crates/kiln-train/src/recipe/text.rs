//! Recipes as TOML text.
//!
//! In: text. Out: a recipe, or an error with the line and, for a name that doesn't exist, the nearest one that does; and
//! the way back, with every default written out.

use super::Recipe;
use crate::checkpoint::sha256_hex;
use crate::error::TrainError;
use std::collections::{BTreeMap, BTreeSet};

impl Recipe {
    /// Reads a recipe; keys that aren't given get their default.
    ///
    /// # Errors
    /// [`TrainError::RecipeSyntax`] with the line, and for an unknown key the nearest valid one;
    /// [`TrainError::InvalidRecipe`] if values are out of range.
    pub fn from_toml(text: &str) -> Result<Self, TrainError> {
        let recipe: Self = toml::from_str(text).map_err(|error| syntax_error(text, &error))?;
        recipe.validate()?;
        Ok(recipe)
    }

    /// Writes the recipe, every default included.
    ///
    /// # Errors
    /// [`TrainError::InvalidRecipe`] if a number is too large for TOML, which [`validate`](Self::validate) finds too.
    pub fn to_toml(&self) -> Result<String, TrainError> {
        toml::to_string(&self.resolved())
            .map_err(|error| TrainError::InvalidRecipe { problems: vec![error.to_string()] })
    }

    /// SHA-256 of the resolved recipe's text, in hexadecimal digits: two runs with the same have the same recipe.
    pub fn sha256(&self) -> String {
        sha256_hex(self.to_toml().unwrap_or_default().as_bytes())
    }

    /// The recipe with every default written out, the augmentations' too.
    pub fn resolved(&self) -> Self {
        let mut resolved = self.clone();
        resolved.augment.train = Some(self.augment.training().steps);
        resolved.augment.val = Some(self.augment.validation().steps);
        resolved.augment.val_image_size = self.augment.val_size();
        resolved.data.val_batch_size = self.data.val_batch();
        resolved.optimizer.eps = Some(self.optimizer.epsilon());
        resolved.optimizer.clip_grad_norm = self.optimizer.max_grad_norm().unwrap_or(0.0);
        resolved.model.stem = Some(self.model.resnet(1).stem);
        resolved
    }

    /// Keys whose values differ, as `key: this recipe's value, not the other's`.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let (ours, theirs) = (flattened(&self.resolved()), flattened(&other.resolved()));
        let keys: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        let value = |of: &Flat, key: &str| of.get(key).cloned().unwrap_or_else(|| "unset".into());
        let differing = keys.into_iter().filter(|key| ours.get(*key) != theirs.get(*key));
        differing.map(|key| format!("{key}: {}, not {}", value(&ours, key), value(&theirs, key))).collect()
    }
}

/// Turns the parser's error into one line; an unknown name gets the nearest of the names that were expected.
fn syntax_error(text: &str, error: &toml::de::Error) -> TrainError {
    let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    let problem = error.message().replace('\n', " ");
    let problem = kiln_data::with_nearest_name(&problem);
    TrainError::RecipeSyntax { line, problem }
}

type Flat = BTreeMap<String, String>;

/// Every value under its full key.
fn flattened(recipe: &Recipe) -> Flat {
    fn walk(prefix: &str, value: &toml::Value, out: &mut Flat) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    walk(&key, value, out);
                }
            }
            other => {
                out.insert(prefix.to_owned(), other.to_string());
            }
        }
    }
    let mut flat = Flat::new();
    // A number too large for TOML can't be compared; `validate` refuses it before anyone asks.
    if let Ok(value) = toml::Value::try_from(recipe) {
        walk("", &value, &mut flat);
    }
    flat
}
