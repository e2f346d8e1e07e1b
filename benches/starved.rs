//! What loading costs training: steps fed by the loader against the same steps fed with the same batches from memory.
//!
//! `cargo bench --bench starved`. Pictures of 500×375, JPEG; both kinds of steps take turns, a short epoch each, in changing
//! order; an epoch's beginning counts against the loader.
//!
//! - `resnet50`: trains the network on the processor, on the same cores that decode. From memory come finished batches, so that
//!   decoding, copying and augmentation all count. The seconds of the processor are what another load on the machine doesn't
//!   change.
//! - `stand-in N/s`: a step that waits as long as a GPU of N images a second would take and uses no core, which is what a GPU
//!   leaves the host. Here the loader's batches are those of the host: copying and augmentation are the GPU's.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use burn::module::Module;
use burn::tensor::Device;
use cpu_time::ProcessTime;
use image::codecs::jpeg::JpegEncoder;
use kiln::data::{Augment, Batch, DataError, Dataset, HostBatch, Loader, LoaderConfig, Sample};
use kiln::model::ResNet;
use kiln::train::{ModelOptimizer, Recipe, Residence, cross_entropy};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SEED: u64 = 7;
const CLASSES: usize = 10;

/// What is compared, per round.
#[derive(Clone, Copy, Default)]
struct Taken {
    secs: f64,
    processor_secs: f64,
}

fn main() {
    let pictures = Arc::new(Pictures::new(640));
    println!("{} pictures of 500x375, {} kB on average", pictures.len(), pictures.mean_bytes() / 1000);
    println!("| step | rounds × steps × images | from memory | with the loader | cost | cost in processor time |");
    println!("| --- | --- | --- | --- | --- | --- |");
    resnet50(&pictures, 64, 8);
    for rate in [75.0, 150.0, 300.0] {
        stand_in(&pictures, rate);
    }
}

/// Trains ResNet-50 on the processor.
fn resnet50(pictures: &Arc<Pictures>, size: usize, batch_size: usize) {
    const ROUNDS: usize = 6;
    const STEPS: usize = 8;
    let device = kiln::device::cpu();
    let loader = loader(pictures, batch_size, STEPS);
    let augment = Augment::train(size);
    let epoch = |round: usize| loader.epoch(round as u32).upload(&device, &augment, SEED);
    let replayed: Vec<Vec<Batch>> = (0..ROUNDS).map(|round| epoch(round).map(good).collect()).collect();
    let mut network = Network::new(&device);
    // The first step makes the optimiser's buffers.
    network.step(replayed[0][0].clone());

    let (mut memory, mut loaded) = (Vec::new(), Vec::new());
    for (round, batches) in replayed.iter().enumerate() {
        let mut from_memory = |network: &mut Network| {
            memory.push(timed(|| batches.iter().cloned().for_each(|batch| network.step(batch))));
        };
        let mut from_loader = |network: &mut Network| {
            loaded.push(timed(|| epoch(round).map(good).for_each(|batch| network.step(batch))));
        };
        match round % 2 {
            0 => {
                from_memory(&mut network);
                from_loader(&mut network);
            }
            _ => {
                from_loader(&mut network);
                from_memory(&mut network);
            }
        }
    }
    report(&format!("resnet50, {size} px, cpu"), [STEPS, batch_size], &memory, &loaded);
}

/// A step that takes the time of a GPU and no core.
fn stand_in(pictures: &Arc<Pictures>, images_per_sec: f64) {
    const ROUNDS: usize = 4;
    const STEPS: usize = 20;
    const BATCH_SIZE: usize = 32;
    let step = || std::thread::sleep(Duration::from_secs_f64(BATCH_SIZE as f64 / images_per_sec));
    let loader = loader(pictures, BATCH_SIZE, STEPS);
    let epoch = |round: usize| loader.epoch(round as u32);
    let (mut memory, mut loaded) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let replayed: Vec<HostBatch> = epoch(round).map(good).collect();
        memory.push(timed(|| replayed.iter().for_each(|_| step())));
        loaded.push(timed(|| epoch(round).map(good).for_each(|_| step())));
    }
    report(&format!("stand-in {images_per_sec}/s"), [STEPS, BATCH_SIZE], &memory, &loaded);
}

fn loader(pictures: &Arc<Pictures>, batch_size: usize, steps: usize) -> Loader {
    let config = LoaderConfig { batch_size, limit_batches: Some(steps), seed: SEED, ..LoaderConfig::default() };
    Loader::new(pictures.clone(), config).expect("usable options")
}

fn good<T>(batch: Result<T, DataError>) -> T {
    batch.expect("pictures that can be decoded")
}

fn timed(work: impl FnOnce()) -> Taken {
    let (start, processor) = (Instant::now(), ProcessTime::now());
    work();
    Taken { secs: start.elapsed().as_secs_f64(), processor_secs: processor.elapsed().as_secs_f64() }
}

/// One line: milliseconds a step by the median round, and the median over rounds of what the loader adds.
fn report(step: &str, [steps, images]: [usize; 2], memory: &[Taken], loaded: &[Taken]) {
    let millis = |rounds: &[Taken]| 1e3 * median(rounds.iter().map(|taken| taken.secs)) / steps as f64;
    let percent = |of: fn(&Taken) -> f64| {
        100.0 * median(memory.iter().zip(loaded).map(|(memory, loaded)| of(loaded) / of(memory) - 1.0))
    };
    let (wall, processor) = (percent(|taken| taken.secs), percent(|taken| taken.processor_secs));
    // A step that waits uses none of the processor's time: no ratio.
    let processor = if processor < 1e3 { format!("{processor:+.1} %") } else { "-".into() };
    println!(
        "| {step} | {} × {steps} × {images} | {:.1} ms | {:.1} ms | {wall:+.1} % | {processor} |",
        memory.len(),
        millis(memory),
        millis(loaded),
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// ResNet-50 and its optimiser.
struct Network {
    model: Option<ResNet>,
    optimizer: ModelOptimizer,
}

impl Network {
    fn new(device: &Device) -> Self {
        let recipe = Recipe::default();
        let model = recipe.model.resnet(CLASSES).init(SEED, device).fork(device).train();
        let optimizer = ModelOptimizer::new(&recipe.optimizer, model.parameter_names(), Residence::Host);
        Self { model: Some(model), optimizer }
    }

    fn step(&mut self, batch: Batch) {
        let model = self.model.take().expect("put back after every step");
        let loss = cross_entropy(model.forward(batch.images), batch.targets, 0.1);
        let gradients = loss.backward();
        self.model = Some(self.optimizer.step(1e-3, model, gradients));
    }
}

/// JPEGs in memory, drawn: waves of several lengths with grain, about as large as photographs of this size.
struct Pictures {
    classes: Vec<String>,
    files: Vec<Vec<u8>>,
}

impl Pictures {
    fn new(num_pictures: u32) -> Self {
        let classes = (0..CLASSES).map(|class| class.to_string()).collect();
        Self { classes, files: (0..num_pictures).map(jpeg).collect() }
    }

    fn mean_bytes(&self) -> usize {
        self.files.iter().map(Vec::len).sum::<usize>() / self.files.len()
    }
}

fn jpeg(index: u32) -> Vec<u8> {
    let picture = image::RgbImage::from_fn(500, 375, |x, y| {
        let wave = |length: f32, phase: f32| ((x as f32 + 1.7 * y as f32) / length + phase).sin();
        let grain = ((x * 7919 + y * 104_729 + index * 31) ^ (x * y)) % 31;
        let level = |channel: f32| {
            let phase = channel + index as f32;
            100.0 + 60.0 * wave(40.0, phase) + 20.0 * wave(7.0, 2.0 * phase) + grain as f32
        };
        image::Rgb([level(0.0) as u8, level(0.9) as u8, level(1.7) as u8])
    });
    let mut encoded = Vec::new();
    picture.write_with_encoder(JpegEncoder::new_with_quality(&mut encoded, 90)).expect("encoded");
    encoded
}

impl Dataset for Pictures {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        Ok(Sample::encoded(self.files[index].clone(), self.label(index)))
    }

    fn name(&self, index: usize) -> String {
        format!("{index}.jpg")
    }

    fn label(&self, index: usize) -> u32 {
        (index % CLASSES) as u32
    }
}
