//! A claim is a predicate on a history; a finding is a claim with its verdict. One file per kind of claim below.
//!
//! Claims are ratios, signs, counts and answers, never absolute milliseconds. Unknown is a verdict: too few or too
//! noisy samples, or a check that could not run, are inconclusive with the reason and never pass.

use serde::{Deserialize, Serialize};

/// What became of a claim. The order is that of severity: the worst of several is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The claim holds.
    Holds,
    /// It could not be decided.
    Inconclusive,
    /// It does not hold.
    Diverged,
}

/// Why a finding is inconclusive: the host's noise is forgiven where a lack of data is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Samples spread too far for the bound: the host is busy.
    Noise,
    /// Too few samples, a failed step, a missing event.
    Incomplete,
}

/// A judged claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
