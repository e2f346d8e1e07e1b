//! Philox4x32-10: random numbers that are a function of a counter, so that draws need no state.
//!
//! In: a 64-bit key (the seed) and a 128-bit counter. Out: four `u32`, uniform and independent.
//! Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC11); the constants
//! and the test vectors are those of its reference implementation, Random123 1.14 (`kat_vectors`).
//! Not done here: anything cryptographic.
//!
//! # Doing the same elsewhere
//! [`Draws`] numbers its words so that a few lines of any language give the same values:
//!
//! ```python
//! def block(seed, sample, epoch, stream, index):       # four u32
//!     k = [seed & 0xFFFFFFFF, seed >> 32]
//!     c = [sample & 0xFFFFFFFF, sample >> 32, epoch, stream << 16 | index]
//!     for _ in range(10):
//!         p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
//!         c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
//!         k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
//!     return c
//!
//! # The words of a stream are block 0's four, then block 1's, ...
//! # next_u64   two words, the low one first:  w0 | w1 << 32
//! # uniform    next_u64 >> 11, times 2**-53               in [0, 1)
//! # uniform_in low + (high - low) * uniform               in f64
//! # below(n)   next_u64 * n >> 64                         in 0..n; off from uniform by less than n / 2**64
//! # chance(p)  uniform < p
//! # normal     u, v = 1 - uniform, uniform;  sqrt(-2 log(u)) * cos(2 pi v)                 (Box and Muller)
//! # shuffle    for i in n-1, ..., 1:  j = below(i + 1);  swap x[i], x[j]                   (Fisher and Yates)
//! # log_gamma_variate(a)                                                                  (Marsaglia and Tsang)
//! #   d = (a if a >= 1 else a + 1) - 1/3;  c = 1 / sqrt(9 d)
//! #   repeat:  x = normal;  v = (1 + c x)**3;  u = 1 - uniform
//! #   until v > 0 and log(u) < x*x/2 + d - d v + d log(v)
//! #   log(d v), and if a < 1 plus log(1 - uniform) / a
//! # dirichlet  log_gamma_variate of each parameter in order, then exp(g - max(g)) over the sum of these
//! ```

/// Multipliers of the two halves of a round; Random123 `philox.h`.
const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What the key grows by each round: the golden ratio and the square root of three less one; Random123 `philox.h`.
const KEY_STEP: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
/// Ten rounds pass BigCrush with a margin of three; Salmon et al., section 4.3.
const NUM_ROUNDS: usize = 10;
/// Attempts at a gamma distributed value, each of which succeeds with a probability above 0.95.
const MAX_GAMMA_ATTEMPTS: usize = 64;

/// Four random words for `counter` under `key`.
pub(crate) fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..NUM_ROUNDS {
        let [p, q] =
            [u64::from(MULTIPLIER[0]) * u64::from(counter[0]), u64::from(MULTIPLIER[1]) * u64::from(counter[2])];
        counter = [(q >> 32) as u32 ^ counter[1] ^ key[0], q as u32, (p >> 32) as u32 ^ counter[3] ^ key[1], p as u32];
        key = [key[0].wrapping_add(KEY_STEP[0]), key[1].wrapping_add(KEY_STEP[1])];
    }
    counter
}

/// Random values of one stream of one sample in one epoch, in order.
///
/// Streams keep the parts of a program independent: step `i` of an [`Augment`](super::Augment) draws from stream `i`,
/// so that changing how much one step draws leaves the others as they were.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    key: [u32; 2],
    counter: [u32; 4],
    words: [u32; 4],
    num_used: usize,
}

impl Draws {
    /// The stream that orders the samples of an epoch. No list of augmentations reaches it.
    pub(crate) const ORDER: u16 = u16::MAX;
    /// The stream of what a sample is mixed with by, see [`mixing`](super::mixing). No list reaches it either.
    pub(crate) const MIXING: u16 = u16::MAX - 1;
    /// The stream that chooses samples with replacement, by position. No list reaches it either.
    pub(crate) const SAMPLING: u16 = u16::MAX - 2;

    /// Begins `stream` of `sample` in `epoch`.
    pub(crate) fn new(seed: u64, epoch: u32, sample: u64, stream: u16) -> Self {
        Self {
            key: [seed as u32, (seed >> 32) as u32],
            counter: [sample as u32, (sample >> 32) as u32, epoch, u32::from(stream) << 16],
            words: [0; 4],
            num_used: 4,
        }
    }

    /// The next word.
    ///
    /// # Panics
    /// After 65,535 blocks of four words: the counter would run into the next stream.
    pub(crate) fn next_u32(&mut self) -> u32 {
        if self.num_used == self.words.len() {
            assert!(self.counter[3] & 0xFFFF < 0xFFFF, "a stream has 65,535 blocks of four words");
            self.words = philox4x32_10(self.counter, self.key);
            self.counter[3] += 1;
            self.num_used = 0;
        }
        self.num_used += 1;
        self.words[self.num_used - 1]
    }

    /// The next two words, the low one first.
    pub(crate) fn next_u64(&mut self) -> u64 {
        let low = self.next_u32();
        u64::from(low) | u64::from(self.next_u32()) << 32
    }

    /// Uniform in `[0, 1)`, all 53 bits of an f64 random.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (-53f64).exp2()
    }

    /// Uniform in `[low, high)`.
    pub(crate) fn uniform_in(&mut self, [low, high]: [f64; 2]) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Uniform in `0..bound`; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with `probability`; never if that is no number.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// Normally distributed with mean 0 and standard deviation 1.
    ///
    /// Source: Box and Muller, Annals of Mathematical Statistics 29 (1958); the second value is thrown away.
    pub(crate) fn normal(&mut self) -> f64 {
        let (radius, turns) = ((-2.0 * (1.0 - self.uniform()).ln()).sqrt(), self.uniform());
        radius * (std::f64::consts::TAU * turns).cos()
    }

    /// Puts `values` into a random order, all of them equally likely.
    pub(crate) fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            values.swap(last, other);
        }
    }

    /// The logarithm of a gamma distributed value of the given shape; as a logarithm, because values of small shapes
    /// are too small for numbers. Not a number if the shape isn't a finite one above 0.
    ///
    /// Source: Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000).
    pub(crate) fn log_gamma_variate(&mut self, shape: f64) -> f64 {
        let d = if shape >= 1.0 { shape } else { shape + 1.0 } - 1.0 / 3.0;
        let c = (9.0 * d).sqrt().recip();
        let mut log = f64::NAN;
        // One attempt in twenty fails at worst, so that all of these fail never.
        for _ in 0..MAX_GAMMA_ATTEMPTS {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            let u = 1.0 - self.uniform();
            if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                log = (d * v).ln();
                break;
            }
        }
        if shape < 1.0 { log + (1.0 - self.uniform()).ln() / shape } else { log }
    }

    /// Shares that sum to 1, distributed by Dirichlet's law; all equal if a parameter isn't a finite number above 0.
    pub(crate) fn dirichlet(&mut self, parameters: &[f64]) -> Vec<f64> {
        let logs: Vec<f64> = parameters.iter().map(|shape| self.log_gamma_variate(*shape)).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let parts: Vec<f64> = logs.iter().map(|log| (log - most).exp()).collect();
        let total: f64 = parts.iter().sum();
        if total.is_finite() && total > 0.0 {
            return parts.iter().map(|part| part / total).collect();
        }
        vec![1.0 / parameters.len() as f64; parameters.len()]
    }
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The same on a device, for pixels that are painted with noise.

    use cubecl::prelude::*;

    use super::{KEY_STEP, MULTIPLIER, NUM_ROUNDS};

    /// Four random words.
    #[derive(CubeType, CubeTypeMut, Clone, Copy)]
    pub(crate) struct Words {
        pub(crate) a: u32,
        pub(crate) b: u32,
        pub(crate) c: u32,
        pub(crate) d: u32,
    }

    /// [`super::philox4x32_10`] for the counter `[index, 0, 0, 0]`.
    #[cube]
    pub(crate) fn philox4x32_10(index: u32, key_low: u32, key_high: u32) -> Words {
        let mut counter = Words { a: index, b: 0u32.runtime(), c: 0u32.runtime(), d: 0u32.runtime() };
        let mut low = key_low;
        let mut high = key_high;
        for _ in 0..comptime!(NUM_ROUNDS as u32) {
            let p = counter.a.mul_hi(comptime!(MULTIPLIER[0]));
            let q = counter.c.mul_hi(comptime!(MULTIPLIER[1]));
            counter = Words {
                a: q ^ counter.b ^ low,
                b: counter.c * comptime!(MULTIPLIER[1]),
                c: p ^ counter.d ^ high,
                d: counter.a * comptime!(MULTIPLIER[0]),
            };
            low += comptime!(KEY_STEP[0]);
            high += comptime!(KEY_STEP[1]);
        }
        counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_published_vectors() {
        let pi = [0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344];
        let vectors = [
            ([0; 4], [0; 2], [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]),
            (pi, [0xA409_3822, 0x299F_31D0], [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]),
        ];
        for (counter, key, want) in vectors {
            assert_eq!(philox4x32_10(counter, key), want, "counter {counter:08X?}, key {key:08X?}");
        }
    }

    #[test]
    fn words_come_from_blocks_in_order() {
        let (seed, epoch, sample, stream) = (0x0123_4567_89AB_CDEF, 9, 0xAA_0000_0055, 3);
        let mut draws = Draws::new(seed, epoch, sample, stream);
        for block in 0..3 {
            let want = philox4x32_10([0x55, 0xAA, 9, 3 << 16 | block], [0x89AB_CDEF, 0x0123_4567]);
            assert_eq!([(); 4].map(|()| draws.next_u32()), want);
        }
    }

    #[test]
    fn seed_epoch_sample_and_stream_each_change_the_draws() {
        let first = |seed, epoch, sample, stream| Draws::new(seed, epoch, sample, stream).next_u64();
        let others =
            [first(2, 1, 1, 1), first(1, 2, 1, 1), first(1, 1, 2, 1), first(1, 1, 1, 2), first(1, 1, 1 << 40, 1)];
        for (index, other) in others.iter().enumerate() {
            assert_ne!(*other, first(1, 1, 1, 1), "argument {index}");
        }
    }

    #[test]
    fn uniform_values_fill_the_unit_interval_evenly() {
        let mut draws = Draws::new(7, 0, 0, 0);
        let mut histogram = [0u32; 10];
        let values: Vec<f64> = (0..10_000).map(|_| draws.uniform()).collect();
        values.iter().for_each(|value| histogram[(value * 10.0) as usize] += 1);
        // Standard error of a count of 1,000 among 10,000: 30. Of the mean: 0.0029.
        assert!(histogram.iter().all(|count| count.abs_diff(1000) < 120), "{histogram:?}");
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean - 0.5).abs() < 4.0 * 0.0029, "mean {mean}");
    }

    #[test]
    fn bounded_integers_reach_every_value_and_no_other() {
        let mut draws = Draws::new(7, 0, 0, 1);
        let mut histogram = [0u32; 7];
        (0..7_000).for_each(|_| histogram[draws.below(7) as usize] += 1);
        assert!(histogram.iter().all(|count| count.abs_diff(1000) < 120), "{histogram:?}");
        assert_eq!((draws.below(0), draws.below(1)), (0, 0));
    }

    /// Mean, variance and fourth moment about 0.
    fn moments(values: &[f64]) -> [f64; 3] {
        let mean_of = |power| values.iter().map(|value| value.powi(power)).sum::<f64>() / values.len() as f64;
        [mean_of(1), mean_of(2) - mean_of(1).powi(2), mean_of(4)]
    }

    #[test]
    fn normal_values_have_the_moments_of_the_bell_curve() {
        let mut draws = Draws::new(7, 0, 0, 2);
        let values: Vec<f64> = (0..40_000).map(|_| draws.normal()).collect();
        let [mean, variance, fourth] = moments(&values);
        // Standard errors of 40,000 values: 0.005, 0.0071, 0.049.
        assert!(mean.abs() < 4.0 * 0.005, "mean {mean}");
        assert!((variance - 1.0).abs() < 4.0 * 0.0071, "variance {variance}");
        assert!((fourth - 3.0).abs() < 4.0 * 0.049, "fourth moment {fourth}");
    }

    #[test]
    fn gamma_values_have_the_mean_and_variance_of_their_shape() {
        for (stream, shape) in [(3, 0.2), (4, 1.0), (5, 4.5)] {
            let values: Vec<f64> =
                (0..10_000).map(|sample| Draws::new(7, 0, sample, stream).log_gamma_variate(shape).exp()).collect();
            let [mean, variance, _] = moments(&values);
            // Both are the shape; the fourth central moment is 3 a² + 6 a.
            assert!((mean - shape).abs() < 4.0 * (shape / 1e4).sqrt(), "shape {shape}: mean {mean}");
            let error = ((2.0 * shape * shape + 6.0 * shape) / 1e4).sqrt();
            assert!((variance - shape).abs() < 4.0 * error, "shape {shape}: variance {variance}");
        }
    }

    #[test]
    fn shares_have_dirichlets_mean_and_variance_and_sum_to_one() {
        let parameters = [0.5, 1.5, 2.0];
        let shares: Vec<Vec<f64>> =
            (0..10_000).map(|sample| Draws::new(7, 0, sample, 6).dirichlet(&parameters)).collect();
        assert!(shares.iter().all(|shares| (shares.iter().sum::<f64>() - 1.0).abs() < 1e-12));
        for (index, parameter) in parameters.into_iter().enumerate() {
            let [mean, variance, _] = moments(&shares.iter().map(|shares| shares[index]).collect::<Vec<_>>());
            let want = parameter / 4.0;
            let want_variance = want * (1.0 - want) / 5.0;
            assert!((mean - want).abs() < 4.0 * (want_variance / 1e4).sqrt(), "share {index}: mean {mean}");
            assert!((variance / want_variance - 1.0).abs() < 0.1, "share {index}: variance {variance}");
        }
    }

    #[test]
    fn shares_of_parameters_that_are_too_small_or_no_numbers_still_sum_to_one() {
        for bad in [[f64::NAN, 1.0], [0.0, 0.0], [-1.0, 2.0], [f64::INFINITY, 1.0], [1e-300, 1e-300]] {
            let shares = Draws::new(7, 0, 0, 7).dirichlet(&bad);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{bad:?}: {shares:?}");
        }
    }

    #[test]
    fn a_shuffle_reaches_every_order_equally_often() {
        let mut counts = std::collections::BTreeMap::new();
        for sample in 0..6_000 {
            let mut order = [0, 1, 2];
            Draws::new(7, 0, sample, 8).shuffle(&mut order);
            *counts.entry(order).or_insert(0u32) += 1;
        }
        // Standard error of a count of 1,000 among 6,000: 29.
        assert!(counts.len() == 6 && counts.values().all(|count| count.abs_diff(1000) < 4 * 29), "{counts:?}");
    }

    #[test]
    fn draws_of_every_law_are_pinned() {
        let mut draws = Draws::new(42, 1, 2, 3);
        let found = [draws.normal(), draws.log_gamma_variate(0.5), draws.log_gamma_variate(2.0)];
        let shares = draws.dirichlet(&[1.0, 1.0]);
        let mut order = [0, 1, 2, 3, 4];
        draws.shuffle(&mut order);
        // What the Python above gives.
        let want: [f64; 3] = [2.818_984_736_428_437_7, -3.968_678_582_554_782, 0.373_249_432_749_614_64];
        assert!(found.iter().zip(want).all(|(found, want)| (found - want).abs() < 1e-12), "{found:?}");
        assert!((shares[0] - 0.094_877_639_824_721_71).abs() < 1e-12, "{shares:?}");
        assert_eq!(order, [1, 0, 2, 3, 4]);
    }
}
