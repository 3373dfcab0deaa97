//! Copies of several directed links, told by relays bit by bit, as one pcapng file in the order of time.
//!
//! Pure: bytes out, no clock. A round is one look at every link, which tells all that was there when the look began. What
//! comes later therefore happened after the round began, and so after every packet of the round before: up to the latest of
//! those the packets can be put in order and written. Clocks are the caller's affair: it says for each link what is to be
//! added to its times.

use crate::names::DatacenterName;
use crate::pcapng::{Interface, Packet, Section, Statistics};
use std::collections::BTreeMap;
use wire::Fate;

/// What wrote the file.
const PROGRAM: &str = concat!("testbed ", env!("CARGO_PKG_VERSION"));

/// A directed link that is captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Direction {
    /// Sending side.
    pub from: DatacenterName,
    /// Receiving side.
    pub to: DatacenterName,
    /// What makes nanoseconds since 1970 of its relay's times.
    pub epoch_ns: u64,
}

/// A packet as a relay saw it at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// When, by the relay's clock.
    pub at_ns: u64,
    /// What became of it at that moment.
    pub fate: Fate,
    /// Bytes of the whole packet.
    pub length: u32,
    /// Its first bytes, from the IP header on.
    pub bytes: Vec<u8>,
}

/// What became of packets, as interfaces of the file tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Arrival,
    Departure,
    Drop,
    Made,
}

impl Class {
    const ALL: [Self; 4] = [Self::Arrival, Self::Departure, Self::Drop, Self::Made];

    fn of(fate: Fate) -> Self {
        match fate {
            Fate::Arrived => Self::Arrival,
            Fate::Departed => Self::Departure,
            Fate::Cut
            | Fate::Ports
            | Fate::Queue
            | Fate::Rate
            | Fate::Frozen
            | Fate::Loss
            | Fate::Mtu
            | Fate::Write => Self::Drop,
            Fate::Made => Self::Made,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Departure => "departure",
            Self::Drop => "drop",
            Self::Made => "made",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Arrival => "as the relay took them, before the delay",
            Self::Departure => "as the relay let them go, after the delay",
            Self::Drop => "destroyed; the comment says why",
            Self::Made => "made by the relay itself",
        }
    }
}

/// Comment on a packet (empty: its interface says all).
fn comment(fate: Fate) -> &'static str {
    match fate {
        Fate::Arrived | Fate::Departed => "",
        Fate::Cut => "dropped: cut",
        Fate::Ports => "dropped: its port is cut",
        Fate::Queue => "dropped: queue full",
        Fate::Rate => "dropped: queue of the rate limit full",
        Fate::Frozen => "dropped: frozen, queue full",
        Fate::Loss => "dropped: loss",
        Fate::Mtu => "dropped: larger than the MTU",
        Fate::Write => "dropped: refused by the kernel",
        Fate::Made => "made by the relay",
    }
}

/// How `fate` is called where packets are counted.
fn reason(fate: Fate) -> &'static str {
    match fate {
        Fate::Arrived => "arrived",
        Fate::Departed => "departed",
        Fate::Cut => "cut",
        Fate::Ports => "port cut",
        Fate::Queue => "queue",
        Fate::Rate => "rate",
        Fate::Frozen => "frozen",
        Fate::Loss => "loss",
        Fate::Mtu => "mtu",
        Fate::Write => "write",
        Fate::Made => "made",
    }
}

/// Packets of a directed link in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// That arrived.
    pub arrived: u64,
    /// That left.
    pub departed: u64,
    /// That were dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// That the relay made.
    pub made: u64,
    /// That are not in the file, of whatever fate: the relay had no room for them.
    pub lost: u64,
}

impl Counts {
    fn count(&mut self, fate: Fate) {
        match Class::of(fate) {
            Class::Arrival => self.arrived += 1,
            Class::Departure => self.departed += 1,
            Class::Drop => *self.dropped.entry(reason(fate)).or_default() += 1,
            Class::Made => self.made += 1,
        }
    }

    fn of(&self, class: Class) -> u64 {
        match class {
            Class::Arrival => self.arrived,
            Class::Departure => self.departed,
            Class::Drop => self.dropped.values().sum(),
            Class::Made => self.made,
        }
    }
}

/// A packet with its place in the order of time.
#[derive(Debug)]
struct Waiting {
    at_ns: u64,
    interface: u32,
    seen: Seen,
}

/// The file under way.
#[derive(Debug)]
pub struct Trace {
    directions: Vec<Direction>,
    counts: Vec<Counts>,
    waiting: Vec<Waiting>,
    /// Latest time of the rounds that are over, and of all.
    settled_ns: u64,
    latest_ns: u64,
}

impl Trace {
    /// A file without packets. What it begins with is appended to `file`; `subject` says of what it is.
    pub fn begin(directions: Vec<Direction>, subject: &str, snap_bytes: u32, file: &mut Vec<u8>) -> Self {
        let comment = format!(
            "{subject}. Each packet is seen when it arrives at the relay of the sending side and when it leaves it, or is \
             dropped; the interface says which. With segmentation offload one packet can be a burst of a flow of up to \
             64 KiB. Checksums that offload leaves open are completed in packets of which all bytes are kept, and left open \
             in others. Connections that a relay in stream mode terminates, and what the kernel forwards past a relay, are not \
             seen. Times are those of the relays' monotonic clock, put to the time of day when the capture began."
        );
        Section {
            program: PROGRAM,
            comment: &comment,
        }
        .write(file);
        for Direction { from, to, .. } in &directions {
            for class in Class::ALL {
                Interface {
                    name: &format!("{from}:{to} {}", class.word()),
                    description: &format!("packets from {from} to {to}, {}", class.description()),
                    snap_bytes,
                }
                .write(file);
            }
        }
        Self {
            counts: vec![Counts::default(); directions.len()],
            directions,
            waiting: Vec::new(),
            settled_ns: 0,
            latest_ns: 0,
        }
    }

    /// What the relay of the `direction`-th link told in this round.
    pub fn hear(&mut self, direction: usize, packets: impl IntoIterator<Item = Seen>, lost: u64) {
        self.counts[direction].lost += lost;
        let epoch_ns = self.directions[direction].epoch_ns;
        for seen in packets {
            self.counts[direction].count(seen.fate);
            let at_ns = epoch_ns.saturating_add(seen.at_ns);
            self.latest_ns = self.latest_ns.max(at_ns);
            self.waiting.push(Waiting {
                at_ns,
                interface: interface(direction, Class::of(seen.fate)),
                seen,
            });
        }
    }

    /// Ends a round: appends to `file` what can be put in order by now.
    pub fn end_round(&mut self, file: &mut Vec<u8>) {
        self.write_until(self.settled_ns, file);
        self.settled_ns = self.latest_ns;
    }

    /// Ends the file; nothing is heard any more.
    pub fn end(&mut self, file: &mut Vec<u8>) {
        self.write_until(u64::MAX, file);
        for (direction, counts) in self.counts.iter().enumerate() {
            for class in Class::ALL {
                let lost = if class == Class::Arrival { counts.lost } else { 0 };
                let comment = match lost {
                    0 => String::new(),
                    _ => format!("{lost} packets of this direction, of whatever fate, found no room and are missing"),
                };
                Statistics {
                    interface: interface(direction, class),
                    at_ns: self.latest_ns,
                    seen: counts.of(class) + lost,
                    lost,
                    comment: &comment,
                }
                .write(file);
            }
        }
    }

    /// Links in the order of their numbers, with what is in the file of each.
    pub fn counts(&self) -> impl Iterator<Item = (&Direction, &Counts)> {
        self.directions.iter().zip(&self.counts)
    }

    fn write_until(&mut self, end_ns: u64, file: &mut Vec<u8>) {
        // Stable: what one relay told of one instant stays in its order.
        self.waiting.sort_by_key(|waiting| waiting.at_ns);
        let settled = self.waiting.partition_point(|waiting| waiting.at_ns <= end_ns);
        for Waiting { at_ns, interface, seen } in self.waiting.drain(..settled) {
            Packet {
                interface,
                at_ns,
                length: seen.length,
                bytes: &seen.bytes,
                comment: comment(seen.fate),
            }
            .write(file);
        }
    }
}

/// Number of an interface in the file.
fn interface(direction: usize, class: Class) -> u32 {
    let place = Class::ALL.iter().position(|known| *known == class).unwrap_or_default();
    u32::try_from(direction * Class::ALL.len() + place).expect("a lab has fewer links than that")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both directions of a link; the second relay's clock is 1000 behind.
    fn begin(file: &mut Vec<u8>) -> Trace {
        let dc = |name: &str| DatacenterName::new(name).unwrap();
        let direction = |from, to, epoch_ns| Direction {
            from: dc(from),
            to: dc(to),
            epoch_ns,
        };
        let directions = vec![direction("dc1", "dc2", 5_000), direction("dc2", "dc1", 6_000)];
        Trace::begin(directions, "link dc1-dc2", 100, file)
    }

    fn seen(at_ns: u64, fate: Fate) -> Seen {
        Seen {
            at_ns,
            fate,
            length: 20,
            bytes: vec![0x45; 20],
        }
    }

    /// Blocks of a file: kind and body.
    fn blocks(file: &[u8]) -> Vec<(u32, &[u8])> {
        let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let (mut at, mut blocks) = (0, Vec::new());
        while at < file.len() {
            let length = number(at + 4) as usize;
            blocks.push((number(at), &file[at + 8..at + length - 4]));
            at += length;
        }
        blocks
    }

    /// Interface and time of every packet, in the order of the file.
    fn packets(file: &[u8]) -> Vec<(u32, u64)> {
        let packets = blocks(file).into_iter().filter(|(kind, _)| *kind == 6);
        let number = |body: &[u8], at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
        packets
            .map(|(_, body)| {
                (
                    number(body, 0),
                    u64::from(number(body, 4)) << 32 | u64::from(number(body, 8)),
                )
            })
            .collect()
    }

    fn has(file: &[u8], text: &str) -> bool {
        file.windows(text.len()).any(|window| window == text.as_bytes())
    }

    #[test]
    fn a_file_begins_with_four_interfaces_of_each_direction() {
        let mut file = Vec::new();
        begin(&mut file);
        let kinds: Vec<u32> = blocks(&file).iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 1, 1, 1, 1, 1, 1, 1]);
        for text in ["link dc1-dc2. Each", "dc1:dc2 arrival", "dc2:dc1 drop", "dc2:dc1 made"] {
            assert!(has(&file, text), "{text}");
        }
    }

    #[test]
    fn packets_of_both_directions_come_in_the_order_of_time_across_rounds() {
        let (mut head, mut file) = (Vec::new(), Vec::new());
        let mut trace = begin(&mut head);
        // In file time: 5010, 5040 | 6020.
        trace.hear(0, [seen(10, Fate::Arrived), seen(40, Fate::Departed)], 0);
        trace.hear(1, [seen(20, Fate::Arrived)], 0);
        trace.end_round(&mut file);
        assert!(file.is_empty(), "something earlier can still come");
        // 6030 | 6015, 6025: told later than the first round's 6020, although earlier than some of it.
        trace.hear(0, [seen(1030, Fate::Arrived)], 0);
        trace.hear(1, [seen(15, Fate::Arrived), seen(25, Fate::Cut)], 0);
        trace.end_round(&mut file);
        assert_eq!(packets(&file), [(0, 5010), (1, 5040), (4, 6015), (4, 6020)]);
        trace.end(&mut file);
        let all = [(0, 5010), (1, 5040), (4, 6015), (4, 6020), (6, 6025), (0, 6030)];
        assert_eq!(packets(&file), all);
    }

    #[test]
    fn what_happened_to_one_packet_at_one_instant_stays_in_its_order() {
        let mut file = Vec::new();
        let mut trace = begin(&mut Vec::new());
        trace.hear(
            0,
            [seen(10, Fate::Arrived), seen(10, Fate::Queue), seen(10, Fate::Made)],
            0,
        );
        trace.end(&mut file);
        assert_eq!(packets(&file), [(0, 5010), (2, 5010), (3, 5010)]);
        assert!(has(&file, "dropped: queue full") && has(&file, "made by the relay"));
    }

    #[test]
    fn every_fate_is_counted_and_what_is_lost_is_in_the_statistics() {
        let mut trace = begin(&mut Vec::new());
        let fates = [
            Fate::Arrived,
            Fate::Departed,
            Fate::Cut,
            Fate::Cut,
            Fate::Loss,
            Fate::Made,
        ];
        trace.hear(1, fates.map(|fate| seen(1, fate)), 7);
        trace.hear(1, [], 2);
        let mut file = Vec::new();
        trace.end(&mut file);
        let counts: Vec<&Counts> = trace.counts().map(|(_, counts)| counts).collect();
        assert_eq!(counts[0], &Counts::default());
        let dropped = BTreeMap::from([("cut", 2), ("loss", 1)]);
        assert_eq!(
            counts[1],
            &Counts {
                arrived: 1,
                departed: 1,
                dropped,
                made: 1,
                lost: 9
            }
        );
        let statistics: Vec<_> = blocks(&file).into_iter().filter(|(kind, _)| *kind == 5).collect();
        assert_eq!(statistics.len(), 8);
        assert!(has(statistics[4].1, "9 packets of this direction"), "{statistics:?}");
    }
}
