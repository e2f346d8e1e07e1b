//! Does the chosen device compute right?

use super::{
    check::{Check, Topic, worst},
    facts::Facts,
    trial::{Outcome, Trial},
};
use crate::request::DeviceRequest;

const TOPIC: Topic = Topic {
    id: "smoke_test",
    title: "computes right",
    why: "a device counts as usable once arithmetic, a matrix product and a convolution on it agree with the processor",
};

pub(super) fn check(facts: &Facts) -> Check {
    worst(&TOPIC, facts.trials.iter().map(check_trial).collect())
}

fn check_trial(trial: &Trial) -> Check {
    let device = format!("{} ({})", trial.request, trial.name);
    match &trial.outcome {
        Outcome::Passed => TOPIC.ok(format!("{device} passed")),
        Outcome::Failed(problem) => {
            let remedy = problem.remedy.clone().unwrap_or_else(|| remedy(trial.request).to_owned());
            TOPIC.fail("smoke_test_failed", format!("{device}: {}", problem.reason)).remedy(remedy)
        }
        Outcome::Unfinished(0) => TOPIC.skip(format!("{device} was not tried: the drivers took all the time")),
        Outcome::Unfinished(secs) => {
            TOPIC.warn("smoke_test_unfinished", format!("{device} was not done after {secs} s")).remedy(
                "compiling its kernels for the first time takes long; run `kiln train` once, then `kiln doctor` again",
            )
        }
    }
}

fn remedy(request: DeviceRequest) -> &'static str {
    match request {
        DeviceRequest::Cuda(_) => "restart the machine; if it stays, reinstall NVIDIA's driver, or use --device wgpu",
        DeviceRequest::Cpu => "please report it with the file that `kiln doctor --bundle report.txt` writes",
        _ => "update the GPU's Vulkan driver, or use --device cpu",
    }
}
