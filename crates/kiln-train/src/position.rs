//! How far a run has got: finished epochs, and batches of the one under way.
//!
//! In and out: the name of a checkpoint's folder, whose order by name is the order in time.

use std::fmt;
use std::str::FromStr;

/// How far a run has got. Later positions are larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Finished epochs: trained, validated, written.
    pub epochs: usize,
    /// Batches trained of the epoch after those. All of them, if only the validation is left.
    pub batches: usize,
}

impl Position {
    /// Between two epochs.
    pub fn after_epochs(epochs: usize) -> Self {
        Self { epochs, batches: 0 }
    }
}

/// `epoch-0003` after three epochs, `epoch-0003-step-000120` 120 steps later.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch-{:04}", self.epochs)?;
        if self.batches > 0 {
            write!(f, "-step-{:06}", self.batches)?;
        }
        Ok(())
    }
}

impl FromStr for Position {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let (epochs, batches) = name.split_once("-step-").unwrap_or((name, "0"));
        let epochs = epochs.strip_prefix("epoch-").ok_or(())?;
        let number = |digits: &str| digits.parse().map_err(|_| ());
        Ok(Self { epochs: number(epochs)?, batches: number(batches)? })
    }
}

#[cfg(test)]
mod tests {
    use super::Position;

    #[test]
    fn names_read_back_and_sort_in_time() {
        let positions = [(0, 0), (0, 7), (3, 0), (3, 99), (3, 120), (4, 0)];
        let positions = positions.map(|(epochs, batches)| Position { epochs, batches });
        let names = positions.map(|position| position.to_string());
        assert_eq!(names[4], "epoch-0003-step-000120");
        assert!(names.is_sorted() && positions.is_sorted());
        for (name, position) in names.iter().zip(positions) {
            assert_eq!(name.parse(), Ok(position));
        }
        for other in ["set-aside-epoch-0003", "epoch-", "epoch-1-step-x", ".epoch-0001.tmp"] {
            assert_eq!(other.parse::<Position>(), Err(()), "{other}");
        }
    }
}
