//! Cuts of ports: only segments of these ports are destroyed, on arrival and in flight, and a heal ends it.

use super::*;
use crate::packet::{Ipv4, TCP, Tcp, flag};
use crate::sample::{FAR_PORT, NEAR, NEAR_PORT, tcp, tcp_from, udp};

/// The bus of the node whose clients are served on [`FAR_PORT`].
const BUS: u16 = FAR_PORT + 10_000;

fn cut(kind: CutKind, ports: &[u16]) -> Change {
    let ports = ports.to_vec();
    Change::CutPorts { kind, ports }
}

/// A segment to the bus.
fn bus() -> Vec<u8> {
    to_port(BUS)
}

fn to_port(port: u16) -> Vec<u8> {
    let mut packet = tcp(1, 1, flag::ACK, b"");
    packet[22..24].copy_from_slice(&port.to_be_bytes());
    packet
}

/// Destination ports of what leaves by now; 0 for what is no segment.
fn leaving(lane: &mut Lane, now_ns: u64) -> Vec<u16> {
    let mut seen = Vec::new();
    while lane.release(now_ns, |frame| {
        let packet = Ipv4::read(frame).unwrap();
        seen.push(Tcp::read(&packet).map_or(0, |tcp| tcp.destination_port));
        true
    }) {}
    seen
}

#[test]
fn what_is_in_flight_and_what_arrives_of_the_ports_is_destroyed_and_nothing_else_until_the_heal() {
    let mut lane = lane(10, 10_000);
    lane.capture(0, Some(100));
    for packet in [tcp(1, 1, flag::ACK, b""), bus(), udp(b"x"), to_port(7)] {
        lane.arrive(0, &packet);
    }
    lane.change(5, cut(CutKind::Drop, &[FAR_PORT]));
    let status = lane.status(5);
    assert_eq!((status.cut, status.last_cut_ns), (None, None), "the link itself is up");
    let ports = status.port_cut().map(|cut| (cut.ports.clone(), cut.began_ns));
    assert_eq!(ports, Some((vec![FAR_PORT], 5)));
    assert_eq!(leaving(&mut lane, 10), [BUS, 0, 7]);
    // Of either end: the far node answers from that port.
    lane.arrive(20, &tcp_from(FAR_PORT, 1, 1, flag::ACK, b""));
    lane.arrive(20, &tcp_from(NEAR_PORT, 9, 0, flag::SYN, b""));
    lane.arrive(20, &bus());
    assert_eq!(leaving(&mut lane, 30), [BUS]);
    lane.change(40, Change::Heal);
    lane.arrive(41, &tcp(1, 1, flag::ACK, b""));
    assert_eq!(leaving(&mut lane, 51), [FAR_PORT]);
    let status = lane.status(60);
    assert_eq!(
        (status.port_cut(), status.last_port_cut.as_ref().unwrap().ended_ns),
        (None, Some(40))
    );
    assert_eq!((status.counters.dropped_ports, status.counters.dropped_cut), (3, 0));
    assert_conserved(&status.counters);
    let fates = lane
        .take_captured(60, u32::MAX)
        .copies
        .into_iter()
        .map(|copy| copy.fate);
    assert_eq!(fates.filter(|fate| *fate == Fate::Ports).count(), 3);
}

#[test]
fn pieces_of_a_packet_pass_and_so_does_what_is_no_packet() {
    let mut lane = lane(0, 10_000);
    lane.change(0, cut(CutKind::Drop, &[FAR_PORT]));
    let mut first = tcp(1, 1, flag::ACK, b"first piece");
    first[6] = 0x20;
    let mut later = tcp(1, 1, flag::ACK, b"later piece");
    later[7] = 1;
    for packet in [&first[..], &later, &[0x45; 7]] {
        lane.arrive(1, packet);
    }
    let counters = lane.status(1).counters;
    assert_eq!((counters.held_packets, counters.dropped_ports), (3, 0));
}

#[test]
fn both_sorts_of_cut_are_counted_apart_and_one_heal_ends_both() {
    let mut lane = lane(0, 10_000);
    lane.change(0, cut(CutKind::Drop, &[FAR_PORT]));
    lane.arrive(1, &tcp(1, 1, flag::ACK, b""));
    lane.change(2, CUT);
    lane.arrive(3, &tcp(1, 1, flag::ACK, b""));
    lane.arrive(3, &bus());
    // No ports: that cut alone ends.
    lane.change(4, cut(CutKind::Drop, &[]));
    lane.arrive(5, &tcp(1, 1, flag::ACK, b""));
    lane.change(6, cut(CutKind::Drop, &[BUS]));
    lane.change(7, Change::Heal);
    let status = lane.status(8);
    assert_eq!((status.cut, status.port_cut()), (None, None));
    assert_eq!((status.counters.dropped_ports, status.counters.dropped_cut), (1, 3));
    lane.arrive(9, &bus());
    assert_eq!(leaving(&mut lane, 9), [BUS]);
    assert_conserved(&lane.status(9).counters);
}

#[test]
fn where_packets_are_looked_at_one_by_one_a_burst_of_the_ports_is_destroyed_whole() {
    let mut lane = lane(10, 10_000);
    let mut lossy = delay(10);
    lossy.reorder = Some(wire::Reorder {
        ppm: 500_000,
        by_ns: 50,
    });
    let conditions = Box::new(lossy);
    lane.change(
        0,
        Change::Set {
            conditions,
            flush: false,
        },
    );
    // Some keep their order and some are held back: both lie in the line.
    for _ in 0..50 {
        lane.arrive(1, &tcp(1, 1, flag::ACK, b""));
        lane.arrive(1, &bus());
    }
    lane.change(2, cut(CutKind::Drop, &[FAR_PORT]));
    lane.arrive(3, &tcp(1, 1, flag::ACK, b""));
    let counters = lane.status(3).counters;
    assert_eq!((counters.dropped_ports, counters.held_packets), (51, 50));
    assert_eq!(leaving(&mut lane, 1000), [BUS; 50]);
    let counters = lane.status(1000).counters;
    assert_eq!(counters.held_bytes, 0);
    assert_conserved(&counters);
}

#[test]
fn a_reset_of_ports_ends_their_connections_refuses_new_ones_and_leaves_the_others_alone() {
    let mut lane = lane(10, 10_000);
    lane.arrive(0, &tcp(100, 500, flag::ACK, b"seen"));
    lane.arrive(0, &bus());
    assert_eq!(leaving(&mut lane, 10).len(), 2);
    lane.arrive(11, &tcp(104, 555, flag::ACK, b"in flight"));
    lane.change(12, cut(CutKind::Reset, &[FAR_PORT]));
    let mut ends = Vec::new();
    let mut resets = |lane: &mut Lane, now_ns: u64| {
        ends.clear();
        while lane.release(now_ns, |frame| {
            let packet = Ipv4::read(frame).unwrap();
            let tcp = Tcp::read(&packet).unwrap();
            assert!(packet.protocol() == TCP && tcp.has(flag::RST));
            ends.push((packet.destination() == NEAR, tcp.sequence));
            true
        }) {}
        ends.clone()
    };
    assert_eq!(resets(&mut lane, 12), [(true, 555), (false, 104)]);
    lane.arrive(13, &tcp_from(NEAR_PORT + 1, 100, 0, flag::SYN, b""));
    assert_eq!(resets(&mut lane, 13), [(true, 0)], "refused");
    let known: Vec<u16> = lane.flows(14).iter().map(|(_, far)| far.port()).collect();
    assert_eq!(known, [BUS]);
    let counters = lane.status(14).counters;
    assert_eq!((counters.resets, counters.dropped_ports), (3, 2));
    assert_conserved(&counters);
}
