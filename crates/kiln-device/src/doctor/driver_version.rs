//! Is the NVIDIA driver new enough, and do its two halves fit together?

use super::{
    check::{Check, Topic},
    facts::Facts,
    platform::System,
};
use crate::inventory::{
    cuda::{CudaVersion, OLDEST_DRIVER},
    nvml,
};

const TOPIC: Topic = Topic {
    id: "driver_version",
    title: "NVIDIA driver version",
    why: "a driver runs programs made for its own CUDA version or an older one: CUDA 12 needs driver 525, CUDA 13 \
          driver 580",
};

pub(super) fn check(facts: &Facts) -> Check {
    if facts.nvidia_sleeps() {
        return match &facts.nvidia_module {
            Some(version) => TOPIC.ok(format!("NVIDIA driver {version}; its CUDA version is told when the GPU wakes")),
            None => TOPIC.skip("the GPU sleeps"),
        };
    }
    let failure = facts.sources.nvml.as_ref().and_then(|nvml| nvml.failure.as_ref());
    let mismatch = failure.is_some_and(|failure| failure.code == nvml::VERSION_MISMATCH)
        || facts.sources.cuda.init_code == Some(803);
    if mismatch {
        let loaded = facts.nvidia_module.as_deref().unwrap_or("of another version");
        let found = format!("the loaded kernel module is {loaded}, and the installed libraries are of another version");
        return TOPIC
            .fail("driver_mismatch", found)
            .remedy("sudo reboot (the driver was updated since the last start)");
    }
    let told = facts.sources.nvml.as_ref().and_then(|nvml| nvml.cuda).map(CudaVersion::from_driver_number);
    let Some(cuda) = facts.sources.cuda.driver_version.or(told) else {
        return TOPIC.skip("no NVIDIA driver answers");
    };
    let release = facts.nvidia_release().unwrap_or_else(|| "(its own version is not told)".to_owned());
    let found = format!("NVIDIA driver {release} supports CUDA {cuda}");
    if cuda < OLDEST_DRIVER {
        let windows = matches!(facts.platform.system, System::Windows | System::Wsl);
        let also = if windows { "; on Windows 527.41 (CUDA 12)" } else { "" };
        return TOPIC
            .fail(
                "driver_too_old",
                format!("{found}, and Kiln needs driver 525.60.13 (CUDA 12) or 580 (CUDA 13) or newer{also}"),
            )
            .remedy(facts.platform.update_nvidia());
    }
    TOPIC.ok(found)
}
