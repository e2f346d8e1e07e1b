//! How fast a run is, and how long it still takes.
//!
//! In: the number of images done, each time it is known, with the time. Out: images per second and seconds left.
//! The first steps of a process compile and tune kernels, minutes on a GPU. They count for the time that passes, and not
//! for the speed: those steps' share is left out as soon as later steps exist.
//! Touches no clock: the caller gives the time in seconds.

/// Steps of a process in which kernels are compiled: the first meets every shape, the second the momentum buffers, and
/// the third shows that it is over.
pub(crate) const WARMUP_STEPS: usize = 2;

/// Counts the images of one epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Throughput {
    warmup_left: usize,
    images: u64,
    now_secs: f64,
    /// Images and seconds of the warm-up steps.
    cold_images: u64,
    cold_secs: f64,
    images_before: u64,
}

impl Throughput {
    /// Starts an epoch at 0 seconds, `warmup_left` of whose steps compile kernels. `images_before` of its images were
    /// done in an earlier process.
    pub(crate) fn new(warmup_left: usize, images_before: u64) -> Self {
        Self { warmup_left, images: images_before, cold_images: images_before, images_before, ..Self::default() }
    }

    /// Notes that `images` of the epoch are done `now_secs` after its beginning. While
    /// [`warming_up`](Self::warming_up), to be called after each step.
    pub(crate) fn done(&mut self, images: u64, now_secs: f64) {
        (self.images, self.now_secs) = (images, now_secs);
        if self.warmup_left > 0 {
            self.warmup_left -= 1;
            (self.cold_images, self.cold_secs) = (images, now_secs);
        }
    }

    /// Notes that the epoch is over.
    pub(crate) fn finish(&mut self, images: u64, now_secs: f64) {
        (self.images, self.now_secs) = (images, now_secs);
    }

    /// Whether the next step may compile kernels.
    pub(crate) fn warming_up(&self) -> bool {
        self.warmup_left > 0
    }

    /// Warm-up steps that later epochs of this process still have to take.
    pub(crate) fn warmup_left(&self) -> usize {
        self.warmup_left
    }

    /// Images per second of the steps after the warm-up; `None` as long as there is none.
    pub(crate) fn images_per_sec(&self) -> Option<f64> {
        rate(self.images - self.cold_images, self.now_secs - self.cold_secs)
    }

    /// Images per second of the whole epoch: the warm-up counts if there was nothing else.
    pub(crate) fn epoch_images_per_sec(&self) -> f64 {
        let all = || rate(self.images - self.images_before, self.now_secs);
        self.images_per_sec().or_else(all).unwrap_or(0.0)
    }

    /// Seconds that `num_images` more take at the speed so far.
    pub(crate) fn secs_for(&self, num_images: u64) -> Option<f64> {
        self.images_per_sec().map(|speed| num_images as f64 / speed)
    }
}

fn rate(num_images: u64, secs: f64) -> Option<f64> {
    (num_images > 0 && secs > 0.0).then(|| num_images as f64 / secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_that_compile_kernels_do_not_count() {
        let mut speed = Throughput::new(2, 0);
        speed.done(8, 60.0);
        speed.done(16, 100.0);
        assert_eq!((speed.images_per_sec(), speed.warming_up()), (None, false));
        speed.done(24, 101.0);
        speed.done(40, 103.0);
        assert_eq!(speed.images_per_sec(), Some(8.0));
        assert_eq!(speed.epoch_images_per_sec(), 8.0);
        assert_eq!(speed.secs_for(80), Some(10.0));
    }

    #[test]
    fn an_epoch_of_warm_up_steps_alone_reports_what_there_was() {
        let mut speed = Throughput::new(2, 0);
        speed.done(8, 4.0);
        assert_eq!(speed.epoch_images_per_sec(), 2.0);
        assert_eq!(speed.warmup_left(), 1);
    }

    #[test]
    fn images_of_an_earlier_process_do_not_count() {
        let mut speed = Throughput::new(0, 100);
        speed.done(108, 2.0);
        assert_eq!((speed.images_per_sec(), speed.epoch_images_per_sec()), (Some(4.0), 4.0));
    }

    #[test]
    fn an_epoch_without_steps_has_no_speed() {
        assert_eq!(Throughput::new(0, 0).epoch_images_per_sec(), 0.0);
    }
}
