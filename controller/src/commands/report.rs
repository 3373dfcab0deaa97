//! `report`: the report of a stored run, of several, or of a matrix, rendered anew from histories and manifests.

use super::{judge, screen};
use crate::cli::{Global, Printed, ReportArgs};
use crate::error::{CommandError, ExitCode};
use crate::findings;
use crate::progress::Progress;
use crate::report::{self, Cell};
use crate::store;
use std::path::{Path, PathBuf};

/// Prints the report of a run directory, of several, or of a matrix directory, or writes it to a file. Its exit code says that it
/// was printed, not what it says.
///
/// # Errors
/// A directory is none of these, or is damaged; or the file cannot be written.
pub fn run(global: &Global, args: &ReportArgs) -> Result<ExitCode, CommandError> {
    let named = || args.output.as_deref().and_then(of_name);
    let printed = global.printed.or_else(named).unwrap_or(Printed::Text);
    let text = match args.runs.as_slice() {
        [only] if store::is_matrix(only) => super::matrix::rendered(global, printed, only)?,
        [only] => {
            let stored = judge::load(only)?;
            let findings = findings::judge(&stored.history);
            rendered(global, printed, &stored.cell(&findings), only)
        }
        several => beside_each_other(global, printed, several)?,
    };
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

/// Several runs in a format, in the order in which they were named; each is called by its directory.
fn beside_each_other(global: &Global, printed: Printed, paths: &[PathBuf]) -> Result<String, CommandError> {
    if printed == Printed::Json {
        let text = "print several runs as one JSON document: each is one of its own";
        return Err(CommandError::new(ExitCode::Usage, text)
            .hint("name one run; `testbed compare RUN RUN --format json` sets two beside each other"));
    }
    if let Some(matrix) = paths.iter().find(|path| store::is_matrix(path)) {
        let text = format!(
            "show {} beside others: it is the directory of a matrix",
            matrix.display()
        );
        return Err(CommandError::new(ExitCode::Usage, text)
            .hint("name it alone; its cells are run directories below it, and can be named"));
    }
    let mut runs = Vec::new();
    for path in paths {
        let stored = judge::load(path)?;
        let findings = findings::judge(&stored.history);
        let name = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        runs.push((path, stored, findings, name));
    }
    let cells: Vec<Cell<'_>> = runs
        .iter()
        .map(|(_, stored, findings, name)| Cell {
            // `.` and `..` have no name.
            name: if name.is_empty() { &stored.manifest.name } else { name },
            ..stored.cell(findings)
        })
        .collect();
    Ok(match printed {
        Printed::Text | Printed::Json | Printed::Markdown => {
            let each = cells.iter().zip(&runs);
            each.map(|(cell, (path, ..))| rendered(global, printed, cell, path))
                .collect::<Vec<_>>()
                .join("\n")
        }
        Printed::Html => report::html(&cells),
        Printed::Junit => report::junit(&cells),
        Printed::Openmetrics => report::openmetrics(&cells),
        Printed::Github => report::annotations(&cells),
    })
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
