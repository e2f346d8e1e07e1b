//! The one sentence at the end: the cause and the fix.

use serde::Serialize;

use super::check::{Check, Status};
use crate::{
    choose::Choice,
    inventory::{Backend, HardwareKind},
};

/// What it comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// What is the matter, or that nothing is.
    pub cause: String,
    /// What to do, if anything.
    pub fix: Option<String>,
    /// Both in one sentence.
    pub sentence: String,
}

/// Warnings that explain a slow or missing GPU, the most telling first; the rest explains nothing.
const TELLING: [&str; 6] =
    ["no_gpu", "no_native_architecture", "on_battery", "held_back", "memory_taken", "library_broken"];

/// The first failure is the cause, since the checks go from the hardware up; without one, the most telling
/// warning.
///
/// `asleep` names a card that sleeps and would be the first choice once training has woken it.
pub(super) fn verdict(checks: &[Check], choice: &Choice, asleep: Option<&str>) -> Verdict {
    let failed = checks.iter().find(|check| check.status == Status::Fail);
    let warned = || TELLING.iter().find_map(|code| checks.iter().find(|check| check.code == Some(code)));
    let used = match asleep {
        Some(card) => format!("training would wake {card} and try it first (`kiln doctor --wake` examines it now)"),
        None => used(choice),
    };
    match failed.or_else(warned) {
        Some(check) => {
            let cause = check.cause.clone();
            let fix = check.remedy.clone();
            let to_do = fix.as_ref().map_or_else(String::new, |fix| format!("; to fix it: {fix}"));
            // A machine without a GPU isn't broken.
            let to_do = if check.code == Some("no_gpu") { String::new() } else { to_do };
            Verdict { sentence: format!("{}, so {used}{to_do}.", capitalised(&cause)), cause, fix }
        }
        None => {
            let cause = "nothing is wrong".to_owned();
            Verdict { sentence: format!("Nothing is wrong: {used}."), cause, fix: None }
        }
    }
}

fn used(choice: &Choice) -> String {
    let chosen = &choice.chosen;
    match (chosen.backend, chosen.kind) {
        (Backend::Cpu, _) => "training would run on the processor".to_owned(),
        (_, HardwareKind::Integrated) => {
            format!("training would run on the integrated GPU, {}, over {}", chosen.name, chosen.api)
        }
        _ => format!("training would run on {} over {}", chosen.name, chosen.api),
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    // A file's name keeps its case.
    let first_word = text.split_whitespace().next().unwrap_or_default();
    if first_word.contains('.') || first_word.contains('/') {
        return text.to_owned();
    }
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
