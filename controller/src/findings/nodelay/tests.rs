//! Made-up relays: the record's, and those that another explanation would take for it.

use super::*;
use crate::claim::{Cause, Verdict};
use crate::findings::synthetic::{MS, Story};

/// What SET + WAIT takes beyond the round trip, in ms, for a row and a round trip in ms.
type Excess<'a> = &'a dyn Fn(&str, f64) -> f64;

fn story(excess: Excess<'_>) -> Story {
    let mut story = Story::of(11);
    for (row, delay_ns) in [KERNEL, ON, NEAR_LEG, FAR_LEG, OFF].map(|row| (row, 0)) {
        story = measured(story, row, delay_ns, excess);
    }
    for row in [ON, OFF] {
        for delay_ns in DISTANCES_NS {
            story = measured(story, row, delay_ns, excess);
        }
    }
    for (row, legs) in RELAYED.into_iter().zip([[1, 1], [0, 0], [1, 0], [0, 1]]) {
        for (leg, flag) in LEGS.into_iter().zip(legs) {
            story = story.fact(row, leg.asked, flag).fact(row, leg.read, flag);
        }
    }
    story
}

fn measured(story: Story, row: &str, delay_ns: u64, excess: Excess<'_>) -> Story {
    let delay_ms = delay_ns / MS;
    let trip = 2.0 * delay_ms as f64 + 0.1;
    let delay = Some(delay_ms);
    story
        .round_trips(delay_ms)
        .took(row, "set_wait", delay, trip + excess(row, trip), 20, 1)
        .took(row, "get", delay, trip + 0.1, 20, 0)
}

/// As the record explains it.
fn explained(row: &str, _: f64) -> f64 {
    match row {
        OFF | FAR_LEG => 43.6,
        KERNEL => 0.2,
        _ => 0.5,
    }
}

#[test]
fn the_records_explanation_holds() {
    let judged = story(&explained).judged();
    judged.assert_all_hold();
    assert_eq!(judged.findings.len(), 1 + 4 + 2 + 2 + 1 + 2 + 1);
    assert_eq!(judged.table.rows.len(), 5 + 3 + 3);
    let picture = &judged.notes[1];
    assert!(picture.contains("2.09") && picture.contains("1.54"), "{picture}");
}

#[test]
fn two_round_trips_in_place_of_a_constant_diverged() {
    let two = |row: &str, trip: f64| match row {
        OFF | FAR_LEG => trip + 0.4,
        _ => 0.4,
    };
    let judged = story(&two).judged();
    for claim in [
        "11.nodelay-off-pays@0s",
        "11.nodelay-off-pays@5ms",
        "11.excess-does-not-depend-on-distance",
        "11.ratio-falls@5ms-20ms",
        "11.ratio-falls@20ms-40ms",
        "11.near-leg-without-it-pays",
    ] {
        assert_eq!(judged.verdict(claim), Verdict::Diverged, "{claim}");
    }
    assert_eq!(
        judged.verdict("11.nodelay-off-pays@20ms"),
        Verdict::Holds,
        "at one distance it cannot be told from a constant"
    );
}

#[test]
fn a_relay_that_pays_with_the_option_on_diverged() {
    let judged = story(&|_, _| 42.0).judged();
    // Without a relay it is as slow: the relay is not the cause.
    assert_eq!(judged.verdict("11.relay-with-nodelay-costs-nothing"), Verdict::Holds);
    assert_eq!(judged.verdict("11.nodelay-off-pays@0s"), Verdict::Diverged);
    let judged = story(&|row, _| if row == KERNEL { 0.2 } else { 42.0 }).judged();
    assert_eq!(judged.verdict("11.relay-with-nodelay-costs-nothing"), Verdict::Diverged);
    assert_eq!(judged.verdict("11.far-leg-without-it-pays-nothing"), Verdict::Holds);
}

#[test]
fn the_wrong_leg_diverged() {
    let other = |row: &str, _: f64| if row == OFF || row == NEAR_LEG { 43.6 } else { 0.5 };
    let judged = story(&other).judged();
    assert_eq!(judged.verdict("11.near-leg-without-it-pays"), Verdict::Diverged);
    assert_eq!(judged.verdict("11.far-leg-without-it-pays-nothing"), Verdict::Diverged);
}

#[test]
fn a_get_that_pays_in_one_row_diverged() {
    let judged = story(&explained).took(FAR_LEG, "get", Some(0), 40.3, 20, 0).judged();
    assert_eq!(judged.verdict("11.get-pays-nothing"), Verdict::Diverged);
    assert_eq!(judged.verdict("11.get-pays-nothing-at-a-distance"), Verdict::Holds);
    let judged = story(&explained).took(OFF, "get", Some(40), 120.3, 20, 0).judged();
    assert_eq!(judged.verdict("11.get-pays-nothing-at-a-distance"), Verdict::Diverged);
}

#[test]
fn an_option_that_did_not_take_diverged_and_one_that_was_not_read_is_unknown() {
    let judged = story(&explained).fact(OFF, LEGS[0].read, 1).judged();
    assert_eq!(judged.verdict("11.options-are-as-asked"), Verdict::Diverged);
    let unread = story(&explained)
        .without(|what| matches!(what, crate::history::What::Fact { name, .. } if name == LEGS[1].read))
        .judged();
    unread.assert_incomplete("11.options-are-as-asked");
}

#[test]
fn a_missing_row_is_incomplete_and_a_busy_host_noise() {
    let judged = story(&explained).without_row("off, 20ms").judged();
    judged.assert_incomplete("11.nodelay-off-pays@20ms");
    judged.assert_incomplete("11.excess-does-not-depend-on-distance");
    let quick = (0..6).map(|i| crate::findings::synthetic::sample(i * 1000 * MS, MS / 2, 1));
    let held_up = (6..20).map(|i| crate::findings::synthetic::sample(i * 1000 * MS, 15 * MS, 1));
    let busy = story(&explained)
        .samples(ON, "set_wait", Some(0), quick.chain(held_up).collect())
        .judged();
    let finding = busy.claim("11.relay-with-nodelay-costs-nothing");
    assert_eq!(finding.cause, Some(Cause::Noise), "{finding:?}");
}
