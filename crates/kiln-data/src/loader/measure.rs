//! How fast a loader is by itself, what bounds it, and which GPU it would feed.
//!
//! In: a loader, and how long to run it. Out: [`LoaderReport`], which prints as a table. Batches are thrown away as soon as
//! they are there, so that nothing but the loader is measured; whole epochs follow each other, beginnings included.
//! Source of the GPUs' needs: published training speeds of ResNet-50 at 224 px in half precision (Lambda's
//! deeplearning-benchmark, timm's results, NVIDIA's DeepLearningExamples).

use std::fmt;
use std::time::{Duration, Instant};

use burn::tensor::Device;
use serde::Serialize;

use super::{Loader, LoaderCounters, StageCounters};
use crate::augment::Augment;
use crate::error::DataError;

/// Images per second that a GPU trains ResNet-50 with, at 224 px in half precision; the fastest published.
const GPUS: [(&str, f64); 5] = [
    ("laptop RTX 2070 or 2080 Max-Q", 297.0),
    ("RTX 3090", 1218.0),
    ("RTX 4090", 1761.0),
    ("A100 80 GB", 2470.0),
    ("H100 SXM", 2791.0),
];

/// Share of their time that workers may idle before something else is what bounds.
const MOSTLY_IDLE: f64 = 0.5;

/// How long a loader is measured.
#[derive(Clone, Debug)]
pub struct MeasureConfig {
    /// Begin no further batch after this time.
    pub duration: Duration,
    /// Begin no further epoch after this many. Default: no limit.
    pub epochs: Option<u32>,
    /// Upload and augment as well, on this device. Default: the host's share alone.
    pub device: Option<(Device, Augment)>,
}

/// What bounds a loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Bringing files from where they lie.
    Reading,
    /// Turning them into pixels.
    Decoding,
    /// One thread that puts batches together, uploads them, and with a device launches the augmentation: workers wait for it.
    Batching,
    /// Pictures come from the cache.
    Memory,
}

/// A share of the workers' time, 0–1, for each thing they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WorkerShares {
    /// Reading files.
    pub reading: f64,
    /// Decoding them.
    pub decoding: f64,
    /// Waiting for room, because enough pictures wait.
    pub idle: f64,
}

/// What a loader delivered when nobody held it up.
#[derive(Clone, Debug, Serialize)]
pub struct LoaderReport {
    /// Images delivered.
    pub images: u64,
    /// Seconds, the first batch included.
    pub secs: f64,
    /// Images per second after the first batch.
    pub images_per_sec: f64,
    /// Seconds until the first batch.
    pub first_batch_secs: f64,
    /// Finished epochs.
    pub epochs: u32,
    /// Threads of the processor.
    pub num_threads: usize,
    /// What bounds it.
    pub bound: Bound,
    /// What the workers did.
    pub shares: WorkerShares,
    /// Every stage.
    pub counters: LoaderCounters,
    /// Memory of this process after each epoch, in bytes; empty where the system doesn't tell.
    pub resident_bytes: Vec<u64>,
    /// Which GPU would be fed.
    pub feeds: Vec<Feed>,
}

/// A GPU, and whether the loader keeps it busy with ResNet-50.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Feed {
    /// Its name.
    pub gpu: &'static str,
    /// Images per second it trains with, as published.
    pub needs_images_per_sec: f64,
    /// Images per second of this loader over that.
    pub ratio: f64,
}

impl LoaderCounters {
    /// What the workers' time went into.
    pub fn worker_shares(&self) -> WorkerShares {
        let all = self.read.secs + self.decode.secs + self.queue.secs;
        let share = |secs: f64| if all > 0.0 { secs / all } else { 0.0 };
        WorkerShares { reading: share(self.read.secs), decoding: share(self.decode.secs), idle: share(self.queue.secs) }
    }

    /// What a consumer that waits for this loader waits for.
    pub fn bound(&self) -> Bound {
        let shares = self.worker_shares();
        if shares.idle > MOSTLY_IDLE {
            Bound::Batching
        } else if self.hit_fraction() > MOSTLY_IDLE {
            Bound::Memory
        } else if shares.reading > shares.decoding {
            Bound::Reading
        } else {
            Bound::Decoding
        }
    }
}

impl Loader {
    /// Runs epochs from the first on and throws the batches away.
    ///
    /// # Errors
    /// Those of an epoch.
    pub fn measure(&self, config: &MeasureConfig) -> Result<LoaderReport, DataError> {
        let start = Instant::now();
        let mut run = Run { start, first: None, after_first: 0, images: 0, counters: LoaderCounters::default() };
        let (mut epochs, mut resident_bytes) = (0, Vec::new());
        let last = config.epochs.unwrap_or(u32::MAX);
        while epochs < last && run.epoch(self, epochs, config)? {
            epochs += 1;
            resident_bytes.extend(resident());
        }
        Ok(run.report(epochs, resident_bytes))
    }
}

/// A measurement while it goes on.
struct Run {
    start: Instant,
    /// When the first batch was there.
    first: Option<Instant>,
    images: u64,
    /// Images after the first batch.
    after_first: u64,
    counters: LoaderCounters,
}

impl Run {
    /// One epoch; false if time was up before its end.
    fn epoch(&mut self, loader: &Loader, epoch: u32, config: &MeasureConfig) -> Result<bool, DataError> {
        let batches = loader.epoch(epoch);
        let deadline = self.start + config.duration;
        match &config.device {
            None => self.drain(batches, |batch| batch.len(), |batches| batches.counters(), deadline),
            Some((device, augment)) => {
                let batches = batches.upload(device, augment, loader.config().seed);
                self.drain(batches, |batch| batch.labels.len(), |batches| batches.counters(), deadline)
            }
        }
    }

    fn drain<B, I: Iterator<Item = Result<B, DataError>>>(
        &mut self,
        mut batches: I,
        len: impl Fn(&B) -> usize,
        counters: impl Fn(&I) -> LoaderCounters,
        deadline: Instant,
    ) -> Result<bool, DataError> {
        let ended = loop {
            if self.first.is_some() && Instant::now() >= deadline {
                break false;
            }
            let Some(batch) = batches.next() else { break true };
            let images = len(&batch?) as u64;
            self.images += images;
            match self.first {
                Some(_) => self.after_first += images,
                None => self.first = Some(Instant::now()),
            }
        };
        self.counters = self.counters.plus(&counters(&batches));
        Ok(ended)
    }

    fn report(self, epochs: u32, resident_bytes: Vec<u64>) -> LoaderReport {
        let end = Instant::now();
        let first = self.first.unwrap_or(end);
        let secs = end.duration_since(self.start).as_secs_f64();
        let images_per_sec = match self.after_first {
            // One batch is all there was.
            0 => self.images as f64 / secs,
            images => images as f64 / end.duration_since(first).as_secs_f64(),
        };
        let feed = |(gpu, needs): (&'static str, f64)| Feed {
            gpu,
            needs_images_per_sec: needs,
            ratio: images_per_sec / needs,
        };
        LoaderReport {
            images: self.images,
            secs,
            images_per_sec,
            first_batch_secs: first.duration_since(self.start).as_secs_f64(),
            epochs,
            num_threads: std::thread::available_parallelism().map_or(1, usize::from),
            bound: self.counters.bound(),
            shares: self.counters.worker_shares(),
            counters: self.counters,
            resident_bytes,
            feeds: GPUS.map(feed).to_vec(),
        }
    }
}

/// Memory of this process, in bytes. Linux tells, in kibibytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

impl Bound {
    /// What to do about it.
    fn remedy(self, report: &LoaderReport) -> String {
        let (workers, cores) = (report.counters.workers as usize, report.num_threads);
        match self {
            Self::Decoding if workers < cores => format!("--workers {cores} would use all cores"),
            Self::Decoding => "all cores decode: smaller pictures, or --cache, help".into(),
            Self::Reading => "a faster disk, fewer and larger files, or --cache help".into(),
            Self::Batching => "the workers could do more; larger batches help a little".into(),
            Self::Memory => "pictures come from memory already".into(),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reading => "reading",
            Self::Decoding => "decoding",
            Self::Batching => "putting batches together",
            Self::Memory => "copying from the cache",
        })
    }
}

impl fmt::Display for LoaderReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (counters, shares) = (&self.counters, &self.shares);
        writeln!(
            f,
            "speed    {:.0} images/s: {} images in {:.1} s, {} workers at the end, first batch after {:.2} s",
            self.images_per_sec, self.images, self.secs, counters.workers, self.first_batch_secs
        )?;
        writeln!(f, "stage    images/s of one thread       MB/s   share of the workers' time")?;
        stage(f, "read", &counters.read, Some(shares.reading))?;
        stage(f, "decode", &counters.decode, Some(shares.decoding))?;
        writeln!(f, "idle     {:>45.0} %", 100.0 * shares.idle)?;
        if counters.cache.images > 0 {
            writeln!(f, "cache    {:.0} % of the pictures were in it", 100.0 * counters.hit_fraction())?;
        }
        if counters.upload.images > 0 {
            stage(f, "upload", &counters.upload, None)?;
        }
        if counters.skipped > 0 {
            writeln!(f, "skipped  {} times a file that can't be used", counters.skipped)?;
        }
        writeln!(f, "bound    by {}: {}", self.bound, self.bound.remedy(self))?;
        if let (Some(second), Some(last)) = (self.resident_bytes.get(1), self.resident_bytes.last()) {
            let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
            let epochs = self.resident_bytes.len();
            writeln!(f, "memory   {:.0} MiB after epoch 2, {:.0} MiB after epoch {epochs}", mib(second), mib(last))?;
        }
        for (index, feed) in self.feeds.iter().enumerate() {
            let verdict = if feed.ratio >= 1.0 { "enough" } else { "too slow" };
            let head = if index == 0 { "feeds" } else { "" };
            let (gpu, needs) = (feed.gpu, feed.needs_images_per_sec);
            let percent = 100.0 * feed.ratio;
            write!(f, "{head:<9}{gpu}: {verdict}, {percent:.0} % of the {needs:.0} images/s ResNet-50 takes")?;
            if index + 1 < self.feeds.len() {
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

fn stage(f: &mut fmt::Formatter<'_>, name: &str, stage: &StageCounters, share: Option<f64>) -> fmt::Result {
    let rate = stage.images_per_sec().map_or("-".into(), |rate| format!("{rate:.0}"));
    let megabytes = if stage.secs > 0.0 { format!("{:.1}", stage.bytes as f64 / 1e6 / stage.secs) } else { "-".into() };
    write!(f, "{name:<9}{rate:>22} {megabytes:>10}")?;
    match share {
        Some(share) => writeln!(f, "   {:>9.0} %", 100.0 * share),
        None => writeln!(f),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(images: u64, secs: f64) -> StageCounters {
        StageCounters { images, bytes: images * 1000, secs }
    }

    fn counters(read: f64, decode: f64, idle: f64) -> LoaderCounters {
        LoaderCounters {
            read: stage(100, read),
            decode: stage(100, decode),
            queue: stage(100, idle),
            workers: 2,
            ..LoaderCounters::default()
        }
    }

    #[test]
    fn what_bounds_is_what_the_workers_time_goes_into() {
        assert_eq!(counters(1.0, 3.0, 0.5).bound(), Bound::Decoding);
        assert_eq!(counters(3.0, 1.0, 0.5).bound(), Bound::Reading);
        assert_eq!(counters(1.0, 1.0, 8.0).bound(), Bound::Batching);
        assert_eq!(LoaderCounters { cache: stage(900, 0.0), ..counters(0.1, 0.2, 0.0) }.bound(), Bound::Memory);
        let shares = counters(1.0, 3.0, 4.0).worker_shares();
        assert_eq!(shares, WorkerShares { reading: 0.125, decoding: 0.375, idle: 0.5 });
        assert_eq!(LoaderCounters::default().worker_shares(), WorkerShares::default());
    }

    #[test]
    fn a_report_says_what_a_stage_does_and_what_the_gpu_would_need() {
        let start = Instant::now() - Duration::from_secs(10);
        let run = Run {
            start,
            first: Some(start + Duration::from_secs(1)),
            images: 3800,
            after_first: 3600,
            counters: counters(1.0, 18.0, 1.0),
        };
        let report = run.report(2, vec![100 << 20, 200 << 20, 201 << 20]);
        assert!((report.images_per_sec - 400.0).abs() < 1.0, "{}", report.images_per_sec);
        let text = report.to_string();
        for line in [
            "first batch after 1.00 s",
            "bound    by decoding: ",
            "memory   200 MiB after epoch 2, 201 MiB after epoch 3",
            "feeds    laptop RTX 2070 or 2080 Max-Q: enough, 135 % of the 297 images/s ResNet-50 takes",
            "RTX 3090: too slow, 33 % of the 1218 images/s",
        ] {
            assert!(text.contains(line), "{line:?} in\n{text}");
        }
    }
}
