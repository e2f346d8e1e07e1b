//! Is the GPU given to this system, and awake or able to wake?

use super::{
    check::{Check, Topic, worst},
    facts::Facts,
};
use crate::inventory::BusDevice;

const TOPIC: Topic = Topic {
    id: "enabled",
    title: "enabled",
    why: "a GPU that is handed to a virtual machine or stuck in a power transition answers nobody; one that sleeps \
          is fine and wakes when it is used",
};

pub(super) fn check(facts: &Facts) -> Check {
    if facts.cards().is_empty() {
        return TOPIC.skip("no GPU on the PCI bus");
    }
    worst(&TOPIC, facts.cards().iter().map(check_card).collect())
}

fn check_card(card: &BusDevice) -> Check {
    let place = card.name_and_place();
    if card.driver.as_deref() == Some("vfio-pci") {
        return TOPIC
            .fail("passed_through", format!("{place} is set aside for a virtual machine (driver vfio-pci)"))
            .remedy(
                "use it inside that virtual machine, or remove its id from vfio-pci's options in /etc/modprobe.d and \
                 restart",
            );
    }
    match card.runtime_status.as_deref() {
        Some("error") => TOPIC
            .fail("power_error", format!("{place} failed to change its power state"))
            .remedy("restart the machine; `sudo dmesg` shows the kernel's messages about it"),
        Some("suspended") => {
            let state = card.power_state.as_deref().unwrap_or("suspended");
            TOPIC
                .ok(format!("{place} is asleep ({state}); it will wake on use, and was not woken for this examination"))
        }
        _ => TOPIC.ok(format!("{place} is on")),
    }
}
