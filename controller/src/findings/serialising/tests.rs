//! Made-up links: as they are defined, and mixed up in every way that a claim must see.

use super::*;
use crate::claim::Verdict;
use crate::findings::synthetic::Story;

/// Flights of k messages and of SET + WAIT, and what comes on top in ms, for a row and a delay in ms.
type Link<'a> = &'a dyn Fn(&str, &str, f64) -> f64;

fn story(time_ms: Link<'_>) -> Story {
    let mut story = Story::of(13);
    for delay_ns in DELAYS_NS {
        let delay_ms = delay_ns / MS;
        story = story.round_trips(delay_ms);
        for row in [WIRE, SERIAL, WIRE_OFF, SERIAL_OFF] {
            for what in MESSAGES.map(messages).into_iter().chain(["set_wait"]) {
                let ms = time_ms(row, what, delay_ms as f64) + 0.3;
                story = story.took(row, what, Some(delay_ms), ms, 20, 1);
            }
        }
    }
    story
}

/// Messages that a kind of operation sends in a row.
fn in_a_row(what: &str) -> f64 {
    match what {
        "messages_1" => 1.0,
        "messages_4" => 4.0,
        _ => 2.0,
    }
}

/// What the definition of the links gives.
fn defined(row: &str, what: &str, delay_ms: f64) -> f64 {
    let k = in_a_row(what);
    let spacing = if what == "set_wait" { 0.1 } else { 0.3 * (k - 1.0) };
    match row {
        WIRE => 2.0 * delay_ms + spacing,
        SERIAL => (k + 1.0) * delay_ms,
        _ if k == 1.0 => 2.0 * delay_ms,
        _ => 2.0 * delay_ms + 41.0,
    }
}

#[test]
fn what_the_links_are_defined_to_do_holds() {
    let judged = story(&defined).judged();
    judged.assert_all_hold();
    assert_eq!(judged.findings.len(), 2 * 2 + 1 + 2 + 1);
    assert_eq!(judged.table.rows.len(), 8);
    assert_eq!(judged.table.rows[5][..3], ["serialising", "on", "20ms"]);
    assert!(judged.table.rows[5][5].starts_with("5.0"), "{:?}", judged.table.rows[5]);
}

#[test]
fn a_serialising_link_that_is_pipelined_diverged() {
    let pipelined =
        |row: &str, what: &str, delay_ms: f64| defined(if row == SERIAL { WIRE } else { row }, what, delay_ms);
    let judged = story(&pipelined).judged();
    for claim in [
        "13.serialising-costs-2-messages",
        "13.serialising-costs-4-messages",
        "13.serialising-costs-wait-a-flight",
    ] {
        assert_eq!(judged.verdict(claim), Verdict::Diverged, "{claim}");
    }
}

#[test]
fn a_pipelined_link_that_is_serialising_diverged() {
    let serialising =
        |row: &str, what: &str, delay_ms: f64| defined(if row == WIRE { SERIAL } else { row }, what, delay_ms);
    let judged = story(&serialising).judged();
    for claim in [
        "13.pipelined-costs-2-messages",
        "13.pipelined-costs-4-messages",
        "13.serialising-costs-wait-a-flight",
    ] {
        assert_eq!(judged.verdict(claim), Verdict::Diverged, "{claim}");
    }
}

#[test]
fn one_that_waits_on_the_way_back_too_diverged() {
    let both_ways = |row: &str, what: &str, delay_ms: f64| match row {
        SERIAL => 2.0 * in_a_row(what) * delay_ms,
        _ => defined(row, what, delay_ms),
    };
    let judged = story(&both_ways).judged();
    assert_eq!(judged.verdict("13.serialising-costs-2-messages"), Verdict::Diverged);
}

#[test]
fn a_flight_that_shows_with_the_option_off_and_an_option_without_effect_diverged() {
    let shows = |row: &str, what: &str, delay_ms: f64| match row {
        SERIAL_OFF => defined(row, what, delay_ms) + delay_ms,
        WIRE_OFF => defined(WIRE, what, delay_ms),
        _ => defined(row, what, delay_ms),
    };
    let judged = story(&shows).judged();
    assert_eq!(
        judged.verdict("13.nodelay-off-hides-the-flight@20ms"),
        Verdict::Diverged
    );
    assert_eq!(judged.verdict("13.nodelay-off-dominates@5ms"), Verdict::Diverged);
}

#[test]
fn a_missing_row_is_incomplete() {
    let judged = story(&defined).without_row("serialising, on, 20ms").judged();
    judged.assert_incomplete("13.serialising-costs-2-messages");
    judged.assert_incomplete("13.serialising-costs-wait-a-flight");
    assert_eq!(judged.table.rows[5][3], "-");
}
