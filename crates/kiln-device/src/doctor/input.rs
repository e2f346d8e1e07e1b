//! Can the processor feed the GPU with pictures?

use super::{
    check::{Check, Topic},
    facts::Facts,
};
use crate::inventory::Backend;

const TOPIC: Topic = Topic {
    id: "input",
    title: "feeding the GPU",
    why: "the commonest cause of a GPU at 0 % is a processor that can't decode pictures as fast as the GPU learns \
          from them",
};

/// Fewer threads hardly feed a discrete GPU: a rule of thumb, `kiln train` measures it.
const FEW_THREADS: usize = 4;

pub(super) fn check(facts: &Facts) -> Check {
    let threads = facts.num_threads;
    let found = format!("{threads} threads decode pictures");
    if facts.choice.chosen.backend == Backend::Cpu {
        return TOPIC.skip(format!("{found}; the processor does the training as well"));
    }
    if let Some(load) = facts.load.filter(|load| *load > threads as f32) {
        return TOPIC
            .warn("busy_processor", format!("other programs keep {load:.1} threads busy; {found}"))
            .remedy("close them while training");
    }
    if threads < FEW_THREADS {
        return TOPIC
            .warn("few_threads", found)
            .remedy("if `kiln train` reports \"waiting for data\" above 10 %: use smaller pictures");
    }
    TOPIC.ok(format!("{found}; `kiln train` tells what share of a step waits for data"))
}
