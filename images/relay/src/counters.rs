//! What passed a link and what did not.
//!
//! What must stay true (conservation): every packet that arrived, and every second copy, was forwarded, is held, or
//! was dropped for exactly one reason. What is held now is asked of the delay line and not counted twice.

use wire::{Fate, LATENESS_BOUNDS_NS, LinkCounters};

const TENTH_NS: u64 = 100_000_000;
/// A packet that is written so long after it was due was delayed by the relay and not by the link.
const LATE_NS: u64 = 1_000_000;

/// Counters of one link since the relay started.
#[derive(Debug, Default)]
pub struct Counters {
    totals: LinkCounters,
    tenth: Tenth,
}

/// The tenth of a second that is going on.
#[derive(Debug, Default)]
struct Tenth {
    ends_ns: u64,
    written: u64,
    late: u64,
}

impl Counters {
    /// A packet arrived.
    pub fn arrived(&mut self, bytes: u64) {
        self.totals.arrived_packets += 1;
        self.totals.arrived_bytes += bytes;
    }

    /// The line holds so many bytes after taking a packet.
    pub fn held(&mut self, bytes_now: u64) {
        self.totals.held_bytes_max = self.totals.held_bytes_max.max(bytes_now);
    }

    /// The kernel took a packet back at `now_ns`, so long after it was due.
    pub fn forwarded(&mut self, now_ns: u64, bytes: u64, lateness_ns: u64) {
        self.totals.forwarded_packets += 1;
        self.totals.forwarded_bytes += bytes;
        self.totals.lateness_sum_ns += lateness_ns;
        self.totals.lateness_max_ns = self.totals.lateness_max_ns.max(lateness_ns);
        // From below: nearly all are in the first classes.
        let class = LATENESS_BOUNDS_NS.iter().position(|bound| lateness_ns <= *bound);
        self.totals.lateness[class.unwrap_or(LATENESS_BOUNDS_NS.len())] += 1;
        if now_ns >= self.tenth.ends_ns {
            self.totals.overloaded_tenths += u64::from(self.tenth.overloaded());
            self.tenth = Tenth::of(now_ns);
        }
        self.tenth.written += 1;
        self.tenth.late += u64::from(lateness_ns > LATE_NS);
    }

    /// Packets came to such an end. Arriving, departing and being made are none.
    pub fn dropped(&mut self, fate: Fate, packets: u64) {
        let total = match fate {
            Fate::Cut => &mut self.totals.dropped_cut,
            Fate::Ports => &mut self.totals.dropped_ports,
            Fate::Queue => &mut self.totals.dropped_queue,
            Fate::Rate => &mut self.totals.dropped_rate,
            Fate::Frozen => &mut self.totals.dropped_frozen,
            Fate::Loss => &mut self.totals.dropped_loss,
            Fate::Mtu => &mut self.totals.dropped_mtu,
            Fate::Write => &mut self.totals.dropped_write,
            Fate::Arrived | Fate::Departed | Fate::Made => return,
        };
        *total += packets;
    }

    /// A second copy was made.
    pub fn duplicated(&mut self) {
        self.totals.duplicated += 1;
    }

    /// A bit of a packet was flipped.
    pub fn corrupted(&mut self) {
        self.totals.corrupted += 1;
    }

    /// A packet is held, perhaps held back.
    pub fn reordered(&mut self, held_back: bool) {
        self.totals.reordered += u64::from(held_back);
    }

    /// The relay sent a reset.
    pub fn reset(&mut self) {
        self.totals.resets += 1;
    }

    /// The counters at `now_ns`, with what is held now.
    pub fn snapshot(&self, now_ns: u64, held_packets: u64, held_bytes: u64) -> LinkCounters {
        // Packets to come may still make good what the tenth that is going on is now.
        let last_tenth = now_ns >= self.tenth.ends_ns && self.tenth.overloaded();
        LinkCounters {
            held_packets,
            held_bytes,
            overloaded_tenths: self.totals.overloaded_tenths + u64::from(last_tenth),
            ..self.totals
        }
    }
}

impl Tenth {
    fn of(now_ns: u64) -> Self {
        Self {
            ends_ns: (now_ns / TENTH_NS + 1) * TENTH_NS,
            written: 0,
            late: 0,
        }
    }

    /// More than one packet in a hundred was late.
    fn overloaded(&self) -> bool {
        self.late * 100 > self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_summed_classed_and_its_maximum_kept() {
        let mut counters = Counters::default();
        for lateness_ns in [5, 10_000, 10_001, 60_000_000] {
            counters.forwarded(1, 10, lateness_ns);
        }
        let shown = counters.snapshot(0, 0, 0);
        assert_eq!((shown.lateness_sum_ns, shown.lateness_max_ns), (60_020_006, 60_000_000));
        assert_eq!((shown.forwarded_packets, shown.forwarded_bytes), (4, 40));
        let mut classes = [0; LATENESS_BOUNDS_NS.len() + 1];
        (classes[0], classes[1], classes[LATENESS_BOUNDS_NS.len()]) = (2, 1, 1);
        assert_eq!(shown.lateness, classes);
    }

    #[test]
    fn a_tenth_of_a_second_is_overloaded_when_more_than_one_packet_in_a_hundred_is_late() {
        let mut counters = Counters::default();
        let mut tenth = |number: u64, packets: u64, late: u64| {
            for i in 0..packets {
                let lateness_ns = if i < late { LATE_NS + 1 } else { LATE_NS };
                counters.forwarded(number * TENTH_NS + i, 1, lateness_ns);
            }
            counters.snapshot((number + 1) * TENTH_NS, 0, 0).overloaded_tenths
        };
        assert_eq!(tenth(7, 100, 1), 0);
        assert_eq!(tenth(8, 100, 2), 1);
        assert_eq!(tenth(9, 1, 0), 1);
        assert_eq!(tenth(500, 1, 1), 2);
        assert_eq!(tenth(501, 1000, 10), 2);
        assert_eq!(tenth(502, 50, 50), 3);
        assert_eq!(counters.snapshot(502 * TENTH_NS + 60, 0, 0).overloaded_tenths, 2);
    }

    #[test]
    fn the_high_water_mark_outlives_the_flood() {
        let mut counters = Counters::default();
        counters.held(10);
        counters.held(90);
        counters.held(20);
        let shown = counters.snapshot(0, 1, 20);
        assert_eq!(
            (shown.held_bytes_max, shown.held_bytes, shown.held_packets),
            (90, 20, 1)
        );
    }

    #[test]
    fn every_end_of_a_packet_has_a_counter_of_its_own() {
        let mut counters = Counters::default();
        let ends = [
            Fate::Cut,
            Fate::Ports,
            Fate::Queue,
            Fate::Rate,
            Fate::Frozen,
            Fate::Loss,
            Fate::Mtu,
            Fate::Write,
        ];
        for (packets, fate) in (1..).zip(ends) {
            counters.dropped(fate, packets);
        }
        for fate in [Fate::Arrived, Fate::Departed, Fate::Made] {
            counters.dropped(fate, 1000);
        }
        let shown = counters.snapshot(0, 0, 0);
        let counted = [
            shown.dropped_cut,
            shown.dropped_ports,
            shown.dropped_queue,
            shown.dropped_rate,
            shown.dropped_frozen,
            shown.dropped_loss,
            shown.dropped_mtu,
            shown.dropped_write,
        ];
        assert_eq!(counted, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
