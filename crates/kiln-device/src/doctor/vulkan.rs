//! Do the Vulkan loader and its drivers' manifests hold together?

use super::{
    check::{Check, Topic, worst},
    facts::Facts,
    platform::System,
};
use crate::inventory::vulkan_files::Manifest;

const TOPIC: Topic = Topic {
    id: "vulkan",
    title: "Vulkan",
    why: "AMD and Intel GPUs are reached through Vulkan, NVIDIA's as well where CUDA is missing",
};

pub(super) fn check(facts: &Facts) -> Check {
    if !matches!(facts.platform.system, System::Linux(_) | System::Wsl) {
        return TOPIC.skip("the system brings its own graphics interface");
    }
    let mut checks = vec![check_loader(facts)];
    checks.extend(facts.manifests.iter().filter_map(|manifest| check_manifest(facts, manifest)));
    worst(&TOPIC, checks)
}

/// Whether some GPU depends on Vulkan.
fn matters(facts: &Facts) -> bool {
    facts.has_gpu() && facts.sources.cuda.devices.is_empty()
}

fn check_loader(facts: &Facts) -> Check {
    let finding = facts.sources.wgpu.finding.clone().unwrap_or_default();
    let bad = |code, found: String| if matters(facts) { TOPIC.fail(code, found) } else { TOPIC.warn(code, found) };
    if let Some(defect) = facts.vulkan_defects.first() {
        return bad("vulkan_loader_broken", format!("the Vulkan loader is damaged: {defect}")).remedy(format!(
            "remove the file if it is in a folder of your own (LD_LIBRARY_PATH), else reinstall it: {}",
            facts.platform.install_vulkan()
        ));
    }
    if finding.contains("no answer") {
        return bad("vulkan_hangs", format!("a Vulkan driver does not answer: {finding}")).remedy(
            "restart the machine; if it stays, name the good driver alone: export VK_DRIVER_FILES=<its file in \
             /usr/share/vulkan/icd.d>",
        );
    }
    if finding.contains("ended the process") {
        return bad("vulkan_crashes", format!("a Vulkan driver crashes: {finding}"))
            .remedy("name the good driver alone: export VK_DRIVER_FILES=<its file in /usr/share/vulkan/icd.d>");
    }
    if facts.vulkan_loader.is_empty() && facts.sources.wgpu.adapters.is_empty() {
        let check = bad("vulkan_loader_missing", "the Vulkan loader (libvulkan.so.1) is not installed".to_owned());
        return check.remedy(facts.platform.install_vulkan());
    }
    if facts.manifests.is_empty() {
        let found = format!("no Vulkan driver is installed{}", hiding(facts));
        return bad("vulkan_driver_missing", found).remedy(facts.platform.install_vulkan());
    }
    let names: Vec<String> = facts.manifests.iter().map(name).collect();
    TOPIC.ok(format!("loader and {} drivers: {}{}", names.len(), names.join(", "), hiding(facts)))
}

fn name(manifest: &Manifest) -> String {
    manifest.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The variables that limit which drivers are seen.
fn hiding(facts: &Facts) -> String {
    let names = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE"];
    let set: Vec<String> = facts
        .variables()
        .into_iter()
        .filter(|variable| names.contains(&variable.name))
        .map(|variable| format!("{}={}", variable.name, variable.value))
        .collect();
    if set.is_empty() { String::new() } else { format!(" (limited by {})", set.join(", ")) }
}

fn check_manifest(facts: &Facts, manifest: &Manifest) -> Option<Check> {
    let defect = manifest.defect.as_ref()?;
    let found = format!("{} {defect}", manifest.path.display());
    let none_left = facts.manifests.iter().all(|manifest| manifest.defect.is_some());
    let check = if none_left && matters(facts) {
        TOPIC.fail("vulkan_manifest_broken", found)
    } else {
        TOPIC.warn("vulkan_manifest_broken", found)
    };
    Some(check.remedy(format!(
        "remove {} or reinstall its driver; if a variable names it, unset VK_DRIVER_FILES and VK_ICD_FILENAMES",
        manifest.path.display()
    )))
}
