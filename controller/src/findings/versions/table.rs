//! The table of claims: which verdict each claim has on each release, over the repeats together.

use super::{Measured, Read, of};
use crate::claim::{Finding, Verdict};
use crate::findings::{BlockFindings, Trust};
use crate::history::BlockNumber;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A claim, release by release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRow {
    /// The block.
    pub block: BlockNumber,
    /// Stable name.
    pub claim: String,
    /// As a sentence.
    pub text: String,
    /// In the order of the releases.
    pub tried: Vec<Tried>,
}

/// A claim on a release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// The worst of all repeats.
    pub standing: Standing,
    /// How many repeats had which verdict.
    pub counts: Counts,
    /// The least trust of all repeats.
    pub trust: Trusted,
    /// What was measured in the repeat that decided, against what bound.
    pub measured: Option<String>,
    /// Why it does not hold, was not decided, or does not apply.
    pub reason: Option<String>,
}

/// What a claim is on a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It holds.
    Holds,
    /// It could not be decided.
    Inconclusive,
    /// It does not hold.
    Diverged,
    /// The release cannot have it.
    NotApplicable,
}

/// How many repeats had which verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Repeats in which it holds.
    pub held: u32,
    /// Repeats in which it diverged.
    pub diverged: u32,
    /// Repeats in which it was not decided, those that are missing included.
    pub inconclusive: u32,
}

/// Whether a block's numbers can be vouched for. The order is that of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trusted {
    /// Yes.
    Sound,
    /// With reservations.
    Suspect,
    /// No, or there are none.
    Void,
}

/// A claim whose verdict moved against the first release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moves {
    /// The claim.
    pub claim: String,
    /// As a sentence.
    pub text: String,
    /// The other release.
    pub release: String,
    /// On the first release.
    pub from: Standing,
    /// On the other one.
    pub to: Standing,
    /// What was measured there.
    pub measured: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

impl Standing {
    /// As documents write it, for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Inconclusive => "inconclusive",
            Self::Diverged => "diverged",
            Self::NotApplicable => "not applicable",
        }
    }

    /// The verdict, if it is one.
    #[must_use]
    pub fn verdict(self) -> Option<Verdict> {
        match self {
            Self::Holds => Some(Verdict::Holds),
            Self::Inconclusive => Some(Verdict::Inconclusive),
            Self::Diverged => Some(Verdict::Diverged),
            Self::NotApplicable => None,
        }
    }
}

impl From<Verdict> for Standing {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Holds => Self::Holds,
            Verdict::Inconclusive => Self::Inconclusive,
            Verdict::Diverged => Self::Diverged,
        }
    }
}

impl Counts {
    /// All repeats.
    #[must_use]
    pub fn all(self) -> u32 {
        self.held + self.diverged + self.inconclusive
    }
}

impl ClaimRow {
    /// The verdicts of all releases on which it applies.
    pub fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.tried.iter().filter_map(|tried| tried.standing.verdict())
    }
}

impl From<&Trust> for Trusted {
    fn from(trust: &Trust) -> Self {
        match trust {
            Trust::Sound => Self::Sound,
            Trust::Suspect(_) => Self::Suspect,
            Trust::Void(_) => Self::Void,
        }
    }
}

/// A row per claim that any cell judged, in the order of blocks and of the first cell that judged it.
pub(super) fn claims(releases: &[String], cells: &[Measured]) -> Vec<ClaimRow> {
    let mut known: Vec<(BlockNumber, &Finding)> = Vec::new();
    for block in cells
        .iter()
        .filter_map(Measured::read)
        .flat_map(|read| &read.findings.blocks)
    {
        for finding in &block.findings {
            if !known.iter().any(|(_, other)| other.claim == finding.claim) {
                known.push((block.block, finding));
            }
        }
    }
    known.sort_by_key(|(block, _)| *block);
    let row = |(block, finding): (BlockNumber, &Finding)| ClaimRow {
        block,
        claim: finding.claim.clone(),
        text: finding.text.clone(),
        tried: releases
            .iter()
            .map(|release| tried(block, &finding.claim, of(release, cells)))
            .collect(),
    };
    known.into_iter().map(row).collect()
}

/// What one cell says of a claim.
enum Said<'a> {
    Found(&'a Finding, Trusted),
    Missing(String),
    Absent(String),
}

fn tried<'a>(block: BlockNumber, claim: &str, cells: impl Iterator<Item = &'a Measured>) -> Tried {
    let said: Vec<Said<'_>> = cells
        .filter(|cell| cell.blocks.contains(&block))
        .map(|cell| match &cell.outcome {
            Ok(read) => of_run(block, claim, read),
            Err(reason) => Said::Missing(reason.clone()),
        })
        .collect();
    let mut tried = Tried {
        standing: Standing::NotApplicable,
        counts: Counts::default(),
        trust: Trusted::Sound,
        measured: None,
        reason: None,
    };
    if said.is_empty() {
        tried.reason = Some("the block is not measured on this release".to_owned());
    }
    let mut worst = None;
    for said in said {
        let (verdict, trust, measured, reason) = match said {
            Said::Found(finding, trust) => (
                finding.verdict,
                trust,
                Some(finding.measured.clone()),
                finding.reason.clone(),
            ),
            Said::Missing(reason) => (Verdict::Inconclusive, Trusted::Void, None, Some(reason)),
            Said::Absent(reason) => {
                // Beside a verdict of another repeat it would be a riddle, so it only stands alone.
                if worst.is_none() {
                    tried.reason = Some(reason);
                }
                continue;
            }
        };
        match verdict {
            Verdict::Holds => tried.counts.held += 1,
            Verdict::Diverged => tried.counts.diverged += 1,
            Verdict::Inconclusive => tried.counts.inconclusive += 1,
        }
        tried.trust = tried.trust.max(trust);
        if worst.is_none_or(|worst| verdict > worst) {
            worst = Some(verdict);
            tried.standing = verdict.into();
            tried.measured = measured;
            tried.reason = reason;
        }
    }
    tried
}

fn of_run<'a>(block: BlockNumber, claim: &str, read: &'a Read) -> Said<'a> {
    let findings = &read.findings;
    let Some(seen) = findings.blocks.iter().find(|seen| seen.block == block) else {
        let reason = findings.error.clone();
        return Said::Missing(reason.unwrap_or_else(|| "the block did not run".to_owned()));
    };
    if let Some(reason) = &seen.skipped {
        return Said::Absent(reason.clone());
    }
    match seen.findings.iter().find(|finding| finding.claim == claim) {
        Some(finding) => Said::Found(finding, Trusted::from(&seen.trust)),
        None => absent(seen),
    }
}

/// A claim that a block makes elsewhere and not here.
fn absent(seen: &BlockFindings) -> Said<'_> {
    match &seen.error {
        Some(error) => Said::Missing(error.clone()),
        None => Said::Absent("the block makes no such claim on this release".to_owned()),
    }
}

/// Every claim whose standing is another than on the first release.
pub(super) fn moved(releases: &[String], claims: &[ClaimRow]) -> Vec<Moves> {
    let mut moved = Vec::new();
    for row in claims {
        let Some(first) = row.tried.first() else { continue };
        for (release, tried) in releases.iter().zip(&row.tried).skip(1) {
            if tried.standing != first.standing {
                moved.push(Moves {
                    claim: row.claim.clone(),
                    text: row.text.clone(),
                    release: release.clone(),
                    from: first.standing,
                    to: tried.standing,
                    measured: tried.measured.clone(),
                    reason: tried.reason.clone(),
                });
            }
        }
    }
    moved
}
