//! A lane under these frames: whatever they are and whatever is ordered meanwhile, every packet is accounted for.

use crate::frames::HEADER_LEN;
use crate::oracle::{Reached, is_reset};
use fastrand::Rng;
use relay::lane::{Change, Lane};
use relay::packet::{Ipv4, Tcp};
use std::collections::HashSet;
use std::net::Ipv4Addr;
use wire::{Conditions, CutKind, Loss, RelayLinkConfig, Reorder};

const LIMIT_BYTES: u64 = 200_000;

/// A lane and its time.
pub struct Trial {
    lane: Lane,
    now_ns: u64,
    /// What arrived, where no condition may change it.
    arrived: Option<HashSet<Vec<u8>>>,
}

impl Trial {
    /// A lane under random conditions.
    pub fn new(rng: &mut Rng) -> Self {
        let untouched = rng.bool();
        let config = RelayLinkConfig {
            to: "dc2".into(),
            network: Ipv4Addr::new(198, 18, 1, 0),
            prefix_len: 24,
            via: Ipv4Addr::new(198, 18, 255, 3),
            conditions: conditions(rng, untouched),
        };
        Self {
            lane: Lane::new(&config, LIMIT_BYTES, HEADER_LEN, rng.u64(..)),
            now_ns: 1,
            arrived: untouched.then(HashSet::new),
        }
    }

    /// Let a frame arrive, perhaps change the link, and write what is due.
    ///
    /// # Panics
    /// Something is lost from the count, or passes where nothing may.
    pub fn take(&mut self, rng: &mut Rng, frame: &[u8], reached: &mut Reached) {
        self.now_ns += rng.u64(..2000);
        match rng.u8(..40) {
            0 => self.change(Change::Cut {
                kind: [CutKind::Drop, CutKind::Reset][rng.usize(..2)],
            }),
            1..4 => self.change(Change::Heal),
            4 => self.change(Change::Freeze),
            5..8 => self.change(Change::Thaw),
            8 => self.change(Change::Set {
                conditions: Box::new(conditions(rng, self.arrived.is_some())),
                flush: rng.bool(),
            }),
            9 => self.lane.capture(self.now_ns, Some(rng.u32(..100))),
            10 => {
                let kind = [CutKind::Drop, CutKind::Reset][rng.usize(..2)];
                // Those of what arrives next, where it has any.
                let ports = ports(frame).map_or_else(Vec::new, |ports| ports[rng.usize(..2)..].to_vec());
                self.change(Change::CutPorts { kind, ports });
            }
            _ => {}
        }
        if let Some(arrived) = &mut self.arrived {
            arrived.insert(frame.to_vec());
        }
        self.lane.arrive(self.now_ns, frame);
        self.conserved();
        self.write(rng, reached);
    }

    /// Let everything leave.
    ///
    /// # Panics
    /// Something stays.
    pub fn end(mut self, rng: &mut Rng, reached: &mut Reached) {
        self.change(Change::Heal);
        self.change(Change::Thaw);
        self.now_ns += 10_000_000_000;
        self.write(rng, reached);
        let counters = self.conserved();
        assert_eq!((counters.held_packets, counters.held_bytes), (0, 0), "something stays");
        assert!(self.lane.next_due_ns().is_none());
        for (what, count) in [
            ("lane: cut", counters.dropped_cut),
            ("lane: port cut", counters.dropped_ports),
            ("lane: lost", counters.dropped_loss),
            ("lane: too large", counters.dropped_mtu),
            ("lane: no turn at the rate", counters.dropped_rate),
            ("lane: no room", counters.dropped_queue + counters.dropped_frozen),
            ("lane: refused by the kernel", counters.dropped_write),
            ("lane: doubled", counters.duplicated),
            ("lane: corrupted", counters.corrupted),
            ("lane: reset", counters.resets),
            ("lane: forwarded", counters.forwarded_packets),
        ] {
            *reached.entry(what).or_insert(0) += count;
        }
    }

    fn change(&mut self, change: Change) {
        self.lane.change(self.now_ns, change);
    }

    fn write(&mut self, rng: &mut Rng, reached: &mut Reached) {
        let status = self.lane.status(self.now_ns);
        let mut seen = Vec::new();
        while self.lane.release(self.now_ns, |frame| {
            seen.push(frame.to_vec());
            rng.u8(..50) > 0
        }) {}
        for frame in &seen {
            let packet = frame.get(HEADER_LEN..).unwrap_or_default();
            if self.arrived.as_ref().is_some_and(|arrived| arrived.contains(frame)) {
                assert!(status.cut.is_none() && !status.frozen, "it passes a closed link");
                let cut = |ports: [u16; 2]| {
                    status
                        .port_cut()
                        .is_some_and(|cut| cut.ports.iter().any(|port| ports.contains(port)))
                };
                assert!(!ports(frame).is_some_and(cut), "its port is cut");
                *reached.entry("lane: unchanged").or_insert(0) += 1;
            } else if self.arrived.is_some() || status.cut.is_some() || status.frozen {
                // Only what the relay makes itself: resets, and word of the MTU from before.
                let word = packet.len() >= 28 && packet[9] == 1 && packet[20] == 3;
                assert!(
                    is_reset(packet) || word,
                    "it passes a closed link, or is not what arrived"
                );
            }
        }
        self.conserved();
    }

    fn conserved(&self) -> wire::LinkCounters {
        let counters = self.lane.status(self.now_ns).counters;
        let dropped = counters.dropped_cut
            + counters.dropped_ports
            + counters.dropped_queue
            + counters.dropped_rate
            + counters.dropped_frozen
            + counters.dropped_loss
            + counters.dropped_mtu
            + counters.dropped_write;
        assert_eq!(
            counters.arrived_packets + counters.duplicated,
            counters.forwarded_packets + counters.held_packets + dropped,
            "{counters:?}"
        );
        assert!(counters.held_bytes <= LIMIT_BYTES);
        counters
    }
}

/// Of a segment in one piece.
fn ports(frame: &[u8]) -> Option<[u16; 2]> {
    let packet = Ipv4::read(frame.get(HEADER_LEN..)?)?;
    Tcp::read(&packet).map(|tcp| [tcp.source_port, tcp.destination_port])
}

/// `untouched`: none that changes or splits a packet.
fn conditions(rng: &mut Rng, untouched: bool) -> Conditions {
    let mut sometimes = |most: u32| if rng.u8(..3) == 0 { rng.u32(1..=most) } else { 0 };
    let [loss, duplicate_ppm, reorder, corrupt_ppm, delay, rate, mtu] =
        [300_000, 300_000, 300_000, 300_000, 5000, 1000, 1400].map(&mut sometimes);
    let timed = Conditions {
        rate_bits_per_s: (rate > 0).then(|| u64::from(rate) * 1_000_000),
        queue_bytes: rng.u64(..100_000),
        ..Conditions::delay(u64::from(delay))
    };
    if untouched {
        return timed;
    }
    Conditions {
        loss: (loss > 0).then(|| Loss {
            ppm: loss,
            burst_milli: rng.u32(1000..4000),
        }),
        duplicate_ppm,
        reorder: (reorder > 0).then(|| Reorder {
            ppm: reorder,
            by_ns: rng.u64(..5000),
        }),
        corrupt_ppm,
        mtu: (mtu > 0).then(|| u16::try_from(mtu.max(68)).expect("1400 fits")),
        ..timed
    }
}
