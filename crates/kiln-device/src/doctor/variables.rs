//! The environment variables that decide which GPU a program gets, as they are set.

use std::env;

use serde::Serialize;

use crate::inventory::visible_devices::visible_devices;

/// A variable that is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Who reads it, and what it does.
    pub effect: String,
}

/// Name, and who reads it to what effect.
const KNOWN: [(&str, &str); 24] = [
    ("KILN_DEVICE", "Kiln: the device to use"),
    ("CUDA_VISIBLE_DEVICES", "NVIDIA's driver: the cards CUDA may use"),
    ("CUDA_DEVICE_ORDER", "NVIDIA's driver: FASTEST_FIRST (default) or PCI_BUS_ID, the order of nvidia-smi"),
    ("NVIDIA_VISIBLE_DEVICES", "NVIDIA's container toolkit: the cards a container gets"),
    ("CUDA_PATH", "Kiln and burn: where NVRTC and CUDA's headers are looked for first"),
    ("CUDA_HOME", "Kiln: looked in after CUDA_PATH"),
    ("CUDA_CACHE_PATH", "NVIDIA's driver: where compiled kernels are kept"),
    ("CUDA_CACHE_DISABLE", "NVIDIA's driver: 1 compiles every kernel anew at each start"),
    ("CUDA_LAUNCH_BLOCKING", "NVIDIA's driver: 1 waits for every kernel, which is slow"),
    ("LD_LIBRARY_PATH", "the loader: libraries found here go before the system's, drivers included"),
    ("LD_PRELOAD", "the loader: libraries put into every program"),
    ("VK_DRIVER_FILES", "the Vulkan loader: only these drivers are seen"),
    ("VK_ICD_FILENAMES", "the Vulkan loader: older name of VK_DRIVER_FILES"),
    ("VK_ADD_DRIVER_FILES", "the Vulkan loader: drivers to see as well"),
    ("VK_LOADER_DRIVERS_SELECT", "the Vulkan loader: only matching drivers are seen"),
    ("VK_LOADER_DRIVERS_DISABLE", "the Vulkan loader: matching drivers are hidden"),
    ("MESA_VK_DEVICE_SELECT", "Mesa: reorders Vulkan devices; a trailing ! hides the others"),
    ("DRI_PRIME", "Mesa only: no effect on CUDA or NVIDIA's driver; Kiln picks the GPU by itself"),
    ("__NV_PRIME_RENDER_OFFLOAD", "NVIDIA's driver for drawing: not needed for computing"),
    ("__VK_LAYER_NV_optimus", "NVIDIA's Vulkan layer: NVIDIA_only or non_NVIDIA_only hides the other cards"),
    ("WGPU_BACKEND", "not read by Kiln; use --device"),
    ("WGPU_ADAPTER_NAME", "not read by Kiln; use --device"),
    ("WGPU_POWER_PREF", "not read by Kiln; use --device"),
    ("CUBECL_AUTOTUNE_LEVEL", "cubecl: how long it searches for fast kernels"),
];

/// The variables that are set. `uuids` are the identifiers of all NVIDIA cards, if known.
pub(super) fn variables(uuids: &[String]) -> Vec<Variable> {
    variables_of(&|name| Some(env::var_os(name)?.to_string_lossy().into_owned()), uuids)
}

fn variables_of(value_of: &dyn Fn(&str) -> Option<String>, uuids: &[String]) -> Vec<Variable> {
    KNOWN
        .iter()
        .filter_map(|(name, effect)| {
            // Only for this one an empty value means something.
            let value = value_of(name).filter(|value| !value.is_empty() || *name == "CUDA_VISIBLE_DEVICES")?;
            let mut effect = (*effect).to_owned();
            if *name == "CUDA_VISIBLE_DEVICES" {
                effect = format!("{effect}; {}", visible_text(&value, uuids));
            }
            if *name == "LD_LIBRARY_PATH" && value.contains("/stubs") {
                effect.push_str("; it names a folder of stubs, which are no drivers: remove it");
            }
            Some(Variable { name, value, effect })
        })
        .collect()
}

/// What a value of `CUDA_VISIBLE_DEVICES` does to these cards.
pub(super) fn visible_text(value: &str, uuids: &[String]) -> String {
    if uuids.is_empty() {
        return "which cards it leaves can't be told, since their identifiers are unknown".to_owned();
    }
    let visible = visible_devices(value, uuids);
    let numbers: Vec<String> = visible.indices.iter().map(ToString::to_string).collect();
    let left = if let Some(part) = &visible.part {
        let card = numbers.first().map_or_else(String::new, |number| format!(" of card {number}"));
        format!("it leaves the part {part}{card} alone")
    } else if numbers.is_empty() {
        format!("it hides all {} cards", uuids.len())
    } else {
        format!("of {} cards it leaves {}", uuids.len(), numbers.join(", "))
    };
    visible.ended_by.map_or(left.clone(), |reason| format!("{left}, since {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_told_with_its_reader() {
        let set = [("CUDA_VISIBLE_DEVICES", "0,7"), ("DRI_PRIME", "1"), ("LD_LIBRARY_PATH", "/cuda/lib64/stubs")];
        let value_of = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
        let told = variables_of(&value_of, &["GPU-1".to_owned(), "GPU-2".to_owned()]);
        let effects: Vec<&str> = told.iter().map(|variable| variable.effect.as_str()).collect();
        assert_eq!(told.len(), 3);
        assert!(effects[0].ends_with("of 2 cards it leaves 0, since there is no card 7"), "{}", effects[0]);
        let uuids = ["GPU-1".to_owned()];
        assert_eq!(visible_text("MIG-GPU-1/7/0", &uuids), "it leaves the part MIG-GPU-1/7/0 of card 0 alone");
        assert_eq!(visible_text("MIG-2", &uuids), "it leaves the part MIG-2 alone");
        assert!(effects[1].contains("folder of stubs"), "{}", effects[1]);
        assert!(effects[2].starts_with("Mesa only"), "{}", effects[2]);
    }
}
