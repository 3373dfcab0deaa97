//! What the host does to a measurement: how late it wakes a process, and where its processor time goes.
//!
//! Both describe the whole machine: /proc/stat is not divided by containers, and a sleep is late because of whatever
//! else runs.

use crate::clock;
use crate::failures::Failures;
use crate::running::{ENDED, Stop};
use std::io;
use wire::{CpuSeen, ProbeAnswer, Sample};

/// Most sleeps of one order: each is a sample in its answer.
const MOST_SLEEPS: u32 = 1_000_000;

/// Where the kernel counts processor time.
const STAT: &str = "/proc/stat";

/// Why the host could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The file cannot be read.
    #[error("read {STAT}: {0}")]
    Read(#[source] io::Error),
    /// It is not what kernels write.
    #[error("understand {STAT}: no line of all processors")]
    Malformed,
    /// The order makes no sense.
    #[error("{0} sleeps are more than {MOST_SLEEPS}")]
    TooMany(u32),
}

/// Sleeps one after the other. The timer slack of this thread is 1 ns, as for every sleep that times something in
/// the probe: with the default, 50 µs of the kernel's own choice would be taken for noise of the host.
pub fn sleeps(sleep_ns: u64, count: u32, stop: &Stop) -> Result<ProbeAnswer, HostError> {
    if count > MOST_SLEEPS {
        return Err(HostError::TooMany(count));
    }
    clock::sharpen();
    let mut samples = Vec::new();
    let mut failures = Failures::default();
    for done in 0..count {
        if stop.is_set() {
            failures.add_times(ENDED, count - done);
            break;
        }
        let started_ns = clock::now_ns();
        clock::sleep_until(started_ns.saturating_add(sleep_ns));
        samples.push(Sample {
            intended_ns: started_ns,
            started_ns,
            ended_ns: clock::now_ns(),
            outcome: 0,
        });
    }
    Ok(ProbeAnswer::Samples {
        samples,
        failures: failures.into_wire(),
        nodelay: None,
    })
}

/// Processor time since the host's start.
pub fn cpu() -> Result<CpuSeen, HostError> {
    let text = std::fs::read_to_string(STAT).map_err(HostError::Read)?;
    seen(&text).ok_or(HostError::Malformed)
}

/// Reads the line of all processors: user, nice, system, idle, iowait, irq, softirq, steal; what follows (guests) is
/// counted in the first two already.
fn seen(stat: &str) -> Option<CpuSeen> {
    let mut total = None;
    let mut cores = 0;
    for line in stat.lines() {
        let Some((name, numbers)) = line.split_once(' ') else {
            continue;
        };
        match name.strip_prefix("cpu") {
            Some("") => total = Some(numbers),
            Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => cores += 1,
            _ => {}
        }
    }
    let ticks: Option<Vec<u64>> = total?.split_whitespace().map(|number| number.parse().ok()).collect();
    let ticks = ticks?;
    let [user, nice, system, idle, iowait, irq, softirq, steal] = *ticks.first_chunk::<8>()?;
    Some(CpuSeen {
        cores,
        busy_ticks: user + nice + system + irq + softirq,
        idle_ticks: idle + iowait,
        steal_ticks: steal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_all_processors_is_added_up() {
        let stat = "cpu  100 20 30 4000 500 6 7 80 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\ncpu11 2 2 2 2 2 2 2 2 2 2\n\
                    intr 12345 0 0\nctxt 5\nbtime 1\nprocesses 9\n";
        let expected = CpuSeen {
            cores: 2,
            busy_ticks: 163,
            idle_ticks: 4500,
            steal_ticks: 80,
        };
        assert_eq!(seen(stat), Some(expected));
        assert_eq!(seen("cpu  1 2 3\n"), None);
        assert_eq!(seen("cpu0 1 2 3 4 5 6 7 8\n"), None);
        assert_eq!(seen(""), None);
    }

    #[test]
    fn this_host_can_be_read_and_its_time_goes_on() {
        let before = cpu().unwrap();
        let began_ns = clock::now_ns();
        while cpu().unwrap().busy_ticks == before.busy_ticks {
            assert!(
                clock::until(began_ns + 20_000_000_000).as_nanos() > 0,
                "nothing counted"
            );
        }
        let cores = std::thread::available_parallelism().unwrap().get();
        assert!(before.cores as usize >= cores, "{before:?}");
    }

    #[test]
    fn a_sleep_is_never_short_and_an_ended_order_says_what_it_left_out() {
        let Ok(ProbeAnswer::Samples { samples, failures, .. }) = sleeps(1_000_000, 5, &Stop::default()) else {
            panic!("no samples")
        };
        assert_eq!((samples.len(), failures), (5, vec![]));
        assert!(
            samples
                .iter()
                .all(|sample| sample.ended_ns - sample.started_ns >= 1_000_000)
        );
        let ended = Stop::default();
        ended.set();
        let Ok(ProbeAnswer::Samples { samples, failures, .. }) = sleeps(1_000_000, 5, &ended) else {
            panic!("no samples")
        };
        assert_eq!((samples.len(), failures[0].times), (0, 5));
        assert!(matches!(sleeps(0, u32::MAX, &ended), Err(HostError::TooMany(u32::MAX))));
    }
}
