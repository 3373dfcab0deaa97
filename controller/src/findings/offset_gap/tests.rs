//! Stories of a cut at several rates, made up, and what is found in them.

use super::*;
use crate::claim::{Cause, Verdict};
use crate::findings::synthetic::Story;
use crate::history::What;

const VALUE: i64 = 32;
const OFFSET: i64 = 50_000;

fn record(bytes: i64, words: &[&str]) -> StreamRecord {
    StreamRecord {
        bytes: bytes.try_into().unwrap(),
        words: words.iter().map(|&word| word.to_owned()).collect(),
    }
}

fn write(i: u32) -> StreamRecord {
    let key = format!("{PREFIX}{i}");
    let command = format!(
        "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$32\r\n{}\r\n",
        key.len(),
        "v".repeat(32)
    );
    record(command.len().try_into().unwrap(), &["SET", &key])
}

/// A round of so many writes of which the first `kept` arrived, and a gap of these records.
fn round(story: Story, row: &str, writes: u32, kept: u32, gap: Vec<StreamRecord>) -> Story {
    let bytes: u64 = gap.iter().map(|record| record.bytes).sum();
    story
        .took(row, "rtt", Some(20), 40.1, 30, 0)
        .fact(row, "keys_before_count", 0)
        .fact(row, "value_bytes", VALUE)
        .fact(row, "far_is_primary_count", 1)
        .fact(
            row,
            "primary_offset_at_cut_bytes",
            OFFSET + i64::try_from(bytes).unwrap(),
        )
        .fact(row, "far_offset_at_promotion_bytes", OFFSET)
        .cut(row, u64::from(writes) + 3)
        .event(What::Lacked {
            block: 9,
            row: row.to_owned(),
            first_byte: 1,
            records: gap,
        })
        .ledger(row, writes, 0..kept)
}

fn others() -> Vec<StreamRecord> {
    vec![
        record(23, &["SELECT", "1"]),
        record(60, &["PUBLISH", PREFIX]),
        record(37, &["REPLCONF", "GETACK"]),
    ]
}

fn usual() -> Story {
    let story = round(Story::of(9), RATES[0], 150, 110, (110..150).map(write).collect());
    let story = round(story, RATES[1], 60, 58, (58..60).map(write).collect());
    let story = round(story, RATES[2], 4, 4, Vec::new());
    round(story, OTHER, 2, 2, others())
}

fn claim_of(row: &str) -> String {
    format!("9.gap-is-the-lost-writes@{row}")
}

#[test]
fn three_rates_and_a_gap_of_other_traffic_hold() {
    let judged = usual().judged();
    judged.assert_all_hold();
    assert_eq!(judged.findings.len(), 13);
    assert_eq!(
        judged.table.rows[0][4..],
        ["150", "40", "2960", "2960", "0"].map(str::to_owned)
    );
    assert_eq!(judged.table.rows[3][5..], ["0", "120", "0", "120"].map(str::to_owned));
    let note = &judged.notes[1];
    assert!(
        note.contains("1 PUBLISH (60 bytes), 1 REPLCONF GETACK (37 bytes), 1 SELECT 1 (23 bytes)"),
        "{note}"
    );
}

#[test]
fn a_ping_among_the_lost_writes_is_named_and_holds() {
    let mut gap: Vec<_> = (58..60).map(write).collect();
    gap.insert(1, record(14, &["PING"]));
    let judged = round(usual(), RATES[1], 60, 58, gap).judged();
    let finding = judged.claim(&claim_of(RATES[1]));
    assert_eq!(finding.verdict, Verdict::Holds);
    assert!(
        finding.measured.ends_with("other 14 bytes: 1 PING (14 bytes)"),
        "{}",
        finding.measured
    );
}

#[test]
fn a_gap_that_is_not_exactly_the_lost_writes_diverged() {
    let all = || (58..60).map(write).collect::<Vec<_>>();
    let mut longer = all();
    longer[0].bytes += 1;
    let mut twice = all();
    twice.push(write(59));
    let mut torn = all();
    torn.push(record(9, &[]));
    let cases = [
        (vec![write(59)], "lost writes that are not in the gap: 1 (58...)"),
        (
            (57..60).map(write).collect(),
            "writes in the gap that were not lost: 1 (57...)",
        ),
        (longer, "of another length"),
        (twice, "more than once: 1 (59...)"),
        (torn, "9 bytes of the gap are no whole record"),
    ];
    for (gap, reason) in cases {
        let judged = round(usual(), RATES[1], 60, 58, gap).judged();
        let finding = judged.claim(&claim_of(RATES[1]));
        assert_eq!(finding.verdict, Verdict::Diverged);
        assert!(finding.reason.as_ref().unwrap().contains(reason), "{finding:?}");
    }
}

#[test]
fn one_byte_between_the_offsets_that_is_of_no_record_diverged() {
    let judged = usual()
        .fact(RATES[0], "far_offset_at_promotion_bytes", OFFSET - 1)
        .judged();
    assert_eq!(judged.verdict(&claim_of(RATES[0])), Verdict::Diverged);
    let judged = usual()
        .fact(RATES[2], "primary_offset_at_cut_bytes", OFFSET + 14)
        .judged();
    assert_eq!(judged.verdict(&claim_of(RATES[2])), Verdict::Diverged);
}

#[test]
fn a_slow_rate_that_loses_and_a_fast_one_that_does_not_diverged() {
    let slow = round(usual(), RATES[2], 4, 3, vec![write(3)]).judged();
    assert_eq!(slow.verdict("9.none-lost@2/s"), Verdict::Diverged);
    assert_eq!(
        slow.verdict(&claim_of(RATES[2])),
        Verdict::Holds,
        "it is accounted for all the same"
    );
    let fast = round(usual(), RATES[0], 150, 150, Vec::new()).judged();
    assert_eq!(fast.verdict("9.some-lost@2000/s"), Verdict::Diverged);
}

#[test]
fn a_larger_gap_with_a_smaller_loss_diverged_and_as_much_lost_decides_nothing() {
    let claim = "9.loss-follows-the-gap@2000/s-100/s";
    let other = usual()
        .fact(RATES[1], "far_offset_at_promotion_bytes", OFFSET - 9000)
        .judged();
    assert_eq!(other.verdict(claim), Verdict::Diverged);
    let alike = round(usual(), RATES[0], 150, 148, (148..150).map(write).collect()).judged();
    assert_eq!(alike.claim(claim).cause, Some(Cause::Noise));
    let fewer = round(usual(), RATES[0], 150, 149, vec![write(149)]).judged();
    assert_eq!(fewer.verdict(claim), Verdict::Holds, "whichever rate it is");
}

#[test]
fn another_round_trip_diverged() {
    let judged = usual()
        .without_row("100/s, 20ms")
        .took(RATES[1], "rtt", Some(20), 60.0, 30, 0)
        .judged();
    for pair in ["2000/s-100/s", "100/s-2/s"] {
        assert_eq!(judged.verdict(&format!("9.same-round-trip@{pair}")), Verdict::Diverged);
    }
}

#[test]
fn what_is_missing_decides_nothing() {
    let unread = usual().without(|what| matches!(what, What::Lacked { .. })).judged();
    unread.assert_incomplete("9.gap-is-the-lost-writes");
    unread.assert_incomplete("9.gap-without-loss");
    let uncut = usual().without(|what| matches!(what, What::LinkSeen { .. })).judged();
    uncut.assert_incomplete("9.some-lost");
    uncut.assert_incomplete("9.loss-follows-the-gap");
    let stale = usual().fact(RATES[2], "keys_before_count", 1).judged();
    assert_eq!(stale.claim("9.none-lost@2/s").cause, Some(Cause::Incomplete));
    let arrived = round(usual(), OTHER, 2, 2, Vec::new()).judged();
    arrived.assert_incomplete("9.gap-without-loss");
    let late = round(usual(), RATES[1], 60, 60, Vec::new());
    let late = late.without(|what| matches!(what, What::LinkSeen { row, .. } if row == RATES[1]));
    let late = late.cut(RATES[1], 90).judged();
    assert_eq!(late.claim("9.some-lost@100/s").cause, Some(Cause::Noise));
}
