//! Colour jitter: brightness, contrast, saturation and hue changed by random amounts, in random order.
//!
//! Draws: the order, a shuffle of the four; then for those of the four that change anything, as listed here, one
//! uniform value each.
//! Source: torchvision 0.29 `v2.ColorJitter`. Its arithmetic is in the files of the four.

use serde::{Deserialize, Serialize};

use crate::augment::philox::Draws;
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::Program;
use crate::augment::spread::Spread;
use crate::augment::step::{Output, Step, range_problem};

/// Beyond, everything is black or white.
const MAX_FACTOR: f64 = 100.0;

/// Options; by default nothing changes, as in torchvision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ColorJitter {
    /// Factor: at most so far from 1 either way, though not below 0, or lowest and highest.
    pub brightness: Spread,
    /// Factor, likewise.
    pub contrast: Spread,
    /// Factor, likewise.
    pub saturation: Spread,
    /// Turns of the circle of hues, at most 0.5: so many either way, or lowest and highest.
    pub hue: Spread,
}

impl Default for ColorJitter {
    fn default() -> Self {
        Self { brightness: Spread::NONE, contrast: Spread::NONE, saturation: Spread::NONE, hue: Spread::NONE }
    }
}

impl Step for ColorJitter {
    fn problems(&self) -> Vec<String> {
        let factor = |name, spread: Spread| range_problem(name, spread.around_one(), [0.0, MAX_FACTOR]);
        let negative = |name: &str, spread: Spread| match spread {
            Spread::Within(distance) if distance < 0.0 => Some(format!("{name} is {distance}; it can't be below 0")),
            _ => None,
        };
        let [brightness, contrast, saturation] = [self.brightness, self.contrast, self.saturation];
        [("brightness", brightness), ("contrast", contrast), ("saturation", saturation)]
            .into_iter()
            .filter_map(|(name, spread)| negative(name, spread).or_else(|| factor(name, spread)))
            .chain(range_problem("hue", self.hue.around(0.0), [-0.5, 0.5]))
            .collect()
    }

    fn draw(&self, draws: &mut Draws, program: &mut Program, _: &Output) {
        let mut order = [0, 1, 2, 3];
        draws.shuffle(&mut order);
        let mut drawn = |range: [f64; 2], neutral: f64| (range != [neutral; 2]).then(|| draws.uniform_in(range));
        let ops = [
            drawn(self.brightness.around_one(), 1.0).map(|factor| PixelOp::Brightness { factor }),
            drawn(self.contrast.around_one(), 1.0).map(|factor| PixelOp::Contrast { factor }),
            drawn(self.saturation.around_one(), 1.0).map(|factor| PixelOp::Saturation { factor }),
            drawn(self.hue.around(0.0), 0.0).map(|turns| PixelOp::Hue { turns }),
        ];
        order.iter().filter_map(|index: &usize| ops[*index].clone()).for_each(|op| program.push(op));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::tests::drawn_ops;

    fn jitter() -> ColorJitter {
        let (brightness, hue) = (Spread::Within(0.4), Spread::Within(0.1));
        ColorJitter { brightness, contrast: Spread::Between([0.5, 2.0]), saturation: Spread::Within(3.0), hue }
    }

    #[test]
    fn every_order_is_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for sample in 0..10_000 {
            let order: Vec<u32> = drawn_ops(&jitter(), sample).iter().map(|op| op.encode().code).collect();
            *counts.entry(order).or_insert(0u32) += 1;
        }
        // Standard error of a count of 417 among 10,000: 20.
        assert!(counts.len() == 24 && counts.values().all(|count| count.abs_diff(417) < 4 * 20), "{counts:?}");
    }

    #[test]
    fn amounts_are_evenly_spread_over_their_ranges() {
        let mut values = [const { Vec::new() }; 4];
        for sample in 0..10_000 {
            for op in drawn_ops(&jitter(), sample) {
                match op {
                    PixelOp::Brightness { factor } => values[0].push(factor),
                    PixelOp::Contrast { factor } => values[1].push(factor),
                    PixelOp::Saturation { factor } => values[2].push(factor),
                    PixelOp::Hue { turns } => values[3].push(turns),
                    other => panic!("{other:?}"),
                }
            }
        }
        let ranges: [[f64; 2]; 4] = [[0.6, 1.4], [0.5, 2.0], [0.0, 4.0], [-0.1, 0.1]];
        for (index, (values, [low, high])) in values.iter().zip(ranges).enumerate() {
            assert!(values.len() == 10_000 && values.iter().all(|value| (low..high).contains(value)), "{index}");
            let mean = values.iter().sum::<f64>() / 1e4;
            let error = (high - low) / 12f64.sqrt() / 100.0;
            assert!((mean - (low + high) / 2.0).abs() < 4.0 * error, "{index}: mean {mean}");
        }
    }

    #[test]
    fn draws_are_pinned() {
        let ops = drawn_ops(&jitter(), 5);
        assert_eq!(
            format!("{ops:.4?}"),
            "[Hue { turns: 0.0335 }, Saturation { factor: 0.9637 }, Brightness { factor: 0.7881 }, Contrast { factor: 1.5589 }]"
        );
    }

    #[test]
    fn by_default_nothing_changes() {
        assert_eq!(drawn_ops(&ColorJitter::default(), 0), []);
        let hue = ColorJitter { hue: Spread::Within(0.1), ..Default::default() };
        assert!(matches!(drawn_ops(&hue, 0)[..], [PixelOp::Hue { .. }]));
    }

    #[test]
    fn options_out_of_range_are_reported() {
        assert_eq!(jitter().problems(), [""; 0]);
        let bad = ColorJitter {
            brightness: Spread::Within(-0.5),
            contrast: Spread::Between([2.0, 1.0]),
            saturation: Spread::Within(f64::NAN),
            hue: Spread::Within(0.6),
        };
        assert_eq!(bad.problems().len(), 4, "{:?}", bad.problems());
        drawn_ops(&bad, 0);
    }
}
