//! What a probe sees of a server and its network without measuring anything.

use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddrV4};

/// What the kernel lists in a network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketsSeen {
    /// Established TCP connections over IPv4: the end in this network, and the other.
    pub established: Vec<(SocketAddrV4, SocketAddrV4)>,
    /// Networks that are reached without a router: address and length of the prefix.
    pub networks: Vec<(Ipv4Addr, u8)>,
}

/// A record of a replication stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamRecord {
    /// Its length in the stream.
    pub bytes: u64,
    /// The command and its first argument, e.g. a key (none: bytes that are no whole command).
    pub words: Vec<String>,
}
