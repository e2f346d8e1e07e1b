//! Which GPUs does the graphics interface (Vulkan, DirectX 12, Metal) show, and are they GPUs?

use super::{
    check::{Check, Topic, worst},
    facts::Facts,
    platform::System,
};
use crate::inventory::{
    Api, BusDevice,
    bus::VENDOR_NVIDIA,
    wgpu::{Adapter, AdapterKind},
};

const TOPIC: Topic = Topic {
    id: "adapter",
    title: "GPUs through Vulkan",
    why: "only what is listed here can be used without CUDA; llvmpipe and its like look like GPUs and are the \
          processor",
};

pub(super) fn check(facts: &Facts) -> Check {
    let adapters = &facts.sources.wgpu.adapters;
    let (software, gpus): (Vec<&Adapter>, Vec<&Adapter>) = adapters.iter().partition(|adapter| adapter.is_software());
    let mut found: Vec<String> = gpus.iter().map(|adapter| described(adapter)).collect();
    if let Some(first) = software.first() {
        found.push(format!("{} draws on the processor and is no GPU: refused", first.name));
    }
    let mut checks = Vec::new();
    if found.is_empty() {
        checks.push(none(facts));
    } else {
        checks.push(TOPIC.ok(found.join("; ")));
    }
    checks.extend(facts.cards().iter().filter_map(|card| missing(facts, card)));
    checks.extend(gpus.iter().filter_map(|adapter| only_under_directx(facts, adapter)));
    worst(&TOPIC, checks)
}

fn described(adapter: &Adapter) -> String {
    let kind = match adapter.kind {
        AdapterKind::DiscreteGpu => "discrete",
        AdapterKind::IntegratedGpu => "integrated",
        AdapterKind::VirtualGpu => "virtual",
        AdapterKind::Cpu | AdapterKind::Other => "of unknown kind",
    };
    format!("{} ({kind}, {})", adapter.name, adapter.api)
}

fn none(facts: &Facts) -> Check {
    let finding = facts.sources.wgpu.finding.clone().unwrap_or_else(|| "no adapter".to_owned());
    if !facts.has_gpu() || !facts.sources.cuda.devices.is_empty() {
        return TOPIC.skip(finding);
    }
    TOPIC.warn("no_adapter", finding).remedy(facts.platform.install_vulkan())
}

/// A card on the bus that should be listed and isn't.
fn missing(facts: &Facts, card: &BusDevice) -> Option<Check> {
    let listed = facts.sources.wgpu.adapters.iter().any(|adapter| {
        adapter.pci_address.is_none_or(|address| address == card.address)
            && (adapter.vendor, adapter.device) == (card.vendor, card.device)
    });
    let nvidia = card.vendor == VENDOR_NVIDIA;
    // NVIDIA's have checks of their own, and a card without a driver can't be listed.
    if listed || nvidia || card.is_asleep() || card.driver.is_none() {
        return None;
    }
    let found = format!("{} is not among them", card.name_and_place());
    let check =
        if facts.has_nvidia() { TOPIC.warn("gpu_not_listed", found) } else { TOPIC.fail("gpu_not_listed", found) };
    let nodes_missing = facts.render_nodes.iter().any(|node| node.state == super::facts::NodeState::Missing);
    Some(check.remedy(if nodes_missing && facts.platform.container {
        "start the container with `--device /dev/dri`".to_owned()
    } else {
        facts.platform.install_vulkan()
    }))
}

/// Windows: what DirectX 12 shows and Vulkan doesn't is usually hidden by a setting.
fn only_under_directx(facts: &Facts, adapter: &Adapter) -> Option<Check> {
    if facts.platform.system != System::Windows || adapter.api != Api::Dx12 {
        return None;
    }
    let both = facts
        .sources
        .wgpu
        .adapters
        .iter()
        .any(|other| other.api == Api::Vulkan && (other.vendor, other.device) == (adapter.vendor, adapter.device));
    (!both).then(|| {
        TOPIC.warn("only_directx", format!("{} is shown by DirectX 12 and not by Vulkan", adapter.name)).remedy(
            "Settings > System > Display > Graphics: add kiln.exe and choose High performance; in NVIDIA Control \
             Panel > Manage 3D settings > Program settings: High-performance NVIDIA processor",
        )
    })
}
