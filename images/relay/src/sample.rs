//! Packets for tests: made field by field, checksums added up.

use crate::checksum;
use crate::packet::{IPV4_HEADER_LEN, TCP, TCP_HEADER_LEN, UDP, UDP_HEADER_LEN};
use std::net::Ipv4Addr;

/// Node on this side of the link.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 10);
/// Node on the other side.
pub const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 10);
/// Port of [`NEAR`].
pub const NEAR_PORT: u16 = 40_000;
/// Port of [`FAR`].
pub const FAR_PORT: u16 = 6379;

/// A segment from near to far, by number, acknowledgement, flags and data.
pub fn tcp(sequence: u32, acknowledgement: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    tcp_from(NEAR_PORT, sequence, acknowledgement, flags, payload)
}

/// The same from another port.
pub fn tcp_from(port: u16, sequence: u32, acknowledgement: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; TCP_HEADER_LEN];
    segment[..2].copy_from_slice(&port.to_be_bytes());
    segment[2..4].copy_from_slice(&FAR_PORT.to_be_bytes());
    segment[4..8].copy_from_slice(&sequence.to_be_bytes());
    segment[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
    segment[12] = 0x50;
    segment[13] = flags;
    segment[14..16].copy_from_slice(&512u16.to_be_bytes());
    segment.extend(payload);
    ipv4(TCP, segment, 16)
}

/// A datagram from near to far.
pub fn udp(payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; UDP_HEADER_LEN];
    datagram[..2].copy_from_slice(&NEAR_PORT.to_be_bytes());
    datagram[2..4].copy_from_slice(&FAR_PORT.to_be_bytes());
    datagram.extend(payload);
    let length = u16::try_from(datagram.len()).unwrap();
    datagram[4..6].copy_from_slice(&length.to_be_bytes());
    ipv4(UDP, datagram, 6)
}

/// The packet is whole: lengths as they are, no checksum wrong.
pub fn assert_right(packet: &[u8]) {
    assert_eq!(packet.len(), usize::from(u16::from_be_bytes([packet[2], packet[3]])));
    let header_len = usize::from(packet[0] & 0xf) * 4;
    assert_eq!(
        checksum::folded(checksum::sum(&packet[..header_len])),
        u16::MAX,
        "IP header"
    );
    let transport = &packet[header_len..];
    let covered = checksum::pseudo(&packet[12..20], packet[9], transport.len()) + checksum::sum(transport);
    assert_eq!(checksum::folded(covered), u16::MAX, "transport");
}

fn ipv4(protocol: u8, mut transport: Vec<u8>, checksum_at: usize) -> Vec<u8> {
    let mut packet = vec![0; IPV4_HEADER_LEN];
    packet[0] = 0x45;
    let length = u16::try_from(IPV4_HEADER_LEN + transport.len()).unwrap();
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[4..6].copy_from_slice(&0xfffeu16.to_be_bytes());
    packet[6] = 0x40;
    packet[8] = 64;
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&NEAR.octets());
    packet[16..20].copy_from_slice(&FAR.octets());
    let sum = !checksum::folded(checksum::sum(&packet));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let covered = checksum::pseudo(&packet[12..20], protocol, transport.len()) + checksum::sum(&transport);
    transport[checksum_at..checksum_at + 2].copy_from_slice(&checksum::of(covered).to_be_bytes());
    packet.extend(transport);
    packet
}
