//! The colours of charts: each has a value for light pages, which stands in the SVG, and one for dark ones.
//!
//! An SVG by itself is light. `dark_style` repaints it where a page or a viewer prefers dark: its selectors name the
//! values, and a style counts for more than an attribute. Text and lines keep a contrast of 4.5 to their background in both.

use plotters::style::RGBColor;

/// A colour by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Text.
    Text,
    /// Labels of axes.
    Quiet,
    /// Grid and axes.
    Grid,
    /// First series; good.
    Blue,
    /// Second series.
    Orange,
    /// Third series.
    Green,
    /// Fourth series.
    Purple,
    /// Wrong.
    Red,
}

const INKS: [Ink; 8] = [Ink::Text, Ink::Quiet, Ink::Grid, Ink::Blue, Ink::Orange, Ink::Green, Ink::Purple, Ink::Red];

impl Ink {
    /// The values on light and on dark pages.
    fn values(self) -> [[u8; 3]; 2] {
        match self {
            Self::Text => [[31, 35, 40], [230, 237, 243]],
            Self::Quiet => [[89, 99, 110], [145, 152, 161]],
            Self::Grid => [[209, 217, 224], [61, 68, 77]],
            Self::Blue => [[9, 105, 218], [88, 166, 255]],
            Self::Orange => [[188, 76, 0], [240, 136, 62]],
            Self::Green => [[26, 127, 55], [63, 185, 80]],
            Self::Purple => [[130, 80, 223], [188, 140, 255]],
            Self::Red => [[207, 34, 46], [255, 123, 114]],
        }
    }

    /// The value on a light page.
    pub(crate) fn color(self) -> RGBColor {
        let [r, g, b] = self.values()[0];
        RGBColor(r, g, b)
    }

    /// The name of the style class that gives a part of a page this colour.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Quiet => "quiet",
            Self::Grid => "grid",
            Self::Blue => "blue",
            Self::Orange => "orange",
            Self::Green => "green",
            Self::Purple => "purple",
            Self::Red => "red",
        }
    }
}

/// Rules that repaint charts where dark is preferred; they touch nothing outside of an SVG.
pub(crate) fn dark_style() -> String {
    let rule = |ink: Ink| {
        let [light, dark] = ink.values().map(|[r, g, b]| format!("#{r:02X}{g:02X}{b:02X}"));
        format!("svg [fill='{light}']{{fill:{dark}}}svg [stroke='{light}']{{stroke:{dark}}}")
    };
    format!("@media (prefers-color-scheme:dark){{{}}}", INKS.map(rule).concat())
}

/// Style classes that give marks in a page's text the colours of a chart's lines.
pub(crate) fn legend_style() -> String {
    let rule = |ink: Ink, dark: usize| {
        let [r, g, b] = ink.values()[dark];
        format!(".key.{}{{background:rgb({r},{g},{b})}}", ink.class())
    };
    let of = |dark: usize| INKS.map(|ink| rule(ink, dark)).concat();
    format!("{}@media (prefers-color-scheme:dark){{{}}}", of(0), of(1))
}
