//! Frames as the TUN device hands them over, made field by field, and mutilated with an eye for where it hurts: lengths,
//! offsets, flags, sizes of bursts.

use fastrand::Rng;

/// Bytes of the device's header.
pub const HEADER_LEN: usize = 10;
/// TCP, UDP and ICMP in an IP header.
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMP: u8 = 1;

const NEEDS_CHECKSUM: u8 = 1;
const TCP4: u8 = 1;
const DATAGRAMS: u8 = 5;
const ECN: u8 = 0x80;
/// Values at which lengths, sizes and offsets turn over.
const EDGES: [u16; 16] = [
    0, 1, 2, 7, 8, 19, 20, 40, 60, 255, 256, 1448, 0x7fff, 0x8000, 0xfffe, 0xffff,
];

/// A frame that a kernel could have made.
pub fn sound(rng: &mut Rng) -> Vec<u8> {
    let protocol = [TCP, TCP, TCP, UDP, UDP, ICMP][rng.usize(..6)];
    let payload = payload(rng);
    let transport = match protocol {
        TCP => tcp(rng, &payload),
        UDP => udp(rng, &payload),
        _ => icmp(rng, &payload),
    };
    let transport_header = transport.len() - payload.len();
    let (mut packet, ip_header) = ipv4(rng, protocol, &transport);
    let is_piece = packet[6] & 0x3f != 0 || packet[7] != 0;
    let mut header = [0; HEADER_LEN];
    if protocol != ICMP && !is_piece && rng.u8(..4) > 0 {
        leave_checksum(&mut header, &mut packet, ip_header, protocol);
        if payload.len() > 1 && rng.u8(..4) > 0 {
            let least = payload.len().div_ceil(200).max(1);
            let size = u16::try_from(rng.usize(least..=payload.len())).unwrap_or(u16::MAX);
            header[1] = if protocol == TCP { TCP4 } else { DATAGRAMS };
            if protocol == TCP && rng.u8(..4) == 0 {
                header[1] |= ECN;
            }
            let headers = u16::try_from(ip_header + transport_header).unwrap_or(u16::MAX);
            header[2..4].copy_from_slice(&headers.to_ne_bytes());
            header[4..6].copy_from_slice(&size.to_ne_bytes());
        }
    }
    [&header[..], &packet].concat()
}

/// The frame after up to eight mutilations.
pub fn mutilated(rng: &mut Rng, mut frame: Vec<u8>, other: &[u8]) -> Vec<u8> {
    for _ in 0..rng.usize(1..=8) {
        mutilate(rng, &mut frame, other);
    }
    // The device hands over no more at once.
    frame.truncate(HEADER_LEN + usize::from(u16::MAX));
    frame
}

fn mutilate(rng: &mut Rng, frame: &mut Vec<u8>, other: &[u8]) {
    if frame.is_empty() {
        return frame.extend_from_slice(other);
    }
    // Most of what decides stands in the first bytes.
    let near = frame.len().min(HEADER_LEN + 64);
    match rng.u8(..14) {
        0 => frame[rng.usize(..near)] ^= 1 << rng.u8(..8),
        1 => frame[rng.usize(..near)] = rng.u8(..),
        2 => put(frame, rng.usize(..near), EDGES[rng.usize(..EDGES.len())].to_ne_bytes()),
        3 => put(frame, rng.usize(..near), EDGES[rng.usize(..EDGES.len())].to_be_bytes()),
        4 => frame.truncate(rng.usize(..=frame.len())),
        5 => frame.truncate(rng.usize(..=near)),
        6 => {
            let more = rng.usize(..64);
            frame.extend(std::iter::repeat_with(|| rng.u8(..)).take(more));
        }
        // Sizes of the device's header: burst, beginning and place of the checksum.
        7 => put(frame, 4, EDGES[rng.usize(..EDGES.len())].to_ne_bytes()),
        8 => put(frame, 6, EDGES[rng.usize(..EDGES.len())].to_ne_bytes()),
        9 => put(frame, 8, EDGES[rng.usize(..EDGES.len())].to_ne_bytes()),
        10 => put(
            frame,
            0,
            [rng.u8(..4), [0, 1, 3, 4, 5, 0x81, 0x85, 0xff][rng.usize(..8)]],
        ),
        // Version and length of the IP header, fragment, protocol.
        11 => {
            let (at, byte) = [
                (0, 0x40 | rng.u8(..16)),
                (6, rng.u8(..)),
                (9, [TCP, UDP, ICMP, rng.u8(..)][rng.usize(..4)]),
            ][rng.usize(..3)];
            put(frame, HEADER_LEN + at, [byte]);
        }
        // Length of the TCP header and its flags, wherever the IP header says that it begins.
        12 => {
            let ip_header = usize::from(frame.get(HEADER_LEN).copied().unwrap_or(0x45) & 0xf) * 4;
            let at = HEADER_LEN + ip_header + 12 + rng.usize(..2);
            put(frame, at, [rng.u8(..)]);
        }
        _ => {
            let from = rng.usize(..=other.len());
            let piece = &other[from..other.len().min(from + rng.usize(..64))];
            let at = rng.usize(..=near);
            frame.splice(at..at, piece.iter().copied());
        }
    }
}

fn put<const N: usize>(frame: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(place) = frame.get_mut(at..at + N) {
        place.copy_from_slice(&bytes);
    }
}

/// Usually short, sometimes up to what a device hands over at once.
fn payload(rng: &mut Rng) -> Vec<u8> {
    let length = match rng.u8(..64) {
        0..4 => 0,
        4..40 => rng.usize(..200),
        40..63 => rng.usize(..3000),
        _ => rng.usize(..65_000),
    };
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes);
    bytes
}

fn tcp(rng: &mut Rng, payload: &[u8]) -> Vec<u8> {
    let options = rng.u8(..=10) * rng.u8(..2);
    let mut segment = vec![1; 20 + usize::from(options) * 4];
    rng.fill(&mut segment[..12]);
    segment[12] = (5 + options) << 4;
    segment[13] = match rng.u8(..8) {
        0 => 0x02,
        1 => 0x12,
        2 => 0x04,
        3 => 0x14,
        4 => 0x19,
        5 => rng.u8(..),
        _ => 0x10 | (rng.u8(..2) << 3),
    };
    segment[16..20].fill(0);
    segment.extend_from_slice(payload);
    segment
}

fn udp(rng: &mut Rng, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; 8];
    rng.fill(&mut datagram[..4]);
    let length = u16::try_from(8 + payload.len()).unwrap_or(u16::MAX);
    datagram[4..6].copy_from_slice(&length.to_be_bytes());
    datagram.extend_from_slice(payload);
    datagram
}

fn icmp(rng: &mut Rng, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![[0, 8, 3, 11, 13, rng.u8(..)][rng.usize(..6)], rng.u8(..2), 0, 0];
    message.extend_from_slice(&rng.u32(..).to_be_bytes());
    message.extend_from_slice(payload);
    let sum = !folded(slow_sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// The packet, checksum of the transport complete, and the length of its IP header.
fn ipv4(rng: &mut Rng, protocol: u8, transport: &[u8]) -> (Vec<u8>, usize) {
    let options = rng.u8(..=10) * u8::from(rng.u8(..4) == 0);
    let header_len = 20 + usize::from(options) * 4;
    let mut packet = vec![1; header_len];
    packet[0] = 0x45 + options;
    packet[1] = rng.u8(..);
    let length = u16::try_from(header_len + transport.len()).unwrap_or(u16::MAX);
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    rng.fill(&mut packet[4..6]);
    packet[6..8].copy_from_slice(match rng.u8(..16) {
        0 => &[0x20, 0],
        1 => &[0x20, 7],
        2 => &[0, 9],
        3 | 4 => &[0, 0],
        _ => &[0x40, 0],
    });
    packet[8] = 64;
    packet[9] = protocol;
    packet[10..12].fill(0);
    let ends: [[u8; 4]; 2] = [[198, 18, 0, 10], [198, 18, 1, 10]];
    packet[12..20].copy_from_slice(ends.as_flattened());
    let sum = !folded(slow_sum(&packet));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(transport);
    if let Some(at) = checksum_place(protocol) {
        let sum = !folded(transport_sum(&packet[..header_len], &packet[header_len..]));
        // In UDP a sum of zero is sent as its other form.
        let sum = if sum == 0 { u16::MAX } else { sum };
        packet[header_len + at..][..2].copy_from_slice(&sum.to_be_bytes());
    }
    (packet, header_len)
}

/// Leave the checksum of the transport to who sends the packet on, as the kernel does with offload.
fn leave_checksum(header: &mut [u8; HEADER_LEN], packet: &mut [u8], ip_header: usize, protocol: u8) {
    let Some(at) = checksum_place(protocol) else { return };
    header[0] = NEEDS_CHECKSUM;
    let [start, offset] = [ip_header, at].map(|place| u16::try_from(place).unwrap_or(u16::MAX).to_ne_bytes());
    header[6..8].copy_from_slice(&start);
    header[8..10].copy_from_slice(&offset);
    let length = packet.len() - ip_header;
    let pseudo = slow_sum(&packet[12..20]) + u64::from(protocol) + length as u64;
    packet[ip_header + at..][..2].copy_from_slice(&folded(pseudo).to_be_bytes());
}

fn checksum_place(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(16),
        UDP => Some(6),
        _ => None,
    }
}

/// The sum that a checksum makes all ones: pseudo header and transport.
pub fn transport_sum(ip: &[u8], transport: &[u8]) -> u64 {
    slow_sum(&ip[12..20]) + u64::from(ip[9]) + transport.len() as u64 + slow_sum(transport)
}

/// Sum of 16-bit words by the letter of RFC 1071, byte by byte: the relay's own is quicker, and must agree.
pub fn slow_sum(bytes: &[u8]) -> u64 {
    let weight = |i: usize| if i.is_multiple_of(2) { 8 } else { 0 };
    bytes
        .iter()
        .enumerate()
        .map(|(i, byte)| u64::from(*byte) << weight(i))
        .sum()
}

/// What was carried out of 16 bits added again.
pub fn folded(sum: u64) -> u16 {
    let once = (sum >> 32) + (sum >> 16 & 0xffff) + (sum & 0xffff);
    let twice = (once >> 16) + (once & 0xffff);
    let thrice = (twice >> 16) + (twice & 0xffff);
    u16::try_from(thrice).expect("three times are enough for 64 bits")
}
