//! How long before a deadline the data path wakes: a sleep ends late by what the kernel and the machine take to wake a
//! thread, so it is ended that much earlier, and the rest is waited for awake.
//!
//! Pure: what a sleep was late is an argument. What must stay true: a lead never makes a packet leave early, since it
//! only says when to wake; it is bounded, since what is waited for awake costs processor time.

/// Longest lead. Sleeps that end later than this have met other work and not the machine's own slowness.
const MOST_NS: u64 = 100_000;
/// One step down for a sleep that ended within the lead, three up for one that did not: the lead settles where three
/// sleeps in four end within it. More would be waited for awake by all others.
const STEP_NS: u64 = 250;

/// The lead at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lead {
    ns: u64,
}

impl Lead {
    /// From sleeps at the start, each with how late it ended in nanoseconds.
    pub fn measured(mut lateness_ns: Vec<u64>) -> Self {
        lateness_ns.sort_unstable();
        let ns = lateness_ns.get(lateness_ns.len() * 3 / 4).copied().unwrap_or(0);
        Self { ns: ns.min(MOST_NS) }
    }

    /// How long before a deadline to wake, nanoseconds.
    pub fn ns(self) -> u64 {
        self.ns
    }

    /// A sleep ended so late. The machine has faster and slower times, and a longer sleep ends later.
    pub fn learn(&mut self, lateness_ns: u64) {
        self.ns = if lateness_ns > self.ns {
            (self.ns + 3 * STEP_NS).min(MOST_NS)
        } else {
            self.ns.saturating_sub(STEP_NS)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_where_three_sleeps_in_four_end_within_it() {
        assert_eq!(Lead::measured((1..=100).rev().collect()).ns(), 76);
        assert_eq!(Lead::measured(Vec::new()).ns(), 0);
    }

    #[test]
    fn it_is_bounded_whatever_the_machine_does() {
        let mut lead = Lead::measured(vec![u64::MAX; 8]);
        assert_eq!(lead.ns(), MOST_NS);
        lead.learn(u64::MAX);
        assert_eq!(lead.ns(), MOST_NS);
        (0..1000).for_each(|_| lead.learn(0));
        assert_eq!(lead.ns(), 0);
    }

    #[test]
    fn it_follows_a_machine_that_became_slower_or_faster() {
        let mut lead = Lead::measured(vec![15_000; 64]);
        // Lateness between 40 and 60 us, evenly: three quarters end within 55.
        for round in 0..4000u64 {
            lead.learn(40_000 + round * 7919 % 20_000);
        }
        assert!((52_000..58_000).contains(&lead.ns()), "{lead:?}");
        for round in 0..4000u64 {
            lead.learn(5_000 + round * 7919 % 2_000);
        }
        assert!((4_500..8_000).contains(&lead.ns()), "{lead:?}");
    }
}
