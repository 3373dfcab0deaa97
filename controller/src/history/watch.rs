//! What a history keeps of the instrument itself: calibration before a block, beacons, relays and host during it. Measured,
//! never judged here; compact, since a block has thousands of beacons.

use super::BlockNumber;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{CpuSeen, RelayStatus};

/// A directed link measured before a block, at the delay in force, by datagrams between the probes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibrated {
    /// Number of the block.
    pub block: BlockNumber,
    /// Sending datacenter.
    pub from: String,
    /// Receiving datacenter.
    pub to: String,
    /// What the link was asked to be, one way, nanoseconds.
    pub asked_ns: u64,
    /// What it was: from the sender's stamp to the receiver's, nanoseconds, in the order of sending.
    pub one_way_ns: Vec<u64>,
    /// Round trips that did not come back.
    pub lost: u32,
}

/// What a probe and its host cost by themselves, before a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeSeen {
    /// Number of the block.
    pub block: BlockNumber,
    /// Datacenter of the probe.
    pub datacenter: String,
    /// Round trips of the probe with itself: its own share of every other one, nanoseconds.
    pub echo_ns: Vec<u64>,
    /// How long each sleep was asked to last, nanoseconds.
    pub sleep_ns: u64,
    /// By how much each was longer, nanoseconds.
    pub overslept_ns: Vec<u64>,
}

/// Processor time of the host of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSeen {
    /// Number of the block.
    pub block: BlockNumber,
    /// `before` (the calibration), `start` and `end` of the block.
    pub row: String,
    /// Datacenter of the probe that looked.
    pub datacenter: String,
    /// What it saw.
    pub cpu: CpuSeen,
}

/// State of a relay at the start of a block, at its end, and in between whenever more than what passes had changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelaySeen {
    /// Number of the block.
    pub block: BlockNumber,
    /// `start`, `changed` or `end`.
    pub row: String,
    /// How often it was asked since the start.
    pub looks: u32,
    /// What it said.
    pub status: RelayStatus,
}

/// A relay that did not answer during a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelayLost {
    /// Number of the block.
    pub block: BlockNumber,
    /// Datacenter that it serves.
    pub datacenter: String,
    /// What was tried, and what became of it.
    pub cause: String,
}

/// A node whose container ended during a block, or that could not be watched to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeLost {
    /// Number of the block.
    pub block: BlockNumber,
    /// The node.
    pub node: String,
    /// The engine's words on its end.
    pub cause: String,
}

/// Beacons of a directed link during a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Watched {
    /// Number of the block.
    pub block: BlockNumber,
    /// Sending datacenter.
    pub from: String,
    /// Receiving datacenter.
    pub to: String,
    /// Between two beacons, nanoseconds.
    pub interval_ns: u64,
    /// From when the receiver is known to have listened, CLOCK_MONOTONIC.
    pub heard_from_ns: u64,
    /// Until when.
    pub heard_until_ns: u64,
    /// Those that were sent, in order.
    pub beacons: Vec<Beacon>,
}

/// A beacon: when it should have been sent, in nanoseconds after the one before it (the first: CLOCK_MONOTONIC); how much
/// later it was sent; and how long after that it was received (`None`: it was not).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Beacon(pub u64, pub u64, pub Option<u64>);

/// A beacon in whole times, CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeaconTimes {
    /// When it should have been sent.
    pub intended_ns: u64,
    /// When it was.
    pub sent_ns: u64,
    /// When it was received (`None`: it was not).
    pub received_ns: Option<u64>,
}

impl Watched {
    /// The beacons in whole times.
    pub fn times(&self) -> impl Iterator<Item = BeaconTimes> {
        let mut intended_ns = 0_u64;
        self.beacons.iter().map(move |&Beacon(after, late, one_way)| {
            intended_ns = intended_ns.saturating_add(after);
            let sent_ns = intended_ns.saturating_add(late);
            BeaconTimes {
                intended_ns,
                sent_ns,
                received_ns: one_way.map(|one_way| sent_ns.saturating_add(one_way)),
            }
        })
    }

    /// Packs whole times, in the order of their intended ones.
    pub fn pack(times: impl IntoIterator<Item = BeaconTimes>) -> Vec<Beacon> {
        let mut before_ns = 0;
        let pack = |times: BeaconTimes| {
            let after = times.intended_ns.saturating_sub(before_ns);
            before_ns = times.intended_ns;
            Beacon(
                after,
                times.sent_ns.saturating_sub(times.intended_ns),
                times
                    .received_ns
                    .map(|received_ns| received_ns.saturating_sub(times.sent_ns)),
            )
        };
        times.into_iter().map(pack).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_beacons_are_the_same_beacons_in_few_bytes() {
        let times: Vec<BeaconTimes> = (0..1000)
            .map(|i| {
                let intended_ns = 7_000_000_000_000 + i * 20_000_000;
                let sent_ns = intended_ns + 25_000;
                BeaconTimes {
                    intended_ns,
                    sent_ns,
                    received_ns: (i % 10 != 0).then_some(sent_ns + 20_150_000),
                }
            })
            .collect();
        let watched = Watched {
            block: 1,
            from: "dc1".to_owned(),
            to: "dc2".to_owned(),
            interval_ns: 20_000_000,
            heard_from_ns: 0,
            heard_until_ns: u64::MAX,
            beacons: Watched::pack(times.iter().copied()),
        };
        assert_eq!(watched.times().collect::<Vec<_>>(), times);
        let text = serde_json::to_string(&watched).unwrap();
        assert!(text.len() < 30 * times.len(), "{}", text.len());
        assert_eq!(serde_json::from_str::<Watched>(&text).unwrap(), watched);
    }
}
