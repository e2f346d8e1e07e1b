//! Temporary timing; not to be kept.
use burn::tensor::{Device, DeviceKind};
use super::*;
#[test]
fn scratch_timing() {
    if std::env::var_os("AUG_BENCH").is_none() { return; }
    let device = Device::wgpu(DeviceKind::Cpu);
    let flip = Augmentation::RandomHorizontalFlip(RandomHorizontalFlip::default());
    for (name, size, options) in [
        ("flip", [224, 224], Augment { steps: vec![flip], ..Augment::train(224) }),
        ("train", [375, 500], Augment::train(224)),
        ("eval", [375, 500], Augment::eval(224)),
    ] {
        let batch = noise_batch(&[size; 32], 0);
        let twin = run(&batch, &options, &kiln_device::cpu());
        let uploaded = batch_to_device(batch.clone(), &options, 42, &device);
        for v in [1, 5, 6, 7, 8] {
        crate::augment::run::device::VARIANT.store(v, std::sync::atomic::Ordering::Relaxed);
        let kernel = run(&batch, &options, &device);
        let error = twin.iter().zip(&kernel).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let mut best = f64::MAX;
        let mut cpu = f64::MAX;
        for _ in 0..6 {
            let c = cpu_secs();
            let start = std::time::Instant::now();
            for _ in 0..4 {
            let found = augment(uploaded.clone(), &options);
            device.sync().expect("sync");
            drop(found);
            }
            best = best.min(start.elapsed().as_secs_f64()/4.0);
            cpu = cpu.min((cpu_secs() - c)/4.0);
        }
        println!("SCRATCH {name} v{v}: wall {:.3} cpu {:.3} ms/image, error {error:e}", best * 1e3 / 32.0, cpu * 1e3 / 32.0);
        }
    }
}
fn cpu_secs() -> f64 {
    let s = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let _ = s;
    let mut total = 0.0;
    for t in std::fs::read_dir("/proc/self/task").expect("x").flatten() {
        let s = std::fs::read_to_string(t.path().join("schedstat")).unwrap_or_default();
        total += s.split_whitespace().next().and_then(|x| x.parse::<f64>().ok()).unwrap_or(0.0);
    }
    total / 1e9
}
