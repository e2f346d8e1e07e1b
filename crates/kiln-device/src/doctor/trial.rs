//! Trying the chosen device: it counts only once it has computed something right.
//!
//! The trial runs in a child process, since a driver may take its process with it. A candidate that fails loses,
//! and the next one is tried, as long as there is time.

use std::time::{Duration, Instant};

use super::facts::auto;
use crate::{
    choose::Choice,
    error::DeviceError,
    inventory::{Backend, Inventory, Problem, probe},
    open::{cpu, open},
    request::{DEVICE_VARIABLE, DeviceRequest},
    smoke::{Depth, smoke_test},
};

/// Below this, no trial is started.
const LEAST_TIME: Duration = Duration::from_secs(2);
/// The processor needs a moment only.
const PROCESSOR_TIME: Duration = Duration::from_secs(5);

/// One device that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    pub(crate) request: DeviceRequest,
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed(Problem),
    /// It was still at it when time was up; compiling the test's kernels for the first time takes long.
    Unfinished(u64),
}

/// Chooses a device and tries it; goes on to the next one if it fails, until `ends`.
pub(crate) fn choose_and_try(
    inventory: &mut Inventory,
    trials: &mut Vec<Trial>,
    ends: Instant,
) -> Result<Choice, DeviceError> {
    loop {
        let choice = auto(inventory)?;
        let (request, backend) = (choice.chosen.request, choice.chosen.backend);
        // Leave the processor its moment.
        let left = ends.saturating_duration_since(Instant::now());
        let left = if backend == Backend::Cpu { left } else { left.saturating_sub(PROCESSOR_TIME) };
        let outcome = if left < LEAST_TIME { Outcome::Unfinished(0) } else { attempt_device(request, left) };
        trials.push(Trial { request, name: choice.chosen.name.clone(), outcome: outcome.clone() });
        match outcome {
            Outcome::Failed(problem) if backend != Backend::Cpu => inventory.set_problem(request, problem),
            _ => return Ok(choice),
        }
    }
}

fn attempt_device(request: DeviceRequest, deadline: Duration) -> Outcome {
    let variables = [(DEVICE_VARIABLE, request.to_string().into())];
    let started = Instant::now();
    let answer = probe::ask(probe::Question::Smoke, deadline, &variables, move || try_device(request));
    match answer {
        Ok(None) => Outcome::Passed,
        Ok(Some(problem)) => Outcome::Failed(problem),
        Err(_) if started.elapsed() >= deadline => Outcome::Unfinished(deadline.as_secs()),
        Err(reason) => Outcome::Failed(Problem::new(format!("failed when it was opened: {reason}"))),
    }
}

/// In a child: tries the device that `KILN_DEVICE` names. `None` if all is well.
pub(crate) fn try_named_device() -> Option<Problem> {
    match DeviceRequest::from_env() {
        Ok(Some(request)) => try_device(request),
        Ok(None) => Some(Problem::new("no device was named")),
        Err(error) => Some(Problem::new(error.to_string())),
    }
}

fn try_device(request: DeviceRequest) -> Option<Problem> {
    if request == DeviceRequest::Cpu {
        return smoke_test(&cpu(), Depth::Thorough).err().map(Problem::new);
    }
    match open(&request) {
        // It has passed the test in being opened.
        Ok(_) => None,
        Err(DeviceError::Unusable { reason, remedy, .. }) => Some(Problem { reason, remedy }),
        Err(error) => Some(Problem::new(error.to_string())),
    }
}
