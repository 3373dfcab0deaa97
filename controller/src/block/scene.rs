//! A block's hold on the lab while it runs: orders to probes and relays, each with its record in the history.
//!
//! Nothing is timed here: probes stamp. What is waited for is a condition with a limit, and the error says what was
//! seen instead.

mod calibrate;
mod cluster;
mod ledger;
mod link;
mod path;
mod peers;
mod servers;
mod watch;

pub use ledger::Numbered;
pub use link::Distance;
pub use servers::other_reply;
pub use watch::Watch;

use super::cast::Cast;
use super::{BlockError, Means, Recorder};
use crate::findings::row;
use crate::history::{BlockNumber, ClusterPlaced, HalfWatched, Kept, KeysAsked, Series, What};
use crate::lab::Lab;
use crate::names::DatacenterName;
use crate::probe::Samples;
use std::time::{Duration, Instant};
use wire::{HalfSeen, Load, Pace, ProbeOrder};

/// Limit of one reply of a server, far above what any link here makes of it.
pub const REPLY: Duration = Duration::from_secs(5);
/// Limit of a whole load or watch.
pub const LOAD: Duration = Duration::from_secs(60);
/// Limit of a condition: TCP's own backoff after a cut can take as long as the cut did, a full synchronisation a
/// few seconds on a busy host.
pub const SETTLE: Duration = Duration::from_secs(30);

/// What a series is about.
#[derive(Debug, Clone)]
pub struct Heading<'a> {
    /// Row of the table, without the distance.
    pub row: &'a str,
    /// What was timed.
    pub what: &'static str,
    /// From where to where.
    pub path: String,
    /// One-way delay of the link on the path, if there is one.
    pub delay_ns: Option<u64>,
    /// Operations before the counted ones.
    pub warmup: u32,
    /// In words.
    pub pace: String,
}

/// See the top of the file.
pub struct Scene<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// Who plays which part.
    pub cast: &'a Cast,
    /// How faults are made.
    pub means: Means,
    /// When the cut in force began.
    cut_since: Option<Instant>,
    block: BlockNumber,
    recorder: &'a mut dyn Recorder,
}

impl<'a> Scene<'a> {
    /// A hold on `lab` for the block of this number.
    pub fn new(lab: &'a Lab, cast: &'a Cast, block: BlockNumber, recorder: &'a mut dyn Recorder) -> Self {
        Self {
            lab,
            cast,
            means: Means::default(),
            cut_since: None,
            block,
            recorder,
        }
    }

    // -- the record --

    /// Tells people what is being done.
    pub fn progress(&mut self, text: &str) {
        let text = format!("block {}: {text}", self.block);
        self.recorder.progress(&text);
    }

    /// Records a number; `name` ends in its unit.
    pub fn fact(&mut self, row: &str, name: &str, value: i64) -> Result<(), BlockError> {
        self.write(What::Fact {
            block: self.block,
            row: row.to_owned(),
            name: name.to_owned(),
            value,
        })
    }

    /// Records a sentence.
    pub fn note(&mut self, text: String) -> Result<(), BlockError> {
        self.write(What::Note {
            block: self.block,
            text,
        })
    }

    /// Records timed operations.
    pub fn series(&mut self, heading: Heading<'_>, measured: Samples) -> Result<(), BlockError> {
        self.write(What::Series(Series {
            block: self.block,
            row: row::at(heading.row, heading.delay_ns),
            what: heading.what.to_owned(),
            path: heading.path,
            delay_ns: heading.delay_ns,
            warmup: heading.warmup,
            pace: heading.pace,
            nodelay: measured.nodelay,
            samples: measured.samples,
            failures: measured.failures,
        }))
    }

    /// Records what became of writes.
    pub fn ledger(
        &mut self,
        row: &str,
        (writes, nodelay): (Vec<wire::Written>, bool),
        present: Vec<u32>,
    ) -> Result<(), BlockError> {
        self.write(What::Ledger {
            block: self.block,
            row: row.to_owned(),
            writes,
            present,
            nodelay: Some(nodelay),
        })
    }

    /// Records what a replica lacked of a primary's stream, as the primary still had it.
    pub fn lacked(&mut self, row: &str, first_byte: u64, records: Vec<wire::StreamRecord>) -> Result<(), BlockError> {
        self.write(What::Lacked {
            block: self.block,
            row: row.to_owned(),
            first_byte,
            records,
        })
    }

    /// Number of the block.
    pub fn block_number(&self) -> BlockNumber {
        self.block
    }

    /// Records how a cluster is placed.
    pub fn cluster_placed(&mut self, placed: ClusterPlaced) -> Result<(), BlockError> {
        self.write(What::ClusterPlaced(Box::new(placed)))
    }

    /// Records what a probe saw of its half.
    pub fn half_watched(&mut self, row: &str, datacenter: &DatacenterName, seen: HalfSeen) -> Result<(), BlockError> {
        self.write(What::HalfWatched(Box::new(HalfWatched {
            block: self.block,
            row: row.to_owned(),
            datacenter: datacenter.to_string(),
            seen,
        })))
    }

    /// Records which writes were found afterwards.
    pub fn kept(&mut self, kept: Kept) -> Result<(), BlockError> {
        self.write(What::Kept(Box::new(kept)))
    }

    /// Records what a node answered to keys.
    pub fn keys_asked(&mut self, asked: KeysAsked) -> Result<(), BlockError> {
        self.write(What::KeysAsked(Box::new(asked)))
    }

    /// CLOCK_MONOTONIC of the engine of `home`.
    pub async fn now_ns(&self) -> Result<u64, BlockError> {
        Ok(self.lab.probe(&self.cast.home).now_ns().await?)
    }

    fn write(&mut self, what: What) -> Result<(), BlockError> {
        Ok(self.recorder.record(what)?)
    }

    /// A load from a datacenter's probe, not recorded.
    pub async fn load(&self, from: &DatacenterName, load: Load) -> Result<Samples, BlockError> {
        Ok(self.lab.probe(from).samples(ProbeOrder::Load(load), LOAD).await?)
    }
}

/// `closed loop`, `open loop, one every 25ms`.
pub fn in_words(pace: Pace) -> String {
    let time = |ns| humantime::format_duration(Duration::from_nanos(ns)).to_string();
    match pace {
        Pace::Closed { pause_ns: 0 } => "closed loop".to_owned(),
        Pace::Closed { pause_ns } => format!("closed loop, {} pause", time(pause_ns)),
        Pace::Open { interval_ns } => format!("open loop, one every {}", time(interval_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_said_in_words() {
        assert_eq!(in_words(Pace::Closed { pause_ns: 0 }), "closed loop");
        assert_eq!(
            in_words(Pace::Open {
                interval_ns: 25_000_000
            }),
            "open loop, one every 25ms"
        );
    }
}
