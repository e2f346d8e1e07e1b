//! `kiln doctor`: examines the way from the hardware to a device that computes, and says what is wrong.
//!
//! ```text
//! Facts (each driver asked in a child process, with a deadline) ──> checks, pure ──> Verdict
//! ```
//!
//! The checks come in the order in which a person would look: the hardware, then what stands on it. Each says
//! what was found, why it matters and what to do. [`Diagnosis`] prints as text for people and serialises as JSON
//! for programs: `checks: [{id, status, code, found, why, remedy}]`, `chosen: {device, name, reason}`,
//! `verdict: {cause, fix, sentence}`, `environment`, `gpus` (readings as [`Monitor`](crate::Monitor) gives them)
//! and `machine`. It ends within half a minute whatever the drivers do, and wakes no sleeping card unless told to.
//! A new check is a file here and a line in [`CHECKS`].

mod adapter;
mod bundle;
mod check;
mod compiler;
mod compute_capability;
mod cuda_start;
mod driver_library;
mod driver_version;
mod enabled;
mod facts;
mod hardware;
mod input;
mod kernel_driver;
mod limits;
mod memory;
mod platform;
mod power;
mod smoke_test;
mod trial;
mod variables;
mod verdict;
mod vulkan;
mod windows;

use std::{
    fmt,
    time::{Duration, Instant},
};

use serde::Serialize;

use self::facts::Facts;
pub(crate) use self::trial::try_named_device;
pub use self::{
    check::{Check, Status},
    variables::Variable,
    verdict::Verdict,
};
use crate::{error::DeviceError, monitor::GpuSample, request::DeviceRequest};

/// When the examination is over.
const ENDS_AFTER: Duration = Duration::from_secs(27);

/// The checks, in the order in which they are told.
const CHECKS: [fn(&Facts) -> Check; 15] = [
    hardware::check,
    enabled::check,
    kernel_driver::check,
    driver_library::check,
    driver_version::check,
    cuda_start::check,
    compute_capability::check,
    compiler::check,
    vulkan::check,
    adapter::check,
    limits::check,
    smoke_test::check,
    memory::check,
    power::check,
    input::check,
];

/// What the examination found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The checks, from the hardware up.
    pub checks: Vec<Check>,
    /// The device that `auto` would take.
    pub chosen: Chosen,
    /// The cause and the fix.
    pub verdict: Verdict,
    /// The variables that are set and decide which GPU a program gets.
    pub environment: Vec<Variable>,
    /// Readings of the cards.
    pub gpus: Vec<GpuSample>,
    /// The machine.
    pub machine: Machine,
}

/// The device that `auto` would take, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Chosen {
    /// The name to ask for it by.
    pub device: DeviceRequest,
    /// Its own name.
    pub name: String,
    /// Why it is taken, and why the others aren't.
    pub reason: String,
}

/// The machine in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Machine {
    /// Operating system or distribution.
    pub system: String,
    /// Whether the program runs in a container.
    pub container: bool,
    /// Threads of the processor.
    pub num_threads: usize,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
}

/// Examines this machine. With `wake`, sleeping cards are asked too, which wakes them.
///
/// Takes a few seconds, half a minute at most. Like [`inventory`](crate::inventory) it may set
/// `XDG_RUNTIME_DIR`; call [`probe_child`](crate::probe_child) first in `main`, or a driver that crashes takes the
/// program with it.
///
/// # Errors
/// If not even the processor can be chosen, which doesn't happen.
pub fn doctor(wake: bool) -> Result<Diagnosis, DeviceError> {
    let facts = Facts::gather(wake, Instant::now() + ENDS_AFTER)?;
    Ok(examine(&facts))
}

/// Judges facts. Pure.
fn examine(facts: &Facts) -> Diagnosis {
    let checks: Vec<Check> = CHECKS.iter().map(|check| check(facts)).collect();
    let choice = &facts.choice;
    let asleep = facts.sleeping_first_choice();
    Diagnosis {
        verdict: verdict::verdict(&checks, choice, asleep.as_deref()),
        checks,
        chosen: Chosen {
            device: choice.chosen.request,
            name: choice.chosen.name.clone(),
            reason: match &asleep {
                Some(card) => {
                    format!("the best of what is awake; {card} sleeps, and training would wake and try it first")
                }
                None => choice.reason.clone(),
            },
        },
        environment: facts.variables(),
        gpus: facts.samples(),
        machine: Machine {
            system: facts.platform.name.clone(),
            container: facts.platform.container,
            num_threads: facts.num_threads,
            memory_bytes: facts.memory_bytes,
        },
    }
}

impl Diagnosis {
    /// Whether something keeps a GPU from being used.
    pub fn has_problem(&self) -> bool {
        self.checks.iter().any(|check| check.status == Status::Fail)
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Aligned behind "remedy: ".
        let further = format!("{INDENT}        ");
        writeln!(f, "{}\n", self.machine)?;
        for (index, check) in self.checks.iter().enumerate() {
            write!(f, "{:2}  {:<4}  {:<22} ", index + 1, word(check.status), check.title)?;
            writeln!(f, "{}", wrapped(&check.found))?;
            if check.status >= Status::Warn {
                writeln!(f, "{INDENT}why:    {}", wrapped_from(check.why, &further))?;
                if let Some(remedy) = &check.remedy {
                    writeln!(f, "{INDENT}remedy: {}", wrapped_from(remedy, &further))?;
                }
            }
        }
        writeln!(f)?;
        for variable in &self.environment {
            writeln!(f, "{}={}  ({})", variable.name, variable.value, variable.effect)?;
        }
        if !self.environment.is_empty() {
            writeln!(f)?;
        }
        writeln!(f, "chosen   {} ({}): {}", self.chosen.device, self.chosen.name, self.chosen.reason)?;
        write!(f, "verdict  {}", wrapped_from(&self.verdict.sentence, "         "))
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let container = if self.container { ", in a container" } else { "" };
        write!(f, "{}{container}; {} threads", self.system, self.num_threads)?;
        match self.memory_bytes {
            Some(bytes) => write!(f, "; {:.1} GiB memory", bytes as f64 / f64::from(1 << 30)),
            None => Ok(()),
        }
    }
}

/// Where the text of a check begins.
const INDENT: &str = "                                 ";
/// Columns of a line.
const WIDTH: usize = 118;

fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Skip => "-",
        Status::Warn => "WARN",
        Status::Fail => "FAIL",
    }
}

fn wrapped(text: &str) -> String {
    wrapped_from(text, INDENT)
}

/// Breaks `text` between words, further lines beginning with `indent`.
fn wrapped_from(text: &str, indent: &str) -> String {
    let width = WIDTH - indent.len();
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(indent);
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

#[cfg(test)]
mod tests;
