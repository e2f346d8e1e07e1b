//! The report to attach to a bug report: everything the doctor found, without the names of people, machines, programs
//! and folders of their own.

use std::env;

use serde_json::Value;

use super::Diagnosis;
use crate::inventory::bus::text;

impl Diagnosis {
    /// The examination as text and as JSON. The names of the user and the machine are replaced, those of programs on the
    /// GPU left out, and of paths outside the system's folders only the name of a library or manifest is kept.
    pub fn bundle(&self) -> String {
        let scrubber = Scrubber::of_this_process();
        let mut public = self.clone();
        let processes = public.gpus.iter_mut().filter_map(|gpu| gpu.processes.as_mut()).flatten();
        processes.for_each(|process| process.name = None);
        let json = match serde_json::to_value(&public).map(|json| scrubber.scrub_json(json)) {
            Ok(json) => format!("{json:#}"),
            Err(error) => format!("no JSON: {error}"),
        };
        let kernel = text("/proc/version".as_ref()).unwrap_or_default();
        let told = scrubber.scrub(&format!("{kernel}\n\n{public}"));
        format!("kiln {} doctor\n{told}\n{json}\n", env!("CARGO_PKG_VERSION"))
    }
}

/// What names this person and this machine.
struct Scrubber {
    home: Option<String>,
    user: Option<String>,
    host: Option<String>,
}

impl Scrubber {
    fn of_this_process() -> Self {
        let variable = |name| env::var(name).ok();
        Self {
            home: variable("HOME").or_else(|| variable("USERPROFILE")),
            user: variable("USER").or_else(|| variable("LOGNAME")).or_else(|| variable("USERNAME")),
            host: text("/proc/sys/kernel/hostname".as_ref()).or_else(|| variable("COMPUTERNAME")),
        }
    }

    fn scrub_json(&self, json: Value) -> Value {
        match json {
            Value::String(text) => Value::String(self.scrub(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.scrub_json(value)).collect(),
            Value::Object(map) => map.into_iter().map(|(key, value)| (key, self.scrub_json(value))).collect(),
            other => other,
        }
    }

    fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some(home) = self.home.as_ref().filter(|home| home.len() > 1) {
            text = text.replace(home.as_str(), "~");
        }
        for marker in ["/home/", "/Users/", "/media/", "\\Users\\"] {
            text = replace_following(&text, marker);
        }
        // "root" names nobody.
        let user = self.user.as_ref().filter(|user| *user != "root");
        for (name, replacement) in [(user, "<user>"), (self.host.as_ref(), "<host>")] {
            if let Some(name) = name.filter(|name| name.len() > 2) {
                text = replace_word(&text, name, replacement);
            }
        }
        scrub_paths(&text)
    }
}

/// Replaces the path component after each `marker`: a name, which on Windows may have spaces in it.
fn replace_following(text: &str, marker: &str) -> String {
    let mut parts = text.split(marker);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let component = part.find(['/', '\\', '"', ':', ';', ',', '\n']).unwrap_or(part.len());
        let goes_on = part[component..].starts_with(['/', '\\']);
        let end = if goes_on { component } else { part[..component].find(' ').unwrap_or(component) };
        out.push_str(marker);
        out.push_str("<user>");
        out.push_str(&part[end..]);
    }
    out
}

/// Replaces `word`, in whatever case, where it isn't part of a longer one.
fn replace_word(text: &str, word: &str, replacement: &str) -> String {
    let lower = |text: &str| text.to_ascii_lowercase();
    let (haystack, word) = (lower(text), lower(word));
    let joined = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in haystack.match_indices(&word) {
        let end = at + word.len();
        if !joined(text[..at].chars().next_back()) && !joined(text[end..].chars().next()) {
            out.push_str(&text[done..at]);
            out.push_str(replacement);
            done = end;
        }
    }
    out + &text[done..]
}

/// Replaces the paths that don't lie in the system's own folders.
fn scrub_paths(text: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || "\":;,=()'`".contains(c);
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(is_end) {
        let token = piece.trim_end_matches(is_end);
        out.push_str(&private_path(token).unwrap_or_else(|| token.to_owned()));
        out.push_str(&piece[token.len()..]);
    }
    out
}

/// What is told of a path, if it is a private one: at most the name of a library or a manifest.
fn private_path(token: &str) -> Option<String> {
    const SYSTEM: [&str; 16] = [
        "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "nix", "opt", "proc", "run", "sbin", "sys", "tmp", "usr",
        "var",
    ];
    const PUBLIC_FILES: [&str; 5] = [".so", ".dll", ".json", ".h", ".dylib"];
    let root = if token.contains('\\') {
        // The letter of the drive stands before a colon, which ends a token.
        let lower = token.to_ascii_lowercase();
        if ["\\windows", "\\program", "hklm\\"].iter().any(|system| lower.starts_with(system)) {
            return None;
        }
        "\\"
    } else if token.starts_with("~/") {
        "~/"
    } else {
        let first = token.strip_prefix('/')?.split('/').next()?;
        if first.is_empty() || SYSTEM.contains(&first) {
            return None;
        }
        "/"
    };
    let file = token.rsplit(['/', '\\']).next().filter(|name| PUBLIC_FILES.iter().any(|part| name.contains(part)));
    let separator = if root == "\\" { "\\" } else { "/" };
    Some(match file {
        Some(file) => format!("{root}<path>{separator}{file}"),
        None => format!("{root}<path>"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubber(home: &str, user: &str, host: &str) -> Scrubber {
        Scrubber { home: Some(home.to_owned()), user: Some(user.to_owned()), host: Some(host.to_owned()) }
    }

    #[test]
    fn people_machines_and_their_folders_are_not_named() {
        let ada = scrubber("/home/ada", "ada", "lovelace");
        for (text, expected) in [
            ("/home/ada/venv/lib/libnvrtc.so.12 loads", "~/<path>/libnvrtc.so.12 loads"),
            ("LD_LIBRARY_PATH=/home/bob/x:/usr/lib:/data/acme/secret", "LD_LIBRARY_PATH=/<path>:/usr/lib:/<path>"),
            ("on host lovelace, user Ada: adapter", "on host <host>, user <user>: adapter"),
            ("names /mnt/c/Users/Ada Lovelace/icd.json, which", "names /<path>/icd.json, which"),
            ("C:\\Users\\Ada Lovelace\\acme\\nvml.dll", "C:\\<path>\\nvml.dll"),
            ("C:\\Windows\\System32\\nvcuda.dll", "C:\\Windows\\System32\\nvcuda.dll"),
            ("/run/media/ada/stick/kiln", "/run/media/<user>/stick/kiln"),
            ("see https://www.nvidia.com/drivers (I/O)", "see https://www.nvidia.com/drivers (I/O)"),
            ("/usr/share/vulkan/icd.d/lvp_icd.json", "/usr/share/vulkan/icd.d/lvp_icd.json"),
        ] {
            assert_eq!(ada.scrub(text), expected);
        }
        let json = serde_json::json!({"value": "/home/ada/x\ny", "list": ["\"0\""], "number": 1});
        let expected = serde_json::json!({"value": "~/<path>\ny", "list": ["\"0\""], "number": 1});
        assert_eq!(ada.scrub_json(json), expected);
    }

    #[test]
    fn root_and_empty_names_replace_nothing() {
        assert_eq!(scrubber("/", "root", "").scrub("root of all"), "root of all");
    }
}
