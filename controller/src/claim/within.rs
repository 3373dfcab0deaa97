//! The rule that all claims about samples share: the bootstrap interval of a statistic against a bound.
//!
//! Entirely inside the bound: holds. Entirely outside: diverged, unless the fastest operations are inside: a busy host only
//! adds, so what it made of the others is noise. Across an end of it: inconclusive, noise. A missing
//! series, fewer than [`MIN_SAMPLES`] operations in one, more than one in [`MAX_FAILED_ONE_IN`] failed, or a statistic
//! that is undefined: inconclusive, incomplete. Failures are always told, since what failed was not timed.

use super::{Claim, Finding, Sampled};
use crate::stats;
use std::fmt;

/// Fewest operations of a series from which anything is concluded; the record's smallest has 20.
pub const MIN_SAMPLES: usize = 20;

/// With more than one operation in this many failed, the median of the others is not the median of the operation.
pub const MAX_FAILED_ONE_IN: u64 = 20;

/// One operation in this many is left alone by a busy host: their statistic is that of the fastest.
const FASTEST_ONE_IN: usize = 10;

/// What a statistic has to lie in, ends included.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// Lower end (minus infinity: none).
    pub low: f64,
    /// Upper end (infinity: none).
    pub high: f64,
    /// What is counted, for the reader, e.g. `round trips` (empty: a bare ratio).
    pub unit: String,
}

impl Bound {
    /// From `low` to `high`.
    pub fn between(low: f64, high: f64, unit: impl Into<String>) -> Self {
        Self {
            low,
            high,
            unit: unit.into(),
        }
    }

    /// `low` or more.
    pub fn at_least(low: f64, unit: impl Into<String>) -> Self {
        Self::between(low, f64::INFINITY, unit)
    }

    /// `high` or less.
    pub fn at_most(high: f64, unit: impl Into<String>) -> Self {
        Self::between(f64::NEG_INFINITY, high, unit)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.low.is_finite(), self.high.is_finite()) {
            (true, true) => write!(f, "{} to {}", figure(self.low), figure(self.high)),
            (true, false) => write!(f, "at least {}", figure(self.low)),
            (false, _) => write!(f, "at most {}", figure(self.high)),
        }
    }
}

/// Judges a statistic of the samples' medians, given to it in the order of `parts` (a series used twice stands there
/// once). The statistic is not a number where it is undefined, see [`stats::quotient`].
pub fn judge(claim: Claim, parts: &[&Sampled], statistic: impl Fn(&[f64]) -> f64, bound: &Bound, seed: u64) -> Finding {
    let mut samples = Vec::new();
    for part in parts {
        match usable(part) {
            Ok(values) => samples.push(values),
            Err(lack) => return claim.incomplete(format!("no value, bound {bound}"), lack),
        }
    }
    let fastest = statistic(&samples.iter().map(|sample| fast(sample)).collect::<Vec<_>>());
    let Some(interval) = stats::interval(&samples, seed, statistic) else {
        return claim.noisy(
            format!("no value, bound {bound}"),
            "what is divided by is not clearly above zero",
        );
    };
    let measured = measured(&interval, bound, parts);
    if bound.low <= interval.low && interval.high <= bound.high {
        claim.holds(measured)
    } else if (bound.low..=bound.high).contains(&fastest) {
        claim.noisy(
            measured,
            format!(
                "the fastest operations are within the bound ({}): the host is busy, or there are too few samples",
                figure(fastest)
            ),
        )
    } else if interval.high < bound.low {
        claim.diverged(measured, "the whole interval lies below the bound")
    } else if interval.low > bound.high {
        claim.diverged(measured, "the whole interval lies above the bound")
    } else {
        claim.noisy(
            measured,
            "the interval crosses the bound: too noisy, or too few samples",
        )
    }
}

/// The time that the fastest of a sample stay below.
fn fast(sample: &[f64]) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[sorted.len() / FASTEST_ONE_IN]
}

/// A number as claims print it: three significant digits where that matters.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn usable(part: &Sampled) -> Result<&[f64], String> {
    let Some(values) = part.values.as_deref() else {
        return Err(format!("{} was not measured", part.name));
    };
    let (n, failed) = (values.len(), part.failed);
    if n < MIN_SAMPLES {
        return Err(format!(
            "{} has {n} samples ({failed} failed), at least {MIN_SAMPLES} are needed",
            part.name
        ));
    }
    let tried = n as u64 + u64::from(failed);
    if u64::from(failed) * MAX_FAILED_ONE_IN > tried {
        return Err(format!("{} failed", operations(part)));
    }
    Ok(values)
}

/// How many failed, of how many.
fn operations(part: &Sampled) -> String {
    let tried = part.values.as_ref().map_or(0, Vec::len) as u64 + u64::from(part.failed);
    format!("{} of {tried} operations of {}", part.failed, part.name)
}

fn measured(interval: &stats::Interval, bound: &Bound, parts: &[&Sampled]) -> String {
    let [estimate, low, high] = [interval.estimate, interval.low, interval.high].map(figure);
    let unit = if bound.unit.is_empty() {
        String::new()
    } else {
        format!(" {}", bound.unit)
    };
    let mut text = format!("{estimate} [{low}, {high}]{unit}, bound {bound}");
    for part in parts.iter().filter(|part| part.failed > 0) {
        text.push_str(&format!("; {} failed", operations(part)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Cause, Verdict};

    fn around(value: f64, spread: f64, n: usize) -> Sampled {
        let mut random = fastrand::Rng::with_seed(5);
        let values = (0..n).map(|_| value + spread * (random.f64() - 0.5)).collect();
        Sampled::new("get of \"far\"", values, 0)
    }

    fn judged(sampled: &Sampled) -> Finding {
        let bound = Bound::between(1.0, 1.1, "round trips");
        judge(Claim::new("0.x", "x"), &[sampled], |medians| medians[0], &bound, 1)
    }

    #[test]
    fn an_interval_inside_the_bound_holds_and_says_so() {
        let finding = judged(&around(1.05, 0.0, 20));
        assert_eq!(finding.verdict, Verdict::Holds);
        assert_eq!(finding.measured, "1.05 [1.05, 1.05] round trips, bound 1.00 to 1.10");
        assert_eq!((finding.reason, finding.cause), (None, None));
    }

    #[test]
    fn the_ends_of_a_bound_belong_to_it() {
        assert_eq!(judged(&around(1.0, 0.0, 20)).verdict, Verdict::Holds);
        assert_eq!(judged(&around(1.1, 0.0, 20)).verdict, Verdict::Holds);
    }

    #[test]
    fn an_interval_outside_the_bound_diverged_on_either_side() {
        for (value, side) in [(0.9, "below"), (1.2, "above")] {
            let finding = judged(&around(value, 0.05, 50));
            assert_eq!(finding.verdict, Verdict::Diverged);
            assert!(finding.reason.unwrap().contains(side));
        }
    }

    #[test]
    fn an_interval_across_an_end_is_noise() {
        for value in [1.0, 1.1] {
            let finding = judged(&around(value, 0.2, 30));
            assert_eq!(
                (finding.verdict, finding.cause),
                (Verdict::Inconclusive, Some(Cause::Noise))
            );
        }
    }

    #[test]
    fn what_a_busy_host_made_of_most_operations_is_noise_and_what_all_share_is_not() {
        let mut values = vec![1.05; 10];
        values.extend(vec![1.3; 20]);
        let busy = judged(&Sampled::new("x", values, 0));
        assert_eq!((busy.verdict, busy.cause), (Verdict::Inconclusive, Some(Cause::Noise)));
        assert!(busy.reason.unwrap().contains("fastest"));
        assert_eq!(judged(&Sampled::new("x", vec![1.3; 30], 0)).verdict, Verdict::Diverged);
    }

    #[test]
    fn too_few_samples_decide_nothing_however_clear_they_are() {
        let finding = judged(&around(1.05, 0.0, 19));
        assert_eq!(
            (finding.verdict, finding.cause),
            (Verdict::Inconclusive, Some(Cause::Incomplete))
        );
        assert!(finding.reason.unwrap().contains("has 19 samples"));
    }

    #[test]
    fn a_missing_series_is_named() {
        let missing = Sampled {
            name: "get of \"far\"".into(),
            values: None,
            failed: 0,
        };
        let finding = judged(&missing);
        assert_eq!(finding.cause, Some(Cause::Incomplete));
        assert_eq!(finding.reason.as_deref(), Some("get of \"far\" was not measured"));
    }

    #[test]
    fn few_failures_are_told_and_many_decide_nothing() {
        let mut sampled = around(1.05, 0.0, 200);
        sampled.failed = 3;
        assert!(
            judged(&sampled)
                .measured
                .ends_with("; 3 of 203 operations of get of \"far\" failed")
        );
        sampled.failed = 11;
        assert_eq!(judged(&sampled).cause, Some(Cause::Incomplete));
    }

    #[test]
    fn an_undefined_statistic_decides_nothing() {
        let finding = judge(
            Claim::new("0.x", "x"),
            &[&around(1.0, 0.0, 20)],
            |medians| stats::quotient(medians[0], 0.0),
            &Bound::at_least(1.0, ""),
            1,
        );
        assert_eq!(finding.verdict, Verdict::Inconclusive);
    }
}
