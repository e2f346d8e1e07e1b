//! The picture of a sweep: the loss over the learning rate, as SVG.

use anyhow::anyhow;
use kiln_train::LrCurve;
use plotters::prelude::*;

/// Width and height in pixels.
const SIZE: (u32, u32) = (800, 500);

/// Higher losses than this many times the first are cut off: they would flatten what is of interest.
const HIGHEST: f64 = 2.0;

/// Draws the losses in grey, the smoothed ones in blue and the suggestion as an upright line.
///
/// # Errors
/// If there are fewer than two points.
pub(super) fn svg(curve: &LrCurve) -> anyhow::Result<String> {
    let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) else {
        return Err(anyhow!("nothing to plot: the first loss was not a number; lower --start-lr"));
    };
    let smoothed = curve.points.iter().map(|point| point.smoothed);
    let lowest = smoothed.clone().fold(f64::INFINITY, f64::min);
    let highest = smoothed.fold(0.0, f64::max).min(HIGHEST * first.smoothed);
    let margin = 0.1 * (highest - lowest).max(1e-3);
    let (bottom, top) = (lowest - margin, highest + margin);
    let mut text = String::new();
    draw(curve, [first.lr, last.lr.max(1.001 * first.lr)], [bottom, top], &mut text)
        .map_err(|error| anyhow!("{error}"))?;
    Ok(text)
}

fn draw(curve: &LrCurve, lr: [f64; 2], loss: [f64; 2], text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(15)
        .x_label_area_size(45)
        .y_label_area_size(60)
        .build_cartesian_2d((lr[0]..lr[1]).log_scale(), loss[0]..loss[1])?;
    let exponent = |lr: &f64| format!("{lr:.0e}");
    chart.configure_mesh().x_desc("learning rate").y_desc("loss").x_label_formatter(&exponent).draw()?;
    let within = |value: f64| value.clamp(loss[0], loss[1]);
    let line =
        |value: fn(&kiln_train::LrPoint) -> f64| curve.points.iter().map(move |point| (point.lr, within(value(point))));
    chart.draw_series(LineSeries::new(line(|point| point.loss), RGBColor(190, 190, 190)))?;
    chart.draw_series(LineSeries::new(line(|point| point.smoothed), RGBColor(30, 90, 180).stroke_width(2)))?;
    if let Some(steepest) = curve.steepest() {
        let upright = loss.map(|loss| (steepest, loss));
        chart.draw_series(LineSeries::new(upright, RGBColor(200, 60, 30)))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_both_lines_the_suggestion_and_named_axes() {
        let mut curve = LrCurve::default();
        for (lr, loss) in [(0.001, 2.3), (0.01, 2.0), (0.1, 1.0), (1.0, 40.0)] {
            curve.push(lr, loss);
        }
        let text = svg(&curve).expect("a plot");
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
        assert!(text.contains("learning rate") && text.contains("loss"));
        assert!(text.matches("<polyline").count() >= 3, "three lines:\n{text}");
        assert!(svg(&LrCurve::default()).is_err());
    }
}
