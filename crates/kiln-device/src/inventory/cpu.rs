//! The processor as a device: its name, how many threads it runs, how much memory the machine has.
//!
//! Source: `/proc/cpuinfo` and `/proc/meminfo` on Linux; elsewhere the architecture's name stands in.

use std::{fs, thread};

/// What is known about the processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Processor {
    /// Name and number of threads.
    pub(crate) name: String,
    /// Memory of the machine, bytes.
    pub(crate) memory_bytes: Option<u64>,
}

/// Describes the processor this program runs on.
pub(crate) fn this_processor() -> Processor {
    let num_threads = thread::available_parallelism().map_or(1, usize::from);
    let plural = if num_threads == 1 { "" } else { "s" };
    let model = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| model_name(&text))
        .unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH));
    Processor {
        name: format!("{model}, {num_threads} thread{plural}"),
        memory_bytes: fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory_bytes(&text)),
    }
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    let name = line.split_once(':')?.1.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

fn total_memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let cpuinfo = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD Ryzen 7 5800H\n";
        assert_eq!(model_name(cpuinfo).as_deref(), Some("AMD Ryzen 7 5800H"));
        assert_eq!(total_memory_bytes("MemTotal:       16000000 kB\nMemFree: 1 kB\n"), Some(16_384_000_000));
    }

    #[test]
    fn unreadable_text_is_unknown() {
        assert_eq!(model_name("CPU implementer\t: 0x41\n"), None);
        assert_eq!(total_memory_bytes("MemTotal: lots\n"), None);
    }
}
