//! The TCP connections that cross a link, as far as a reset needs to know them: where each side is.
//!
//! Pure. One look-up for each packet that leaves, in a table of fixed size without a pointer in it; where five
//! connections meet in four places, the one that was silent longest is forgotten. A forgotten connection is reset
//! by its next packet instead of at the beginning of a cut. What must stay true: numbers of a connection only go up,
//! until a new one with the same ends begins.

use crate::packet::{Ipv4, Tcp, flag};
use crate::reset::Reset;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Places in a set; a connection's ends decide on its set.
const WAYS: usize = 4;
/// Sets: 4096 connections in all, 128 KiB, made with the first one.
const SETS: usize = 1024;
/// A tick of the coarse clock is 2^27 ns, an eighth of a second.
const TICK_BITS: u32 = 27;
/// A connection of which the near side has sent its end is over after so many ticks, a minute: both kernels have
/// forgotten it by then.
const OVER_TICKS: u32 = 447;

/// Connections of one link.
#[derive(Debug, Default)]
pub struct Flows {
    sets: Vec<[Flow; WAYS]>,
}

/// Both ends of a connection, as they stand in its packets: addresses and ports, the near ones first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ends {
    addresses: u64,
    ports: u32,
}

/// Where a connection is.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    ends: Ends,
    /// Next number of the near side, as what left the link says.
    released: u32,
    /// The same of what arrived and never left.
    destroyed: u32,
    /// Next number that the near side expects.
    acknowledged: u32,
    /// When the last packet was noted, in ticks.
    noted: u32,
    state: u8,
}

/// The place is taken.
const TAKEN: u8 = 1;
/// `acknowledged` is valid.
const ACKNOWLEDGED: u8 = 2;
/// `released` is valid.
const RELEASED: u8 = 4;
/// `destroyed` is valid.
const DESTROYED: u8 = 8;
/// The near side has no more to send.
const ENDING: u8 = 16;

impl Flows {
    /// Note a packet that leaves the link at `now_ns`.
    #[inline]
    pub fn note_released(&mut self, now_ns: u64, packet: &[u8]) {
        let Some((ends, tcp)) = read(packet) else {
            return;
        };
        const NEITHER: u8 = flag::SYN | flag::RST | flag::FIN;
        const KNOWN: u8 = TAKEN | ACKNOWLEDGED | RELEASED;
        // Nearly every packet is one of the middle of a known connection.
        if tcp.flags & (NEITHER | flag::ACK) == flag::ACK
            && let Some(set) = self.sets.get_mut(ends.set())
            && let Some(flow) = set.iter_mut().find(|flow| flow.ends == ends)
            && flow.state & KNOWN == KNOWN
        {
            flow.released = later(flow.released, tcp.next_sequence());
            flow.acknowledged = later(flow.acknowledged, tcp.acknowledgement);
            flow.noted = tick(now_ns);
            return;
        }
        if let Some(flow) = self.note(now_ns, ends, &tcp) {
            flow.released = known_or_later(&mut flow.state, RELEASED, flow.released, tcp.next_sequence());
        }
    }

    /// Note a packet that arrived and will never leave.
    pub fn note_destroyed(&mut self, now_ns: u64, packet: &[u8]) {
        if let Some((ends, tcp)) = read(packet)
            && let Some(flow) = self.note(now_ns, ends, &tcp)
        {
            flow.destroyed = known_or_later(&mut flow.state, DESTROYED, flow.destroyed, tcp.next_sequence());
        }
    }

    /// Forget all connections; returns a reset for each end of each.
    pub fn reset(&mut self, now_ns: u64) -> impl Iterator<Item = Reset> + use<> {
        let now = tick(now_ns);
        let flows = std::mem::take(&mut self.sets).into_iter().flatten();
        flows
            .filter(move |flow| flow.state & TAKEN != 0 && !flow.is_over(now))
            .flat_map(|flow| [Some(flow.reset_near()), flow.reset_far()].into_iter().flatten())
    }

    /// The connections that are known and not over, the near end first.
    pub fn known(&self, now_ns: u64) -> Vec<(SocketAddrV4, SocketAddrV4)> {
        let now = tick(now_ns);
        let flows = self.sets.iter().flatten();
        let known = flows.filter(|flow| flow.state & TAKEN != 0 && !flow.is_over(now));
        known.map(|flow| (flow.ends.near(), flow.ends.far())).collect()
    }

    /// Forget the connections with one of these ports at an end; returns a reset for each end of each.
    pub fn reset_ports(&mut self, now_ns: u64, ports: &[u16]) -> Vec<Reset> {
        let now = tick(now_ns);
        let mut resets = Vec::new();
        for flow in self.sets.iter_mut().flatten() {
            let ends = [flow.ends.near().port(), flow.ends.far().port()];
            if flow.state & TAKEN != 0 && ends.iter().any(|port| ports.contains(port)) {
                if !flow.is_over(now) {
                    resets.push(flow.reset_near());
                    resets.extend(flow.reset_far());
                }
                *flow = Flow::default();
            }
        }
        resets
    }

    /// What is known of a connection after this packet, but for its numbers, unless the packet ended it.
    #[cold]
    fn note(&mut self, now_ns: u64, ends: Ends, tcp: &Tcp) -> Option<&mut Flow> {
        if self.sets.is_empty() {
            self.sets = vec![[Flow::default(); WAYS]; SETS];
        }
        let set = &mut self.sets[ends.set()];
        let known = set.iter().position(|flow| flow.ends == ends);
        if tcp.has(flag::RST) {
            if let Some(at) = known {
                set[at] = Flow::default();
            }
            return None;
        }
        let oldest = |set: &[Flow; WAYS]| (0..WAYS).min_by_key(|at| (set[*at].state & TAKEN, set[*at].noted));
        let flow = &mut set[known.or_else(|| oldest(set)).expect("a set has places")];
        if known.is_none() || tcp.has(flag::SYN) {
            *flow = Flow {
                ends,
                state: TAKEN,
                ..Flow::default()
            };
        }
        flow.noted = tick(now_ns);
        if tcp.has(flag::ACK) {
            flow.acknowledged = known_or_later(&mut flow.state, ACKNOWLEDGED, flow.acknowledged, tcp.acknowledgement);
        }
        if tcp.has(flag::FIN) {
            flow.state |= ENDING;
        }
        Some(flow)
    }
}

impl Ends {
    fn set(self) -> usize {
        // Multiplicative hashing: the upper bits of a product with an odd number depend on all bits below.
        let ports = u64::from(self.ports).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.addresses ^ ports).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        usize::try_from(mixed >> (u64::BITS - SETS.ilog2())).expect("it has as many bits as there are sets")
    }

    fn near(self) -> SocketAddrV4 {
        let [a, b, c, d, ..] = self.addresses.to_ne_bytes();
        let [high, low, ..] = self.ports.to_ne_bytes();
        SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]))
    }

    fn far(self) -> SocketAddrV4 {
        let [.., a, b, c, d] = self.addresses.to_ne_bytes();
        let [.., high, low] = self.ports.to_ne_bytes();
        SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]))
    }
}

impl Flow {
    fn is_over(&self, now: u32) -> bool {
        self.state & ENDING != 0 && now.wrapping_sub(self.noted) > OVER_TICKS
    }

    /// The next number of the near side, as it sees it itself.
    fn sent(&self) -> u32 {
        match (self.state & RELEASED != 0, self.state & DESTROYED != 0) {
            (true, true) => later(self.released, self.destroyed),
            (true, false) => self.released,
            (false, _) => self.destroyed,
        }
    }

    /// To the near side, as if the far one sent it. The acknowledgement is for one that still waits for its connection.
    fn reset_near(&self) -> Reset {
        Reset {
            from: self.ends.far(),
            to: self.ends.near(),
            sequence: self.acknowledged,
            acknowledgement: Some(self.sent()),
        }
    }

    /// To the far side, as if the near one sent it; not if that side cannot know of the connection.
    fn reset_far(&self) -> Option<Reset> {
        let known = self.state & (RELEASED | ACKNOWLEDGED) != 0;
        known.then(|| Reset {
            from: self.ends.near(),
            to: self.ends.far(),
            sequence: if self.state & RELEASED != 0 {
                self.released
            } else {
                self.destroyed
            },
            acknowledgement: (self.state & ACKNOWLEDGED != 0).then_some(self.acknowledged),
        })
    }
}

#[inline]
fn read(packet: &[u8]) -> Option<(Ends, Tcp)> {
    let packet = Ipv4::read(packet)?;
    let tcp = Tcp::read(&packet)?;
    let ends = Ends {
        addresses: u64::from_ne_bytes(*packet.addresses().first_chunk()?),
        ports: u32::from_ne_bytes(*packet.payload().first_chunk()?),
    };
    Some((ends, tcp))
}

/// The first number, or the later of two; afterwards it is valid.
fn known_or_later(state: &mut u8, valid: u8, known: u32, new: u32) -> u32 {
    let first = *state & valid == 0;
    *state |= valid;
    if first { new } else { later(known, new) }
}

/// The later of two numbers that wrap.
fn later(one: u32, two: u32) -> u32 {
    if two.wrapping_sub(one).cast_signed() > 0 {
        two
    } else {
        one
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "it wraps after eighteen years, and so do differences of it"
)]
fn tick(now_ns: u64) -> u32 {
    (now_ns >> TICK_BITS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{FAR, FAR_PORT, NEAR, NEAR_PORT, tcp, tcp_from};

    const SECOND: u64 = 1_000_000_000;

    fn near() -> SocketAddrV4 {
        SocketAddrV4::new(NEAR, NEAR_PORT)
    }

    fn far() -> SocketAddrV4 {
        SocketAddrV4::new(FAR, FAR_PORT)
    }

    /// Number and acknowledgement of the resets to the near and to the far side.
    fn resets(flows: &mut Flows, now_ns: u64) -> [Option<(u32, Option<u32>)>; 2] {
        let resets: Vec<_> = flows.reset(now_ns).collect();
        [near(), far()].map(|to| {
            let mut there = resets.iter().filter(|reset| reset.to == to);
            let found = there.next().map(|reset| (reset.sequence, reset.acknowledgement));
            assert_eq!(there.next(), None);
            found
        })
    }

    #[test]
    fn each_side_is_reset_with_the_number_that_it_expects() {
        let mut flows = Flows::default();
        flows.note_released(0, &tcp(100, 0, flag::SYN, b""));
        flows.note_released(1, &tcp(101, 501, flag::ACK, b""));
        flows.note_released(2, &tcp(101, 501, flag::ACK | flag::PSH, b"hello"));
        // Sent again, with an old acknowledgement: nobody steps back.
        flows.note_released(3, &tcp(101, 480, flag::ACK, b"he"));
        flows.note_destroyed(4, &tcp(106, 530, flag::ACK, b"in flight"));
        assert_eq!(resets(&mut flows, 5), [Some((530, Some(115))), Some((106, Some(530)))]);
        assert_eq!(resets(&mut flows, 6), [None, None]);
    }

    #[test]
    fn what_is_known_are_connections_that_are_not_over_whether_a_packet_of_them_passed_or_not() {
        let mut flows = Flows::default();
        assert_eq!(flows.known(0), []);
        flows.note_released(0, &tcp(101, 501, flag::ACK, b""));
        flows.note_destroyed(0, &tcp_from(NEAR_PORT + 1, 7, 9, flag::ACK, b""));
        let mut known = flows.known(1);
        known.sort();
        assert_eq!(
            known,
            [(near(), far()), (SocketAddrV4::new(NEAR, NEAR_PORT + 1), far())]
        );
        flows.note_released(2, &tcp(101, 501, flag::RST, b""));
        assert_eq!(flows.known(3).len(), 1);
        flows.note_released(4, &tcp_from(NEAR_PORT + 1, 7, 9, flag::ACK | flag::FIN, b""));
        assert_eq!(flows.known(SECOND).len(), 1, "the far side may still send");
        assert_eq!(flows.known(100 * SECOND), []);
    }

    #[test]
    fn only_connections_of_the_ports_are_reset_when_ports_are_named() {
        let mut flows = Flows::default();
        flows.note_released(0, &tcp(101, 501, flag::ACK, b""));
        flows.note_released(0, &tcp_from(NEAR_PORT + 1, 7, 9, flag::ACK, b""));
        assert_eq!(flows.reset_ports(1, &[1]), []);
        let to: Vec<_> = flows.reset_ports(1, &[NEAR_PORT]).iter().map(|it| it.to).collect();
        assert_eq!(to, [near(), far()]);
        let rest = flows.reset_ports(1, &[FAR_PORT]);
        assert_eq!(rest[0].to.port(), NEAR_PORT + 1);
        assert_eq!((rest.len(), resets(&mut flows, 2)), (2, [None, None]));
    }

    #[test]
    fn numbers_go_up_across_their_wrap() {
        let mut flows = Flows::default();
        flows.note_released(0, &tcp(u32::MAX - 1, u32::MAX, flag::ACK, b"wraps"));
        flows.note_released(1, &tcp(3, 2, flag::ACK, b""));
        assert_eq!(resets(&mut flows, 2), [Some((2, Some(3))), Some((3, Some(2)))]);
    }

    #[test]
    fn who_still_dials_is_told_and_the_far_side_that_saw_nothing_is_not() {
        let mut flows = Flows::default();
        flows.note_destroyed(0, &tcp(100, 0, flag::SYN, b""));
        assert_eq!(resets(&mut flows, 1), [Some((0, Some(101))), None]);
        // Dialled by the far side, which waits for this answer.
        flows.note_destroyed(0, &tcp(700, 101, flag::SYN | flag::ACK, b""));
        assert_eq!(resets(&mut flows, 1), [Some((101, Some(701))), Some((701, Some(101)))]);
    }

    #[test]
    fn a_new_connection_between_old_ends_begins_anew() {
        let mut flows = Flows::default();
        flows.note_released(0, &tcp(4_000_000_000, 4_000_000_000, flag::ACK, b"old"));
        flows.note_released(1, &tcp(5, 0, flag::SYN, b""));
        flows.note_released(2, &tcp(6, 9, flag::ACK, b""));
        assert_eq!(resets(&mut flows, 3), [Some((9, Some(6))), Some((6, Some(9)))]);
    }

    #[test]
    fn a_reset_connection_is_forgotten_at_once_and_an_ended_one_after_a_minute() {
        let mut flows = Flows::default();
        flows.note_released(0, &tcp(1, 1, flag::ACK, b""));
        flows.note_released(0, &tcp(1, 0, flag::RST, b""));
        assert_eq!(resets(&mut flows, 1), [None, None]);
        for (later_ns, known) in [(59 * SECOND, true), (61 * SECOND, false)] {
            flows.note_released(0, &tcp(1, 1, flag::ACK | flag::FIN, b""));
            assert_eq!(resets(&mut flows, later_ns)[0].is_some(), known);
        }
        flows.note_released(0, &tcp(1, 1, flag::ACK, b""));
        assert!(
            resets(&mut flows, 86_400 * SECOND)[0].is_some(),
            "an idle connection is no ended one"
        );
    }

    #[test]
    fn the_table_is_bounded_and_forgets_those_silent_longest() {
        let mut flows = Flows::default();
        for port in 0..50_000 {
            flows.note_released(u64::from(port) * SECOND, &tcp_from(port, 1, 1, flag::ACK, b""));
        }
        let ports: Vec<_> = flows
            .reset(50_000 * SECOND)
            .filter(|reset| reset.to.ip() == &NEAR)
            .map(|reset| reset.to.port())
            .collect();
        assert!(ports.len() <= SETS * WAYS);
        assert!(
            ports.len() > SETS * WAYS * 9 / 10,
            "the ends are spread badly: {}",
            ports.len()
        );
        // A hundred sets' worth of the latest: none of them was forgotten for an older one.
        assert!((49_900..50_000).all(|port| ports.contains(&port)));
    }

    #[test]
    fn what_is_no_segment_is_no_connection() {
        let mut flows = Flows::default();
        flows.note_released(0, &[]);
        flows.note_released(0, &crate::sample::udp(b"datagram"));
        let mut piece = tcp(1, 1, flag::ACK, b"");
        piece[7] = 1;
        flows.note_released(0, &piece);
        assert_eq!(flows.reset(1).count(), 0);
    }
}
