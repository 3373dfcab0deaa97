//! Random packets, conditions, cuts and freezes: what must stay true of a lane whatever is done to it.

use super::tests::{assert_conserved, delay};
use super::*;
use crate::packet::{Ipv4, TCP, Tcp, flag};
use crate::sample::{FAR_PORT, tcp, udp};
use fastrand::Rng;
use std::collections::HashMap;
use wire::{Action, Jitter, JitterShape, LinkCounters, Loss, Reorder, Step};

const LIMIT: u64 = 1500;
const STEPS: u32 = 20_000;
const HEADER_LEN: usize = 10;

/// What is known of a packet that arrived: when it may leave, and whether it keeps its order.
#[derive(Clone, Copy)]
struct Sent {
    earliest_ns: u64,
    kept: bool,
}

/// A lane and what is expected of it.
struct Trial {
    lane: Lane,
    rng: Rng,
    now_ns: u64,
    sent: Vec<Sent>,
    last_kept: Option<usize>,
    /// When and what left, the relay's own packets included.
    seen: Vec<(u64, Vec<u8>)>,
}

impl Trial {
    fn new(script: u64, seed: u64) -> Self {
        let config = RelayLinkConfig {
            to: "dc2".into(),
            network: Ipv4Addr::new(198, 18, 1, 0),
            prefix_len: 24,
            via: Ipv4Addr::new(198, 18, 255, 3),
            conditions: delay(50),
        };
        Self {
            lane: Lane::new(&config, LIMIT, HEADER_LEN, seed),
            rng: Rng::with_seed(script),
            now_ns: 0,
            sent: Vec::new(),
            last_kept: None,
            seen: Vec::new(),
        }
    }

    fn run(script: u64, seed: u64) -> (Vec<(u64, Vec<u8>)>, LinkCounters) {
        let mut trial = Self::new(script, seed);
        for _ in 0..STEPS {
            trial.now_ns += trial.rng.u64(..20);
            match trial.rng.u32(..20) {
                0..8 => trial.arrive(),
                8..15 => trial.drain(),
                15 if trial.rng.u8(..8) == 0 => trial.play(),
                15 => trial.set(),
                16 if trial.lane.status(0).cut.is_some() => trial.change(Change::Heal),
                16 | 17 if trial.rng.u8(..16) == 0 => {
                    let kind = if trial.rng.bool() {
                        CutKind::Drop
                    } else {
                        CutKind::Reset
                    };
                    trial.change(Change::Cut { kind });
                }
                17 if trial.rng.u8(..4) == 0 => trial.cut_ports(),
                18 if trial.lane.status(0).frozen => trial.change(Change::Thaw),
                19 if trial.rng.u8(..8) == 0 => trial.change(Change::Freeze),
                _ => {}
            }
            let counters = trial.lane.status(trial.now_ns).counters;
            assert_conserved(&counters);
            assert!(counters.held_bytes <= LIMIT && counters.held_bytes_max <= LIMIT);
            assert_eq!(counters.held_bytes == 0, counters.held_packets == 0);
        }
        (trial.seen, trial.lane.status(trial.now_ns).counters)
    }

    fn change(&mut self, change: Change) {
        self.lane.change(self.now_ns, change);
    }

    /// Ports of all segments, of none, or an end of it.
    fn cut_ports(&mut self) {
        let kind = if self.rng.bool() { CutKind::Drop } else { CutKind::Reset };
        let ports = match self.rng.u8(..3) {
            0 => Vec::new(),
            1 => vec![1],
            _ => vec![FAR_PORT, 1],
        };
        self.change(Change::CutPorts { kind, ports });
    }

    /// One datagram, or a burst of segments. Each carries its number.
    fn arrive(&mut self) {
        let conditions = self.lane.status(0).conditions;
        let count = if self.rng.bool() { 1 } else { self.rng.usize(2..6) };
        let unit = if conditions.per_packet() { count } else { 1 };
        let first = self.sent.len();
        let sent = Sent {
            earliest_ns: self.now_ns + shortest_ns(&conditions),
            kept: conditions.reorder.is_none() && !conditions.jitter.as_ref().is_some_and(|jitter| jitter.reorder),
        };
        self.sent.extend(std::iter::repeat_n(sent, unit));
        let number = |i: usize| u32::try_from(first + i).unwrap().to_be_bytes();
        let payload: Vec<u8> = (0..count).flat_map(number).collect();
        let frame = if count == 1 {
            [&[0; HEADER_LEN][..], &udp(&payload)].concat()
        } else {
            let header = [1, 1, 0, 0, 4, 0, 20, 0, 16, 0];
            [&header[..], &tcp(self.rng.u32(..), 7, flag::ACK, &payload)].concat()
        };
        self.lane.arrive(self.now_ns, &frame);
    }

    fn set(&mut self) {
        let (rng, now_ns) = (&mut self.rng, self.now_ns);
        let mut once = |ppm| if rng.u8(..4) == 0 { ppm } else { 0 };
        let [loss, duplicate_ppm, reorder, corrupt_ppm, jitter, rate, mtu] =
            [300_000, 300_000, 300_000, 100_000, 1, 1, 1].map(&mut once);
        let shape = match rng.u8(..4) {
            0 => JitterShape::Uniform {
                spread_ns: rng.u64(..100),
            },
            1 => JitterShape::Normal {
                deviation_ns: rng.u64(..50),
            },
            2 => JitterShape::Pareto {
                deviation_ns: rng.u64(..50),
            },
            _ => JitterShape::Table {
                added_ns: vec![3, 40, 90],
            },
        };
        let conditions = Conditions {
            jitter: (jitter > 0).then(|| Jitter {
                shape,
                reorder: rng.bool(),
            }),
            loss: (loss > 0).then(|| Loss {
                ppm: loss,
                burst_milli: rng.u32(500..4000),
            }),
            duplicate_ppm,
            reorder: (reorder > 0).then(|| Reorder {
                ppm: reorder,
                by_ns: rng.u64(..100),
            }),
            corrupt_ppm,
            rate_bits_per_s: (rate > 0).then(|| rng.u64(1_000_000_000..20_000_000_000)),
            queue_bytes: rng.u64(..2000),
            mtu: (mtu > 0).then(|| rng.u16(43..48)),
            ..delay(rng.u64(..200))
        };
        let flush = rng.u8(..4) == 0;
        if flush {
            let hurried = self.sent.iter_mut();
            hurried.for_each(|sent| sent.earliest_ns = sent.earliest_ns.min(now_ns));
        }
        let conditions = Box::new(conditions);
        self.change(Change::Set { conditions, flush });
    }

    /// Plan a cut and a freeze, perhaps in the past; sometimes they are forgotten again.
    fn play(&mut self) {
        if self.rng.u8(..4) == 0 {
            return self.change(Change::StopPlay);
        }
        let flap = Action::Flap {
            kind: CutKind::Reset,
            every_ns: self.rng.u64(1..30),
            until_ns: Some(self.rng.u64(10..200)),
        };
        let actions = [flap, Action::Heal, Action::Freeze, Action::Thaw];
        let steps = (0..)
            .step_by(100)
            .zip(actions)
            .map(|(at_ns, action)| Step { at_ns, action });
        let schedule = Box::new(Schedule { steps: steps.collect() });
        let start_ns = (self.now_ns + self.rng.u64(..100)).saturating_sub(50);
        self.change(Change::Play { schedule, start_ns });
    }

    fn drain(&mut self) {
        let (now_ns, begin) = (self.now_ns, self.seen.len());
        // What is planned until now is carried out, and nothing else.
        self.change(Change::Sabotage { defect: None });
        let status = self.lane.status(0);
        // One in fifty the kernel refuses.
        let (seen, rng) = (&mut self.seen, &mut self.rng);
        while self.lane.release(now_ns, |frame| {
            let taken = rng.u8(..50) > 0;
            if taken {
                seen.push((now_ns, frame.to_vec()));
            }
            taken
        }) {}
        assert!(self.lane.next_due_ns().is_none_or(|due_ns| due_ns > now_ns));
        let cuts_segments = status.port_cut().is_some_and(|cut| cut.ports.contains(&FAR_PORT));
        for at in begin..self.seen.len() {
            let frame = self.seen[at].1.clone();
            if let Some(number) = number_of(&frame[HEADER_LEN..]) {
                assert!(!status.frozen, "a frozen lane lets packet {number} pass");
                assert_eq!(status.cut, None, "a cut lane lets packet {number} pass");
                let is_segment = Ipv4::read(&frame[HEADER_LEN..]).is_some_and(|packet| packet.protocol() == TCP);
                assert!(!cuts_segments || !is_segment, "segment {number} of a cut port passes");
                self.check(number);
            }
        }
    }

    fn check(&mut self, number: usize) {
        let sent = self.sent[number];
        assert!(self.now_ns >= sent.earliest_ns, "packet {number} left early");
        if sent.kept {
            assert!(
                self.last_kept <= Some(number),
                "packet {number} after {:?}",
                self.last_kept
            );
            self.last_kept = Some(number);
        }
    }
}

/// The shortest time that a packet may be held.
fn shortest_ns(conditions: &Conditions) -> u64 {
    match conditions.jitter.as_ref().map(|jitter| &jitter.shape) {
        None => conditions.delay_ns,
        Some(JitterShape::Uniform { spread_ns }) => conditions.delay_ns.saturating_sub(*spread_ns),
        Some(JitterShape::Table { .. }) => conditions.delay_ns + 3,
        Some(JitterShape::Normal { .. } | JitterShape::Pareto { .. }) => 0,
    }
}

/// Number of the first packet in a frame; nothing for what the relay made itself and for what it corrupted.
fn number_of(packet: &[u8]) -> Option<usize> {
    let packet = Ipv4::read(packet)?;
    let covered = crate::checksum::pseudo(packet.addresses(), packet.protocol(), packet.payload().len())
        + crate::checksum::sum(packet.payload());
    if packet.protocol() == crate::packet::ICMP || crate::checksum::folded(covered) != u16::MAX {
        return None;
    }
    let header_len = match packet.protocol() {
        TCP => Tcp::read(&packet).filter(|tcp| !tcp.has(flag::RST))?.header_len,
        _ => 8,
    };
    let number = packet.payload()[header_len..].first_chunk()?;
    Some(u32::from_be_bytes(*number) as usize)
}

#[test]
fn never_early_never_out_of_order_always_conserved_and_bounded_whatever_is_ordered() {
    let mut ends = HashMap::new();
    for script in 0..8 {
        let (seen, counters) = Trial::run(script, script);
        assert!(seen.len() > 500, "{counters:?}");
        let dropped = [
            ("cut", counters.dropped_cut),
            ("ports", counters.dropped_ports),
            ("queue", counters.dropped_queue),
            ("rate", counters.dropped_rate),
            ("frozen", counters.dropped_frozen),
            ("loss", counters.dropped_loss),
            ("mtu", counters.dropped_mtu),
            ("write", counters.dropped_write),
            ("duplicated", counters.duplicated),
            ("corrupted", counters.corrupted),
            ("reordered", counters.reordered),
            ("reset", counters.resets),
        ];
        for (end, count) in dropped {
            *ends.entry(end).or_insert(0) += count;
        }
    }
    // The trials went everywhere.
    assert!(ends.values().all(|count| *count > 50), "{ends:?}");
}

#[test]
fn the_same_seed_does_the_same_to_the_same_packets_and_another_does_not() {
    let once = Trial::run(1, 5);
    assert!(once == Trial::run(1, 5));
    assert!(once != Trial::run(1, 6));
}
