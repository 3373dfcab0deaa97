//! One direction of a connection: order, bounds and cuts of its portions, against a clock of the test.

use super::*;
use StreamOrder::{Pipelined, Serialising};

fn bytes(text: &str) -> Parcel {
    Parcel::Bytes(text.as_bytes().into())
}

/// All that leaves until `until`, stepping by 1, with the time at which it left.
fn departures(flow: &mut Flow, until: u64) -> Vec<(u64, String)> {
    let mut seen = Vec::new();
    for now in 0..=until {
        while let Some((due, due_ns)) = flow.due(now) {
            assert!(due_ns <= now);
            let (length, shown) = match due {
                Due::Bytes(bytes) => (bytes.len(), String::from_utf8(bytes.to_vec()).unwrap()),
                Due::End => (0, "end".to_owned()),
                Due::Reset => (0, "reset".to_owned()),
            };
            assert!(flow.sent(length, now));
            seen.push((now, shown));
        }
    }
    seen
}

fn at(times: &[(u64, &str)]) -> Vec<(u64, String)> {
    times.iter().map(|(at, text)| (*at, (*text).to_owned())).collect()
}

#[test]
fn pipelined_portions_are_each_delayed_from_their_own_arrival() {
    let mut flow = Flow::new(Pipelined, 100);
    flow.push(0, 20, bytes("a"));
    flow.push(2, 20, bytes("b"));
    flow.push(4, 20, bytes("c"));
    assert_eq!(departures(&mut flow, 100), at(&[(20, "a"), (22, "b"), (24, "c")]));
}

#[test]
fn serialising_makes_k_portions_pay_k_delays() {
    let mut flow = Flow::new(Serialising, 100);
    flow.push(0, 20, bytes("a"));
    flow.push(2, 20, bytes("b"));
    flow.push(4, 20, bytes("c"));
    assert_eq!(departures(&mut flow, 100), at(&[(20, "a"), (40, "b"), (60, "c")]));
}

#[test]
fn a_single_portion_pays_one_delay_either_way_also_after_a_pause() {
    for order in [Pipelined, Serialising] {
        let mut flow = Flow::new(order, 100);
        flow.push(0, 20, bytes("a"));
        assert_eq!(departures(&mut flow, 30), at(&[(20, "a")]));
        flow.push(50, 20, bytes("b"));
        assert_eq!(departures(&mut flow, 100), at(&[(70, "b")]));
    }
}

#[test]
fn serialising_without_a_delay_is_pipelined() {
    let mut flow = Flow::new(Serialising, 100);
    flow.push(3, 0, bytes("a"));
    flow.push(3, 0, bytes("b"));
    assert_eq!(departures(&mut flow, 10), at(&[(3, "a"), (3, "b")]));
}

#[test]
fn a_lowered_delay_hurries_nothing_in_flight_and_lets_nothing_overtake() {
    let mut flow = Flow::new(Pipelined, 100);
    flow.push(0, 50, bytes("a"));
    flow.push(1, 5, bytes("b"));
    flow.push(48, 5, bytes("c"));
    assert_eq!(departures(&mut flow, 100), at(&[(50, "a"), (50, "b"), (53, "c")]));
}

#[test]
fn the_end_and_a_reset_keep_their_place() {
    for last in [Parcel::End, Parcel::Reset] {
        let mut flow = Flow::new(Pipelined, 100);
        flow.push(0, 20, bytes("a"));
        flow.push(1, 20, last.clone());
        let word = if last == Parcel::End { "end" } else { "reset" };
        assert_eq!(departures(&mut flow, 100), at(&[(20, "a"), (21, word)]));
        assert_eq!(flow.next_due_ns(), None);
    }
}

#[test]
fn what_the_socket_did_not_take_stays_first() {
    let mut flow = Flow::new(Pipelined, 100);
    flow.push(0, 0, bytes("hello"));
    flow.push(0, 0, bytes("!"));
    assert!(!flow.sent(2, 0));
    assert_eq!(flow.due(0), Some((Due::Bytes(b"llo"), 0)));
    assert!(flow.sent(3, 7));
    assert_eq!(flow.due(7), Some((Due::Bytes(b"!"), 0)));
}

#[test]
fn a_slow_receiver_delays_the_serialised_portion_behind() {
    let mut flow = Flow::new(Serialising, 100);
    flow.push(0, 20, bytes("ab"));
    flow.push(0, 20, bytes("c"));
    assert!(!flow.sent(1, 20));
    assert!(flow.sent(1, 35));
    assert_eq!(flow.next_due_ns(), Some(55));
}

#[test]
fn room_ends_at_the_bound_and_comes_back_with_every_byte_that_leaves() {
    let mut flow = Flow::new(Pipelined, 4);
    flow.push(0, 0, bytes("abc"));
    assert!(flow.has_room());
    flow.push(0, 0, bytes("defg"));
    assert!(!flow.has_room());
    assert!(flow.sent(3, 0));
    assert!(!flow.has_room());
    assert!(!flow.sent(1, 0));
    assert!(flow.has_room());
    flow.clear();
    assert!(flow.has_room() && flow.next_due_ns().is_none());
}

#[test]
fn hurried_parcels_are_due_at_once_in_their_order() {
    for order in [Pipelined, Serialising] {
        let mut flow = Flow::new(order, 100);
        flow.push(0, 50, bytes("a"));
        flow.push(1, 50, Parcel::End);
        flow.hurry();
        assert_eq!(departures(&mut flow, 5), at(&[(0, "a"), (1, "end")]));
    }
}

/// Random steps (fixed seed): whatever arrives leaves in order, whole, and never early.
#[test]
fn never_early_never_reordered_never_lost_whatever_the_delays() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for order in [Pipelined, Serialising] {
        let mut flow = Flow::new(order, 1000);
        let (mut now, mut sent, mut seen) = (0u64, Vec::new(), Vec::new());
        let mut earliest = Vec::new();
        for _ in 0..10_000 {
            now += random(10);
            if random(2) == 0 {
                let (delay, length) = (random(60), random(5) + 1);
                let portion: Vec<u8> = (0..length).map(|_| random(256).to_le_bytes()[0]).collect();
                earliest.extend(portion.iter().map(|_| now + delay));
                sent.extend_from_slice(&portion);
                flow.push(now, delay, Parcel::Bytes(portion.into()));
            } else if let Some((Due::Bytes(due), _)) = flow.due(now) {
                let taken = usize::try_from(random(due.len() as u64 + 1)).unwrap();
                let from = seen.len();
                seen.extend_from_slice(&due[..taken]);
                assert!(earliest[from..seen.len()].iter().all(|earliest| *earliest <= now));
                flow.sent(taken, now);
            }
        }
        assert!(seen.len() > 1000, "{order:?}");
        assert_eq!(seen, sent[..seen.len()]);
        assert_eq!(flow.bytes, sent.len() - seen.len());
    }
}
