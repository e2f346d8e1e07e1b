//! GPUs as the kernel describes them on the PCI bus, whether or not any driver can use them.
//!
//! In: Linux's sysfs and procfs below a root folder, so that a recorded machine can be read as well. Out: one
//! [`BusDevice`] a GPU. Only files that don't wake a sleeping card are read: nothing of a suspended card but what
//! the kernel keeps in memory, and never its `config`. A file that is missing, unreadable or holds something
//! else is an absent value. Source: docs.kernel.org, "PCI sysfs" and "amdgpu driver-misc". Other systems have no
//! such folder: the list is empty there, and under WSL too, where the GPU isn't on Linux's bus.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::pci::PciAddress;

pub(crate) const VENDOR_NVIDIA: u32 = 0x10de;
pub(crate) const VENDOR_AMD: u32 = 0x1002;
pub(crate) const VENDOR_INTEL: u32 = 0x8086;

/// One GPU on the PCI bus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BusDevice {
    /// Its address.
    pub address: PciAddress,
    /// PCI vendor number.
    pub vendor: u32,
    /// PCI device number.
    pub device: u32,
    /// The kernel driver bound to it (`nvidia`, `nouveau`, `amdgpu`, `i915`, `xe`, `vfio-pci`).
    pub driver: Option<String>,
    /// The model's name, where the driver tells it.
    pub model: Option<String>,
    /// `active`, `suspended`, `suspending`, `resuming`, `error` or `unsupported`.
    pub runtime_status: Option<String>,
    /// `D0` to `D3cold`.
    pub power_state: Option<String>,
    /// `auto` if the kernel may suspend it, `on` if not.
    pub power_control: Option<String>,
    /// Whether the firmware started the machine's display on it.
    pub boot_display: Option<bool>,
    /// Whether a screen is connected to it.
    pub drives_display: bool,
    /// PCIe link as it is now; the generation drops when the card idles.
    pub link: Option<PcieLink>,
    /// PCIe link at its best.
    pub max_link: Option<PcieLink>,
    /// Memory of its own, bytes (amdgpu).
    pub vram_bytes: Option<u64>,
    /// Memory of the machine that it may map, bytes (amdgpu).
    pub shared_bytes: Option<u64>,
    /// The node that programs open, such as `renderD128`.
    pub render_node: Option<String>,
    /// Whether it is part of the processor, as far as that can be told.
    pub integrated: bool,
    /// The device's folder.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
    /// The folder of its `cardN`.
    #[serde(skip)]
    pub(crate) card_folder: Option<PathBuf>,
}

/// Speed and width of a PCIe link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PcieLink {
    /// As the kernel writes it, `16.0 GT/s`.
    pub speed: String,
    /// Number of lanes.
    pub width: u32,
}

impl BusDevice {
    /// Whether the card sleeps. Asking its driver anything would wake it.
    pub fn is_asleep(&self) -> bool {
        self.runtime_status.as_deref() == Some("suspended")
    }

    /// Memory that training can use, bytes: a card's own; for a part of the processor also what it may share.
    pub fn budget_bytes(&self) -> Option<u64> {
        let own = self.vram_bytes?;
        Some(if self.integrated { own + self.shared_bytes.unwrap_or(0) } else { own })
    }

    /// What to call it: its model, or its maker and number.
    pub fn name(&self) -> String {
        let maker = match self.vendor {
            VENDOR_NVIDIA => "NVIDIA",
            VENDOR_AMD => "AMD",
            _ => "Intel",
        };
        self.model.clone().unwrap_or_else(|| format!("{maker} GPU {:04x}:{:04x}", self.vendor, self.device))
    }

    /// `NVIDIA GPU 10de:25a2 at 0000:01:00.0`.
    pub fn name_and_place(&self) -> String {
        let id = format!("{:04x}:{:04x}", self.vendor, self.device);
        let name = self.name();
        if name.contains(&id) {
            return format!("{name} at {}", self.address);
        }
        format!("{name} ({id}) at {}", self.address)
    }
}

/// The GPUs below `root` (normally `/`), by address.
pub(crate) fn gpus(root: &Path) -> Vec<BusDevice> {
    let entries = fs::read_dir(root.join("sys/bus/pci/devices")).into_iter().flatten().flatten();
    let mut gpus: Vec<BusDevice> = entries.filter_map(|entry| read(root, &entry.path())).collect();
    gpus.sort_by_key(|gpu| gpu.address);
    gpus
}

fn read(root: &Path, folder: &Path) -> Option<BusDevice> {
    let address: PciAddress = folder.file_name()?.to_str()?.parse().ok()?;
    // 0x03 is "display controller"; a card's audio function has another class.
    let class = hexadecimal(&folder.join("class"))?;
    let vendor = hexadecimal(&folder.join("vendor"))?;
    // Server management chips and the screens of virtual machines are display controllers too.
    if class >> 16 != 3 || ![VENDOR_NVIDIA, VENDOR_AMD, VENDOR_INTEL].contains(&vendor) {
        return None;
    }
    let driver = link_name(&folder.join("driver"));
    let (card_folder, render_node) = drm_nodes(folder);
    let runtime_status = text(&folder.join("power/runtime_status"));
    let awake = runtime_status.as_deref() != Some("suspended");
    let integrated = match vendor {
        VENDOR_INTEL => address.bus == 0,
        // The kernel offers this file for cards only.
        VENDOR_AMD => driver.as_deref() == Some("amdgpu") && !folder.join("mem_busy_percent").exists(),
        _ => false,
    };
    Some(BusDevice {
        address,
        vendor,
        device: hexadecimal(&folder.join("device"))?,
        model: (vendor == VENDOR_NVIDIA).then(|| nvidia_model(root, address)).flatten(),
        power_state: text(&folder.join("power_state")),
        power_control: text(&folder.join("power/control")),
        boot_display: number(&folder.join("boot_vga")).map(|value| value == 1),
        drives_display: card_folder.as_deref().is_some_and(has_screen),
        // A sleeping card's registers read as nonsense.
        link: awake.then(|| link(folder, "current")).flatten(),
        max_link: awake.then(|| link(folder, "max")).flatten(),
        vram_bytes: awake.then(|| number(&folder.join("mem_info_vram_total"))).flatten(),
        shared_bytes: awake.then(|| number(&folder.join("mem_info_gtt_total"))).flatten(),
        driver,
        runtime_status,
        render_node,
        integrated,
        folder: folder.to_owned(),
        card_folder,
    })
}

/// A file's trimmed text, unless it is empty or can't be read.
pub(crate) fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A file's decimal number.
pub(crate) fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

fn hexadecimal(path: &Path) -> Option<u32> {
    u32::from_str_radix(text(path)?.trim_start_matches("0x"), 16).ok()
}

fn link_name(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.file_name()?.to_str()?.to_owned())
}

fn link(folder: &Path, which: &str) -> Option<PcieLink> {
    let speed = text(&folder.join(format!("{which}_link_speed")))?;
    let width = number(&folder.join(format!("{which}_link_width")))?;
    // The kernel writes "Unknown" and a width of 0 or 255 for a link that it can't read.
    if speed.starts_with("Unknown") || !(1..=32).contains(&width) {
        return None;
    }
    Some(PcieLink { speed: speed.trim_end_matches(" PCIe").to_owned(), width: width as u32 })
}

fn drm_nodes(folder: &Path) -> (Option<PathBuf>, Option<String>) {
    let (mut card, mut render) = (None, None);
    for entry in fs::read_dir(folder.join("drm")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("renderD") {
            render = Some(name);
        } else if name.strip_prefix("card").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
            card = Some(entry.path());
        }
    }
    (card, render)
}

fn has_screen(card: &Path) -> bool {
    let entries = fs::read_dir(card).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| text(&path.join("status")).as_deref() == Some("connected"))
}

fn nvidia_model(root: &Path, address: PciAddress) -> Option<String> {
    let information = fs::read_to_string(root.join(format!("proc/driver/nvidia/gpus/{address}/information"))).ok()?;
    let model = information.lines().find_map(|line| line.strip_prefix("Model:"))?.trim();
    (!model.is_empty() && model != "Unknown").then(|| model.to_owned())
}

/// Version of the loaded NVIDIA kernel module, such as 550.90.07.
pub(crate) fn nvidia_module_version(root: &Path) -> Option<String> {
    text(&root.join("sys/module/nvidia/version")).or_else(|| {
        // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 ..."
        let version = fs::read_to_string(root.join("proc/driver/nvidia/version")).ok()?;
        let line = version.lines().find(|line| line.starts_with("NVRM version:"))?;
        line.split_ascii_whitespace().find(|word| is_release(word)).map(str::to_owned)
    })
}

/// Whether a word looks like 550.90.07.
fn is_release(word: &str) -> bool {
    word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

#[cfg(all(test, unix))]
pub(crate) mod tests {
    use super::*;

    /// Writes a file below `root`.
    pub(crate) fn put(root: &Path, path: &str, contents: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, format!("{contents}\n")).expect("a written file");
    }

    /// Puts a GPU on the bus of the machine at `root`, and gives its folder.
    pub(crate) fn put_gpu(root: &Path, address: &str, id: (&str, &str), class: &str, driver: &str) -> String {
        let folder = format!("sys/bus/pci/devices/{address}");
        put(root, &format!("{folder}/vendor"), id.0);
        put(root, &format!("{folder}/device"), id.1);
        put(root, &format!("{folder}/class"), class);
        if !driver.is_empty() {
            let target = root.join("sys/bus/pci/drivers").join(driver);
            fs::create_dir_all(&target).expect("a folder");
            std::os::unix::fs::symlink(target, root.join(&folder).join("driver")).expect("a link");
        }
        folder
    }

    #[test]
    fn only_display_controllers_of_gpu_makers_are_gpus() {
        let root = tempfile::tempdir().expect("a temporary folder");
        put_gpu(root.path(), "0000:01:00.0", ("0x10de", "0x25a2"), "0x030200", "nvidia");
        put_gpu(root.path(), "0000:01:00.1", ("0x10de", "0x2291"), "0x040300", "snd_hda_intel");
        put_gpu(root.path(), "0000:02:00.0", ("0x1a03", "0x2000"), "0x030000", "ast");
        put_gpu(root.path(), "0000:00:02.0", ("0x8086", "0x46a6"), "0x030000", "i915");
        let found: Vec<_> = gpus(root.path()).iter().map(BusDevice::name_and_place).collect();
        assert_eq!(found, ["Intel GPU 8086:46a6 at 0000:00:02.0", "NVIDIA GPU 10de:25a2 at 0000:01:00.0"]);
    }

    #[test]
    fn a_sleeping_card_keeps_what_the_kernel_knows_without_waking_it() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folder = put_gpu(root.path(), "0000:01:00.0", ("0x10de", "0x25a2"), "0x030200", "nvidia");
        put(root.path(), &format!("{folder}/power/runtime_status"), "suspended");
        put(root.path(), &format!("{folder}/power_state"), "D3cold");
        put(root.path(), &format!("{folder}/current_link_speed"), "2.5 GT/s PCIe");
        put(root.path(), &format!("{folder}/current_link_width"), "8");
        let gpu = gpus(root.path()).remove(0);
        assert!(gpu.is_asleep());
        assert_eq!(gpu.power_state.as_deref(), Some("D3cold"));
        assert_eq!(gpu.link, None);
    }

    #[test]
    fn links_screens_and_memory_are_read_and_nonsense_is_absent() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folder = put_gpu(root.path(), "0000:c4:00.0", ("0x1002", "0x15bf"), "0x030000", "amdgpu");
        put(root.path(), &format!("{folder}/max_link_speed"), "16.0 GT/s PCIe");
        put(root.path(), &format!("{folder}/max_link_width"), "16");
        put(root.path(), &format!("{folder}/current_link_speed"), "Unknown");
        put(root.path(), &format!("{folder}/current_link_width"), "0");
        put(root.path(), &format!("{folder}/mem_info_vram_total"), "536870912");
        put(root.path(), &format!("{folder}/mem_info_gtt_total"), "lots");
        put(root.path(), &format!("{folder}/drm/card1/card1-eDP-1/status"), "connected");
        put(root.path(), &format!("{folder}/drm/renderD128/dev"), "226:128");
        let gpu = gpus(root.path()).remove(0);
        assert_eq!(gpu.max_link, Some(PcieLink { speed: "16.0 GT/s".into(), width: 16 }));
        assert_eq!((gpu.link, gpu.vram_bytes, gpu.shared_bytes), (None, Some(536_870_912), None));
        assert!(gpu.drives_display && gpu.integrated);
        assert_eq!(gpu.render_node.as_deref(), Some("renderD128"));
    }

    #[test]
    fn the_version_of_the_kernel_module_is_found_in_either_place() {
        let root = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(nvidia_module_version(root.path()), None);
        let line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024";
        put(root.path(), "proc/driver/nvidia/version", line);
        assert_eq!(nvidia_module_version(root.path()).as_deref(), Some("470.256.02"));
        put(root.path(), "sys/module/nvidia/version", "550.90.07");
        assert_eq!(nvidia_module_version(root.path()).as_deref(), Some("550.90.07"));
    }
}
