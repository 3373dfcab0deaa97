//! A claim is a predicate on a history; a finding is a claim with its verdict. One file per kind of claim below.
//!
//! Claims are ratios, signs, counts and answers, never absolute milliseconds. Unknown is a verdict: too few or too
//! noisy samples, or a check that could not run, are inconclusive with the reason and never pass. Every kind is a pure
//! function from what was measured ([`Sampled`], [`Counted`]) to a [`Finding`].

pub mod exact;
pub mod order;
pub mod outcome;
pub mod ratio;
pub mod sampled;
pub mod slope;
pub mod threshold;
pub mod within;

pub use sampled::{Counted, Sampled};
pub use within::Bound;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of a claim. The order is that of severity: the worst of several is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The claim holds.
    Holds,
    /// It could not be decided.
    Inconclusive,
    /// It does not hold.
    Diverged,
}

impl Verdict {
    /// The worst of several: diverged beats inconclusive beats holds. `None` if there is none.
    pub fn worst(verdicts: impl IntoIterator<Item = Self>) -> Option<Self> {
        verdicts.into_iter().max()
    }

    /// As documents write it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Inconclusive => "inconclusive",
            Self::Diverged => "diverged",
        }
    }
}

/// Why a finding is inconclusive: the host's noise is forgiven where a lack of data is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Samples spread too far for the bound: the host is busy.
    Noise,
    /// Too few samples, a failed step, a missing event.
    Incomplete,
    /// The instrument was not what it was told to be: numbers that it gave mean nothing.
    Instrument,
}

/// What is claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Stable name, e.g. `7.far-costs-one-round-trip@20ms`.
    pub name: String,
    /// As a sentence, e.g. `a read from the far cache costs one round trip`.
    pub text: String,
}

/// A judged claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name, e.g. `7.far-costs-one-round-trip@20ms`.
    pub claim: String,
    /// The claim as a sentence.
    pub text: String,
    /// Verdict.
    pub verdict: Verdict,
    /// What was measured against what bound, e.g. `1.03 [1.01, 1.05] round trips, bound 1.00 to 1.10`.
    pub measured: String,
    /// Why it is not `holds`.
    pub reason: Option<String>,
    /// Why it is inconclusive.
    pub cause: Option<Cause>,
}

impl Claim {
    /// A claim.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }

    /// It holds.
    #[must_use]
    pub fn holds(self, measured: impl Into<String>) -> Finding {
        self.found(Verdict::Holds, measured, None, None)
    }

    /// It does not hold.
    #[must_use]
    pub fn diverged(self, measured: impl Into<String>, reason: impl Into<String>) -> Finding {
        self.found(Verdict::Diverged, measured, Some(reason.into()), None)
    }

    /// It cannot be decided, since the samples spread too far.
    #[must_use]
    pub fn noisy(self, measured: impl Into<String>, reason: impl Into<String>) -> Finding {
        self.found(Verdict::Inconclusive, measured, Some(reason.into()), Some(Cause::Noise))
    }

    /// It cannot be decided, since something is missing; the reason says what.
    #[must_use]
    pub fn incomplete(self, measured: impl Into<String>, reason: impl Into<String>) -> Finding {
        self.found(
            Verdict::Inconclusive,
            measured,
            Some(reason.into()),
            Some(Cause::Incomplete),
        )
    }

    fn found(
        self,
        verdict: Verdict,
        measured: impl Into<String>,
        reason: Option<String>,
        cause: Option<Cause>,
    ) -> Finding {
        Finding {
            claim: self.name,
            text: self.text,
            verdict,
            measured: measured.into(),
            reason,
            cause,
        }
    }
}

impl Finding {
    /// The same finding on numbers that cannot be vouched for: whatever it was, it is undecided now.
    #[must_use]
    pub fn voided(mut self, reason: &str, cause: Cause) -> Self {
        if self.verdict != Verdict::Inconclusive {
            self.verdict = Verdict::Inconclusive;
            self.reason = Some(reason.to_owned());
            self.cause = Some(cause);
        }
        self
    }
}

/// Verdict of several findings; `None` if nothing was judged, which is not the same as held.
#[must_use]
pub fn combine<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Option<Verdict> {
    Verdict::worst(findings.into_iter().map(|finding| finding.verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diverged_beats_inconclusive_beats_holds_and_nothing_is_none() {
        use Verdict::{Diverged, Holds, Inconclusive};
        assert_eq!(Verdict::worst([Holds, Inconclusive]), Some(Inconclusive));
        assert_eq!(Verdict::worst([Diverged, Inconclusive, Holds]), Some(Diverged));
        assert_eq!(Verdict::worst([Holds, Holds]), Some(Holds));
        assert_eq!(combine(&[]), None);
    }

    #[test]
    fn void_numbers_decide_nothing_in_either_direction() {
        let claim = Claim::new("0.x", "x");
        let held = claim
            .clone()
            .holds("1")
            .voided("the relay dropped packets", Cause::Noise);
        assert_eq!((held.verdict, held.cause), (Verdict::Inconclusive, Some(Cause::Noise)));
        let diverged = claim.clone().diverged("2", "outside").voided("clock", Cause::Noise);
        assert_eq!(diverged.verdict, Verdict::Inconclusive);
        let missing = claim.incomplete("", "no samples").voided("clock", Cause::Noise);
        assert_eq!(missing.cause, Some(Cause::Incomplete), "the first reason stays");
    }
}
