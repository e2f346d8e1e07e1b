//! Pad: pixels added around the image.
//!
//! Source: torchvision 0.29 `v2.Pad`.
//! Differs from torchvision: an image may be padded with its mirror image beyond its own size, which is then mirrored
//! again. Around an image that a step before has turned or sheared every mode is the fill.

use serde::{Deserialize, Serialize};

use crate::augment::geometry::{Border, Fill};
use crate::augment::philox::Draws;
use crate::augment::program::Program;
use crate::augment::step::{Output, Step};

/// Pixels on a side: a resize reads all that is mirrored there.
const MAX_PADDING: u32 = 1024;

/// Pixels to add; in a recipe a number or a list of two or four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Padding {
    /// As many on all sides.
    All(u32),
    /// Left and right, then above and below.
    Sides([u32; 2]),
    /// Left, above, right, below.
    Each([u32; 4]),
}

/// What is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaddingMode {
    /// The fill; in a recipe `zero` means it too.
    #[default]
    #[serde(alias = "zero")]
    Constant,
    /// The outermost pixels again and again.
    Edge,
    /// The image mirrored, without repeating the outermost pixel.
    Reflect,
    /// The image mirrored, the outermost pixel twice.
    Symmetric,
}

/// Options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pad {
    /// Pixels to add; no default.
    pub padding: Padding,
    /// What is added. Default the fill, as in torchvision.
    #[serde(default)]
    pub padding_mode: PaddingMode,
    /// Red, green and blue, 0–255. Default black, as in torchvision.
    #[serde(default)]
    pub fill: [u8; 3],
}

impl Pad {
    /// Adds `padding` black pixels.
    pub fn new(padding: Padding) -> Self {
        Self { padding, padding_mode: PaddingMode::default(), fill: [0; 3] }
    }
}

impl Step for Pad {
    fn problems(&self) -> Vec<String> {
        self.padding.problem().into_iter().collect()
    }

    fn draw(&self, _: &mut Draws, program: &mut Program, _: &Output) {
        let [before, after] = self.padding.before_and_after();
        self.padding_mode.pad(program, before, after, self.fill);
    }
}

impl Padding {
    /// Rows above and columns on the left, then rows below and columns on the right.
    pub(crate) fn before_and_after(self) -> [[u32; 2]; 2] {
        let [left, top, right, bottom] = match self {
            Self::All(side) => [side; 4],
            Self::Sides([x, y]) => [x, y, x, y],
            Self::Each(sides) => sides,
        }
        .map(|side| side.min(MAX_PADDING));
        [[top, left], [bottom, right]]
    }

    /// The problem of the padding, if it is one.
    pub(crate) fn problem(self) -> Option<String> {
        let sides = match self {
            Self::All(side) => vec![side],
            Self::Sides(sides) => sides.to_vec(),
            Self::Each(sides) => sides.to_vec(),
        };
        let possible = sides.iter().all(|side| *side <= MAX_PADDING);
        (!possible).then(|| format!("padding is {sides:?}; at most {MAX_PADDING} pixels a side"))
    }
}

impl PaddingMode {
    /// Adds rows and columns before and after the image.
    pub(crate) fn pad(self, program: &mut Program, before: [u32; 2], after: [u32; 2], fill: [u8; 3]) {
        if before == [0, 0] && after == [0, 0] {
            return;
        }
        let border = match self {
            Self::Constant => None,
            Self::Edge => Some(Border::Edge),
            Self::Reflect => Some(Border::Reflect),
            Self::Symmetric => Some(Border::Symmetric),
        };
        if border.is_none() {
            program.set_fill(Fill::new(Some(fill)));
        }
        program.pad(before, after, border);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(pad: &Pad) -> Program {
        let mut program = Program::new(10, 8);
        pad.draw(&mut Draws::new(0, 0, 0, 0), &mut program, &Output::of_size([1, 1]));
        program
    }

    #[test]
    fn sides_are_those_of_torchvision() {
        let found = |padding| (padded(&Pad::new(padding)).size(), padded(&Pad::new(padding)).source_box());
        assert_eq!(found(Padding::All(2)), ([12, 14], [-2.0, -2.0, 10.0, 12.0]));
        assert_eq!(found(Padding::Sides([1, 3])), ([14, 12], [-3.0, -1.0, 11.0, 11.0]));
        assert_eq!(found(Padding::Each([1, 2, 3, 4])), ([14, 14], [-2.0, -1.0, 12.0, 13.0]));
    }

    #[test]
    fn a_mode_is_a_border_and_a_constant_is_the_fill() {
        let edge = padded(&Pad { padding_mode: PaddingMode::Edge, fill: [9; 3], ..Pad::new(Padding::All(1)) });
        assert!(edge.layers[0].geometry.rows.fold.is_some_and(|(border, _)| border == Border::Edge));
        assert_eq!(edge.layers[0].geometry.fill, Fill::BLACK);
        let constant = padded(&Pad { fill: [9; 3], ..Pad::new(Padding::All(1)) });
        assert_eq!(constant.layers[0].geometry.rows.fold, None);
        assert_eq!(constant.layers[0].geometry.fill.color, [9.0; 3]);
    }

    #[test]
    fn a_recipe_names_one_two_or_four_sides() {
        let read = |json| serde_json::from_str::<Pad>(json).expect("padding");
        assert_eq!(read(r#"{"padding": 4, "padding_mode": "zero"}"#), Pad::new(Padding::All(4)));
        assert_eq!(read(r#"{"padding": [4, 5]}"#).padding, Padding::Sides([4, 5]));
        let reflected = read(r#"{"padding": [1, 2, 3, 4], "padding_mode": "reflect"}"#);
        assert_eq!((reflected.padding, reflected.padding_mode), (Padding::Each([1, 2, 3, 4]), PaddingMode::Reflect));
    }

    #[test]
    fn padding_has_a_limit() {
        assert_eq!(Pad::new(Padding::All(70_000)).problems().len(), 1);
        assert_eq!(Pad::new(Padding::Each([0, 1024, 0, 0])).problems().len(), 0);
        assert_eq!(padded(&Pad::new(Padding::All(u32::MAX))).size(), [8 + 2 * 1024, 10 + 2 * 1024]);
    }
}
