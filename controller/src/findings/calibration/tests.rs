//! Made-up links: true ones, and every picture of a wrong one that the claims must tell apart.

use super::*;
use crate::claim::{Cause, Verdict};
use crate::findings::synthetic::Story;

/// What the one-way time of a direction is, in ns, where so much was asked of it.
type Link<'a> = &'a dyn Fn(Direction, u64) -> u64;

/// 60 us of the probes' own, and some microseconds of chance.
const OWN_NS: u64 = 60_000;

/// Echoes over a link like this, `n` at each step, in these ways.
fn story(ways: &[Way], link: Link<'_>, n: usize) -> Story {
    let mut story = Story::of(14).fact(RELAYS, EARLY, 20_000);
    for &way in ways {
        for step in GRID {
            story = echoes(story, way, step, link, n);
        }
    }
    let portions = i64::try_from(4 * GRID.len() * n).unwrap();
    story.fact(RELAYS, PORTIONS, portions)
}

fn echoes(story: Story, way: Way, step: [u64; 2], link: Link<'_>, n: usize) -> Story {
    let mut random = fastrand::Rng::with_seed(3);
    let mut chance = move || random.u64(..10_000);
    let (there, back) = match way.from_home {
        true => (Direction::Outward, Direction::Back),
        false => (Direction::Back, Direction::Outward),
    };
    let echo = |i: usize| {
        let started_ns = 1000 * MS * (i as u64 + 1);
        let far_ns = started_ns + OWN_NS + chance() + link(there, there.asked_ns(step));
        Sample {
            intended_ns: started_ns,
            started_ns,
            ended_ns: far_ns + OWN_NS + chance() + link(back, back.asked_ns(step)),
            outcome: i64::try_from(far_ns).unwrap(),
        }
    };
    story.samples(&row_of(way, step), ECHO, None, (0..n).map(echo).collect())
}

fn honest(_: Direction, asked_ns: u64) -> u64 {
    asked_ns
}

#[test]
fn a_true_link_holds_in_every_way_and_direction() {
    let judged = story(&WAYS, &honest, 24).judged();
    judged.assert_all_hold();
    assert_eq!(judged.findings.len(), 4 * (2 * (1 + 4) + 1) + 1);
    assert_eq!(judged.table.rows.len(), 8);
    assert_eq!(judged.table.columns[2..], ["0s", "1ms", "5ms", "20ms", "40ms"]);
    assert!(judged.table.rows[7][6].starts_with('+') || judged.table.rows[7][6].starts_with('-'));
}

#[test]
fn each_delay_comes_once_in_each_direction() {
    for direction in DIRECTIONS {
        for delay_ns in delays() {
            assert_eq!(direction.asked_ns(direction.step(delay_ns)), delay_ns);
        }
    }
}

#[test]
fn directions_that_are_mixed_up_diverged_though_the_round_trip_is_right() {
    let mixed_up = |direction: Direction, asked_ns: u64| {
        let step = direction.step(asked_ns);
        match direction {
            Direction::Outward => step[1],
            Direction::Back => step[0],
        }
    };
    let judged = story(&WAYS[0..=0], &mixed_up, 24).judged();
    assert_eq!(
        judged.verdict("14.grows-as-asked@packets-udp-outward"),
        Verdict::Diverged
    );
    assert_eq!(
        judged.verdict("14.delay-is-true@packets-udp-outward-1ms"),
        Verdict::Diverged
    );
    assert_eq!(judged.verdict("14.never-early@packets-udp"), Verdict::Diverged);
}

#[test]
fn three_hidden_milliseconds_in_one_direction_are_seen_there_only() {
    let hidden = |direction: Direction, asked_ns: u64| match (direction, asked_ns) {
        (Direction::Back, 1..) => asked_ns + 3 * MS,
        _ => asked_ns,
    };
    let judged = story(&WAYS[3..=3], &hidden, 24).judged();
    for delay in ["1ms", "5ms", "20ms", "40ms"] {
        let claim = |direction: &str| format!("14.delay-is-true@stream-far-{direction}-{delay}");
        assert_eq!(judged.verdict(&claim("back")), Verdict::Diverged);
        assert_eq!(judged.verdict(&claim("outward")), Verdict::Holds);
    }
}

#[test]
fn a_timer_of_whole_milliseconds_diverged_in_the_errors_and_not_in_the_slope() {
    let late = |_: Direction, asked_ns: u64| if asked_ns > 0 { asked_ns + 1_100_000 } else { 0 };
    let judged = story(&WAYS[1..=1], &late, 24).judged();
    assert_eq!(
        judged.verdict("14.delay-is-true@packets-tcp-back-1ms"),
        Verdict::Diverged
    );
    let long = |_: Direction, asked_ns: u64| asked_ns + asked_ns / 50;
    let judged = story(&WAYS[1..=1], &long, 24).judged();
    assert_eq!(judged.verdict("14.grows-as-asked@packets-tcp-back"), Verdict::Diverged);
}

#[test]
fn a_link_without_a_delay_diverged() {
    let judged = story(&WAYS[0..=0], &|_, _| 0, 24).judged();
    assert_eq!(judged.verdict("14.grows-as-asked@packets-udp-back"), Verdict::Diverged);
    assert_eq!(judged.verdict("14.never-early@packets-udp"), Verdict::Diverged);
}

#[test]
fn early_is_what_comes_before_the_deadline_and_the_relays_own_word() {
    let by = |early_ns: u64| {
        let early = move |_: Direction, asked_ns: u64| asked_ns.saturating_sub(OWN_NS + 10_000 + early_ns);
        story(&WAYS[2..=2], &early, 24).judged()
    };
    assert_eq!(by(10_000).verdict("14.never-early@stream-home"), Verdict::Holds);
    assert_eq!(by(40_000).verdict("14.never-early@stream-home"), Verdict::Diverged);
    let unknown = story(&WAYS[2..=2], &honest, 24)
        .without(|what| matches!(what, crate::history::What::Fact { name, .. } if name == EARLY));
    unknown.judged().assert_incomplete("14.never-early");
}

#[test]
fn a_busy_host_is_noise() {
    let turn = std::cell::Cell::new(0_u64);
    let held_up = |_: Direction, asked_ns: u64| {
        turn.set(turn.get() + 1);
        asked_ns + if turn.get().is_multiple_of(4) { 0 } else { 2 * MS }
    };
    let judged = story(&WAYS[0..=0], &held_up, 24).judged();
    for finding in &judged.findings {
        assert_ne!(finding.verdict, Verdict::Diverged, "{finding:?}");
    }
}

#[test]
fn few_echoes_decide_nothing_and_neither_do_two_clocks() {
    story(&WAYS[0..=0], &honest, 5)
        .judged()
        .assert_incomplete("14.delay-is-true");
    let mut other_clock = story(&WAYS[0..=0], &honest, 24);
    for step in GRID {
        let sample = Sample {
            intended_ns: 1000,
            started_ns: 1000,
            ended_ns: 2000,
            outcome: 7_000_000,
        };
        other_clock = other_clock.samples(&row_of(WAYS[0], step), ECHO, None, vec![sample; 24]);
    }
    let judged = other_clock.judged();
    let finding = judged.claim("14.delay-is-true@packets-udp-back-1ms");
    assert_eq!(finding.cause, Some(Cause::Incomplete));
    assert!(finding.reason.as_ref().unwrap().contains("by one clock"), "{finding:?}");
}

#[test]
fn streams_that_went_around_the_relays_sockets_diverged() {
    let judged = story(&WAYS, &honest, 24).fact(RELAYS, PORTIONS, 0).judged();
    assert_eq!(judged.verdict("14.streams-were-terminated"), Verdict::Diverged);
}
