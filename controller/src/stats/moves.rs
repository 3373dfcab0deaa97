//! Whether two samples differ by more than chance: a test over rounds, a rank test within one round, their correction for
//! many comparisons, and an interval for a ratio over rounds.
//!
//! A round is one sample of each side, taken soon after each other. Samples within a round are not independent of each
//! other (they share a lab), so over several rounds each round counts as one number.

use super::{Interval, RESAMPLES, bounds, middle, resampled_median, sorted};

/// Two-sided p of the hypothesis that the numbers come from a distribution around zero: Student's t. `None` for fewer than
/// two, or if one is not finite.
#[must_use]
pub fn around_zero(numbers: &[f64]) -> Option<f64> {
    let n = numbers.len();
    if n < 2 || numbers.iter().any(|number| !number.is_finite()) {
        return None;
    }
    let mean = numbers.iter().sum::<f64>() / n as f64;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let error = (squares / (n - 1) as f64 / n as f64).sqrt();
    if error == 0.0 {
        return Some(if mean == 0.0 { 1.0 } else { 0.0 });
    }
    Some(outside((mean / error).abs(), n - 1))
}

/// Probability that Student's t with so many degrees of freedom is farther from zero than `t`: the finite series of
/// Abramowitz and Stegun, 26.7.3 and 26.7.4.
fn outside(t: f64, degrees: usize) -> f64 {
    let angle = (t / (degrees as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = degrees % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    let mut k = if odd { 1 } else { 0 };
    while k + 2 <= degrees {
        sum += term;
        k += 2;
        term *= cosine * cosine * (k - 1) as f64 / k as f64;
    }
    let within = if odd {
        // With one degree of freedom the sum is empty.
        (angle + sine * sum) * 2.0 / std::f64::consts::PI
    } else {
        sine * sum
    };
    (1.0 - within).clamp(0.0, 1.0)
}

/// Two-sided p of the hypothesis that neither sample tends to have the larger values: Mann and Whitney's rank test, by its
/// normal approximation with correction for ties and continuity. `None` below eight values in a sample, where the
/// approximation is none.
#[must_use]
pub fn rank_sum(a: &[f64], b: &[f64]) -> Option<f64> {
    const FEWEST: usize = 8;
    if a.len() < FEWEST || b.len() < FEWEST {
        return None;
    }
    let mut all: Vec<(f64, bool)> = a.iter().map(|value| (*value, true)).collect();
    all.extend(b.iter().map(|value| (*value, false)));
    if all.iter().any(|(value, _)| !value.is_finite()) {
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
    let off = (ranks - n * (all + 1.0) / 2.0).abs() - 0.5;
    let spread = (n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)))).sqrt();
    Some(if spread == 0.0 {
        1.0
    } else {
        beyond(off.max(0.0) / spread)
    })
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

    fn near(value: Option<f64>, expected: f64) {
        let value = value.expect("there is a p");
        assert!((value - expected).abs() < 2e-4, "{value} is not {expected}");
    }

    // Quantiles of Student's t as tables have them: 12.706 and 2.776 at 5 %, 5.841 at 1 %.
    #[test]
    fn students_t_is_that_of_the_tables() {
        for (t, degrees, p) in [
            (12.706, 1, 0.05),
            (4.303, 2, 0.05),
            (5.841, 3, 0.01),
            (2.776, 4, 0.05),
            (2.093, 19, 0.05),
        ] {
            near(Some(outside(t, degrees)), p);
        }
        assert!((outside(0.0, 5) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn numbers_around_zero_are_told_from_numbers_beside_it() {
        assert!(around_zero(&[0.3, -0.2, 0.1, -0.25]).unwrap() > 0.5);
        assert!(around_zero(&[0.50, 0.51, 0.49]).unwrap() < 0.001);
        assert_eq!(around_zero(&[1.0]), None);
        assert_eq!(around_zero(&[1.0, f64::NAN]), None);
        assert_eq!((around_zero(&[0.0; 3]), around_zero(&[1.0; 3])), (Some(1.0), Some(0.0)));
    }

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
        assert_eq!(rank_sum(&[1.0; 10], &[1.0; 10]), Some(1.0));
        assert_eq!(rank_sum(&a, &[1.0; 7]), None);
        // U = 1..=10 against 11..=20 is 0: z = (50 - 0.5) / sqrt(100 * 21 / 12) = 3.742, p = 1.8e-4.
        let low: Vec<f64> = (1..=10).map(f64::from).collect();
        let high: Vec<f64> = (11..=20).map(f64::from).collect();
        assert!((rank_sum(&low, &high).unwrap() - 1.827e-4).abs() < 1e-6);
    }

    #[test]
    fn many_comparisons_are_corrected_and_keep_their_order() {
        assert_eq!(
            false_discovery(&[0.01, 0.04, 0.03, 0.5]),
            [0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5]
        );
        assert_eq!(false_discovery(&[]), Vec::<f64>::new());
    }

    /// Rounds of labs that differ from each other by some per cent, and so many times the first side.
    fn rounds(random: &mut fastrand::Rng, n: usize, times: f64) -> Vec<(Vec<f64>, Vec<f64>)> {
        let mut lab = |level: f64| -> Vec<f64> {
            let level = level * (1.0 + 0.1 * (random.f64() + random.f64() - 1.0));
            (0..40).map(|_| level * (1.0 + 0.02 * random.f64())).collect()
        };
        (0..n).map(|_| (lab(1.0), lab(times))).collect()
    }

    fn logs(rounds: &[(Vec<f64>, Vec<f64>)]) -> Vec<f64> {
        rounds
            .iter()
            .map(|(a, b)| (super::super::median(b).unwrap() / super::super::median(a).unwrap()).ln())
            .collect()
    }

    // 5 % of 600 experiments are 30 with a standard error of 5.3: three of them either way.
    #[test]
    fn labs_that_differ_by_themselves_are_taken_for_a_move_no_more_often_than_is_said() {
        let mut random = fastrand::Rng::with_seed(5);
        let seen = (0..600)
            .filter(|_| around_zero(&logs(&rounds(&mut random, 4, 1.0))).unwrap() < 0.05)
            .count();
        assert!((14..=46).contains(&seen), "{seen}");
        // The rank test on the samples of one lab each takes nearly all of them for one: it knows nothing of labs.
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
