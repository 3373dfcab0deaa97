//! What a probe does once, where there is no controller: `probe once ORDER`. It puts files on a volume before a server's first
//! start, or brings the nodes of a cluster together, and ends.

use serde::{Deserialize, Serialize};
use std::net::SocketAddrV4;

/// The order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OnceOrder {
    /// Write files; one that is there stays as it is.
    Put {
        /// The files.
        files: Vec<FirstFile>,
    },
    /// Form a cluster; one that is there stays as it is.
    Form {
        /// Its nodes. Epochs count from 1 in this order.
        seats: Vec<FirstSeat>,
        /// Limit of the whole.
        timeout_ns: u64,
    },
}

/// A file that a server wants to find at its first start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstFile {
    /// Absolute path; its folder is there, and is given to the same owner.
    pub path: String,
    /// Contents.
    pub text: String,
    /// User id of its owner.
    pub uid: u32,
    /// Group id of its owner.
    pub gid: u32,
}

/// A node's place in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstSeat {
    /// Its name, for errors.
    pub node: String,
    /// Where it answers.
    pub target: SocketAddrV4,
    /// First and last slot of each range of a master; none of a replica.
    pub slots: Vec<(u16, u16)>,
    /// Name of the node that a replica copies.
    pub master: Option<String>,
}
