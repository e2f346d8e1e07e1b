//! What every command says of itself: `--help` with examples and exit codes, completions, manual pages, and mistyped names.

#[allow(dead_code, reason = "other test programs need the rest")]
mod support;

use support::{kiln, outcome};

/// The subcommands whose `--help` ends with examples and exit codes.
const COMMANDS: [&[&str]; 19] = [
    &["bench", "loader"],
    &["completions"],
    &["devices"],
    &["doctor"],
    &["eval"],
    &["export"],
    &["inspect"],
    &["lr-find"],
    &["man"],
    &["models"],
    &["monitor"],
    &["pack"],
    &["predict"],
    &["recipes"],
    &["report"],
    &["resume"],
    &["train"],
    &["weights"],
    &[],
];

#[test]
fn every_help_ends_with_examples_that_parse_and_the_exit_codes() {
    let folder = support::folder();
    for command in COMMANDS {
        let (code, stdout, stderr) = outcome(kiln(folder.path()).args(command).arg("--help"));
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{command:?}");
        assert!(!stdout.contains('\x1b'), "{command:?} colours what is piped");
        let (_, end) = stdout.split_once("Examples:\n").unwrap_or_else(|| panic!("examples in {stdout}"));
        assert!(end.contains("Exit code: 0"), "{command:?}: {end}");
        let mut num = 0;
        for example in end.lines().map(str::trim).take_while(|line| !line.is_empty()) {
            assert!(example.contains("kiln "), "a line too long to be copied: {example}");
            if !example.starts_with("kiln ") {
                continue;
            }
            // What is redirected or explained behind the command isn't the command's.
            let words = example.split([' ']).take_while(|word| !word.is_empty() && !["|", ">", ">>"].contains(word));
            let words: Vec<&str> = words.skip(1).collect();
            // `--help` ends the command before it does anything, but after its words are understood.
            let (code, _, stderr) = outcome(kiln(folder.path()).args(&words).arg("--help"));
            assert_eq!(code, Some(0), "{example}: {stderr}");
            num += 1;
        }
        assert!(num >= 2, "{command:?}: {end}");
    }
}

#[test]
fn mistyped_commands_options_and_values_are_answered_with_what_may_be_meant() {
    let folder = support::folder();
    for (arguments, part) in [
        (&["docter"][..], "'doctor'"),
        (&["devices", "--mesure"], "'--measure'"),
        (&["devices", "--device", "cudda"], "did you mean \"cuda\""),
        (&["models", "--arch", "resnet5O"], "did you mean \"resnet50\""),
        (&["models", "--image-size", "0"], "1..=8192"),
        (&["models", "--batch", "many"], "invalid digit"),
        (&["monitor", "--interval", "0"], "0.1 to 3600"),
        (&["monitor", "--form", "tabel"], "'table'"),
        (&["monitor", "--json", "--csv"], "cannot be used with"),
        (&["devices", "--again"], "--measure"),
        (&["completions", "bsh"], "'bash'"),
        (&["export", "x.pth"], "--onnx"),
        (&["doctor", "--wake", "--jsn"], "'--json'"),
    ] {
        let (code, stdout, stderr) = outcome(kiln(folder.path()).args(arguments));
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part) && !stderr.contains('\x1b'), "{arguments:?}: {part} in {stderr}");
    }
}

#[test]
fn files_that_are_no_good_are_named_by_the_command_that_was_given_them() {
    let folder = support::folder();
    std::fs::write(folder.path().join("text.pth"), "no weights at all").expect("written");
    std::fs::write(folder.path().join("file"), "").expect("written");
    for (arguments, parts) in [
        (&["export", "no-such.pth", "--onnx", "x.onnx"][..], &["no-such.pth"][..]),
        (&["export", "text.pth", "--onnx", "x.onnx"], &["text.pth"]),
        (&["man", "--output", "file"], &["manual pages", "file"]),
    ] {
        let (found, stdout, stderr) = outcome(kiln(folder.path()).args(arguments));
        assert_eq!((found, stdout.as_str()), (Some(1), ""), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && !stderr.contains("panicked"), "{arguments:?}: {stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{arguments:?}: {parts:?} in {stderr}");
    }
}

#[test]
fn completions_of_each_shell_know_every_command() {
    let folder = support::folder();
    for (shell, mark) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef kiln"),
        ("fish", "complete -c kiln"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let (code, script, stderr) = outcome(kiln(folder.path()).args(["completions", shell]));
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(script.contains(mark), "{shell}: {script}");
        for word in ["devices", "doctor", "weights", "train", "image-size", "measure"] {
            assert!(script.contains(word), "{word} for {shell}");
        }
    }
}

#[test]
fn manual_pages_hold_the_options_of_every_command() {
    let folder = support::folder();
    let (code, page, stderr) = outcome(kiln(folder.path()).arg("man"));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(page.contains(".TH kiln 1") && page.contains("Examples:"), "{page}");
    let (code, stdout, stderr) = outcome(kiln(folder.path()).args(["man", "--output", "man1"]));
    assert_eq!((code, stdout.trim()), (Some(0), "man1/kiln.1"), "{stderr}");
    for (file, part) in [
        ("kiln.1", "doctor"),
        ("kiln-devices.1", "measure"),
        ("kiln-train.1", "batch\\-size"),
        ("kiln-weights.1", "arch"),
    ] {
        let page = std::fs::read_to_string(folder.path().join("man1").join(file)).expect(file);
        assert!(page.contains(part), "{part} in {file}: {page}");
    }
}
