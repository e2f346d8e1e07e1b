//! What was passed over while a data set was opened, so that nothing is lost without a word.

use super::Splits;
use crate::loader::Skipped;

/// A data set, and what is to be said about it.
#[derive(Clone)]
pub struct Opened {
    /// What people call its format.
    pub format: &'static str,
    /// The data set.
    pub splits: Splits,
    /// What was passed over.
    pub findings: Findings,
}

/// What was passed over while a data set was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Files and links that look like samples and can't be any, by their path within the data set.
    pub left_out: Vec<Skipped>,
    /// Sentences about the rest: classes left out, files that are no pictures.
    pub remarks: Vec<String>,
}

impl Findings {
    pub(crate) fn leave_out(&mut self, name: String, reason: impl Into<String>) {
        self.left_out.push(Skipped { name, reason: reason.into() });
    }

    pub(crate) fn remark(&mut self, sentence: impl Into<String>) {
        self.remarks.push(sentence.into());
    }

    /// Tells the log: every remark, and of the files left out the first and their number.
    pub(crate) fn log(&self) {
        for remark in &self.remarks {
            tracing::warn!("{remark}");
        }
        if let Some(Skipped { name, reason }) = self.left_out.first() {
            let num_left_out = self.left_out.len();
            tracing::warn!(num_left_out, first = name, reason, "left out; `kiln inspect` lists them all");
        }
    }
}
