//! A made-up run for the tests of the formats: every verdict, a block that was not run, one that was not completed, and
//! texts that have to be escaped.

use super::{Cell, Compared, ComparedCell, Missing};
use crate::claim::{Claim, Finding};
use crate::findings::versions::{self, Measured, Read};
use crate::findings::{BlockFindings, Findings, Table, Trust};
use crate::history::{BlockNumber, Event, History, LabAfter, Series, What};
use crate::manifest::Manifest;
use crate::plan::Plan;
use std::collections::BTreeMap;

/// What must appear nowhere as it is.
pub const HOSTILE: &str = "</script><b a=\"1\" b='2'>&|%0A::error::\n`x`\u{1}";

/// See the top of the file.
pub struct Made {
    pub history: History,
    pub manifest: Manifest,
    pub findings: Findings,
    pub plans: BTreeMap<String, Plan>,
}

impl Default for Made {
    fn default() -> Self {
        let text = include_str!("../../tests/golden/run/manifest.json");
        let findings = vec![
            Claim::new("3.a", "a holds").holds("1.00 [0.99, 1.01]"),
            Claim::new("3.b", "b holds").diverged("2.00", format!("outside {HOSTILE}")),
            Claim::new("3.c", "c holds").noisy("1.05", "too noisy"),
        ];
        let mut not_run = block(7, Vec::new());
        not_run.skipped = Some("it needs a Postgres".to_owned());
        let mut broken = block(9, Vec::new());
        broken.error = Some("ask the relay".to_owned());
        let mut measured = block(3, findings);
        measured.notes = vec![HOSTILE.to_owned()];
        measured.trust = Trust::Suspect(vec![HOSTILE.to_owned()]);
        Self {
            history: history(),
            manifest: serde_json::from_str(text).expect("the golden manifest is one"),
            findings: Findings {
                verdict: crate::claim::combine(&measured.findings),
                blocks: vec![measured, not_run, broken],
                error: Some("block 9: failed to ask the relay".to_owned()),
            },
            plans: BTreeMap::new(),
        }
    }
}

impl Made {
    pub fn cell<'a>(&'a self, name: &'a str) -> Cell<'a> {
        Cell {
            name,
            history: &self.history,
            manifest: &self.manifest,
            findings: &self.findings,
            plans: &self.plans,
        }
    }
}

/// A matrix of two releases, the made-up run on both, twice; a cell that was not measured; and settings that differ.
pub fn matrix<T>(render: impl FnOnce(&Compared<'_>) -> T) -> T {
    let made = Made::default();
    let measured = |release: &str, repeat: u32| {
        let mut manifest = made.manifest.clone();
        for server in manifest.labs.iter_mut().flat_map(|lab| &mut lab.servers) {
            server.configuration.insert("changed".to_owned(), release.to_owned());
            server
                .configuration
                .insert(format!("alone-{release}"), HOSTILE.to_owned());
        }
        Measured {
            release: release.to_owned(),
            topology: "two-dc".to_owned(),
            blocks: vec![3, 7, 9],
            repeat,
            outcome: Ok(Box::new(Read {
                history: made.history.clone(),
                findings: made.findings.clone(),
                manifest,
                plans: BTreeMap::new(),
            })),
        }
    };
    let releases = ["a", "b"].map(str::to_owned);
    let mut cells: Vec<Measured> = releases.iter().map(|release| measured(release, 1)).collect();
    cells.push(measured("a", 2));
    cells.push(Measured {
        outcome: Err(HOSTILE.to_owned()),
        ..measured("b", 2)
    });
    let versions = versions::compare(&releases, &cells, 1);
    let names: Vec<String> = cells
        .iter()
        .map(|cell| format!("{}, two-dc, repeat {}", cell.release, cell.repeat))
        .collect();
    let read = |(measured, name)| {
        let (measured, name): (&Measured, &String) = (measured, name);
        let read = measured.outcome.as_ref().ok()?;
        let cell = Cell {
            name,
            history: &read.history,
            manifest: &read.manifest,
            findings: &read.findings,
            plans: &read.plans,
        };
        Some(ComparedCell {
            release: &measured.release,
            repeat: measured.repeat,
            directory: "cell-001",
            cell,
        })
    };
    let cells: Vec<ComparedCell<'_>> = cells.iter().zip(&names).filter_map(read).collect();
    let missing = Missing {
        name: names[3].clone(),
        reason: HOSTILE.to_owned(),
        left_out: false,
    };
    render(&Compared {
        versions: &versions,
        cells: &cells,
        missing: &[missing],
        subtitle: "4 cells",
        command: "testbed matrix --only 3",
    })
}

fn block(number: BlockNumber, findings: Vec<Finding>) -> BlockFindings {
    BlockFindings {
        block: number,
        title: "Price".to_owned(),
        question: "What does it cost?".to_owned(),
        method: "As it is done.".to_owned(),
        does_not_show: "The rest.".to_owned(),
        table: Table {
            columns: vec!["row".to_owned(), "ms".to_owned()],
            rows: vec![vec![HOSTILE.to_owned(), "1.0".to_owned()]],
        },
        findings,
        trust: Trust::Sound,
        evidence: vec!["all was looked at".to_owned()],
        notes: Vec::new(),
        error: None,
        skipped: None,
    }
}

fn history() -> History {
    let series = |milliseconds: &[u64]| Series {
        block: 3,
        row: "far \"only\"\n, 20ms".to_owned(),
        what: "set_wait".to_owned(),
        path: "dc1 probe -> a".to_owned(),
        delay_ns: Some(20_000_000),
        warmup: 0,
        pace: String::new(),
        nodelay: None,
        samples: milliseconds
            .iter()
            .map(|ms| wire::Sample {
                intended_ns: 0,
                started_ns: 0,
                ended_ns: ms * 1_000_000,
                outcome: 1,
            })
            .collect(),
        failures: Vec::new(),
    };
    let started = || What::BlockStarted { block: 3, method: None };
    let whats = [
        started(),
        What::Series(series(&[1])),
        // The block ran twice: what counts is the second time.
        started(),
        What::Series(series(&[40, 41])),
        What::Series(series(&[42, 43, 44])),
        What::BlockEnded {
            block: 3,
            lab: LabAfter::AsFound,
            took_ms: 2500,
            error: None,
        },
    ];
    let events = whats.into_iter().zip(1..).map(|(what, i)| Event {
        at_ns: i * 1_000_000_000,
        what,
    });
    History {
        events: events.collect(),
    }
}
