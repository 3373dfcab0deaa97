//! Judges a history: per block its table, its findings and its trust. Pure, so that a stored run can be judged again.

use crate::claim::{Finding, Verdict};
use crate::history::BlockNumber;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that a report says of a run, but for the manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Findings {
    /// One per block that was run or skipped.
    pub blocks: Vec<BlockFindings>,
    /// Worst verdict of all (`None`: no claim was judged).
    pub verdict: Option<Verdict>,
    /// Why the run could not be completed.
    pub error: Option<String>,
}

/// What a report says of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockFindings {
    /// Number, as in the record.
    pub block: BlockNumber,
    /// Short title.
    pub title: String,
    /// What it asks.
    pub question: String,
    /// How, with the parameters used.
    pub method: String,
    /// What it does not show.
    pub does_not_show: String,
    /// Numbers.
    pub table: Table,
    /// Claims.
    pub findings: Vec<Finding>,
    /// Whether the numbers can be vouched for.
    pub trust: Trust,
    /// Lines below the table.
    pub notes: Vec<String>,
    /// Why it was not run, or not to its end.
    pub error: Option<String>,
    /// Why it does not apply (then nothing else is filled in).
    pub skipped: Option<String>,
}

/// A table of text cells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// Headings, with units.
    pub columns: Vec<String>,
    /// Rows, as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

/// Whether numbers can be vouched for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Yes.
    Sound,
    /// With reservations.
    Suspect(Vec<String>),
    /// No.
    Void(Vec<String>),
}
