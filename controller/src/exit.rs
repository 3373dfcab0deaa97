//! The documented exit codes. A code is about the command, and for `run` and `judge` about the claims too; which of several
//! applies is decided here and nowhere else.

use crate::claim::Verdict;
use crate::findings::Findings;

/// Exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Did what was asked; all claims hold.
    Success = 0,
    /// A bug of ours.
    Bug = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The topology is invalid; all problems were printed.
    Topology = 3,
    /// The engine or the host is not usable.
    Host = 4,
    /// Started, but could not be completed.
    Incomplete = 5,
    /// A claim diverged.
    Diverged = 10,
    /// Nothing diverged, something is inconclusive.
    Inconclusive = 11,
    /// `plan --exit-code`: changes are pending.
    Pending = 20,
    /// Interrupted (SIGINT), after teardown.
    Interrupted = 130,
    /// Terminated (SIGTERM), after teardown.
    Terminated = 143,
}

impl ExitCode {
    /// Of a judged run. What could not be completed is no verdict, so it comes first; a run in which nothing was judged
    /// has not held anything and counts as not completed.
    #[must_use]
    pub fn of(findings: &Findings) -> Self {
        let broken = findings.error.is_some() || findings.blocks.iter().any(|block| block.error.is_some());
        match findings.verdict {
            _ if broken => Self::Incomplete,
            None => Self::Incomplete,
            Some(Verdict::Diverged) => Self::Diverged,
            Some(Verdict::Inconclusive) => Self::Inconclusive,
            Some(Verdict::Holds) => Self::Success,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_completed_beats_diverged_beats_inconclusive_beats_held() {
        let code = |verdict, error: Option<&str>| {
            ExitCode::of(&Findings {
                blocks: Vec::new(),
                verdict,
                error: error.map(str::to_owned),
            })
        };
        assert_eq!(code(Some(Verdict::Diverged), Some("x")), ExitCode::Incomplete);
        assert_eq!(code(Some(Verdict::Diverged), None), ExitCode::Diverged);
        assert_eq!(code(Some(Verdict::Inconclusive), None), ExitCode::Inconclusive);
        assert_eq!(code(Some(Verdict::Holds), None), ExitCode::Success);
        assert_eq!(code(None, None), ExitCode::Incomplete);
    }
}
