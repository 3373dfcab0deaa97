//! Conditions of single packets: lost, doubled, corrupted, too large, and the bursts that are split for it.

use super::*;
use crate::packet::{Ipv4, flag};
use crate::sample::{NEAR, assert_right, tcp, udp};
use wire::{Loss, MILLION};

/// A lane with such conditions for packets.
fn lane_of(conditions: Conditions) -> Lane {
    let mut lane = lane(0, 1_000_000);
    let conditions = Box::new(conditions);
    lane.change(
        0,
        Change::Set {
            conditions,
            flush: false,
        },
    );
    lane
}

/// Everything that leaves by now.
fn packets(lane: &mut Lane, now_ns: u64) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    while lane.release(now_ns, |frame| {
        seen.push(frame.to_vec());
        true
    }) {}
    seen
}

#[test]
fn what_is_lost_takes_no_room_and_what_is_doubled_takes_it_twice() {
    let rate = Conditions {
        rate_bits_per_s: Some(8_000_000_000),
        ..delay(0)
    };
    let loss = Some(Loss {
        ppm: MILLION,
        burst_milli: 1000,
    });
    let mut lost = lane_of(Conditions { loss, ..rate.clone() });
    lost.arrive(0, &udp(b"lost"));
    let counters = lost.status(0).counters;
    assert_eq!((counters.dropped_loss, lost.next_due_ns()), (1, None));
    assert_conserved(&counters);

    let duplicate_ppm = MILLION;
    let mut doubled = lane_of(Conditions { duplicate_ppm, ..rate });
    doubled.arrive(0, &udp(b"twice"));
    assert_eq!(packets(&mut doubled, 33), [udp(b"twice")]);
    assert_eq!(packets(&mut doubled, 66), [udp(b"twice")]);
    let counters = doubled.status(0).counters;
    assert_eq!((counters.duplicated, counters.forwarded_packets), (1, 2));
    assert_conserved(&counters);
}

#[test]
fn one_bit_behind_the_ip_header_is_flipped_and_its_receiver_can_tell() {
    let corrupt_ppm = MILLION;
    let mut lane = lane_of(Conditions {
        corrupt_ppm,
        ..delay(0)
    });
    let right = udp(b"payload");
    for _ in 0..200 {
        lane.arrive(0, &right);
        let wrong = packets(&mut lane, 0).remove(0);
        let flipped: Vec<_> = (0..right.len()).filter(|at| wrong[*at] != right[*at]).collect();
        assert_eq!(flipped.len(), 1);
        assert!(flipped[0] >= 20);
        assert_eq!((wrong[flipped[0]] ^ right[flipped[0]]).count_ones(), 1);
    }
    assert_eq!(lane.status(0).counters.corrupted, 200);
}

#[test]
fn a_checksum_that_the_kernel_left_is_completed_before_a_bit_is_flipped() {
    let corrupt_ppm = MILLION;
    let conditions = Conditions {
        corrupt_ppm,
        ..delay(0)
    };
    let mut lane = with_header(conditions);
    let right = tcp(1, 2, flag::ACK, b"payload");
    let mut left = right.clone();
    let pseudo = crate::checksum::folded(crate::checksum::pseudo(&left[12..20], 6, left.len() - 20));
    left[36..38].copy_from_slice(&pseudo.to_be_bytes());
    let header = [&[1, 0, 0, 0, 0, 0][..], &20u16.to_ne_bytes(), &16u16.to_ne_bytes()].concat();
    lane.arrive(0, &[&header[..], &left].concat());
    let wrong = packets(&mut lane, 0).remove(0);
    assert_eq!(wrong[..10], [0; 10]);
    let bits: u32 = wrong[10..]
        .iter()
        .zip(&right)
        .map(|(wrong, right)| (wrong ^ right).count_ones())
        .sum();
    assert_eq!(bits, 1);
}

/// A lane whose frames have a device header.
fn with_header(conditions: Conditions) -> Lane {
    let config = RelayLinkConfig {
        to: "dc2".into(),
        network: Ipv4Addr::new(198, 18, 1, 0),
        prefix_len: 24,
        via: Ipv4Addr::new(198, 18, 255, 3),
        conditions,
    };
    Lane::new(&config, 1_000_000, 10, 1)
}

#[test]
fn a_burst_is_split_only_where_conditions_are_per_packet() {
    let header = [
        &[1, 1, 0, 0][..],
        &4u16.to_ne_bytes(),
        &20u16.to_ne_bytes(),
        &16u16.to_ne_bytes(),
    ]
    .concat();
    let frame = [&header[..], &tcp(1, 2, flag::ACK, b"oneatwotre")].concat();
    let mut whole = with_header(delay(0));
    whole.arrive(0, &frame);
    assert_eq!(packets(&mut whole, 0), [&frame[..]]);
    let mtu = Some(1500);
    let mut split = with_header(Conditions { mtu, ..delay(0) });
    split.arrive(0, &frame);
    let seen = packets(&mut split, 0);
    let payloads: Vec<_> = seen.iter().map(|frame| &frame[50..]).collect();
    assert_eq!(payloads, [&b"onea"[..], b"twot", b"re"]);
    for frame in &seen {
        assert_eq!(frame[..10], [0; 10]);
        assert_right(&frame[10..]);
    }
    let counters = split.status(0).counters;
    assert_eq!((counters.arrived_packets, counters.arrived_bytes), (3, 3 * 40 + 10));
    assert_conserved(&counters);
}

#[test]
fn at_a_rate_a_burst_takes_as_long_as_its_packets() {
    let header = [
        &[1, 1, 0, 0][..],
        &4u16.to_ne_bytes(),
        &20u16.to_ne_bytes(),
        &16u16.to_ne_bytes(),
    ]
    .concat();
    let frame = [&header[..], &tcp(1, 2, flag::ACK, b"oneatwotre")].concat();
    let mut lane = with_header(Conditions {
        rate_bits_per_s: Some(8_000_000_000),
        ..delay(0)
    });
    lane.arrive(0, &frame);
    assert_eq!(lane.next_due_ns(), Some(3 * 40 + 10));
}

#[test]
fn who_sends_too_large_packets_is_told_once_for_a_burst() {
    let mtu = Some(1000);
    let mut lane = with_header(Conditions { mtu, ..delay(10) });
    let header = [
        &[1, 1, 0, 0][..],
        &1200u16.to_ne_bytes(),
        &20u16.to_ne_bytes(),
        &16u16.to_ne_bytes(),
    ]
    .concat();
    lane.arrive(0, &[&header[..], &tcp(1, 2, flag::ACK, &[7; 3000])].concat());
    let told = packets(&mut lane, 0);
    assert_eq!(told.len(), 1);
    let answer = Ipv4::read(&told[0][10..]).unwrap();
    assert_eq!((answer.protocol(), answer.destination()), (1, NEAR));
    assert_eq!(answer.payload()[6..8], 1000u16.to_be_bytes());
    // The rest of the burst is small enough.
    assert_eq!(packets(&mut lane, 10).len(), 1);
    let mut may_be_broken_up = udp(&[0; 2000]);
    may_be_broken_up[6] = 0;
    lane.arrive(20, &[&[0; 10][..], &may_be_broken_up].concat());
    assert!(packets(&mut lane, 100).is_empty());
    let counters = lane.status(0).counters;
    assert_eq!(
        (counters.dropped_mtu, counters.forwarded_packets, counters.resets),
        (3, 1, 0)
    );
    assert_conserved(&counters);
}
