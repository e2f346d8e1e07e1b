//! Decoded pictures in memory, as many as a budget allows.
//!
//! In: pictures as the workers make them. Out: the same pictures in later epochs, without reading or decoding.
//!
//! A picture is kept if it fits into what is left of the budget, and then for ever. In an epoch every picture is wanted once
//! and in another order each time, so that none is worth more than another, and throwing one out for the next would only
//! cost what it saved. The share of hits is the share of the data set that fits.
//!
//! What is kept is the whole picture, before anything is drawn, so that the cache changes no pixel.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use super::queue::Picture;

/// What the table needs for one picture, beside its pixels.
const ENTRY_BYTES: usize = 96;

/// Pictures by sample.
pub(super) struct Cache {
    budget: usize,
    used: AtomicUsize,
    pictures: RwLock<HashMap<usize, Picture>>,
}

impl Cache {
    /// An empty cache of `budget` bytes.
    pub(super) fn new(budget: usize) -> Self {
        Self { budget, used: AtomicUsize::new(0), pictures: RwLock::default() }
    }

    /// The picture of a sample, if it is here. Copies no pixels.
    pub(super) fn get(&self, sample: usize) -> Option<Picture> {
        // A map is whole after any panic: nothing but the map itself runs under its lock.
        self.pictures.read().unwrap_or_else(PoisonError::into_inner).get(&sample).cloned()
    }

    /// Keeps a picture if it fits.
    pub(super) fn offer(&self, sample: usize, picture: &Picture) {
        let bytes = picture.image.pixels.capacity() + ENTRY_BYTES;
        let fits = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= self.budget);
        if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            return;
        }
        let before = self.pictures.write().unwrap_or_else(PoisonError::into_inner).insert(sample, picture.clone());
        if let Some(before) = before {
            // Two workers made the same picture, which may come twice in an epoch.
            self.used.fetch_sub(before.image.pixels.capacity() + ENTRY_BYTES, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::RgbImage;
    use crate::decode::View;
    use std::sync::Arc;

    fn picture(num_bytes: usize) -> Picture {
        let pixels = vec![7; num_bytes];
        let (width, height) = (1, num_bytes as u32 / 3);
        let image = Arc::new(RgbImage { width, height, pixels });
        Picture { image, view: View::whole(width, height), label: 1 }
    }

    #[test]
    fn keeps_what_fits_and_no_more() {
        let cache = Cache::new(2 * (300 + ENTRY_BYTES) + 100);
        (0..4).for_each(|sample| cache.offer(sample, &picture(300)));
        cache.offer(4, &picture(3));
        let held: Vec<_> = (0..5).map(|sample| cache.get(sample).is_some()).collect();
        assert_eq!(held, [true, true, false, false, true], "the last is small enough for what is left");
        assert!(cache.used.load(Ordering::Relaxed) <= cache.budget);
    }

    #[test]
    fn a_picture_offered_twice_is_counted_once() {
        let cache = Cache::new(10_000);
        cache.offer(3, &picture(300));
        cache.offer(3, &picture(300));
        assert_eq!(cache.used.load(Ordering::Relaxed), 300 + ENTRY_BYTES);
    }
}
