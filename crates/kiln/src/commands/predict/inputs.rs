//! What a person points at, as a list of files.
//!
//! In: files, folders, patterns, `-`. Out: files in the order given, each folder's and pattern's sorted. A name that exists
//! is taken as it is, even if it looks like a pattern. A file that isn't there stays in the list, to be named with the rest.

use anyhow::{Context, ensure};
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// The files behind `inputs`.
pub(super) fn files(inputs: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for input in inputs {
        if input.as_os_str() == "-" {
            for line in listed(std::io::stdin().lock())? {
                expand(&line, &mut files)?;
            }
        } else {
            expand(input, &mut files)?;
        }
    }
    ensure!(!files.is_empty(), "there is no file to predict: standard input lists none");
    Ok(files)
}

/// One path a line; empty lines don't count.
fn listed(text: impl BufRead) -> anyhow::Result<Vec<PathBuf>> {
    let lines: Result<Vec<_>, _> = text.lines().collect();
    let lines = lines.context("cannot read the list of files on standard input")?;
    Ok(lines
        .iter()
        .map(|line| line.trim_end_matches('\r'))
        .filter(|line| !line.is_empty())
        .map(PathBuf::from)
        .collect())
}

fn expand(input: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if input.is_dir() {
        let found = kiln_data::picture_files(input)?;
        ensure!(!found.is_empty(), "no pictures in {} or below it", input.display());
        files.extend(found);
        return Ok(());
    }
    match input.to_str().filter(|text| !input.exists() && text.contains(['*', '?', '['])) {
        Some(pattern) => {
            let matched = glob::glob(pattern).with_context(|| format!("{pattern:?} is no pattern"))?;
            let before = files.len();
            // A folder that can't be listed may hold the very file that was meant.
            for path in matched {
                files.push(path.with_context(|| format!("cannot go through {pattern:?}"))?);
            }
            ensure!(files.len() > before, "no file matches {pattern:?}");
        }
        None => files.push(input.to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn folders_patterns_and_names_become_files_in_order() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("in")).expect("a folder");
        for name in ["in/b.png", "in/a.jpg", "in/notes.txt", "c[1].jpg", "d1.jpg"] {
            fs::write(path(name), "x").expect("a file");
        }
        let expanded = |name: &str| {
            let mut files = Vec::new();
            expand(&path(name), &mut files).map(|()| files)
        };
        assert_eq!(expanded("in").expect("a folder"), [path("in/a.jpg"), path("in/b.png")]);
        assert_eq!(expanded("in/*.png").expect("a pattern"), [path("in/b.png")]);
        assert_eq!(expanded("c[1].jpg").expect("a name that exists"), [path("c[1].jpg")]);
        assert_eq!(expanded("d[1].jpg").expect("a pattern"), [path("d1.jpg")]);
        assert_eq!(expanded("missing.jpg").expect("to be named later"), [path("missing.jpg")]);
        assert!(expanded("*.gif").expect_err("nothing matches").to_string().contains("no file matches"));
    }

    #[test]
    fn a_list_may_come_from_windows_and_have_empty_lines() {
        let files = listed("a b.jpg\r\n\nc.png".as_bytes()).expect("a list");
        assert_eq!(files, [PathBuf::from("a b.jpg"), PathBuf::from("c.png")]);
    }
}
