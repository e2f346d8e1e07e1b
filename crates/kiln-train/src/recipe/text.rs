//! Recipes as text: TOML or JSON, and single settings such as `optimizer.lr=0.5`.
//!
//! In: text. Out: a recipe, or an error with every problem at once: each unknown name with its line and the nearest valid
//! one, each value of another type, each value out of range. And the way back, with every default written out.
//! How all problems are found: every key has a default, so each can be read without the others.

use super::Recipe;
use crate::checkpoint::sha256_hex;
use crate::error::TrainError;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// One key and its value, as a person types them: `optimizer.lr=0.5`.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    path: Vec<String>,
    value: Value,
}

impl FromStr for Setting {
    type Err = String;

    /// Reads `table.key=value`. The value is TOML's; what isn't TOML is taken for a name: `schedule.kind=cosine`.
    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write it as table.key=value, such as optimizer.lr=0.5";
        let (key, value) = text.split_once('=').ok_or_else(|| format!("no = in {text:?}; {example}"))?;
        let path: Vec<String> = key.trim().split('.').map(str::to_owned).collect();
        if path.len() < 2 || path.iter().any(String::is_empty) {
            return Err(format!("{key:?} is not a table and a key; {example}"));
        }
        let parsed = toml::from_str::<Table>(&format!("value = {}", value.trim()));
        let parsed = parsed.ok().filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
        Ok(Self { path, value: parsed.unwrap_or_else(|| Value::String(value.trim().to_owned())) })
    }
}

impl Recipe {
    /// Reads a recipe; keys that aren't given get their default.
    ///
    /// # Errors
    /// [`TrainError::RecipeSyntax`] with the line if it isn't TOML; [`TrainError::InvalidRecipe`] with every problem: unknown
    /// keys with their lines and the nearest valid ones, values of another type or out of range.
    pub fn from_toml(text: &str) -> Result<Self, TrainError> {
        let table: Table = toml::from_str(text).map_err(|error| syntax_error(text, &error))?;
        read(&table, &Lines::of(text))
    }

    /// Reads a recipe of the same form in JSON.
    ///
    /// # Errors
    /// As [`from_toml`](Self::from_toml), without lines.
    pub fn from_json(text: &str) -> Result<Self, TrainError> {
        let table: Table = serde_json::from_str(text)
            .map_err(|error| TrainError::RecipeSyntax { line: Some(error.line()), problem: error.to_string() })?;
        read(&table, &Lines::default())
    }

    /// This recipe with `settings` in place of what it says, the later of two winning.
    ///
    /// # Errors
    /// [`TrainError::InvalidRecipe`] with every problem.
    pub fn with(&self, settings: &[Setting]) -> Result<Self, TrainError> {
        let mut table = Table::try_from(self).map_err(unwritable)?;
        let mut problems = Vec::new();
        for setting in settings {
            problems.extend(set(&mut table, setting).err());
        }
        match read(&table, &Lines::default()) {
            Ok(recipe) if problems.is_empty() => Ok(recipe),
            Err(TrainError::InvalidRecipe { problems: more }) => {
                Err(TrainError::InvalidRecipe { problems: [problems, more].concat() })
            }
            Err(other) => Err(other),
            Ok(_) => Err(TrainError::InvalidRecipe { problems }),
        }
    }

    /// Writes the recipe, every default included.
    ///
    /// # Errors
    /// [`TrainError::InvalidRecipe`] if a number is too large for TOML, which [`validate`](Self::validate) finds too.
    pub fn to_toml(&self) -> Result<String, TrainError> {
        toml::to_string(&self.resolved()).map_err(unwritable)
    }

    /// Writes the recipe as JSON, every default included.
    ///
    /// # Errors
    /// [`TrainError::InvalidRecipe`] if it can't be written, which a valid recipe can.
    pub fn to_json(&self) -> Result<String, TrainError> {
        serde_json::to_string_pretty(&self.resolved()).map_err(unwritable)
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

/// Where things stand in a text: a path such as `augment.train[2]`, and its line from 1.
#[derive(Default)]
struct Lines(BTreeMap<String, usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let mut lines = Self::default();
        if let Ok(table) = DeTable::parse(text) {
            lines.note_table("", table.get_ref(), text);
        }
        lines
    }

    fn note_table(&mut self, prefix: &str, table: &DeTable<'_>, text: &str) {
        for (key, value) in table {
            let path = joined(prefix, key.get_ref());
            self.0.insert(path.clone(), line_at(text, key.span().start));
            match value.get_ref() {
                DeValue::Table(table) => self.note_table(&path, table, text),
                DeValue::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        self.0.insert(format!("{path}[{index}]"), line_at(text, item.span().start));
                    }
                }
                _ => {}
            }
        }
    }

    /// `line 7, augment.train[2]`; the path alone where no line is known.
    fn describe(&self, path: &str) -> String {
        self.0.get(path).map_or_else(|| path.to_owned(), |line| format!("line {line}, {path}"))
    }
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + text.as_bytes()[..byte.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
}

fn joined(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// The recipe of a table, or everything that is wrong with it.
fn read(table: &Table, lines: &Lines) -> Result<Recipe, TrainError> {
    let mut problems = Vec::new();
    let mut readable = Table::new();
    for (name, section) in table {
        let alone = |section: Table| Table::from_iter([(name.clone(), Value::Table(section))]);
        let Value::Table(keys) = section else {
            problems.extend(problem_of(&Table::from_iter([(name.clone(), section.clone())]), name, lines));
            continue;
        };
        if let Some(problem) = problem_of(&alone(Table::new()), name, lines) {
            problems.push(problem);
            continue;
        }
        let mut sound = Table::new();
        for (key, value) in keys {
            let path = joined(name, key);
            let found = problems_of_value(&path, value, lines, |value| alone(Table::from_iter([(key.clone(), value)])));
            if found.is_empty() {
                sound.insert(key.clone(), value.clone());
            }
            problems.extend(found);
        }
        readable.insert(name.clone(), Value::Table(sound));
    }
    // As they stand in the text.
    problems.sort_by_key(|problem: &String| line_of(problem));
    let recipe: Recipe = readable
        .try_into()
        .map_err(|error: toml::de::Error| TrainError::InvalidRecipe { problems: vec![error.message().to_owned()] })?;
    problems.extend(recipe.problems());
    match problems.is_empty() {
        true => Ok(recipe),
        false => Err(TrainError::InvalidRecipe { problems }),
    }
}

/// The line that a problem names; without one it comes last.
fn line_of(problem: &str) -> usize {
    let number = problem.strip_prefix("line ").and_then(|rest| rest.split(',').next()?.parse().ok());
    number.unwrap_or(usize::MAX)
}

/// What is wrong with one value; of a list of tables, with each of them.
fn problems_of_value(path: &str, value: &Value, lines: &Lines, whole: impl Fn(Value) -> Table) -> Vec<String> {
    match value {
        Value::Array(items) if items.iter().any(Value::is_table) => {
            let problem = |(index, item): (usize, &Value)| {
                let table = whole(Value::Array(vec![item.clone()]));
                problem_of(&table, &format!("{path}[{index}]"), lines)
            };
            items.iter().enumerate().filter_map(problem).collect()
        }
        Value::Table(keys) => {
            let alone = |key: &str, value: Value| whole(Value::Table(Table::from_iter([(key.to_owned(), value)])));
            let problem =
                |(key, value): (&String, &Value)| problem_of(&alone(key, value.clone()), &joined(path, key), lines);
            keys.iter().filter_map(problem).collect()
        }
        value => problem_of(&whole(value.clone()), path, lines).into_iter().collect(),
    }
}

/// Why `table` can't be read, if it can't; an unknown name gets the nearest of those that were expected.
fn problem_of(table: &Table, path: &str, lines: &Lines) -> Option<String> {
    let error = Recipe::deserialize(Value::Table(table.clone())).err()?;
    let message = kiln_data::with_nearest_name(&error.message().replace('\n', " "));
    Some(format!("{}: {message}", lines.describe(path)))
}

/// Puts a setting into the table of a recipe.
fn set(table: &mut Table, setting: &Setting) -> Result<(), String> {
    let (key, parents) = setting.path.split_last().ok_or("a setting without a key")?;
    let mut here = table;
    for (depth, parent) in parents.iter().enumerate() {
        let value = here.entry(parent.as_str()).or_insert_with(|| Value::Table(Table::new()));
        let path = setting.path[..=depth].join(".");
        here = value.as_table_mut().ok_or_else(|| format!("{path} is no table; set it as a whole"))?;
    }
    here.insert(key.clone(), setting.value.clone());
    Ok(())
}

fn unwritable(error: impl std::fmt::Display) -> TrainError {
    TrainError::InvalidRecipe { problems: vec![error.to_string()] }
}

/// Turns the parser's error into one line.
fn syntax_error(text: &str, error: &toml::de::Error) -> TrainError {
    let line = error.span().map(|span| line_at(text, span.start));
    TrainError::RecipeSyntax { line, problem: error.message().replace('\n', " ") }
}

type Flat = BTreeMap<String, String>;

/// Every value under its full key.
fn flattened(recipe: &Recipe) -> Flat {
    fn walk(prefix: &str, value: &Value, out: &mut Flat) {
        match value {
            Value::Table(table) => {
                for (key, value) in table {
                    walk(&joined(prefix, key), value, out);
                }
            }
            other => {
                out.insert(prefix.to_owned(), other.to_string());
            }
        }
    }
    let mut flat = Flat::new();
    // A number too large for TOML can't be compared; `validate` refuses it before anyone asks.
    if let Ok(value) = Value::try_from(recipe) {
        walk("", &value, &mut flat);
    }
    flat
}
