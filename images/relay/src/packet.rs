//! What stands in a packet: the device's header before it, the IPv4 header, and that of TCP or UDP.
//!
//! Pure, and total: any bytes are read without a panic, and what is not a whole header is none. Lengths are those of the
//! bytes at hand and not those that the headers claim, since the kernel hands over exactly one packet, and a burst of
//! up to 64 KiB is longer than its field can say.

use std::net::Ipv4Addr;

/// Number of TCP in an IP header.
pub const TCP: u8 = 6;
/// Number of UDP in an IP header.
pub const UDP: u8 = 17;
/// Number of ICMP in an IP header.
pub const ICMP: u8 = 1;

/// Shortest header of IPv4.
pub const IPV4_HEADER_LEN: usize = 20;
/// Shortest header of TCP.
pub const TCP_HEADER_LEN: usize = 20;
/// The header of UDP.
pub const UDP_HEADER_LEN: usize = 8;

/// Flags of a TCP segment.
pub mod flag {
    /// The sender has no more to send.
    pub const FIN: u8 = 1;
    /// Begin a connection.
    pub const SYN: u8 = 2;
    /// There is no such connection.
    pub const RST: u8 = 4;
    /// Hand the data on at once.
    pub const PSH: u8 = 8;
    /// The acknowledgement is valid.
    pub const ACK: u8 = 16;
    /// The window was reduced after word of congestion.
    pub const CWR: u8 = 128;
}

/// What the device's header (`struct virtio_net_hdr`) says of the packet behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offload {
    /// Whether it is a burst.
    pub burst: Option<Burst>,
    /// What is left to be added up.
    pub checksum: Option<LeftChecksum>,
}

/// Several packets of one flow in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// How it is to be split.
    pub kind: BurstKind,
    /// Bytes of payload in each packet but the last.
    pub segment_bytes: u16,
}

/// How a burst is to be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BurstKind {
    /// TCP over IPv4.
    Tcp4,
    /// UDP datagrams.
    Udp,
    /// Something that was not asked for.
    Unknown,
}

/// A checksum that the kernel left to whoever sends the packet on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftChecksum {
    /// Where the sum begins.
    pub start: u16,
    /// How far behind that its place is.
    pub offset: u16,
}

impl Offload {
    /// Read a header. Less than a whole one says nothing.
    pub fn read(header: &[u8]) -> Self {
        let Some(
            &[
                flags,
                kind,
                _,
                _,
                size @ ..,
                start_low,
                start_high,
                offset_low,
                offset_high,
            ],
        ) = header.first_chunk::<10>()
        else {
            return Self::default();
        };
        let burst_kind = match kind & !ECN {
            0 => None,
            1 => Some(BurstKind::Tcp4),
            5 => Some(BurstKind::Udp),
            _ => Some(BurstKind::Unknown),
        };
        Self {
            burst: burst_kind.map(|kind| Burst {
                kind,
                segment_bytes: u16::from_ne_bytes(size),
            }),
            checksum: (flags & NEEDS_CHECKSUM != 0).then_some(LeftChecksum {
                start: u16::from_ne_bytes([start_low, start_high]),
                offset: u16::from_ne_bytes([offset_low, offset_high]),
            }),
        }
    }
}

/// Flag: a checksum is left.
const NEEDS_CHECKSUM: u8 = 1;
/// Beside a kind of burst: its first packet says that the window was reduced.
const ECN: u8 = 0x80;

/// A packet of IPv4.
#[derive(Debug, Clone, Copy)]
pub struct Ipv4<'a> {
    bytes: &'a [u8],
    header_len: usize,
}

impl<'a> Ipv4<'a> {
    /// Read a packet.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let first = *bytes.first()?;
        let header_len = usize::from(first & 0xf) * 4;
        let whole = first >> 4 == 4 && header_len >= IPV4_HEADER_LEN && bytes.len() >= header_len;
        whole.then_some(Self { bytes, header_len })
    }

    /// All of it.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of its header.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// Number of the protocol inside.
    pub fn protocol(&self) -> u8 {
        self.bytes[9]
    }

    /// Who sent it.
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.word(12))
    }

    /// For whom it is.
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.word(16))
    }

    /// Both addresses as they stand there.
    pub fn addresses(&self) -> &'a [u8] {
        &self.bytes[12..20]
    }

    /// Whether no router may break it up.
    pub fn dont_fragment(&self) -> bool {
        self.bytes[6] & 0x40 != 0
    }

    /// Whether it is a piece of a larger packet.
    pub fn is_fragment(&self) -> bool {
        self.bytes[6] & 0x3f != 0 || self.bytes[7] != 0
    }

    /// Whether it is a later piece, without a header of the transport.
    pub fn is_later_fragment(&self) -> bool {
        self.bytes[6] & 0x1f != 0 || self.bytes[7] != 0
    }

    /// What it carries.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }

    fn word(&self, at: usize) -> u32 {
        be32(self.bytes, at)
    }
}

/// A segment of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Number of its first byte.
    pub sequence: u32,
    /// The next number that its sender expects; only with [`flag::ACK`].
    pub acknowledgement: u32,
    /// Its flags, of which [`flag`] has names.
    pub flags: u8,
    /// Bytes of its header.
    pub header_len: usize,
    /// Bytes of its data.
    pub payload_len: usize,
}

impl Tcp {
    /// Read what an unfragmented packet carries, if it is TCP.
    #[inline]
    pub fn read(packet: &Ipv4) -> Option<Self> {
        if packet.protocol() != TCP || packet.is_fragment() {
            return None;
        }
        let bytes = packet.payload();
        if bytes.len() < TCP_HEADER_LEN {
            return None;
        }
        let header_len = usize::from(bytes[12] >> 4) * 4;
        let whole = header_len >= TCP_HEADER_LEN && bytes.len() >= header_len;
        whole.then(|| Self {
            source_port: be16(bytes, 0),
            destination_port: be16(bytes, 2),
            sequence: be32(bytes, 4),
            acknowledgement: be32(bytes, 8),
            flags: bytes[13],
            header_len,
            payload_len: bytes.len() - header_len,
        })
    }

    /// Whether all of `flags` are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The number after its last byte; the beginning and the end of a connection count as one byte each.
    pub fn next_sequence(&self) -> u32 {
        let ends = u32::from(self.has(flag::SYN)) + u32::from(self.has(flag::FIN));
        // A payload is far below 4 GiB, and sequence numbers wrap.
        let length = u32::try_from(self.payload_len).unwrap_or(u32::MAX);
        self.sequence.wrapping_add(length).wrapping_add(ends)
    }
}

/// Bytes that a frame takes on the wire, IP headers included: those of a burst's packets, each with its own headers.
pub fn wire_bytes(header: &[u8], packet: &[u8]) -> u64 {
    let length = packet.len() as u64;
    // The usual case is decided by one byte.
    if header.get(1).is_none_or(|kind| *kind == 0) {
        return length;
    }
    match Offload::read(header).burst.and_then(|burst| shape(burst, packet)) {
        Some(shape) => length + (shape.packets - 1) * shape.headers_len as u64,
        None => length,
    }
}

/// How a burst splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the headers that each packet gets.
    pub headers_len: usize,
    /// Number of packets, at least one.
    pub packets: u64,
}

/// How a burst splits; nothing if it cannot be.
pub fn shape(burst: Burst, packet: &[u8]) -> Option<Shape> {
    let packet = Ipv4::read(packet)?;
    let headers_len = packet.header_len()
        + match burst.kind {
            BurstKind::Tcp4 => Tcp::read(&packet)?.header_len,
            BurstKind::Udp if packet.protocol() == UDP && !packet.is_fragment() => UDP_HEADER_LEN,
            BurstKind::Udp | BurstKind::Unknown => return None,
        };
    let payload = packet.bytes().len().checked_sub(headers_len)? as u64;
    let segment = u64::from(burst.segment_bytes);
    (segment > 0).then(|| Shape {
        headers_len,
        packets: payload.div_ceil(segment).max(1),
    })
}

/// Two bytes at a place that exists, in network order.
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Four bytes at a place that exists, in network order.
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP packet with an option in each header and three bytes of data.
    fn packet() -> Vec<u8> {
        let ip = [
            0x46, 0, 0, 51, 0, 7, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 10, 198, 18, 1, 10, 1, 1, 1, 0,
        ];
        let tcp = [
            0x18, 0xeb, 0xc0, 0x01, 0, 0, 0, 9, 0, 0, 1, 0, 0x60, 0x19, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0,
        ];
        [&ip[..], &tcp, b"abc"].concat()
    }

    #[test]
    fn every_field_is_read_from_its_place() {
        let bytes = packet();
        let ip = Ipv4::read(&bytes).unwrap();
        assert_eq!((ip.header_len(), ip.protocol()), (24, TCP));
        assert_eq!(ip.source(), Ipv4Addr::new(198, 18, 0, 10));
        assert_eq!(ip.destination(), Ipv4Addr::new(198, 18, 1, 10));
        assert!(ip.dont_fragment() && !ip.is_fragment());
        let tcp = Tcp::read(&ip).unwrap();
        let expected = Tcp {
            source_port: 6379,
            destination_port: 0xc001,
            sequence: 9,
            acknowledgement: 256,
            flags: flag::FIN | flag::PSH | flag::ACK,
            header_len: 24,
            payload_len: 3,
        };
        assert_eq!(tcp, expected);
        assert_eq!(tcp.next_sequence(), 13);
    }

    #[test]
    fn less_than_whole_headers_are_none() {
        let bytes = packet();
        for length in 0..24 {
            assert!(Ipv4::read(&bytes[..length]).is_none());
        }
        for length in 24..48 {
            assert!(Tcp::read(&Ipv4::read(&bytes[..length]).unwrap()).is_none());
        }
        for (at, wrong) in [(0, 0x66), (0, 0x44), (24 + 12, 0x40), (9, UDP), (6, 0x20), (7, 1)] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            assert!(Ipv4::read(&bytes).and_then(|ip| Tcp::read(&ip)).is_none(), "byte {at}");
        }
    }

    #[test]
    fn pieces_of_a_packet_are_told_from_whole_ones_and_first_from_later() {
        let mut bytes = packet();
        for (fields, fragment, later) in [
            ([0x40, 0], false, false),
            ([0x20, 0], true, false),
            ([0, 1], true, true),
            ([0x20, 1], true, true),
            ([0x01, 0], true, true),
        ] {
            bytes[6..8].copy_from_slice(&fields);
            let ip = Ipv4::read(&bytes).unwrap();
            assert_eq!(
                (ip.is_fragment(), ip.is_later_fragment()),
                (fragment, later),
                "{fields:?}"
            );
        }
    }

    #[test]
    fn the_device_header_says_what_is_left_to_do() {
        assert_eq!(Offload::read(&[0; 10]), Offload::default());
        assert_eq!(Offload::read(&[1; 9]), Offload::default());
        let [size_low, size_high] = 1448u16.to_ne_bytes();
        let [start_low, start_high] = 24u16.to_ne_bytes();
        let [offset_low, offset_high] = 16u16.to_ne_bytes();
        let header = [
            1,
            0x81,
            48,
            0,
            size_low,
            size_high,
            start_low,
            start_high,
            offset_low,
            offset_high,
        ];
        let expected = Offload {
            burst: Some(Burst {
                kind: BurstKind::Tcp4,
                segment_bytes: 1448,
            }),
            checksum: Some(LeftChecksum { start: 24, offset: 16 }),
        };
        assert_eq!(Offload::read(&header), expected);
        let kinds = [(5, BurstKind::Udp), (4, BurstKind::Unknown), (3, BurstKind::Unknown)];
        for (byte, kind) in kinds {
            let read = Offload::read(&[0, byte, 0, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(read.burst.unwrap().kind, kind);
        }
    }

    #[test]
    fn on_the_wire_each_packet_of_a_burst_has_its_own_headers() {
        let mut bytes = packet();
        bytes.extend([0; 97]);
        let header = |kind: u8, size: u16| {
            let [low, high] = size.to_ne_bytes();
            [0, kind, 0, 0, low, high, 0, 0, 0, 0]
        };
        assert_eq!(wire_bytes(&header(0, 0), &bytes), 148);
        assert_eq!(wire_bytes(&[], &bytes), 148);
        // 100 bytes of data are three packets of 40, 40 and 20 with 48 bytes of headers.
        assert_eq!(wire_bytes(&header(1, 40), &bytes), 148 + 2 * 48);
        assert_eq!(wire_bytes(&header(1, 50), &bytes), 148 + 48);
        assert_eq!(wire_bytes(&header(1, 100), &bytes), 148);
        for odd in [header(1, 0), header(5, 40), header(4, 40)] {
            assert_eq!(wire_bytes(&odd, &bytes), 148);
        }
    }
}
