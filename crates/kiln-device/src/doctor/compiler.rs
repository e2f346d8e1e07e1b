//! Are CUDA's run-time compiler and its headers there?

use super::{
    check::{Check, Status, Topic, worst},
    driver_version,
    facts::Facts,
};
use crate::nvrtc::Installation;

const TOPIC: Topic = Topic {
    id: "compiler",
    title: "CUDA compiler (NVRTC)",
    why: "kernels are compiled for the card when training starts; the driver doesn't contain the compiler",
};

pub(super) fn check(facts: &Facts) -> Check {
    let cards = &facts.sources.cuda.devices;
    if cards.is_empty() {
        return TOPIC.skip("needed for NVIDIA cards only, and CUDA shows none");
    }
    if driver_version::check(facts).status == Status::Fail {
        return TOPIC.skip("the driver comes first");
    }
    let checks = cards.iter().map(|card| match (&card.problem, &card.compiler) {
        (Some(problem), _) => {
            let check = TOPIC.fail("compiler_missing", problem.reason.clone());
            Check { remedy: problem.remedy.clone(), ..check }
        }
        (None, Some(compiler)) => match &card.warning {
            Some(warning) => {
                let (found, remedy) = warning.split_once("; to get them: ").unwrap_or((warning, ""));
                TOPIC.warn("headers_incomplete", format!("{}, but {found}", described(compiler))).remedy(remedy)
            }
            None => TOPIC.ok(described(compiler)),
        },
        (None, None) => TOPIC.fail("compiler_missing", "none was found"),
    });
    let mut checks: Vec<Check> = checks.collect();
    // Equal cards have equal findings.
    checks.dedup();
    worst(&TOPIC, checks)
}

fn described(compiler: &Installation) -> String {
    let includes: Vec<String> = compiler.includes.iter().map(|folder| folder.display().to_string()).collect();
    format!("{}, headers in {}", compiler.describe(), includes.join(" and "))
}
