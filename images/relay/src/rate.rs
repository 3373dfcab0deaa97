//! The rate of a link: a queue from which packets leave one after the other, each taking as long as its bytes need.
//!
//! Pure: time is an argument, and only two instants are kept and never a packet. What must stay true: packets leave in
//! the order in which they came and never faster than the rate; what waits never exceeds the queue's bound, but for one
//! packet, which an empty queue always takes, however large. A changed rate holds for packets that come after it: those
//! that wait leave when it was said they would.

use std::num::NonZeroU64;

const BITS_PER_BYTE: u64 = 8;
const NANOSECONDS: u64 = 1_000_000_000;

/// More waits than may.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// The place where packets wait for their turn.
#[derive(Debug, Clone)]
pub struct Bottleneck {
    rate_bits_per_s: Option<NonZeroU64>,
    /// Time that the queue's bound takes at the rate.
    bound_ns: u64,
    /// When the last packet taken has left.
    free_at_ns: u64,
    /// Packets that were taken at an earlier rate.
    older: Older,
}

/// What waits since the rate was changed, which leaves evenly between then and its end.
#[derive(Debug, Clone, Copy, Default)]
struct Older {
    bytes: u64,
    since_ns: u64,
    until_ns: u64,
}

impl Bottleneck {
    /// An empty queue. A rate of 0 has been refused before; here it is none.
    pub fn new(rate_bits_per_s: Option<u64>, queue_bytes: u64) -> Self {
        let rate = rate_bits_per_s.and_then(NonZeroU64::new);
        Self {
            rate_bits_per_s: rate,
            bound_ns: rate.map_or(0, |rate| span_ns(queue_bytes, rate)),
            free_at_ns: 0,
            older: Older::default(),
        }
    }

    /// When a packet of `bytes` that comes at `now_ns` has left.
    pub fn pass(&mut self, now_ns: u64, bytes: u64) -> Result<u64, Full> {
        let Some(rate) = self.rate_bits_per_s else {
            return Ok(now_ns);
        };
        let begin_ns = now_ns.max(self.free_at_ns);
        // A packet has less than 100 KiB on the wire, so that this does not overflow.
        let takes_ns = (bytes * (BITS_PER_BYTE * NANOSECONDS)).div_ceil(rate.get());
        if begin_ns > now_ns && self.waits_ns(now_ns, rate) + takes_ns > self.bound_ns {
            return Err(Full);
        }
        self.free_at_ns = begin_ns.saturating_add(takes_ns);
        Ok(self.free_at_ns)
    }

    /// Another rate and bound for packets that come after `now_ns`.
    pub fn set(&mut self, now_ns: u64, rate_bits_per_s: Option<u64>, queue_bytes: u64) {
        let bytes = self.rate_bits_per_s.map_or(0, |rate| {
            let waits = u128::from(self.waits_ns(now_ns, rate)) * u128::from(rate.get());
            u64::try_from(waits / u128::from(BITS_PER_BYTE * NANOSECONDS)).unwrap_or(u64::MAX)
        });
        let older = Older {
            bytes,
            since_ns: now_ns,
            until_ns: self.free_at_ns,
        };
        *self = Self {
            free_at_ns: self.free_at_ns,
            older,
            ..Self::new(rate_bits_per_s, queue_bytes)
        };
    }

    /// Nothing waits any more: it was destroyed or hurried away.
    pub fn clear(&mut self) {
        self.free_at_ns = 0;
        self.older = Older::default();
    }

    /// How long what waits at `now_ns` would take at `rate`.
    fn waits_ns(&self, now_ns: u64, rate: NonZeroU64) -> u64 {
        if now_ns >= self.older.until_ns {
            return self.free_at_ns.saturating_sub(now_ns);
        }
        let (left, whole) = (
            self.older.until_ns - now_ns,
            (self.older.until_ns - self.older.since_ns).max(1),
        );
        let bytes = u128::from(self.older.bytes) * u128::from(left) / u128::from(whole);
        let older_ns = span_ns(u64::try_from(bytes).unwrap_or(u64::MAX), rate);
        older_ns.saturating_add(self.free_at_ns - self.older.until_ns)
    }
}

/// Time that `bytes` take at `rate`.
fn span_ns(bytes: u64, rate: NonZeroU64) -> u64 {
    let span = u128::from(bytes) * u128::from(BITS_PER_BYTE * NANOSECONDS) / u128::from(rate.get());
    // Far from the end of time, so that a sum with it does not overflow.
    u64::try_from(span).unwrap_or(u64::MAX).min(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One byte per nanosecond.
    const FAST: u64 = 8_000_000_000;

    #[test]
    fn without_a_rate_a_packet_leaves_as_it_comes() {
        let mut bottleneck = Bottleneck::new(None, 0);
        for _ in 0..3 {
            assert_eq!(bottleneck.pass(5, 65_536), Ok(5));
        }
    }

    #[test]
    fn a_packet_has_left_when_its_last_bit_has_and_the_next_follows_it() {
        let mut bottleneck = Bottleneck::new(Some(FAST), 10_000);
        assert_eq!(bottleneck.pass(100, 50), Ok(150));
        assert_eq!(bottleneck.pass(100, 20), Ok(170));
        assert_eq!(bottleneck.pass(300, 7), Ok(307));
    }

    #[test]
    fn a_fraction_of_a_nanosecond_is_never_gained() {
        let mut bottleneck = Bottleneck::new(Some(3_000_000_000), 10_000);
        assert_eq!(bottleneck.pass(0, 1), Ok(3));
    }

    #[test]
    fn what_would_exceed_the_bound_is_refused_until_enough_has_left() {
        let mut bottleneck = Bottleneck::new(Some(FAST), 100);
        assert_eq!(bottleneck.pass(0, 60), Ok(60));
        assert_eq!(bottleneck.pass(0, 41), Err(Full));
        assert_eq!(bottleneck.pass(0, 40), Ok(100));
        assert_eq!(bottleneck.pass(9, 10), Err(Full));
        assert_eq!(bottleneck.pass(10, 10), Ok(110));
    }

    #[test]
    fn an_empty_queue_takes_a_packet_larger_than_its_bound() {
        let mut bottleneck = Bottleneck::new(Some(FAST), 100);
        assert_eq!(bottleneck.pass(0, 5000), Ok(5000));
        assert_eq!(bottleneck.pass(0, 1), Err(Full));
        assert_eq!(bottleneck.pass(5000, 5000), Ok(10_000));
    }

    #[test]
    fn those_that_wait_keep_their_turn_when_the_rate_changes() {
        let mut bottleneck = Bottleneck::new(Some(FAST), 10_000);
        assert_eq!(bottleneck.pass(0, 1000), Ok(1000));
        bottleneck.set(500, Some(FAST / 10), 10_000);
        assert_eq!(bottleneck.pass(500, 10), Ok(1100));
        bottleneck.set(600, Some(FAST), 10_000);
        assert_eq!(bottleneck.pass(600, 10), Ok(1110));
    }

    #[test]
    fn bytes_that_wait_are_bytes_at_any_rate() {
        // 1000 bytes wait, a tenth of a megabit each second; after the change they are not 10 000 times as many.
        let mut bottleneck = Bottleneck::new(Some(FAST / 10_000), 2000);
        assert_eq!(bottleneck.pass(0, 1000), Ok(10_000_000));
        bottleneck.set(0, Some(FAST), 2000);
        assert_eq!(bottleneck.pass(0, 900), Ok(10_000_900));
        assert_eq!(bottleneck.pass(0, 101), Err(Full));
        // Half of the old ones have left.
        assert_eq!(bottleneck.pass(5_000_000, 600), Ok(10_001_500));
        assert_eq!(bottleneck.pass(5_000_000, 101), Err(Full));
        bottleneck.clear();
        assert_eq!(bottleneck.pass(5_000_000, 1), Ok(5_000_001));
    }

    #[test]
    fn absurd_numbers_neither_wrap_nor_panic() {
        let mut slow = Bottleneck::new(Some(1), u64::MAX);
        assert_eq!(slow.pass(u64::MAX - 1, 90_000), Ok(u64::MAX));
        slow.set(u64::MAX - 1, Some(u64::MAX), u64::MAX);
        assert_eq!(slow.pass(u64::MAX - 1, 90_000), Ok(u64::MAX));
        let mut none = Bottleneck::new(Some(0), 0);
        assert_eq!(none.pass(7, 90_000), Ok(7));
    }
}
