//! What is promised of a lane, call by call.

mod packets;
mod ports;
mod resets;

use super::*;
use wire::{Action, LinkCounters, Step};

fn lane(delay_ns: u64, limit_bytes: u64) -> Lane {
    let config = RelayLinkConfig {
        to: "dc2".into(),
        network: Ipv4Addr::new(198, 18, 1, 0),
        prefix_len: 24,
        via: Ipv4Addr::new(198, 18, 255, 3),
        conditions: delay(delay_ns),
    };
    Lane::new(&config, limit_bytes, 0, 1)
}

/// A constant delay and no rate.
pub fn delay(delay_ns: u64) -> Conditions {
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

pub fn assert_conserved(counters: &LinkCounters) {
    let dropped = [
        counters.dropped_cut,
        counters.dropped_ports,
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

fn play(steps: &[(u64, Action)], start_ns: u64) -> Change {
    let step = |(at_ns, action): &(u64, Action)| Step {
        at_ns: *at_ns,
        action: action.clone(),
    };
    let steps = steps.iter().map(step).collect();
    let schedule = Box::new(Schedule { steps });
    Change::Play { schedule, start_ns }
}

const CUT_STEP: Action = Action::Cut { kind: CutKind::Drop };

#[test]
fn a_schedule_cuts_and_heals_at_its_times_whether_packets_come_or_not() {
    let mut lane = lane(0, 1000);
    lane.change(50, play(&[(10, CUT_STEP), (20, Action::Heal)], 100));
    assert_eq!(lane.status(0).playing_since_ns, Some(100));
    assert_eq!((lane.next_due_ns(), lane.next_packet_ns()), (Some(110), None));
    lane.arrive(109, &1u32.to_ne_bytes());
    assert_eq!(drain(&mut lane, 109), [1]);
    // Nobody asked in between: the packet meets with the cut all the same.
    lane.arrive(112, &2u32.to_ne_bytes());
    assert!(drain(&mut lane, 112).is_empty());
    assert_eq!(lane.next_due_ns(), Some(120));
    assert!(drain(&mut lane, 121).is_empty());
    let status = lane.status(0);
    assert_eq!((status.last_cut_ns, status.last_heal_ns), (Some(112), Some(121)));
    assert_eq!((status.playing_since_ns, lane.next_due_ns()), (None, None));
    lane.arrive(122, &3u32.to_ne_bytes());
    assert_eq!(drain(&mut lane, 122), [3]);
}

#[test]
fn a_schedule_goes_on_through_orders_and_ends_when_told() {
    let flap = Action::Flap {
        kind: CutKind::Drop,
        every_ns: 10,
        until_ns: None,
    };
    let mut lane = lane(0, 1000);
    lane.change(0, play(&[(0, flap)], 0));
    assert_eq!(lane.status(0).cut, Some(CutKind::Drop));
    lane.change(5, Change::Heal);
    lane.change(6, Change::Freeze);
    assert_eq!((lane.status(0).cut, lane.next_due_ns()), (None, Some(10)));
    // What was planned before an order comes before it.
    lane.change(20, Change::Thaw);
    assert_eq!(lane.status(0).last_cut_ns, Some(20));
    lane.change(25, Change::StopPlay);
    let status = lane.status(0);
    assert_eq!((status.cut, status.playing_since_ns), (Some(CutKind::Drop), None));
    assert_eq!(lane.next_due_ns(), None);
}

#[test]
fn a_new_schedule_replaces_the_old_one() {
    let mut lane = lane(0, 1000);
    lane.change(0, play(&[(10, CUT_STEP)], 0));
    lane.change(0, play(&[(20, Action::Freeze)], 5));
    assert_eq!(lane.next_due_ns(), Some(25));
    assert!(drain(&mut lane, 25).is_empty());
    let status = lane.status(0);
    assert_eq!((status.cut, status.frozen, status.playing_since_ns), (None, true, None));
}
