//! Whether a half that was stopped stood still: one that went on answering was not stopped, and what the other half then said is
//! no answer to the question.

use super::doubt::Doubt;
use crate::claim::Cause;
use crate::findings::halves::{ON_ITS_WAY_NS, row};
use crate::findings::row::Rows;
use wire::Outcome;

/// Doubts about the halves that a block stopped.
pub fn doubts(rows: &Rows<'_>) -> Vec<Doubt> {
    let doubt = |row| {
        let answered = answered(rows, row)?;
        (!answered.is_empty()).then(|| {
            let text = format!(
                "{row}: the half was not stopped: {} went on answering",
                answered.join(", ")
            );
            Doubt::void(Cause::Instrument, text)
        })
    };
    [row::AWAY_STOPPED, row::HOME_STOPPED]
        .into_iter()
        .filter_map(doubt)
        .collect()
}

/// Nodes of the stopped half that answered in the last two node timeouts before it went on. `None`: there is no such row.
fn answered(rows: &Rows<'_>, row: &str) -> Option<Vec<String>> {
    let placed = rows.history.placed(rows.block, row)?;
    let stopped = placed.stopped()?;
    let joined_ns = u64::try_from(rows.fact(row, "joined_at_ns")?).ok()?;
    let from_ns = joined_ns.saturating_sub(2 * placed.node_timeout_ms * 1_000_000);
    let half = &rows.history.half(rows.block, row, stopped)?.seen;
    let until_ns = joined_ns.saturating_sub(ON_ITS_WAY_NS);
    let then = |first_ns: u64, last_ns: u64| last_ns >= from_ns && first_ns < until_ns;
    let looks = half.nodes.iter().filter(|looks| {
        let mut runs = looks.runs.iter();
        runs.any(|run| then(run.from_ns, run.to_ns) && run.seen.is_ok())
    });
    let answers = half.answers.iter().filter(|answers| {
        let mut runs = answers.runs.iter();
        runs.any(|run| then(run.from_ns, run.to_ns) && !matches!(run.outcome, Outcome::Silent(_)))
    });
    let mut answered: Vec<String> = looks
        .map(|looks| looks.node.to_string())
        .chain(answers.map(|answers| answers.node.to_string()))
        .collect();
    answered.sort();
    answered.dedup();
    Some(answered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::synthetic::{Play, Story};
    use crate::history::Parting;

    fn doubted(play: Play) -> Vec<Doubt> {
        let history = play.tell(Story::of(4)).history();
        doubts(&Rows {
            history: &history,
            block: 4,
        })
    }

    #[test]
    fn a_half_that_is_silent_was_stopped_and_one_that_answers_was_not() {
        let stopped = Play::record(4, row::AWAY_STOPPED, 'A').stopped(Parting::AwayStopped);
        assert_eq!(doubted(stopped.clone()), []);
        let doubts = doubted(stopped.answering());
        assert_eq!(doubts.len(), 1);
        assert!(
            doubts[0]
                .text
                .contains("198.18.2.4, 198.18.2.5, 198.18.2.6 went on answering"),
            "{doubts:?}"
        );
        assert_eq!(doubted(Play::record(4, row::CUT, 'A')), []);
    }
}
