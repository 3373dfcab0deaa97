//! Block 2: cut at once some acknowledged writes are lost, cut a second later none; what is lost is exactly what had not
//! reached the replica. The percentage is shown and never judged.

use super::Judged;
use super::row::{self, Rows, table};
use super::stream::{cut_of, digits, set_bytes};
use crate::claim::{Claim, Counted, Finding, exact, threshold};
use wire::Written;

const COLUMNS: [&str; 9] = [
    "cut",
    "after, ms",
    "acknowledged",
    "kept",
    "lost",
    "lost, %",
    "gap, bytes",
    "lost, bytes",
    "full syncs",
];

/// What the columns hold.
const LEGEND: &str = "After: from the last acknowledgement to the cut in the relay. Kept: found on the promoted replica. Gap: how far the \
     replica was behind the primary's offset when it was promoted. Lost, bytes: of the lost writes in the stream. Full syncs: \
     what it took to make it a replica again.";

/// A PING in the stream: `*1\r\n$4\r\nPING\r\n`.
const PING_BYTES: i64 = 14;
/// The primary's usual interval between two (`repl-ping-replica-period`).
const PING_EVERY_MS: i64 = 10_000;
/// A SELECT in the stream, before the first write to a replica that has just been attached.
const SELECT_BYTES: i64 = 23;

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
    let rounds = rounds(rows);
    let mut judged = Judged {
        table: table(&COLUMNS, rounds.iter().map(|round| round.line(rows)).collect()),
        notes: vec![LEGEND.to_owned()],
        ..Judged::default()
    };
    let [at_once, later] = &rounds;
    judged.findings = vec![
        at_once.some_lost(rows),
        at_once.suffix(),
        at_once.gap_is_lost(),
        later.none_lost(),
        later.offsets_equal(),
        later.gap_is_lost(),
    ];
    judged
}

/// What was lost in one round, beside the gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// When it was cut.
    pub title: &'static str,
    /// What the replica lacked of the stream, bytes.
    pub gap_bytes: i64,
    /// The lost writes in the stream, bytes.
    pub lost_bytes: i64,
    /// Acknowledged writes that were not found afterwards.
    pub lost: usize,
}

/// Of every round of which all of that is known.
#[must_use]
pub fn losses(rows: &Rows<'_>) -> Vec<Loss> {
    let known = rounds(rows).into_iter().filter(|round| round.lack.is_none());
    known
        .filter_map(|round| {
            Some(Loss {
                title: round.title,
                gap_bytes: round.facts.gap_bytes?,
                lost_bytes: round.lost_bytes()?,
                lost: round.lost.len(),
            })
        })
        .collect()
}

fn rounds<'a>(rows: &Rows<'a>) -> [Round<'a>; 2] {
    [Round::of(rows, "a", "at once"), Round::of(rows, "b", "1 s later")]
}

/// What a history holds of one round.
struct Round<'a> {
    row: &'static str,
    title: &'static str,
    writes: &'a [Written],
    present: &'a [u32],
    /// Acknowledged and not found afterwards, ascending.
    lost: Vec<u32>,
    facts: Facts,
    /// Why nothing can be concluded, if so.
    lack: Option<String>,
}

/// Numbers of a round.
struct Facts {
    gap_bytes: Option<i64>,
    before: [Counted; 2],
    until_promotion_ms: Option<i64>,
    key_prefix_bytes: Option<i64>,
    value_bytes: Option<i64>,
    full_syncs: Option<i64>,
    /// From the last acknowledgement to the relay's cut of the outward link, nanoseconds.
    cut_after_ns: Option<i64>,
}

impl<'a> Round<'a> {
    fn of(rows: &Rows<'a>, row: &'static str, title: &'static str) -> Self {
        let (writes, present) = rows.history.ledger(rows.block, row).unwrap_or((&[], &[]));
        let lost = writes
            .iter()
            .filter(|write| write.acknowledged_ns.is_some() && !present.contains(&write.i))
            .map(|write| write.i)
            .collect();
        let mut round = Self {
            row,
            title,
            writes,
            present,
            lost,
            facts: Facts::of(rows, row, writes),
            lack: None,
        };
        round.lack = round.find_lack(rows);
        round
    }

    /// What must be so before anything can be said of what was lost.
    fn find_lack(&self, rows: &Rows<'_>) -> Option<String> {
        if self.writes.is_empty() {
            return Some("there is no ledger".to_owned());
        }
        let unacknowledged = self
            .writes
            .iter()
            .filter(|write| write.acknowledged_ns.is_none())
            .count();
        if unacknowledged > 0 {
            return Some(format!("{unacknowledged} writes were not acknowledged"));
        }
        if rows.fact(self.row, "keys_before_count") != Some(0) {
            return Some("keys of the ledger were there before it was written".to_owned());
        }
        if rows.fact(self.row, "far_is_primary_count") != Some(1) {
            return Some("the far replica was not promoted".to_owned());
        }
        self.facts
            .cut_after_ns
            .is_none()
            .then(|| "the relay tells of no cut".to_owned())
    }

    fn claim(&self, name: &str, text: &str) -> Claim {
        Claim::new(
            format!("2.{name}@{}", self.row),
            format!("({}) cut {}: {text}", self.row, self.title),
        )
    }

    fn acknowledged(&self) -> usize {
        self.writes
            .iter()
            .filter(|write| write.acknowledged_ns.is_some())
            .count()
    }

    fn lost_count(&self) -> Counted {
        Counted::new(
            format!("lost writes of \"{}\"", self.row),
            i64::try_from(self.lost.len()).ok(),
        )
    }

    fn some_lost(&self, rows: &Rows<'_>) -> Finding {
        let claim = self.claim("some-lost", "some acknowledged writes are lost");
        if let Some(lack) = &self.lack {
            return claim.incomplete("nothing", lack);
        }
        // A flight is half of the measured round trip. With the cut later than that, everything had arrived.
        let trips = rows.distances().into_iter().map(|delay_ns| rows.round_trips(delay_ns));
        let flight_ns = trips
            .filter_map(|trip| crate::stats::median(trip.values.as_deref()?))
            .fold(0.0, f64::max)
            / 2.0;
        let after_ns = self.facts.cut_after_ns.unwrap_or_default() as f64;
        if self.lost.is_empty() && after_ns > flight_ns {
            return claim.incomplete(
                "0, bound at least 1",
                format!(
                    "the cut came {} ms after the last acknowledgement, later than a flight of {} ms: too late to lose anything",
                    row::ms(after_ns),
                    row::ms(flight_ns)
                ),
            );
        }
        threshold::judge_at_least(claim, &self.lost_count(), 1)
    }

    fn none_lost(&self) -> Finding {
        let claim = self.claim("none-lost", "no acknowledged write is lost");
        match &self.lack {
            Some(lack) => claim.incomplete("nothing", lack),
            None => exact::judge(claim, &self.lost_count(), 0),
        }
    }

    fn offsets_equal(&self) -> Finding {
        let claim = self.claim("offsets-equal-before-the-cut", "the offsets were equal before the cut");
        exact::judge_equal(claim, &self.facts.before[0], &self.facts.before[1])
    }

    /// What was lost are the last writes, without a gap.
    fn suffix(&self) -> Finding {
        let claim = self.claim(
            "lost-are-the-last",
            "what is lost are the last writes, and nothing before them",
        );
        if let Some(lack) = &self.lack {
            return claim.incomplete("nothing", lack);
        }
        let Some(first) = self.lost.first() else {
            return claim.incomplete("nothing lost", "nothing was lost, so there is no end to look at");
        };
        let after = self.present.iter().filter(|&i| i > first).count();
        let counted = Counted::new(
            format!("writes of \"{}\" kept after the first lost one", self.row),
            i64::try_from(after).ok(),
        );
        exact::judge(claim, &counted, 0)
    }

    /// The replica lacked exactly the bytes of the lost writes, but for what else was in the stream.
    fn gap_is_lost(&self) -> Finding {
        let claim = self.claim(
            "lost-is-what-had-not-arrived",
            "the bytes that the replica lacked at the cut are those of the lost writes, within one record",
        );
        if let Some(lack) = &self.lack {
            return claim.incomplete("nothing", lack);
        }
        let (Some(gap), Some(lost), Some(record)) = (self.facts.gap_bytes, self.lost_bytes(), self.record_bytes(0))
        else {
            return claim.incomplete("nothing", "offsets or sizes were not recorded");
        };
        let pings = 1 + self.facts.until_promotion_ms.unwrap_or(PING_EVERY_MS) / PING_EVERY_MS;
        let other = pings * PING_BYTES + SELECT_BYTES;
        let beside = gap - lost;
        let measured = format!("gap {gap}, lost {lost} bytes; one record {record}, pings and SELECT at most {other}");
        if (-record..=record + other).contains(&beside) {
            claim.holds(measured)
        } else {
            claim.diverged(
                measured,
                format!("{beside} bytes of the gap are not those of the lost writes"),
            )
        }
    }

    /// Bytes of the lost writes in the replication stream.
    fn lost_bytes(&self) -> Option<i64> {
        self.lost.iter().map(|&i| self.record_bytes(i)).sum()
    }

    /// Bytes of `SET <prefix><i> <value>` in the stream.
    fn record_bytes(&self, i: u32) -> Option<i64> {
        let key = self.facts.key_prefix_bytes? + digits(i.into());
        Some(set_bytes(key, self.facts.value_bytes?))
    }

    fn line(&self, rows: &Rows<'_>) -> Vec<String> {
        let dash = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let (acknowledged, lost) = (self.acknowledged(), self.lost.len());
        let share = if acknowledged == 0 {
            "-".to_owned()
        } else {
            format!("{:.1}", 100.0 * lost as f64 / acknowledged as f64)
        };
        let full_syncs = self.facts.full_syncs;
        debug_assert_eq!(rows.block, 2);
        vec![
            format!("({}) {}", self.row, self.title),
            self.facts
                .cut_after_ns
                .map_or_else(|| "-".to_owned(), |ns| row::ms(ns as f64)),
            acknowledged.to_string(),
            self.present.len().to_string(),
            lost.to_string(),
            share,
            dash(self.facts.gap_bytes),
            dash(self.lost_bytes()),
            dash(full_syncs),
        ]
    }
}

impl Facts {
    fn of(rows: &Rows<'_>, row: &str, writes: &[Written]) -> Self {
        let fact = |name: &str| rows.fact(row, name).filter(|value| *value >= 0);
        let difference = |later: &str, sooner: &str| Some(fact(later)? - fact(sooner)?);
        let acknowledged = writes.iter().filter_map(|write| write.acknowledged_ns).max();
        let cut = cut_of(rows, row).and_then(|link| link.last_cut_ns);
        let counted = |name: &str| Counted::new(format!("{name} of \"{row}\""), fact(name));
        Self {
            gap_bytes: difference("primary_offset_at_cut_bytes", "far_offset_at_cut_bytes"),
            before: [
                counted("primary_offset_before_cut_bytes"),
                counted("far_offset_before_cut_bytes"),
            ],
            until_promotion_ms: fact("until_promotion_ms"),
            key_prefix_bytes: fact("key_prefix_bytes"),
            value_bytes: fact("value_bytes"),
            full_syncs: difference("sync_full_after_count", "sync_full_before_count"),
            cut_after_ns: cut
                .zip(acknowledged)
                .and_then(|(cut, acknowledged)| Some(i64::try_from(cut).ok()? - i64::try_from(acknowledged).ok()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;
    use crate::findings::synthetic::Story;
    use crate::history::What;

    const PREFIX: i64 = 5;
    const VALUE: i64 = 32;

    /// `*3\r\n$3\r\nSET\r\n$8\r\nlost:107\r\n$32\r\n...\r\n`
    const THREE_DIGITS: i64 = 4 + 9 + 14 + 39;

    /// A round of 200 writes, 1 ms apart, of which the first so many arrived, cut at this time.
    fn round(story: Story, row: &str, kept: u32, cut_at_ms: u64, gap_bytes: i64) -> Story {
        story
            .fact(row, "keys_before_count", 0)
            .fact(row, "far_is_primary_count", 1)
            .fact(row, "key_prefix_bytes", PREFIX)
            .fact(row, "value_bytes", VALUE)
            .fact(row, "until_promotion_ms", 300)
            .fact(row, "primary_offset_at_cut_bytes", 20_000)
            .fact(row, "far_offset_at_cut_bytes", 20_000 - gap_bytes)
            .cut(row, cut_at_ms)
            .ledger(row, 200, 0..kept)
    }

    fn story(kept: u32, gap_bytes: i64) -> Story {
        let story = round(Story::of(2).round_trips(20), "a", kept, 202, gap_bytes);
        round(story, "b", 200, 1200, 0)
            .fact("b", "primary_offset_before_cut_bytes", 9000)
            .fact("b", "far_offset_before_cut_bytes", 9000)
    }

    fn usual() -> Story {
        story(107, 93 * THREE_DIGITS)
    }

    #[test]
    fn of_both_rounds_the_loss_stands_beside_the_gap() {
        let history = usual().history();
        let losses = losses(&Rows {
            history: &history,
            block: 2,
        });
        let numbers: Vec<(i64, i64, usize)> = losses
            .iter()
            .map(|loss| (loss.gap_bytes, loss.lost_bytes, loss.lost))
            .collect();
        assert_eq!(numbers, [(93 * THREE_DIGITS, 93 * THREE_DIGITS, 93), (0, 0, 0)]);
    }

    #[test]
    fn the_records_own_numbers_hold() {
        let judged = usual().judged();
        judged.assert_all_hold();
        assert_eq!(judged.findings.len(), 6);
        let row = &judged.table.rows[0];
        assert_eq!(row[1..6], ["2.00", "200", "107", "93", "46.5"].map(str::to_owned));
        assert_eq!(row[6], row[7]);
    }

    #[test]
    fn a_loss_a_second_later_diverged() {
        let judged = round(usual(), "b", 199, 1200, THREE_DIGITS).judged();
        assert_eq!(judged.verdict("2.none-lost@b"), Verdict::Diverged);
        assert_eq!(judged.verdict("2.some-lost@a"), Verdict::Holds);
    }

    #[test]
    fn offsets_that_differ_before_the_cut_diverged() {
        let judged = usual().fact("b", "far_offset_before_cut_bytes", 8999).judged();
        assert_eq!(judged.verdict("2.offsets-equal-before-the-cut@b"), Verdict::Diverged);
    }

    #[test]
    fn nothing_lost_diverged_unless_the_cut_came_too_late() {
        let in_time = story(200, 0).judged();
        assert_eq!(in_time.verdict("2.some-lost@a"), Verdict::Diverged);
        let late = round(story(200, 0), "a", 200, 221, 0);
        let late = late.without(|what| matches!(what, What::LinkSeen { row, status, .. } if row == "a" && status.last_cut_ns == Some(202_000_000)));
        let late = late.judged();
        late.assert_incomplete("2.some-lost@a");
        assert!(
            late.claim("2.some-lost@a")
                .reason
                .as_ref()
                .unwrap()
                .contains("too late")
        );
    }

    #[test]
    fn a_hole_in_what_was_kept_diverged() {
        let judged = usual().ledger("a", 200, (0..107).chain([150])).judged();
        assert_eq!(judged.verdict("2.lost-are-the-last@a"), Verdict::Diverged);
    }

    #[test]
    fn a_ping_and_half_a_record_in_the_gap_are_accounted_for_and_two_records_are_not() {
        let gap = |beside| story(107, 93 * THREE_DIGITS + beside).judged();
        let claim = "2.lost-is-what-had-not-arrived@a";
        assert_eq!(gap(PING_BYTES).verdict(claim), Verdict::Holds);
        assert_eq!(gap(THREE_DIGITS / 2).verdict(claim), Verdict::Holds);
        assert_eq!(gap(3 * THREE_DIGITS).verdict(claim), Verdict::Diverged);
        assert_eq!(gap(-2 * THREE_DIGITS).verdict(claim), Verdict::Diverged);
    }

    #[test]
    fn a_replica_that_was_not_promoted_or_keys_of_before_decide_nothing() {
        let not_promoted = usual().fact("a", "far_is_primary_count", 0).judged();
        for name in ["some-lost", "lost-are-the-last", "lost-is-what-had-not-arrived"] {
            not_promoted.assert_incomplete(&format!("2.{name}@a"));
        }
        let stale = usual().fact("b", "keys_before_count", 3).judged();
        stale.assert_incomplete("2.none-lost@b");
    }

    #[test]
    fn without_a_cut_nothing_is_concluded() {
        let judged = usual().without(|what| matches!(what, What::LinkSeen { .. })).judged();
        judged.assert_incomplete("2.some-lost@a");
        judged.assert_incomplete("2.none-lost@b");
    }

    #[test]
    fn a_record_has_the_length_of_its_command() {
        let command = |i: u32| {
            format!(
                "*3\r\n$3\r\nSET\r\n${}\r\nlost:{i}\r\n$32\r\n{}\r\n",
                5 + i.to_string().len(),
                "v".repeat(32)
            )
        };
        let history = usual().history();
        let rows = Rows {
            history: &history,
            block: 2,
        };
        let round = Round::of(&rows, "a", "");
        for i in [0, 9, 10, 199] {
            assert_eq!(round.record_bytes(i), i64::try_from(command(i).len()).ok());
        }
    }
}
