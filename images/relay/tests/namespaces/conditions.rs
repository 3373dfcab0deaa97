//! Conditions of a real link, seen by the sockets of the nodes: rate, freeze, flush.

use super::lab::Lab;
use super::{MS, assert_bulk_arrives_whole, assert_silent, pair, wait_until};
use std::time::{Duration, Instant};
use wire::{Conditions, RelayOrder};

/// Conditions of the link from datacenter 1 to 2.
fn set(conditions: Conditions, flush: bool) -> RelayOrder {
    let to = "dc2".into();
    RelayOrder::Set { to, conditions, flush }
}

#[test]
fn a_rate_is_kept_by_bulk_data_and_nothing_is_lost_that_tcp_does_not_repair() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let conditions = Conditions {
        rate_bits_per_s: Some(10_000_000),
        queue_bytes: 200_000,
        ..Conditions::delay(MS)
    };
    lab.relays[0].obey(set(conditions, false));
    let begin = Instant::now();
    // 1 048 576 bytes at 10 Mbit/s.
    assert_bulk_arrives_whole(&mut lab, 16, |_| {});
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(838), "faster than the rate: {took:?}");
    // Headers are 4 in 100; the rest is room for what TCP sends again and for a busy machine.
    assert!(took < Duration::from_secs(3), "far below the rate: {took:?}");
}

#[test]
fn what_a_frozen_link_keeps_arrives_late_complete_and_in_order_after_the_thaw() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let (near, far) = pair(&lab);
    lab.relays[0].obey(RelayOrder::Freeze { to: "dc2".into() });
    for i in 0..100u32 {
        near.send(&i.to_ne_bytes()).unwrap();
    }
    wait_until(|| lab.relays[0].link().counters.held_packets == 100);
    assert_silent(&far, Duration::from_millis(100));
    // The other direction is not frozen.
    far.send(b"other").unwrap();
    near.recv(&mut [0; 16]).expect("the other direction carries");
    lab.relays[0].obey(RelayOrder::Thaw { to: "dc2".into() });
    for i in 0..100u32 {
        let mut buffer = [0; 4];
        far.recv(&mut buffer).expect("every packet arrives");
        assert_eq!(u32::from_ne_bytes(buffer), i);
    }
    assert!(lab.relays[0].link().counters.lateness_max_ns < 100 * MS);
}

#[test]
fn a_connection_survives_a_freeze_of_both_directions() {
    let Some(mut lab) = Lab::build(MS) else { return };
    assert_bulk_arrives_whole(&mut lab, 200, |lab| {
        lab.obey_both(|to| RelayOrder::Freeze { to });
        std::thread::sleep(Duration::from_millis(300));
        lab.obey_both(|to| RelayOrder::Thaw { to });
    });
    let counters = lab.relays[0].link().counters;
    assert_eq!((counters.dropped_frozen, counters.dropped_cut), (0, 0));
}

#[test]
fn a_flush_delivers_at_once_what_a_long_delay_still_held() {
    let Some(mut lab) = Lab::build(60_000 * MS) else { return };
    let (near, far) = pair(&lab);
    for i in 0..10u32 {
        near.send(&i.to_ne_bytes()).unwrap();
    }
    wait_until(|| lab.relays[0].link().counters.held_packets == 10);
    lab.relays[0].obey(set(Conditions::delay(50_000 * MS), false));
    assert_silent(&far, Duration::from_millis(50));
    lab.relays[0].obey(set(Conditions::delay(40_000 * MS), true));
    for i in 0..10u32 {
        let mut buffer = [0; 4];
        far.recv(&mut buffer).expect("every packet arrives");
        assert_eq!(u32::from_ne_bytes(buffer), i);
    }
    near.send(b"held again").unwrap();
    assert_silent(&far, Duration::from_millis(50));
}

#[test]
fn conditions_without_a_meaning_are_refused_and_change_nothing() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let nothing = Conditions {
        rate_bits_per_s: Some(0),
        ..Conditions::delay(0)
    };
    let refusal = lab.relays[0].ask(set(nothing, false)).unwrap_err();
    assert!(refusal.starts_with("a rate of 0 lets nothing pass"), "{refusal}");
    assert_eq!(lab.relays[0].link().conditions, Conditions::delay(MS));
}
