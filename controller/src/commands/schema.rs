//! `schema`: prints the JSON Schema of topology files, for editors.

use super::screen;
use crate::error::{CommandError, ExitCode};
use crate::topology;

/// Prints it.
///
/// # Errors
/// Stdout cannot be written.
pub(super) fn run() -> Result<ExitCode, CommandError> {
    screen::print(&topology::schema())?;
    Ok(ExitCode::Success)
}
