//! A number of bytes as people write it: `2GiB`, `512 MiB`, `1.5 GB`, `1048576`.
//!
//! In: a number and a unit, both kinds of prefix (`MB` is a million, `MiB` 2^20), upper or lower case; or a whole number of
//! bytes. Out: bytes, written with the largest unit that leaves a whole number.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Units by their names in lower case.
const UNITS: [(&str, f64); 9] = [
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
];

/// From here on an f64 skips whole numbers, and no machine has as much.
const MOST: f64 = (1u64 << 53) as f64;

/// Why a text isn't a number of bytes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} isn't a number of bytes; write it like 2GiB, 512MiB or 1048576")]
pub struct ByteSizeError {
    text: String,
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let trimmed = text.trim();
        let unit_at = trimmed.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(trimmed.len());
        let (number, unit) = (trimmed[..unit_at].trim(), trimmed[unit_at..].to_ascii_lowercase());
        let factor = match unit.as_str() {
            "" => Some(1.0),
            unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor),
        };
        let bytes = number.parse::<f64>().ok().zip(factor).map(|(number, factor)| (number * factor).round());
        match bytes {
            Some(bytes) if (0.0..MOST).contains(&bytes) => Ok(Self(bytes as u64)),
            _ => Err(ByteSizeError { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        match binary.iter().find(|(_, bits)| self.0 > 0 && self.0.trailing_zeros() >= *bits) {
            Some((unit, bits)) => write!(f, "{}{unit}", self.0 >> bits),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber)
    }
}

struct TextOrNumber;

impl Visitor<'_> for TextOrNumber {
    type Value = ByteSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes such as \"2GiB\" or 1048576")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
        Ok(ByteSize(bytes))
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
        u64::try_from(bytes).map(ByteSize).map_err(|_| E::custom(format!("{bytes} bytes are fewer than none")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_units_are_read_and_the_binary_one_is_written() {
        for (text, bytes, written) in [
            ("2GiB", 2 << 30, "2GiB"),
            (" 512 mib ", 512 << 20, "512MiB"),
            ("1.5 GB", 1_500_000_000, "1500000000B"),
            ("0.5KiB", 512, "512B"),
            ("1048576", 1 << 20, "1MiB"),
            ("0", 0, "0B"),
        ] {
            let size: ByteSize = text.parse().expect("a size");
            assert_eq!((size.0, size.to_string().as_str()), (bytes, written), "{text:?}");
            assert_eq!(size.to_string().parse(), Ok(size));
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in ["", "GiB", "2 GiB 3", "-1MiB", "nan", "inf", "1e400", "2G", "99999999TiB", "ä"] {
            let error = text.parse::<ByteSize>().expect_err(text);
            assert!(error.to_string().contains("write it like 2GiB"), "{error}");
        }
    }

    #[test]
    fn a_recipe_may_say_it_in_words_or_in_bytes() {
        let read = |json: &str| serde_json::from_str::<ByteSize>(json).map_err(|error| error.to_string());
        assert_eq!(read("\"1GiB\""), Ok(ByteSize(1 << 30)));
        assert_eq!(read("7"), Ok(ByteSize(7)));
        assert!(read("-7").expect_err("negative").contains("fewer than none"));
        assert!(read("\"much\"").expect_err("no number").contains("\"much\" isn't a number of bytes"));
    }
}
