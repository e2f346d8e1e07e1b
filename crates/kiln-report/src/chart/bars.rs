//! Where time went: bars that begin where the one before ended.

use super::{Figure, TEXT_PX, WIDTH, draw, shortened, text, text_width};
use crate::error::ReportError;
use crate::ink::Ink;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Height of a bar with its gap.
const ROW: u32 = 28;

/// One part of the whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What it is.
    pub name: String,
    /// Its share in the whole's unit, 0 or more.
    pub value: f64,
    /// How it is written.
    pub label: String,
    /// Its colour.
    pub ink: Ink,
}

/// Draws parts of a whole as a waterfall; `None` if the whole is nothing.
///
/// # Errors
/// [`ReportError::Chart`] if it can't be drawn.
pub fn bar_chart(title: &str, bars: &[Bar]) -> Result<Option<Figure>, ReportError> {
    let total: f64 = bars.iter().map(|bar| bar.value).sum();
    if !(total > 0.0 && total.is_finite()) {
        return Ok(None);
    }
    let names = bars.iter().map(|bar| shortened(&bar.name, 18)).collect::<Vec<_>>();
    let left = names.iter().map(|name| text_width(name)).max().unwrap_or(0) + 8;
    let right = bars.iter().map(|bar| text_width(&bar.label)).max().unwrap_or(0) + 8;
    let across = f64::from(WIDTH.saturating_sub(left + right).max(20));
    let svg = draw(title, ROW * bars.len() as u32 + 8, |area| {
        let mut before = 0.0;
        for ((bar, name), row) in bars.iter().zip(&names).zip(0..) {
            let top = 4 + row * ROW as i32;
            let x = |value: f64| left as i32 + (value / total * across).round() as i32;
            let (from, to) = (x(before), x(before + bar.value).max(x(before) + 1));
            before += bar.value;
            let middle = top + ROW as i32 / 2;
            let at = |horizontal| text(Ink::Text).pos(Pos::new(horizontal, VPos::Center));
            area.draw(&Rectangle::new([(from, top + 4), (to, top + ROW as i32 - 4)], bar.ink.color().filled()))?;
            area.draw(&Text::new(name.clone(), (left as i32 - 8, middle), at(HPos::Right)))?;
            area.draw(&Text::new(bar.label.clone(), (to + TEXT_PX as i32 / 2, middle), at(HPos::Left)))?;
        }
        Ok::<(), DrawingAreaErrorKind<_>>(())
    })?;
    Ok(Some(Figure { title: title.to_owned(), legend: Vec::new(), svg }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bar_begins_where_the_one_before_ended() {
        let bar = |name: &str, value| Bar { name: name.into(), value, label: "x".into(), ink: Ink::Blue };
        let figure = bar_chart("Time", &[bar("a", 1.0), bar("b", 3.0)]).expect("drawn").expect("something");
        let number = |rect: &str, key: &str| -> i32 {
            let value = rect.split(&format!("{key}=\"")).nth(1).and_then(|rest| rest.split('"').next());
            value.expect("an attribute").parse().expect("a number")
        };
        let rects: Vec<&str> = figure.svg.split("<rect ").skip(1).collect();
        let [first, second] = rects[..] else { panic!("two bars in {}", figure.svg) };
        assert!((number(first, "x") + number(first, "width") - number(second, "x")).abs() <= 1);
        assert!((number(second, "width") - 3 * number(first, "width")).abs() <= 6);
        assert_eq!(bar_chart("Time", &[bar("a", 0.0)]).expect("drawn"), None);
    }
}
