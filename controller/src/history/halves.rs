//! What a history holds of a cluster whose halves were parted: how it was placed, what each half's own probe saw, what was
//! there afterwards.

use super::{BlockNumber, History, What};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{HalfSeen, Outcome};

/// A cluster as it was placed before its halves were parted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterPlaced {
    /// Number of the block.
    pub block: BlockNumber,
    /// Row.
    pub row: String,
    /// How its halves are parted.
    pub parting: Parting,
    /// Datacenter with most of the masters.
    pub home: String,
    /// The other datacenter.
    pub away: String,
    /// Its nodes.
    pub nodes: Vec<NodePlaced>,
    /// Ranges of slots that are asked for, one per master, in the order of [`wire::Answers::range`].
    pub ranges: Vec<RangePlaced>,
    /// `cluster-node-timeout`, milliseconds.
    pub node_timeout_ms: u64,
    /// Settings that could decide, with their values.
    pub settings: Vec<(String, String)>,
}

/// How two halves of a cluster are parted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Parting {
    /// By a cut of the link, in both directions.
    Cut,
    /// By stopping the nodes of `home`: only `away` can be asked.
    HomeStopped,
    /// By stopping the nodes of `away`.
    AwayStopped,
}

/// A node of a cluster and its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodePlaced {
    /// Node.
    pub node: String,
    /// Datacenter.
    pub datacenter: String,
    /// `address:port`.
    pub address: String,
    /// Slots of a master; empty for a replica.
    pub slots: String,
    /// Master of a replica.
    pub of: Option<String>,
}

/// A range of slots and the keys by which it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RangePlaced {
    /// e.g. `0-5460`.
    pub slots: String,
    /// Its master before the parting.
    pub master: String,
    /// Hash tags of the keys.
    pub tags: Vec<String>,
}

/// What the probe of a datacenter saw of its half, from before the parting until after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HalfWatched {
    /// Number of the block.
    pub block: BlockNumber,
    /// Row.
    pub row: String,
    /// Datacenter.
    pub datacenter: String,
    /// What it saw.
    pub seen: HalfSeen,
}

/// Writes of one node and range that were found on the owners of the slots after all nodes agreed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Number of the block.
    pub block: BlockNumber,
    /// Row.
    pub row: String,
    /// Datacenter whose probe wrote.
    pub datacenter: String,
    /// Node that was written to.
    pub node: String,
    /// Number of the range.
    pub range: u32,
    /// Numbers that were looked for: all that were acknowledged.
    pub looked_for: u32,
    /// Numbers found, as first and last of each stretch.
    pub found: Vec<(u32, u32)>,
}

/// Keys asked of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeysAsked {
    /// Number of the block.
    pub block: BlockNumber,
    /// Row: the setting in force.
    pub row: String,
    /// Node.
    pub node: String,
    /// Whether the connection had said READONLY.
    pub readonly: bool,
    /// `cluster_state` of the node right before.
    pub cluster_state: String,
    /// The keys.
    pub keys: Vec<KeyAsked>,
}

/// A key and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyAsked {
    /// The key.
    pub key: String,
    /// Its slot, as testbed computes it.
    pub slot: u16,
    /// GET.
    pub read: Outcome,
    /// SET.
    pub write: Outcome,
}

impl Kept {
    /// Whether a write was found.
    #[must_use]
    pub fn has(&self, number: u32) -> bool {
        self.found.iter().any(|&(first, last)| (first..=last).contains(&number))
    }

    /// Ascending numbers as stretches.
    #[must_use]
    pub fn stretches(numbers: impl IntoIterator<Item = u32>) -> Vec<(u32, u32)> {
        let mut stretches: Vec<(u32, u32)> = Vec::new();
        for number in numbers {
            match stretches.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => stretches.push((number, number)),
            }
        }
        stretches
    }
}

impl ClusterPlaced {
    /// Datacenter whose nodes are stopped, where that is how the halves are parted.
    #[must_use]
    pub fn stopped(&self) -> Option<&str> {
        match self.parting {
            Parting::Cut => None,
            Parting::HomeStopped => Some(&self.home),
            Parting::AwayStopped => Some(&self.away),
        }
    }

    /// Value of a setting.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl History {
    /// Placement of a block's row; of several the last.
    #[must_use]
    pub fn placed(&self, block: BlockNumber, row: &str) -> Option<&ClusterPlaced> {
        self.events.iter().rev().find_map(|event| match &event.what {
            What::ClusterPlaced(placed) if placed.block == block && placed.row == row => Some(placed.as_ref()),
            _ => None,
        })
    }

    /// What the probe of a datacenter saw of its half; of several the last.
    #[must_use]
    pub fn half(&self, block: BlockNumber, row: &str, datacenter: &str) -> Option<&HalfWatched> {
        self.events.iter().rev().find_map(|event| match &event.what {
            What::HalfWatched(half) if half.block == block && half.row == row && half.datacenter == datacenter => {
                Some(half.as_ref())
            }
            _ => None,
        })
    }

    /// What was kept of the writes of a row, of each node and range the last.
    #[must_use]
    pub fn kept(&self, block: BlockNumber, row: &str) -> Vec<&Kept> {
        let mut all: Vec<&Kept> = Vec::new();
        for event in &self.events {
            if let What::Kept(kept) = &event.what
                && kept.block == block
                && kept.row == row
            {
                all.retain(|known| (&known.node, known.range) != (&kept.node, kept.range));
                all.push(kept);
            }
        }
        all
    }

    /// Keys asked in a row, of each node and kind of connection the last.
    #[must_use]
    pub fn asked(&self, block: BlockNumber, row: &str) -> Vec<&KeysAsked> {
        let mut all: Vec<&KeysAsked> = Vec::new();
        for event in &self.events {
            if let What::KeysAsked(asked) = &event.what
                && asked.block == block
                && asked.row == row
            {
                all.retain(|known| (&known.node, known.readonly) != (&asked.node, asked.readonly));
                all.push(asked);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_as_stretches() {
        assert_eq!(Kept::stretches([]), []);
        assert_eq!(Kept::stretches([3, 4, 5, 7, 9, 10]), [(3, 5), (7, 7), (9, 10)]);
    }
}
