//! Segments that end a TCP connection, made by the relay in the name of its ends.
//!
//! Pure. A reset only counts at its receiver with the number that the receiver expects. Where the relay knows it, the
//! connection is over at once; where it is wrong, the receiver asks with the right one (a challenge), and the relay's
//! answer to that ends it.

use crate::checksum;
use crate::packet::{IPV4_HEADER_LEN, Ipv4, TCP, TCP_HEADER_LEN, Tcp, flag};
use std::net::SocketAddrV4;

/// Bytes of a reset: both headers and nothing else.
pub const RESET_LEN: usize = IPV4_HEADER_LEN + TCP_HEADER_LEN;
/// Hops that a reset may take.
const TTL: u8 = 64;

/// A segment that ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reset {
    /// In whose name.
    pub from: SocketAddrV4,
    /// To whom.
    pub to: SocketAddrV4,
    /// Its number.
    pub sequence: u32,
    /// What it acknowledges.
    pub acknowledgement: Option<u32>,
}

impl Reset {
    /// The answer to a segment for which there is no connection, as TCP prescribes: to one that acknowledges, with the
    /// number that it expects; to one that does not, such as the first of a connection, with an acknowledgement of all of it. A
    /// reset is never answered.
    pub fn answer(packet: &Ipv4, tcp: &Tcp) -> Option<Self> {
        if tcp.has(flag::RST) {
            return None;
        }
        let acknowledges = tcp.has(flag::ACK);
        Some(Self {
            from: SocketAddrV4::new(packet.destination(), tcp.destination_port),
            to: SocketAddrV4::new(packet.source(), tcp.source_port),
            sequence: if acknowledges { tcp.acknowledgement } else { 0 },
            acknowledgement: (!acknowledges).then(|| tcp.next_sequence()),
        })
    }

    /// In the place of a segment of a connection that the far side may know. The first segment of a connection tells that
    /// side nothing yet, so that none takes its place.
    pub fn in_place_of(packet: &Ipv4, tcp: &Tcp) -> Option<Self> {
        let acknowledges = tcp.has(flag::ACK);
        (acknowledges || tcp.has(flag::RST)).then(|| Self {
            from: SocketAddrV4::new(packet.source(), tcp.source_port),
            to: SocketAddrV4::new(packet.destination(), tcp.destination_port),
            sequence: tcp.sequence,
            acknowledgement: acknowledges.then_some(tcp.acknowledgement),
        })
    }

    /// The packet.
    pub fn packet(&self) -> [u8; RESET_LEN] {
        let mut bytes = [0; RESET_LEN];
        let (ip, tcp) = bytes.split_at_mut(IPV4_HEADER_LEN);
        // Version and length of the header; its whole length; no fragments; time to live; protocol.
        ip[0] = 0x45;
        ip[3] = u8::try_from(RESET_LEN).expect("40 fits");
        ip[6] = 0x40;
        ip[8] = TTL;
        ip[9] = TCP;
        ip[12..16].copy_from_slice(&self.from.ip().octets());
        ip[16..20].copy_from_slice(&self.to.ip().octets());
        let sum = !checksum::folded(checksum::sum(ip));
        ip[10..12].copy_from_slice(&sum.to_be_bytes());

        tcp[..2].copy_from_slice(&self.from.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&self.to.port().to_be_bytes());
        tcp[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        tcp[8..12].copy_from_slice(&self.acknowledgement.unwrap_or(0).to_be_bytes());
        tcp[12] = 0x50;
        tcp[13] = flag::RST | if self.acknowledgement.is_some() { flag::ACK } else { 0 };
        let sum = checksum::pseudo(&ip[12..20], TCP, TCP_HEADER_LEN) + checksum::sum(tcp);
        tcp[16..18].copy_from_slice(&checksum::of(sum).to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{FAR, FAR_PORT, NEAR, NEAR_PORT, assert_right, tcp};

    fn near() -> SocketAddrV4 {
        SocketAddrV4::new(NEAR, NEAR_PORT)
    }

    fn far() -> SocketAddrV4 {
        SocketAddrV4::new(FAR, FAR_PORT)
    }

    fn both(bytes: &[u8]) -> (Option<Reset>, Option<Reset>) {
        let packet = Ipv4::read(bytes).unwrap();
        let tcp = Tcp::read(&packet).unwrap();
        (Reset::answer(&packet, &tcp), Reset::in_place_of(&packet, &tcp))
    }

    #[test]
    fn who_dials_is_refused_and_nobody_else_is_bothered() {
        let (answer, instead) = both(&tcp(100, 0, flag::SYN, b""));
        let expected = Reset {
            from: far(),
            to: near(),
            sequence: 0,
            acknowledgement: Some(101),
        };
        assert_eq!((answer, instead), (Some(expected), None));
    }

    #[test]
    fn a_segment_is_answered_with_the_number_it_expects_and_the_far_side_told_in_its_place() {
        let (answer, instead) = both(&tcp(100, 7, flag::ACK, b"data"));
        let to_near = Reset {
            from: far(),
            to: near(),
            sequence: 7,
            acknowledgement: None,
        };
        let to_far = Reset {
            from: near(),
            to: far(),
            sequence: 100,
            acknowledgement: Some(7),
        };
        assert_eq!((answer, instead), (Some(to_near), Some(to_far)));
    }

    #[test]
    fn a_reset_is_passed_on_and_never_answered() {
        let (answer, instead) = both(&tcp(100, 0, flag::RST, b""));
        assert_eq!(answer, None);
        assert_eq!(
            instead.map(|reset| (reset.to, reset.sequence, reset.acknowledgement)),
            Some((far(), 100, None))
        );
    }

    #[test]
    fn the_packet_is_whole_and_says_what_the_reset_does() {
        for acknowledgement in [None, Some(0xdead_beef)] {
            let reset = Reset {
                from: far(),
                to: near(),
                sequence: 0x0102_0304,
                acknowledgement,
            };
            let bytes = reset.packet();
            assert_right(&bytes);
            let packet = Ipv4::read(&bytes).unwrap();
            let tcp = Tcp::read(&packet).unwrap();
            assert_eq!((packet.source(), packet.destination()), (FAR, NEAR));
            assert_eq!((tcp.source_port, tcp.destination_port), (FAR_PORT, NEAR_PORT));
            assert_eq!(
                (tcp.sequence, tcp.acknowledgement),
                (0x0102_0304, acknowledgement.unwrap_or(0))
            );
            let flags = if acknowledgement.is_some() {
                flag::RST | flag::ACK
            } else {
                flag::RST
            };
            assert_eq!((tcp.flags, tcp.payload_len), (flags, 0));
        }
    }
}
