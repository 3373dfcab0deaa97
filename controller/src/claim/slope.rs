//! Claims about growth between two points: `for each unit of round trip more, one unit more`. What is constant beside
//! the distance drops out, which a ratio at one point cannot tell from a part that grows with it.

use super::{Bound, Claim, Finding, Sampled, within};
use crate::stats::{line_slope, quotient};

/// (median of the second `time` - median of the first) / (the same of `unit`) is within the bound. Both at the same two
/// points, the shorter distance first.
#[must_use]
pub fn judge(claim: Claim, time: [&Sampled; 2], unit: [&Sampled; 2], bound: &Bound, seed: u64) -> Finding {
    within::judge(
        claim,
        &[time[0], time[1], unit[0], unit[1]],
        |medians| quotient(medians[1] - medians[0], medians[3] - medians[2]),
        bound,
        seed,
    )
}

/// Growth of a difference, e.g. of far minus near: `later` and `sooner` at both points, in units of `share` of the
/// growth of `unit`.
#[must_use]
pub fn judge_difference(
    claim: Claim,
    later: [&Sampled; 2],
    sooner: [&Sampled; 2],
    unit: [&Sampled; 2],
    share: f64,
    bound: &Bound,
    seed: u64,
) -> Finding {
    within::judge(
        claim,
        &[later[0], later[1], sooner[0], sooner[1], unit[0], unit[1]],
        |medians| {
            quotient(
                medians[1] - medians[3] - (medians[0] - medians[2]),
                share * (medians[5] - medians[4]),
            )
        },
        bound,
        seed,
    )
}

/// By how much `time` minus `unit` grows for each unit by which `unit` grows, over all points together: the slope of the line
/// through them that fits best. Both at the same points.
#[must_use]
pub fn judge_excess(claim: Claim, time: &[Sampled], unit: &[Sampled], bound: &Bound, seed: u64) -> Finding {
    let parts: Vec<&Sampled> = time.iter().chain(unit).collect();
    let excess = |medians: &[f64]| {
        let (times, units) = medians.split_at(time.len());
        let beyond: Vec<f64> = times.iter().zip(units).map(|(time, unit)| time - unit).collect();
        line_slope(units, &beyond)
    };
    within::judge(claim, &parts, excess, bound, seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    fn all(value: f64) -> Sampled {
        Sampled::new("x", vec![value; 30], 0)
    }

    #[test]
    fn a_constant_part_drops_out_of_a_slope() {
        let bound = Bound::between(0.95, 1.05, "round trips per round trip");
        let claim = || Claim::new("3.slope", "x");
        let unit = [&all(10.0), &all(80.0)];
        let one = judge(claim(), [&all(52.0), &all(122.0)], unit, &bound, 1);
        assert_eq!(one.verdict, Verdict::Holds);
        let two = judge(claim(), [&all(20.0), &all(160.0)], unit, &bound, 1);
        assert_eq!(two.verdict, Verdict::Diverged);
    }

    #[test]
    fn a_slope_over_no_distance_decides_nothing() {
        let bound = Bound::between(0.95, 1.05, "");
        let finding = judge(
            Claim::new("3.slope", "x"),
            [&all(52.0), &all(122.0)],
            [&all(10.0), &all(10.0)],
            &bound,
            1,
        );
        assert_eq!(finding.verdict, Verdict::Inconclusive);
    }

    #[test]
    fn the_growth_of_a_difference_is_counted_in_flights() {
        let bound = Bound::between(0.95, 1.05, "flights per flight");
        let finding = judge_difference(
            Claim::new("1.slope", "x"),
            [&all(6.0), &all(42.0)],
            [&all(1.0), &all(2.0)],
            [&all(10.0), &all(80.0)],
            0.5,
            &bound,
            1,
        );
        assert_eq!(finding.verdict, Verdict::Holds, "{}", finding.measured);
    }

    #[test]
    fn an_excess_that_is_constant_does_not_grow_and_one_that_grows_is_counted() {
        let bound = Bound::at_most(0.02, "round trips per round trip");
        let units = [all(10.0), all(40.0), all(80.0)];
        let judged = |times: [f64; 3]| judge_excess(Claim::new("10.x", "x"), &times.map(all), &units, &bound, 1);
        assert_eq!(judged([52.0, 82.0, 122.0]).verdict, Verdict::Holds);
        let half_more = judged([15.0, 60.0, 120.0]);
        assert_eq!(half_more.verdict, Verdict::Diverged);
        assert!(half_more.measured.starts_with("0.50 "), "{}", half_more.measured);
    }
}
