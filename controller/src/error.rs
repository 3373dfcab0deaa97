//! The documented exit codes and the error at the top that joins the modules' errors.

use crate::claim::Verdict;
use crate::docker::EngineError;
use crate::findings::Findings;
use crate::image::ImageError;
use crate::instrument::InstrumentError;
use crate::lab::LabError;
use crate::plan::PlanError;
use crate::release::ReleaseError;

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

/// What a command ends with when it fails: printed as `error: failed to <text>` with `hint:` below it.
#[derive(Debug)]
pub struct CommandError {
    /// Exit code.
    pub code: ExitCode,
    /// Text; a lowercase fragment that fits after "failed to".
    pub text: String,
    /// The next step.
    pub hint: Option<String>,
}

impl CommandError {
    /// An error with a code and a text.
    pub fn new(code: ExitCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            hint: None,
        }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        let code = match error {
            EngineError::Unreachable { .. } | EngineError::TooOld { .. } => ExitCode::Host,
            EngineError::Refused { .. } => ExitCode::Incomplete,
        };
        let text = error.to_string();
        Self {
            code,
            text,
            hint: match error {
                EngineError::Unreachable { hint, .. } => Some(hint),
                _ => None,
            },
        }
    }
}

impl From<LabError> for CommandError {
    fn from(error: LabError) -> Self {
        let code = match &error {
            LabError::Stopped(signal) => signal.exit_code(),
            LabError::SeveralLabs { .. } | LabError::NoLink { .. } => ExitCode::Usage,
            LabError::Engine(EngineError::Unreachable { .. } | EngineError::TooOld { .. }) => ExitCode::Host,
            _ => ExitCode::Incomplete,
        };
        Self {
            code,
            text: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<ReleaseError> for CommandError {
    fn from(error: ReleaseError) -> Self {
        Self {
            code: ExitCode::Usage,
            text: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<ImageError> for CommandError {
    fn from(error: ImageError) -> Self {
        Self {
            code: if error.is_host() {
                ExitCode::Host
            } else {
                ExitCode::Incomplete
            },
            text: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<PlanError> for CommandError {
    fn from(error: PlanError) -> Self {
        let code = match error {
            PlanError::Address(_) => ExitCode::Host,
            PlanError::WrongKind { .. } | PlanError::MixedSet { .. } | PlanError::NoRelease(_) => ExitCode::Topology,
        };
        Self::new(code, error.to_string()).hint(error.hint())
    }
}

impl From<InstrumentError> for CommandError {
    fn from(error: InstrumentError) -> Self {
        Self::new(ExitCode::Host, error.to_string()).hint(error.hint())
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
