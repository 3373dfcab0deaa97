//! Judges a history: per block its table, its findings and its trust. Pure, so that a stored run can be judged again.
//!
//! One file per block below. A step that is missing from the history makes claims inconclusive, never held.

pub mod calibration;
pub mod card;
pub mod far_cache;
pub mod flights;
pub mod halves;
pub mod lost_writes;
pub mod nodelay;
pub mod offset_gap;
pub mod price_of_wait;
pub mod reads_when_down;
pub mod row;
pub mod serialising;
mod stream;
#[cfg(test)]
pub(crate) mod synthetic;
mod trust;
pub mod versions;
pub mod visibility_lag;
mod wait_and_distance;
pub mod waits;

use crate::claim::{Finding, Verdict, combine};
use crate::history::{BlockNumber, History, What};
use row::Rows;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use trust::any_unseen;

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
    /// What that rests on, in figures.
    #[serde(default)]
    pub evidence: Vec<String>,
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

/// What the file of a block makes of its part of a history.
#[derive(Debug, Default)]
struct Judged {
    table: Table,
    findings: Vec<Finding>,
    notes: Vec<String>,
}

/// Judges a run.
#[must_use]
pub fn judge(history: &History) -> Findings {
    let mut blocks: Vec<BlockFindings> = Vec::new();
    for event in &history.events {
        let seen = match &event.what {
            What::BlockSkipped { block, reason } => skipped(*block, reason),
            What::BlockStarted { block, .. } => measured(history, *block),
            _ => continue,
        };
        // A block that ran twice is judged once, on its last numbers.
        blocks.retain(|known| known.block != seen.block);
        blocks.push(seen);
    }
    Findings {
        verdict: combine(blocks.iter().flat_map(|block| &block.findings)),
        error: run_error(history, &blocks),
        blocks,
    }
}

fn skipped(block: BlockNumber, reason: &str) -> BlockFindings {
    BlockFindings {
        skipped: Some(reason.to_owned()),
        ..blank(block)
    }
}

fn measured(history: &History, block: BlockNumber) -> BlockFindings {
    let rows = Rows { history, block };
    let judged = match block {
        1 => visibility_lag::judge(&rows),
        2 => lost_writes::judge(&rows),
        3 => price_of_wait::judge(&rows),
        4..=6 => halves::judge(&rows),
        7 => far_cache::judge(&rows),
        8 => reads_when_down::judge(&rows),
        9 => offset_gap::judge(&rows),
        10 => wait_and_distance::judge(&rows),
        11 => nodelay::judge(&rows),
        12 => flights::judge(&rows),
        13 => serialising::judge(&rows),
        14 => calibration::judge(&rows),
        _ => Judged::default(),
    };
    let assessed = trust::of(&rows);
    let findings = judged.findings.into_iter();
    let findings = match assessed.void {
        Some((reason, cause)) => findings.map(|finding| finding.voided(&reason, cause)).collect(),
        None => findings.collect(),
    };
    let mut notes = judged.notes;
    notes.extend(history.notes(block).map(str::to_owned));
    BlockFindings {
        method: method(history, block).unwrap_or_default(),
        table: judged.table,
        findings,
        trust: assessed.trust,
        evidence: assessed.evidence,
        notes,
        error: block_error(history, block),
        ..blank(block)
    }
}

/// What is known of a block before anything was measured. A number that this program does not know (a history of a
/// newer one) has no words and no claims.
fn blank(block: BlockNumber) -> BlockFindings {
    let card = card::of(block);
    let text = |part: fn(&card::Card) -> &str| card.map_or_else(String::new, |card| part(card).to_owned());
    BlockFindings {
        block,
        title: text(|card| card.title),
        question: text(|card| card.question),
        method: String::new(),
        does_not_show: text(|card| card.does_not_show),
        table: Table::default(),
        findings: Vec::new(),
        trust: Trust::Sound,
        evidence: Vec::new(),
        notes: Vec::new(),
        error: None,
        skipped: None,
    }
}

fn method(history: &History, block: BlockNumber) -> Option<String> {
    history.events.iter().rev().find_map(|event| match &event.what {
        What::BlockStarted { block: of, method } if *of == block => method.clone(),
        _ => None,
    })
}

/// Why a block was not run to its end.
fn block_error(history: &History, block: BlockNumber) -> Option<String> {
    let ended = history.events.iter().rev().find_map(|event| match &event.what {
        What::BlockEnded { block: of, error, .. } if *of == block => Some(error.clone()),
        _ => None,
    });
    ended.unwrap_or_else(|| Some("the history ends before the block does".to_owned()))
}

/// Why a run could not be completed: its own error, or that of its first block that failed.
fn run_error(history: &History, blocks: &[BlockFindings]) -> Option<String> {
    let ended = history.events.iter().rev().find_map(|event| match &event.what {
        What::RunEnded { error } => Some(error.clone()),
        _ => None,
    });
    let of_blocks = || {
        let failed = blocks
            .iter()
            .find_map(|block| Some((block.block, block.error.as_ref()?)));
        failed.map(|(block, error)| format!("block {block}: failed to {error}"))
    };
    match ended {
        Some(error) => error.or_else(of_blocks),
        None => Some("the history ends before the run does".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::synthetic::Story;
    use super::*;
    use crate::history::Event;

    fn judged(whats: Vec<What>) -> Findings {
        let events = whats.into_iter().map(|what| Event { at_ns: 0, what }).collect();
        judge(&History { events })
    }

    #[test]
    fn an_empty_history_is_a_run_that_did_not_end_and_has_no_verdict() {
        let findings = judged(Vec::new());
        assert_eq!((findings.verdict, findings.blocks.len()), (None, 0));
        assert!(findings.error.is_some());
    }

    #[test]
    fn a_skipped_block_has_its_reason_and_no_claims() {
        let reason = "it needs a Postgres".to_owned();
        let findings = judged(vec![
            What::BlockSkipped { block: 7, reason },
            What::RunEnded { error: None },
        ]);
        assert_eq!(findings.error, None);
        assert_eq!(findings.blocks[0].skipped.as_deref(), Some("it needs a Postgres"));
        assert!(findings.blocks[0].findings.is_empty());
    }

    #[test]
    fn a_block_that_only_began_makes_no_claim_hold_and_the_run_incomplete() {
        let mut history = Story::of(3).history();
        history
            .events
            .retain(|event| !matches!(event.what, What::BlockEnded { .. }));
        let findings = judge(&history);
        assert!(findings.blocks[0].error.is_some() && findings.error.is_some());
        assert!(!findings.blocks[0].findings.is_empty());
        assert_eq!(findings.verdict, Some(Verdict::Inconclusive));
        for finding in &findings.blocks[0].findings {
            assert_eq!(finding.verdict, Verdict::Inconclusive, "{finding:?}");
        }
    }

    #[test]
    fn nothing_recorded_lets_no_claim_of_any_block_hold() {
        for block in card::numbers() {
            let judged = Story::of(block).judged();
            assert!(!judged.findings.is_empty());
            judged.assert_incomplete("");
        }
    }

    #[test]
    fn a_block_of_a_newer_program_has_no_words_and_no_claims() {
        let judged = Story::of(99).judged();
        assert_eq!((judged.title.as_str(), judged.findings.len()), ("", 0));
    }
}
