//! Fetches a published file of weights: what a person asks for by name, and nothing that happens by itself.
//!
//! In: an entry of a [`PretrainedList`] and a folder. Out: the file there, its SHA-256 compared with the published
//! digits. `https` and `http` are left to curl or wget, in a child process: one of them is on nearly every system (Windows
//! brings curl), it knows the person's proxy and certificates, and Kiln needs no TLS of its own. A `file` address or a
//! folder is copied.
//!
//! The bytes come into `NAME.part`, which a later call goes on with, and which gets its name only when all is there.
//! Not done: more than the published digits of a digest (8 of 64) can tell; who publishes is told by `https`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{ModelError, PretrainedList, PretrainedWeights};

/// A file of weights that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fetched {
    /// Where it is.
    pub path: PathBuf,
    /// Its SHA-256.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
    /// Whether it was there already, and nothing was fetched.
    pub was_there: bool,
}

impl PretrainedList {
    /// Fetches `weights` into `folder`, which is made if it doesn't exist. With `progress`, the program that fetches shows
    /// on standard error how far it is. Takes as long as the network does; a file that is there is only checked.
    ///
    /// # Errors
    /// [`ModelError::Fetch`] with what went wrong and what to do.
    pub fn fetch(&self, weights: &PretrainedWeights, folder: &Path, progress: bool) -> Result<Fetched, ModelError> {
        let path = folder.join(&weights.file);
        let source = Source::of(&self.folder, &weights.file);
        let failed =
            |reason: String, remedy: String| ModelError::Fetch { source_name: source.to_string(), reason, remedy };
        let on_disk = |error: io::Error| failed(format!("{}: {error}", folder.display()), DISK.to_owned());
        if path.exists() {
            let (sha256, bytes) = sha256_of(&path).map_err(on_disk)?;
            if sha256.starts_with(&weights.sha256_begins) {
                return Ok(Fetched { path, sha256, bytes, was_there: true });
            }
            let reason = format!("{} is there and isn't it: {}", path.display(), digests(&sha256, weights));
            return Err(failed(reason, "move it away, or name another folder with --output".to_owned()));
        }
        fs::create_dir_all(folder).map_err(on_disk)?;
        let part = folder.join(format!("{}.part", weights.file));
        let told = |failure: Failure| failed(failure.reason, failure.remedy);
        let fits = |digest: &(String, u64)| digest.0.starts_with(&weights.sha256_begins);
        // Whoever was ended before the name was given left the whole file; what doesn't lead to it is begun anew.
        let (sha256, bytes) = match sha256_of(&part) {
            Ok(digest) if fits(&digest) => digest,
            Ok(_) => match source.get(&part, progress) {
                Ok(digest) if fits(&digest) => digest,
                Err(failure) if !failure.refused => return Err(told(failure)),
                _ => {
                    fs::remove_file(&part).map_err(on_disk).and_then(|()| source.get(&part, progress).map_err(told))?
                }
            },
            Err(_) => source.get(&part, progress).map_err(told)?,
        };
        if !sha256.starts_with(&weights.sha256_begins) {
            let what = if is_page(&part) { "a web page came, as proxies and log-in portals send: " } else { "" };
            fs::remove_file(&part).map_err(on_disk)?;
            let reason = format!("{what}{}; it is removed", digests(&sha256, weights));
            let remedy = format!("try again; if it stays, see {} for what is published now", self.page);
            return Err(failed(reason, remedy));
        }
        OpenOptions::new().append(true).open(&part).and_then(|file| file.sync_all()).map_err(on_disk)?;
        fs::rename(&part, &path).map_err(on_disk)?;
        Ok(Fetched { path, sha256, bytes, was_there: false })
    }
}

/// What to do about a folder that can't be written.
const DISK: &str = "choose a folder that can be written and has room, with --output";

/// Why nothing came.
struct Failure {
    reason: String,
    remedy: String,
    /// Whether the server answered, with an error.
    refused: bool,
}

impl Failure {
    fn new(reason: String, remedy: impl Into<String>) -> Self {
        Self { reason, remedy: remedy.into(), refused: false }
    }
}

/// Where a file comes from.
enum Source {
    Address(String),
    Path(PathBuf),
}

impl Source {
    fn of(folder: &str, file: &str) -> Self {
        if folder.starts_with("https://") || folder.starts_with("http://") {
            return Self::Address(format!("{}/{file}", folder.trim_end_matches('/')));
        }
        Self::Path(Path::new(folder.strip_prefix("file://").unwrap_or(folder)).join(file))
    }

    /// Puts the file, or what is missing of it, into `part`; its SHA-256 and length.
    fn get(&self, part: &Path, progress: bool) -> Result<(String, u64), Failure> {
        match self {
            Self::Address(address) => download(address, part, progress)?,
            Self::Path(path) => {
                let failed = |error: io::Error| Failure::new(error.to_string(), "see if the list's `folder` is right");
                fs::copy(path, part).map_err(failed)?;
            }
        }
        sha256_of(part).map_err(|error| Failure::new(format!("{}: {error}", part.display()), DISK))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => f.write_str(address),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

/// The programs that can fetch, in the order in which they are tried.
const TOOLS: [&str; 2] = ["curl", "wget"];

fn download(address: &str, part: &Path, progress: bool) -> Result<(), Failure> {
    for tool in TOOLS {
        let (reason, refused) = match run(tool, address, part, progress) {
            Ok(Outcome::Done) => return Ok(()),
            Ok(Outcome::Refused(reason)) => (reason, true),
            Ok(Outcome::Failed(reason)) => (reason, false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Failure::new(format!("{tool} does not start: {error}"), "reinstall it")),
        };
        let remedy = "the same command goes on where it ended; where there is no network, fetch the file on another \
                      machine and give it to --weights";
        return Err(Failure { refused, ..Failure::new(format!("{tool} failed: {reason}"), remedy) });
    }
    let remedy = format!("install one of them, or fetch {address} with a browser and give the file to --weights");
    Err(Failure::new("neither curl nor wget is installed".to_owned(), remedy))
}

/// How a tool ended, with its last words.
enum Outcome {
    Done,
    /// The server answered, with an error.
    Refused(String),
    Failed(String),
}

fn run(tool: &str, address: &str, part: &Path, progress: bool) -> io::Result<Outcome> {
    let mut command = Command::new(tool);
    if tool == "curl" {
        // What is slower than 1 kB/s for a minute is dead.
        command.args(["--fail", "--location", "--show-error", "--connect-timeout", "30", "--retry", "3"]);
        command.args(["--speed-limit", "1000", "--speed-time", "60", "--continue-at", "-"]);
        command.arg(if progress { "--progress-bar" } else { "--silent" });
        command.arg("--output").arg(part).args(["--url", address]);
    } else {
        command.args(["--tries=3", "--timeout=60", "--continue"]);
        command.args(if progress { &["--quiet", "--show-progress"][..] } else { &["--no-verbose"] });
        command.arg("--output-document").arg(part).args(["--", address]);
    }
    let stderr = if progress { Stdio::inherit() } else { Stdio::piped() };
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn()?.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).map(str::trim);
    let last = last.map_or_else(|| output.status.to_string(), ToOwned::to_owned);
    // From the manuals: curl's 22 is an answer of 400 and above, 33 and 36 are about going on; wget's 8 is such an answer.
    Ok(match (output.status.code(), tool) {
        (Some(0), _) => Outcome::Done,
        (Some(22 | 33 | 36), "curl") | (Some(8), "wget") => Outcome::Refused(last),
        _ => Outcome::Failed(last),
    })
}

/// SHA-256 in hexadecimal, and the length.
fn sha256_of(path: &Path) -> io::Result<(String, u64)> {
    let (mut file, mut hasher, mut buffer, mut bytes) = (File::open(path)?, Sha256::new(), vec![0; 1 << 16], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => {
                hasher.update(&buffer[..count]);
                bytes += count as u64;
            }
        }
    }
    Ok((hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), bytes))
}

fn digests(found: &str, weights: &PretrainedWeights) -> String {
    format!("its SHA-256 is {found}, and the published one begins with {}", weights.sha256_begins)
}

/// Whether a file begins as HTML does.
fn is_page(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
    read.is_ok() && start.trim_ascii_start().starts_with(b"<")
}

#[cfg(test)]
mod tests;
