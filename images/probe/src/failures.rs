//! Counts failed operations by cause. Nothing that was asked for and did not happen is left out of an answer:
//! it is either a sample or counted here.

use std::collections::BTreeMap;
use wire::Failure;

/// Most different causes kept apart: a cause that names a slot or a key must not grow an answer without bound.
const MAX_CAUSES: usize = 32;

/// Where causes beyond [`MAX_CAUSES`] are counted.
const FURTHER: &str = "further causes";

/// Failures of an order, by cause.
#[derive(Debug, Default)]
pub struct Failures(BTreeMap<String, u32>);

impl Failures {
    /// One operation failed.
    pub fn add(&mut self, cause: impl std::fmt::Display) {
        self.add_times(cause, 1);
    }

    /// `times` operations failed in the same way; 0 adds nothing.
    pub fn add_times(&mut self, cause: impl std::fmt::Display, times: u32) {
        if times == 0 {
            return;
        }
        let mut cause = cause.to_string();
        if self.0.len() >= MAX_CAUSES && !self.0.contains_key(&cause) {
            cause = FURTHER.to_owned();
        }
        let counted = self.0.entry(cause).or_default();
        *counted = counted.saturating_add(times);
    }

    /// Adds what another connection counted.
    pub fn merge(&mut self, other: Self) {
        for (cause, times) in other.0 {
            self.add_times(cause, times);
        }
    }

    /// For the answer, in order of the causes.
    pub fn into_wire(self) -> Vec<Failure> {
        self.0
            .into_iter()
            .map(|(cause, times)| Failure { cause, times })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_causes_are_counted_together_and_zero_is_no_entry() {
        let mut failures = Failures::default();
        failures.add("b");
        failures.add_times("a", 2);
        failures.add_times("c", 0);
        let mut other = Failures::default();
        other.add("a");
        failures.merge(other);
        let wire = failures.into_wire();
        assert_eq!(
            wire,
            [
                Failure {
                    cause: "a".into(),
                    times: 3
                },
                Failure {
                    cause: "b".into(),
                    times: 1
                }
            ]
        );
    }

    #[test]
    fn many_causes_stay_bounded_and_none_is_lost() {
        let mut failures = Failures::default();
        for i in 0..1000 {
            failures.add(format!("MOVED {i}"));
        }
        let wire = failures.into_wire();
        assert!(wire.len() <= MAX_CAUSES + 1);
        assert_eq!(wire.iter().map(|f| f.times).sum::<u32>(), 1000);
    }
}
