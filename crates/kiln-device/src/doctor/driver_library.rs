//! Does the driver's own library load: `libcuda.so.1`, and `libnvidia-ml.so.1` for readings?

use super::{
    check::{Check, Topic, worst},
    facts::Facts,
    platform::System,
};
use crate::inventory::nvml;

const TOPIC: Topic = Topic {
    id: "driver_library",
    title: "NVIDIA driver library",
    why: "programs reach an NVIDIA GPU through libcuda.so.1, which comes with the driver and not with the CUDA toolkit",
};

pub(super) fn check(facts: &Facts) -> Check {
    if facts.nvidia_sleeps() {
        return TOPIC.skip("not loaded: that would wake the sleeping GPU");
    }
    let mut checks = vec![check_cuda(facts)];
    checks.extend(check_nvml(facts));
    worst(&TOPIC, checks)
}

fn check_cuda(facts: &Facts) -> Check {
    let cuda = &facts.sources.cuda;
    let finding = cuda.finding.clone().unwrap_or_default();
    let fail = |code, found: String| if facts.has_nvidia() { TOPIC.fail(code, found) } else { TOPIC.warn(code, found) };
    if cuda.driver_version.is_some() {
        return TOPIC.ok(format!("{} answers", cuda.library.display()));
    }
    if finding.contains("no answer") {
        return fail("driver_hangs", format!("NVIDIA's driver does not answer: {finding}")).remedy(
            "restart the machine; if it happens again, look at `sudo dmesg | grep -i -e NVRM -e Xid` and reinstall \
             the driver",
        );
    }
    if !facts.nvidia_driver_bound() {
        return TOPIC.skip("NVIDIA's kernel driver comes first");
    }
    if !facts.cuda_defects.is_empty() {
        let found = format!("NVIDIA's driver library is damaged: {}", facts.cuda_defects.join("; "));
        return fail("library_broken", found).remedy(reinstall(facts));
    }
    if finding.contains("is not installed") {
        return if facts.has_nvidia() {
            let found = if facts.platform.system == System::Windows {
                "nvcuda.dll is not installed; the driver puts it into C:\\Windows\\System32"
            } else {
                "libcuda.so.1 is not installed (looked in LD_LIBRARY_PATH, the loader's cache, /usr/lib64, \
                 /usr/lib/x86_64-linux-gnu, /usr/lib/wsl/lib)"
            };
            TOPIC.fail("library_missing", found).remedy(facts.platform.install_libcuda())
        } else if facts.platform.system == System::Wsl && facts.dxg {
            TOPIC
                .warn("library_missing", "WSL has no /usr/lib/wsl/lib/libcuda.so.1")
                .remedy(facts.platform.install_nvidia())
        } else {
            TOPIC.skip("no NVIDIA GPU")
        };
    }
    if finding.contains("Cargo feature") {
        return TOPIC.warn("not_built", finding).remedy("use a build of Kiln with its default features");
    }
    let code = if finding.contains("lacks") { "library_too_old" } else { "library_broken" };
    fail(code, finding).remedy(reinstall(facts))
}

fn reinstall(facts: &Facts) -> String {
    format!(
        "remove the file if it is in a folder of your own (LD_LIBRARY_PATH), else reinstall the driver: {}",
        facts.platform.install_libcuda()
    )
}

/// The management library is needed for readings only.
fn check_nvml(facts: &Facts) -> Option<Check> {
    let failure = facts.sources.nvml.as_ref()?.failure.as_ref()?;
    let text = if facts.nvml_defects.is_empty() {
        failure.text.clone()
    } else {
        format!("damaged: {}", facts.nvml_defects.join("; "))
    };
    let name = if facts.platform.system == System::Windows { "nvml.dll" } else { "libnvidia-ml.so.1" };
    let found = format!("no readings of temperature, power and load ({name}): {text}");
    match failure.code {
        // The version's own check tells it.
        nvml::VERSION_MISMATCH => None,
        nvml::LIBRARY_MISSING if !facts.has_nvidia() && facts.nvml_defects.is_empty() => None,
        _ if !facts.nvidia_driver_bound() => None,
        nvml::NO_PERMISSION => {
            Some(TOPIC.warn("nvml_refused", found).remedy("ask the administrator; training works without"))
        }
        nvml::LIBRARY_MISSING if facts.nvml_defects.is_empty() => {
            Some(TOPIC.warn("nvml_missing", found).remedy(facts.platform.install_libcuda()))
        }
        _ => Some(TOPIC.warn("nvml_broken", found).remedy(reinstall(facts))),
    }
}
