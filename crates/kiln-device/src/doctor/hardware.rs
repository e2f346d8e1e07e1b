//! Is there a GPU at all?

use super::{
    check::{Check, Topic},
    facts::Facts,
    platform::System,
};
use crate::inventory::{BusDevice, HardwareKind};

const TOPIC: Topic = Topic {
    id: "hardware",
    title: "graphics hardware",
    why: "a GPU trains many times faster than a processor, and only one that the system sees can be used",
};

pub(super) fn check(facts: &Facts) -> Check {
    let cards: Vec<String> = facts.cards().iter().map(BusDevice::name_and_place).collect();
    if !cards.is_empty() {
        return TOPIC.ok(cards.join("; "));
    }
    let is_gpu = |kind| !matches!(kind, HardwareKind::Software | HardwareKind::Cpu);
    let listed: Vec<&str> = facts
        .inventory
        .devices
        .iter()
        .filter(|device| is_gpu(device.kind))
        .map(|device| device.name.as_str())
        .collect();
    match facts.platform.system {
        _ if !listed.is_empty() => TOPIC.ok(listed.join("; ")),
        System::Wsl if facts.dxg => {
            TOPIC.ok("WSL keeps GPUs off Linux's PCI bus, and the way to them (/dev/dxg) is there")
        }
        System::Wsl => TOPIC
            .fail("wsl_without_gpu", "this WSL has no way to a GPU (/dev/dxg is missing)")
            .remedy("in Windows: install the GPU maker's current driver, then wsl --update and wsl --shutdown"),
        System::Windows => TOPIC.warn("no_gpu", "no driver lists a GPU").remedy(
            "look at Device Manager > Display adapters: install the maker's driver; if the GPU is missing there, \
             enable it in the BIOS",
        ),
        _ => TOPIC.warn("no_gpu", "no NVIDIA, AMD or Intel GPU is on this machine's PCI bus").remedy(
            "if it should have one: enable it in the BIOS (not \"integrated only\" or \"eco\"), or give it to this \
             virtual machine or container; otherwise train on the processor, with a small network and small images",
        ),
    }
}
