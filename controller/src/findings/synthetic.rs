//! Made-up histories for the tests of the blocks' claims: what a run would have recorded, said in a few words.

mod cluster;

pub use cluster::{Play, cluster_b};

use super::row::at;
use super::{BlockFindings, judge};
use crate::claim::{Cause, Finding, Verdict};
use crate::history::{BlockNumber, Event, History, LabAfter, Series, What};
use wire::{CutKind, Failure, LinkCounters, LinkStatus, Sample, Written};

pub const MS: u64 = 1_000_000;

/// A history under way.
#[derive(Debug, Clone)]
pub struct Story {
    block: BlockNumber,
    events: Vec<What>,
}

impl Story {
    pub fn of(block: BlockNumber) -> Self {
        let started = What::RunStarted {
            run: "r".to_owned(),
            version: "0".to_owned(),
            utc: String::new(),
            blocks: vec![block],
            seed: 1,
        };
        let begun = What::BlockStarted { block, method: None };
        Self {
            block,
            events: vec![started, begun],
        }
    }

    /// `n` operations that took about so many milliseconds (within 1 %), with this outcome.
    pub fn took(mut self, row: &str, what: &str, delay_ms: Option<u64>, ms: f64, n: usize, outcome: i64) -> Self {
        let mut random = fastrand::Rng::with_seed(9);
        let sample = |i: usize| {
            let elapsed_ns = ns(ms * (0.995 + 0.01 * random.f64()));
            sample(i as u64 * 1000 * MS, elapsed_ns, outcome)
        };
        self.add(row, what, delay_ms, (0..n).map(sample).collect());
        self
    }

    /// The link's own round trips: twice the delay and 0.1 ms.
    pub fn round_trips(self, delay_ms: u64) -> Self {
        let ms = 2.0 * delay_ms as f64 + 0.1;
        self.took("link", "rtt", Some(delay_ms), ms, 30, 0)
    }

    /// Operations as they are.
    pub fn samples(mut self, row: &str, what: &str, delay_ms: Option<u64>, samples: Vec<Sample>) -> Self {
        self.add(row, what, delay_ms, samples);
        self
    }

    fn add(&mut self, row: &str, what: &str, delay_ms: Option<u64>, samples: Vec<Sample>) {
        let delay_ns = delay_ms.map(|ms| ms * MS);
        self.events.push(What::Series(Series {
            block: self.block,
            row: at(row, delay_ns),
            what: what.to_owned(),
            path: String::new(),
            delay_ns,
            warmup: 0,
            pace: String::new(),
            nodelay: (what != "rtt").then_some(true),
            samples,
            failures: Vec::new(),
        }));
    }

    /// The last series also had failures.
    pub fn failed(mut self, times: u32) -> Self {
        if let Some(What::Series(series)) = self.events.last_mut() {
            let cause = "timeout".to_owned();
            series.failures.push(Failure { cause, times });
        }
        self
    }

    /// The last series was measured without TCP_NODELAY.
    pub fn without_nodelay(mut self) -> Self {
        if let Some(What::Series(series)) = self.events.last_mut() {
            series.nodelay = Some(false);
        }
        self
    }

    pub fn fact(mut self, row: &str, name: &str, value: i64) -> Self {
        self.events.push(What::Fact {
            block: self.block,
            row: row.to_owned(),
            name: name.to_owned(),
            value,
        });
        self
    }

    /// A ledger whose writes were acknowledged one per millisecond, the last at `writes` ms.
    pub fn ledger(mut self, row: &str, writes: u32, present: impl IntoIterator<Item = u32>) -> Self {
        let written = |i: u32| Written {
            i,
            sent_ns: u64::from(i) * MS,
            acknowledged_ns: Some(u64::from(i + 1) * MS),
        };
        self.events.push(What::Ledger {
            block: self.block,
            row: row.to_owned(),
            writes: (0..writes).map(written).collect(),
            present: present.into_iter().collect(),
            nodelay: Some(true),
        });
        self
    }

    /// The outward link as its relay tells it, cut at this time.
    pub fn cut(self, row: &str, at_ms: u64) -> Self {
        let counters = LinkCounters::default();
        self.link(row, Some(at_ms), counters)
    }

    pub fn link(mut self, row: &str, cut_at_ms: Option<u64>, counters: LinkCounters) -> Self {
        self.events.push(What::LinkSeen {
            block: self.block,
            row: row.to_owned(),
            from: "dc1".to_owned(),
            status: Box::new(LinkStatus {
                cut: cut_at_ms.map(|_| CutKind::Drop),
                last_cut_ns: cut_at_ms.map(|ms| ms * MS),
                counters,
                ..LinkStatus::up("dc2", wire::Conditions::delay(20 * MS))
            }),
        });
        self
    }

    /// Any other event.
    pub fn event(mut self, what: What) -> Self {
        self.events.push(what);
        self
    }

    /// Without the events that `unwanted` picks.
    pub fn without(mut self, unwanted: impl Fn(&What) -> bool) -> Self {
        self.events.retain(|what| !unwanted(what));
        self
    }

    /// Without a series.
    pub fn without_row(self, row: &str) -> Self {
        self.without(|what| matches!(what, What::Series(series) if series.row == row))
    }

    pub fn history(mut self) -> History {
        let block = self.block;
        self.events.push(What::BlockEnded {
            block,
            lab: LabAfter::AsFound,
            took_ms: 1,
            error: None,
        });
        self.events.push(What::RunEnded { error: None });
        let events = self.events.into_iter().map(|what| Event { at_ns: 0, what });
        History {
            events: events.collect(),
        }
    }

    /// The block, judged.
    pub fn judged(self) -> BlockFindings {
        let mut findings = judge(&self.history());
        findings.blocks.pop().expect("a story has one block")
    }
}

/// Milliseconds as nanoseconds.
pub fn ns(ms: f64) -> u64 {
    let time = std::time::Duration::from_secs_f64(ms / 1e3);
    u64::try_from(time.as_nanos()).expect("a test's time is short")
}

pub fn sample(started_ns: u64, elapsed_ns: u64, outcome: i64) -> Sample {
    Sample {
        intended_ns: started_ns,
        started_ns,
        ended_ns: started_ns + elapsed_ns,
        outcome,
    }
}

impl BlockFindings {
    /// The finding of a claim.
    pub fn claim(&self, name: &str) -> &Finding {
        let found = self.findings.iter().find(|finding| finding.claim == name);
        found.unwrap_or_else(|| panic!("no claim {name} in {:#?}", self.findings))
    }

    /// The verdict of a claim.
    pub fn verdict(&self, name: &str) -> Verdict {
        self.claim(name).verdict
    }

    /// There are claims, and all hold.
    pub fn assert_all_hold(&self) {
        let others = self.findings.iter().filter(|finding| finding.verdict != Verdict::Holds);
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&Finding>::new());
        assert!(!self.findings.is_empty());
    }

    /// Every claim whose name begins so is inconclusive for lack of something, and there is at least one.
    pub fn assert_incomplete(&self, start: &str) {
        let mut seen = 0;
        for finding in self.findings.iter().filter(|finding| finding.claim.starts_with(start)) {
            assert_eq!(finding.cause, Some(Cause::Incomplete), "{finding:?}");
            seen += 1;
        }
        assert!(seen > 0, "no claim {start} in {:#?}", self.findings);
    }
}
