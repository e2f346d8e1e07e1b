//! How sure a network is beside how often it is right: on the diagonal it knows what it knows.

use super::{Figure, draw, text};
use crate::error::ReportError;
use crate::ink::Ink;
use kiln_train::ConfidenceLevel;
use plotters::prelude::*;

/// Draws levels of confidence; a dot's area is in proportion to its number of answers. `None` without any.
///
/// # Errors
/// [`ReportError::Chart`] if it can't be drawn.
pub fn calibration_chart(levels: &[ConfidenceLevel]) -> Result<Option<Figure>, ReportError> {
    let Some(most) = levels.iter().map(|level| level.count).max() else { return Ok(None) };
    let title = "How sure, and how often right";
    let svg = draw(title, 280, |area| {
        let mut plot = ChartBuilder::on(area)
            .margin(6)
            .margin_top(14)
            .margin_right(28)
            .x_label_area_size(40)
            .y_label_area_size(50)
            .build_cartesian_2d(0.0..1.0, 0.0..1.0)?;
        let percent = |value: &f64| format!("{:.0} %", 100.0 * value);
        plot.configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(Ink::Grid.color())
            .axis_style(Ink::Grid.color())
            .label_style(text(Ink::Quiet))
            .x_labels(5)
            .y_labels(5)
            .x_label_formatter(&percent)
            .y_label_formatter(&percent)
            .x_desc("how sure")
            .axis_desc_style(text(Ink::Quiet))
            .draw()?;
        plot.draw_series(LineSeries::new([(0.0, 0.0), (1.0, 1.0)], Ink::Quiet.color()))?;
        let points = levels.iter().map(|level| (level.confidence, level.accuracy));
        plot.draw_series(LineSeries::new(points, Ink::Blue.color().stroke_width(2)))?;
        plot.draw_series(levels.iter().map(|level| {
            let radius = 3.0 + 7.0 * (level.count as f64 / most.max(1) as f64).sqrt();
            Circle::new((level.confidence, level.accuracy), radius as i32, Ink::Blue.color().mix(0.7).filled())
        }))?;
        Ok::<(), DrawingAreaErrorKind<_>>(())
    })?;
    let legend = vec![("how often right".to_owned(), Ink::Blue), ("an honest network".to_owned(), Ink::Quiet)];
    Ok(Some(Figure { title: title.to_owned(), legend, svg }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_a_dot_and_none_is_no_chart() {
        let level = |confidence, count| ConfidenceLevel { count, confidence, accuracy: confidence };
        let figure = calibration_chart(&[level(0.3, 4), level(0.9, 40)]).expect("drawn").expect("something");
        assert_eq!(figure.svg.matches("<circle").count(), 2);
        assert_eq!(calibration_chart(&[]).expect("no problem"), None);
    }
}
