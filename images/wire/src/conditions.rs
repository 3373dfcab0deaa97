//! Conditions of a directed link, and a schedule of changes. Probabilities are parts per million: exact, and equal
//! to themselves in every language.

use crate::CutKind;
use serde::{Deserialize, Serialize};

/// Parts in a probability of 1.
pub const MILLION: u32 = 1_000_000;
/// Rate of a link of which nothing is said, bits per second: well below what a relay can carry, since a delay is only
/// true there.
pub const DEFAULT_RATE_BITS_PER_S: u64 = 2_000_000_000;
/// Bytes that may wait for their turn at that rate.
pub const DEFAULT_QUEUE_BYTES: u64 = 8 << 20;

/// What a link does to packets that arrive. A change holds for packets that arrive after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// One way; with jitter its mean or, for a table, what is added to.
    pub delay_ns: u64,
    /// Variation of the delay from packet to packet.
    #[serde(default)]
    pub jitter: Option<Jitter>,
    /// Packets that vanish.
    #[serde(default)]
    pub loss: Option<Loss>,
    /// Probability that a packet arrives twice, parts per million.
    #[serde(default)]
    pub duplicate_ppm: u32,
    /// Packets that are overtaken.
    #[serde(default)]
    pub reorder: Option<Reorder>,
    /// Probability that one bit behind the IP header is flipped, parts per million.
    #[serde(default)]
    pub corrupt_ppm: u32,
    /// Bits per second, IP header included (`None`: no limit).
    pub rate_bits_per_s: Option<u64>,
    /// Bytes that may wait for their turn at the rate; what comes beyond is dropped.
    pub queue_bytes: u64,
    /// Largest IP packet, bytes; a larger one is dropped and its sender told, as a router does (`None`: the network's own).
    #[serde(default)]
    pub mtu: Option<u16>,
}

impl Conditions {
    /// A constant delay at the default rate, and nothing else.
    #[must_use]
    pub fn delay(delay_ns: u64) -> Self {
        Self {
            delay_ns,
            jitter: None,
            loss: None,
            duplicate_ppm: 0,
            reorder: None,
            corrupt_ppm: 0,
            rate_bits_per_s: Some(DEFAULT_RATE_BITS_PER_S),
            queue_bytes: DEFAULT_QUEUE_BYTES,
            mtu: None,
        }
    }

    /// Whether the unit must be the packet on the wire and not the offload's burst of up to 64 KiB.
    #[must_use]
    pub fn per_packet(&self) -> bool {
        self.loss.is_some()
            || self.duplicate_ppm > 0
            || self.reorder.is_some()
            || self.corrupt_ppm > 0
            || self.mtu.is_some()
    }
}

/// Variation of a delay. A delay is never below zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// How it is distributed.
    pub shape: JitterShape,
    /// Whether a packet with a shorter delay may overtake; if not, it leaves with the one before it.
    #[serde(default)]
    pub reorder: bool,
}

/// Distribution of a variation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JitterShape {
    /// Evenly from -spread to +spread.
    Uniform {
        /// Largest deviation.
        spread_ns: u64,
    },
    /// Normal around 0.
    Normal {
        /// Standard deviation.
        deviation_ns: u64,
    },
    /// Pareto with shape 3, moved so that its mean is 0: a long tail of late packets.
    Pareto {
        /// Standard deviation.
        deviation_ns: u64,
    },
    /// One of these, each as likely, is added to the delay.
    Table {
        /// Measured excesses.
        added_ns: Vec<u64>,
    },
}

/// Packets that vanish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Share of all packets in the long run, parts per million.
    pub ppm: u32,
    /// Mean length of a run of lost packets, thousandths of a packet: 1000 is independent loss, more is bursty
    /// (Gilbert's model with two states).
    pub burst_milli: u32,
}

/// Packets that are overtaken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Probability that a packet is held back, parts per million.
    pub ppm: u32,
    /// How long, beyond its delay.
    pub by_ns: u64,
}

/// Changes of a directed link, planned beforehand. The relay carries it out by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// In the order of their times.
    pub steps: Vec<Step>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// After the start of the schedule.
    pub at_ns: u64,
    /// What.
    pub action: Action,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Cut.
    Cut {
        /// How.
        kind: CutKind,
    },
    /// End a cut.
    Heal,
    /// Let nothing pass and lose nothing.
    Freeze,
    /// End a freeze.
    Thaw,
    /// New conditions.
    Set {
        /// All of them.
        conditions: Box<Conditions>,
    },
    /// Cut at the step's time, heal one period later, and so on. Ends healed.
    Flap {
        /// How it is cut.
        kind: CutKind,
        /// Period: so long cut, so long up.
        every_ns: u64,
        /// After the start of the schedule (`None`: until told otherwise).
        until_ns: Option<u64>,
    },
}
