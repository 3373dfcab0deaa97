//! Who is connected with whom, seen from the nodes and from the relays: by it a history tells whether anything between two
//! datacenters passed the link by.

use super::BlockNumber;
use ipnet::Ipv4Net;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddrV4;
use wire::Path;

/// A connection: this end, the other end. Port 0 is one that was not told.
pub type Connection = (SocketAddrV4, SocketAddrV4);

/// Who tells of a node's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PeerSource {
    /// The server: `CLIENT LIST`, which has its replicas, its clients, and its own upstream.
    Server,
    /// The kernel, in the network of the node: all of them, the cluster bus included.
    Kernel,
    /// The server's part in a cluster: `CLUSTER LINKS`, which tells no port of the end that has dialled.
    Bus,
}

/// Connections of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeersSeen {
    /// Number of the block.
    pub block: BlockNumber,
    /// `start` or `end`.
    pub row: String,
    /// The node.
    pub node: String,
    /// Where it stands.
    pub datacenter: String,
    /// Who tells.
    pub source: PeerSource,
    /// Established connections.
    pub connections: Vec<Connection>,
    /// Networks that it reaches without a router (the kernel's word).
    #[schemars(with = "Vec<String>")]
    pub networks: Vec<Ipv4Net>,
    /// Why nothing could be seen, if so.
    pub error: Option<String>,
}

/// Connections of which a relay let packets out of its datacenter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowsSeen {
    /// Number of the block.
    pub block: BlockNumber,
    /// `start` or `end`.
    pub row: String,
    /// Datacenter that it serves.
    pub datacenter: String,
    /// Addresses of that datacenter.
    #[schemars(with = "String")]
    pub subnet: Ipv4Net,
    /// Which way packets take: it knows connections in packet mode only.
    pub path: Path,
    /// The connections, the end in its datacenter first.
    pub flows: Vec<Connection>,
}
