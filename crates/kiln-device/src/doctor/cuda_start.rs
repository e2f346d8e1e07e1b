//! Does CUDA start (`cuInit`), and which cards does it show?

use super::{
    check::{Check, Topic},
    facts::Facts,
    variables::visible_text,
};

const TOPIC: Topic = Topic {
    id: "cuda_start",
    title: "CUDA starts",
    why: "the driver may be there and still refuse: cards hidden by a variable, a stub library, a sick card after \
          suspend",
};

pub(super) fn check(facts: &Facts) -> Check {
    let cuda = &facts.sources.cuda;
    if facts.nvidia_sleeps() {
        return TOPIC.skip("not started: that would wake the sleeping GPU");
    }
    if cuda.driver_version.is_none() {
        return TOPIC.skip("no NVIDIA driver answers");
    }
    let finding = cuda.finding.clone().unwrap_or_default();
    if !cuda.devices.is_empty() {
        return TOPIC.ok(shown(facts));
    }
    if finding.contains("hidden by") {
        let value = facts.visible_devices.clone().unwrap_or_default();
        let uuids = facts.nvidia_uuids();
        let detail = if uuids.is_empty() { String::new() } else { format!("; {}", visible_text(&value, &uuids)) };
        return TOPIC
            .fail("hidden", format!("{finding}{detail}"))
            .remedy("unset CUDA_VISIBLE_DEVICES (or name a card in it), then start the program anew");
    }
    let (code, remedy) = match cuda.init_code {
        Some(34) => ("stub_library", "remove the folder that ends in /stubs from LD_LIBRARY_PATH".to_owned()),
        Some(100) => ("no_cuda_device", "sudo dmesg | grep -i NVRM shows why; usually a restart helps".to_owned()),
        Some(802) => ("not_ready", "sudo systemctl start nvidia-fabricmanager".to_owned()),
        Some(803) => ("driver_mismatch", "sudo reboot (the driver was updated since the last start)".to_owned()),
        Some(804) => (
            "compat_library",
            "remove the folder cuda/compat from LD_LIBRARY_PATH; it is for data-centre cards".to_owned(),
        ),
        Some(999) => (
            "driver_failed",
            "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm, or restart; to keep it from returning after suspend, \
             set NVreg_PreserveVideoMemoryAllocations=1"
                .to_owned(),
        ),
        _ => ("cuda_failed", facts.platform.install_nvidia()),
    };
    TOPIC.fail(code, finding).remedy(remedy)
}

/// The cards CUDA shows, and how many a variable hides.
fn shown(facts: &Facts) -> String {
    let devices = &facts.sources.cuda.devices;
    let names: Vec<String> = devices
        .iter()
        .enumerate()
        .map(|(index, card)| {
            let place = card.pci_address.map_or_else(String::new, |address| format!(" at {address}"));
            format!("cuda:{index} is {}{place}", card.name)
        })
        .collect();
    let all = facts.nvidia_uuids().len().max(facts.nvidia_cards().count());
    let hidden = all.saturating_sub(devices.len());
    match &facts.visible_devices {
        Some(value) if hidden > 0 => {
            format!("{}; {hidden} more hidden by CUDA_VISIBLE_DEVICES=\"{value}\"", names.join(", "))
        }
        _ => names.join(", "),
    }
}
