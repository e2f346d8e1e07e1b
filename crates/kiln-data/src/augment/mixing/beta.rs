//! The symmetric beta distribution, of which mixup and cutmix draw their shares.
//!
//! Source: up to 1, Jöhnk, "Erzeugung von betaverteilten und gammaverteilten Zufallszahlen", Metrika 8 (1964), in
//! logarithms, since powers of a small alpha's inverse underflow; above, Cheng, "Generating beta variates with nonintegral
//! shape parameters", CACM 21 (1978), algorithm BB, for two equal parameters.

use crate::augment::philox::Draws;

/// Neither method rejects more than half of its attempts, so that one draw in 2⁶⁴ gets that far.
const NUM_ATTEMPTS: usize = 64;

/// Draws from Beta(`alpha`, `alpha`), a value of 0–1; a half if all attempts fail, as they do if `alpha` is no number.
///
/// Two uniform values per attempt.
pub(crate) fn beta(draws: &mut Draws, alpha: f64) -> f64 {
    let attempt = if alpha > 1.0 { cheng } else { johnk };
    // 1 less the value is above 0, where logarithms are finite.
    (0..NUM_ATTEMPTS).find_map(|_| attempt([(); 2].map(|()| 1.0 - draws.uniform()), alpha)).unwrap_or(0.5)
}

/// An attempt for `alpha` up to 1: `x / (x + y)` of two powers whose sum is at most 1.
fn johnk(uniform: [f64; 2], alpha: f64) -> Option<f64> {
    let [x, y] = uniform.map(|value| value.ln() / alpha);
    // No number if both logarithms are infinite.
    (x.exp() + y.exp() <= 1.0).then(|| logistic(x - y)).filter(|share| !share.is_nan())
}

/// An attempt for `alpha` from 1.
fn cheng([first, second]: [f64; 2], alpha: f64) -> Option<f64> {
    // Names as in the paper, but for the logit, its V.
    let beta = alpha.recip().sqrt();
    let gamma = alpha + beta.recip();
    let logit = beta * (first / (1.0 - first)).ln();
    let w = alpha * logit.exp();
    let r = gamma * logit - 4f64.ln();
    let log_ratio = 2.0 * alpha * (2.0 * alpha / (alpha + w)).ln();
    let z = first * first * second;
    (r + log_ratio >= z.ln()).then(|| logistic(logit))
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_variance_are_those_of_the_distribution() {
        for alpha in [1e-3, 0.2, 0.5, 0.999, 1.0, 1.001, 2.5, 40.0] {
            let values: Vec<f64> = (0..20_000).map(|sample| beta(&mut Draws::new(5, 0, sample, 0), alpha)).collect();
            assert!(values.iter().all(|value| (0.0..=1.0).contains(value)), "{alpha}");
            let mean = |of: fn(f64) -> f64| values.iter().map(|value| of(*value)).sum::<f64>() / 20_000.0;
            let variance = 0.25 / (2.0 * alpha + 1.0);
            let off = (mean(|value| value) - 0.5) / (variance / 20_000.0).sqrt();
            assert!(off.abs() < 4.0, "{alpha}: the mean is {off} standard errors off");
            let fourth = mean(|value| (value - 0.5).powi(4));
            let off =
                (mean(|value| (value - 0.5).powi(2)) - variance) / ((fourth - variance * variance) / 20_000.0).sqrt();
            assert!(off.abs() < 4.0, "{alpha}: the variance is {off} standard errors off");
        }
    }

    #[test]
    fn any_alpha_gives_a_share() {
        for alpha in [f64::NAN, f64::INFINITY, 1e300, 1e12, f64::MIN_POSITIVE, 0.0, -1.0] {
            for sample in 0..50 {
                let share = beta(&mut Draws::new(5, 0, sample, 0), alpha);
                assert!((0.0..=1.0).contains(&share), "{alpha}: {share}");
            }
        }
    }

    #[test]
    fn draws_are_pinned() {
        let of = |alpha| beta(&mut Draws::new(42, 0, 7, 0), alpha);
        let want = [(0.2, 0.1649826200035591), (1.0, 0.8193610447764956), (2.0, 0.5653643781893266)];
        // Logarithms are as exact as the platform's.
        assert!(want.iter().all(|&(alpha, want)| (of(alpha) - want).abs() < 1e-12), "{:?}", want.map(|it| of(it.0)));
    }
}
