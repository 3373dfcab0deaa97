//! Releases compared, with the cells that it was made from: what every format of a matrix is made from, and the words that they
//! share. What a cell is and what was found is said elsewhere; a cell that is missing is told with its reason.

use super::Cell;
use crate::claim::Verdict;
use crate::findings::versions::{ClaimRow, Incomplete, Move, Moved, Moves, Number, Standing, Tried, Trusted, Versions};
use crate::history::BlockNumber;

/// A matrix, as reports need it.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// What was found over all cells.
    pub versions: &'a Versions,
    /// Cells of which there is a run, release by release, repeats in their order.
    pub cells: &'a [ComparedCell<'a>],
    /// Cells of which there is none, and those that were left out on purpose.
    pub missing: &'a [Missing],
    /// Version of testbed, seed, begin and end: the line below a title.
    pub subtitle: &'a str,
    /// The command that measures all of it again.
    pub command: &'a str,
}

/// A cell of a matrix.
#[derive(Debug, Clone, Copy)]
pub struct ComparedCell<'a> {
    /// Its release.
    pub release: &'a str,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// Its run directory, below the matrix directory.
    pub directory: &'a str,
    /// Its run.
    pub cell: Cell<'a>,
}

/// A cell without a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What it is called beside others.
    pub name: String,
    /// Why there is none.
    pub reason: String,
    /// Whether it was left out on purpose.
    pub left_out: bool,
}

impl<'a> Compared<'a> {
    /// The runs alone.
    pub(super) fn runs(&self) -> Vec<Cell<'a>> {
        self.cells.iter().map(|cell| cell.cell).collect()
    }

    /// What the whole is called.
    pub(super) fn title(&self) -> String {
        match self.versions.releases.as_slice() {
            [only] => format!("matrix of {}", only.name),
            all => format!("matrix of {} releases", all.len()),
        }
    }
}

/// A block's claims on one release, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Together {
    /// The worst of all (`None`: none of them applies).
    pub verdict: Option<Verdict>,
    /// How many claims have it.
    pub same: usize,
    /// How many were judged.
    pub all: usize,
    /// The least trust of all.
    pub trust: Trusted,
}

/// Blocks that have claims, each with what its claims are on the releases, together.
pub(super) fn by_block(versions: &Versions) -> Vec<(BlockNumber, Vec<Together>)> {
    let blocks = versions.claims.chunk_by(|one, other| one.block == other.block);
    let row = |of_block: &[ClaimRow]| {
        let releases = 0..versions.releases.len();
        (of_block[0].block, releases.map(|at| together(of_block, at)).collect())
    };
    blocks.map(row).collect()
}

fn together(of_block: &[ClaimRow], release: usize) -> Together {
    let tried = || of_block.iter().filter_map(|row| row.tried.get(release));
    let verdicts = || tried().filter_map(|tried| tried.standing.verdict());
    let verdict = Verdict::worst(verdicts());
    let judged = tried().filter(|tried| tried.standing.verdict().is_some());
    Together {
        verdict,
        same: verdicts().filter(|other| Some(*other) == verdict).count(),
        all: verdicts().count(),
        trust: judged.map(|tried| tried.trust).max().unwrap_or(Trusted::Sound),
    }
}

impl Together {
    /// `12`, `1 of 12`, `n/a`; the mark stands before it.
    pub(super) fn counts(&self) -> String {
        match self.verdict {
            None => "n/a".to_owned(),
            Some(_) if self.same == self.all => self.all.to_string(),
            Some(_) => format!("{} of {}", self.same, self.all),
        }
    }

    /// The same with the trust, where it is not sound.
    pub(super) fn shown(&self) -> String {
        with_trust(self.counts(), self.trust)
    }
}

/// What stands beside a count, where it is not sound.
pub(super) fn doubt(trust: Trusted) -> Option<&'static str> {
    match trust {
        Trusted::Sound => None,
        Trusted::Suspect => Some("suspect"),
        Trusted::Void => Some("void"),
    }
}

fn with_trust(counts: String, trust: Trusted) -> String {
    match doubt(trust) {
        None => counts,
        Some(doubt) => format!("{counts} {doubt}"),
    }
}

/// The same with the trust, where it is not sound: `1/3 suspect`.
pub(super) fn repeats(tried: &Tried) -> String {
    match tried.standing.verdict() {
        None => same_repeats(tried),
        Some(_) => with_trust(same_repeats(tried), tried.trust),
    }
}

/// How many repeats had the verdict that counts: `3/3`, `1/3`, `n/a`. The mark stands before it.
pub(super) fn same_repeats(tried: &Tried) -> String {
    let counts = tried.counts;
    let same = match tried.standing.verdict() {
        None => return "n/a".to_owned(),
        Some(Verdict::Holds) => counts.held,
        Some(Verdict::Diverged) => counts.diverged,
        Some(Verdict::Inconclusive) => counts.inconclusive,
    };
    format!("{same}/{}", counts.all())
}

/// Claims that moved, the worst that became of them first, else in the order of blocks.
pub(super) fn moved_claims(versions: &Versions) -> Vec<&Moves> {
    let mut moved: Vec<&Moves> = versions.moved.iter().collect();
    moved.sort_by_key(|moved| match moved.to {
        Standing::Diverged => 0,
        Standing::Inconclusive => 1,
        Standing::NotApplicable => 2,
        Standing::Holds => 3,
    });
    moved
}

/// Times that moved, those that moved most first.
pub(super) fn moved_times(versions: &Versions) -> Vec<(&Number, &Move)> {
    let all = versions.numbers.iter();
    let mut moved: Vec<(&Number, &Move)> = all
        .flat_map(|number| number.moves.iter().map(move |moved| (number, moved)))
        .filter(|(_, moved)| !matches!(moved.moved, Moved::WithinNoise | Moved::Untested))
        .collect();
    moved.sort_by(|one, other| other.1.ratio.ln().abs().total_cmp(&one.1.ratio.ln().abs()));
    moved
}

/// How many of the comparisons moved, and how that was decided.
pub(super) fn told_of_times(versions: &Versions, moved: &[(&Number, &Move)]) -> String {
    let test = &versions.test;
    let count = |kind: Moved| moved.iter().filter(|(_, moved)| moved.moved == kind).count();
    let said = match test.rounds {
        1 => format!("{} have samples that differ", count(Moved::SamplesDiffer)),
        _ => format!(
            "{} moved beyond noise (at most {:.0} % of such falsely), {} more lie apart in all rounds, which are too few to \
             rule out chance",
            count(Moved::BeyondNoise),
            test.false_share * 100.0,
            count(Moved::Apart)
        ),
    };
    format!("Of {} comparisons {said}; {}.", test.comparisons, test.method)
}

/// That the host moved too, if round trips without a server did.
pub(super) fn told_of_host(moved: &[(&Number, &Move)]) -> Option<String> {
    let hosts = moved
        .iter()
        .filter(|(number, moved)| number.control && moved.moved != Moved::Apart)
        .count();
    (hosts > 0).then(|| {
        format!(
            "{hosts} of them are round trips of the link itself, in which no server takes part: the host moved too."
        )
    })
}

/// Whether a time moved, in a word or three.
pub(super) fn moved_word(moved: Moved) -> &'static str {
    match moved {
        Moved::BeyondNoise => "beyond noise",
        Moved::Apart => "apart in all rounds",
        Moved::WithinNoise => "within noise",
        Moved::SamplesDiffer => "samples differ",
        Moved::Untested => "not tested",
    }
}

/// `1.052 [1.031, 1.075]`.
pub(super) fn ratio(moved: &Move) -> String {
    format!("{:.3} [{:.3}, {:.3}]", moved.ratio, moved.low, moved.high)
}

/// Nanoseconds in milliseconds.
pub(super) fn ms(ns: f64) -> String {
    format!("{:.3}", ns / 1e6)
}

/// A corrected probability, or a dash.
pub(super) fn corrected(moved: &Move) -> String {
    match moved.corrected {
        None => "-".to_owned(),
        Some(p) if p < 0.0001 => "<0.0001".to_owned(),
        Some(p) => format!("{p:.4}"),
    }
}

/// A value of a setting; nothing is a value too.
pub(super) fn value(values: &[String]) -> String {
    let shown = |value: &String| {
        if value.is_empty() {
            "(empty)".to_owned()
        } else {
            value.clone()
        }
    };
    values.iter().map(shown).collect::<Vec<_>>().join(" / ")
}

/// The cell of a topology on a release that has no run.
pub(super) fn told_of_cell(cell: &Incomplete) -> String {
    format!(
        "{}, {}, repeat {}: {}",
        cell.release, cell.topology, cell.repeat, cell.reason
    )
}

/// The line that readers of logs look for.
pub(super) fn totals(versions: &Versions) -> String {
    let count = |standing: Standing| {
        let all = versions.claims.iter().flat_map(|row| &row.tried);
        all.filter(|tried| tried.standing == standing).count()
    };
    format!(
        "{} passed, {} failed, {} skipped, {} not applicable; {} moved",
        count(Standing::Holds),
        count(Standing::Diverged),
        count(Standing::Inconclusive),
        count(Standing::NotApplicable),
        versions.moved.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn the_worst_that_became_of_a_claim_is_told_first() {
        let moved = |claim: &str, to| Moves {
            claim: claim.to_owned(),
            text: String::new(),
            release: "b".to_owned(),
            from: Standing::Inconclusive,
            to,
            measured: None,
            reason: None,
        };
        let mut versions = samples::matrix(|compared| compared.versions.clone());
        versions.moved = vec![
            moved("1", Standing::Holds),
            moved("2", Standing::Diverged),
            moved("3", Standing::NotApplicable),
            moved("4", Standing::Diverged),
        ];
        let order: Vec<&str> = moved_claims(&versions)
            .iter()
            .map(|moved| moved.claim.as_str())
            .collect();
        assert_eq!(order, ["2", "4", "3", "1"]);
    }

    #[test]
    fn a_block_is_its_worst_verdict_with_how_many_have_it() {
        let (versions, rows) = samples::matrix(|compared| (compared.versions.clone(), by_block(compared.versions)));
        let (block, on) = &rows[0];
        assert_eq!((*block, on.len(), versions.releases.len()), (3, 2, 2));
        // One held, one diverged, one was not decided; the second cell of `b` is missing.
        assert_eq!(on[0].shown(), "1 of 3 suspect");
        assert_eq!(on[0].verdict, Some(Verdict::Diverged));
        assert_eq!(on[1].trust, Trusted::Void);
    }
}
