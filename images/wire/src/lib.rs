//! The words that controller, relay and probe share: JSON lines over the stdin and stdout of a container's
//! main process. Types only, no logic.
//!
//! Every order carries an id; the answer carries the same one. Several controllers can be attached to one
//! relay at once and each sees every answer, so ids are drawn at random and foreign answers are skipped.
//! Times are nanoseconds of CLOCK_MONOTONIC, which all containers of one engine share.

mod probe;
mod relay;

pub use probe::{Failure, FromProbe, Load, Operation, Pace, ProbeAnswer, ProbeOrder, Reply, Sample, ToProbe, Written};
pub use relay::{
    CutKind, FromRelay, LinkCounters, LinkStatus, Path, RelayConfig, RelayLinkConfig, RelayOrder, RelayStatus, ToRelay,
};

/// Order number; unique among all controllers attached at once (drawn at random).
pub type Id = u64;

/// UDP port on which every probe echoes (see [`ProbeOrder::Echo`]).
pub const ECHO_PORT: u16 = 7007;
