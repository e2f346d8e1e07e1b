//! Mixing: an output made of two images of a batch, as mixup and cutmix want it.
//!
//! In: what was drawn for each image. Out: [`Mix`], which the kernel follows, and by which targets are mixed.

/// A part of the output, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// All of it.
    Everywhere,
    /// Top, left, bottom and right; the last two are outside.
    Inside([u32; 4]),
    /// What [`Region::Inside`] leaves.
    Outside([u32; 4]),
}

/// What one output of a batch is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Index in the batch of the other image; the image's own if nothing is mixed.
    pub(crate) partner: usize,
    /// Share of the image's own target, 0–1.
    pub(crate) share: f64,
    /// Where the partner is seen instead of the image; `None` if the two are blended.
    pub(crate) pasted: Option<[u32; 4]>,
}

impl Mix {
    /// Image `index` alone.
    pub(crate) fn none(index: usize) -> Self {
        Self { partner: index, share: 1.0, pasted: None }
    }

    /// The images that output `index` is made of, how much each weighs, and where.
    pub(crate) fn parts(&self, index: usize) -> Vec<(usize, f64, Region)> {
        if self.partner == index {
            return vec![(index, 1.0, Region::Everywhere)];
        }
        match self.pasted {
            Some(edges) => {
                vec![(index, 1.0, Region::Outside(edges)), (self.partner, 1.0, Region::Inside(edges))]
            }
            None => {
                vec![(index, self.share, Region::Everywhere), (self.partner, 1.0 - self.share, Region::Everywhere)]
            }
        }
    }
}
