//! Bursts of one flow split into the packets that would be on the wire, as the kernel splits them for a device that
//! cannot.
//!
//! Pure, and total: whatever the bytes, it neither panics nor invents data. What must stay true: the payloads of the
//! packets are that of the burst, in order and complete; every packet is whole, its checksums right; none carries more
//! than the segment size that the device's header names. What is no burst, or none that can be split, is refused.

use crate::checksum;
use crate::packet::{BurstKind, Ipv4, Offload, TCP, UDP, UDP_HEADER_LEN, flag, shape};

/// A burst that is being split.
#[derive(Debug)]
pub struct Split<'a> {
    /// IP header and header of the transport, as the burst has them.
    headers: &'a [u8],
    payload: &'a [u8],
    ip_header_len: usize,
    protocol: u8,
    segment_bytes: usize,
    /// Packets given so far.
    given: u16,
    done: bool,
}

impl<'a> Split<'a> {
    /// Begin to split `packet`, of which `offload` says that it is a burst.
    pub fn of(offload: &Offload, packet: &'a [u8]) -> Option<Self> {
        let burst = offload.burst?;
        let shape = shape(burst, packet)?;
        let (headers, payload) = packet.split_at_checked(shape.headers_len)?;
        Some(Self {
            headers,
            payload,
            ip_header_len: Ipv4::read(packet)?.header_len(),
            protocol: match burst.kind {
                BurstKind::Tcp4 => TCP,
                BurstKind::Udp => UDP,
                BurstKind::Unknown => return None,
            },
            segment_bytes: usize::from(burst.segment_bytes),
            given: 0,
            done: false,
        })
    }

    /// Append the next packet to `frame`; returns whether there was one.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> bool {
        if self.done {
            return false;
        }
        let (now, rest) = self.payload.split_at(self.segment_bytes.min(self.payload.len()));
        let begin = frame.len();
        frame.extend_from_slice(self.headers);
        frame.extend_from_slice(now);
        let (ip, transport) = frame[begin..].split_at_mut(self.ip_header_len);
        self.number(ip, transport.len());
        match self.protocol {
            TCP => self.number_segment(transport, rest.is_empty()),
            _ => number_datagram(transport),
        }
        add_up(ip, transport, self.protocol);
        self.payload = rest;
        self.done = rest.is_empty();
        self.given = self.given.wrapping_add(1);
        true
    }

    /// Length and identification.
    fn number(&self, ip: &mut [u8], transport_len: usize) {
        // Below 64 KiB whole: headers of at most 120 bytes, and a segment size that has 16 bits; what would not fit into
        // the field comes only from a burst that no kernel makes.
        let length = u16::try_from(ip.len() + transport_len).unwrap_or(u16::MAX);
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        let first = u16::from_be_bytes([ip[4], ip[5]]);
        ip[4..6].copy_from_slice(&first.wrapping_add(self.given).to_be_bytes());
    }

    /// Sequence number, and the flags that belong to one packet only: the first says that the window was reduced, the
    /// last that the data is to be handed on and that there is no more.
    fn number_segment(&self, tcp: &mut [u8], is_last: bool) {
        let first = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let before = u32::from(self.given).wrapping_mul(u32::try_from(self.segment_bytes).unwrap_or(u32::MAX));
        tcp[4..8].copy_from_slice(&first.wrapping_add(before).to_be_bytes());
        if self.given > 0 {
            tcp[13] &= !flag::CWR;
        }
        if !is_last {
            tcp[13] &= !(flag::FIN | flag::PSH);
        }
    }
}

fn number_datagram(udp: &mut [u8]) {
    let length = u16::try_from(udp.len()).unwrap_or(u16::MAX);
    udp[4..6].copy_from_slice(&length.to_be_bytes());
}

/// Both checksums.
fn add_up(ip: &mut [u8], transport: &mut [u8], protocol: u8) {
    ip[10..12].fill(0);
    let sum = !checksum::folded(checksum::sum(ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let at = if protocol == TCP { 16 } else { UDP_HEADER_LEN - 2 };
    transport[at..at + 2].fill(0);
    let sum = checksum::pseudo(&ip[12..20], protocol, transport.len()) + checksum::sum(transport);
    transport[at..at + 2].copy_from_slice(&checksum::of(sum).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Burst, IPV4_HEADER_LEN, LeftChecksum, TCP_HEADER_LEN, Tcp};
    use crate::sample::{assert_right, tcp, udp};

    fn offload(kind: BurstKind, segment_bytes: u16) -> Offload {
        Offload {
            burst: Some(Burst { kind, segment_bytes }),
            checksum: Some(LeftChecksum { start: 20, offset: 16 }),
        }
    }

    fn split(offload: &Offload, packet: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut split = Split::of(offload, packet)?;
        let mut packets = Vec::new();
        loop {
            let mut one = vec![0xee; 10];
            if !split.next(&mut one) {
                assert_eq!(one.len(), 10);
                return Some(packets);
            }
            assert_eq!(one[..10], [0xee; 10]);
            packets.push(one.split_off(10));
        }
    }

    fn segments(packets: &[Vec<u8>]) -> Vec<Tcp> {
        let read = |packet: &Vec<u8>| Tcp::read(&Ipv4::read(packet).unwrap()).unwrap();
        packets.iter().map(read).collect()
    }

    #[test]
    fn a_burst_of_tcp_is_numbered_on_and_its_flags_go_to_the_packets_they_belong_to() {
        let flags = flag::ACK | flag::PSH | flag::FIN | flag::CWR;
        let packet = tcp(u32::MAX - 5, 77, flags, b"first second last");
        let packets = split(&offload(BurstKind::Tcp4, 6), &packet).unwrap();
        packets.iter().for_each(|packet| assert_right(packet));
        let seen = segments(&packets);
        let numbers: Vec<_> = seen.iter().map(|tcp| (tcp.sequence, tcp.payload_len)).collect();
        assert_eq!(numbers, [(u32::MAX - 5, 6), (0, 6), (6, 5)]);
        let flags: Vec<_> = seen.iter().map(|tcp| tcp.flags).collect();
        assert_eq!(
            flags,
            [flag::ACK | flag::CWR, flag::ACK, flag::ACK | flag::PSH | flag::FIN]
        );
        assert!(seen.iter().all(|tcp| tcp.acknowledgement == 77));
        // The identification wraps like the sequence number.
        let identifications: Vec<_> = packets.iter().map(|packet| [packet[4], packet[5]]).collect();
        assert_eq!(identifications, [[0xff, 0xfe], [0xff, 0xff], [0, 0]]);
        let payload: Vec<u8> = packets.iter().flat_map(|packet| packet[40..].to_vec()).collect();
        assert_eq!(payload, b"first second last");
    }

    #[test]
    fn a_burst_of_datagrams_becomes_datagrams_of_that_size() {
        let packets = split(&offload(BurstKind::Udp, 4), &udp(b"aaaabbbbcc")).unwrap();
        packets.iter().for_each(|packet| assert_right(packet));
        let payloads: Vec<_> = packets.iter().map(|packet| &packet[28..]).collect();
        assert_eq!(payloads, [&b"aaaa"[..], b"bbbb", b"cc"]);
        let lengths: Vec<_> = packets.iter().map(|packet| packet[25]).collect();
        assert_eq!(lengths, [12, 12, 10]);
    }

    #[test]
    fn what_is_no_burst_or_none_that_can_be_split_is_refused() {
        let packet = tcp(1, 1, flag::ACK, b"data");
        assert_eq!(split(&Offload::default(), &packet), None);
        assert_eq!(split(&offload(BurstKind::Unknown, 2), &packet), None);
        assert_eq!(split(&offload(BurstKind::Tcp4, 0), &packet), None);
        assert_eq!(split(&offload(BurstKind::Udp, 2), &packet), None);
        assert_eq!(split(&offload(BurstKind::Tcp4, 2), &udp(b"data")), None);
        assert_eq!(split(&offload(BurstKind::Tcp4, 2), &packet[..30]), None);
        let mut piece = packet.clone();
        piece[6] |= 0x20;
        assert_eq!(split(&offload(BurstKind::Tcp4, 2), &piece), None);
    }

    #[test]
    fn a_burst_without_data_is_one_packet() {
        let packets = split(&offload(BurstKind::Tcp4, 100), &tcp(1, 1, flag::ACK, b"")).unwrap();
        assert_eq!(packets, [tcp(1, 1, flag::ACK, b"")]);
    }

    /// Whatever stands in a packet: no panic, and what comes out is the payload that went in.
    fn assert_split_is_sound(offload: &Offload, packet: &[u8]) -> bool {
        let Some(packets) = split(offload, packet) else {
            return false;
        };
        let burst = offload.burst.unwrap();
        let shape = shape(burst, packet).unwrap();
        assert_eq!(packets.len() as u64, shape.packets);
        let payloads: Vec<&[u8]> = packets.iter().map(|one| &one[shape.headers_len..]).collect();
        assert!(
            payloads
                .iter()
                .all(|payload| payload.len() <= usize::from(burst.segment_bytes))
        );
        assert_eq!(payloads.concat(), packet[shape.headers_len..]);
        for one in packets.iter().filter(|one| one.len() <= usize::from(u16::MAX)) {
            assert_right(one);
        }
        true
    }

    fn bytes(rng: &mut fastrand::Rng, length: usize) -> Vec<u8> {
        std::iter::repeat_with(|| rng.u8(..)).take(length).collect()
    }

    #[test]
    fn bursts_of_any_size_with_any_options_keep_their_payload_and_have_right_checksums() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let length = rng.usize(..20_000);
            let payload = bytes(&mut rng, length);
            let segment = rng.u16(1..3000).max(u16::try_from(payload.len() / 500).unwrap());
            let is_tcp = rng.bool();
            let mut packet = if is_tcp {
                tcp(rng.u32(..), rng.u32(..), rng.u8(..), &payload)
            } else {
                udp(&payload)
            };
            if is_tcp {
                let options = rng.usize(..=10);
                packet.splice(
                    IPV4_HEADER_LEN + TCP_HEADER_LEN..IPV4_HEADER_LEN + TCP_HEADER_LEN,
                    vec![1; options * 4],
                );
                packet[IPV4_HEADER_LEN + 12] = u8::try_from((5 + options) << 4).unwrap();
            }
            let options = rng.usize(..=10);
            packet.splice(IPV4_HEADER_LEN..IPV4_HEADER_LEN, vec![1; options * 4]);
            packet[0] = 0x40 | u8::try_from(5 + options).unwrap();
            let kind = if is_tcp { BurstKind::Tcp4 } else { BurstKind::Udp };
            assert!(assert_split_is_sound(&offload(kind, segment), &packet));
        }
    }

    #[test]
    fn mutilated_and_random_bytes_are_split_soundly_or_refused() {
        let mut rng = fastrand::Rng::with_seed(2);
        let mut splits = 0;
        for i in 0..20_000 {
            let mut packet = match i % 3 {
                0 => tcp(rng.u32(..), rng.u32(..), rng.u8(..), &vec![5; rng.usize(..3000)]),
                1 => udp(&vec![6; rng.usize(..3000)]),
                _ => {
                    let length = rng.usize(..200);
                    bytes(&mut rng, length)
                }
            };
            for _ in 0..rng.usize(..4) {
                if !packet.is_empty() {
                    let at = rng.usize(..packet.len().min(60));
                    packet[at] = rng.u8(..);
                }
            }
            packet.truncate(rng.usize(..=packet.len() + 200));
            let length = rng.usize(8..=10);
            let mut header = bytes(&mut rng, length);
            if rng.u8(..4) > 0 {
                header[1] = [1, 5, 0x81][i % 3];
            }
            if header.len() == 10 && rng.u8(..4) > 0 {
                header[4..6].copy_from_slice(&rng.u16(50..2000).to_ne_bytes());
            }
            splits += u32::from(assert_split_is_sound(&Offload::read(&header), &packet));
        }
        assert!(splits > 1000, "only {splits} could be split");
    }
}
