//! Claims about counts and answers that leave no room: none lost, offsets equal, the key is there.

use super::{Claim, Counted, Finding};

/// The number is this one.
#[must_use]
pub fn judge(claim: Claim, counted: &Counted, expected: i64) -> Finding {
    let Some(value) = counted.value else {
        return claim.incomplete(format!("no value, expected {expected}"), missing(counted));
    };
    let measured = format!("{value}, expected {expected}");
    if value == expected {
        claim.holds(measured)
    } else {
        claim.diverged(measured, format!("{} is {value}", counted.name))
    }
}

/// Two numbers are the same, whatever they are.
#[must_use]
pub fn judge_equal(claim: Claim, a: &Counted, b: &Counted) -> Finding {
    let (Some(first), Some(second)) = (a.value, b.value) else {
        let lack = if a.value.is_none() { a } else { b };
        return claim.incomplete("no value, expected to be equal", missing(lack));
    };
    let measured = format!("{first} and {second}, expected to be equal");
    if first == second {
        claim.holds(measured)
    } else {
        claim.diverged(measured, format!("{} and {} differ", a.name, b.name))
    }
}

pub(super) fn missing(counted: &Counted) -> String {
    format!("{} was not recorded", counted.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Cause, Verdict};

    fn counted(value: Option<i64>) -> Counted {
        Counted::new("lost_keys of \"(b)\"", value)
    }

    fn claim() -> Claim {
        Claim::new("2.none-lost", "x")
    }

    #[test]
    fn a_count_is_exact() {
        assert_eq!(judge(claim(), &counted(Some(0)), 0).verdict, Verdict::Holds);
        let finding = judge(claim(), &counted(Some(1)), 0);
        assert_eq!(finding.verdict, Verdict::Diverged);
        assert_eq!(finding.measured, "1, expected 0");
    }

    #[test]
    fn two_counts_are_equal_or_not() {
        let same = judge_equal(claim(), &counted(Some(5)), &counted(Some(5)));
        assert_eq!(same.verdict, Verdict::Holds);
        let different = judge_equal(claim(), &counted(Some(5)), &counted(Some(6)));
        assert_eq!(different.verdict, Verdict::Diverged);
    }

    #[test]
    fn what_was_not_recorded_decides_nothing_and_is_named() {
        for finding in [
            judge(claim(), &counted(None), 0),
            judge_equal(claim(), &counted(Some(1)), &counted(None)),
        ] {
            assert_eq!(finding.cause, Some(Cause::Incomplete));
            assert_eq!(finding.reason.as_deref(), Some("lost_keys of \"(b)\" was not recorded"));
        }
    }
}
