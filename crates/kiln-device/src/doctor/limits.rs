//! Do the adapter's limits leave room for training's kernels?

use super::{
    check::{Check, Topic, worst},
    facts::Facts,
};
use crate::inventory::wgpu::{Adapter, Limits};

const TOPIC: Topic = Topic {
    id: "limits",
    title: "limits of shaders",
    why: "a kernel that uses more buffers, threads or memory than the driver allows fails in the middle of training",
};

/// Fused kernels use up to this many buffers.
const STORAGE_BUFFERS: u32 = 8;
/// Threads of the largest workgroup that kernels ask for without looking.
const THREADS: u32 = 256;
/// A launch over a batch of images takes about as many workgroups along one axis.
const WORKGROUPS: u32 = 65_535;
/// A batch's largest activation at the usual sizes, bytes.
const BINDING_BYTES: u64 = 128 << 20;

pub(super) fn check(facts: &Facts) -> Check {
    let adapters = facts.sources.wgpu.adapters.iter().filter(|adapter| !adapter.is_software());
    let checks: Vec<Check> = adapters.filter_map(|adapter| Some(check_adapter(adapter, adapter.limits?))).collect();
    if checks.is_empty() {
        return TOPIC.skip("no GPU through Vulkan, DirectX 12 or Metal");
    }
    worst(&TOPIC, checks)
}

fn check_adapter(adapter: &Adapter, limits: Limits) -> Check {
    let mut low = Vec::new();
    let mut look = |name: &str, value: u64, needed: u64| {
        if value < needed {
            low.push(format!("{name} {value}, should be {needed}"));
        }
    };
    look("buffers a kernel", limits.storage_buffers.into(), STORAGE_BUFFERS.into());
    look("threads a workgroup", limits.threads.into(), THREADS.into());
    look("workgroups an axis", limits.workgroups.into(), WORKGROUPS.into());
    look("bytes a binding", limits.binding_bytes, BINDING_BYTES);
    if low.is_empty() {
        let Limits { storage_buffers, threads, .. } = limits;
        let mib = |bytes: u64| bytes >> 20;
        let f16 = if limits.f16 { "f16" } else { "no f16" };
        return TOPIC.ok(format!(
            "{}: {storage_buffers} buffers a kernel, {threads} threads a workgroup, bindings of {} MiB, buffers of {} \
             MiB, {f16}",
            adapter.name,
            mib(limits.binding_bytes),
            mib(limits.buffer_bytes)
        ));
    }
    TOPIC
        .warn("low_limits", format!("{}: {}", adapter.name, low.join("; ")))
        .remedy("use a smaller batch and smaller images; if training fails all the same: --device cpu, or CUDA")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        doctor::check::Status,
        inventory::{Api, wgpu::AdapterKind},
        machines::adapter,
    };

    #[test]
    fn a_limit_that_is_too_low_is_named() {
        let gpu = adapter(Api::Vulkan, AdapterKind::IntegratedGpu, "Some GPU", (0x8086, 1), "", "");
        let enough = Limits {
            storage_buffers: 16,
            binding_bytes: 1 << 30,
            buffer_bytes: 1 << 30,
            threads: 1024,
            workgroups: 65_535,
            f16: false,
        };
        assert_eq!(check_adapter(&gpu, enough).status, Status::Ok);
        let check = check_adapter(&gpu, Limits { storage_buffers: 4, threads: 128, ..enough });
        assert_eq!(check.status, Status::Warn);
        assert!(check.found.contains("buffers a kernel 4") && check.found.contains("workgroup 128"), "{}", check.found);
    }
}
