//! How much memory is there to train in?

use super::{
    check::{Check, Topic},
    facts::Facts,
};
use crate::{inventory::Backend, monitor::GpuSample};

const TOPIC: Topic = Topic {
    id: "memory",
    title: "memory",
    why: "batch and image size are bounded by it; when it runs out, training ends or, on Windows, slows down tenfold",
};

/// Below this, the usual batch and image size are unlikely to fit, GiB: a rule of thumb.
const LEAST_GIB: f64 = 2.0;
/// Other programs hold more than this share of a card.
const TAKEN_SHARE: f64 = 0.5;

pub(super) fn check(facts: &Facts) -> Check {
    let chosen = &facts.choice.chosen;
    let mut told: Vec<String> = facts.cards().iter().filter_map(shared).collect();
    let samples = facts.samples();
    told.extend(samples.iter().filter(|gpu| gpu.vram_mib.is_none()).filter_map(used));
    if let Some(bytes) = facts.memory_bytes {
        told.push(format!("machine: {}", gib(bytes)));
    }
    let found = told.join("; ");
    let taken = samples.iter().find(|gpu| {
        let share = gpu.mem_used_mib.zip(gpu.mem_total_mib).map(|(used, total)| used as f64 / total as f64);
        share.is_some_and(|share| share > TAKEN_SHARE)
    });
    if let Some(gpu) = taken {
        return TOPIC
            .warn("memory_taken", format!("other programs hold more than half of {}'s memory: {found}", gpu.name))
            .remedy("close them; `kiln monitor` shows which they are");
    }
    let row = facts.inventory.devices.iter().find(|device| {
        chosen.backend != Backend::Cpu && device.routes.iter().any(|route| route.request == chosen.request)
    });
    let small = row.and_then(|device| device.memory_bytes).filter(|bytes| to_gib(*bytes) < LEAST_GIB);
    if let Some(bytes) = small {
        return TOPIC
            .warn("little_memory", format!("{} has {}: {found}", chosen.name, gib(bytes)))
            .remedy("use a batch of 4 to 8 and images of 128 px: --batch-size 8 --image-size 128");
    }
    TOPIC.ok(found)
}

/// What a part of the processor may use: never its carve-out alone.
fn shared(card: &crate::inventory::BusDevice) -> Option<String> {
    let (own, shared) = (card.vram_bytes?, card.shared_bytes?);
    if !card.integrated {
        return Some(format!("{}: {}", card.name(), gib(own)));
    }
    Some(format!(
        "{}: {} shared with the machine ({} MiB VRAM + {} MiB GTT)",
        card.name(),
        gib(own + shared),
        own >> 20,
        shared >> 20
    ))
}

fn used(gpu: &GpuSample) -> Option<String> {
    let (used, total) = (gpu.mem_used_mib?, gpu.mem_total_mib?);
    Some(format!("{}: {used} of {total} MiB in use", gpu.name))
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", to_gib(bytes))
}

fn to_gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
