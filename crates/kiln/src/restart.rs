//! Starts the program again after its device was lost: burn can't use a device again in a process in which it was.
//!
//! In: the command line and the run's folder. Out: the same command that resumes that run, in this process's place.
//! A laptop that slept and a driver that crashed cost the time since the last checkpoint, and no one has to be there.
//! A device that is lost again and again before the next checkpoint isn't coming back: the third time the error stands.

use kiln_device::Trouble;
use kiln_train::TrainError;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};

/// How often the run was started again, and from which checkpoint: `2 runs/a/checkpoints/epoch-0007`.
const RESTARTED: &str = "KILN_RESTARTED";

const MAX_RESTARTS: u32 = 3;

/// Options of a first start that a resumed run doesn't take, all with a value but the last.
const FIRST_START: [&str; 4] = ["--output", "--weights", "--weights-key", "--reinit-head"];

/// Ends this process by the same command resuming the run in `output`, if `error` says that the device was lost.
///
/// # Errors
/// `error`, if it is another one, there is no checkpoint, or starting again has been tried often enough.
pub fn restart_after(error: TrainError, output: &Path) -> anyhow::Result<ExitCode> {
    let Some(times) = restarts(&error, env::var_os(RESTARTED).as_deref()) else { return Err(error.into()) };
    eprintln!("error: {error}\nstarting again, which opens the device anew");
    let mut command = Command::new(env::current_exe()?);
    command.args(resuming(env::args_os().skip(1), output)).env(RESTARTED, times);
    Ok(replace(command)?)
}

/// What to note of another start after `error`, given what the one before noted; `None` if there is to be none.
fn restarts(error: &TrainError, noted: Option<&OsStr>) -> Option<OsString> {
    let TrainError::Device { trouble: Some(Trouble::Lost | Trouble::TimedOut), checkpoint: Some(path), .. } = error
    else {
        return None;
    };
    let noted = noted.map(OsStr::to_string_lossy).unwrap_or_default();
    let same = noted.split_once(' ').filter(|(_, before)| *before == path.to_string_lossy());
    let before: u32 = same.and_then(|(times, _)| times.parse().ok()).unwrap_or(0);
    (before < MAX_RESTARTS).then(|| format!("{} {}", before + 1, path.display()).into())
}

/// The arguments of a first start, changed so that they resume the run in `output`.
fn resuming(arguments: impl Iterator<Item = OsString>, output: &Path) -> Vec<OsString> {
    let mut arguments = arguments.peekable();
    let mut kept = Vec::new();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        let name = text.split_once('=').map_or(text.as_ref(), |(name, _)| name);
        let value_follows = text.len() == name.len();
        if name == "--resume" {
            if value_follows {
                arguments.next_if(|next| !next.to_string_lossy().starts_with('-'));
            }
        } else if let Some(index) = FIRST_START.iter().position(|option| *option == name) {
            if value_follows && index + 1 < FIRST_START.len() {
                arguments.next();
            }
        } else {
            kept.push(argument);
        }
    }
    kept.extend(["--output".into(), output.into(), "--resume".into()]);
    kept
}

/// Runs `command` in this process's place, so that whoever watches or stops it needn't know.
#[cfg(unix)]
fn replace(mut command: Command) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

/// Runs `command` and takes its exit code over; Ctrl-C reaches it as well as this process, which waits.
#[cfg(not(unix))]
fn replace(mut command: Command) -> io::Result<ExitCode> {
    let code = command.status()?.code().unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(trouble: Trouble, checkpoint: Option<&str>) -> TrainError {
        TrainError::Device {
            epoch: 3,
            reason: "the device was poisoned".into(),
            trouble: Some(trouble),
            checkpoint: checkpoint.map(Into::into),
        }
    }

    #[test]
    fn a_lost_device_is_worth_three_starts_from_the_same_checkpoint() {
        let error = lost(Trouble::Lost, Some("r/epoch-0002"));
        let first = restarts(&error, None).expect("a first");
        assert_eq!(first, "1 r/epoch-0002");
        assert_eq!(restarts(&error, Some(&first)).expect("a second"), "2 r/epoch-0002");
        assert_eq!(restarts(&error, Some(OsStr::new("3 r/epoch-0002"))), None);
        assert_eq!(restarts(&error, Some(OsStr::new("3 r/epoch-0001"))).expect("it got on"), "1 r/epoch-0002");
        assert_eq!(restarts(&lost(Trouble::OutOfMemory, Some("x")), None), None);
        assert_eq!(restarts(&lost(Trouble::Lost, None), None), None);
    }

    #[test]
    fn the_command_is_the_same_but_for_where_it_begins() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (given, wanted) in [
            ("train --data d --epochs 3", "train --data d --epochs 3 --output r --resume"),
            ("train --weights w.pth --reinit-head --data d", "train --data d --output r --resume"),
            ("train --resume --data d --output x", "train --data d --output r --resume"),
            ("train --resume c/epoch-0001 --data d", "train --data d --output r --resume"),
            ("train --output=x --resume=c --data=d", "train --data=d --output r --resume"),
        ] {
            assert_eq!(resuming(words(given).into_iter(), Path::new("r")), words(wanted), "{given}");
        }
    }
}
