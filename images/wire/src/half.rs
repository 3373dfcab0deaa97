//! A half of a cluster watched by the probe of its datacenter: what its nodes answered to reads and writes of every slot range,
//! and what each said of the cluster, as runs in time.
//!
//! Nothing is followed: a redirect is an outcome like any other. Times are CLOCK_MONOTONIC of the probe.

use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddrV4};

/// What to ask of which nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HalfWatch {
    /// The nodes. Each is asked by connections of its own, so that one that is silent holds up no other.
    pub nodes: Vec<SocketAddrV4>,
    /// Per slot range the hash tags of the keys that are asked for, without braces; each must lie in its range.
    pub ranges: Vec<Vec<String>>,
    /// Write `i` of node `n` in range `r` is SET of `<prefix><n>-<r>-<i>{<tag>}` to `<i>`, reads are GET of
    /// `<prefix>read{<tag>}`; the tags of a range take turns.
    pub prefix: String,
    /// Between two reads, and between two writes, of one range on one node: an open loop.
    pub interval_ns: u64,
    /// Between two looks at what a node says of the cluster.
    pub look_ns: u64,
    /// How long, if no [`ProbeOrder::Stop`](crate::ProbeOrder::Stop) comes before.
    pub for_ns: u64,
    /// Limit of each connection and of each reply.
    pub timeout_ns: u64,
}

/// What a watch of a half saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HalfSeen {
    /// When it began.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// One per node, range and kind of access, in that order.
    pub answers: Vec<Answers>,
    /// One per node.
    pub nodes: Vec<NodeLooks>,
}

/// What a node answered to reads or to writes of one slot range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Answers {
    /// The node that was asked, and that answered.
    pub node: Ipv4Addr,
    /// Number of the range in the order.
    pub range: u32,
    /// Reads or writes.
    pub access: Access,
    /// Outcomes in time.
    pub runs: Vec<OutcomeRun>,
    /// Operations that should have begun while the one before was still waited for; they were left out.
    pub missed: u32,
}

/// Kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// GET.
    Read,
    /// SET.
    Write,
}

/// Operations one after the other with the same outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OutcomeRun {
    /// Number of the first; they are counted from 0 without a gap.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// When the first began.
    pub from_ns: u64,
    /// When the last ended.
    pub to_ns: u64,
    /// The longest that one took.
    pub longest_ns: u64,
    /// What became of each.
    pub outcome: Outcome,
}

/// What became of an operation on a node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A write was acknowledged, a read gave a value.
    Served,
    /// A read was answered: there is no such key.
    Absent,
    /// Redirected: MOVED, to this address.
    Moved(String),
    /// Redirected for this once: ASK, to this address.
    Ask(String),
    /// Any other error reply, whole text.
    Refused(String),
    /// No connection or no reply, with the cause.
    Silent(String),
}

impl Outcome {
    /// Of an error reply.
    #[must_use]
    pub fn of_error(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        match words.as_slice() {
            ["MOVED", _, to] => Self::Moved((*to).to_owned()),
            ["ASK", _, to] => Self::Ask((*to).to_owned()),
            _ => Self::Refused(text.to_owned()),
        }
    }
}

/// What a node said of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeLooks {
    /// The node.
    pub node: Ipv4Addr,
    /// Looks in time.
    pub runs: Vec<LookRun>,
}

/// Looks one after the other that saw the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LookRun {
    /// How many.
    pub count: u32,
    /// When the first had been answered.
    pub from_ns: u64,
    /// When the last had been.
    pub to_ns: u64,
    /// What each saw; or why nothing was seen.
    pub seen: Result<NodeState, String>,
    /// What goes on changing, as the last look saw it.
    pub last: Passing,
}

/// A node, as it describes itself and its peers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeState {
    /// `cluster_state` of CLUSTER INFO: `ok` or `fail`.
    pub cluster_state: String,
    /// `cluster_current_epoch`: grows with every election that is tried.
    pub current_epoch: u64,
    /// `role` of INFO replication: `master` or `slave`.
    pub role: String,
    /// `master_host`.
    pub upstream: Option<Ipv4Addr>,
    /// `master_link_status` is `up`.
    pub link_up: bool,
    /// CLUSTER NODES, in order of the addresses.
    pub peers: Vec<PeerState>,
}

/// A line of CLUSTER NODES.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PeerState {
    /// `address:port`, without the bus port and without names.
    pub address: String,
    /// Flags as they stand there, e.g. `myself,master`, `slave`, `master,fail?`.
    pub flags: String,
    /// Address of the master that it is a replica of; its id, if that is not among the lines.
    pub of: Option<String>,
    /// Configuration epoch.
    pub epoch: u64,
    /// Whether the bus connection to it is there (`connected`).
    pub connected: bool,
    /// Slots, as they stand there: `0-5460`.
    pub slots: String,
}

/// Figures that change all the time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Passing {
    /// Offset of the stream that it writes (master) or has applied (replica), bytes.
    pub offset_bytes: Option<u64>,
    /// `master_last_io_seconds_ago` of a replica; -1 without a connection.
    pub heard_ago_s: Option<i64>,
    /// `master_link_down_since_seconds` of a replica whose link is down.
    pub down_since_s: Option<i64>,
    /// Votes that it has asked for since its start (`cluster_stats_messages_auth-req_sent`; one message to each node).
    pub votes_asked: Option<u64>,
    /// Votes that it has given (`cluster_stats_messages_auth-ack_sent`).
    pub votes_given: Option<u64>,
}
