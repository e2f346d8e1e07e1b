//! How answers are written: a table, JSON lines, or comma-separated values (RFC 4180).

use kiln_train::{Guess, TrainedModel};
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Longer names move their line's classes to the right instead of everybody's.
const MOST_NAME_CHARS: usize = 48;

/// Writes answers.
pub(super) struct Form<'a> {
    model: &'a TrainedModel,
    kind: Kind,
}

enum Kind {
    Table { name_chars: usize },
    Json,
    Csv { has_header: bool },
}

impl<'a> Form<'a> {
    /// A line a picture, for people.
    pub(super) fn table(model: &'a TrainedModel, files: &[PathBuf]) -> Self {
        let chars = files.iter().map(|file| file.display().to_string().chars().count());
        Self { model, kind: Kind::Table { name_chars: chars.max().unwrap_or(0).min(MOST_NAME_CHARS) } }
    }

    /// A JSON object a picture and line.
    pub(super) fn json(model: &'a TrainedModel) -> Self {
        Self { model, kind: Kind::Json }
    }

    /// A line a picture and class.
    pub(super) fn csv(model: &'a TrainedModel) -> Self {
        Self { model, kind: Kind::Csv { has_header: false } }
    }

    /// Writes a picture's answer.
    pub(super) fn answered(&mut self, out: &mut impl Write, file: &Path, top: &[Guess]) -> io::Result<()> {
        self.header(out)?;
        let file = file.display().to_string();
        match self.kind {
            Kind::Table { name_chars } => {
                let guess =
                    |guess: &Guess| format!("{} {:.1} %", self.model.class(guess.class), 100.0 * guess.probability);
                let guesses: Vec<_> = top.iter().map(guess).collect();
                writeln!(out, "{file:name_chars$}  {}", guesses.join("   "))
            }
            Kind::Json => {
                let guess = |guess: &Guess| {
                    json!({
                        "class": self.model.class(guess.class),
                        "index": guess.class,
                        "probability": guess.probability,
                    })
                };
                let predictions: Vec<_> = top.iter().map(guess).collect();
                writeln!(out, "{}", json!({ "file": file, "predictions": predictions }))
            }
            Kind::Csv { .. } => top.iter().zip(1..).try_for_each(|(guess, rank)| {
                let (file, class) = (quoted(&file), quoted(&self.model.class(guess.class)));
                writeln!(out, "{file},{rank},{class},{},{},", guess.class, guess.probability)
            }),
        }
    }

    /// Writes that a file couldn't be used; for people on standard error, apart from the answers.
    pub(super) fn unreadable(&mut self, out: &mut impl Write, file: &Path, reason: &str) -> io::Result<()> {
        self.header(out)?;
        let file = file.display().to_string();
        match self.kind {
            Kind::Table { .. } => {}
            Kind::Json => writeln!(out, "{}", json!({ "file": file, "error": reason }))?,
            Kind::Csv { .. } => writeln!(out, "{},,,,,{}", quoted(&file), quoted(reason))?,
        }
        eprintln!("unreadable  {file}: {reason}");
        Ok(())
    }

    fn header(&mut self, out: &mut impl Write) -> io::Result<()> {
        if let Kind::Csv { has_header } = &mut self.kind
            && !std::mem::replace(has_header, true)
        {
            writeln!(out, "file,rank,class,index,probability,error")?;
        }
        Ok(())
    }
}

/// A field of comma-separated values.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
