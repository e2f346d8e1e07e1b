//! How fast each device of this machine is, measured and not guessed from its name.
//!
//! Four figures, each from a loop of half a second after a warm-up: copying to the device, a matrix product, a
//! convolution with its gradient, and an empty-handed launch. The operations are burn's own, so the figures say
//! what training gets and not what the maker promises. Each device is measured in a child process, and the figures
//! are kept in Kiln's cache folder by device, driver and version, since the kernels of a new device are compiled
//! and tuned first, which takes minutes.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::PathBuf,
    time::{Duration, Instant},
};

use burn::tensor::{Device, Distribution, ExecutionError, Tensor, module::conv2d, ops::ConvOptions};
use serde::{Deserialize, Serialize};

use crate::{
    inventory::{Backend, HardwareKind, Inventory, PhysicalDevice, Route, probe},
    open::open,
    request::DeviceRequest,
};

/// Compiling and tuning included.
const DEADLINE: Duration = Duration::from_secs(300);
/// How long each figure is measured.
const SPAN: Duration = Duration::from_millis(500);
/// Size of what is copied.
const COPY_FLOATS: usize = 4 << 20;

/// What a device was measured to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Speed {
    /// Copying from the host, GB/s.
    pub copy_gb_per_sec: f64,
    /// A product of two square f32 matrices, Gflop/s.
    pub matmul_gflops: f64,
    /// A 3x3 convolution of 64 channels forward and backward, f32, Gflop/s.
    pub conv_gflops: f64,
    /// From the call of a small operation to its result, µs.
    pub launch_micros: f64,
}

/// One device, and what it does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Measured {
    /// The name to ask for it by.
    pub request: DeviceRequest,
    /// Its own name.
    pub name: String,
    /// The figures, unless measuring failed.
    pub speed: Option<Speed>,
    /// Why there are none.
    pub problem: Option<String>,
    /// Whether the figures are from the cache.
    pub cached: bool,
}

/// Measures every device of `inventory` that can be used, software drivers excepted. Calls `before` with the name
/// of each device that isn't in the cache, since it may take minutes; `again` ignores the cache.
pub fn measure(inventory: &Inventory, again: bool, mut before: impl FnMut(&str)) -> Vec<Measured> {
    // Figures of devices that aren't here today are kept.
    let mut cache = Cache::read();
    let usable =
        |(device, route): &(&PhysicalDevice, &Route)| route.problem.is_none() && device.kind != HardwareKind::Software;
    let measured: Vec<Measured> = inventory
        .routes()
        .filter(usable)
        .map(|(device, route)| {
            let key = key(device, route);
            let known = cache.0.get(&key).copied().filter(|_| !again);
            let measured = match known {
                Some(speed) => Ok(speed),
                None => {
                    before(&format!("{} ({})", device.name, route.request));
                    measure_route(route.request)
                }
            };
            if let Ok(speed) = &measured {
                cache.0.insert(key, *speed);
            }
            Measured {
                request: route.request,
                name: device.name.clone(),
                speed: measured.as_ref().ok().copied(),
                problem: measured.err(),
                cached: known.is_some(),
            }
        })
        .collect();
    if let Err(error) = cache.write() {
        tracing::warn!("the measurements can't be kept: {error}");
    }
    measured
}

/// What the figures say against the order by kind: the device that is faster than the one that would be chosen.
pub(crate) fn advice(measured: &[Measured], chosen: DeviceRequest) -> Option<String> {
    let speed = |of: &Measured| of.speed.map(|speed| speed.conv_gflops);
    let ours = measured.iter().find(|of| of.request == chosen)?;
    let best = measured.iter().filter(|of| of.speed.is_some()).max_by(|a, b| {
        let (a, b) = (speed(a).unwrap_or(0.0), speed(b).unwrap_or(0.0));
        a.total_cmp(&b)
    })?;
    // Less than this may be chance.
    const CLEARLY: f64 = 1.1;
    let gain = speed(best)? / speed(ours)?;
    (gain > CLEARLY).then(|| {
        format!(
            "{} ({}) trains {gain:.1} times as fast as {} here, by its convolutions: use --device {}",
            best.name, best.request, ours.request, best.request
        )
    })
}

fn measure_route(request: DeviceRequest) -> Result<Speed, String> {
    let variables = [(crate::request::DEVICE_VARIABLE, request.to_string().into())];
    let answer = move || measure_request(request);
    probe::ask(probe::Question::Measure, DEADLINE, &variables, answer).and_then(|answer| answer)
}

/// In a child: measures the device that `KILN_DEVICE` names.
pub(crate) fn measure_named_device() -> Result<Speed, String> {
    let request = DeviceRequest::from_env().map_err(|error| error.to_string())?;
    measure_request(request.ok_or("no device was named")?)
}

fn measure_request(request: DeviceRequest) -> Result<Speed, String> {
    let opened = open(&request).map_err(|error| error.to_string())?;
    // A processor does in seconds what a GPU does in milliseconds.
    let scale = if opened.backend == Backend::Cpu { 1 } else { 4 };
    speed_of(&opened.device, scale).map_err(|error| error.to_string())
}

/// Measures `device` with matrices of `256 * scale` rows and `2 * scale` images.
fn speed_of(device: &Device, scale: usize) -> Result<Speed, ExecutionError> {
    let host = vec![1.0_f32; COPY_FLOATS];
    let copy = secs_per_call(device, || {
        Tensor::<1>::from_data(host.as_slice(), device);
    })?;

    let n = 256 * scale;
    let random = |shape| Tensor::<2>::random(shape, Distribution::Default, device);
    let (a, b) = (random([n, n]), random([n, n]));
    let matmul = secs_per_call(device, || {
        a.clone().matmul(b.clone());
    })?;

    let (images, channels, size) = (2 * scale, 64, 56);
    let autodiff = device.clone().autodiff();
    let x = Tensor::<4>::random([images, channels, size, size], Distribution::Default, &autodiff).require_grad();
    let w = Tensor::<4>::random([channels, channels, 3, 3], Distribution::Default, &autodiff).require_grad();
    let conv = secs_per_call(device, || {
        let y = conv2d(x.clone(), w.clone(), None, ConvOptions::new([1, 1], [1, 1], [1, 1], 1));
        y.sum().backward();
    })?;

    let one = Tensor::<1>::ones([1], device);
    let launch = secs_per_call(device, || {
        one.clone().add_scalar(1.0).into_data();
    })?;

    let conv_flops = 3.0 * 2.0 * (images * channels * channels * 9 * size * size) as f64;
    Ok(Speed {
        copy_gb_per_sec: (4 * COPY_FLOATS) as f64 / copy / 1e9,
        matmul_gflops: 2.0 * (n as f64).powi(3) / matmul / 1e9,
        conv_gflops: conv_flops / conv / 1e9,
        launch_micros: launch * 1e6,
    })
}

/// Seconds a call takes, the device's work included: doubles the number of calls until they fill the span.
fn secs_per_call(device: &Device, mut call: impl FnMut()) -> Result<f64, ExecutionError> {
    // The first calls compile and tune.
    for _ in 0..2 {
        call();
    }
    device.sync()?;
    let mut calls = 1_u32;
    loop {
        let started = Instant::now();
        for _ in 0..calls {
            call();
        }
        device.sync()?;
        let elapsed = started.elapsed();
        if elapsed >= SPAN || calls >= 1 << 20 {
            return Ok(elapsed.as_secs_f64() / f64::from(calls));
        }
        calls *= 2;
    }
}

/// Figures by device, driver and version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Cache(BTreeMap<String, Speed>);

impl Cache {
    /// An unreadable cache is an empty one: it can be made again.
    fn read() -> Self {
        let text = cache_file().and_then(|path| fs::read(path).ok()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write(&self) -> io::Result<()> {
        let path = cache_file().ok_or_else(|| io::Error::other("no cache folder; set KILN_CACHE_DIR"))?;
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&temporary, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&temporary, &path)
    }
}

fn cache_file() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("KILN_CACHE_DIR")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("kiln")))
        .or_else(|| Some(set("HOME")?.join(".cache/kiln")))
        .or_else(|| Some(set("LOCALAPPDATA")?.join("kiln")))?;
    Some(folder.join("measured.json"))
}

fn key(device: &PhysicalDevice, route: &Route) -> String {
    let place = device.uuid.clone().or_else(|| device.pci_address.map(|address| address.to_string()));
    [
        device.name.clone(),
        place.unwrap_or_default(),
        route.api.to_string(),
        route.driver.clone().unwrap_or_default(),
        env!("CARGO_PKG_VERSION").to_owned(),
        // A debug build's figures aren't a release build's.
        if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
    ]
    .join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(request: DeviceRequest, conv_gflops: f64) -> Measured {
        let speed = Speed { copy_gb_per_sec: 1.0, matmul_gflops: 1.0, conv_gflops, launch_micros: 1.0 };
        Measured { request, name: request.to_string(), speed: Some(speed), problem: None, cached: false }
    }

    #[test]
    fn a_faster_device_than_the_chosen_one_is_named() {
        let (cuda, wgpu) = (DeviceRequest::Cuda(Some(0)), DeviceRequest::Wgpu(Some(0)));
        let text = advice(&[measured(cuda, 100.0), measured(wgpu, 250.0)], cuda).expect("wgpu is faster");
        assert!(text.contains("2.5 times") && text.ends_with("--device wgpu:0"), "{text}");
        assert_eq!(advice(&[measured(cuda, 100.0), measured(wgpu, 105.0)], cuda), None);
        assert_eq!(advice(&[measured(wgpu, 100.0)], cuda), None);
    }

    #[test]
    fn a_failed_measurement_wins_nothing() {
        let cpu = measured(DeviceRequest::Cpu, 10.0);
        let failed =
            Measured { speed: None, problem: Some("it hung".into()), ..measured(DeviceRequest::Cuda(Some(0)), 1.0) };
        assert_eq!(advice(&[failed, cpu], DeviceRequest::Cpu), None);
    }
}
