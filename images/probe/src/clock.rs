//! The one clock of the probe: CLOCK_MONOTONIC in nanoseconds, which all containers of an engine share.
//!
//! `std::time::Instant` reads the same clock but does not tell the number, so two probes could not compare.
//! Sleeps are absolute and go to the kernel directly: tokio's timer is a wheel of 1 ms.

use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::num::NonZeroU64;
use std::time::Duration;

const NS_PER_S: u64 = 1_000_000_000;

/// Now, in nanoseconds of CLOCK_MONOTONIC.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).expect("CLOCK_MONOTONIC counts up from zero");
    let nanos = u64::try_from(now.tv_nsec).expect("nanoseconds of a timespec are never negative");
    seconds * NS_PER_S + nanos
}

/// Sleeps until the clock shows `at_ns`; returns at once if it already does.
pub fn sleep_until(at_ns: u64) {
    let request = Timespec {
        tv_sec: i64::try_from(at_ns / NS_PER_S).expect("u64 nanoseconds are fewer than i64 seconds"),
        tv_nsec: i64::try_from(at_ns % NS_PER_S).expect("a remainder of 1e9 fits"),
    };
    // A signal may wake it early; the request is absolute, so it can simply be repeated.
    while now_ns() < at_ns {
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &request);
    }
}

/// Lets this thread's sleeps end within microseconds of their time instead of the default 50.
pub fn sharpen() {
    // Refused only by kernels without the call; sleeps are then 50 µs late, which stamps show.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Time left until `deadline_ns`; zero once it has passed.
pub fn until(deadline_ns: u64) -> Duration {
    Duration::from_nanos(deadline_ns.saturating_sub(now_ns()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_forward_and_a_sleep_never_ends_early() {
        let before = now_ns();
        sleep_until(before + 3_000_000);
        assert!(now_ns() >= before + 3_000_000);
    }

    #[test]
    fn a_sleep_until_the_past_returns() {
        sleep_until(0);
        assert_eq!(until(0), Duration::ZERO);
    }
}
