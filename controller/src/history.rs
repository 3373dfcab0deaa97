//! The append-only record of a run. What is not in it did not happen: reports and verdicts are made from it alone.
//!
//! One event is one JSON line. Events are only ever added; a newer version may add kinds and optional fields.

mod halves;
mod peers;
mod watch;

pub use halves::{ClusterPlaced, HalfWatched, Kept, KeyAsked, KeysAsked, NodePlaced, Parting, RangePlaced};
pub use peers::{Connection, FlowsSeen, PeerSource, PeersSeen};
pub use watch::{Beacon, BeaconTimes, Calibrated, HostSeen, NodeLost, ProbeSeen, RelayLost, RelaySeen, Watched};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{CutKind, LinkStatus, Path, PortCut, Sample, StreamRecord, Written};

/// Number of a block, as in the record.
pub type BlockNumber = u8;

/// The record of a run, in the order in which things happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// What happened.
    pub events: Vec<Event>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Nanoseconds since the run began.
    pub at_ns: u64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum What {
    /// The run began.
    RunStarted {
        /// Id of the run.
        run: String,
        /// Version of testbed.
        version: String,
        /// Wall clock, RFC 3339.
        utc: String,
        /// Blocks to run, in order.
        blocks: Vec<BlockNumber>,
        /// Seed of everything random.
        seed: u64,
    },
    /// A lab is ready.
    LabReady {
        /// Its name.
        lab: String,
        /// Name of its topology.
        topology: String,
        /// Seconds from the first call to ready, in milliseconds.
        took_ms: u64,
        /// Live servers.
        servers: Vec<ServerSeen>,
    },
    /// A block was not run, and why (it does not apply to the topology).
    BlockSkipped {
        /// Number.
        block: BlockNumber,
        /// Why.
        reason: String,
    },
    /// A block began.
    BlockStarted {
        /// Number.
        block: BlockNumber,
        /// How it is done, with its parameters.
        #[serde(default)]
        method: Option<String>,
    },
    /// A block ended.
    BlockEnded {
        /// Number.
        block: BlockNumber,
        /// Whether the lab is as the block found it.
        lab: LabAfter,
        /// How long it took.
        took_ms: u64,
        /// Why it could not be completed (`None`: it was).
        error: Option<String>,
    },
    /// Timed operations of one row of a block.
    Series(Series),
    /// What became of a block's writes.
    Ledger {
        /// Number.
        block: BlockNumber,
        /// Row.
        row: String,
        /// The writes.
        writes: Vec<Written>,
        /// Numbers of those found afterwards.
        present: Vec<u32>,
        /// TCP_NODELAY as read back from the socket that wrote them.
        #[serde(default)]
        nodelay: Option<bool>,
    },
    /// What a replica lacked of its primary's replication stream, record by record, as the primary still had it.
    Lacked {
        /// Number of the block.
        block: BlockNumber,
        /// Row.
        row: String,
        /// Number of the first byte that it lacked.
        first_byte: u64,
        /// All of it.
        records: Vec<StreamRecord>,
    },
    /// A single number that a block needs for its claims or table.
    Fact {
        /// Number of the block.
        block: BlockNumber,
        /// Row.
        row: String,
        /// Name with its unit as last part, e.g. `offset_gap_bytes`.
        name: String,
        /// The number.
        value: i64,
    },
    /// Something worth reading beside a block's table.
    Note {
        /// Number of the block.
        block: BlockNumber,
        /// Text.
        text: String,
    },
    /// State of a directed link as its relay told it.
    LinkSeen {
        /// Number of the block.
        block: BlockNumber,
        /// Row or step.
        row: String,
        /// Sending datacenter.
        from: String,
        /// State and counters.
        status: Box<LinkStatus>,
    },
    /// What was asked of a directed link from then on, as the relay confirmed it.
    LinkChanged {
        /// Number of the block.
        block: BlockNumber,
        /// Sending datacenter.
        from: String,
        /// Receiving datacenter.
        to: String,
        /// When, CLOCK_MONOTONIC of the relay.
        at_ns: u64,
        /// One way, nanoseconds.
        delay_ns: u64,
        /// The cut in force, of the whole link.
        cut: Option<CutKind>,
        /// The cut of ports in force. It was asked for by this change, or by an earlier one, if it began with it.
        #[serde(default)]
        port_cut: Option<PortCut>,
        /// Whether it is frozen.
        #[serde(default)]
        frozen: bool,
        /// Which way packets take.
        path: Path,
    },
    /// A link measured before a block.
    Calibrated(Calibrated),
    /// What a probe and its host cost by themselves.
    ProbeSeen(ProbeSeen),
    /// Processor time of a host.
    HostSeen(HostSeen),
    /// State of a relay.
    RelaySeen(Box<RelaySeen>),
    /// A relay that did not answer.
    RelayLost(RelayLost),
    /// A node that ended.
    NodeLost(NodeLost),
    /// Connections of a node.
    PeersSeen(PeersSeen),
    /// Connections that a relay saw leave its datacenter.
    FlowsSeen(FlowsSeen),
    /// Beacons of a link during a block.
    Watched(Watched),
    /// No beacons were sent during a block.
    Unwatched {
        /// Number of the block.
        block: BlockNumber,
        /// Why.
        reason: String,
    },
    /// How a cluster was placed before its halves were parted.
    ClusterPlaced(Box<ClusterPlaced>),
    /// What a probe saw of its half of a cluster.
    HalfWatched(Box<HalfWatched>),
    /// Writes found after the halves of a cluster met again.
    Kept(Box<Kept>),
    /// Keys asked of a node of a cluster.
    KeysAsked(Box<KeysAsked>),
    /// A link was changed, cut or healed.
    Fault {
        /// Number of the block.
        block: BlockNumber,
        /// e.g. `cut dc1-dc2 drop`, `heal dc1-dc2`, `set dc1-dc2 delay=5ms`.
        fault: String,
    },
    /// The lab is gone.
    LabLowered {
        /// Its name.
        lab: String,
        /// How long it took.
        took_ms: u64,
    },
    /// The run ended.
    RunEnded {
        /// Why it could not be completed (`None`: it was).
        error: Option<String>,
    },
}

/// A live server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSeen {
    /// Node.
    pub node: String,
    /// Datacenter.
    pub datacenter: String,
    /// Engine.
    pub engine: String,
    /// Release asked for.
    pub release: String,
    /// Version that the server itself reports.
    pub version: String,
    /// Address.
    pub address: String,
}

/// State of the lab after a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabAfter {
    /// As the block found it (checked).
    AsFound,
    /// Used up: a next block needs a fresh one.
    Consumed,
}

/// Timed operations of one row of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Number of the block.
    pub block: BlockNumber,
    /// Row of the table, e.g. `far, 20ms`.
    pub row: String,
    /// What was timed: `rtt`, `get`, `set`, `set_wait`, `visible`, `postgres_read`, ...
    pub what: String,
    /// Where from and to, e.g. `dc2 probe -> redis-primary (dc1)`.
    pub path: String,
    /// One-way delay of the link at that time, nanoseconds (`None`: no link on the path).
    pub delay_ns: Option<u64>,
    /// Operations before the counted ones.
    pub warmup: u32,
    /// Closed or open loop, with its pause or interval, in words.
    pub pace: String,
    /// TCP_NODELAY as read back (`None`: not TCP).
    pub nodelay: Option<bool>,
    /// The operations.
    pub samples: Vec<Sample>,
    /// Operations that failed, in words with their number.
    pub failures: Vec<wire::Failure>,
}

impl What {
    /// The block that it is part of (`None`: it is about the run or a lab).
    #[must_use]
    pub fn block(&self) -> Option<BlockNumber> {
        match self {
            Self::RunStarted { .. } | Self::LabReady { .. } | Self::LabLowered { .. } | Self::RunEnded { .. } => None,
            Self::BlockSkipped { block, .. }
            | Self::BlockStarted { block, .. }
            | Self::BlockEnded { block, .. }
            | Self::Ledger { block, .. }
            | Self::Lacked { block, .. }
            | Self::Fact { block, .. }
            | Self::Note { block, .. }
            | Self::LinkSeen { block, .. }
            | Self::LinkChanged { block, .. }
            | Self::Unwatched { block, .. }
            | Self::Fault { block, .. } => Some(*block),
            Self::Series(series) => Some(series.block),
            Self::Calibrated(calibrated) => Some(calibrated.block),
            Self::ProbeSeen(probe) => Some(probe.block),
            Self::HostSeen(host) => Some(host.block),
            Self::RelaySeen(relay) => Some(relay.block),
            Self::RelayLost(lost) => Some(lost.block),
            Self::NodeLost(lost) => Some(lost.block),
            Self::PeersSeen(peers) => Some(peers.block),
            Self::FlowsSeen(flows) => Some(flows.block),
            Self::Watched(watched) => Some(watched.block),
            Self::ClusterPlaced(placed) => Some(placed.block),
            Self::HalfWatched(half) => Some(half.block),
            Self::Kept(kept) => Some(kept.block),
            Self::KeysAsked(asked) => Some(asked.block),
        }
    }
}

impl History {
    /// The series of a block's row; of several (a block that ran twice) the last.
    #[must_use]
    pub fn series(&self, block: BlockNumber, row: &str, what: &str) -> Option<&Series> {
        self.all_series(block)
            .filter(|series| series.row == row && series.what == what)
            .last()
    }

    /// All series of a block.
    pub fn all_series(&self, block: BlockNumber) -> impl Iterator<Item = &Series> {
        self.events.iter().filter_map(move |event| match &event.what {
            What::Series(series) if series.block == block => Some(series),
            _ => None,
        })
    }

    /// A single number of a block's row; of several the last.
    #[must_use]
    pub fn fact(&self, block: BlockNumber, row: &str, name: &str) -> Option<i64> {
        self.events.iter().rev().find_map(|event| match &event.what {
            What::Fact {
                block: of,
                row: at,
                name: called,
                value,
            } if *of == block && at == row && called == name => Some(*value),
            _ => None,
        })
    }

    /// Writes of a block's row and the numbers of those found afterwards; of several the last.
    #[must_use]
    pub fn ledger(&self, block: BlockNumber, row: &str) -> Option<(&[Written], &[u32])> {
        self.events.iter().rev().find_map(|event| match &event.what {
            What::Ledger {
                block: of,
                row: at,
                writes,
                present,
                ..
            } if *of == block && at == row => Some((writes.as_slice(), present.as_slice())),
            _ => None,
        })
    }

    /// Records of the stream that a replica lacked, and the number of their first byte; of several the last.
    #[must_use]
    pub fn lacked(&self, block: BlockNumber, row: &str) -> Option<(u64, &[StreamRecord])> {
        self.events.iter().rev().find_map(|event| match &event.what {
            What::Lacked {
                block: of,
                row: at,
                first_byte,
                records,
            } if *of == block && at == row => Some((*first_byte, records.as_slice())),
            _ => None,
        })
    }

    /// Notes of a block.
    pub fn notes(&self, block: BlockNumber) -> impl Iterator<Item = &str> {
        self.events.iter().filter_map(move |event| match &event.what {
            What::Note { block: of, text } if *of == block => Some(text.as_str()),
            _ => None,
        })
    }

    /// Seed of everything random; of the run, so that judging again gives the same verdicts.
    #[must_use]
    pub fn seed(&self) -> Option<u64> {
        self.events.iter().find_map(|event| match &event.what {
            What::RunStarted { seed, .. } => Some(*seed),
            _ => None,
        })
    }
}

impl Series {
    /// How long each operation took, from its actual start, nanoseconds.
    #[must_use]
    pub fn elapsed_ns(&self) -> Vec<f64> {
        let elapsed = |sample: &Sample| sample.ended_ns.saturating_sub(sample.started_ns) as f64;
        self.samples.iter().map(elapsed).collect()
    }

    /// How long each operation took from when it should have started, nanoseconds: what a user of an open-loop load
    /// waits, the time in which the probe was late included.
    #[must_use]
    pub fn awaited_ns(&self) -> Vec<f64> {
        let awaited = |sample: &Sample| sample.ended_ns.saturating_sub(sample.intended_ns) as f64;
        self.samples.iter().map(awaited).collect()
    }

    /// Operations that failed or were lost.
    #[must_use]
    pub fn failed(&self) -> u32 {
        self.failures
            .iter()
            .fold(0, |sum: u32, failure| sum.saturating_add(failure.times))
    }
}
