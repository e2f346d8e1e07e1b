//! Who is taken for whom: a square of cells, rows for the truth, columns for the guess.
//!
//! A cell's strength is its share of the row: every class counts alike, however many pictures it has. The diagonal is blue,
//! mistakes are red. Up to [`MOST_NAMED`] classes have names, up to [`MOST_COUNTED`] their counts; up to [`MOST_CLASSES`]
//! are drawn at all.

use super::{Figure, TEXT_PX, WIDTH, draw, shortened, text, text_width};
use crate::error::ReportError;
use crate::ink::Ink;
use kiln_train::Confused;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Names don't overlap up to here.
const MOST_NAMED: usize = 20;
/// Counts fit into cells up to here.
const MOST_COUNTED: usize = 10;
/// A cell has at least a third of a pixel up to here.
const MOST_CLASSES: usize = 1000;
/// Longest name, in characters.
const NAME_CHARS: usize = 12;

/// Draws the pairs `confused` of `classes`; `None` if there are too many classes, or nothing to count.
///
/// # Errors
/// [`ReportError::Chart`] if it can't be drawn.
pub fn confusion_chart(classes: &[String], confused: &[Confused]) -> Result<Option<Figure>, ReportError> {
    let num = classes.len();
    if num == 0 || num > MOST_CLASSES || confused.is_empty() {
        return Ok(None);
    }
    let mut rows = vec![0u64; num];
    for pair in confused.iter().filter(|pair| pair.truth < num) {
        rows[pair.truth] += pair.count;
    }
    let names: Vec<String> = classes.iter().map(|name| shortened(name, NAME_CHARS)).collect();
    let named = num <= MOST_NAMED;
    let margin = if named { names.iter().map(|name| text_width(name)).max().unwrap_or(0) + 8 } else { 24 } as i32;
    let side = WIDTH as i32 - margin - 6;
    let edge = |index: usize| margin + (index as i64 * i64::from(side) / num as i64) as i32;
    let title = "Who is taken for whom";
    let svg = draw(title, WIDTH, |area| {
        let frame = Rectangle::new([(margin, margin), (margin + side, margin + side)], Ink::Grid.color());
        area.draw(&frame)?;
        for pair in confused.iter().filter(|pair| pair.truth < num && pair.predicted < num) {
            let share = pair.count as f64 / rows[pair.truth].max(1) as f64;
            let ink = if pair.truth == pair.predicted { Ink::Blue } else { Ink::Red };
            let corners = [(edge(pair.predicted), edge(pair.truth)), (edge(pair.predicted + 1), edge(pair.truth + 1))];
            area.draw(&Rectangle::new(corners, ink.color().mix(0.12 + 0.6 * share).filled()))?;
            if num <= MOST_COUNTED {
                let middle = ((corners[0].0 + corners[1].0) / 2, (corners[0].1 + corners[1].1) / 2);
                let style = text(Ink::Text).pos(Pos::new(HPos::Center, VPos::Center));
                area.draw(&Text::new(pair.count.to_string(), middle, style))?;
            }
        }
        for (name, index) in names.iter().zip(0..).filter(|_| named) {
            let middle = (edge(index) + edge(index + 1)) / 2;
            let row = text(Ink::Text).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw(&Text::new(name.clone(), (margin - 6, middle), row))?;
            let column = text(Ink::Text).pos(Pos::new(HPos::Left, VPos::Center));
            let column = column.transform(FontTransform::Rotate270);
            area.draw(&Text::new(name.clone(), (middle + TEXT_PX as i32 / 3, margin - 6), column))?;
        }
        if !named {
            let middle = margin + side / 2;
            let center = text(Ink::Quiet).pos(Pos::new(HPos::Center, VPos::Center));
            area.draw(&Text::new("taken for", (middle, margin / 2), center.clone()))?;
            area.draw(&Text::new("truth", (margin / 2, middle), center.transform(FontTransform::Rotate270)))?;
        }
        Ok::<(), DrawingAreaErrorKind<_>>(())
    })?;
    let legend = vec![("right".to_owned(), Ink::Blue), ("mistaken".to_owned(), Ink::Red)];
    Ok(Some(Figure { title: title.to_owned(), legend, svg }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(num: usize) -> Vec<String> {
        (0..num).map(|index| format!("class number {index}")).collect()
    }

    #[test]
    fn few_classes_have_names_and_counts_and_many_neither() {
        let confused = [Confused { truth: 0, predicted: 0, count: 41 }, Confused { truth: 1, predicted: 0, count: 7 }];
        let few = confusion_chart(&names(3), &confused).expect("drawn").expect("something").svg;
        assert!(few.contains(">\n41\n<") && few.contains("class numbe‥"), "{few}");
        let many = confusion_chart(&names(300), &confused).expect("drawn").expect("something").svg;
        assert!(!many.contains(">\n41\n<") && !many.contains("class numb") && many.contains("taken for"));
        assert_eq!(confusion_chart(&names(1001), &confused).expect("no problem"), None);
        assert_eq!(confusion_chart(&names(3), &[]).expect("no problem"), None);
    }

    #[test]
    fn a_pair_of_classes_that_do_not_exist_is_passed_over() {
        let foreign = [Confused { truth: 9, predicted: 9, count: 1 }];
        confusion_chart(&names(2), &foreign).expect("drawn");
    }
}
