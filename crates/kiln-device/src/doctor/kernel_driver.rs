//! Does the kernel run the GPU with a driver that can compute, and may this user open it?

use super::{
    check::{Check, Status, Topic, worst},
    facts::{Facts, Node, NodeState},
    platform::System,
};
use crate::inventory::{
    BusDevice,
    bus::{VENDOR_AMD, VENDOR_NVIDIA},
};

const TOPIC: Topic = Topic {
    id: "kernel_driver",
    title: "kernel driver",
    why: "without its kernel driver, and the right to open its device files, no program can reach the GPU",
};

pub(super) fn check(facts: &Facts) -> Check {
    if facts.cards().is_empty() {
        return match facts.platform.system {
            System::Wsl if facts.dxg => TOPIC.ok("WSL uses the Windows driver"),
            System::Windows | System::Mac => TOPIC.skip("the system's own tools manage it"),
            _ => TOPIC.skip("no GPU on the PCI bus"),
        };
    }
    let mut checks: Vec<Check> = facts.cards().iter().map(|card| check_driver(facts, card)).collect();
    if checks.iter().all(|check| check.status < Status::Fail) {
        checks.extend(check_nvidia_nodes(facts));
    }
    checks.extend(facts.render_nodes.iter().filter_map(|node| check_render_node(facts, node)));
    worst(&TOPIC, checks)
}

fn check_driver(facts: &Facts, card: &BusDevice) -> Check {
    let place = card.name_and_place();
    let driver = card.driver.as_deref();
    match (card.vendor, driver) {
        (_, Some("vfio-pci")) => TOPIC.skip(format!("{place} belongs to a virtual machine")),
        (VENDOR_NVIDIA, None) => TOPIC
            .fail("nvidia_driver_missing", format!("{place} has no driver: NVIDIA's is not installed or not loaded"))
            .remedy(missing_nvidia(facts)),
        (VENDOR_NVIDIA, Some("nouveau")) => TOPIC
            .fail(
                "nvidia_on_nouveau",
                format!(
                    "{place} runs on nouveau, the open driver, which has no CUDA and leaves the card at low clocks"
                ),
            )
            .remedy(facts.platform.install_nvidia()),
        (VENDOR_NVIDIA, Some("nvidia")) => {
            let version = facts.nvidia_module.as_deref().map_or_else(String::new, |version| format!(" {version}"));
            TOPIC.ok(format!("{place} runs on NVIDIA's driver{version}"))
        }
        (vendor, None) => {
            let (code, module) = if vendor == VENDOR_AMD {
                ("amd_driver_missing", "amdgpu")
            } else {
                ("intel_driver_missing", "i915 or xe")
            };
            TOPIC.fail(code, format!("{place} has no driver ({module})")).remedy(format!(
                "sudo modprobe {}; if that fails, install a newer kernel and the package linux-firmware (Debian: \
                 firmware-amd-graphics, firmware-misc-nonfree)",
                module.split(' ').next().unwrap_or(module)
            ))
        }
        (VENDOR_AMD, Some("radeon")) => {
            TOPIC.fail("amd_on_radeon", format!("{place} runs on the old driver radeon, which has no Vulkan")).remedy(
                "if the card is of the GCN generation: add radeon.si_support=0 amdgpu.si_support=1 \
                     radeon.cik_support=0 amdgpu.cik_support=1 to the kernel's command line and restart",
            )
        }
        (_, Some(driver)) => TOPIC.ok(format!("{place} runs on {driver}")),
    }
}

fn missing_nvidia(facts: &Facts) -> String {
    let install = facts.platform.install_nvidia();
    if facts.platform.container {
        return install;
    }
    format!(
        "{install} (if it is installed already: sudo modprobe nvidia; where Secure Boot is on, the module must be \
         signed, see `mokutil --sb-state`)"
    )
}

/// Missing or closed files of a driver that doesn't answer.
fn check_nvidia_nodes(facts: &Facts) -> Option<Check> {
    let answers = !facts.sources.cuda.devices.is_empty() || facts.nvidia_sleeps();
    if answers || !facts.nvidia_driver_bound() || facts.nvidia_cards().next().is_none() {
        return None;
    }
    let with = |state| -> Vec<&str> {
        let nodes = facts.nvidia_nodes.iter().filter(|node| node.state == state);
        nodes.map(|node| node.path.as_str()).collect()
    };
    let (missing, refused) = (with(NodeState::Missing), with(NodeState::Refused));
    if !refused.is_empty() {
        let found = format!("this user may not open {}", refused.join(", "));
        return Some(
            TOPIC.fail("nvidia_nodes_refused", found).remedy("sudo usermod -aG video,render $USER, then log in anew"),
        );
    }
    if missing.is_empty() {
        return None;
    }
    let found = format!("{} missing", missing.join(", "));
    // Their absence is a symptom if the driver says itself what is wrong.
    if facts.sources.cuda.driver_version.is_some() {
        return None;
    }
    Some(if facts.platform.container {
        TOPIC
            .fail("container_without_gpu", format!("this container was started without the GPU ({found})"))
            .remedy("start the container with `--gpus all` (needs NVIDIA's container toolkit on the host)")
    } else {
        TOPIC.fail("nvidia_nodes_missing", found).remedy("sudo nvidia-modprobe -u -c 0")
    })
}

fn check_render_node(facts: &Facts, node: &Node) -> Option<Check> {
    // What is reached over CUDA doesn't need the neighbour's file.
    let main = !facts.has_nvidia();
    let check = |code, found: String| if main { TOPIC.fail(code, found) } else { TOPIC.warn(code, found) };
    match node.state {
        NodeState::Usable | NodeState::Untried => None,
        NodeState::Refused => Some(
            check("render_node_refused", format!("this user may not open {}", node.path))
                .remedy("sudo usermod -aG render,video $USER, then log in anew"),
        ),
        NodeState::Missing if facts.platform.container => Some(
            check("container_without_render_node", format!("this container was started without {}", node.path))
                .remedy("start the container with `--device /dev/dri`"),
        ),
        NodeState::Missing => Some(
            check("render_node_missing", format!("{} does not exist", node.path))
                .remedy("restart the machine; if it stays away, reinstall the kernel's modules"),
        ),
    }
}
