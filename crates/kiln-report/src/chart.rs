//! Charts as SVG: curves, a confusion matrix, calibration, and where time went.
//!
//! In: numbers. Out: a [`Figure`], which goes into a page as it is or stands in a file of its own. Charts are as wide as a
//! telephone, so that their text stays readable there; a wider page puts them side by side.
//! Drawn by `plotters` with its SVG backend, without fonts: text is the reader's sans-serif.

mod bars;
mod calibration;
mod confusion;
mod lines;

pub use bars::{Bar, bar_chart};
pub use calibration::calibration_chart;
pub use confusion::confusion_chart;
pub use lines::{Line, LineChart, line_chart};

use crate::error::ReportError;
use crate::ink::{self, Ink};
use plotters::prelude::*;
use plotters::style::TextStyle;

/// Width of every chart, in pixels: a telephone's 390 without margins, and a little more.
pub(crate) const WIDTH: u32 = 400;

/// Size of text in a chart, in pixels.
const TEXT_PX: f64 = 12.5;

/// plotters divides the sizes of text by this when it writes SVG.
const PLOTTERS_TEXT: f64 = 1.24;

/// A chart with what it is called and what its colours mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// What each colour stands for; empty if there is one only.
    pub legend: Vec<(String, Ink)>,
    /// The drawing: an `<svg>` element.
    pub svg: String,
}

impl Figure {
    /// The drawing as a file of its own, which follows the viewer's preference for dark.
    pub fn standalone_svg(&self) -> String {
        let style = format!("<style>{}</style>", ink::dark_style());
        match self.svg.split_once(">\n") {
            Some((head, rest)) => {
                format!("{head}>\n<title>{}</title>{style}\n{rest}", crate::page::escaped(&self.title))
            }
            None => self.svg.clone(),
        }
    }
}

/// A drawing of `height`, and the problem if there is one.
pub(crate) fn draw<E: std::fmt::Display>(
    title: &str,
    height: u32,
    paint: impl FnOnce(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<(), E>,
) -> Result<String, ReportError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let painted = paint(&area).map_err(|error| error.to_string());
        let presented = || area.present().map_err(|error| error.to_string());
        painted
            .and_then(|()| presented())
            .map_err(|problem| ReportError::Chart { title: title.to_owned(), problem })?;
    }
    let label = format!("<svg role=\"img\" aria-label=\"{}\" ", crate::page::escaped(title));
    Ok(svg.replacen("<svg ", &label, 1))
}

/// Text of a chart.
pub(crate) fn text(ink: Ink) -> TextStyle<'static> {
    ("sans-serif", TEXT_PX * PLOTTERS_TEXT).into_font().color(&ink.color())
}

/// `text`, cut off with two dots behind `most` characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain("‥".chars()).collect()
}

/// About how many pixels a text takes.
pub(crate) fn text_width(text: &str) -> u32 {
    (text.chars().count() as f64 * TEXT_PX * 0.66).ceil() as u32
}
