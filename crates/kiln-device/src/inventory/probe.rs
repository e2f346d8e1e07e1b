//! Asks a driver a question it may never answer.
//!
//! A sick driver hangs, crashes, or prints to standard output. So the question is put in a child process with a
//! deadline: this program again, which recognises the environment variable `KILN_PROBE` in [`probe_child`],
//! answers with one line of JSON and exits. A library can't know whether its host's `main` calls that function,
//! and starting a program that doesn't would run it twice; until it has been called, the question is put in a
//! thread instead. A thread survives a hang as well (it is abandoned), but not a crash.

use std::{
    ffi::OsString,
    io::{Read, Write},
    process::{Child, Command, Stdio, exit},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};

use super::{cuda, wgpu};
use crate::{
    attempt::{attempt, no_answer},
    doctor, monitor, nvrtc,
};

/// Names the question in a child's environment.
const PROBE_VARIABLE: &str = "KILN_PROBE";

/// Starts the answer's line: drivers print to standard output too.
const ANSWER_MARK: &str = "kiln-probe-answer:";

/// How long a child that has closed its output may take to end.
const EXIT_DEADLINE: Duration = Duration::from_secs(1);

/// Whether this program's `main` answers probes.
static HOST_ANSWERS: AtomicBool = AtomicBool::new(false);

/// A question about this machine's drivers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    /// What does the CUDA driver list?
    Cuda,
    /// What do the graphics drivers list?
    Wgpu,
    /// Which run-time compilers are there, and what are they?
    Compilers,
    /// What does NVIDIA's management library say?
    Nvml,
    /// Does NVIDIA's management library start?
    NvmlStart,
    /// Does the device that `KILN_DEVICE` names compute right?
    Smoke,
    /// How fast is the device that `KILN_DEVICE` names?
    Measure,
}

impl Question {
    fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Wgpu => "wgpu",
            Self::Compilers => "compilers",
            Self::Nvml => "nvml",
            Self::NvmlStart => "nvml-start",
            Self::Smoke => "smoke",
            Self::Measure => "measure",
        }
    }
}

/// Call this first in `main`, before anything prints or starts a thread: it lets Kiln ask the drivers from a
/// child process, so that a driver that crashes or hangs is a finding and not the end of the program.
///
/// In the program a person starts, it only takes note and returns. In a child started by
/// [`inventory`](crate::inventory), it answers and exits without returning.
pub fn probe_child() {
    let answer = match std::env::var(PROBE_VARIABLE).as_deref() {
        Ok("cuda") => serde_json::to_string(&cuda::ask_driver()),
        Ok("wgpu") => serde_json::to_string(&wgpu::ask_drivers()),
        Ok("compilers") => serde_json::to_string(&nvrtc::installed()),
        Ok("nvml") => serde_json::to_string(&monitor::ask_nvml()),
        Ok("nvml-start") => serde_json::to_string(&monitor::start_nvml()),
        Ok("smoke") => serde_json::to_string(&doctor::try_named_device()),
        Ok("measure") => serde_json::to_string(&crate::measure::measure_named_device()),
        _ => {
            HOST_ANSWERS.store(true, Ordering::Relaxed);
            return;
        }
    };
    let code = match answer {
        Ok(json) => {
            let line = format!("\n{ANSWER_MARK}{json}\n");
            i32::from(std::io::stdout().write_all(line.as_bytes()).is_err())
        }
        Err(_) => 1,
    };
    exit(code)
}

/// Whether questions are put in a child process, whose environment can differ from ours.
pub(crate) fn in_child() -> bool {
    HOST_ANSWERS.load(Ordering::Relaxed)
}

/// Puts `question`, answered by `answer`, and waits at most `deadline`. `variables` are set for a child.
///
/// # Errors
/// A sentence that says how the driver failed to answer.
pub(crate) fn ask<T>(
    question: Question,
    deadline: Duration,
    variables: &[(&str, OsString)],
    answer: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String>
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    if in_child()
        && let Some(child) = start_child(question, variables)
    {
        return ask_child(child, deadline);
    }
    attempt(deadline, answer).map_err(|reason| format!("asking the driver failed: {reason}"))
}

fn start_child(question: Question, variables: &[(&str, OsString)]) -> Option<Child> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command
        .env(PROBE_VARIABLE, question.name())
        .envs(crate::environment::missing_runtime_dir())
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().ok()
}

fn ask_child<T: DeserializeOwned>(mut child: Child, deadline: Duration) -> Result<T, String> {
    let (sender, receiver) = mpsc::channel();
    let stdout = child.stdout.take();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A read that fails half-way leaves what was read: the answer may be in it.
        let _ = stdout.map(|mut pipe| pipe.read_to_end(&mut bytes));
        let _ = sender.send(bytes);
    });
    let bytes = receiver.recv_timeout(deadline);
    if bytes.is_err() {
        let _ = child.kill();
    }
    // A process stuck inside the kernel can't be waited for; it is reaped whenever it ends.
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait()));
    let Ok(bytes) = bytes else {
        return Err(format!("asking the driver failed: {}", no_answer(deadline)));
    };
    parse_answer(&bytes).ok_or_else(|| match receiver.recv_timeout(deadline.min(EXIT_DEADLINE)) {
        Ok(Ok(status)) => format!("the driver ended the process that asked it ({status})"),
        _ => format!("asking the driver failed: {}", no_answer(deadline)),
    })
}

fn parse_answer<T: DeserializeOwned>(stdout: &[u8]) -> Option<T> {
    String::from_utf8_lossy(stdout).lines().find_map(|line| serde_json::from_str(line.strip_prefix(ANSWER_MARK)?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_found_among_what_drivers_print() {
        let stdout = b"MESA: warning\nkiln-probe-answer:not json\n\nkiln-probe-answer:[1,2]\nbye\n";
        assert_eq!(parse_answer::<Vec<u8>>(stdout), Some(vec![1, 2]));
        assert_eq!(parse_answer::<Vec<u8>>(b"nothing"), None);
    }
}
