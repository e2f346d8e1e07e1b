//! Do power and heat let the GPU work?

use super::{
    check::{Check, Topic, worst},
    facts::Facts,
    platform::System,
};
use crate::monitor::{GpuSample, judge_once};

const TOPIC: Topic = Topic {
    id: "power",
    title: "power and heat",
    why: "a GPU at its power or heat limit, or a laptop's on battery, is busy all the time at a fraction of its speed",
};

pub(super) fn check(facts: &Facts) -> Check {
    let samples = facts.samples();
    let mut checks: Vec<Check> = samples.iter().filter_map(|gpu| check_gpu(facts, gpu)).collect();
    if facts.on_battery && facts.has_gpu() {
        checks.insert(0, TOPIC.warn("on_battery", "the machine runs on battery").remedy(unplugged(facts)));
    }
    if let Some(secs) = facts.tdr_delay_secs {
        checks.push(
            TOPIC.ok(format!("Windows takes the GPU away from a kernel that runs longer than {secs} s (TdrDelay)")),
        );
    }
    if checks.is_empty() {
        return TOPIC.skip("no GPU tells");
    }
    worst(&TOPIC, checks)
}

fn check_gpu(facts: &Facts, gpu: &GpuSample) -> Option<Check> {
    let alerts = judge_once(gpu);
    let told = told(gpu)?;
    // Memory has a check of its own.
    let alerts: Vec<String> = alerts.into_iter().filter(|alert| !alert.starts_with("memory")).collect();
    if alerts.is_empty() {
        return Some(TOPIC.ok(format!("{}: {told}", gpu.name)));
    }
    let hot = alerts.iter().any(|alert| alert.contains("°C") || alert.contains("heat"));
    let remedy =
        if hot { "clean the fans and raise the machine so that air gets in".to_owned() } else { unplugged(facts) };
    Some(TOPIC.warn("held_back", format!("{}: {}; {told}", gpu.name, alerts.join("; "))).remedy(remedy))
}

fn unplugged(facts: &Facts) -> String {
    match facts.platform.system {
        System::Windows | System::Wsl => "plug in the charger; Settings > System > Power: best performance; NVIDIA \
                                          Control Panel > Manage 3D settings > Power management mode: prefer maximum \
                                          performance"
            .to_owned(),
        _ => "plug in the charger that came with the machine, and run: powerprofilesctl set performance (from the package power-profiles-daemon)".to_owned(),
    }
}

/// What the card says, as far as it says anything.
fn told(gpu: &GpuSample) -> Option<String> {
    let mut parts = Vec::new();
    parts.extend(gpu.temp_c.map(|temp| format!("{temp:.0} °C")));
    parts.extend(gpu.power_w.map(|watts| match gpu.power_limit_w {
        Some(limit) => format!("{watts:.0} of {limit:.0} W"),
        None => format!("{watts:.0} W"),
    }));
    parts.extend(gpu.util.map(|util| format!("{util:.0} % busy")));
    parts.extend(gpu.clock_mhz.map(|clock| format!("{clock} MHz")));
    parts.extend(gpu.pstate.map(|state| format!("P{state}")));
    if parts.is_empty() {
        return None;
    }
    parts.extend(gpu.pcie.clone().map(|link| format!("PCIe {link}")));
    Some(parts.join(", "))
}
