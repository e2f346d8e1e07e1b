//! The operating system, as far as remedies differ: which package manager, WSL, container.
//!
//! Debian's package names were looked up in Debian 12 (main, contrib, non-free, non-free-firmware). Those of Ubuntu, Fedora,
//! Arch and SUSE are from their documentation and weren't tried: a correction is welcome.

use std::path::Path;

use crate::inventory::bus::text;

/// What kind of system this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Linux(Family),
    /// Linux inside Windows; the GPU's driver is the Windows one.
    Wsl,
    Windows,
    Mac,
}

/// Which distributions share their package names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Debian,
    Ubuntu,
    Fedora,
    Arch,
    Suse,
    Other,
}

/// The system a remedy is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Platform {
    pub(crate) system: System,
    /// Its name for people.
    pub(crate) name: String,
    /// Whether this is a container, whose host has the drivers.
    pub(crate) container: bool,
}

impl Platform {
    /// The platform below `root`, normally `/`.
    pub(crate) fn of(root: &Path) -> Self {
        if cfg!(windows) {
            return Self { system: System::Windows, name: "Windows".to_owned(), container: false };
        }
        if cfg!(target_vendor = "apple") {
            return Self { system: System::Mac, name: "macOS".to_owned(), container: false };
        }
        let kernel = text(&root.join("proc/version")).unwrap_or_default().to_ascii_lowercase();
        let release = text(&root.join("etc/os-release")).unwrap_or_default();
        let field = |name: &str| {
            let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
            Some(line.trim_matches('"').to_owned())
        };
        let name = field("PRETTY_NAME").unwrap_or_else(|| "Linux".to_owned());
        let container = [".dockerenv", "run/.containerenv"].iter().any(|file| root.join(file).exists());
        if kernel.contains("microsoft") {
            return Self { system: System::Wsl, name: format!("{name} under WSL"), container };
        }
        let ids = format!("{} {}", field("ID").unwrap_or_default(), field("ID_LIKE").unwrap_or_default());
        Self { system: System::Linux(family(&ids)), name, container }
    }

    /// How to get NVIDIA's driver.
    pub(crate) fn install_nvidia(&self) -> String {
        match self.system {
            System::Wsl => "install the current NVIDIA driver in Windows (never a Linux driver inside WSL), then \
                            run `wsl --update` and `wsl --shutdown` in Windows"
                .to_owned(),
            System::Windows => "install the Studio or Game Ready driver from https://www.nvidia.com/drivers and \
                                restart"
                .to_owned(),
            _ if self.container => "the host needs NVIDIA's driver and its container toolkit; start the container \
                                    with `--gpus all`"
                .to_owned(),
            System::Linux(family) => match family {
                Family::Ubuntu => "sudo ubuntu-drivers install && sudo reboot",
                Family::Debian => {
                    "add the components contrib, non-free and non-free-firmware to /etc/apt/sources.list, then \
                     sudo apt update && sudo apt install nvidia-driver && sudo reboot"
                }
                Family::Fedora => {
                    "enable RPM Fusion (nonfree), then sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda && \
                     sudo reboot"
                }
                Family::Arch => "sudo pacman -S nvidia-open nvidia-utils && sudo reboot",
                Family::Suse => {
                    "add NVIDIA's repository, then sudo zypper install nvidia-open-driver-G06-signed-kmp-default \
                     nvidia-compute-G06 && sudo reboot"
                }
                Family::Other => {
                    "install NVIDIA's driver from your distribution or https://www.nvidia.com/drivers, \
                                  then restart"
                }
            }
            .to_owned(),
            System::Mac => "use a Mac with Apple silicon: NVIDIA cards have no driver there".to_owned(),
        }
    }

    /// How to get a newer NVIDIA driver.
    pub(crate) fn update_nvidia(&self) -> String {
        if self.container {
            return "update NVIDIA's driver on the host to 580 or newer (525.60.13 at least)".to_owned();
        }
        format!("install NVIDIA driver 580 or newer (525.60.13 at least): {}", self.install_nvidia())
    }

    /// How to get the part of NVIDIA's driver that holds `libcuda.so.1`.
    pub(crate) fn install_libcuda(&self) -> String {
        match self.system {
            System::Linux(Family::Debian) if !self.container => "sudo apt install libcuda1".to_owned(),
            System::Linux(Family::Ubuntu) if !self.container => {
                "sudo apt install libnvidia-compute-NNN, with the number of the installed driver (`ubuntu-drivers \
                 list`)"
                    .to_owned()
            }
            System::Linux(Family::Fedora) if !self.container => {
                "sudo dnf install xorg-x11-drv-nvidia-cuda-libs".to_owned()
            }
            System::Linux(Family::Arch) if !self.container => "sudo pacman -S nvidia-utils".to_owned(),
            _ => self.install_nvidia(),
        }
    }

    /// How to get Vulkan for AMD and Intel.
    pub(crate) fn install_vulkan(&self) -> String {
        match self.system {
            System::Linux(Family::Debian | Family::Ubuntu) => {
                "sudo apt install mesa-vulkan-drivers libvulkan1".to_owned()
            }
            System::Linux(Family::Fedora) => "sudo dnf install mesa-vulkan-drivers vulkan-loader".to_owned(),
            System::Linux(Family::Arch) => {
                "sudo pacman -S vulkan-icd-loader and vulkan-radeon (AMD) or vulkan-intel (Intel)".to_owned()
            }
            System::Linux(Family::Suse) => "sudo zypper install libvulkan1 libvulkan_radeon libvulkan_intel".to_owned(),
            System::Linux(Family::Other) => "install Mesa's Vulkan drivers and the Vulkan loader".to_owned(),
            System::Wsl => {
                "nothing is to be had: WSL offers GPUs through CUDA only; use CUDA, or run in Windows".to_owned()
            }
            System::Windows => "install the maker's graphics driver (AMD, Intel or NVIDIA) and restart".to_owned(),
            System::Mac => "update macOS".to_owned(),
        }
    }
}

fn family(ids: &str) -> Family {
    let has = |name: &str| ids.split_ascii_whitespace().any(|id| id == name);
    // Ubuntu and its children say that they are like Debian.
    if has("ubuntu") || has("pop") || has("linuxmint") {
        Family::Ubuntu
    } else if has("debian") {
        Family::Debian
    } else if has("fedora") || has("rhel") || has("centos") {
        Family::Fedora
    } else if has("arch") || has("manjaro") {
        Family::Arch
    } else if ids.contains("suse") {
        Family::Suse
    } else {
        Family::Other
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::inventory::bus::tests::put;

    fn platform(release: &str, kernel: &str) -> Platform {
        let root = tempfile::tempdir().expect("a temporary folder");
        put(root.path(), "etc/os-release", release);
        put(root.path(), "proc/version", kernel);
        Platform::of(root.path())
    }

    #[test]
    fn the_remedy_is_for_this_distribution() {
        for (release, part) in [
            ("ID=ubuntu\nID_LIKE=debian", "ubuntu-drivers"),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"", "ubuntu-drivers"),
            ("ID=debian", "apt install nvidia-driver"),
            ("ID=fedora", "dnf install akmod-nvidia"),
            ("ID=manjaro\nID_LIKE=arch", "pacman"),
            ("ID=opensuse-tumbleweed\nID_LIKE=\"opensuse suse\"", "zypper"),
            ("ID=gentoo", "nvidia.com"),
        ] {
            let remedy = platform(release, "Linux version 6.1").install_nvidia();
            assert!(remedy.contains(part), "{release}: {remedy}");
        }
    }

    #[test]
    fn under_wsl_no_linux_driver_is_advised() {
        let wsl = platform("ID=ubuntu", "Linux version 5.15.167.4-microsoft-standard-WSL2");
        assert_eq!(wsl.system, System::Wsl);
        assert!(wsl.install_nvidia().contains("in Windows") && !wsl.install_nvidia().contains("apt"));
    }
}
