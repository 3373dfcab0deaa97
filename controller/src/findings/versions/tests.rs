//! Tests of the comparison of releases, on made-up cells.

use super::*;
use crate::findings::judge;
use crate::findings::synthetic::Story;
use crate::history::{Event, What};
use crate::manifest::{Host, Instrument, LabUsed, ServerUsed};
use std::collections::BTreeMap;

/// Block 10 as it holds, with SET + WAIT at so many times its usual price beyond the round trip, in ms.
fn story(beyond: f64) -> History {
    let mut story = Story::of(10);
    for delay_ms in [5, 20, 40] {
        let delay = Some(delay_ms);
        story = story
            .round_trips(delay_ms)
            .took("far only", "set", delay, 0.15, 40, 0)
            .took(
                "far only",
                "set_wait",
                delay,
                2.0 * delay_ms as f64 + 0.1 + beyond,
                40,
                1,
            );
    }
    story.history()
}

fn manifest(release: &str, settings: &[(&str, &str)]) -> Manifest {
    let configuration = settings
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let server = ServerUsed {
        node: "redis-primary".to_owned(),
        datacenter: "dc1".to_owned(),
        engine: "redis".to_owned(),
        release: release.to_owned(),
        version: Some("7".to_owned()),
        image: String::new(),
        configuration: configuration.collect(),
        configuration_error: None,
    };
    Manifest {
        run: "r".to_owned(),
        name: "two-dc".to_owned(),
        instrument: Instrument::default(),
        command_line: Vec::new(),
        seed: 1,
        started_utc: String::new(),
        ended_utc: None,
        host: Host::default(),
        engine: None,
        labs: vec![LabUsed {
            lab: "l".to_owned(),
            topology: "two-dc".to_owned(),
            topology_sha256: String::new(),
            plan_file: String::new(),
            topology_file: None,
            images: BTreeMap::new(),
            servers: vec![server],
        }],
    }
}

fn cell(release: &str, repeat: u32, history: History) -> Measured {
    with_settings(release, repeat, history, &[])
}

fn with_settings(release: &str, repeat: u32, history: History, settings: &[(&str, &str)]) -> Measured {
    Measured {
        release: release.to_owned(),
        topology: "two-dc".to_owned(),
        blocks: vec![10],
        repeat,
        outcome: Ok(Box::new(Read {
            findings: judge(&history),
            history,
            manifest: manifest(release, settings),
            plans: BTreeMap::new(),
        })),
    }
}

fn missing(release: &str, repeat: u32) -> Measured {
    Measured {
        outcome: Err("raise the lab".to_owned()),
        ..cell(release, repeat, History::default())
    }
}

fn compared(cells: &[Measured]) -> Versions {
    compare(&["a".to_owned(), "b".to_owned()], cells, 1)
}

fn row<'a>(versions: &'a Versions, claim: &str) -> &'a ClaimRow {
    let found = versions.claims.iter().find(|row| row.claim == claim);
    found.unwrap_or_else(|| panic!("no {claim} in {:#?}", versions.claims))
}

const RATIO: &str = "10.wait-costs-one-round-trip@20ms";

#[test]
fn the_same_claims_hold_on_both_and_nothing_moved() {
    let versions = compared(&[cell("a", 1, story(0.5)), cell("b", 1, story(0.5))]);
    assert_eq!(versions.verdict, Some(Verdict::Holds));
    assert_eq!(versions.moved, []);
    assert_eq!(
        row(&versions, RATIO).tried[1].counts,
        Counts {
            held: 1,
            ..Counts::default()
        }
    );
    assert_eq!(versions.releases[0].versions, ["redis 7"]);
    assert_eq!(versions.incomplete, []);
}

#[test]
fn a_planted_round_trip_moves_the_claim_and_says_where_and_what() {
    let versions = compared(&[cell("a", 1, story(0.5)), cell("b", 1, story(40.0))]);
    assert_eq!(versions.verdict, Some(Verdict::Diverged));
    let moved = versions.moved.iter().find(|moved| moved.claim == RATIO).unwrap();
    assert_eq!((moved.from, moved.to), (Standing::Holds, Standing::Diverged));
    assert_eq!(moved.release, "b");
    assert!(moved.measured.as_ref().unwrap().contains("round trips"));
}

#[test]
fn repeats_are_combined_by_the_worst_and_all_are_counted() {
    let versions = compared(&[
        cell("a", 1, story(0.5)),
        cell("b", 1, story(0.5)),
        cell("a", 2, story(0.5)),
        cell("b", 2, story(40.0)),
        cell("a", 3, story(0.5)),
        missing("b", 3),
    ]);
    let tried = &row(&versions, RATIO).tried;
    assert_eq!((tried[0].standing, tried[0].counts.held), (Standing::Holds, 3));
    assert_eq!(tried[1].standing, Standing::Diverged);
    let counts = Counts {
        held: 1,
        diverged: 1,
        inconclusive: 1,
    };
    assert_eq!((tried[1].counts, tried[1].counts.all()), (counts, 3));
    assert_eq!(versions.incomplete.len(), 1);
    assert_eq!((versions.releases[1].completed, versions.releases[1].cells), (2, 3));
}

#[test]
fn a_cell_that_failed_is_inconclusive_and_never_held() {
    let versions = compared(&[cell("a", 1, story(0.5)), missing("b", 1)]);
    for row in &versions.claims {
        assert_eq!(row.tried[1].standing, Standing::Inconclusive, "{row:?}");
        assert_eq!(row.tried[1].reason.as_deref(), Some("raise the lab"));
    }
    assert_eq!(versions.verdict, Some(Verdict::Inconclusive));
}

#[test]
fn what_a_release_cannot_have_is_not_applicable_and_no_verdict() {
    let skipped = [
        What::BlockSkipped {
            block: 10,
            reason: "the server has no WAITAOF".to_owned(),
        },
        What::RunEnded { error: None },
    ];
    let events = skipped.into_iter().map(|what| Event { at_ns: 0, what }).collect();
    let versions = compared(&[cell("a", 1, History { events }), cell("b", 1, story(0.5))]);
    let tried = &row(&versions, RATIO).tried[0];
    assert_eq!(tried.standing, Standing::NotApplicable);
    assert_eq!(tried.reason.as_deref(), Some("the server has no WAITAOF"));
    assert_eq!(versions.verdict, Some(Verdict::Holds));
    assert_eq!(versions.incomplete, []);
}

#[test]
fn a_claim_that_a_complete_block_does_not_make_is_not_applicable_and_a_broken_block_is_inconclusive() {
    let mut fewer = cell("b", 1, story(0.5));
    let read = fewer.outcome.as_mut().unwrap();
    read.findings.blocks[0]
        .findings
        .retain(|finding| finding.claim != RATIO);
    let mut broken = fewer.clone();
    broken.outcome.as_mut().unwrap().findings.blocks[0].error = Some("ask the probe".to_owned());
    for (cell_of_b, standing) in [(fewer, Standing::NotApplicable), (broken, Standing::Inconclusive)] {
        let versions = compared(&[cell("a", 1, story(0.5)), cell_of_b]);
        assert_eq!(row(&versions, RATIO).tried[1].standing, standing);
    }
}

fn number<'a>(versions: &'a Versions, name: &str) -> &'a Number {
    let found = versions.numbers.iter().find(|number| number.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:#?}", versions.numbers))
}

const WAIT: &str = "set_wait of \"far only, 20ms\"";

/// Rounds in which each lab has a level of its own, `b` slower by so many ms.
fn rounds(n: u32, slower: f64) -> Vec<Measured> {
    let levels = [0.5, 0.7, 0.55, 0.6, 0.45, 0.65];
    let level = |i: u32| levels[i as usize % levels.len()];
    (1..=n)
        .flat_map(|repeat| {
            [
                cell("a", repeat, story(level(repeat))),
                cell("b", repeat, story(level(repeat + 2) + slower)),
            ]
        })
        .collect()
}

#[test]
fn labs_that_differ_are_no_move_and_a_planted_one_is() {
    let same = compared(&rounds(4, 0.0));
    assert_eq!(number(&same, WAIT).moves[0].moved, Moved::WithinNoise);
    let slower = compared(&rounds(7, 5.0));
    let moved = &number(&slower, WAIT).moves[0];
    assert_eq!((moved.moved, moved.rounds), (Moved::BeyondNoise, 7));
    assert!(moved.low > 1.1 && moved.ratio < 1.15, "{moved:?}");
    let trip = number(&slower, "rtt of \"link, 20ms\"");
    assert!(trip.control && trip.moves[0].moved == Moved::WithinNoise, "{trip:?}");
    assert_eq!(slower.test.rounds, 7);
}

#[test]
fn with_few_rounds_a_planted_move_lies_apart_and_is_not_called_more() {
    let versions = compared(&rounds(2, 5.0));
    assert_eq!(number(&versions, WAIT).moves[0].moved, Moved::Apart);
    assert_eq!(
        number(&versions, "set of \"far only, 20ms\"").moves[0].moved,
        Moved::WithinNoise
    );
}

#[test]
fn with_one_lab_each_samples_may_differ_and_nothing_is_beyond_noise() {
    let versions = compared(&rounds(1, 5.0));
    assert_eq!(number(&versions, WAIT).moves[0].moved, Moved::SamplesDiffer);
    assert!(
        versions
            .numbers
            .iter()
            .flat_map(|number| &number.moves)
            .all(|moved| moved.moved != Moved::BeyondNoise)
    );
}

#[test]
fn settings_that_differ_are_found_and_addresses_are_none() {
    let versions = compared(&[
        with_settings(
            "a",
            1,
            story(0.5),
            &[
                ("repl-backlog-size", "1048576"),
                ("replicaof", "198.18.0.2 6379"),
                ("io-threads", "1"),
            ],
        ),
        with_settings(
            "b",
            1,
            story(0.5),
            &[
                ("repl-backlog-size", "1024"),
                ("replicaof", "198.18.9.2 6379"),
                ("hash-x", ""),
            ],
        ),
    ]);
    let told: Vec<(&str, Vec<Vec<String>>)> = versions
        .settings
        .iter()
        .map(|setting| (setting.name.as_str(), setting.values.clone()))
        .collect();
    let one = |value: &str| vec![value.to_owned()];
    assert_eq!(
        told,
        [
            ("hash-x", vec![vec![], one("")]),
            ("io-threads", vec![one("1"), vec![]]),
            ("repl-backlog-size", vec![one("1048576"), one("1024")]),
        ]
    );
}

#[test]
fn changed_defaults_come_first_and_the_rest_by_who_has_it() {
    let releases = ["a", "b", "c", "d"].map(str::to_owned);
    let of = |release: &str, settings: &[(&str, &str)]| with_settings(release, 1, story(0.5), settings);
    let versions = compare(
        &releases,
        &[
            of("a", &[("same", "1"), ("changed", "1"), ("old", "x"), ("gone", "x")]),
            of(
                "b",
                &[
                    ("same", "1"),
                    ("changed", "2"),
                    ("old", "x"),
                    ("new", "1"),
                    ("newer", "7"),
                ],
            ),
            of("c", &[("same", "1"), ("changed", "2"), ("new", "1"), ("newer", "8")]),
            missing("d", 1),
        ],
        1,
    );
    let sorted = versions.sorted_settings();
    let names =
        |settings: &[&Setting]| -> Vec<String> { settings.iter().map(|setting| setting.name.clone()).collect() };
    // Two of the three that are known have `newer`, with other values.
    assert_eq!(names(&sorted.changed), ["changed", "newer"]);
    let partial: Vec<(String, Vec<String>)> = sorted
        .partial
        .iter()
        .map(|partial| (partial.title(), names(&partial.settings)))
        .collect();
    let told = |title: &str, name: &str| (title.to_owned(), vec![name.to_owned()]);
    assert_eq!(
        partial,
        [
            told("only on a: 1", "gone"),
            told("not on a: 1", "new"),
            told("not on c: 1", "old"),
        ]
    );
}

#[test]
fn a_release_of_which_nothing_is_known_differs_in_no_setting() {
    let versions = compared(&[with_settings("a", 1, story(0.5), &[("x", "1")]), missing("b", 1)]);
    assert_eq!(versions.settings, []);
}
