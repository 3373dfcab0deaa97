//! Every tolerance of the trust, with where it comes from. `controller/docs/why-a-table-is-void.md` has the measurements.
//!
//! Two kinds: what an intact instrument cannot do at all has no tolerance but the reading of clocks; what a busy host does to
//! an intact instrument has one, well above what a quiet machine shows.

/// A relay's answer carries the time just after a change was made; the change itself lies up to so much before it.
pub const STAMP_NS: u64 = 2_000_000;
/// A change of the path is confirmed by all relays before it is recorded: a look may see it up to so much earlier.
pub const RECORDED_NS: u64 = 500_000_000;
/// Reading of clocks on two cores: what is earlier than possible by more than this was early.
pub const CLOCK_NS: u64 = 20_000;
/// A packet that has not come so long after it should have left is not on its way any more.
pub const GUARD_NS: u64 = 50_000_000;

/// Median excess of a one-way time over the delay asked: suspect, and void. A quiet machine shows
/// 0.1 ms; between builds on both cores, before relays kept them awake, most blocks showed 0.25 to 0.4 ms.
pub const LONG_NS: [f64; 2] = [500_000.0, 1_500_000.0];
/// A single beacon counts as held up from this excess on.
pub const HELD_UP_NS: f64 = 2_000_000.0;
/// Share of beacons held up: suspect, and void.
pub const HELD_UP: [f64; 2] = [0.05, 0.25];
/// Fewest beacons of a stretch from which its length is judged.
pub const FEWEST: usize = 5;
/// Share of beacons lost while the link was up: void; any is suspect.
pub const LOST: f64 = 0.02;
/// Fewest beacons that must have come through before their absence says that the link was closed.
pub const FEWEST_LOST: usize = 3;
/// Below this rate a packet's own length and the traffic before it are a delay too, bits per second.
pub const SLOW_BITS_PER_S: u64 = 100_000_000;

/// How much too long a sleep of a millisecond may be: its median, and its p95. With both cores busy 0.03 and 0.1 ms were
/// seen; where there is more work than the scheduler can hide, the p95 is a tick of it, 4 ms.
pub const OVERSLEPT_NS: [f64; 2] = [500_000.0, 2_000_000.0];
/// By how much a beacon may be sent late, p95.
pub const SENT_LATE_NS: f64 = 2_000_000.0;
/// Share of the beacons that a probe must have sent.
pub const SENT: f64 = 0.9;
/// Share of the processor time that others may take while this program only calibrates.
pub const BUSY: f64 = 0.6;
/// Share of the processor time that a hypervisor may take during a block.
pub const STEAL: f64 = 0.03;
/// Round trip of a probe with itself, median.
pub const OVERHEAD_NS: f64 = 500_000.0;

/// Share of a block's tenths of a second in which a relay was overloaded. Where little passes, one packet that a busy host held
/// up makes such a tenth, so this alone never makes a table void.
pub const OVERLOADED: f64 = 0.05;
/// A relay writes a packet late from here on.
pub const WRITTEN_LATE_NS: u64 = 1_000_000;
/// Share of all packets of a block that were: suspect, and void.
pub const WRITTEN_LATE: [f64; 2] = [0.03, 0.25];

/// A round trip shorter than asked by more than this was not delayed; a median has no such error.
pub const ROUND_TRIP_EARLY_NS: f64 = 200_000.0;
/// A round trip longer than asked by more than this share and this much is not the link's: the host is busy.
pub const ROUND_TRIP_LATE: (f64, f64) = (0.1, 1_000_000.0);
/// Share of round trips that may be lost.
pub const ROUND_TRIP_LOST: f64 = 0.05;
