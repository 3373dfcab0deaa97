//! `report`: the report of a stored run, rendered anew from its history and manifest.

use super::{judge, screen};
use crate::cli::{Format, Global, ReportArgs};
use crate::error::{CommandError, ExitCode};
use crate::findings;
use crate::report;

/// Prints the report of a run directory. Its exit code says that it was printed, not what it says.
///
/// # Errors
/// The directory is none of a run, or is damaged.
pub fn run(global: &Global, args: &ReportArgs) -> Result<ExitCode, CommandError> {
    let stored = judge::load(&args.run)?;
    let findings = findings::judge(&stored.history);
    let text = match (args.markdown, global.format) {
        (true, _) => report::markdown(&findings, &stored.manifest),
        (false, Format::Json) => report::json(&findings, &stored.manifest),
        (false, Format::Text) => {
            let place = args.run.display().to_string();
            report::terminal(&findings, &stored.manifest, Some(&place), screen::style(global))
        }
    };
    screen::print(&text)?;
    Ok(ExitCode::Success)
}
