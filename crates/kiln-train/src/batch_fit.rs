//! The largest batch that a device can train on, found by trying.
//!
//! In: a recipe, a device, how many images there are. Out: images a step. A trial takes two steps, the second with the
//! optimiser's state in place, on blank images; running out of memory in it is caught (`failure.rs`), and what was taken is
//! given back. A processor doesn't say that it is out of memory, it is ended by the system; there the predicted need
//! (`kiln-model`'s `cost.rs`) has to fit half of what is free.
//! Differs from a prediction alone: the workspace of kernels and what other programs hold count too.

use crate::error::TrainError;
use crate::failure::{Failure, guarded};
use crate::loss::cross_entropy;
use crate::optimizer::ModelOptimizer;
use crate::recipe::Recipe;
use crate::sgd::Residence;
use burn::module::Module;
use burn::tensor::{DType, Device, Int, Tensor};
use kiln_device::{Backend, OpenDevice, Trouble};

/// More than published recipes take on one device, and more than helps.
const MOST: usize = 4096;

/// Optimiser state of the rules that keep most: two numbers for each weight.
const OPTIMIZER_COPIES: u64 = 2;

/// Images a step: the largest number of at most `num_images` that fits `device`, a multiple of eight from 32 on.
///
/// # Errors
/// [`TrainError::Device`] if not even the smallest batch trains.
pub fn largest_batch(
    recipe: &Recipe,
    num_classes: usize,
    num_images: usize,
    device: &OpenDevice,
) -> Result<usize, TrainError> {
    let network = recipe.model.resnet(num_classes);
    let size = recipe.augment.training().size;
    let smallest = if network.validate_batch(1, size).is_ok() { 1 } else { 2 };
    let free = if device.backend == Backend::Cpu { free_host_bytes() } else { None };
    let plain = device.device.clone().without_autodiff();
    let mut last_failure = None;
    let fits = |batch: usize| {
        let needed = network.cost(size, batch).training_bytes(OPTIMIZER_COPIES);
        if free.is_some_and(|free| needed > free / 2) {
            return false;
        }
        let tried = guarded(|| trial(recipe, num_classes, batch, size, &plain)).and_then(|tried| tried);
        plain.memory_cleanup();
        tracing::info!(batch, fits = tried.is_ok(), "batch size tried");
        tried.map_err(|failure| last_failure = Some(failure)).is_ok()
    };
    let found = largest(smallest, num_images.clamp(smallest, MOST), fits);
    found.ok_or_else(|| {
        let nothing = || Failure { reason: "too little memory is free".into(), trouble: Trouble::OutOfMemory };
        let Failure { reason, trouble } = last_failure.unwrap_or_else(nothing);
        TrainError::Device { epoch: 1, reason, trouble: Some(trouble), checkpoint: None }
    })
}

/// Two steps on blank images.
fn trial(recipe: &Recipe, num_classes: usize, batch: usize, size: [usize; 2], device: &Device) -> Result<(), Failure> {
    let mut model = recipe.model.resnet(num_classes).init(0, device).fork(device).train();
    let mut optimizer = ModelOptimizer::new(&recipe.optimizer, model.parameter_names(), Residence::Device);
    for _ in 0..2 {
        let images = Tensor::<4>::zeros([batch, 3, size[0], size[1]], (device, DType::F32));
        let targets = Tensor::<1, Int>::zeros([batch], device);
        let logits = model.forward(recipe.run.precision.of(images));
        model = optimizer.step(0.0, model, cross_entropy(logits, targets, 0.0).backward());
    }
    let synced = device.sync().map_err(|error| error.to_string());
    synced.map_err(|reason| Failure { trouble: Trouble::of(&reason).unwrap_or(Trouble::OutOfMemory), reason })
}

/// The largest of `smallest..=most` that `fits`, to an eighth of it; `fits` is true up to some number.
fn largest(smallest: usize, most: usize, mut fits: impl FnMut(usize) -> bool) -> Option<usize> {
    let (mut good, mut bad) = (None, most + 1);
    let mut next = smallest;
    while next < bad {
        match fits(next) {
            true => good = Some(next),
            false => bad = next,
        }
        let Some(good) = good else { break };
        // Doubling until one doesn't fit, then halving what is between.
        let between = if bad > most { (2 * good).min(most) } else { good + (bad - good) / 2 };
        if between <= good || (bad <= most && bad - good <= (good / 8).max(1)) {
            break;
        }
        next = between;
    }
    good.map(|good| if good >= 32 { good / 8 * 8 } else { good })
}

/// Memory that programs can still take without swapping, where the system tells.
fn free_host_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_within_an_eighth_below_what_fits() {
        for limit in 1..400usize {
            let mut trials = 0;
            let found = largest(1, 4096, |batch| {
                trials += 1;
                batch <= limit
            });
            let found = found.expect("one fits");
            assert!(found <= limit && found as f64 >= 0.75 * limit as f64, "{found} of {limit}");
            assert!(trials <= 16, "{trials} trials for {limit}");
        }
        assert_eq!(largest(2, 100, |_| false), None);
        assert_eq!(largest(2, 100, |_| true), Some(96));
        assert_eq!(largest(1, 5, |_| true), Some(5));
    }

    #[test]
    fn a_small_network_gets_all_images_of_a_small_set_on_the_processor() {
        let recipe = Recipe::from_toml(
            "[model]\narch = 'resnet18'\nwidth = 4\n[augment]\nimage_size = 32\n[data]\nbatch_size = 8\n",
        )
        .expect("a recipe");
        let device = kiln_device::open(&kiln_device::DeviceRequest::Cpu).expect("the CPU");
        assert_eq!(largest_batch(&recipe, 2, 24, &device).expect("it fits"), 24);
    }
}
