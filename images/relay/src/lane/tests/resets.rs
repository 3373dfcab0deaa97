//! Cuts that reset: both ends of a connection are told, and nobody else is bothered.

use super::*;
use crate::packet::{Ipv4, Tcp, flag};
use crate::sample::{FAR, NEAR, assert_right, tcp, udp};

/// What leaves by now, as the addresses it is for and the TCP header.
fn segments(lane: &mut Lane, now_ns: u64) -> Vec<(Ipv4Addr, Tcp)> {
    let mut seen = Vec::new();
    while lane.release(now_ns, |frame| {
        assert_right(frame);
        let packet = Ipv4::read(frame).unwrap();
        seen.push((packet.destination(), Tcp::read(&packet).unwrap()));
        true
    }) {}
    seen
}

const RESET: Change = Change::Cut { kind: CutKind::Reset };

#[test]
fn a_reset_tells_both_ends_of_a_connection_at_once_and_in_flight_data_is_destroyed() {
    let mut lane = lane(10, 10_000);
    lane.arrive(0, &tcp(100, 500, flag::ACK, b"seen"));
    assert_eq!(segments(&mut lane, 10).len(), 1);
    lane.arrive(11, &tcp(104, 555, flag::ACK, b"in flight"));
    lane.change(12, RESET);
    assert!(lane.next_due_ns().is_some_and(|due_ns| due_ns <= 12));
    let seen = segments(&mut lane, 12);
    let numbers: Vec<_> = seen.iter().map(|(to, tcp)| (*to, tcp.flags, tcp.sequence)).collect();
    let both = flag::RST | flag::ACK;
    assert_eq!(numbers, [(NEAR, both, 555), (FAR, both, 104)]);
    assert_eq!(lane.next_due_ns(), None);
    let counters = lane.status(0).counters;
    assert_eq!(
        (counters.resets, counters.dropped_cut, counters.forwarded_packets),
        (2, 1, 1)
    );
    assert_conserved(&counters);
}

#[test]
fn during_a_reset_cut_who_dials_is_refused_data_is_answered_and_everything_else_is_silence() {
    let mut lane = lane(10, 10_000);
    lane.change(0, RESET);
    lane.arrive(1, &udp(b"datagram"));
    assert_eq!(lane.next_due_ns(), None);
    lane.arrive(2, &tcp(100, 0, flag::SYN, b""));
    let refused = segments(&mut lane, 2);
    assert_eq!(refused.len(), 1);
    assert_eq!((refused[0].0, refused[0].1.acknowledgement), (NEAR, 101));
    lane.arrive(3, &tcp(100, 7, flag::ACK, b"data"));
    let ends: Vec<_> = segments(&mut lane, 3)
        .into_iter()
        .map(|(to, tcp)| (to, tcp.sequence))
        .collect();
    assert_eq!(ends, [(NEAR, 7), (FAR, 100)]);
    lane.arrive(4, &tcp(100, 7, flag::RST, b""));
    let ends: Vec<_> = segments(&mut lane, 4)
        .into_iter()
        .map(|(to, tcp)| (to, tcp.sequence))
        .collect();
    assert_eq!(ends, [(FAR, 100)]);
    lane.change(5, Change::Heal);
    lane.arrive(6, &tcp(200, 0, flag::SYN, b""));
    assert_eq!(segments(&mut lane, 16)[0].1.flags, flag::SYN);
    let counters = lane.status(0).counters;
    assert_eq!(
        (counters.resets, counters.dropped_cut, counters.forwarded_packets),
        (4, 4, 1)
    );
    assert_conserved(&counters);
}

#[test]
fn a_silent_cut_answers_nothing() {
    let mut lane = lane(0, 10_000);
    lane.arrive(0, &tcp(100, 500, flag::ACK, b"seen"));
    assert_eq!(segments(&mut lane, 0).len(), 1);
    lane.change(1, CUT);
    lane.arrive(2, &tcp(104, 500, flag::ACK, b"lost"));
    assert!(segments(&mut lane, 100).is_empty());
    // It turns into one that resets: the connection is still known.
    lane.change(3, RESET);
    assert_eq!(segments(&mut lane, 100).len(), 2);
    assert_eq!(lane.status(0).last_cut_ns, Some(1));
}
