//! A topology: datacenters, nodes, links, as one YAML file says them.
//!
//! The types here are the *checked* form: every reference exists, every name is legal, every link is directed.
//! `parse` either returns one of these or all problems at once, each with its place in the file. Nothing here
//! knows of Docker, addresses or images.

use crate::cluster::Slots;
use crate::names::{ClusterName, DatacenterName, LabName, NodeName};
use ipnet::Ipv4Net;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wire::{Conditions, Path, Schedule};

mod applications;
mod check;
mod clusters;
mod file;
mod links;
mod mode;
mod nodes;
mod problem;
mod read;
mod sentinels;
mod settings;
mod tree;

pub use file::schema;
pub use problem::{Code, Problem};

/// Name of the file that is read from stdin.
pub const STDIN: &str = "<stdin>";

/// Largest file, bytes. Ten thousand nodes would fit.
pub const MOST_BYTES: usize = 1 << 20;

/// A checked topology from the text of its file. Without a `name` in it, the lab is named after the file.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn parse(name_of_file: &str, text: &str) -> Result<Topology, Vec<Problem>> {
    parse_with(name_of_file, text, &|_, _| Ok(()), &|path| Ok(path.to_owned()))
}

/// Says whether a node with this engine can run a release that the file names; if not, what is wrong and a hint. Which
/// releases there are is not this module's knowledge.
pub type ReleaseCheck<'a> = &'a dyn Fn(EngineKind, &str) -> Result<(), (String, Option<String>)>;

/// Says what a path below the topology's folder is on this machine, as an absolute path; if it cannot be mounted, what is wrong and
/// a hint. Files are not this module's knowledge.
pub type MountCheck<'a> = &'a dyn Fn(&str) -> Result<String, (String, Option<String>)>;

/// The same, with the releases and paths that the file names checked too.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(
    name_of_file: &str,
    text: &str,
    release: ReleaseCheck,
    mount: MountCheck,
) -> Result<Topology, Vec<Problem>> {
    if text.len() > MOST_BYTES {
        let message = format!("{} bytes are more than the {MOST_BYTES} of any topology", text.len());
        return Err(vec![Problem::of_file(name_of_file, Code::TooLarge, message, None)]);
    }
    let mut problems = problem::Problems::new(name_of_file, text);
    let topology = tree::read(text, &mut problems)
        .and_then(|tree| {
            if tree.value == tree::Tree::Null {
                problems
                    .add(tree.place, Code::Empty, "the file is empty")
                    .hint("begin with `version: 1` and `datacenters:`; topologies/two-dc.yaml is an example");
                return None;
            }
            read::read(&tree, &mut problems)
        })
        .and_then(|file| check::check(&file, name_of_file, release, mount, &mut problems));
    match topology {
        Some(topology) if problems.is_empty() => Ok(topology),
        _ => Err(problems.into_sorted()),
    }
}

/// Hash of a topology's text (sha256, hex): objects are labelled with it.
#[must_use]
pub fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A checked topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Name of the lab unless `-p` says another.
    pub name: LabName,
    /// In the order of the file.
    pub datacenters: Vec<Datacenter>,
    /// In the order of the file.
    pub nodes: Vec<Node>,
    /// Containers of the user's own, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<Application>,
    /// Directed: a link `dc1-dc2` of the file is two of these.
    pub links: Vec<Link>,
    /// How all relays carry connections at the start.
    pub path: Path,
    /// Seed of everything random in the relays.
    pub seed: u64,
}

/// A datacenter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datacenter {
    /// Its name.
    pub name: DatacenterName,
    /// Its network, if the file insists on one.
    pub subnet: Option<Ipv4Net>,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Where it stands.
    pub datacenter: DatacenterName,
    /// What it runs.
    pub engine: EngineKind,
    /// What it does.
    pub role: Role,
    /// Its place in a cluster (`None`: it is in none).
    pub cluster: Option<Membership>,
    /// Its own release, by name or image (`None`: the run's).
    pub release: Option<String>,
    /// Configuration overrides, as the server names them.
    pub config: BTreeMap<String, String>,
    /// Port of the host that leads to it.
    pub publish: Option<Publish>,
}

/// A container of the user's own beside the servers. No block asks anything of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// Its name; no node has it.
    pub name: NodeName,
    /// Where it stands.
    pub datacenter: DatacenterName,
    /// Image reference.
    pub image: String,
    /// Program and first arguments (empty: the image's).
    pub entrypoint: Vec<String>,
    /// Arguments (empty: the image's).
    pub command: Vec<String>,
    /// Environment.
    pub environment: BTreeMap<String, String>,
    /// User of the image, or `uid:gid` (`None`: the image's).
    pub user: Option<String>,
    /// What it sees of the host, read-only.
    pub mounts: Vec<Mount>,
    /// Folders in which it can write, in memory.
    pub tmpfs: Vec<String>,
    /// TCP port on which it listens when it is ready (`None`: it is ready when it runs).
    pub ready: Option<u16>,
}

/// A file or folder of the host in an application, read-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// On the host: an absolute path, once a [`MountCheck`] has found it.
    pub source: String,
    /// In the container.
    pub target: String,
}

/// A port of the host that leads to a node's server port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publish {
    /// Address of the host; 127.0.0.1 unless said.
    pub host: Ipv4Addr,
    /// Port of the host.
    pub port: u16,
}

/// Kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
    /// PostgreSQL.
    Postgres,
}

impl EngineKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Redis, Self::Valkey, Self::Postgres];

    /// From what a file says.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.as_str() == text)
    }

    /// Port of the server.
    #[must_use]
    pub fn port(self) -> u16 {
        match self {
            Self::Redis | Self::Valkey => 6379,
            Self::Postgres => 5432,
        }
    }

    /// Whether it speaks the Redis protocol.
    #[must_use]
    pub fn is_cache(self) -> bool {
        matches!(self, Self::Redis | Self::Valkey)
    }

    /// As the file writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Valkey => "valkey",
            Self::Postgres => "postgres",
        }
    }
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Takes the writes of its set.
    Primary,
    /// Copies another node.
    ReplicaOf(NodeName),
    /// A database of its own.
    Postgres,
    /// Watches a primary and decides with others about its failover.
    SentinelOf(NodeName),
}

/// A place in a cluster. Whom a replica copies is its [`Role`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Membership {
    /// The cluster.
    pub name: ClusterName,
    /// Hash slots of a master; a replica has none.
    pub slots: Slots,
}

/// One direction between two datacenters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Sending side; its relay applies the conditions.
    pub from: DatacenterName,
    /// Receiving side.
    pub to: DatacenterName,
    /// What it does to packets.
    pub conditions: Conditions,
    /// Changes that begin when the lab is ready.
    pub schedule: Option<Schedule>,
}

#[cfg(test)]
mod tests;
