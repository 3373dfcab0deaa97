//! The words that controller, relay and probe share: JSON lines over the stdin and stdout of a container's
//! main process. Types only, no logic.
//!
//! Every order carries an id; the answer carries the same one. Several controllers can be attached to one
//! relay at once and each sees every answer, so ids are drawn at random and foreign answers are skipped.
//! Times are nanoseconds of CLOCK_MONOTONIC, which all containers of one engine share.

mod conditions;
mod half;
mod once;
mod path;
mod probe;
mod relay;
mod seen;

pub use conditions::{
    Action, Conditions, DEFAULT_QUEUE_BYTES, DEFAULT_RATE_BITS_PER_S, Jitter, JitterShape, Loss, MILLION, Reorder,
    Schedule, Step,
};
pub use half::{
    Access, Answers, HalfSeen, HalfWatch, LookRun, NodeLooks, NodeState, Outcome, OutcomeRun, Passing, PeerState,
};
pub use once::{FirstFile, FirstSeat, OnceOrder};
pub use path::{Nodelay, Path, StreamOrder, StreamSettings};
pub use probe::{
    Beacon, Bulk, Carried, CpuSeen, Failure, FromProbe, Load, Operation, Pace, ProbeAnswer, ProbeOrder, Reply, Sample,
    ToProbe, Transport, Written,
};
pub use relay::{
    AWAKE_DEVICE, Captured, CapturedPacket, CutKind, Defect, Fate, FromRelay, LATENESS_BOUNDS_NS, LinkCounters,
    LinkStatus, Mirror, PortCut, RelayAnswer, RelayConfig, RelayLinkConfig, RelayOrder, RelayStatus, StreamStatus,
    ToRelay,
};
pub use seen::{SocketsSeen, StreamRecord};

/// Order number; unique among all controllers attached at once (drawn at random).
pub type Id = u64;

/// Port on which every probe echoes datagrams and connections (see [`ProbeOrder::Echo`]) and takes beacons
/// ([`ProbeOrder::Beacons`]).
pub const ECHO_PORT: u16 = 7007;

/// Port on which a probe that was ordered to takes in bulk traffic ([`ProbeOrder::Sink`]).
pub const SINK_PORT: u16 = 7008;
