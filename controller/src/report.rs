//! Judged runs as text: for a terminal, as Markdown, as a page, as JSON, for CI servers and for metrics; one file per
//! format below.
//!
//! Pure: the same run gives the same text. Decides nothing; what is not in the history, the findings made from it or the
//! manifest is not said. Whatever comes from there is escaped: names can be a stranger's.

mod compared;
mod figures;
mod github;
mod html;
mod json;
mod junit;
mod markdown;
mod openmetrics;
mod plot;
mod terminal;
mod versions;
mod wrap;

pub use compared::{Compared, ComparedCell, Missing};
pub use json::{JudgeDocument, ReportDocument};
pub use wrap::wrap;

use crate::claim::Verdict;
use crate::findings::versions::Versions;
use crate::findings::{BlockFindings, Findings, Table};
use crate::history::{History, What};
use crate::manifest::Manifest;
use crate::plan::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Widest line of a report for a terminal, unless a single word is longer.
pub const WIDTH: usize = 100;

/// How text for a terminal looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Longest line, characters; at most [`WIDTH`] is used.
    pub width: usize,
    /// Whether colours are allowed.
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            width: WIDTH,
            colour: false,
        }
    }
}

/// A judged run as reports need it. Most formats take several, side by side.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    /// What it is called beside others.
    pub name: &'a str,
    /// What happened.
    pub history: &'a History,
    /// What it was made of.
    pub manifest: &'a Manifest,
    /// What was found.
    pub findings: &'a Findings,
    /// Plans of its labs by the names of their files; one that is missing is done without.
    pub plans: &'a BTreeMap<String, Plan>,
}

impl Cell<'_> {
    /// How long the run took, seconds: until the last thing that is known of it.
    fn took_s(&self) -> f64 {
        let last = self.history.events.iter().map(|event| event.at_ns).max();
        last.unwrap_or(0) as f64 / 1e9
    }

    /// How long a block took, seconds (`None`: it did not end).
    fn block_took_s(&self, block: u8) -> Option<f64> {
        self.history.events.iter().rev().find_map(|event| match &event.what {
            What::BlockEnded {
                block: ended, took_ms, ..
            } if *ended == block => Some(*took_ms as f64 / 1e3),
            _ => None,
        })
    }
}

/// How many claims had which verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Claims that hold.
    pub held: usize,
    /// Claims that diverged.
    pub diverged: usize,
    /// Claims that could not be decided.
    pub inconclusive: usize,
}

impl Totals {
    /// Of a judged run.
    #[must_use]
    pub fn of(findings: &Findings) -> Self {
        let mut totals = Self::default();
        for finding in findings.blocks.iter().flat_map(|block| &block.findings) {
            match finding.verdict {
                Verdict::Holds => totals.held += 1,
                Verdict::Diverged => totals.diverged += 1,
                Verdict::Inconclusive => totals.inconclusive += 1,
            }
        }
        totals
    }

    /// The line that readers of logs look for.
    #[must_use]
    pub fn line(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.held, self.diverged, self.inconclusive
        )
    }
}

/// For a terminal. `place` is the run directory, if there is one to point at.
#[must_use]
pub fn terminal(findings: &Findings, manifest: &Manifest, place: Option<&str>, style: Style) -> String {
    terminal::render(findings, manifest, place, style)
}

/// Only the claims and the summary, for a terminal: what `judge` prints.
#[must_use]
pub fn verdicts(findings: &Findings, style: Style) -> String {
    terminal::render_verdicts(findings, style)
}

/// Releases compared, for a terminal.
#[must_use]
pub fn versions(versions: &Versions, style: Style) -> String {
    versions::render(versions, style)
}

/// A matrix as Markdown: the releases compared, then each cell, folded.
#[must_use]
pub fn matrix_markdown(compared: &Compared<'_>) -> String {
    markdown::matrix::render(compared)
}

/// A matrix as one page in one file: the releases compared, then block by block and release by release.
#[must_use]
pub fn matrix_html(compared: &Compared<'_>) -> String {
    html::matrix::render(compared)
}

/// A matrix as JUnit XML: a suite per cell, a case per claim; a cell without a run is a suite with an error.
#[must_use]
pub fn matrix_junit(compared: &Compared<'_>) -> String {
    junit::render(&compared.runs(), compared.missing)
}

/// A matrix as OpenMetrics text.
#[must_use]
pub fn matrix_openmetrics(compared: &Compared<'_>) -> String {
    openmetrics::render(&compared.runs())
}

/// A matrix as annotations of GitHub Actions, one per line.
#[must_use]
pub fn matrix_annotations(compared: &Compared<'_>) -> String {
    github::annotations(&compared.runs(), compared.missing)
}

/// A matrix as the summary of a step of GitHub Actions.
#[must_use]
pub fn matrix_step_summary(compared: &Compared<'_>) -> String {
    github::matrix_summary(compared)
}

/// As Markdown.
#[must_use]
pub fn markdown(findings: &Findings, manifest: &Manifest) -> String {
    markdown::render(findings, manifest)
}

/// As a JSON document of the kind `report`.
#[must_use]
pub fn json(findings: &Findings, manifest: &Manifest) -> String {
    json::render(findings, manifest)
}

/// As one page in one file.
#[must_use]
pub fn html(cells: &[Cell<'_>]) -> String {
    html::render(cells)
}

/// As JUnit XML: a suite per run, a case per claim.
#[must_use]
pub fn junit(cells: &[Cell<'_>]) -> String {
    junit::render(cells, &[])
}

/// As OpenMetrics text.
#[must_use]
pub fn openmetrics(cells: &[Cell<'_>]) -> String {
    openmetrics::render(cells)
}

/// As annotations of GitHub Actions, one per line.
#[must_use]
pub fn annotations(cells: &[Cell<'_>]) -> String {
    github::annotations(cells, &[])
}

/// As the summary of a step of GitHub Actions: Markdown that is not longer than it takes.
#[must_use]
pub fn step_summary(cells: &[Cell<'_>]) -> String {
    github::step_summary(cells)
}

/// The one line below a report that names what was run, where and how.
fn subtitle(manifest: &Manifest) -> String {
    let mut parts = vec![manifest.name.clone()];
    parts.extend(manifest.versions());
    if let Some(engine) = &manifest.engine {
        parts.push(format!("Docker {}", engine.version));
        parts.push(format!("{} CPUs", engine.cpus));
    }
    parts.push(manifest.started_utc.clone());
    parts.join(" · ")
}

/// Whether every cell of a column begins as a number does, so that it is set to the right.
fn numeric(table: &Table, column: usize) -> bool {
    let cells = || table.rows.iter().filter_map(|row| row.get(column));
    let starts = |cell: &String| cell.is_empty() || cell == "-" || cell.starts_with(|c: char| c.is_ascii_digit());
    cells().all(starts) && cells().any(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
}

fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "✓",
        Verdict::Diverged => "✗",
        Verdict::Inconclusive => "?",
    }
}

/// `sound`, or the reservations.
fn trust(block: &BlockFindings) -> String {
    use crate::findings::Trust;
    match &block.trust {
        Trust::Sound => "sound".to_owned(),
        Trust::Suspect(reasons) => format!("suspect: {}", reasons.join("; ")),
        Trust::Void(reasons) => format!("void: {}", reasons.join("; ")),
    }
}

#[cfg(test)]
mod samples;
