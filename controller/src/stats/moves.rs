//! Whether two samples differ by more than chance: a rank test, its correction for many comparisons, and an interval for a
//! ratio over rounds.
//!
//! A round is one sample of each side, taken soon after each other. Samples within a round are not independent of each
//! other (they share a lab), so over several rounds each round counts as one number.

use super::{Interval, RESAMPLES, bounds, middle, resampled_median, sorted};

/// Largest sample whose ranks are counted out; above, the normal approximation is as good.
const EXACT: usize = 20;

/// Two-sided p of the hypothesis that neither sample tends to have the larger values: Mann and Whitney's rank test. Exact up to
/// 20 values each (with ties a little too large), else by the normal approximation with correction for ties and continuity. `None`
/// for an empty sample, or if a value is not finite.
#[must_use]
pub fn rank_sum(a: &[f64], b: &[f64]) -> Option<f64> {
    let mut all: Vec<(f64, bool)> = a.iter().map(|value| (*value, true)).collect();
    all.extend(b.iter().map(|value| (*value, false)));
    if a.is_empty() || b.is_empty() || all.iter().any(|(value, _)| !value.is_finite()) {
        return None;
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut ranks, mut ties, mut below) = (0.0, 0.0, 0.0);
    for same in all.chunk_by(|one, other| one.0 == other.0) {
        let n = same.len() as f64;
        ranks += same.iter().filter(|(_, of_a)| *of_a).count() as f64 * (below + f64::midpoint(1.0, n));
        ties += n.powi(3) - n;
        below += n;
    }
    let (n, m, all) = (a.len() as f64, b.len() as f64, all.len() as f64);
    let off = (ranks - n * (all + 1.0) / 2.0).abs();
    if a.len() <= EXACT && b.len() <= EXACT {
        return Some(at_least(off, a.len(), b.len()));
    }
    let spread = (n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)))).sqrt();
    Some(if spread == 0.0 {
        1.0
    } else {
        beyond((off - 0.5).max(0.0) / spread)
    })
}

/// Probability that the sum of the ranks of `n` of `n + m` values is at least so far from its mean. Counts all ways: the
/// coefficients of the Gaussian binomial.
fn at_least(off: f64, n: usize, m: usize) -> f64 {
    let mut ways = vec![0.0; n * m + 1];
    ways[0] = 1.0;
    for i in 1..=n {
        for k in (m + i..ways.len()).rev() {
            ways[k] -= ways[k - m - i];
        }
        for k in i..ways.len() {
            ways[k] += ways[k - i];
        }
    }
    let mean = (n * m) as f64 / 2.0;
    let far = ways
        .iter()
        .enumerate()
        .filter(|(u, _)| (*u as f64 - mean).abs() >= off - 1e-9);
    far.map(|(_, ways)| ways).sum::<f64>() / ways.iter().sum::<f64>()
}

/// Probability that a standard normal variable is farther from zero than `z`: the fraction of Press et al., Numerical
/// Recipes, 6.2 (`erfcc`), relative error below 1.2e-7.
fn beyond(z: f64) -> f64 {
    const TERMS: [f64; 10] = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_87,
        -1.135_203_98,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_68,
        -1.265_512_23,
    ];
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let series = TERMS.iter().fold(0.0, |sum, term| sum * t + term);
    t * (-x * x + series).exp()
}

/// Benjamini and Hochberg's correction: each p as the smallest share of false discoveries at which it would be one, in
/// the order given.
#[must_use]
pub fn false_discovery(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|one, other| p[*one].total_cmp(&p[*other]));
    let mut corrected = vec![1.0; p.len()];
    let mut least: f64 = 1.0;
    for (rank, place) in order.into_iter().enumerate().rev() {
        least = least.min(p[place] * p.len() as f64 / (rank + 1) as f64);
        corrected[place] = least;
    }
    corrected
}

/// Geometric mean over rounds of median `b` / median `a`, with its bootstrap percentile interval: rounds are drawn, and
/// within each drawn round the samples of both sides. With few rounds it is too narrow. `None` without a round, or if a
/// median is not positive.
#[must_use]
pub fn rounds_ratio_interval(rounds: &[(&[f64], &[f64])], seed: u64) -> Option<Interval> {
    let rounds: Vec<(Vec<f64>, Vec<f64>)> = rounds
        .iter()
        .map(|(a, b)| Some((sorted(a)?, sorted(b)?)))
        .collect::<Option<_>>()?;
    if rounds.is_empty() {
        return None;
    }
    let log = |a: f64, b: f64| if a > 0.0 && b > 0.0 { (b / a).ln() } else { f64::NAN };
    let n = rounds.len();
    let estimate = rounds.iter().map(|(a, b)| log(middle(a), middle(b))).sum::<f64>() / n as f64;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut drawn = Vec::new();
    let mut seen = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut sum = 0.0;
        for _ in 0..n {
            let (a, b) = &rounds[random.usize(..n)];
            let a = resampled_median(a, &mut drawn, &mut random);
            let b = resampled_median(b, &mut drawn, &mut random);
            sum += log(a, b);
        }
        seen.push(sum / n as f64);
    }
    let logs = bounds(estimate, &seen)?;
    Some(Interval {
        estimate: logs.estimate.exp(),
        low: logs.low.exp(),
        high: logs.high.exp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // z = 1.96 is 5 % of both sides, 2.576 1 %.
    #[test]
    fn the_normal_tail_is_that_of_the_tables() {
        for (z, p) in [(0.0, 1.0), (1.959_96, 0.05), (2.575_83, 0.01), (5.0, 5.733e-7)] {
            assert!((beyond(z) - p).abs() < 1e-6, "{z}");
        }
    }

    #[test]
    fn a_shifted_sample_is_told_and_an_equal_one_is_not() {
        let a: Vec<f64> = (0..40).map(f64::from).collect();
        let shifted: Vec<f64> = a.iter().map(|value| value + 20.0).collect();
        assert!(rank_sum(&a, &shifted).unwrap() < 1e-5);
        assert!(rank_sum(&a, &a).unwrap() > 0.9);
        assert_eq!(rank_sum(&[1.0; 30], &[1.0; 30]), Some(1.0));
        assert_eq!((rank_sum(&a, &[]), rank_sum(&a, &[f64::NAN])), (None, None));
    }

    #[test]
    fn few_values_are_counted_out() {
        // One of the C(2n, n) ways, or its mirror image.
        for (n, ways) in [(1, 2.0), (2, 6.0), (3, 20.0), (4, 70.0), (7, 3432.0)] {
            let low: Vec<f64> = (0..n).map(f64::from).collect();
            let high: Vec<f64> = (n..2 * n).map(f64::from).collect();
            assert!((rank_sum(&low, &high).unwrap() - 2.0 / ways).abs() < 1e-12, "{n}");
        }
        // 1, 2, 4 against 3, 5, 6: U is 1 or less in 2 of 20 ways, and 8 or more in 2.
        assert!((rank_sum(&[1.0, 2.0, 4.0], &[3.0, 5.0, 6.0]).unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(rank_sum(&[1.0; 5], &[1.0; 5]), Some(1.0));
        // Where both ways can be gone they agree.
        let a: Vec<f64> = (0..20).map(|i| f64::from(i) * 1.7).collect();
        let b: Vec<f64> = (0..20).map(|i| f64::from(i) * 1.7 + 9.1).collect();
        let exact = rank_sum(&a, &b).unwrap();
        let more: Vec<f64> = b.iter().copied().chain([20.3]).collect();
        assert!((exact - rank_sum(&a, &more).unwrap()).abs() < 0.02, "{exact}");
    }

    #[test]
    fn many_comparisons_are_corrected_and_keep_their_order() {
        assert_eq!(
            false_discovery(&[0.01, 0.04, 0.03, 0.5]),
            [0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5]
        );
        assert_eq!(false_discovery(&[]), Vec::<f64>::new());
    }

    /// Rounds of labs that fall into two classes far apart, as those of real servers do, and so many times the first side.
    fn rounds(random: &mut fastrand::Rng, n: usize, times: f64) -> Vec<(Vec<f64>, Vec<f64>)> {
        let mut lab = |level: f64| -> Vec<f64> {
            let class = if random.bool() { 1.0 } else { 1.1 };
            let level = level * class * (1.0 + 0.01 * random.f64());
            (0..40).map(|_| level * (1.0 + 0.02 * random.f64())).collect()
        };
        (0..n).map(|_| (lab(1.0), lab(times))).collect()
    }

    // At most 5 % of 600 experiments are 30 with a standard error of 5.3, and three of them more.
    #[test]
    fn labs_that_differ_by_themselves_are_taken_for_a_move_no_more_often_than_is_said() {
        let mut random = fastrand::Rng::with_seed(5);
        let median = |sample: &Vec<f64>| super::super::median(sample).unwrap();
        for n in [4, 6] {
            let fooled = (0..600).filter(|_| {
                let rounds = rounds(&mut random, n, 1.0);
                let (a, b): (Vec<f64>, Vec<f64>) = rounds.iter().map(|(a, b)| (median(a), median(b))).unzip();
                rank_sum(&a, &b).unwrap() < 0.05
            });
            let fooled = fooled.count();
            assert!(fooled <= 46, "{n}: {fooled}");
        }
        // On the samples of one lab each it takes nearly all of them for one: it knows nothing of labs.
        let fooled = (0..100).filter(|_| {
            let (a, b) = rounds(&mut random, 1, 1.0).pop().unwrap();
            rank_sum(&a, &b).unwrap() < 0.05
        });
        assert!(fooled.count() > 60);
    }

    #[test]
    fn the_ratio_over_rounds_is_that_of_their_medians() {
        let same = [2.0; 10];
        let twice = [4.0; 10];
        let interval = rounds_ratio_interval(&[(&same, &twice), (&same, &twice)], 1).unwrap();
        assert!((interval.estimate - 2.0).abs() < 1e-12 && interval.low <= 2.0 && interval.high >= 2.0 - 1e-12);
        assert_eq!(rounds_ratio_interval(&[(&same, &[0.0; 10])], 1), None);
        assert_eq!(rounds_ratio_interval(&[], 1), None);
        let noisy = rounds(&mut fastrand::Rng::with_seed(2), 6, 1.5);
        let noisy: Vec<(&[f64], &[f64])> = noisy.iter().map(|(a, b)| (a.as_slice(), b.as_slice())).collect();
        let interval = rounds_ratio_interval(&noisy, 1).unwrap();
        assert!(
            interval.low > 1.2 && interval.high < 1.8 && interval.low < interval.high,
            "{interval:?}"
        );
    }
}
