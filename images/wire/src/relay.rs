//! Orders to a relay, its state, and what it is told at its start.

use crate::Id;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// One line to a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToRelay {
    /// Echoed in the answer.
    pub id: Id,
    /// What to do.
    pub order: RelayOrder,
}

/// One line from a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromRelay {
    /// Id of the order that this answers.
    pub id: Id,
    /// The relay's state right after the order, or why the order was refused.
    pub result: Result<RelayStatus, String>,
}

/// An order to a relay. Links are named by the datacenter they lead *to*: a relay only has outgoing links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RelayOrder {
    /// Only report the state.
    Show,
    /// Constant delay of the link, one way, for packets that arrive from now on.
    SetDelay {
        /// Far end of the link.
        to: String,
        /// One way.
        delay_ns: u64,
    },
    /// Cut the link: what arrives and what is held is destroyed, until `Heal`.
    Cut {
        /// Far end of the link.
        to: String,
        /// How.
        kind: CutKind,
    },
    /// End a cut.
    Heal {
        /// Far end of the link.
        to: String,
    },
    /// Which way packets take through this relay; the kernel's way ignores every condition and exists to
    /// measure what the relay itself costs.
    SetPath {
        /// The way.
        path: Path,
    },
}

/// How a link is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CutKind {
    /// Packets vanish in silence.
    Drop,
}

/// The way of packets through a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Through the TUN device and the delay line.
    Tun,
    /// Forwarded by the kernel; no condition applies.
    Kernel,
}

/// What a relay is told at its start, as JSON in its only argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RelayConfig {
    /// Name of the datacenter it serves.
    pub datacenter: String,
    /// Its own address in the datacenter's network, by which it finds that interface.
    pub inside: Ipv4Addr,
    /// Address that the nodes have as default route; the relay adds it to the inside interface if it is not there.
    pub gateway: Ipv4Addr,
    /// Prefix length of the datacenter's network.
    pub prefix_len: u8,
    /// Its own address on the WAN, by which it finds that interface.
    pub outside: Ipv4Addr,
    /// Outgoing links.
    pub links: Vec<RelayLinkConfig>,
    /// Most bytes that one link may hold; what comes beyond is dropped and counted.
    pub queue_bytes: u64,
}

/// An outgoing link of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RelayLinkConfig {
    /// Far datacenter.
    pub to: String,
    /// Network address of the far datacenter.
    pub network: Ipv4Addr,
    /// Its prefix length.
    pub prefix_len: u8,
    /// WAN address of the far relay.
    pub via: Ipv4Addr,
    /// One-way delay at the start.
    pub delay_ns: u64,
}

/// State of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RelayStatus {
    /// Datacenter it serves.
    pub datacenter: String,
    /// Version of the relay's package.
    pub version: String,
    /// Now, by the relay's clock.
    pub now_ns: u64,
    /// When it became ready.
    pub since_ns: u64,
    /// Which way packets take.
    pub path: Path,
    /// Scheduling class that the kernel granted, e.g. `deadline`, `nice -20`, `other`.
    pub scheduling: String,
    /// Whether segmentation offload is active on the TUN device.
    pub offload: bool,
    /// Packets of the datacenter that no link leads to, dropped.
    #[serde(default)]
    pub dropped_no_link: u64,
    /// Packets of the datacenter that the TUN device dropped before the relay could read them: it is overloaded.
    #[serde(default)]
    pub dropped_unread: u64,
    /// Outgoing links.
    pub links: Vec<LinkStatus>,
}

/// State of one outgoing link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkStatus {
    /// Far datacenter.
    pub to: String,
    /// One-way delay in force for arriving packets.
    pub delay_ns: u64,
    /// The cut in force.
    pub cut: Option<CutKind>,
    /// When the last cut began (`None`: never cut).
    pub last_cut_ns: Option<u64>,
    /// When the last cut ended (`None`: never, or still cut).
    pub last_heal_ns: Option<u64>,
    /// What passed and what did not.
    pub counters: LinkCounters,
}

/// Counters of one outgoing link since the relay started. A packet here is one read of the TUN device: with
/// offload up to 64 KiB of one flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkCounters {
    /// Packets that arrived for this link.
    pub arrived_packets: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets written out.
    pub forwarded_packets: u64,
    /// Their bytes.
    pub forwarded_bytes: u64,
    /// Packets held now.
    pub held_packets: u64,
    /// Their bytes.
    pub held_bytes: u64,
    /// Most bytes ever held at once.
    pub held_bytes_max: u64,
    /// Packets destroyed because the link was cut, in flight included.
    pub dropped_cut: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets that the kernel refused to take back.
    pub dropped_write: u64,
    /// Sum over forwarded packets of (written - due).
    pub lateness_sum_ns: u64,
    /// Largest lateness.
    pub lateness_max_ns: u64,
}
