//! A judged run as text: for a terminal, as Markdown, as JSON; one file per format below.
//!
//! Pure: the same findings and manifest give the same text. Decides nothing; what is not in the findings or the manifest
//! is not said.

mod json;
mod markdown;
mod terminal;
mod wrap;

pub use json::{JudgeDocument, ReportDocument};
pub use wrap::wrap;

use crate::claim::Verdict;
use crate::findings::{BlockFindings, Findings};
use crate::manifest::Manifest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
