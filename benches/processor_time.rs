//! Criterion's measurement in seconds of the processor, which other programs on the machine don't change.

use std::time::Duration;

use cpu_time::ProcessTime;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};

/// Time of the processor instead of the clock: what other programs on the machine don't change.
pub(crate) struct ProcessorTime;

impl Measurement for ProcessorTime {
    type Intermediate = ProcessTime;
    type Value = Duration;

    fn start(&self) -> ProcessTime {
        ProcessTime::now()
    }

    fn end(&self, start: ProcessTime) -> Duration {
        start.elapsed()
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}
