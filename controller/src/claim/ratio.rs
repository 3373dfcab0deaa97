//! Claims that one time is so many times another: `WAIT costs one round trip`, `the far replica is one flight later`.
//!
//! Ratios carry to another machine; the milliseconds that they are made of do not.

use super::{Bound, Claim, Finding, Sampled, within};
use crate::stats::quotient;

/// Median of `time` in units of the median of `unit` is within the bound.
#[must_use]
pub fn judge(claim: Claim, time: &Sampled, unit: &Sampled, bound: &Bound, seed: u64) -> Finding {
    within::judge(
        claim,
        &[time, unit],
        |medians| quotient(medians[0], medians[1]),
        bound,
        seed,
    )
}

/// Median of `later` minus median of `sooner`, in units of `share` of the median of `unit`, is within the bound. With
/// round trips as unit and a share of 0.5 it is counted in flights.
#[must_use]
pub fn judge_difference(
    claim: Claim,
    [later, sooner]: [&Sampled; 2],
    unit: &Sampled,
    share: f64,
    bound: &Bound,
    seed: u64,
) -> Finding {
    within::judge(
        claim,
        &[later, sooner, unit],
        |medians| quotient(medians[0] - medians[1], share * medians[2]),
        bound,
        seed,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    fn all(value: f64) -> Sampled {
        Sampled::new("x", vec![value; 30], 0)
    }

    #[test]
    fn a_time_is_counted_in_units_of_another() {
        let bound = Bound::between(1.0, 1.1, "round trips");
        let claim = || Claim::new("3.wait", "WAIT costs one round trip");
        let finding = judge(claim(), &all(41.0), &all(40.0), &bound, 1);
        assert_eq!(finding.verdict, Verdict::Holds);
        assert!(finding.measured.starts_with("1.02 "), "{}", finding.measured);
        assert_eq!(
            judge(claim(), &all(82.0), &all(40.0), &bound, 1).verdict,
            Verdict::Diverged
        );
    }

    #[test]
    fn a_difference_is_counted_in_flights() {
        let bound = Bound::between(0.9, 1.1, "flights");
        let claim = || Claim::new("1.far", "far minus near is one flight");
        let finding = judge_difference(claim(), [&all(21.0), &all(1.0)], &all(40.0), 0.5, &bound, 1);
        assert_eq!(finding.verdict, Verdict::Holds);
        let round_trip = judge_difference(claim(), [&all(41.0), &all(1.0)], &all(40.0), 0.5, &bound, 1);
        assert_eq!(round_trip.verdict, Verdict::Diverged);
    }
}
