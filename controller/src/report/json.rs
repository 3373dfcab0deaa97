//! The documents `report` and `judge`: all that the other formats say, for programs.

use super::Totals;
use crate::claim::Verdict;
use crate::document::document;
use crate::findings::{BlockFindings, Findings};
use crate::manifest::Manifest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The document `report`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportDocument {
    /// Worst verdict of all (null: no claim was judged).
    pub verdict: Option<Verdict>,
    /// How many claims had which verdict.
    pub totals: Totals,
    /// Why the run could not be completed.
    pub error: Option<String>,
    /// One per block that was run or skipped.
    pub blocks: Vec<BlockFindings>,
    /// What the run was made of.
    pub manifest: Manifest,
}

/// The document `judge`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JudgeDocument {
    /// Id of the run.
    pub run: String,
    /// Worst verdict of all (null: no claim was judged).
    pub verdict: Option<Verdict>,
    /// How many claims had which verdict.
    pub totals: Totals,
    /// Why the run could not be completed.
    pub error: Option<String>,
    /// One per block that was run or skipped.
    pub blocks: Vec<BlockFindings>,
    /// Claims whose verdict is not that of the stored report (null: there is no stored report).
    pub changed: Option<Vec<String>>,
}

pub(super) fn render(findings: &Findings, manifest: &Manifest) -> String {
    document(
        "report",
        &ReportDocument {
            verdict: findings.verdict,
            totals: Totals::of(findings),
            error: findings.error.clone(),
            blocks: findings.blocks.clone(),
            manifest: manifest.clone(),
        },
    )
}

impl JudgeDocument {
    /// Of a run judged again.
    #[must_use]
    pub fn of(run: &str, findings: &Findings, changed: Option<Vec<String>>) -> Self {
        Self {
            run: run.to_owned(),
            verdict: findings.verdict,
            totals: Totals::of(findings),
            error: findings.error.clone(),
            blocks: findings.blocks.clone(),
            changed,
        }
    }
}
