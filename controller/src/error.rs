//! The error at the top: joins the modules' errors and gives each its exit code and its hint.

pub use crate::exit::ExitCode;

use crate::capture::CaptureError;
use crate::docker::EngineError;
use crate::image::{FolderError, ImageError};
use crate::instrument::InstrumentError;
use crate::lab::{FaultError, LabError};
use crate::plan::PlanError;
use crate::release::ReleaseError;
use crate::store::StoreError;
use schemars::JsonSchema;
use serde::Serialize;

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

/// What `--format json` prints on stderr for it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorDocument<'a> {
    /// Exit code of the process.
    exit_code: u8,
    /// Fits after "failed to".
    text: &'a str,
    /// The next step.
    hint: Option<&'a str>,
}

impl CommandError {
    /// As a document.
    #[must_use]
    pub fn document(&self) -> ErrorDocument<'_> {
        ErrorDocument {
            exit_code: self.code.number(),
            text: &self.text,
            hint: self.hint.as_deref(),
        }
    }

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
            EngineError::Lost { .. } | EngineError::Refused { .. } => ExitCode::Incomplete,
        };
        Self {
            code,
            text: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<LabError> for CommandError {
    fn from(error: LabError) -> Self {
        let code = match &error {
            LabError::Stopped(signal) => signal.exit_code(),
            LabError::SeveralLabs { .. }
            | LabError::NoLink { .. }
            | LabError::NoPort { .. }
            | LabError::PortsCut { .. }
            | LabError::NotInStreamMode { .. } => ExitCode::Usage,
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

impl From<FaultError> for CommandError {
    fn from(error: FaultError) -> Self {
        let text = error.to_string();
        match error {
            FaultError::Unknown { known, .. } => {
                Self::new(ExitCode::Usage, text).hint(format!("it has {}", known.join(", ")))
            }
            FaultError::State { hint, .. } => Self::new(ExitCode::Incomplete, text).hint(hint),
            FaultError::Engine(_) => Self::new(ExitCode::Incomplete, text),
            FaultError::Left(_) => Self::new(ExitCode::Incomplete, text).hint("testbed ps shows what each node is"),
        }
    }
}

impl From<CaptureError> for CommandError {
    fn from(error: CaptureError) -> Self {
        match error {
            CaptureError::Lab(error) => error.into(),
            CaptureError::Channel(error) => LabError::from(error).into(),
            CaptureError::GoingOn { .. } => Self::new(ExitCode::Incomplete, error.to_string())
                .hint("end the other `link capture` or `run --capture`; one that was killed ends within ten seconds"),
            CaptureError::Packet { .. } | CaptureError::Write(_) => Self::new(ExitCode::Incomplete, error.to_string()),
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
            code: match error {
                ImageError::Folder(_) => ExitCode::Usage,
                _ if error.is_host() => ExitCode::Host,
                _ => ExitCode::Incomplete,
            },
            text: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<FolderError> for CommandError {
    fn from(error: FolderError) -> Self {
        ImageError::from(error).into()
    }
}

impl From<PlanError> for CommandError {
    fn from(error: PlanError) -> Self {
        let code = match error {
            PlanError::Address(_) => ExitCode::Host,
            PlanError::WrongKind { .. }
            | PlanError::MixedSet { .. }
            | PlanError::MixedCluster { .. }
            | PlanError::NoRelease(_) => ExitCode::Topology,
        };
        Self::new(code, error.to_string()).hint(error.hint())
    }
}

impl From<InstrumentError> for CommandError {
    fn from(error: InstrumentError) -> Self {
        Self::new(ExitCode::Host, error.to_string()).hint(error.hint())
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let code = if error.is_usage() {
            ExitCode::Usage
        } else {
            ExitCode::Incomplete
        };
        Self {
            code,
            text: error.to_string(),
            hint: error.hint().map(str::to_owned),
        }
    }
}
