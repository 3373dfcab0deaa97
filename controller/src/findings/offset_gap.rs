//! Block 9: loss follows the offset gap in bytes, and not the round trip. Every byte of the gap is accounted for: a lost
//! write, or something else that is named. Nothing is tolerated there, so nothing is explained away.

use super::Judged;
use super::row::{self, Rows, table};
use super::stream::{cut_of, digits, set_bytes};
use crate::claim::{Bound, Claim, Counted, Finding, exact, ratio, threshold};
use crate::history::{BlockNumber, History};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use wire::{StreamRecord, Written};

/// Rates of writing, the highest first: names of the rows.
pub const RATES: [&str; 3] = ["2000/s", "100/s", "2/s"];
/// The row with traffic that is no write.
pub const OTHER: &str = "2/s+other";
/// Key prefix of the writes.
pub const PREFIX: &str = "testbed:gap:";

/// One way, nanoseconds, in every row.
const DELAY_NS: u64 = 20_000_000;

const COLUMNS: [&str; 9] = [
    "asked",
    "writes/s",
    "round trip, ms",
    "cut after, ms",
    "acknowledged",
    "lost",
    "gap, bytes",
    "lost, bytes",
    "other, bytes",
];

/// What the columns hold.
const LEGEND: &str = "Cut after: from the last acknowledgement to the cut in the relay. Gap: the primary's offset after the cut less the one at \
     which the far replica was promoted. Lost, bytes: of the lost writes as they stand in the primary's stream. Other, bytes: of what else \
     stands in the gap.";

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
    let rates = RATES.map(|row| Round::of(rows, row));
    let other = Round::of(rows, OTHER);
    let all: Vec<&Round<'_>> = rates.iter().chain([&other]).collect();
    let mut judged = Judged {
        table: table(&COLUMNS, all.iter().map(|round| round.line()).collect()),
        notes: vec![LEGEND.to_owned()],
        ..Judged::default()
    };
    judged.notes.extend(all.iter().filter_map(|round| round.told()));
    let [fast, middle, slow] = &rates;
    judged.findings = vec![
        fast.some_lost(),
        middle.some_lost(),
        slow.none_lost(),
        other.none_lost(),
    ];
    for [more, less] in [[fast, middle], [middle, slow]] {
        judged.findings.push(follows_the_gap(more, less));
        judged.findings.push(same_round_trip(rows, more, less));
    }
    judged.findings.extend(all.iter().map(|round| round.gap_is_lost()));
    judged.findings.push(other.gap_without_loss());
    judged
}

/// What a replica that was promoted lacked of its primary's stream, bytes (`None`: not both offsets are known). Block 2 has the
/// same under another name.
#[must_use]
pub fn gap_bytes(history: &History, block: BlockNumber, row: &str) -> Option<i64> {
    let fact = |name: &str| history.fact(block, row, name).filter(|value| *value >= 0);
    let written = fact("primary_offset_at_cut_bytes")?;
    let applied = match block {
        2 => fact("far_offset_at_cut_bytes")?,
        _ => fact("far_offset_at_promotion_bytes")?,
    };
    Some(written.saturating_sub(applied).max(0))
}

/// Loss beside the gap, of one round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Its row.
    pub row: &'static str,
    /// What the replica lacked of the stream, bytes.
    pub gap_bytes: i64,
    /// Acknowledged writes that were not found afterwards.
    pub lost: usize,
}

/// Of every round of which both are known.
#[must_use]
pub fn losses(rows: &Rows<'_>) -> Vec<Loss> {
    let rounds = RATES.into_iter().chain([OTHER]).map(|row| Round::of(rows, row));
    let known = rounds.filter(|round| round.lack.is_none());
    known
        .filter_map(|round| {
            Some(Loss {
                row: round.row,
                gap_bytes: round.gap_bytes?,
                lost: round.lost.len(),
            })
        })
        .collect()
}

/// What a history holds of one round.
struct Round<'a> {
    row: &'static str,
    writes: &'a [Written],
    /// Acknowledged and not found afterwards.
    lost: BTreeSet<u32>,
    gap_bytes: Option<i64>,
    value_bytes: Option<i64>,
    /// From the last acknowledgement to the relay's cut of the outward link, nanoseconds.
    cut_after_ns: Option<i64>,
    round_trip_ns: Option<f64>,
    content: Option<Content>,
    /// Why nothing can be concluded, if so.
    lack: Option<String>,
}

/// What the primary had written and the replica had not applied.
#[derive(Default)]
struct Content {
    /// Writes of the ledger, and what they take.
    writes: BTreeMap<u32, i64>,
    /// Writes that stand there more than once.
    twice: Vec<u32>,
    /// Everything else by its name: how often, and bytes.
    other: BTreeMap<String, (u32, i64)>,
}

impl Content {
    fn of(records: &[StreamRecord]) -> Self {
        let mut content = Self::default();
        for record in records {
            let bytes = i64::try_from(record.bytes).unwrap_or(i64::MAX);
            if let Some(i) = number(record) {
                if content.writes.insert(i, bytes).is_some() {
                    content.twice.push(i);
                }
                continue;
            }
            let entry = content.other.entry(name(record)).or_default();
            *entry = (entry.0 + 1, entry.1.saturating_add(bytes));
        }
        content
    }

    fn other_bytes(&self) -> i64 {
        self.other.values().map(|(_, bytes)| bytes).sum()
    }

    /// `1 PING (14 bytes), 2 SELECT 0 (46 bytes)`.
    fn told(&self) -> String {
        let told = self
            .other
            .iter()
            .map(|(name, (times, bytes))| format!("{times} {name} ({bytes} bytes)"));
        told.collect::<Vec<_>>().join(", ")
    }
}

/// Number of the ledger's write that a record is.
fn number(record: &StreamRecord) -> Option<u32> {
    let [command, key] = record.words.as_slice() else {
        return None;
    };
    if command != "SET" {
        return None;
    }
    key.strip_prefix(PREFIX)?.parse().ok()
}

/// What a record is called beside the ledger's writes. An argument is told only of the stream's own commands.
fn name(record: &StreamRecord) -> String {
    match record.words.as_slice() {
        [] => "part of a record".to_owned(),
        [command, argument] if ["SELECT", "REPLCONF"].contains(&command.as_str()) => format!("{command} {argument}"),
        [command, ..] => command.clone(),
    }
}

impl<'a> Round<'a> {
    fn of(rows: &Rows<'a>, row: &'static str) -> Self {
        let (writes, present) = rows.history.ledger(rows.block, row).unwrap_or((&[], &[]));
        let acknowledged = writes.iter().filter(|write| write.acknowledged_ns.is_some());
        let lost = acknowledged.map(|write| write.i).filter(|i| !present.contains(i));
        let fact = |name: &str| rows.fact(row, name).filter(|value| *value >= 0);
        let last = writes.iter().filter_map(|write| write.acknowledged_ns).max();
        let cut = cut_of(rows, row).and_then(|link| link.last_cut_ns);
        let mut round = Self {
            row,
            writes,
            lost: lost.collect(),
            gap_bytes: gap_bytes(rows.history, rows.block, row),
            value_bytes: fact("value_bytes"),
            cut_after_ns: cut
                .zip(last)
                .and_then(|(cut, last)| Some(i64::try_from(cut).ok()? - i64::try_from(last).ok()?)),
            round_trip_ns: rows.round_trips_of(row, DELAY_NS).median(),
            content: rows
                .history
                .lacked(rows.block, row)
                .map(|(_, records)| Content::of(records)),
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
        let open = self.writes.iter().filter(|write| write.acknowledged_ns.is_none());
        match open.count() {
            0 => {}
            count => return Some(format!("{count} writes were not acknowledged")),
        }
        if rows.fact(self.row, "keys_before_count") != Some(0) {
            return Some("keys of the ledger were there before it was written".to_owned());
        }
        if rows.fact(self.row, "far_is_primary_count") != Some(1) {
            return Some("the far replica was not promoted".to_owned());
        }
        self.cut_after_ns
            .is_none()
            .then(|| "the relay tells of no cut".to_owned())
    }

    fn claim(&self, name: &str, text: &str) -> Claim {
        Claim::new(format!("9.{name}@{}", self.row), format!("at {}: {text}", self.row))
    }

    fn lost_count(&self) -> Counted {
        let lost = i64::try_from(self.lost.len()).ok();
        Counted::new(format!("lost writes of \"{}\"", self.row), lost)
    }

    /// The record is its own unit: what is lost is counted, and a cut that came too late to lose anything decides nothing.
    fn some_lost(&self) -> Finding {
        let claim = self.claim("some-lost", "some acknowledged writes are lost");
        if let Some(lack) = &self.lack {
            return claim.incomplete("nothing", lack);
        }
        let flight_ns = self.round_trip_ns.unwrap_or_default() / 2.0;
        let after_ns = self.cut_after_ns.unwrap_or_default() as f64;
        if self.lost.is_empty() && after_ns > flight_ns {
            let (after, flight) = (row::ms(after_ns), row::ms(flight_ns));
            return claim.noisy(
                "0, bound at least 1",
                format!("the cut came {after} ms after the last acknowledgement, later than a flight of {flight} ms"),
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

    /// Record by record: the gap holds each lost write once and no other write of the ledger, and its bytes are those of
    /// these and of what is named beside them.
    fn gap_is_lost(&self) -> Finding {
        let claim = self.claim(
            "gap-is-the-lost-writes",
            "every byte of the gap is one of a lost write, each in it once, or of a record that is named",
        );
        if let Some(lack) = &self.lack {
            return claim.incomplete("nothing", lack);
        }
        let (Some(gap), Some(content), Some(_)) = (self.gap_bytes, &self.content, self.value_bytes) else {
            return claim.incomplete("nothing", "offsets, sizes or the records between were not recorded");
        };
        let (lost, other) = (content.writes.values().sum::<i64>(), content.other_bytes());
        let mut measured = format!(
            "gap {gap} = {} lost writes of {lost} + other {other} bytes",
            self.lost.len()
        );
        if !content.other.is_empty() {
            measured = format!("{measured}: {}", content.told());
        }
        match self.mismatch(gap, content) {
            None => claim.holds(measured),
            Some(reason) => claim.diverged(measured, reason),
        }
    }

    /// What does not add up.
    fn mismatch(&self, gap: i64, content: &Content) -> Option<String> {
        let in_gap: BTreeSet<u32> = content.writes.keys().copied().collect();
        let list = |numbers: Vec<&u32>| {
            let shown: Vec<String> = numbers.iter().take(5).map(ToString::to_string).collect();
            format!("{} ({}...)", numbers.len(), shown.join(", "))
        };
        let elsewhere: Vec<&u32> = self.lost.difference(&in_gap).collect();
        if !elsewhere.is_empty() {
            return Some(format!("lost writes that are not in the gap: {}", list(elsewhere)));
        }
        let kept: Vec<&u32> = in_gap.difference(&self.lost).collect();
        if !kept.is_empty() {
            return Some(format!("writes in the gap that were not lost: {}", list(kept)));
        }
        if !content.twice.is_empty() {
            return Some(format!(
                "writes that are in the gap more than once: {}",
                list(content.twice.iter().collect())
            ));
        }
        // The length of each is known beforehand too: the stream must not be read at a wrong place.
        let odd: Vec<&u32> = content
            .writes
            .iter()
            .filter(|(i, bytes)| self.set_bytes(**i) != Some(**bytes))
            .map(|(i, _)| i)
            .collect();
        if !odd.is_empty() {
            return Some(format!(
                "writes in the gap of another length than they were sent with: {}",
                list(odd)
            ));
        }
        if let Some((_, bytes)) = content.other.get("part of a record") {
            return Some(format!("{bytes} bytes of the gap are no whole record"));
        }
        let beside = gap - content.writes.values().sum::<i64>() - content.other_bytes();
        (beside != 0).then(|| format!("{beside} bytes of the gap are of no record"))
    }

    fn set_bytes(&self, i: u32) -> Option<i64> {
        let key = i64::try_from(PREFIX.len()).ok()? + digits(i.into());
        Some(set_bytes(key, self.value_bytes?))
    }

    /// Bytes are a bound: with traffic that is no write there is a gap and no loss.
    fn gap_without_loss(&self) -> Finding {
        let claim = self.claim("gap-without-loss", "there is a gap of bytes that are no write");
        if let Some(lack) = &self.lack {
            return claim.incomplete("nothing", lack);
        }
        let Some(content) = &self.content else {
            return claim.incomplete("nothing", "the records of the gap were not recorded");
        };
        if content.other.is_empty() {
            return claim.incomplete("0 bytes", "what was put into the stream had arrived before the cut");
        }
        let other = Counted::new("bytes of the gap that are no write", Some(content.other_bytes()));
        threshold::judge_at_least(claim, &other, 1)
    }

    /// Writes per second, as they were acknowledged.
    fn rate(&self) -> Option<f64> {
        let times = self.writes.iter().filter_map(|write| write.acknowledged_ns);
        let (first, last) = (times.clone().min()?, times.clone().max()?);
        let intervals = times.count().checked_sub(1)?;
        (last > first).then(|| intervals as f64 * 1e9 / (last - first) as f64)
    }

    /// What else was in the gap, for people.
    fn told(&self) -> Option<String> {
        let content = self.content.as_ref().filter(|content| !content.other.is_empty())?;
        Some(format!("{}: in the gap was also {}.", self.row, content.told()))
    }

    fn line(&self) -> Vec<String> {
        let dash = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), row::ms);
        let content = self.content.as_ref();
        let acknowledged = self
            .writes
            .iter()
            .filter(|write| write.acknowledged_ns.is_some())
            .count();
        vec![
            self.row.to_owned(),
            self.rate().map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}")),
            time(self.round_trip_ns),
            time(self.cut_after_ns.map(|ns| ns as f64)),
            acknowledged.to_string(),
            self.lost.len().to_string(),
            dash(self.gap_bytes),
            dash(content.map(|content| content.writes.values().sum())),
            dash(content.map(Content::other_bytes)),
        ]
    }
}

/// More bytes in the gap, more writes lost.
fn follows_the_gap(more: &Round<'_>, less: &Round<'_>) -> Finding {
    let claim = Claim::new(
        format!("9.loss-follows-the-gap@{}-{}", more.row, less.row),
        format!(
            "{} against {}: where the gap is larger, more is lost",
            more.row, less.row
        ),
    );
    if let Some(lack) = more.lack.as_ref().or(less.lack.as_ref()) {
        return claim.incomplete("nothing", lack);
    }
    let (Some(larger), Some(smaller)) = (more.gap_bytes, less.gap_bytes) else {
        return claim.incomplete("nothing", "offsets were not recorded");
    };
    let (many, few) = (more.lost.len(), less.lost.len());
    let measured = format!("gaps {larger} and {smaller} bytes, lost {many} and {few}");
    // A late cut leaves the faster rate as little in flight as the slower: that is the host, and decides nothing.
    match many.cmp(&few) {
        Ordering::Equal => claim.noisy(measured, "as many writes were in flight at one cut as at the other"),
        order if order == larger.cmp(&smaller) => claim.holds(measured),
        _ => claim.diverged(measured, "the larger gap does not come with the larger loss"),
    }
}

/// The round trip is the same, whatever is lost.
fn same_round_trip(rows: &Rows<'_>, one: &Round<'_>, other: &Round<'_>) -> Finding {
    let claim = Claim::new(
        format!("9.same-round-trip@{}-{}", one.row, other.row),
        format!(
            "{} against {}: the round trip of the link is the same",
            one.row, other.row
        ),
    );
    let [one, other] = [one, other].map(|round| rows.round_trips_of(round.row, DELAY_NS));
    ratio::judge(claim, &one, &other, &Bound::between(0.9, 1.1, ""), rows.seed())
}

#[cfg(test)]
mod tests;
