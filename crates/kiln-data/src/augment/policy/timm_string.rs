//! timm's strings for RandAugment: `rand-m9-mstd0.5-inc1` and the like.
//!
//! Source: timm 1.0 `rand_augment_transform`. Parts stand in any order behind `rand`, divided by dashes:
//!
//! | part | meaning | default |
//! | --- | --- | --- |
//! | `m9` | level of strength | 10 |
//! | `n2` | operations in a row | 2 |
//! | `p0.5`, `prob0.5` | chance that an operation is applied | 0.5 |
//! | `mstd0.5` | standard deviation of the level; above 100 it is uniform from 0 | 0 |
//! | `mmax10` | the highest level that varying reaches | 10 |
//! | `inc1` | operations that grow with the level; `inc0` not | 0 |
//! | `tweights` | timm's set of weights for operations | all equal |
//! | `w0` | the set that timm had before | all equal |
//!
//! Differs from timm: an unknown part is an error, and `inc0` means no, which timm takes for yes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::rand_augment::MAX_OPS;
use crate::augment::step::{chance_problem, range_problem};
use crate::error::DataError;
use crate::nearest_name::nearest_name;

/// What can stand before a number.
const KEYS: [&str; 8] = ["m", "n", "p", "prob", "mstd", "mmax", "inc", "w"];
/// Levels beyond are no stronger.
const MAX_MAGNITUDE: f64 = 1000.0;
/// Above this timm draws levels uniformly.
const MAX_STD: f64 = 100.0;

/// What a string of timm's says.
///
/// ```
/// use kiln_data::TimmRandAugmentConfig;
///
/// let config: TimmRandAugmentConfig = "rand-m9-mstd0.5-inc1".parse()?;
/// assert_eq!((config.magnitude, config.magnitude_std, config.is_increasing), (9.0, 0.5, true));
/// # Ok::<(), kiln_data::DataError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimmRandAugmentConfig {
    /// Level of strength, 0–10 or more.
    pub magnitude: f64,
    /// Operations in a row.
    pub num_ops: u32,
    /// Chance that an operation is applied, 0–1.
    pub probability: f64,
    /// Standard deviation of the level; infinite if it is uniform from 0.
    pub magnitude_std: f64,
    /// The highest level that varying reaches; `None` is 10.
    pub magnitude_max: Option<f64>,
    /// Whether all operations grow stronger with the level.
    pub is_increasing: bool,
    /// How likely each operation is.
    pub weights: TimmWeights,
}

/// timm's weights for operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimmWeights {
    /// All equally likely, drawn with replacement.
    #[default]
    Equal,
    /// `w0`: mostly geometric, neither posterize nor invert, drawn without replacement.
    First,
    /// `tweights`: mostly geometric, drawn without replacement.
    Second,
}

impl Default for TimmRandAugmentConfig {
    fn default() -> Self {
        Self {
            magnitude: 10.0,
            num_ops: 2,
            probability: 0.5,
            magnitude_std: 0.0,
            magnitude_max: None,
            is_increasing: false,
            weights: TimmWeights::Equal,
        }
    }
}

impl TimmRandAugmentConfig {
    /// Every number that can't work, as a sentence.
    pub(super) fn problems(&self) -> Vec<String> {
        let magnitudes = [0.0, MAX_MAGNITUDE];
        let (magnitude, std) = (self.magnitude, self.magnitude_std);
        let most = self.magnitude_max.unwrap_or(0.0);
        let negative = (std.is_nan() || std < 0.0).then(|| format!("mstd is {std}; it can't be below 0"));
        let many = (self.num_ops > MAX_OPS).then(|| format!("n is {}; at most {MAX_OPS} make sense", self.num_ops));
        [
            range_problem("m", [magnitude, magnitude], magnitudes),
            range_problem("mmax", [most, most], magnitudes),
            chance_problem(self.probability),
            negative,
            many,
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Takes over one part of a string.
    fn set(&mut self, part: &str) -> Result<(), String> {
        if part == "tweights" {
            self.weights = TimmWeights::Second;
            return Ok(());
        }
        let key_len = part.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(part.len());
        let (key, value) = part.split_at(key_len);
        if !KEYS.contains(&key) {
            return Err(unknown(part, key));
        }
        let bad = || format!("{value:?} in the part {part:?} is no number that {key} can be");
        let number = || value.parse::<f64>().map_err(|_| bad());
        match key {
            "m" => self.magnitude = number()?,
            "n" => self.num_ops = value.parse().map_err(|_| bad())?,
            "p" | "prob" => self.probability = number()?,
            "mstd" => self.magnitude_std = number().map(|std| if std > MAX_STD { f64::INFINITY } else { std })?,
            "mmax" => self.magnitude_max = Some(number()?),
            "inc" if ["0", "1"].contains(&value) => self.is_increasing = value == "1",
            "w" if value == "0" => self.weights = TimmWeights::First,
            _ => return Err(bad()),
        }
        Ok(())
    }
}

fn unknown(part: &str, key: &str) -> String {
    let nearest = nearest_name(key, KEYS.into_iter().chain(["tweights"]));
    let nearest = nearest.map_or_else(String::new, |name| format!("; did you mean {name:?}?"));
    format!("unknown part {part:?}; known are {} and tweights{nearest}", KEYS.join(", "))
}

impl FromStr for TimmRandAugmentConfig {
    type Err = DataError;

    /// Reads a string.
    ///
    /// # Errors
    /// [`DataError::Config`] with every part that is unknown or has no number.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut config = Self::default();
        let mut parts = text.split('-');
        let first = parts.next().filter(|first| *first != "rand");
        let mut problems: Vec<String> =
            first.map(|first| format!("it begins with {first:?}, not with \"rand\"")).into_iter().collect();
        problems.extend(parts.filter_map(|part| config.set(part).err()));
        problems.extend(config.problems());
        if problems.is_empty() { Ok(config) } else { Err(DataError::Config { what: "RandAugment string", problems }) }
    }
}

impl TryFrom<String> for TimmRandAugmentConfig {
    type Error = DataError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TimmRandAugmentConfig> for String {
    fn from(config: TimmRandAugmentConfig) -> Self {
        config.to_string()
    }
}

impl fmt::Display for TimmRandAugmentConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rand-m{}-n{}-p{}", self.magnitude, self.num_ops, self.probability)?;
        match self.magnitude_std {
            0.0 => {}
            std if std.is_infinite() => write!(f, "-mstd{}", MAX_STD + 1.0)?,
            std => write!(f, "-mstd{std}")?,
        }
        if let Some(most) = self.magnitude_max {
            write!(f, "-mmax{most}")?;
        }
        if self.is_increasing {
            f.write_str("-inc1")?;
        }
        f.write_str(match self.weights {
            TimmWeights::Equal => "",
            TimmWeights::First => "-w0",
            TimmWeights::Second => "-tweights",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> TimmRandAugmentConfig {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn error(text: &str) -> String {
        TimmRandAugmentConfig::from_str(text).expect_err(text).to_string()
    }

    #[test]
    fn published_strings_are_read() {
        let inc = TimmRandAugmentConfig { magnitude: 9.0, magnitude_std: 0.5, is_increasing: true, ..read("rand") };
        assert_eq!(read("rand-m9-mstd0.5-inc1"), inc);
        assert_eq!(read("rand-inc1-mstd0.5-m9"), inc);
        let all = TimmRandAugmentConfig {
            magnitude: 7.0,
            num_ops: 3,
            probability: 0.25,
            magnitude_std: f64::INFINITY,
            magnitude_max: Some(15.0),
            is_increasing: false,
            weights: TimmWeights::Second,
        };
        assert_eq!(read("rand-m7-n3-prob0.25-mstd101-mmax15-inc0-tweights"), all);
        assert_eq!(read("rand-w0").weights, TimmWeights::First);
    }

    #[test]
    fn a_string_reads_back_as_itself() {
        for text in ["rand", "rand-m9-mstd0.5-inc1", "rand-m7-n3-p0.25-mstd101-mmax15-tweights", "rand-m2.5-w0"] {
            assert_eq!(read(&read(text).to_string()), read(text), "{text}");
        }
    }

    #[test]
    fn unknown_parts_are_named() {
        let message = error("rand-m9-msdt0.5-q3");
        assert!(message.contains("unknown part \"msdt0.5\"") && message.contains("did you mean \"mstd\""), "{message}");
        assert!(message.contains("unknown part \"q3\""), "{message}");
        assert!(error("augmix-m5").contains("begins with \"augmix\""));
        assert!(error("").contains("not with \"rand\""));
        assert!(error("rand--m9").contains("unknown part \"\""));
    }

    #[test]
    fn numbers_that_are_none_or_out_of_range_are_named() {
        for (text, part) in [
            ("rand-m", "\"m\""),
            ("rand-n2.5", "\"2.5\""),
            ("rand-inc2", "\"2\""),
            ("rand-w3", "\"3\""),
            ("rand-p1.5", "between 0 and 1"),
            ("rand-n1000", "at most 64"),
            ("rand-m1e9", "m is 1000000000"),
            ("rand-mstd0.5.5", "\"0.5.5\""),
        ] {
            assert!(error(text).contains(part), "{text}: {}", error(text));
        }
    }

    #[test]
    fn numbers_set_from_outside_are_judged_too() {
        let bad = TimmRandAugmentConfig {
            magnitude: f64::NAN,
            num_ops: u32::MAX,
            probability: -1.0,
            magnitude_std: f64::NAN,
            magnitude_max: Some(f64::INFINITY),
            ..Default::default()
        };
        assert_eq!(bad.problems().len(), 5);
    }
}
