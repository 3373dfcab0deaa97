//! A lab as a picture: datacenters with their nodes, who replicates whom, links with their state. One file per way of drawing
//! below; each takes a [`Picture`] and nothing else, so a topology, a lab that is up and a stored run are drawn alike.
//!
//! Pure: what is drawn depends on the picture alone, and a drawing of the same picture is the same text.

mod dot;
mod mermaid;
mod svg;
mod text;

pub use dot::dot;
pub use mermaid::mermaid;
pub use svg::{embedded, heads, svg};
pub use text::text;

use schemars::JsonSchema;
use serde::Serialize;

/// What is drawn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Picture {
    /// Name of the lab or topology.
    pub title: String,
    /// Datacenters, in the order of the topology.
    pub datacenters: Vec<Datacenter>,
    /// Directed links.
    pub links: Vec<Link>,
}

/// A datacenter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Datacenter {
    /// Its name.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<Node>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Node {
    /// Its name, unique in the picture.
    pub name: String,
    /// What it is, e.g. `redis 7.0.15 primary`.
    pub what: String,
    /// Hash slots that it serves as a master of a cluster, e.g. `0-5460`.
    pub slots: Option<String>,
    /// Node that it replicates from.
    pub upstream: Option<String>,
    /// What is wrong with it, e.g. `paused`.
    pub trouble: Option<String>,
}

/// A directed link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Link {
    /// Sending datacenter.
    pub from: String,
    /// Receiving datacenter.
    pub to: String,
    /// Conditions as people write them, e.g. `delay=20ms`.
    pub conditions: String,
    /// Whether anything passes.
    pub state: Passage,
}

/// Whether anything passes a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Passage {
    /// Everything.
    Open,
    /// Nothing; what was in flight is gone. How, e.g. `drop`.
    Cut(String),
    /// Nothing; it is kept.
    Frozen,
    /// All but these ports, e.g. `bus`; what was in flight of them is gone.
    CutPorts(String),
}

impl Node {
    /// Its slots, in words; most nodes have none.
    fn slots_told(&self) -> Option<String> {
        self.slots.as_ref().map(|slots| format!("slots {slots}"))
    }
}

impl Passage {
    /// In words; an open link has none.
    fn told(&self) -> Option<String> {
        match self {
            Self::Open => None,
            Self::Cut(what) | Self::CutPorts(what) => Some(format!("cut ({what})")),
            Self::Frozen => Some("frozen".to_owned()),
        }
    }
}

/// Both directions between two datacenters, in the order of the picture.
struct Pair<'a> {
    /// Indexes of the datacenters.
    ends: [usize; 2],
    /// From the first to the second, and back.
    ways: [Option<&'a Link>; 2],
}

impl Pair<'_> {
    /// Whether both directions are there and alike.
    fn is_symmetric(&self) -> bool {
        let [Some(there), Some(back)] = self.ways else {
            return false;
        };
        there.conditions == back.conditions && there.state == back.state
    }
}

/// A replication, by the place of both ends: datacenter, node.
struct Edge {
    from: (usize, usize),
    to: (usize, usize),
    /// Number of its primary among all nodes that are replicated from.
    set: usize,
}

impl Picture {
    /// Datacenters that are linked, in the order of the picture.
    fn pairs(&self) -> Vec<Pair<'_>> {
        let names: Vec<&str> = self
            .datacenters
            .iter()
            .map(|datacenter| datacenter.name.as_str())
            .collect();
        let way = |from: &str, to: &str| self.links.iter().find(|link| link.from == from && link.to == to);
        let mut pairs = Vec::new();
        for (i, one) in names.iter().enumerate() {
            for (j, other) in names.iter().enumerate().skip(i + 1) {
                let ways = [way(one, other), way(other, one)];
                if ways.iter().any(Option::is_some) {
                    pairs.push(Pair { ends: [i, j], ways });
                }
            }
        }
        pairs
    }

    /// Who replicates whom, in the order of the replicas. What follows a node that is not drawn has no edge.
    fn edges(&self) -> Vec<Edge> {
        let mut sets: Vec<&str> = Vec::new();
        let mut edges = Vec::new();
        for (i, datacenter) in self.datacenters.iter().enumerate() {
            for (j, node) in datacenter.nodes.iter().enumerate() {
                let Some(upstream) = node.upstream.as_deref() else {
                    continue;
                };
                let Some(from) = self.place(upstream) else { continue };
                let set = sets.iter().position(|known| *known == upstream).unwrap_or_else(|| {
                    sets.push(upstream);
                    sets.len() - 1
                });
                edges.push(Edge { from, to: (i, j), set });
            }
        }
        edges
    }

    fn place(&self, name: &str) -> Option<(usize, usize)> {
        self.datacenters.iter().enumerate().find_map(|(i, datacenter)| {
            let j = datacenter.nodes.iter().position(|node| node.name == name)?;
            Some((i, j))
        })
    }
}

#[cfg(test)]
mod samples;
