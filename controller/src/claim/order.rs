//! Claims about a sign: this takes less time than that, by at least a factor.

use super::{Bound, Claim, Finding, Sampled, within};
use crate::stats::quotient;

/// Median of `longer` is at least `factor` times that of `shorter`; a factor of 1 only claims the order.
#[must_use]
pub fn judge(claim: Claim, shorter: &Sampled, longer: &Sampled, factor: f64, seed: u64) -> Finding {
    within::judge(
        claim,
        &[longer, shorter],
        |medians| quotient(medians[0], medians[1]),
        &Bound::at_least(factor, "times as long"),
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
    fn an_order_holds_one_way_and_diverged_the_other() {
        let claim = || Claim::new("7.far-is-slower", "x");
        let finding = judge(claim(), &all(0.1), &all(41.0), 10.0, 1);
        assert_eq!(finding.verdict, Verdict::Holds);
        assert_eq!(
            finding.measured,
            "410.0 [410.0, 410.0] times as long, bound at least 10.00"
        );
        assert_eq!(
            judge(claim(), &all(41.0), &all(0.1), 10.0, 1).verdict,
            Verdict::Diverged
        );
    }
}
