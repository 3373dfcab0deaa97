//! Claims about what operations answered: each WAIT returned 1, under a cut each returned 0.

use super::{Claim, Finding, within::MIN_SAMPLES};
use crate::history::Series;

/// Every operation of the series had this outcome, and at least `fewest` were made ([`MIN_SAMPLES`] unless an operation
/// is slow by intent, as one that waits for its timeout). `name` is for a series that is missing.
#[must_use]
pub fn judge(claim: Claim, name: &str, series: Option<&Series>, expected: i64, fewest: usize) -> Finding {
    let Some(series) = series else {
        return claim.incomplete(
            format!("no value, expected {expected}"),
            format!("{name} was not measured"),
        );
    };
    let n = series.samples.len();
    let failed = series.failed();
    let others = series.samples.iter().filter(|sample| sample.outcome != expected);
    let different = others.count();
    let told = if failed == 0 {
        String::new()
    } else {
        format!("; {failed} failed")
    };
    let measured = format!("{} of {n} answered {expected}, expected all{told}", n - different);
    if different > 0 {
        claim.diverged(measured, format!("{different} of {name} answered something else"))
    } else if n < fewest {
        claim.incomplete(
            measured,
            format!("{name} has {n} samples, at least {fewest} are needed"),
        )
    } else if failed > 0 {
        claim.incomplete(measured, format!("{failed} operations of {name} failed"))
    } else {
        claim.holds(measured)
    }
}

/// The usual minimum.
#[must_use]
pub fn judge_usual(claim: Claim, name: &str, series: Option<&Series>, expected: i64) -> Finding {
    judge(claim, name, series, expected, MIN_SAMPLES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Cause, Verdict};
    use wire::Sample;

    fn series(outcomes: &[i64]) -> Series {
        Series {
            block: 3,
            row: "cut".into(),
            what: "set_wait".into(),
            path: String::new(),
            delay_ns: None,
            warmup: 0,
            pace: String::new(),
            nodelay: None,
            samples: outcomes
                .iter()
                .map(|outcome| Sample {
                    intended_ns: 0,
                    started_ns: 0,
                    ended_ns: 1,
                    outcome: *outcome,
                })
                .collect(),
            failures: Vec::new(),
        }
    }

    fn judged(series: Option<&Series>, fewest: usize) -> Finding {
        judge(Claim::new("3.cut", "x"), "set_wait of \"cut\"", series, 0, fewest)
    }

    #[test]
    fn one_other_answer_is_enough_to_diverge() {
        assert_eq!(judged(Some(&series(&[0; 20])), 20).verdict, Verdict::Holds);
        let finding = judged(Some(&series(&[0, 1, 0])), 20);
        assert_eq!(finding.verdict, Verdict::Diverged);
        assert_eq!(finding.measured, "2 of 3 answered 0, expected all");
    }

    #[test]
    fn few_missing_or_failed_operations_decide_nothing() {
        let mut failed = series(&[0; 20]);
        failed.failures.push(wire::Failure {
            cause: "timeout".into(),
            times: 2,
        });
        for finding in [
            judged(None, 20),
            judged(Some(&series(&[0; 19])), 20),
            judged(Some(&failed), 20),
        ] {
            assert_eq!(finding.cause, Some(Cause::Incomplete));
        }
    }
}
