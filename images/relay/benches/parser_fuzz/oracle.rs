//! What must be true of one frame, whatever stands in it. All that is compared with is computed here, from the bytes.

use crate::frames::{HEADER_LEN, ICMP, TCP, UDP, folded, slow_sum, transport_sum};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use relay::capture::told;
use relay::flows::Flows;
use relay::packet::{Burst, Ipv4, Offload, Tcp, flag, shape, wire_bytes};
use relay::reset::Reset;
use relay::segment::Split;
use relay::tap::{Sighting, Taken};
use relay::{checksum, icmp};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// How often each part of the parser was reached.
pub type Reached = BTreeMap<&'static str, u64>;

const VIA: Ipv4Addr = Ipv4Addr::new(198, 18, 255, 3);
const MTU: u16 = 1300;

/// Examine a frame; `is_sound` says that a kernel could have made it.
///
/// # Panics
/// With what is not true of it.
pub fn examine(frame: &[u8], is_sound: bool, flows: &mut Flows, reached: &mut Reached) {
    let mut reach = |what| *reached.entry(what).or_insert(0) += 1;
    let (header, packet) = frame.split_at(HEADER_LEN.min(frame.len()));
    let offload = Offload::read(header);
    assert!(header.len() == HEADER_LEN || offload == Offload::default());
    assert!(wire_bytes(header, packet) >= packet.len() as u64);
    captured(frame, packet.len());
    if completed(&offload, packet, is_sound) {
        reach("checksum completed");
    }
    flows.note_released(1, packet);
    flows.note_destroyed(1, packet);
    let Some(ip) = Ipv4::read(packet) else {
        assert!(!is_sound);
        return reach("no IPv4");
    };
    assert!((20..=60).contains(&ip.header_len()) && ip.header_len() + ip.payload().len() == packet.len());
    assert_eq!(ip.bytes(), packet);
    if ip.is_fragment() {
        reach("fragment");
    }
    if let Some(answer) = icmp::too_large(VIA, MTU, &ip) {
        reach("told the MTU");
        told_the_mtu(&answer, packet);
    }
    if let Some(tcp) = Tcp::read(&ip) {
        reach("TCP");
        segment_read(&ip, &tcp);
        let answer = Reset::answer(&ip, &tcp);
        let instead = Reset::in_place_of(&ip, &tcp);
        assert!(!(tcp.flags & flag::RST != 0 && answer.is_some()), "a reset is answered");
        assert!(
            instead.is_some() == (tcp.flags & (flag::ACK | flag::RST) != 0),
            "the far side"
        );
        for reset in [answer, instead].into_iter().flatten() {
            reach("reset");
            well_formed_reset(&reset.packet());
        }
        if let Some(answer) = answer {
            let bytes = answer.packet();
            assert_eq!(bytes[12..16], packet[16..20], "in the name of who was asked");
            assert_eq!(bytes[16..20], packet[12..16], "to who asked");
        }
    }
    if let Some(burst) = offload.burst
        && let Some(count) = split(&offload, burst, header, packet)
    {
        reach("burst split");
        if count > 1 {
            reach("burst of several");
        }
    } else {
        assert!(!is_sound || offload.burst.is_none(), "a sound burst is split");
    }
}

/// End all flows that were seen; returns how many resets that took.
///
/// # Panics
/// A reset that is none.
pub fn end_flows(flows: &mut Flows) -> u64 {
    let resets = flows.reset(2);
    resets.map(|reset| well_formed_reset(&reset.packet())).count() as u64
}

fn segment_read(ip: &Ipv4, tcp: &Tcp) {
    let bytes = ip.payload();
    assert!(!ip.is_fragment() && ip.protocol() == TCP);
    assert!((20..=60).contains(&tcp.header_len));
    assert_eq!(tcp.header_len + tcp.payload_len, bytes.len());
    assert_eq!(tcp.source_port.to_be_bytes(), bytes[..2]);
    assert_eq!(tcp.destination_port.to_be_bytes(), bytes[2..4]);
    assert_eq!(tcp.sequence.to_be_bytes(), bytes[4..8]);
}

/// Completing a checksum changes its two bytes or nothing; a sound packet is right afterwards.
fn completed(offload: &Offload, packet: &[u8], is_sound: bool) -> bool {
    let mut whole = packet.to_vec();
    let done = checksum::complete(offload, &mut whole);
    let place = offload
        .checksum
        .map(|left| usize::from(left.start) + usize::from(left.offset));
    match place.filter(|_| done) {
        None => assert_eq!(whole, packet),
        Some(at) => {
            assert_eq!(whole[..at], packet[..at]);
            assert_eq!(whole[at + 2..], packet[at + 2..]);
            assert_ne!(whole[at..at + 2], [0, 0], "zero is no checksum");
        }
    }
    if is_sound {
        assert_eq!(done, offload.checksum.is_some());
        sums_are_right(&whole);
    }
    done
}

/// IP header, and transport if it is one of ours and whole.
fn sums_are_right(packet: &[u8]) {
    let header_len = usize::from(packet[0] & 0xf) * 4;
    let (ip, transport) = packet.split_at(header_len);
    assert_eq!(folded(slow_sum(ip)), u16::MAX, "checksum of the IP header");
    match ip[9] {
        TCP | UDP => assert_eq!(
            folded(transport_sum(ip, transport)),
            u16::MAX,
            "checksum of the transport"
        ),
        ICMP => assert_eq!(folded(slow_sum(transport)), u16::MAX, "checksum of ICMP"),
        _ => {}
    }
}

/// The packets of a burst are whole, in order, and together the burst; returns how many there are.
fn split(offload: &Offload, burst: Burst, header: &[u8], packet: &[u8]) -> Option<usize> {
    let mut split = Split::of(offload, packet)?;
    let shape = shape(burst, packet).expect("what is split has a shape");
    let mut packets = Vec::new();
    let mut one = Vec::new();
    while split.next(&mut one) {
        packets.push(std::mem::take(&mut one));
        assert!(packets.len() as u64 <= shape.packets, "it never ends");
    }
    assert!(one.is_empty() && !split.next(&mut one), "over is over");
    assert_eq!(packets.len() as u64, shape.packets);
    let lengths: usize = packets.iter().map(Vec::len).sum();
    assert_eq!(wire_bytes(header, packet), lengths as u64);
    let payloads: Vec<&[u8]> = packets.iter().map(|one| &one[shape.headers_len..]).collect();
    assert!(
        payloads.concat() == packet[shape.headers_len..],
        "the payloads are not the burst's"
    );
    let (last, middle) = payloads.split_last().expect("there is always one");
    assert!(
        middle
            .iter()
            .all(|payload| payload.len() == usize::from(burst.segment_bytes))
    );
    assert!(last.len() <= usize::from(burst.segment_bytes));
    let ip_header = usize::from(packet[0] & 0xf) * 4;
    let mut before = 0usize;
    for (i, one) in packets.iter().enumerate() {
        // What is longer than its length can say comes from no kernel.
        if let Ok(length) = u16::try_from(one.len()) {
            assert_eq!(one[2..4], length.to_be_bytes());
            sums_are_right(one);
        }
        headers_are_the_bursts(&packet[..shape.headers_len], one, ip_header, i);
        if packet[9] == TCP {
            number_and_flags(packet, one, ip_header, before, (i, packets.len()));
        }
        before += one.len() - shape.headers_len;
    }
    Some(packets.len())
}

/// Nothing differs but lengths, identification, sums, sequence number and flags.
fn headers_are_the_bursts(headers: &[u8], one: &[u8], ip_header: usize, i: usize) {
    let mut differs: Vec<usize> = vec![2, 3, 4, 5, 10, 11];
    let transport: &[usize] = if headers[9] == TCP {
        &[4, 5, 6, 7, 13, 16, 17]
    } else {
        &[4, 5, 6, 7]
    };
    differs.extend(transport.iter().map(|at| ip_header + at));
    let same = (0..headers.len()).filter(|at| !differs.contains(at));
    for at in same {
        assert_eq!(headers[at], one[at], "byte {at} of packet {i}");
    }
    let first = u16::from_be_bytes([headers[4], headers[5]]);
    let id = u16::from_be_bytes([one[4], one[5]]);
    assert_eq!(usize::from(id.wrapping_sub(first)), i % 65_536, "identification");
}

fn number_and_flags(packet: &[u8], one: &[u8], at: usize, before: usize, (i, of): (usize, usize)) {
    let number = |bytes: &[u8]| u32::from_be_bytes([bytes[at + 4], bytes[at + 5], bytes[at + 6], bytes[at + 7]]);
    let expected = number(packet).wrapping_add(u32::try_from(before).expect("a burst is below 4 GiB"));
    assert_eq!(number(one), expected, "sequence number of packet {i}");
    let mut flags = packet[at + 13];
    if i > 0 {
        flags &= !flag::CWR;
    }
    if i + 1 < of {
        flags &= !(flag::FIN | flag::PSH);
    }
    assert_eq!(one[at + 13], flags, "flags of packet {i} of {of}");
}

fn well_formed_reset(bytes: &[u8]) {
    assert_eq!(bytes.len(), 40);
    assert_eq!((bytes[0], bytes[9], bytes[32]), (0x45, TCP, 0x50));
    assert_eq!(bytes[2..4], 40u16.to_be_bytes());
    assert!(bytes[33] & flag::RST != 0 && bytes[33] & !(flag::RST | flag::ACK) == 0);
    sums_are_right(bytes);
}

/// A frame that a lane made by itself during a reset.
pub fn is_reset(packet: &[u8]) -> bool {
    let is = packet.len() == 40 && packet[9] == TCP && packet[33] & flag::RST != 0;
    if is {
        well_formed_reset(packet);
    }
    is
}

fn told_the_mtu(answer: &[u8], packet: &[u8]) {
    assert!(answer.len() <= 576 && answer.len() >= 28);
    assert_eq!(
        answer[2..4],
        u16::try_from(answer.len()).expect("576 fits").to_be_bytes()
    );
    assert_eq!((answer[9], answer[20], answer[21]), (ICMP, 3, 4));
    assert_eq!(answer[26..28], MTU.to_be_bytes());
    assert_eq!(answer[16..20], packet[12..16], "to the sender");
    assert_eq!(answer[28..], packet[..answer.len() - 28]);
    assert!(packet[6] & 0x40 != 0 && packet[6] & 0x1f == 0 && packet[7] == 0);
    sums_are_right(answer);
}

/// A copy for the controller is the packet, but for a completed checksum.
fn captured(frame: &[u8], length: usize) {
    let copy = Sighting {
        at_ns: 0,
        fate: wire::Fate::Arrived,
        length: u32::try_from(length).expect("frames are short"),
        frame: frame.into(),
    };
    let told = told(Taken {
        copies: vec![copy],
        lost: 0,
        more: false,
    });
    let bytes = STANDARD.decode(&told.packets[0].bytes).expect("base64");
    let packet = frame.get(HEADER_LEN..).unwrap_or_default();
    let differing = bytes.iter().zip(packet).filter(|(one, other)| one != other).count();
    assert!(bytes.len() == packet.len() && differing <= 2);
}
