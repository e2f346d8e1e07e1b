//! The report to attach to a bug report: everything the doctor found, without the names of people and machines.

use std::env;

use super::Diagnosis;
use crate::inventory::bus::text;

impl Diagnosis {
    /// The examination as text and as JSON, with the user's name, home folder and the machine's name replaced.
    pub fn bundle(&self) -> String {
        let json = serde_json::to_string_pretty(self).unwrap_or_else(|error| format!("no JSON: {error}"));
        let kernel = text("/proc/version".as_ref()).unwrap_or_default();
        let bundle = format!("kiln {} doctor\n{kernel}\n\n{self}\n{json}\n", env!("CARGO_PKG_VERSION"));
        let variable = |name| env::var(name).ok();
        let host = text("/proc/sys/kernel/hostname".as_ref()).or_else(|| variable("COMPUTERNAME"));
        let home = variable("HOME").or_else(|| variable("USERPROFILE"));
        let user = variable("USER").or_else(|| variable("LOGNAME")).or_else(|| variable("USERNAME"));
        scrub(&bundle, home.as_deref(), user.as_deref(), host.as_deref())
    }
}

/// Replaces a home folder by `~`, anyone's folder below `/home` and `\Users` by one of no name, and the names of
/// the user and the machine by what they are.
fn scrub(text: &str, home: Option<&str>, user: Option<&str>, host: Option<&str>) -> String {
    let mut text = text.to_owned();
    if let Some(home) = home.filter(|home| home.len() > 1) {
        text = text.replace(home, "~");
        // As JSON writes it.
        text = text.replace(&home.replace('\\', "\\\\"), "~");
    }
    for marker in ["/home/", "/Users/", "\\Users\\", "\\\\Users\\\\"] {
        text = replace_following(&text, marker);
    }
    // "root" names nobody.
    for (name, replacement) in [(user.filter(|user| *user != "root"), "<user>"), (host, "<host>")] {
        if let Some(name) = name.filter(|name| name.len() > 2) {
            text = replace_word(&text, name, replacement);
        }
    }
    text
}

/// Replaces the path component after each `marker`.
fn replace_following(text: &str, marker: &str) -> String {
    let mut parts = text.split(marker);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| "/\\\":; \n".contains(c)).unwrap_or(part.len());
        out.push_str(marker);
        out.push_str("<user>");
        out.push_str(&part[end..]);
    }
    out
}

/// Replaces `word` where it isn't part of a longer one.
fn replace_word(text: &str, word: &str, replacement: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let joined = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        out.push_str(before);
        let whole = !joined(before.chars().next_back()) && !joined(after.chars().next());
        out.push_str(if whole { replacement } else { word });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_machines_are_not_named() {
        let text = "/home/ada/venv/lib; /home/bob/x; host lovelace: ada adapter C:\\Users\\Ada\\kiln";
        let scrubbed = scrub(text, Some("/home/ada"), Some("ada"), Some("lovelace"));
        assert_eq!(scrubbed, "~/venv/lib; /home/<user>/x; host <host>: <user> adapter C:\\Users\\<user>\\kiln");
    }

    #[test]
    fn root_and_empty_names_replace_nothing() {
        assert_eq!(scrub("root of all", Some("/"), Some("root"), Some("")), "root of all");
    }
}
