//! The documented exit codes. A code is about the command, and for `run` and `judge` about the claims too; which of several
//! applies is decided here and nowhere else.

use crate::claim::Verdict;
use crate::findings::Findings;
use crate::findings::versions::Versions;

/// Exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// 0: did what was asked; all claims hold.
    Success,
    /// 1: a bug of ours.
    Bug,
    /// 2: the command line is wrong.
    Usage,
    /// 3: the topology is invalid; all problems were printed.
    Topology,
    /// 4: the engine or the host is not usable.
    Host,
    /// 5: started, but could not be completed.
    Incomplete,
    /// 10: a claim diverged.
    Diverged,
    /// 11: nothing diverged, something is inconclusive.
    Inconclusive,
    /// 20: `plan --exit-code`: changes are pending.
    Pending,
    /// 130: interrupted (SIGINT), after teardown.
    Interrupted,
    /// 143: terminated (SIGTERM), after teardown.
    Terminated,
    /// `exec`: what the command in the node ended with.
    OfCommand(u8),
}

impl ExitCode {
    /// The number that a shell sees.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Bug => 1,
            Self::Usage => 2,
            Self::Topology => 3,
            Self::Host => 4,
            Self::Incomplete => 5,
            Self::Diverged => 10,
            Self::Inconclusive => 11,
            Self::Pending => 20,
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::OfCommand(code) => code,
        }
    }

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

impl ExitCode {
    /// Of releases that were compared, by the same order.
    #[must_use]
    pub fn of_versions(versions: &Versions) -> Self {
        match versions.verdict {
            _ if !versions.incomplete.is_empty() => Self::Incomplete,
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
