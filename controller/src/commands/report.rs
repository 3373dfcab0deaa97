//! `report`: the report of a stored run, rendered anew from its history and manifest.

use super::{judge, screen};
use crate::cli::{Global, Printed, ReportArgs};
use crate::error::{CommandError, ExitCode};
use crate::findings;
use crate::progress::Progress;
use crate::report::{self, Cell};
use std::path::Path;

/// Prints the report of a run directory, or writes it to a file. Its exit code says that it was printed, not what it says.
///
/// # Errors
/// The directory is none of a run, or is damaged; or the file cannot be written.
pub fn run(global: &Global, args: &ReportArgs) -> Result<ExitCode, CommandError> {
    let stored = judge::load(&args.run)?;
    let findings = findings::judge(&stored.history);
    let cell = stored.cell(&findings);
    let named = || args.output.as_deref().and_then(of_name);
    let printed = global.printed.or_else(named).unwrap_or(Printed::Text);
    let text = rendered(global, printed, &cell, &args.run);
    match args.output.as_deref() {
        None => screen::print(&text)?,
        Some(path) if path == Path::new("-") => screen::print(&text)?,
        Some(path) => {
            std::fs::write(path, text).map_err(|error| {
                CommandError::new(ExitCode::Incomplete, format!("write {}: {error}", path.display()))
            })?;
            Progress::new(global.quiet).step(format_args!("{} written", path.display()));
        }
    }
    Ok(ExitCode::Success)
}

/// A run in a format.
pub(super) fn rendered(global: &Global, printed: Printed, cell: &Cell<'_>, place: &Path) -> String {
    let cells = std::slice::from_ref(cell);
    match printed {
        Printed::Text => {
            let place = place.display().to_string();
            report::terminal(cell.findings, cell.manifest, Some(&place), screen::style(global))
        }
        Printed::Json => report::json(cell.findings, cell.manifest),
        Printed::Markdown => report::markdown(cell.findings, cell.manifest),
        Printed::Html => report::html(cells),
        Printed::Junit => report::junit(cells),
        Printed::Openmetrics => report::openmetrics(cells),
        Printed::Github => report::annotations(cells),
    }
}

/// What a file's name asks for.
fn of_name(path: &Path) -> Option<Printed> {
    match path.extension()?.to_str()? {
        "txt" => Some(Printed::Text),
        "json" => Some(Printed::Json),
        "md" => Some(Printed::Markdown),
        "html" | "htm" => Some(Printed::Html),
        "xml" => Some(Printed::Junit),
        "prom" => Some(Printed::Openmetrics),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_says_in_which_format_it_is_written() {
        for (name, printed) in [
            ("report.html", Some(Printed::Html)),
            ("a/report.xml", Some(Printed::Junit)),
            ("report.pdf", None),
            ("report", None),
        ] {
            assert_eq!(of_name(Path::new(name)), printed, "{name}");
        }
    }
}
