//! Statistics of samples: a summary, and bootstrap intervals of medians and of what is computed from medians.
//!
//! Knows no units: a sample is a list of numbers. Everything is deterministic: the same sample and seed give the same
//! interval, so that a stored run is judged alike for ever. Limit: resampling takes the operations of a sample as
//! independent of each other; a slow minute of the host makes them less so, and the interval then is too narrow.

mod moves;

pub use moves::{false_discovery, rank_sum, rounds_ratio_interval};

/// Resamples of a bootstrap.
pub const RESAMPLES: usize = 2000;

/// Share of the resampled statistics that an [`Interval`] holds.
pub const CONFIDENCE: f64 = 0.95;

/// A sample in six numbers, each in the sample's own unit but for `n`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Number of operations.
    pub n: usize,
    /// Smallest.
    pub min: f64,
    /// Middle one; of an even number the mean of the two in the middle.
    pub median: f64,
    /// Element number int(0.95 n) of the sorted sample, counted from 0, as the record takes it.
    pub p95: f64,
    /// Largest.
    pub max: f64,
    /// Mean; a few outliers move it far, so it stands beside the median and never for it.
    pub mean: f64,
}

impl Summary {
    /// Of a sample; `None` if it is empty or holds something that is not a number.
    #[must_use]
    pub fn of(sample: &[f64]) -> Option<Self> {
        let sorted = sorted(sample)?;
        let n = sorted.len();
        Some(Self {
            n,
            min: sorted[0],
            median: middle(&sorted),
            p95: sorted[(n * 95 / 100).min(n - 1)],
            max: sorted[n - 1],
            mean: sorted.iter().sum::<f64>() / n as f64,
        })
    }
}

/// An estimate with the range in which a repetition would fall, see [`CONFIDENCE`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The statistic of the samples themselves.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Median; `None` if the sample is empty or holds something that is not a number.
#[must_use]
pub fn median(sample: &[f64]) -> Option<f64> {
    sorted(sample).map(|sorted| middle(&sorted))
}

/// Bootstrap percentile interval of a median.
#[must_use]
pub fn median_interval(sample: &[f64], seed: u64) -> Option<Interval> {
    interval(&[sample], seed, |medians| medians[0])
}

/// Bootstrap percentile interval of median `a` - median `b`.
#[must_use]
pub fn difference_interval(a: &[f64], b: &[f64], seed: u64) -> Option<Interval> {
    interval(&[a, b], seed, |medians| medians[0] - medians[1])
}

/// Bootstrap percentile interval of median `a` / median `b`.
#[must_use]
pub fn ratio_interval(a: &[f64], b: &[f64], seed: u64) -> Option<Interval> {
    interval(&[a, b], seed, |medians| quotient(medians[0], medians[1]))
}

/// Bootstrap percentile interval of (median `a2` - median `a1`) / (median `b2` - median `b1`): by how much `a` grows for
/// each unit by which `b` grows.
#[must_use]
pub fn slope_interval(a: [&[f64]; 2], b: [&[f64]; 2], seed: u64) -> Option<Interval> {
    interval(&[a[0], a[1], b[0], b[1]], seed, |medians| {
        quotient(medians[1] - medians[0], medians[3] - medians[2])
    })
}

/// Bootstrap percentile interval of any statistic of the samples' medians, which it is given in the samples' order.
///
/// A sample that the statistic uses twice stands in the list once, or it would be taken for two. `None` if a sample is
/// empty, or if the statistic is not a number for some resample (see [`quotient`]).
#[must_use]
pub fn interval(samples: &[&[f64]], seed: u64, statistic: impl Fn(&[f64]) -> f64) -> Option<Interval> {
    let samples: Vec<Vec<f64>> = samples.iter().map(|sample| sorted(sample)).collect::<Option<_>>()?;
    let mut medians: Vec<f64> = samples.iter().map(|sample| middle(sample)).collect();
    let estimate = statistic(&medians);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut drawn = Vec::new();
    let mut seen = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for (median, sample) in medians.iter_mut().zip(&samples) {
            *median = resampled_median(sample, &mut drawn, &mut random);
        }
        seen.push(statistic(&medians));
    }
    bounds(estimate, &seen)
}

/// Percentile interval of a statistic's resamples; `None` if one of them is not a number.
fn bounds(estimate: f64, seen: &[f64]) -> Option<Interval> {
    if !estimate.is_finite() {
        return None;
    }
    let seen = sorted(seen)?;
    // 2000 resamples: element 50 from either end bounds the middle 95 %.
    let outside = RESAMPLES / 40;
    Some(Interval {
        estimate,
        low: seen[outside],
        high: seen[RESAMPLES - 1 - outside],
    })
}

/// Numerator / denominator, and not a number where the denominator is not above zero: all that is divided by here is a
/// time, and a ratio whose denominator may be zero says nothing.
#[must_use]
pub fn quotient(numerator: f64, denominator: f64) -> f64 {
    if denominator > 0.0 {
        numerator / denominator
    } else {
        f64::NAN
    }
}

/// Slope of the line that fits best through the points (least squares), and not a number if all `x` are the same.
#[must_use]
pub fn line_slope(x: &[f64], y: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_x, mean_y) = (mean(x), mean(y));
    let together = x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    quotient(together, x.iter().map(|x| (x - mean_x).powi(2)).sum())
}

/// Ascending; `None` if empty or if a number is not finite.
fn sorted(sample: &[f64]) -> Option<Vec<f64>> {
    if sample.is_empty() || sample.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = sample.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

/// Median of a sorted, non-empty sample.
fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])
}

/// Median of a resample of a sorted sample. Drawn elements are counted by place and the counts walked from below, which
/// needs no sorting; bare loops, since most runs are judged by a debug build, where they are four times as fast.
fn resampled_median(sorted: &[f64], drawn: &mut Vec<u32>, random: &mut fastrand::Rng) -> f64 {
    let n = sorted.len();
    drawn.clear();
    drawn.resize(n, 0);
    let mut left = n;
    while left > 0 {
        let bits = random.u64(..);
        drawn[place(bits & 0xffff_ffff, n)] += 1;
        left -= 1;
        if left > 0 {
            drawn[place(bits >> 32, n)] += 1;
            left -= 1;
        }
    }
    let lower = place_of(drawn, (n - 1) / 2, 0, 0);
    let upper = place_of(drawn, n / 2, lower.0, lower.1);
    f64::midpoint(sorted[lower.0], sorted[upper.0])
}

/// A place below `n` from 32 random bits; its bias is n / 2^32.
fn place(bits: u64, n: usize) -> usize {
    usize::try_from((bits * n as u64) >> 32).expect("it is below n, which is a usize")
}

/// Place at which the drawn element of this rank stands, and how many were drawn below that place; walks on from
/// `place`, below which `below` were drawn.
fn place_of(drawn: &[u32], rank: usize, mut place: usize, mut below: usize) -> (usize, usize) {
    loop {
        let here = drawn[place] as usize;
        if below + here > rank {
            return (place, below);
        }
        below += here;
        place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Right-skewed values, as latencies are, with a known median.
    fn skewed(random: &mut fastrand::Rng, n: usize) -> Vec<f64> {
        (0..n).map(|_| -(1.0 - random.f64()).ln()).collect()
    }
    const MEDIAN_OF_SKEWED: f64 = std::f64::consts::LN_2;

    #[test]
    fn a_summary_has_the_records_p95() {
        let sample: Vec<f64> = (0..200).rev().map(f64::from).collect();
        let summary = Summary::of(&sample).unwrap();
        assert_eq!((summary.n, summary.min, summary.max), (200, 0.0, 199.0));
        assert_eq!((summary.median, summary.p95, summary.mean), (99.5, 190.0, 99.5));
    }

    #[test]
    fn p95_of_few_is_an_element_of_them() {
        assert_eq!(Summary::of(&[7.0]).unwrap().p95, 7.0);
        assert_eq!(Summary::of(&[3.0, 1.0, 2.0]).unwrap().p95, 3.0);
    }

    #[test]
    fn nothing_and_not_a_number_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(median_interval(&[], 1), None);
    }

    #[test]
    fn the_same_seed_gives_the_same_interval_and_another_seed_another() {
        let sample = skewed(&mut fastrand::Rng::with_seed(3), 100);
        assert_eq!(median_interval(&sample, 1), median_interval(&sample, 1));
        assert_ne!(median_interval(&sample, 1), median_interval(&sample, 2));
    }

    #[test]
    fn the_order_of_a_sample_does_not_matter() {
        let mut sample = skewed(&mut fastrand::Rng::with_seed(3), 100);
        let forwards = median_interval(&sample, 1);
        sample.reverse();
        assert_eq!(median_interval(&sample, 1), forwards);
    }

    #[test]
    fn a_resampled_median_is_that_of_the_sorted_resample() {
        for n in [1, 2, 3, 10, 11] {
            let sample = sorted(&skewed(&mut fastrand::Rng::with_seed(n as u64), n)).unwrap();
            for seed in 0..50 {
                let mut random = fastrand::Rng::with_seed(seed);
                let halves = (0..n).flat_map(|_| {
                    let bits = random.u64(..);
                    [bits & 0xffff_ffff, bits >> 32]
                });
                let plain: Vec<f64> = halves.take(n).map(|bits| sample[place(bits, n)]).collect();
                let counted = resampled_median(&sample, &mut Vec::new(), &mut fastrand::Rng::with_seed(seed));
                assert_eq!(Some(counted), median(&plain));
            }
        }
    }

    /// Share of 300 simulated experiments whose interval holds the truth.
    fn coverage(truth: f64, experiment: impl Fn(&mut fastrand::Rng, u64) -> Interval) -> f64 {
        let mut random = fastrand::Rng::with_seed(7);
        let held = (0..300)
            .filter(|seed| {
                let interval = experiment(&mut random, *seed);
                interval.low <= truth && truth <= interval.high
            })
            .count();
        held as f64 / 300.0
    }

    // The standard error of a share of 0.95 over 300 experiments is 0.013: three of them either way. A percentile
    // bootstrap of a median is a little generous, hence the upper bound.
    #[test]
    fn the_interval_of_a_median_covers_the_truth_as_often_as_it_says() {
        let covered = coverage(MEDIAN_OF_SKEWED, |random, seed| {
            median_interval(&skewed(random, 40), seed).unwrap()
        });
        assert!((0.912..=0.99).contains(&covered), "{covered}");
    }

    #[test]
    fn the_interval_of_a_slope_covers_the_truth_as_often_as_it_says() {
        let at = |random: &mut fastrand::Rng, base: f64| -> Vec<f64> {
            skewed(random, 20).iter().map(|noise| base + noise).collect()
        };
        let covered = coverage(1.5, |random, seed| {
            let (a1, a2) = (at(random, 15.0), at(random, 120.0));
            let (b1, b2) = (at(random, 10.0), at(random, 80.0));
            slope_interval([&a1, &a2], [&b1, &b2], seed).unwrap()
        });
        assert!((0.912..=0.99).contains(&covered), "{covered}");
    }

    #[test]
    fn a_ratio_and_a_difference_of_constants_are_exact() {
        let exact = |value| Interval {
            estimate: value,
            low: value,
            high: value,
        };
        assert_eq!(ratio_interval(&[6.0; 30], &[4.0; 30], 1), Some(exact(1.5)));
        assert_eq!(difference_interval(&[6.0; 30], &[4.0; 30], 1), Some(exact(2.0)));
    }

    #[test]
    fn a_ratio_over_something_that_may_be_zero_is_none() {
        assert_eq!(ratio_interval(&[6.0; 30], &[0.0; 30], 1), None);
        let noisy: Vec<f64> = (0..30).map(|i| if i % 2 == 0 { -1.0 } else { 1.1 }).collect();
        assert_eq!(ratio_interval(&[6.0; 30], &noisy, 1), None);
    }

    #[test]
    fn four_samples_of_200_are_resampled_in_no_time() {
        // A debug build on an idle machine takes about 25 ms; the bound leaves room for a busy one.
        let mut random = fastrand::Rng::with_seed(1);
        let mut samples: Vec<Vec<f64>> = (0..4).map(|i| skewed(&mut random, 200 + i)).collect();
        samples[3].iter_mut().for_each(|value| *value += 10.0);
        let began = std::time::Instant::now();
        assert!(slope_interval([&samples[0], &samples[1]], [&samples[2], &samples[3]], 1).is_some());
        assert!(began.elapsed() < std::time::Duration::from_secs(1));
    }

    #[test]
    fn a_line_through_points_has_their_slope_and_none_over_a_single_place() {
        assert_eq!(line_slope(&[0.0, 1.0, 2.0], &[5.0, 7.0, 9.0]), 2.0);
        assert_eq!(line_slope(&[0.0, 1.0, 2.0], &[1.0, 0.0, 1.0]), 0.0);
        assert!(line_slope(&[3.0, 3.0], &[1.0, 2.0]).is_nan());
        assert!(line_slope(&[], &[]).is_nan());
    }
}
