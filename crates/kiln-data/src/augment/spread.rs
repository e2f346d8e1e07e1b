//! Spread: the range that a value is drawn from; in a recipe one number, or a list of two.
//!
//! Source: torchvision 0.29, which takes `degrees`, `brightness` and the like in both forms.

use serde::{Deserialize, Serialize};

/// How far a value is drawn from the one that changes nothing, or its range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Spread {
    /// At most this far in either direction.
    Within(f64),
    /// From the lowest to the highest.
    Between([f64; 2]),
}

impl Spread {
    /// Draws nothing but the value that changes nothing.
    pub(crate) const NONE: Self = Self::Within(0.0);

    /// Lowest and highest value around `neutral`.
    pub(crate) fn around(self, neutral: f64) -> [f64; 2] {
        match self {
            Self::Within(distance) => [neutral - distance, neutral + distance],
            Self::Between(range) => range,
        }
    }

    /// The same for a factor, which isn't below 0.
    pub(crate) fn around_one(self) -> [f64; 2] {
        match self {
            Self::Within(distance) => [(1.0 - distance).max(0.0), 1.0 + distance],
            Self::Between(range) => range,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_is_a_range_around_what_changes_nothing() {
        assert_eq!(Spread::Within(15.0).around(0.0), [-15.0, 15.0]);
        assert_eq!(Spread::Within(0.25).around_one(), [0.75, 1.25]);
        assert_eq!(Spread::Within(1.5).around_one(), [0.0, 2.5]);
        assert_eq!(Spread::Between([0.5, 3.0]).around_one(), [0.5, 3.0]);
    }

    #[test]
    fn a_recipe_names_one_number_or_two() {
        let read = |json| serde_json::from_str::<Spread>(json).expect("a spread");
        assert_eq!(read("30"), Spread::Within(30.0));
        assert_eq!(read("[-5, 0.5]"), Spread::Between([-5.0, 0.5]));
    }
}
