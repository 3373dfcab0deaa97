//! Claims that a number is at least or at most some other: some were lost, the gap is not above a kilobyte.

use super::{Claim, Counted, Finding, exact::missing};

/// The number is `low` or more.
#[must_use]
pub fn judge_at_least(claim: Claim, counted: &Counted, low: i64) -> Finding {
    judge(claim, counted, &format!("at least {low}"), |value| value >= low)
}

/// The number is `high` or less.
#[must_use]
pub fn judge_at_most(claim: Claim, counted: &Counted, high: i64) -> Finding {
    judge(claim, counted, &format!("at most {high}"), |value| value <= high)
}

fn judge(claim: Claim, counted: &Counted, bound: &str, inside: impl Fn(i64) -> bool) -> Finding {
    let Some(value) = counted.value else {
        return claim.incomplete(format!("no value, bound {bound}"), missing(counted));
    };
    let measured = format!("{value}, bound {bound}");
    if inside(value) {
        claim.holds(measured)
    } else {
        claim.diverged(measured, format!("{} is {value}", counted.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Cause, Verdict};

    #[test]
    fn the_threshold_itself_is_inside() {
        let one = Counted::new("lost_keys of \"(a)\"", Some(1));
        let claim = || Claim::new("2.some-lost", "x");
        assert_eq!(judge_at_least(claim(), &one, 1).verdict, Verdict::Holds);
        assert_eq!(judge_at_least(claim(), &one, 2).verdict, Verdict::Diverged);
        assert_eq!(judge_at_most(claim(), &one, 1).verdict, Verdict::Holds);
        assert_eq!(judge_at_most(claim(), &one, 0).verdict, Verdict::Diverged);
        let missing = judge_at_most(claim(), &Counted::new("x", None), 0);
        assert_eq!(missing.cause, Some(Cause::Incomplete));
    }
}
