//! Block 15 over a matrix directory: every cell is read back and judged from its history, so that what is printed never knows
//! more than the directory.

use crate::cli::{Format, GithubArgs, Global, Printed};
use crate::commands::{run, screen};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::findings;
use crate::findings::versions::{self, Incomplete, Measured, Read, Versions};
use crate::matrix::{Cell, Matrix, State};
use crate::report::{self, Compared, ComparedCell, Missing, Style};
use crate::store::{self, MatrixDirectory, load_matrix};
use std::path::Path;

/// Judges a matrix directory and prints the table.
pub(in crate::commands) fn judge(global: &Global, path: &Path) -> Result<ExitCode, CommandError> {
    let judged = Judged::of(path, &load_matrix(path)?);
    let versions = &judged.versions;
    screen::print(&match global.format {
        Format::Json => document("versions", versions),
        Format::Text => report::versions(versions, screen::style(global)),
    })?;
    Ok(ExitCode::of_versions(versions))
}

/// The report of a matrix directory in a format.
pub(in crate::commands) fn rendered(global: &Global, printed: Printed, path: &Path) -> Result<String, CommandError> {
    let judged = Judged::of(path, &load_matrix(path)?);
    Ok(judged.rendered(printed, screen::style(global)))
}

/// The cells of a matrix directory, read back.
pub(in crate::commands) fn cells_of(path: &Path) -> Result<Vec<Measured>, CommandError> {
    Ok(read(path, &load_matrix(path)?.shown()))
}

/// Judges a matrix that has just ended, and keeps the reports beside its cells.
pub(super) fn finish(
    global: &Global,
    github: &GithubArgs,
    directory: &MatrixDirectory,
    matrix: &Matrix,
) -> Result<ExitCode, CommandError> {
    let judged = Judged::of(directory.path(), matrix);
    judged.with(|compared| directory.write_judged(compared))?;
    let printed = global.printed.unwrap_or(Printed::Text);
    let mut text = judged.rendered(printed, screen::style(global));
    if printed == Printed::Text {
        text.push_str(&format!("Matrix directory: {}\n", directory.path().display()));
    }
    screen::print(&text)?;
    judged.with(|compared| {
        run::tell_github(
            github,
            || report::matrix_annotations(compared),
            || report::matrix_step_summary(compared),
        )
    })?;
    Ok(ExitCode::of_versions(&judged.versions))
}

/// A matrix directory, read back and compared.
struct Judged {
    /// Cells that were to be measured, in the order in which reports show them, each with what its directory holds.
    cells: Vec<(Cell, Measured)>,
    versions: Versions,
    left_out: Vec<Cell>,
    subtitle: String,
    command: String,
}

impl Judged {
    fn of(path: &Path, matrix: &Matrix) -> Self {
        let command = matrix.command();
        let matrix = &matrix.shown();
        let measured = read(path, matrix);
        let mut versions = versions::compare(&matrix.releases, &measured, matrix.seed);
        let left_out: Vec<Cell> = matrix
            .cells
            .iter()
            .filter(|cell| cell.state == State::LeftOut)
            .cloned()
            .collect();
        let told = |cell: &Cell| Incomplete {
            release: cell.release.clone(),
            topology: cell.topology.clone(),
            repeat: cell.repeat,
            reason: cell.error.clone().unwrap_or_default(),
        };
        versions.left_out = left_out.iter().map(told).collect();
        let mut cells: Vec<(Cell, Measured)> = wanted(matrix).cloned().zip(measured).collect();
        let place = |release: &String| matrix.releases.iter().position(|other| other == release);
        cells.sort_by_key(|(cell, _)| (place(&cell.release), cell.repeat));
        Self {
            cells,
            versions,
            left_out,
            subtitle: subtitle(matrix),
            command,
        }
    }

    /// What reports are made from, as long as `render` takes.
    fn with<T>(&self, render: impl FnOnce(&Compared<'_>) -> T) -> T {
        let name = |cell: &Cell| match self.versions.repeats {
            0 | 1 => format!("{}, {}", cell.release, cell.topology),
            _ => format!("{}, {}, repeat {}", cell.release, cell.topology, cell.repeat),
        };
        let names: Vec<String> = self.cells.iter().map(|(cell, _)| name(cell)).collect();
        let mut cells = Vec::new();
        let mut missing = Vec::new();
        for ((cell, measured), name) in self.cells.iter().zip(&names) {
            match &measured.outcome {
                Ok(read) => cells.push(ComparedCell {
                    release: &cell.release,
                    repeat: cell.repeat,
                    directory: &cell.directory,
                    cell: report::Cell {
                        name,
                        history: &read.history,
                        manifest: &read.manifest,
                        findings: &read.findings,
                        plans: &read.plans,
                    },
                }),
                Err(reason) => missing.push(Missing {
                    name: name.clone(),
                    reason: reason.clone(),
                    left_out: false,
                }),
            }
        }
        missing.extend(self.left_out.iter().map(|cell| Missing {
            name: name(cell),
            reason: cell.error.clone().unwrap_or_default(),
            left_out: true,
        }));
        render(&Compared {
            versions: &self.versions,
            cells: &cells,
            missing: &missing,
            subtitle: &self.subtitle,
            command: &self.command,
        })
    }

    fn rendered(&self, printed: Printed, style: Style) -> String {
        match printed {
            Printed::Text => report::versions(&self.versions, style),
            Printed::Json => document("versions", &self.versions),
            Printed::Markdown => self.with(report::matrix_markdown),
            Printed::Html => self.with(report::matrix_html),
            Printed::Junit => self.with(report::matrix_junit),
            Printed::Openmetrics => self.with(report::matrix_openmetrics),
            Printed::Github => self.with(report::matrix_annotations),
        }
    }
}

fn subtitle(matrix: &Matrix) -> String {
    let ended = matrix.ended_utc.as_deref().unwrap_or("not ended");
    format!(
        "testbed {} · {} cells, {} of each · seed {} · {} to {ended}",
        matrix.version,
        matrix.cells.len(),
        matrix.repeats,
        matrix.seed,
        matrix.started_utc
    )
}

/// All cells but those that were left out on purpose.
fn wanted(matrix: &Matrix) -> impl Iterator<Item = &Cell> {
    matrix.cells.iter().filter(|cell| cell.state != State::LeftOut)
}

fn read(path: &Path, matrix: &Matrix) -> Vec<Measured> {
    wanted(matrix).map(|cell| measured(path, cell)).collect()
}

/// A cell as its directory has it. One that cannot be read is a cell that was not completed.
fn measured(path: &Path, cell: &Cell) -> Measured {
    let directory = path.join(&cell.directory);
    let outcome = match store::load(&directory) {
        Ok(stored) => Ok(Box::new(Read {
            findings: findings::judge(&stored.history),
            history: stored.history,
            manifest: stored.manifest,
            plans: stored.plans,
        })),
        Err(_) if !directory.exists() => Err(match (cell.state, &cell.error) {
            (State::Failed, Some(error)) => error.clone(),
            _ => "it was not measured".to_owned(),
        }),
        Err(error) => Err(format!("failed to {error}")),
    };
    Measured {
        release: cell.release.clone(),
        topology: cell.topology.clone(),
        blocks: cell.blocks.clone(),
        repeat: cell.repeat,
        outcome,
    }
}
