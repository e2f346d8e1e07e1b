//! One check: what was looked at, what was found, why it matters and what to do.

use std::cmp::Reverse;

use serde::Serialize;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// It didn't apply, or an earlier finding made it pointless.
    Skip,
    /// Training works, and not as well as it could.
    Warn,
    /// It keeps a GPU from being used.
    Fail,
}

/// One line of the examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Check {
    /// Name for programs; stable.
    pub id: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// How it ended.
    pub status: Status,
    /// Name of the finding for programs, for [`Status::Warn`] and [`Status::Fail`]; stable.
    pub code: Option<&'static str>,
    /// What was found.
    pub found: String,
    /// The part of it that decided, for the verdict.
    #[serde(skip)]
    pub(super) cause: String,
    /// Why it matters.
    pub why: &'static str,
    /// What to do, one thing.
    pub remedy: Option<String>,
}

/// What a check is about; its findings are made from it.
pub(super) struct Topic {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) why: &'static str,
}

impl Topic {
    pub(super) fn ok(&self, found: impl Into<String>) -> Check {
        self.check(Status::Ok, None, found.into())
    }

    pub(super) fn skip(&self, found: impl Into<String>) -> Check {
        self.check(Status::Skip, None, found.into())
    }

    pub(super) fn warn(&self, code: &'static str, found: impl Into<String>) -> Check {
        self.check(Status::Warn, Some(code), found.into())
    }

    pub(super) fn fail(&self, code: &'static str, found: impl Into<String>) -> Check {
        self.check(Status::Fail, Some(code), found.into())
    }

    fn check(&self, status: Status, code: Option<&'static str>, found: String) -> Check {
        let cause = found.clone();
        Check { id: self.id, title: self.title, status, code, found, cause, why: self.why, remedy: None }
    }
}

impl Check {
    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// The worst of several findings about one topic. All are told, the worst first, and the remedy is that one's.
pub(super) fn worst(topic: &Topic, mut checks: Vec<Check>) -> Check {
    // Stable: of equals, the first stays the first.
    checks.sort_by_key(|check| Reverse(check.status));
    let found: Vec<String> = checks.iter().map(|check| check.found.clone()).collect();
    match checks.into_iter().next() {
        Some(worst) => Check { found: found.join("; "), ..worst },
        None => topic.skip("nothing to look at"),
    }
}
