//! One link with what is in flight on it and what has been counted: everything that happens to a packet
//! between the read and the write.
//!
//! Pure: time and the act of writing are arguments. What must stay true: never early, never reordered, and
//! `arrived = forwarded + held + dropped by cut, queue and write`, after every call.

use crate::counters::Counters;
use crate::delay_line::DelayLine;
use crate::link::{Link, Verdict};
use crate::tap::{Taken, Tap};
use std::net::Ipv4Addr;
use wire::{Conditions, CutKind, Fate, LinkStatus, RelayLinkConfig};

/// An outgoing link at work.
#[derive(Debug)]
pub struct Lane {
    link: Link,
    line: DelayLine,
    counters: Counters,
    tap: Tap,
}

impl Lane {
    /// An empty lane that holds at most `limit_bytes`; the first `header_len` bytes of each frame belong to the
    /// device.
    pub fn new(config: &RelayLinkConfig, limit_bytes: u64, header_len: usize) -> Self {
        Self {
            link: Link::new(config),
            line: DelayLine::new(limit_bytes, header_len),
            counters: Counters::default(),
            tap: Tap::new(header_len),
        }
    }

    /// Far datacenter.
    pub fn to(&self) -> &str {
        self.link.to()
    }

    /// Whether a packet to `destination` takes this lane.
    pub fn leads_to(&self, destination: Ipv4Addr) -> bool {
        self.link.leads_to(destination)
    }

    /// Take a packet that arrives at `now_ns`.
    pub fn arrive(&mut self, now_ns: u64, frame: &[u8]) {
        self.counters.arrived(self.line.size(frame));
        self.tap.see(now_ns, Fate::Arrived, frame);
        match self.link.judge(now_ns) {
            Verdict::Cut => {
                self.counters.dropped_by_cut(1);
                self.tap.see(now_ns, Fate::Cut, frame);
            }
            Verdict::Hold { due_ns } => match self.line.push(due_ns, frame) {
                Ok(()) => self.counters.held(self.line.bytes()),
                Err(_full) => {
                    self.counters.dropped_by_queue();
                    self.tap.see(now_ns, Fate::Queue, frame);
                }
            },
        }
    }

    /// Write the first packet if it is due at `now_ns`; returns whether there was one. `write` says whether
    /// the kernel took it.
    pub fn release(&mut self, now_ns: u64, write: impl FnOnce(&[u8]) -> bool) -> bool {
        let Some(held) = self.line.pop(now_ns) else {
            return false;
        };
        if write(&held.frame) {
            self.counters
                .forwarded(self.line.size(&held.frame), now_ns - held.due_ns);
            self.tap.see(now_ns, Fate::Departed, &held.frame);
        } else {
            self.counters.dropped_by_write();
            self.tap.see(now_ns, Fate::Write, &held.frame);
        }
        true
    }

    /// When the next packet is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.line.next_due_ns()
    }

    /// Conditions for packets that arrive from now on.
    pub fn set(&mut self, conditions: Conditions) {
        self.link.set(conditions);
    }

    /// Begin a cut: what is in flight is destroyed.
    pub fn begin_cut(&mut self, kind: CutKind, now_ns: u64) {
        self.link.begin_cut(kind, now_ns);
        self.tap.see_all(now_ns, Fate::Cut, self.line.frames());
        self.counters.dropped_by_cut(self.line.clear() as u64);
    }

    /// End a cut.
    pub fn heal(&mut self, now_ns: u64) {
        self.link.heal(now_ns);
    }

    /// Begin to keep copies of the first `snap_bytes` of each packet, or end it.
    pub fn capture(&mut self, now_ns: u64, snap_bytes: Option<u32>) {
        match snap_bytes {
            Some(snap_bytes) => self.tap.open(now_ns, snap_bytes),
            None => self.tap.close(),
        }
    }

    /// Take away copies, of at most `most_bytes` of packets together.
    pub fn take_captured(&mut self, now_ns: u64, most_bytes: u32) -> Taken {
        self.tap.take(now_ns, most_bytes)
    }

    /// End a capture from which nobody takes any more.
    pub fn forget_capture(&mut self, now_ns: u64) {
        self.tap.close_if_forgotten(now_ns);
    }

    /// The state for a report.
    pub fn status(&self) -> LinkStatus {
        LinkStatus {
            cut: self.link.cut(),
            last_cut_ns: self.link.last_cut_ns(),
            last_heal_ns: self.link.last_heal_ns(),
            capturing: self.tap.is_open(),
            counters: self.counters.snapshot(self.line.packets() as u64, self.line.bytes()),
            ..LinkStatus::up(self.link.to(), self.link.conditions().clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::LinkCounters;

    fn lane(delay_ns: u64, limit_bytes: u64) -> Lane {
        let config = RelayLinkConfig {
            to: "dc2".into(),
            network: Ipv4Addr::new(198, 18, 1, 0),
            prefix_len: 24,
            via: Ipv4Addr::new(198, 18, 255, 3),
            conditions: Conditions::delay(delay_ns),
        };
        Lane::new(&config, limit_bytes, 0)
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
        let dropped = counters.dropped_cut + counters.dropped_queue + counters.dropped_write;
        assert_eq!(
            counters.arrived_packets,
            counters.forwarded_packets + counters.held_packets + dropped
        );
    }

    #[test]
    fn without_a_delay_a_packet_leaves_at_the_instant_of_its_arrival() {
        let mut lane = lane(0, 1000);
        lane.arrive(100, &7u32.to_ne_bytes());
        assert_eq!(drain(&mut lane, 100), [7]);
        assert_eq!(lane.status().counters.lateness_sum_ns, 0);
    }

    #[test]
    fn a_delay_lowered_live_reorders_nothing_and_hurries_nothing_in_flight() {
        let mut lane = lane(100, 1000);
        lane.arrive(0, &1u32.to_ne_bytes());
        lane.set(Conditions::delay(10));
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
        lane.set(Conditions::delay(100));
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
        lane.begin_cut(CutKind::Drop, 5);
        lane.arrive(6, &3u32.to_ne_bytes());
        assert_eq!(lane.next_due_ns(), None);
        assert!(drain(&mut lane, 1000).is_empty());
        assert_eq!(lane.status().counters.dropped_cut, 3);
        lane.heal(1000);
        lane.arrive(1001, &4u32.to_ne_bytes());
        assert_eq!(drain(&mut lane, 1011), [4]);
        let status = lane.status();
        assert_eq!((status.last_cut_ns, status.last_heal_ns), (Some(5), Some(1000)));
        assert_conserved(&status.counters);
    }

    #[test]
    fn a_capture_sees_every_arrival_and_what_became_of_it() {
        let mut lane = lane(10, 8);
        lane.arrive(0, &0u32.to_ne_bytes());
        lane.capture(0, Some(100));
        assert!(lane.status().capturing);
        lane.arrive(1, &1u32.to_ne_bytes());
        lane.arrive(2, &2u32.to_ne_bytes());
        assert_eq!(drain(&mut lane, 10), [0]);
        lane.begin_cut(CutKind::Drop, 11);
        lane.arrive(12, &3u32.to_ne_bytes());
        lane.heal(13);
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
        assert!(!lane.status().capturing);
    }

    #[test]
    fn a_full_lane_drops_the_newcomer_and_counts_it() {
        let mut lane = lane(10, 8);
        for i in 0..3u32 {
            lane.arrive(0, &i.to_ne_bytes());
        }
        let counters = lane.status().counters;
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
        let counters = lane.status().counters;
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
                    earliest.push(now + lane.status().conditions.delay_ns);
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
                8 => lane.set(Conditions::delay(random(200))),
                _ if lane.status().cut.is_some() => lane.heal(now),
                _ if random(5) == 0 => lane.begin_cut(CutKind::Drop, now),
                _ => {}
            }
            let counters = lane.status().counters;
            assert_conserved(&counters);
            assert!(counters.held_bytes <= 48);
        }
        let counters = lane.status().counters;
        assert!(
            counters.forwarded_packets > 500 && counters.dropped_cut > 50 && counters.dropped_queue > 10,
            "{counters:?}"
        );
    }
}
