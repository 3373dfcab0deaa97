//! What passed a link and what did not.
//!
//! What must stay true (conservation): every packet that arrived was forwarded, is held, or was dropped for
//! exactly one reason. What is held now is asked of the delay line and not counted twice.

use wire::LinkCounters;

/// Counters of one link since the relay started.
#[derive(Debug, Default)]
pub struct Counters {
    totals: LinkCounters,
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

    /// The kernel took a packet back, so long after it was due.
    pub fn forwarded(&mut self, bytes: u64, lateness_ns: u64) {
        self.totals.forwarded_packets += 1;
        self.totals.forwarded_bytes += bytes;
        self.totals.lateness_sum_ns += lateness_ns;
        self.totals.lateness_max_ns = self.totals.lateness_max_ns.max(lateness_ns);
    }

    /// A cut destroyed packets.
    pub fn dropped_by_cut(&mut self, packets: u64) {
        self.totals.dropped_cut += packets;
    }

    /// The line was full.
    pub fn dropped_by_queue(&mut self) {
        self.totals.dropped_queue += 1;
    }

    /// The kernel refused to take a packet back.
    pub fn dropped_by_write(&mut self) {
        self.totals.dropped_write += 1;
    }

    /// The counters, with what is held now.
    pub fn snapshot(&self, held_packets: u64, held_bytes: u64) -> LinkCounters {
        LinkCounters {
            held_packets,
            held_bytes,
            ..self.totals
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_summed_and_its_maximum_kept() {
        let mut counters = Counters::default();
        counters.forwarded(10, 5);
        counters.forwarded(10, 9);
        counters.forwarded(10, 1);
        let shown = counters.snapshot(0, 0);
        assert_eq!((shown.lateness_sum_ns, shown.lateness_max_ns), (15, 9));
        assert_eq!((shown.forwarded_packets, shown.forwarded_bytes), (3, 30));
    }

    #[test]
    fn the_high_water_mark_outlives_the_flood() {
        let mut counters = Counters::default();
        counters.held(10);
        counters.held(90);
        counters.held(20);
        let shown = counters.snapshot(1, 20);
        assert_eq!(
            (shown.held_bytes_max, shown.held_bytes, shown.held_packets),
            (90, 20, 1)
        );
    }
}
