//! Runs of the command that are killed, stopped, or out of disk: nothing is lost but the time since the last checkpoint.
#![cfg(unix)]

#[allow(dead_code, reason = "not every test program needs all of it")]
mod support;

use kiln::data::scenes::{self, ScenesConfig};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::{folder, kiln, outcome};

/// Small enough for 20 lives within seconds; a checkpoint after every step, so that many are being written when it dies.
const RECIPE: &str = "[run]\nepochs = 12\nseed = 3\ncheckpoint_minutes = 1e-9\n[data]\nbatch_size = 8\ndrop_last = false\n\
    [model]\narch = 'resnet18'\nwidth = 4\n[augment]\nimage_size = 32\n";

/// 33 training images, the one that a batch of 32 leaves over among them.
fn pictures(folder: &Path) -> PathBuf {
    let config = ScenesConfig { train_images: 33, val_images: 10, size: 40, ..ScenesConfig::default() };
    scenes::open_or_create(Some(&folder.join("drawn")), &config).expect("drawn");
    std::fs::write(folder.join("my.toml"), RECIPE).expect("written");
    let mut found = std::fs::read_dir(folder.join("drawn")).expect("a folder");
    found.find_map(|entry| entry.ok().map(|e| e.path()).filter(|path| path.join("train").is_dir())).expect("the set")
}

fn train(folder: &Path, data: &Path, output: &str) -> Command {
    let mut command = kiln(folder);
    command.args(["train", "--device", "cpu", "--recipe", "my.toml", "--workers", "1", "--output", output, "--data"]);
    command.arg(data);
    command
}

/// Names in a run's folder of checkpoints.
fn names(run: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Every file that a finished run leaves and that no clock is in.
fn results(run: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for name in names(run) {
        let path = run.join("checkpoints").join(&name);
        let of_checkpoint = ["model.safetensors", "optimizer.safetensors", "state.toml"].map(|file| path.join(file));
        let paths = if path.is_dir() { of_checkpoint.to_vec() } else { vec![path] };
        files.extend(paths.into_iter().map(|path| {
            let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path.strip_prefix(run).expect("below it").display().to_string(), bytes)
        }));
    }
    let record = std::fs::read_to_string(run.join("metrics.jsonl")).expect("a record");
    let means = record.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        ["epoch", "step", "lr", "train_loss", "train_top1", "val_loss", "val_top1"]
            .map(|key| line[key].to_string())
            .join(" ")
    });
    files.push(("metrics".into(), means.collect::<Vec<_>>().join("\n").into_bytes()));
    files
}

fn assert_same(found: &Path, expected: &Path) {
    let (found, expected) = (results(found), results(expected));
    let files = |of: &[(String, Vec<u8>)]| of.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(files(&found), files(&expected));
    for ((name, found), (_, expected)) in found.iter().zip(&expected) {
        assert!(found == expected, "{name} differs");
    }
}

/// Kills `child` when `now` says so, or finds that it has ended.
fn kill_when(child: &mut Child, mut now: impl FnMut() -> bool) -> bool {
    loop {
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        if now() {
            child.kill().expect("killed");
            child.wait().expect("ended");
            return true;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_run_killed_at_twenty_moments_ends_with_the_bytes_of_one_that_was_not() {
    const KILLS: usize = 20;
    let folder = folder();
    let data = pictures(folder.path());
    let (code, _, stderr) = outcome(&mut train(folder.path(), &data, "whole"));
    assert_eq!(code, Some(0), "{stderr}");

    let run = folder.path().join("killed");
    let (mut kills, mut within_a_write, mut random) = (0, 0, 0x2545_F491_4F6C_DD1D_u64);
    while kills < KILLS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Some looks after so many new checkpoints, or as soon as another begins to be written.
        let (mut checkpoints, mut looks, in_write) =
            (random % 3, (random >> 8) % 400, (random >> 20).is_multiple_of(2));
        let mut command = train(folder.path(), &data, "killed");
        command.arg("--resume").stderr(Stdio::null()).stdout(Stdio::null());
        let mut newest = names(&run).into_iter().rfind(|name| name.starts_with("epoch-"));
        let mut child = command.spawn().expect("starts");
        let mut caught_in_write = false;
        let killed = kill_when(&mut child, || {
            let names = names(&run);
            let now = names.iter().rfind(|name| name.starts_with("epoch-")).cloned();
            if now != newest {
                (newest, checkpoints) = (now, checkpoints.saturating_sub(1));
            }
            caught_in_write = names.iter().any(|name| name.ends_with(".tmp"));
            looks = if checkpoints == 0 { looks.saturating_sub(1) } else { looks };
            checkpoints == 0 && (if in_write { caught_in_write } else { looks == 0 })
        });
        assert!(killed, "the run ended after {kills} kills, before it was killed {KILLS} times");
        kills += 1;
        within_a_write += usize::from(caught_in_write);
    }
    eprintln!("{kills} kills, {within_a_write} of them while a checkpoint was being written");
    assert!(within_a_write >= 3, "{within_a_write} of {kills}");
    let (code, _, stderr) = outcome(train(folder.path(), &data, "killed").arg("--resume"));
    assert_eq!(code, Some(0), "{stderr}");
    assert_same(&run, &folder.path().join("whole"));
}

/// Sends `signal` to a run after its `step`-th checkpoint; gives its exit code and what it said.
fn signalled(mut command: Command, run: &Path, signal: &str) -> (Option<i32>, String) {
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    while !names(run).iter().any(|name| name.starts_with("epoch-0002")) {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before its second epoch did");
        std::thread::yield_now();
    }
    let sent = Command::new("kill").arg(signal).arg(child.id().to_string()).status().expect("kill");
    assert!(sent.success());
    let said: Vec<_> = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok).collect();
    let output = child.wait_with_output().expect("ended");
    (output.status.code(), said.join("\n") + &String::from_utf8_lossy(&output.stdout))
}

#[test]
fn the_first_interrupt_finishes_the_step_saves_it_and_exits_with_130() {
    let folder = folder();
    let data = pictures(folder.path());
    let recipe = RECIPE.replace("checkpoint_minutes = 1e-9", "checkpoint_minutes = 0");
    std::fs::write(folder.path().join("my.toml"), recipe).expect("written");
    let (code, _, stderr) = outcome(&mut train(folder.path(), &data, "whole"));
    assert_eq!(code, Some(0), "{stderr}");
    for signal in ["-INT", "-TERM"] {
        let output = format!("stopped{signal}");
        let run = folder.path().join(&output);
        let (code, said) = signalled(train(folder.path(), &data, &output), &run, signal);
        assert_eq!(code, Some(130), "{said}");
        assert!(said.contains("--resume goes on from there") && said.contains("which is saved"), "{said}");
        let (code, _, stderr) = outcome(train(folder.path(), &data, &output).arg("--resume"));
        assert_eq!(code, Some(0), "{stderr}");
        assert_same(&run, &folder.path().join("whole"));
    }
}

/// Runs `script` where it may mount file systems; `None`, said aloud, where no one may.
fn in_mount_namespace(folder: &Path, script: &str) -> Option<(Option<i32>, String, String)> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", script]).current_dir(folder);
        command.env("KILN_CACHE_DIR", folder.join("cache")).env("KILN", env!("CARGO_BIN_EXE_kiln"));
        command
    };
    let probe = unshare("mkdir -p run && mount -t tmpfs none run").output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        support::skip("no mount namespaces here");
        return None;
    }
    Some(outcome(&mut unshare(script)))
}

#[test]
fn a_full_disk_and_a_read_only_one_are_named_with_the_bytes_and_the_last_checkpoint_still_loads() {
    let folder = folder();
    let data = pictures(folder.path());
    let data = data.display();
    // A checkpoint takes 400 KiB, and there are the newest two, the best, and the one being written.
    let script = format!(
        "mount -t tmpfs -o size=1200k none run
         train() {{ \"$KILN\" train --device cpu --recipe my.toml --workers 1 --output run/r --data '{data}' \"$@\" 2>&1; }}
         train; echo \"full: $?\"
         mount -o remount,size=64m,ro none run
         train --resume; echo \"read-only: $?\"
         mount -o remount,rw none run
         train --resume; echo \"again: $?\""
    );
    let Some((_, said, stderr)) = in_mount_namespace(folder.path(), &script) else { return };
    let said = said + &stderr;
    let (full, rest) = said.split_once("full: 1").unwrap_or_else(|| panic!("it should have failed: {said}"));
    let (read_only, again) = rest.split_once("read-only: 1").unwrap_or_else(|| panic!("{said}"));
    for part in ["error: cannot write ", " bytes to run/r/checkpoints/", "No space left"] {
        assert!(full.contains(part), "{part} in {full}");
    }
    for part in ["error: cannot ", "run/r/", "Read-only"] {
        assert!(read_only.contains(part), "{part} in {read_only}");
    }
    assert!(again.contains("resumed  after epoch") && again.contains("again: 0"), "{again}");
    assert!(!said.contains("panicked") && !again.contains("warning  run/r/checkpoints/epoch-"), "{said}");
}
