//! What README and `docs/` tell people to type: every command is understood, every recipe valid, every link leads somewhere.

#[allow(dead_code, reason = "other test programs need the rest")]
mod support;

use kiln::train::Recipe;
use std::path::{Path, PathBuf};
use support::{kiln, outcome};

/// What else than `kiln` a reader is told to run, by the first word.
const OTHERS: [&str; 9] = ["cargo", "cd", "find", "git", "nvidia-smi", "rustup", "sha256sum", "sudo", "wsl"];

/// The root of the repository, or `None` in a package of this crate alone.
fn root() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("docs").is_dir().then_some(root)
}

/// Each page with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let Some(root) = root() else {
        eprintln!("skipped: there are no pages beside this crate");
        return Vec::new();
    };
    let docs = std::fs::read_dir(root.join("docs")).expect("docs/").map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    pages.extend(["README.md", "CONTRIBUTING.md", "datasets/README.md"].map(|page| root.join(page)));
    pages.sort();
    pages
        .into_iter()
        .map(|page| {
            let text = std::fs::read_to_string(&page).expect("a page");
            (page, text)
        })
        .collect()
}

/// The fenced blocks of `text` in one of `languages`.
fn blocks<'t>(text: &'t str, languages: &[&str]) -> Vec<&'t str> {
    let fenced = text.split("```").skip(1).step_by(2);
    fenced
        .filter_map(|block| block.split_once('\n'))
        .filter(|(language, _)| languages.contains(language))
        .map(|(_, body)| body)
        .collect()
}

/// The commands behind the prompts `$` and `PS>` of a block, each as its words.
fn commands(block: &str) -> Vec<Vec<String>> {
    let lines = block.lines().filter_map(|line| line.strip_prefix("$ ").or_else(|| line.strip_prefix("PS> ")));
    lines
        .map(|line| line.split(" #").next().unwrap_or(line))
        .flat_map(|line| line.split(" && "))
        .flat_map(|line| line.split(" | "))
        .map(|command| {
            let words = command.split_whitespace().take_while(|word| !word.starts_with('>'));
            words.map(|word| word.trim_matches(['\'', '"']).to_owned()).collect()
        })
        .collect()
}

#[test]
fn every_command_of_the_pages_is_understood() {
    let folder = support::folder();
    let mut num = 0;
    for (page, text) in pages() {
        for words in blocks(&text, &["console", "powershell"]).into_iter().flat_map(commands) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let arguments = match &words[..] {
                // Not in a build without that feature.
                ["kiln", "weights", "fetch", ..] if !cfg!(feature = "fetch") => continue,
                ["kiln", rest @ ..] => rest.to_vec(),
                // The example takes the options of `kiln train`.
                ["cargo", "run", "--release", "--example", "resnet50", rest @ ..] => {
                    [&["train"], rest.strip_prefix(&["--"]).unwrap_or(rest)].concat()
                }
                [other, ..] => {
                    assert!(OTHERS.contains(other), "{}: {words:?}", page.display());
                    continue;
                }
                [] => continue,
            };
            // `--help` ends the command before it does anything, but after its words are understood.
            let (code, _, stderr) = outcome(kiln(folder.path()).args(&arguments).arg("--help"));
            assert_eq!(code, Some(0), "{}: {words:?}: {stderr}", page.display());
            num += 1;
        }
    }
    assert!(num > 40 || root().is_none(), "{num} commands");
}

#[test]
fn every_recipe_of_the_pages_is_valid() {
    for (page, text) in pages() {
        // What goes into a Cargo.toml is no recipe.
        for recipe in blocks(&text, &["toml"]).into_iter().filter(|text| !text.contains("cubecl-llvm")) {
            if recipe.contains("CUDARC") {
                continue;
            }
            Recipe::from_toml(recipe).unwrap_or_else(|error| panic!("{}: {error}\n{recipe}", page.display()));
        }
    }
}

#[test]
fn every_link_and_every_file_of_the_pages_is_there() {
    let Some(root) = root() else { return };
    for (page, text) in pages() {
        let folder = page.parent().expect("a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") {
                assert!(folder.join(file).exists(), "{}: {link}", page.display());
            }
        }
        for name in text.split("examples/").skip(1).filter_map(|rest| rest.split(['`', ' ', '\n', ')']).next()) {
            let file = root.join("examples").join(name.trim_end_matches(['.', ',', ';', '/']));
            assert!(file.exists(), "{}: examples/{name}", page.display());
        }
    }
}
