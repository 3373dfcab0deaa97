//! Block 15: do the same claims hold on the other servers? Judged from the stored cells of a matrix alone: a table of
//! claims by release; apart from it, the times that moved, and the settings whose values differ.
//!
//! The verdicts are those of the cells; nothing is judged anew. Repeats of a cell are combined by their worst verdict, and a
//! cell that is missing is inconclusive, never left out. What a release cannot have is `not applicable`, which is no verdict.

pub mod environment;
mod numbers;
mod settings;
mod table;

#[cfg(test)]
mod tests;

pub use numbers::{Move, Moved, Number, Test};
pub use settings::{Partial, Setting, Sorted};
pub use table::{ClaimRow, Counts, Moves, Standing, Tried, Trusted};

use super::Findings;
use crate::claim::Verdict;
use crate::history::{BlockNumber, History};
use crate::manifest::Manifest;
use crate::plan::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of the block.
pub const BLOCK: BlockNumber = 15;
/// Its title.
pub const TITLE: &str = "The same claims on other servers";
/// What it asks.
pub const QUESTION: &str = "Does a claim that holds on the first release hold on the others?";
/// What it does not show.
pub const DOES_NOT_SHOW: &str = "Why a number moved: a release is also its compiler, its build flags and its libraries. That a claim holds on both says \
     nothing of what no block measures; the settings that differ are a hint at that, no measurement. Times compare only within one matrix: \
     the same host, the same hours.";

/// A cell, as it was read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The release.
    pub release: String,
    /// Name of its topology.
    pub topology: String,
    /// Blocks that were to run.
    pub blocks: Vec<BlockNumber>,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// What it came to, or why there is nothing.
    pub outcome: Result<Box<Read>, String>,
}

/// The run of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// What happened.
    pub history: History,
    /// The same, judged.
    pub findings: Findings,
    /// What it was made of.
    pub manifest: Manifest,
    /// Plans of its labs by the names of their files, for the picture; nothing is judged by them.
    pub plans: BTreeMap<String, Plan>,
}

/// The releases, compared: what a report of a matrix is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Versions {
    /// Worst verdict of all (null: no claim was judged).
    pub verdict: Option<Verdict>,
    /// Columns of all tables; the first is the one that others are compared with.
    pub releases: Vec<Release>,
    /// How often each cell was to be measured.
    pub repeats: u32,
    /// Claim by claim, in the order of blocks.
    pub claims: Vec<ClaimRow>,
    /// Claims whose verdict is another than on the first release.
    pub moved: Vec<Moves>,
    /// Times of operations, compared with the first release.
    pub numbers: Vec<Number>,
    /// How it was decided whether a time moved.
    pub test: Test,
    /// Settings whose effective values differ between releases.
    pub settings: Vec<Setting>,
    /// Cells that were not completed.
    pub incomplete: Vec<Incomplete>,
    /// Cells that were left out on purpose: they count nowhere.
    pub left_out: Vec<Incomplete>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Release {
    /// As it was named.
    pub name: String,
    /// What the servers themselves reported, e.g. `redis 7.0.15`.
    pub versions: Vec<String>,
    /// Cells that were completed.
    pub completed: usize,
    /// Cells that there are.
    pub cells: usize,
}

/// A cell that was not completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Incomplete {
    /// The release.
    pub release: String,
    /// Name of the topology.
    pub topology: String,
    /// Which repeat.
    pub repeat: u32,
    /// Why.
    pub reason: String,
}

/// Compares releases, in this order, over all cells.
#[must_use]
pub fn compare(releases: &[String], cells: &[Measured], seed: u64) -> Versions {
    let claims = table::claims(releases, cells);
    let (numbers, test) = numbers::compared(releases, cells, seed);
    Versions {
        verdict: Verdict::worst(claims.iter().flat_map(ClaimRow::verdicts)),
        moved: table::moved(releases, &claims),
        claims,
        numbers,
        test,
        settings: settings::different(releases, cells),
        repeats: cells.iter().map(|cell| cell.repeat).max().unwrap_or(0),
        incomplete: incomplete(cells),
        left_out: Vec::new(),
        releases: releases.iter().map(|release| column(release, cells)).collect(),
    }
}

impl Measured {
    fn read(&self) -> Option<&Read> {
        self.outcome.as_ref().ok().map(Box::as_ref)
    }
}

fn of<'a>(release: &'a str, cells: &'a [Measured]) -> impl Iterator<Item = &'a Measured> {
    cells.iter().filter(move |cell| cell.release == release)
}

fn column(release: &str, cells: &[Measured]) -> Release {
    let mut versions = Vec::new();
    for read in of(release, cells).filter_map(Measured::read) {
        for version in read.manifest.versions() {
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
    }
    Release {
        name: release.to_owned(),
        versions,
        completed: of(release, cells).filter(|cell| reason(cell).is_none()).count(),
        cells: of(release, cells).count(),
    }
}

/// Why a cell was not completed.
fn reason(cell: &Measured) -> Option<&str> {
    match &cell.outcome {
        Ok(read) => read.findings.error.as_deref(),
        Err(reason) => Some(reason),
    }
}

fn incomplete(cells: &[Measured]) -> Vec<Incomplete> {
    let told = |cell: &Measured| {
        Some(Incomplete {
            release: cell.release.clone(),
            topology: cell.topology.clone(),
            repeat: cell.repeat,
            reason: reason(cell)?.to_owned(),
        })
    };
    cells.iter().filter_map(told).collect()
}
