//! What held an epoch back, in one line. Pure: the epoch's counters in, a sentence out.
//!
//! A GPU at half its load is nearly always waiting for pictures, so the time that the loop spent waiting for the loader
//! comes first, with what the loader's threads did meanwhile; then what the card itself says (heat, power limit, low clocks),
//! from one reading in the epoch's middle.
//! If data were free, the epoch would take what is left of its time without the waiting.
//! Not done here: the share of the device's peak that a step reaches.

use kiln_data::{Bound, LoaderCounters};

/// Share of an epoch spent waiting from which on it is worth a word; below, it is the first batch and chance.
const WORTH_TELLING: f64 = 0.1;

/// Shorter epochs spend their time on beginning and ending, and nobody waits for them.
const SHORTEST_SECS: f64 = 10.0;

/// The command stores pictures no larger than training needs.
const STORE_SMALLER: &str = "store the pictures smaller (kiln pack DATA -o OUT)";

/// What is known about a trained epoch.
#[derive(Clone, Debug)]
pub(crate) struct Pace<'a> {
    /// Seconds of the epoch's training.
    pub(crate) train_secs: f64,
    /// Share of them spent waiting for the loader, 0–1.
    pub(crate) data_wait_fraction: f64,
    /// What the loader did in the epoch.
    pub(crate) loader: LoaderCounters,
    /// Decoding threads as asked for; 0 is what the loader finds best.
    pub(crate) workers: usize,
    /// Threads of the processor.
    pub(crate) num_threads: usize,
    /// Whether the steps run on a device of their own.
    pub(crate) on_device: bool,
    /// What the card says, worst first.
    pub(crate) alerts: &'a [String],
}

/// One line for a person; `None` if nothing holds the epoch back.
pub(crate) fn held_back(pace: &Pace<'_>) -> Option<String> {
    if pace.train_secs < SHORTEST_SECS {
        return None;
    }
    if pace.data_wait_fraction >= WORTH_TELLING {
        return Some(input_bound(pace));
    }
    (!pace.alerts.is_empty()).then(|| format!("held back by the GPU: {}", pace.alerts.join("; ")))
}

fn input_bound(pace: &Pace<'_>) -> String {
    let without = pace.train_secs * (1.0 - pace.data_wait_fraction);
    format!(
        "input-bound: {:.0} % of the time the {} waits for pictures; {}; {}; if data were free this epoch would take {} \
         instead of {}",
        100.0 * pace.data_wait_fraction,
        if pace.on_device { "GPU" } else { "network" },
        cause(pace),
        advice(pace),
        clock(without),
        clock(pace.train_secs)
    )
}

/// What the loader's time goes into.
fn cause(pace: &Pace<'_>) -> String {
    let shares = pace.loader.worker_shares();
    let upload = pace.loader.upload.secs / pace.train_secs;
    match pace.loader.bound() {
        Bound::Reading => format!("reading takes {:.0} % of the workers' time", 100.0 * shares.reading),
        Bound::Decoding => format!("decoding takes {:.0} % of the workers' time", 100.0 * shares.decoding),
        Bound::Batching | Bound::Memory => format!("uploading takes {:.0} % of the step", 100.0 * upload),
    }
}

fn advice(pace: &Pace<'_>) -> String {
    let more = match pace.workers {
        0 => 0,
        workers => pace.num_threads.saturating_sub(workers),
    };
    match pace.loader.bound() {
        Bound::Decoding if more > 0 => {
            format!("{STORE_SMALLER}, or {more} more workers (--workers {})", pace.num_threads)
        }
        Bound::Decoding => {
            format!("all cores decode already: {STORE_SMALLER}, or keep them in memory (--cache)")
        }
        Bound::Reading if more > 0 => format!("a faster disk, --cache, or {more} more workers"),
        Bound::Reading => "a faster disk, or --cache".into(),
        Bound::Batching | Bound::Memory => "larger batches".into(),
    }
}

/// `3:40`, or `1:03:40` from an hour on.
fn clock(secs: f64) -> String {
    let total = secs.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
    if hours == 0 { format!("{minutes}:{seconds:02}") } else { format!("{hours}:{minutes:02}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::{Pace, held_back};
    use kiln_data::{LoaderCounters, StageCounters};

    /// Ten workers' seconds, shared by reading, decoding and idling.
    fn loader(read: f64, decode: f64, idle: f64) -> LoaderCounters {
        let stage = |secs| StageCounters { images: 100, bytes: 1000, secs };
        let (read, decode, queue) = (stage(read), stage(decode), stage(idle));
        LoaderCounters { read, decode, queue, upload: stage(110.0), workers: 4, ..LoaderCounters::default() }
    }

    fn pace(data_wait_fraction: f64, workers: usize) -> Pace<'static> {
        let loader = loader(0.9, 7.1, 2.0);
        Pace { train_secs: 220.0, data_wait_fraction, loader, workers, num_threads: 8, on_device: true, alerts: &[] }
    }

    #[test]
    fn an_epoch_that_waits_for_data_is_told_what_it_costs_and_what_helps() {
        assert_eq!(
            held_back(&pace(0.41, 4)).as_deref(),
            Some(
                "input-bound: 41 % of the time the GPU waits for pictures; decoding takes 71 % of the workers' time; store \
                 the pictures smaller (kiln pack DATA -o OUT), or 4 more workers (--workers 8); if data were free this \
                 epoch would take 2:10 instead of 3:40"
            )
        );
        let all = held_back(&pace(0.41, 0)).expect("it waits");
        assert!(all.contains("all cores decode already"), "{all}");
    }

    #[test]
    fn the_cause_is_what_the_workers_do() {
        let told = |loader| held_back(&Pace { loader, ..pace(0.5, 0) }).expect("it waits");
        let reading = told(loader(8.0, 1.0, 1.0));
        assert!(reading.contains("reading takes 80 % of the workers' time; a faster disk, or --cache;"), "{reading}");
        let uploading = told(loader(1.0, 1.0, 8.0));
        assert!(uploading.contains("uploading takes 50 % of the step; larger batches;"), "{uploading}");
    }

    #[test]
    fn a_little_waiting_and_a_short_epoch_are_nothing() {
        assert_eq!(held_back(&pace(0.09, 0)), None);
        assert_eq!(held_back(&Pace { train_secs: 2.0, ..pace(0.8, 0) }), None);
    }

    #[test]
    fn a_card_at_its_limit_is_told_unless_the_data_is_the_cause() {
        let alerts = ["clocks are lowered: heat".to_owned()];
        let hot = |wait| Pace { alerts: &alerts, ..pace(wait, 0) };
        assert_eq!(held_back(&hot(0.0)).as_deref(), Some("held back by the GPU: clocks are lowered: heat"));
        assert!(held_back(&hot(0.5)).is_some_and(|line| line.starts_with("input-bound")));
    }
}
