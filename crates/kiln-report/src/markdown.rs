//! A report as Markdown: what a pull request or a notebook takes.

use crate::run::Run;
use crate::summary::{EPOCH_HEAD, epoch_rows, key_figures, progress, start_rows, time_parts};
use crate::write::{duration, percent};

/// The report of one run.
pub(crate) fn report(run: &Run) -> String {
    let mut text = format!("# {}\n\n{}.\n", run.name(), progress(run));
    text += &table(
        &["figure", "value"],
        &key_figures(run).into_iter().map(|(value, what)| vec![what, value]).collect::<Vec<_>>(),
    );
    for start in &run.starts {
        text += &format!("\n## What ran on what, and why\n{}", table(&["", ""], &start_rows(start)));
    }
    let parts = time_parts(run).into_iter().filter(|part| part.1 > 0.0);
    let parts: Vec<_> = parts.map(|(name, secs)| vec![name, duration(secs)]).collect();
    if !parts.is_empty() {
        text += &format!("\n## Where the time went\n{}", table(&["part", "time"], &parts));
    }
    if let Some(saved) = &run.evaluation {
        let found = &saved.evaluation;
        let figures = [
            ("top-1", percent(found.top1)),
            ("top-5", percent(found.top5)),
            ("loss", format!("{:.4}", found.loss)),
            ("mean F1", percent(found.f1_macro)),
            ("calibration error", percent(found.ece)),
        ];
        let figures: Vec<_> = figures.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        text += &format!("\n## Evaluation of {} pictures\n{}", found.num_images, table(&["figure", "value"], &figures));
        text +=
            &format!("\n{}", table(&["class", "pictures", "precision", "recall", "F1"], &saved.classes()).trim_start());
        if !saved.mistakes().is_empty() {
            text += &format!("\n{}", table(&["of class", "taken for", "pictures"], &saved.mistakes()).trim_start());
        }
    }
    if !run.epochs.is_empty() {
        text += &format!("\n## Epochs\n{}", table(&EPOCH_HEAD, &epoch_rows(&run.epochs)));
    }
    if let Some(recipe) = run.recipe.as_ref().and_then(|recipe| recipe.to_toml().ok()) {
        text += &format!("\n## Recipe\n\n```toml\n{}\n```\n", recipe.trim_end());
    }
    text
}

/// A table, with an empty line before it; nothing without rows.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let escaped =
        |text: &String| text.replace('\\', "\\\\").replace('|', "\\|").replace('\n', " ").replace('<', "&lt;");
    let head: Vec<String> = head.iter().map(|text| text.to_string()).collect();
    let rule = line(vec!["---".to_owned(); head.len()]);
    let rows = rows.iter().map(|row| line(row.iter().map(escaped).collect()));
    format!("\n{}{rule}{}", line(head), rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn a_name_with_a_bar_stays_in_its_cell() {
        let text = table(&["class", "n"], &[vec!["a|b".into(), "1".into()]]);
        assert_eq!(text, "\n| class | n |\n| --- | --- |\n| a\\|b | 1 |\n");
        assert_eq!(table(&["class"], &[]), "");
    }
}
