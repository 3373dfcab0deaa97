//! Orders to a relay, its state, and what it is told at its start.

use crate::{Conditions, Id, Path, Schedule, Step};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddrV4};

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
    /// What was asked for, or why the order was refused.
    pub result: Result<RelayAnswer, String>,
}

/// Answer of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelayAnswer {
    /// To every order but `TakeCapture` and `Flows`: the state right after it.
    Status(Box<RelayStatus>),
    /// To `TakeCapture`.
    Captured(Captured),
    /// To `Flows`: the end in the relay's datacenter, and the other.
    Flows(Vec<(SocketAddrV4, SocketAddrV4)>),
}

/// An order to a relay. Links are named by the datacenter they lead *to*: a relay only has outgoing links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RelayOrder {
    /// Only report the state.
    Show,
    /// Conditions for packets that arrive from now on; those in flight keep their deadline.
    Set {
        /// Far end of the link.
        to: String,
        /// All conditions.
        conditions: Conditions,
        /// Deliver what is in flight at once, in order, instead of letting it keep its deadline.
        flush: bool,
    },
    /// Cut the link: what arrives and what is held is destroyed, until `Heal`.
    Cut {
        /// Far end of the link.
        to: String,
        /// How.
        kind: CutKind,
    },
    /// Cut TCP ports of the link, and nothing else of it, until `Heal`: what arrives and what is held of their connections is
    /// destroyed. It takes the place of an earlier cut of ports and leaves one of the whole link alone.
    CutPorts {
        /// Far end of the link.
        to: String,
        /// How; `close` is no way to cut ports.
        kind: CutKind,
        /// Of either end of a connection (empty: end a cut of ports).
        ports: Vec<u16>,
    },
    /// End a cut, of the whole link and of ports.
    Heal {
        /// Far end of the link.
        to: String,
    },
    /// Let nothing pass; what arrives is kept up to the queue bound, until `Thaw`.
    Freeze {
        /// Far end of the link.
        to: String,
    },
    /// End a freeze: everything kept is delivered at once, in order, but nothing before its deadline.
    Thaw {
        /// Far end of the link.
        to: String,
    },
    /// Which way packets take through this relay.
    SetPath {
        /// The way.
        path: Path,
    },
    /// State of the opposite direction, which the far relay applies to packets. A relay in stream mode applies it itself to
    /// the connections that it terminates.
    Mirror {
        /// Far end of the link.
        to: String,
        /// The opposite direction.
        mirror: Mirror,
    },
    /// Carry out a schedule; one that is going on is replaced.
    Play {
        /// Far end of the link.
        to: String,
        /// The schedule.
        schedule: Schedule,
        /// Its start, by CLOCK_MONOTONIC: several relays start at one instant.
        start_ns: u64,
    },
    /// Forget the schedule; the link stays as it is.
    StopPlay {
        /// Far end of the link.
        to: String,
    },
    /// Begin to keep copies of what the link sees, or end it.
    Capture {
        /// Far end of the link.
        to: String,
        /// Most bytes kept of a packet (`None`: end the capture).
        snap_bytes: Option<u32>,
    },
    /// Take away what was captured since the last time.
    TakeCapture {
        /// Far end of the link.
        to: String,
        /// Most bytes of packets in one answer.
        most_bytes: u32,
    },
    /// Which TCP connections the link knows: those of which it saw a packet, but those that are over. It forgets one that was
    /// silent longest where too many meet (of 4096), until its next packet.
    Flows {
        /// Far end of the link.
        to: String,
    },
    /// Be wrong on purpose, without the state saying so: a negative control, by which the watch on the relays is itself
    /// examined.
    Sabotage {
        /// Far end of the link.
        to: String,
        /// How (`None`: be right again).
        defect: Option<Defect>,
    },
}

/// A defect on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Defect {
    /// Hold every packet so much longer than the conditions say.
    ExtraDelay {
        /// One way.
        delay_ns: u64,
    },
    /// Delay nothing any more.
    NoDelay,
    /// Let packets pass although the link is cut.
    LeakyCut,
}

/// The opposite direction of a link, as a relay in stream mode needs to know it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Mirror {
    /// One way.
    pub delay_ns: u64,
    /// The cut in force.
    pub cut: Option<CutKind>,
    /// Whether it is frozen.
    pub frozen: bool,
}

/// How a link is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CutKind {
    /// Packets vanish in silence.
    Drop,
    /// Both ends of each TCP connection get a reset, and so does who tries to connect.
    Reset,
    /// Every connection is ended in order (FIN) and new ones are refused; stream mode only.
    Close,
}

impl CutKind {
    /// As files and the command line write it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Reset => "reset",
            Self::Close => "close",
        }
    }
}

/// A cut of TCP ports; everything else passes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PortCut {
    /// How.
    pub kind: CutKind,
    /// Of either end of a connection; sorted, each once, never empty.
    pub ports: Vec<u16>,
    /// When it began.
    pub began_ns: u64,
    /// When it ended (`None`: it is in force).
    pub ended_ns: Option<u64>,
}

/// Through this device of the host a relay asks the kernel to keep cores awake. Without it delays are less exact.
pub const AWAKE_DEVICE: &str = "/dev/cpu_dma_latency";

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
    /// Most bytes that one link may hold, in flight, waiting and frozen together; what comes beyond is dropped and counted.
    pub queue_bytes: u64,
    /// TCP ports of all nodes, cluster bus and echo included: what stream mode terminates.
    pub ports: Vec<u16>,
    /// Which way packets take at the start.
    pub path: Path,
    /// Seed of everything random.
    pub seed: u64,
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
    /// Conditions at the start.
    pub conditions: Conditions,
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
    /// How much before its deadline a packet is released, since waking takes about as long: the calibration error.
    pub early_ns: u64,
    /// Scheduling class that the kernel granted, e.g. `deadline`, `nice -20`, `other`.
    pub scheduling: String,
    /// Whether the kernel keeps the machine's cores awake while packets are under way.
    #[serde(default)]
    pub keeps_awake: bool,
    /// Whether segmentation offload is active on the TUN device.
    pub offload: bool,
    /// Packets of the datacenter that no link leads to, dropped.
    #[serde(default)]
    pub dropped_no_link: u64,
    /// Packets of the datacenter that the TUN device dropped before the relay could read them: it is overloaded.
    #[serde(default)]
    pub dropped_unread: u64,
    /// Connections of stream mode.
    #[serde(default)]
    pub stream: Option<StreamStatus>,
    /// Outgoing links.
    pub links: Vec<LinkStatus>,
}

/// Connections that a relay in stream mode terminates, since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamStatus {
    /// Accepted.
    pub accepted: u64,
    /// Of these, open now.
    pub open: u64,
    /// Ended, or reset right after the handshake, because of a cut.
    pub cut: u64,
    /// Far end not reached.
    pub failed: u64,
    /// Ended because TCP_NODELAY read back otherwise than it was set.
    #[serde(default)]
    pub mismatched: u64,
    /// Portions of bytes delivered.
    pub portions: u64,
    /// Sum over these of (written - due), waiting for a receiver or a thaw not counted.
    #[serde(default)]
    pub lateness_sum_ns: u64,
    /// Largest lateness.
    #[serde(default)]
    pub lateness_max_ns: u64,
    /// Portions that were more than 1 ms late: if they are many, the relay is overloaded and its delay not true.
    #[serde(default)]
    pub late: u64,
    /// TCP_NODELAY of the near legs as read back from the last accepted connection's socket.
    pub nodelay_near: Option<bool>,
    /// The same of its far leg.
    pub nodelay_far: Option<bool>,
}

/// State of one outgoing link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkStatus {
    /// Far datacenter.
    pub to: String,
    /// Conditions in force for arriving packets.
    pub conditions: Conditions,
    /// The cut in force, of the whole link.
    pub cut: Option<CutKind>,
    /// When the last cut of the whole link began (`None`: never cut).
    pub last_cut_ns: Option<u64>,
    /// When the last cut ended (`None`: never, or still cut).
    pub last_heal_ns: Option<u64>,
    /// The last cut of ports, in force or ended.
    #[serde(default)]
    pub last_port_cut: Option<PortCut>,
    /// Whether it is frozen.
    #[serde(default)]
    pub frozen: bool,
    /// Start of the schedule that is going on.
    #[serde(default)]
    pub playing_since_ns: Option<u64>,
    /// What that does next, and when after its start; of a flap each cut and each heal is a step.
    #[serde(default)]
    pub next_step: Option<Step>,
    /// Whether copies of packets are kept.
    #[serde(default)]
    pub capturing: bool,
    /// What passed and what did not.
    pub counters: LinkCounters,
}

impl LinkStatus {
    /// A link that is up and has seen nothing yet.
    #[must_use]
    pub fn up(to: impl Into<String>, conditions: Conditions) -> Self {
        Self {
            to: to.into(),
            conditions,
            cut: None,
            last_cut_ns: None,
            last_heal_ns: None,
            last_port_cut: None,
            frozen: false,
            playing_since_ns: None,
            next_step: None,
            capturing: false,
            counters: LinkCounters::default(),
        }
    }

    /// The cut of ports in force.
    #[must_use]
    pub fn port_cut(&self) -> Option<&PortCut> {
        self.last_port_cut.as_ref().filter(|cut| cut.ended_ns.is_none())
    }
}

/// Upper bounds of the classes in which lateness is counted, nanoseconds; one more class is above the last.
pub const LATENESS_BOUNDS_NS: [u64; 13] = [
    10_000, 20_000, 50_000, 100_000, 200_000, 300_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
    20_000_000, 50_000_000,
];

/// Counters of one outgoing link since the relay started. A packet here is one read of the TUN device, with offload
/// up to 64 KiB of one flow; where conditions are [per packet](Conditions::per_packet), it is the packet on the wire.
/// Conservation: arrived + duplicated = forwarded + held + dropped, the last summed over all reasons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LinkCounters {
    /// Packets that arrived for this link.
    pub arrived_packets: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Second copies made.
    pub duplicated: u64,
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
    /// Packets destroyed because their port was cut, in flight included.
    pub dropped_ports: u64,
    /// Packets dropped because the link held as much as it may.
    pub dropped_queue: u64,
    /// Packets dropped because too much waited for its turn at the rate.
    pub dropped_rate: u64,
    /// Packets dropped because a frozen link held as much as it may: something was lost.
    pub dropped_frozen: u64,
    /// Packets dropped by chance, as the conditions say.
    pub dropped_loss: u64,
    /// Packets larger than the MTU; their senders were told.
    pub dropped_mtu: u64,
    /// Packets that the kernel refused to take back.
    pub dropped_write: u64,
    /// Packets of which a bit was flipped.
    pub corrupted: u64,
    /// Packets held back so that others overtake.
    pub reordered: u64,
    /// Resets sent to ends of connections.
    pub resets: u64,
    /// Sum over forwarded packets of (written - due), where positive.
    pub lateness_sum_ns: u64,
    /// Largest lateness.
    pub lateness_max_ns: u64,
    /// Forwarded packets by lateness; the bounds are [`LATENESS_BOUNDS_NS`].
    pub lateness: [u64; LATENESS_BOUNDS_NS.len() + 1],
    /// Tenths of a second in which more than one packet in a hundred was written more than 1 ms late: the relay was
    /// overloaded, and its delay not true.
    pub overloaded_tenths: u64,
}

/// Copies of what a link saw.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// In the order of their times.
    pub packets: Vec<CapturedPacket>,
    /// Packets that found no room since the last time.
    pub lost: u64,
    /// Whether there is more to take.
    pub more: bool,
}

/// Copy of a packet at one moment of its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedPacket {
    /// When, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// What became of it at that moment.
    pub fate: Fate,
    /// Its whole length, bytes.
    pub length: u32,
    /// Its first bytes from the IP header on, base64.
    pub bytes: String,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It arrived.
    Arrived,
    /// It left.
    Departed,
    /// Destroyed by a cut, on arrival or in flight.
    Cut,
    /// The same by a cut of its port.
    Ports,
    /// No room.
    Queue,
    /// No room to wait for its turn at the rate.
    Rate,
    /// No room while frozen.
    Frozen,
    /// Lost by chance.
    Loss,
    /// Larger than the MTU.
    Mtu,
    /// Refused by the kernel.
    Write,
    /// Made by the relay itself: a reset, or word of the MTU.
    Made,
}
