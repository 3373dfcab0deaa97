//! Block 15 over a matrix directory: every cell is read back and judged from its history, so that what is printed never knows
//! more than the directory.

use crate::cli::{Format, Global};
use crate::commands::screen;
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::findings;
use crate::findings::versions::{self, Incomplete, Measured, Read, Versions};
use crate::matrix::{Cell, Matrix, State};
use crate::release;
use crate::report::{self, Style};
use crate::store::{self, MatrixDirectory, load_matrix};
use std::path::Path;

/// Judges a matrix directory and prints the table.
pub(in crate::commands) fn judge(global: &Global, path: &Path) -> Result<ExitCode, CommandError> {
    let matrix = load_matrix(path)?;
    let versions = compared(path, &matrix);
    screen::print(&text(global, &versions, screen::style(global)))?;
    Ok(ExitCode::of_versions(&versions))
}

/// The cells of a matrix directory, read back.
pub(in crate::commands) fn cells_of(path: &Path) -> Result<Vec<Measured>, CommandError> {
    Ok(read(path, &load_matrix(path)?))
}

/// Judges a matrix that has just ended, and keeps the report beside its cells.
pub(super) fn finish(global: &Global, directory: &MatrixDirectory, matrix: &Matrix) -> Result<ExitCode, CommandError> {
    let versions = compared(directory.path(), matrix);
    let plain = report::versions(&versions, Style::default());
    directory.write_judged(&plain, &document("versions", &versions))?;
    let mut text = text(global, &versions, screen::style(global));
    if global.format == Format::Text {
        text.push_str(&format!("Matrix directory: {}\n", directory.path().display()));
    }
    screen::print(&text)?;
    Ok(ExitCode::of_versions(&versions))
}

fn text(global: &Global, versions: &Versions, style: Style) -> String {
    match global.format {
        Format::Json => document("versions", versions),
        Format::Text => report::versions(versions, style),
    }
}

fn compared(path: &Path, matrix: &Matrix) -> Versions {
    let releases: Vec<String> = matrix.releases.iter().map(|name| shown(name)).collect();
    let mut versions = versions::compare(&releases, &read(path, matrix), matrix.seed);
    let left_out = matrix.cells.iter().filter(|cell| cell.state == State::LeftOut);
    versions.left_out = left_out
        .map(|cell| Incomplete {
            release: shown(&cell.release),
            topology: cell.topology.clone(),
            repeat: cell.repeat,
            reason: cell.error.clone().unwrap_or_default(),
        })
        .collect();
    versions
}

fn shown(release: &str) -> String {
    release::shown(release).to_owned()
}

/// All cells but those that were left out on purpose.
fn read(path: &Path, matrix: &Matrix) -> Vec<Measured> {
    let wanted = matrix.cells.iter().filter(|cell| cell.state != State::LeftOut);
    wanted.map(|cell| measured(path, cell)).collect()
}

/// A cell as its directory has it. One that cannot be read is a cell that was not completed.
fn measured(path: &Path, cell: &Cell) -> Measured {
    let directory = path.join(&cell.directory);
    let outcome = match store::load(&directory) {
        Ok(stored) => Ok(Box::new(Read {
            findings: findings::judge(&stored.history),
            history: stored.history,
            manifest: stored.manifest,
        })),
        Err(_) if !directory.exists() => Err(match (cell.state, &cell.error) {
            (State::Failed, Some(error)) => error.clone(),
            _ => "it was not measured".to_owned(),
        }),
        Err(error) => Err(format!("failed to {error}")),
    };
    Measured {
        release: shown(&cell.release),
        topology: cell.topology.clone(),
        blocks: cell.blocks.clone(),
        repeat: cell.repeat,
        outcome,
    }
}
