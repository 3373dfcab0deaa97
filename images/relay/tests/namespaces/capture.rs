//! Captures by a real relay: what became of each packet, when, and its bytes.

use super::lab::{Lab, Relay};
use super::{MS, pair, wait_until};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::time::Duration;
use wire::{Captured, CapturedPacket, CutKind, Fate, RelayAnswer, RelayOrder};

const DELAY_NS: u64 = 50 * MS;

fn capture(snap_bytes: Option<u32>) -> RelayOrder {
    RelayOrder::Capture {
        to: "dc2".into(),
        snap_bytes,
    }
}

fn take(relay: &mut Relay) -> Result<Captured, String> {
    let answer = relay.ask(RelayOrder::TakeCapture {
        to: "dc2".into(),
        most_bytes: 1 << 20,
    })?;
    match answer {
        RelayAnswer::Captured(captured) => Ok(captured),
        RelayAnswer::Status(_) | RelayAnswer::Flows(_) => panic!("no copies: {answer:?}"),
    }
}

/// Takes until there are `count` packets.
fn packets(relay: &mut Relay, count: usize) -> Vec<CapturedPacket> {
    let mut packets = Vec::new();
    wait_until(|| {
        packets.extend(take(relay).unwrap().packets);
        packets.len() >= count
    });
    packets
}

fn bytes(packet: &CapturedPacket) -> Vec<u8> {
    STANDARD.decode(&packet.bytes).unwrap()
}

fn fates(packets: &[CapturedPacket]) -> Vec<Fate> {
    packets.iter().map(|packet| packet.fate).collect()
}

/// Sum of a UDP packet and its pseudo header, which is all ones where the checksum is right.
fn udp_sum(packet: &[u8]) -> u16 {
    let udp = &packet[20..];
    let length = u8::try_from(udp.len()).unwrap();
    let covered = [
        &packet[12..20],
        &[0, 17, 0, length],
        udp,
        if udp.len().is_multiple_of(2) { &[] } else { &[0] },
    ]
    .concat();
    let words = covered
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum = words.sum::<u32>();
    u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap()
}

#[test]
fn a_capture_shows_a_packet_come_and_go_one_delay_later() {
    let Some(mut lab) = Lab::build(DELAY_NS) else { return };
    lab.relays[0].obey(capture(Some(u32::MAX)));
    let (near, far) = pair(&lab);
    near.send(b"ping!").unwrap();
    far.recv(&mut [0; 16]).expect("it arrives");
    let packets = packets(&mut lab.relays[0], 2);
    assert_eq!(fates(&packets), [Fate::Arrived, Fate::Departed]);
    let held = Duration::from_nanos(packets[1].at_ns - packets[0].at_ns);
    // The upper bound only says that it is this delay and no other: a busy machine may be late.
    assert!(
        held >= Duration::from_nanos(DELAY_NS - MS) && held < Duration::from_millis(500),
        "{held:?}"
    );
    for packet in &packets {
        let bytes = bytes(packet);
        assert_eq!(
            (bytes[0], &bytes[28..]),
            (0x45, &b"ping!"[..]),
            "it begins with the IP header"
        );
        assert_eq!(packet.length as usize, bytes.len());
        assert_eq!(udp_sum(&bytes), 0xffff, "the checksum is completed");
    }
    lab.relays[0].obey(capture(None));
    assert!(!lab.relays[0].link().capturing);
}

#[test]
fn a_capture_shows_what_a_cut_destroys_in_flight_and_on_arrival() {
    let Some(mut lab) = Lab::build(60_000 * MS) else { return };
    lab.relays[0].obey(capture(Some(32)));
    let (near, _far) = pair(&lab);
    near.send(b"in flight").unwrap();
    wait_until(|| lab.relays[0].link().counters.held_packets == 1);
    lab.relays[0].obey(RelayOrder::Cut {
        to: "dc2".into(),
        kind: CutKind::Drop,
    });
    near.send(b"on arrival").unwrap();
    let packets = packets(&mut lab.relays[0], 4);
    assert_eq!(fates(&packets), [Fate::Arrived, Fate::Cut, Fate::Arrived, Fate::Cut]);
    let ends: Vec<_> = packets.iter().map(|packet| bytes(packet)[28..].to_vec()).collect();
    assert_eq!(ends, [b"in f", b"in f", b"on a", b"on a"], "32 bytes are kept of each");
    assert_eq!(packets[0].length, 28 + 9);
}

#[test]
fn one_capture_at_a_time_and_none_is_refused() {
    let Some(mut lab) = Lab::build(0) else { return };
    let relay = &mut lab.relays[0];
    let refusal = take(relay).unwrap_err();
    assert!(refusal.contains("no capture is going on"), "{refusal}");
    relay.obey(capture(Some(100)));
    assert!(relay.link().capturing);
    let refusal = relay.ask(capture(Some(100))).unwrap_err();
    assert!(refusal.contains("a capture is going on"), "{refusal}");
    relay.obey(capture(None));
    relay.obey(capture(Some(100)));
    let unknown = RelayOrder::Capture {
        to: "dc9".into(),
        snap_bytes: Some(100),
    };
    assert!(relay.ask(unknown).unwrap_err().contains("no link leads to `dc9`"));
}

#[test]
fn a_capture_that_nobody_takes_from_ends_by_itself() {
    let Some(mut lab) = Lab::build(0) else { return };
    lab.relays[0].obey(capture(Some(100)));
    let (near, _far) = pair(&lab);
    near.send(b"kept").unwrap();
    std::thread::sleep(Duration::from_secs(9));
    assert!(lab.relays[0].link().capturing);
    wait_until(|| !lab.relays[0].link().capturing);
    assert!(take(&mut lab.relays[0]).is_err());
}
