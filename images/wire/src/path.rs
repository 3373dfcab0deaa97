//! The way of packets through a relay, and how stream mode treats connections.

use serde::{Deserialize, Serialize};

/// The way of packets through a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Through the TUN device and the delay line.
    Tun,
    /// Forwarded by the kernel; no condition applies. It exists to measure what the relay itself costs.
    Kernel,
    /// TCP connections that are dialled from this datacenter to a port of the topology's nodes are terminated here and
    /// their bytes delayed, in both directions; everything else goes through the TUN device.
    Stream(StreamSettings),
}

/// How a relay in stream mode treats connections. New settings hold for new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamSettings {
    /// What happens to a portion of bytes while another is being delayed.
    pub order: StreamOrder,
    /// TCP_NODELAY of the relay's own sockets.
    pub nodelay: Nodelay,
}

/// What a wire does: pipelined, without waiting for more to send.
impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            order: StreamOrder::Pipelined,
            nodelay: Nodelay::On,
        }
    }
}

/// Order of portions; a portion is what one read of a socket gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StreamOrder {
    /// Each portion is delayed from its own arrival: what a wire does.
    Pipelined,
    /// The delay of a portion begins when the one before it has left.
    Serialising,
}

impl StreamOrder {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Pipelined, Self::Serialising];

    /// As files and the command line write it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pipelined => "pipelined",
            Self::Serialising => "serialising",
        }
    }
}

/// On which legs of a terminated connection TCP_NODELAY is set. The near leg is that to the node that dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Nodelay {
    /// On both.
    On,
    /// On none.
    Off,
    /// On the near leg only.
    NearLeg,
    /// On the far leg only.
    FarLeg,
}

impl Nodelay {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::On, Self::Off, Self::NearLeg, Self::FarLeg];

    /// As files and the command line write it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::NearLeg => "near-leg",
            Self::FarLeg => "far-leg",
        }
    }
}
