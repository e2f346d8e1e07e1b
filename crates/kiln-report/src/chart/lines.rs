//! Curves over epochs.

use super::{Figure, draw, text};
use crate::error::ReportError;
use crate::ink::Ink;
use plotters::prelude::*;
use std::ops::Range;

/// Up to here every point gets a dot; beyond, dots would merge.
const MOST_DOTS: usize = 40;

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is.
    pub name: String,
    /// Its colour.
    pub ink: Ink,
    /// Epoch, from 1, and value. Values that aren't finite are left out.
    pub points: Vec<(i32, f64)>,
}

/// Curves that share their axes.
pub struct LineChart<'a> {
    /// What they show.
    pub title: &'a str,
    /// The curves.
    pub lines: Vec<Line>,
    /// Lowest and highest value; `None` takes what the curves need.
    pub range: Option<Range<f64>>,
    /// How a value is written at the axis.
    pub label: fn(&f64) -> String,
}

/// Draws curves; `None` if none has a point.
///
/// # Errors
/// [`ReportError::Chart`] if it can't be drawn.
pub fn line_chart(chart: &LineChart<'_>) -> Result<Option<Figure>, ReportError> {
    let finite = |line: &Line| {
        let points = line.points.iter().filter(|(_, value)| value.is_finite()).copied();
        Line { points: points.collect(), ..line.clone() }
    };
    let lines: Vec<Line> = chart.lines.iter().map(finite).filter(|line| !line.points.is_empty()).collect();
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (Some(first), Some(last)) = (all().map(|point| point.0).min(), all().map(|point| point.0).max()) else {
        return Ok(None);
    };
    let range = chart.range.clone().unwrap_or_else(|| range_of(all().map(|point| point.1)));
    let svg = draw(chart.title, 240, |area| {
        let mut plot = ChartBuilder::on(area)
            .margin(6)
            .margin_right(14)
            .x_label_area_size(26)
            .y_label_area_size(50)
            .build_cartesian_2d(first..last.max(first + 1), range)?;
        plot.configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(Ink::Grid.color())
            .axis_style(Ink::Grid.color())
            .label_style(text(Ink::Quiet))
            .x_labels(6)
            .y_labels(5)
            .y_label_formatter(&chart.label)
            .draw()?;
        for line in &lines {
            let color = line.ink.color();
            plot.draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(2)))?;
            if line.points.len() <= MOST_DOTS {
                plot.draw_series(line.points.iter().map(|&point| Circle::new(point, 3, color.filled())))?;
            }
        }
        Ok::<(), DrawingAreaErrorKind<_>>(())
    })?;
    let legend = lines.iter().map(|line| (line.name.clone(), line.ink)).collect();
    Ok(Some(Figure { title: chart.title.to_owned(), legend, svg }))
}

/// From a little below the lowest to a little above the highest value; never empty.
fn range_of(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let margin = if high > low { 0.06 * (high - low) } else { 0.1 * high.abs().max(1e-6) };
    // What can't be negative isn't shown as if it could.
    let bottom = if low >= 0.0 { (low - margin).max(0.0) } else { low - margin };
    bottom..high + margin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(i32, f64)>) -> Option<Figure> {
        let lines = vec![Line { name: "loss".into(), ink: Ink::Blue, points }];
        line_chart(&LineChart { title: "Loss <1>", lines, range: None, label: |v| format!("{v:.1}") }).expect("drawn")
    }

    #[test]
    fn a_curve_has_its_line_its_dots_and_an_escaped_name() {
        let figure = chart(vec![(1, 2.0), (2, f64::NAN), (3, 1.0)]).expect("points");
        assert_eq!(figure.svg.matches("<circle").count(), 2, "the value that is no number is left out");
        assert!(figure.svg.contains("<polyline") && figure.svg.contains("Loss &lt;1&gt;"), "{}", figure.svg);
        assert!(figure.svg.starts_with("<svg ") && figure.svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn one_epoch_is_a_dot_and_none_is_no_chart() {
        assert_eq!(chart(vec![(1, 0.5)]).expect("a point").svg.matches("<circle").count(), 1);
        assert_eq!(chart(vec![(1, f64::NAN)]), None);
        assert_eq!(chart(Vec::new()), None);
    }

    #[test]
    fn equal_values_still_have_a_range() {
        let range = range_of([0.0, 0.0].into_iter());
        assert!(range.start < range.end && range.start == 0.0);
        assert!(range_of([-1.0, 1.0].into_iter()).start < -1.0);
    }
}
