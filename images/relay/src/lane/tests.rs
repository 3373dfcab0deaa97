//! What is promised of a lane, call by call and under random orders.

use super::*;
use crate::packet::flag;
use crate::sample::{FAR, NEAR, assert_right, tcp, udp};
use wire::LinkCounters;

fn lane(delay_ns: u64, limit_bytes: u64) -> Lane {
    let config = RelayLinkConfig {
        to: "dc2".into(),
        network: Ipv4Addr::new(198, 18, 1, 0),
        prefix_len: 24,
        via: Ipv4Addr::new(198, 18, 255, 3),
        conditions: delay(delay_ns),
    };
    Lane::new(&config, limit_bytes, 0)
}

/// A constant delay and no rate.
fn delay(delay_ns: u64) -> Conditions {
    Conditions {
        rate_bits_per_s: None,
        ..Conditions::delay(delay_ns)
    }
}

const CUT: Change = Change::Cut { kind: CutKind::Drop };

fn set(lane: &mut Lane, now_ns: u64, delay_ns: u64) {
    let conditions = Box::new(delay(delay_ns));
    lane.change(
        now_ns,
        Change::Set {
            conditions,
            flush: false,
        },
    );
}

fn drain(lane: &mut Lane, now_ns: u64) -> Vec<u32> {
    let mut seen = Vec::new();
    while lane.release(now_ns, |frame| {
        seen.push(u32::from_ne_bytes(frame[..4].try_into().unwrap()));
        true
    }) {}
    seen
}

fn assert_conserved(counters: &LinkCounters) {
    let dropped = [
        counters.dropped_cut,
        counters.dropped_queue,
        counters.dropped_rate,
        counters.dropped_frozen,
        counters.dropped_loss,
        counters.dropped_mtu,
        counters.dropped_write,
    ];
    assert_eq!(
        counters.arrived_packets + counters.duplicated,
        counters.forwarded_packets + counters.held_packets + dropped.iter().sum::<u64>()
    );
    assert_eq!(counters.forwarded_packets, counters.lateness.iter().sum::<u64>());
}

#[test]
fn without_a_delay_a_packet_leaves_at_the_instant_of_its_arrival() {
    let mut lane = lane(0, 1000);
    lane.arrive(100, &7u32.to_ne_bytes());
    assert_eq!(drain(&mut lane, 100), [7]);
    assert_eq!(lane.status(0).counters.lateness_sum_ns, 0);
}

#[test]
fn a_delay_lowered_live_reorders_nothing_and_hurries_nothing_in_flight() {
    let mut lane = lane(100, 1000);
    lane.arrive(0, &1u32.to_ne_bytes());
    set(&mut lane, 0, 10);
    lane.arrive(5, &2u32.to_ne_bytes());
    lane.arrive(95, &3u32.to_ne_bytes());
    assert!(drain(&mut lane, 99).is_empty());
    assert_eq!(drain(&mut lane, 100), [1, 2]);
    assert!(drain(&mut lane, 104).is_empty());
    assert_eq!(drain(&mut lane, 105), [3]);
}

#[test]
fn a_raised_delay_leaves_those_in_flight_their_deadline() {
    let mut lane = lane(10, 1000);
    lane.arrive(0, &1u32.to_ne_bytes());
    set(&mut lane, 0, 100);
    lane.arrive(1, &2u32.to_ne_bytes());
    assert_eq!(drain(&mut lane, 10), [1]);
    assert!(drain(&mut lane, 100).is_empty());
    assert_eq!(drain(&mut lane, 101), [2]);
}

#[test]
fn a_cut_destroys_what_is_in_flight_and_what_arrives_until_the_heal() {
    let mut lane = lane(10, 1000);
    lane.arrive(0, &1u32.to_ne_bytes());
    lane.arrive(1, &2u32.to_ne_bytes());
    lane.change(5, CUT);
    lane.arrive(6, &3u32.to_ne_bytes());
    assert_eq!(lane.next_due_ns(), None);
    assert!(drain(&mut lane, 1000).is_empty());
    assert_eq!(lane.status(0).counters.dropped_cut, 3);
    lane.change(1000, Change::Heal);
    lane.arrive(1001, &4u32.to_ne_bytes());
    assert_eq!(drain(&mut lane, 1011), [4]);
    let status = lane.status(0);
    assert_eq!((status.last_cut_ns, status.last_heal_ns), (Some(5), Some(1000)));
    assert_conserved(&status.counters);
}

#[test]
fn a_capture_sees_every_arrival_and_what_became_of_it() {
    let mut lane = lane(10, 8);
    lane.arrive(0, &0u32.to_ne_bytes());
    lane.capture(0, Some(100));
    assert!(lane.status(0).capturing);
    lane.arrive(1, &1u32.to_ne_bytes());
    lane.arrive(2, &2u32.to_ne_bytes());
    assert_eq!(drain(&mut lane, 10), [0]);
    lane.change(11, CUT);
    lane.arrive(12, &3u32.to_ne_bytes());
    lane.change(13, Change::Heal);
    lane.arrive(14, &4u32.to_ne_bytes());
    assert!(lane.release(24, |_| false));
    let copies = lane.take_captured(30, u32::MAX).copies;
    let number = |frame: &[u8]| u32::from_ne_bytes(frame.try_into().unwrap());
    let seen: Vec<_> = copies
        .iter()
        .map(|copy| (copy.at_ns, copy.fate, number(&copy.frame)))
        .collect();
    let expected = [
        (1, Fate::Arrived, 1),
        (2, Fate::Arrived, 2),
        (2, Fate::Queue, 2),
        (10, Fate::Departed, 0),
        (11, Fate::Cut, 1),
        (12, Fate::Arrived, 3),
        (12, Fate::Cut, 3),
        (14, Fate::Arrived, 4),
        (24, Fate::Write, 4),
    ];
    assert_eq!(seen, expected);
    lane.capture(31, None);
    assert!(!lane.status(0).capturing);
}

#[test]
fn a_full_lane_drops_the_newcomer_and_counts_it() {
    let mut lane = lane(10, 8);
    for i in 0..3u32 {
        lane.arrive(0, &i.to_ne_bytes());
    }
    let counters = lane.status(0).counters;
    assert_eq!(
        (counters.held_packets, counters.dropped_queue, counters.held_bytes_max),
        (2, 1, 8)
    );
    assert_conserved(&counters);
    assert_eq!(drain(&mut lane, 10), [0, 1]);
}

#[test]
fn a_packet_that_the_kernel_refuses_is_neither_forwarded_nor_kept() {
    let mut lane = lane(0, 1000);
    lane.arrive(0, &1u32.to_ne_bytes());
    assert!(lane.release(0, |_| false));
    let counters = lane.status(0).counters;
    assert_eq!(
        (
            counters.dropped_write,
            counters.forwarded_packets,
            counters.held_packets
        ),
        (1, 0, 0)
    );
    assert_conserved(&counters);
}

#[test]
fn a_frozen_lane_keeps_everything_and_a_thaw_delivers_it_in_order_and_not_before_its_deadline() {
    let mut lane = lane(100, 1000);
    lane.arrive(0, &1u32.to_ne_bytes());
    lane.change(50, Change::Freeze);
    lane.arrive(60, &2u32.to_ne_bytes());
    lane.arrive(450, &3u32.to_ne_bytes());
    assert!(drain(&mut lane, 500).is_empty());
    assert_eq!(lane.next_due_ns(), None);
    assert!(lane.status(0).frozen);
    lane.change(500, Change::Thaw);
    assert_eq!(lane.next_due_ns(), Some(100));
    assert_eq!(drain(&mut lane, 510), [1, 2]);
    assert_eq!(drain(&mut lane, 550), [3]);
    let counters = lane.status(0).counters;
    // Ten after the thaw each, not since the deadlines that passed during the freeze.
    assert_eq!((counters.lateness_sum_ns, counters.lateness_max_ns), (20, 10));
    assert_conserved(&counters);
}

#[test]
fn what_a_frozen_lane_has_no_room_for_is_counted_apart() {
    let mut lane = lane(0, 8);
    lane.change(0, Change::Freeze);
    for i in 0..3u32 {
        lane.arrive(1, &i.to_ne_bytes());
    }
    let counters = lane.status(0).counters;
    assert_eq!(
        (counters.dropped_frozen, counters.dropped_queue, counters.held_packets),
        (1, 0, 2)
    );
    assert_conserved(&counters);
}

#[test]
fn a_cut_during_a_freeze_destroys_and_its_heal_leaves_the_lane_frozen() {
    let mut lane = lane(0, 1000);
    lane.change(0, Change::Freeze);
    lane.arrive(1, &1u32.to_ne_bytes());
    lane.change(2, CUT);
    lane.arrive(3, &2u32.to_ne_bytes());
    lane.change(4, Change::Heal);
    lane.arrive(5, &3u32.to_ne_bytes());
    assert!(drain(&mut lane, 6).is_empty());
    lane.change(7, Change::Thaw);
    assert_eq!(drain(&mut lane, 8), [3]);
    assert_eq!(lane.status(0).counters.dropped_cut, 2);
}

#[test]
fn a_flush_delivers_what_is_in_flight_at_once_and_in_order() {
    let mut lane = lane(100, 1000);
    lane.arrive(0, &1u32.to_ne_bytes());
    lane.arrive(10, &2u32.to_ne_bytes());
    let conditions = Box::new(delay(50));
    lane.change(
        20,
        Change::Set {
            conditions,
            flush: true,
        },
    );
    lane.arrive(30, &3u32.to_ne_bytes());
    assert_eq!(drain(&mut lane, 30), [1, 2]);
    assert_eq!(lane.status(0).counters.lateness_max_ns, 10);
    assert!(drain(&mut lane, 79).is_empty());
    assert_eq!(drain(&mut lane, 80), [3]);
}

#[test]
fn what_waits_for_its_turn_is_bounded_by_the_conditions_and_hurried_by_a_flush() {
    let mut lane = lane(0, 1000);
    let slow = || {
        Box::new(Conditions {
            rate_bits_per_s: Some(8_000_000_000 / 100),
            queue_bytes: 12,
            ..delay(5)
        })
    };
    lane.change(
        0,
        Change::Set {
            conditions: slow(),
            flush: false,
        },
    );
    for i in 0..5u32 {
        lane.arrive(0, &i.to_ne_bytes());
    }
    let counters = lane.status(0).counters;
    assert_eq!((counters.held_packets, counters.dropped_rate), (3, 2));
    assert!(drain(&mut lane, 404).is_empty());
    assert_eq!(drain(&mut lane, 405), [0]);
    lane.change(
        410,
        Change::Set {
            conditions: slow(),
            flush: true,
        },
    );
    lane.arrive(410, &5u32.to_ne_bytes());
    assert_eq!(drain(&mut lane, 410), [1, 2]);
    assert_eq!(lane.next_due_ns(), Some(815));
    assert_conserved(&lane.status(0).counters);
}

#[test]
fn a_cut_empties_the_queue_of_the_rate_too() {
    let mut lane = lane(0, 1000);
    let conditions = Box::new(Conditions {
        rate_bits_per_s: Some(8_000_000_000 / 100),
        ..delay(5)
    });
    lane.change(
        0,
        Change::Set {
            conditions,
            flush: false,
        },
    );
    for i in 0..5u32 {
        lane.arrive(0, &i.to_ne_bytes());
    }
    lane.change(1, CUT);
    lane.change(2, Change::Heal);
    lane.arrive(3, &7u32.to_ne_bytes());
    assert_eq!(lane.next_due_ns(), Some(408));
}

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

#[test]
fn a_defect_changes_when_packets_leave_and_nothing_of_what_the_state_says() {
    let delays = [
        (Defect::ExtraDelay { delay_ns: 30 }, 130),
        (Defect::NoDelay, 0),
        (Defect::LeakyCut, 100),
    ];
    for (defect, leaves_ns) in delays {
        let mut lane = lane(100, 1000);
        let before = lane.status(0);
        lane.change(0, Change::Sabotage { defect: Some(defect) });
        assert_eq!(lane.status(0), before);
        lane.arrive(0, &1u32.to_ne_bytes());
        assert_eq!(lane.next_due_ns(), Some(leaves_ns), "{defect:?}");
        assert_eq!(drain(&mut lane, leaves_ns), [1]);
        assert_eq!(lane.status(0).counters.lateness_sum_ns, 0);
        lane.change(200, Change::Sabotage { defect: None });
        lane.arrive(200, &2u32.to_ne_bytes());
        assert_eq!(lane.next_due_ns(), Some(300));
    }
}

#[test]
fn a_leaky_cut_lets_packets_pass_that_it_counts_as_destroyed() {
    let mut lane = lane(100, 1000);
    let defect = Some(Defect::LeakyCut);
    lane.change(0, Change::Sabotage { defect });
    lane.change(0, CUT);
    lane.arrive(10, &1u32.to_ne_bytes());
    assert!(drain(&mut lane, 109).is_empty());
    assert_eq!(drain(&mut lane, 110), [1]);
    let status = lane.status(0);
    assert_eq!(
        (status.cut, status.counters.dropped_cut, status.counters.held_packets),
        (Some(CutKind::Drop), 1, 0)
    );
    assert_conserved(&status.counters);
}

/// Ten thousand random steps (fixed seed) against the three promises.
#[test]
fn never_early_never_reordered_always_conserved_whatever_is_ordered() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut lane = lane(50, 48);
    let (mut now, mut number, mut last_seen) = (0u64, 0u32, None::<u32>);
    let mut earliest = Vec::new();
    for _ in 0..10_000 {
        now += random(20);
        match random(10) {
            0..5 => {
                earliest.push(now + lane.status(0).conditions.delay_ns);
                lane.arrive(now, &number.to_ne_bytes());
                number += 1;
            }
            5..8 => {
                for seen in drain(&mut lane, now) {
                    assert!(now >= earliest[seen as usize], "packet {seen} left early");
                    assert!(last_seen < Some(seen), "packet {seen} left after {last_seen:?}");
                    last_seen = Some(seen);
                }
            }
            8 => set(&mut lane, 0, random(200)),
            _ if lane.status(0).cut.is_some() => lane.change(now, Change::Heal),
            _ if random(5) == 0 => lane.change(now, CUT),
            _ => {}
        }
        let counters = lane.status(0).counters;
        assert_conserved(&counters);
        assert!(counters.held_bytes <= 48);
    }
    let counters = lane.status(0).counters;
    assert!(
        counters.forwarded_packets > 500 && counters.dropped_cut > 50 && counters.dropped_queue > 10,
        "{counters:?}"
    );
}
