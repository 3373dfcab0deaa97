//! The instrument before a block: each direction of the link asked against measured, what a probe costs by itself, and what
//! the host does while nothing is measured. No server is the clock. It takes well under a second and a half, but for links
//! so long that the fewest round trips take more.

use super::{REPLY, Scene};
use crate::block::BlockError;
use crate::history::{Calibrated, HostSeen, ProbeSeen, What};
use crate::lab::LinkSeen;
use crate::names::DatacenterName;
use crate::probe::{Samples, nanoseconds};
use std::time::Duration;
use wire::{Path, Transport};

/// Time that the counted round trips of one end may take together.
const BUDGET_NS: u64 = 500_000_000;
/// Fewest and most round trips of one end; each gives a one-way time in either direction.
const ECHOES: (u64, u64) = (3, 20);
/// Round trips before those.
const WARMUP: u32 = 2;
/// Between two.
const PAUSE: Duration = Duration::from_millis(1);
/// Round trips of a probe with itself.
const OWN: u32 = 20;
/// Sleeps, and the length of one.
const SLEEPS: (u32, Duration) = (50, Duration::from_millis(1));

impl Scene<'_> {
    /// Measures the instrument, and records it. `links` are both directions, outward first.
    pub async fn calibrate(&mut self, links: &[LinkSeen; 2]) -> Result<(), BlockError> {
        self.host_seen("before").await?;
        let (home, away) = (&self.cast.home, &self.cast.away);
        let (one, other) = tokio::try_join!(self.alone(home), self.alone(away))?;
        self.write(What::ProbeSeen(one))?;
        self.write(What::ProbeSeen(other))?;
        if self.lab.has_one_clock() {
            self.both_ways(links).await?;
        }
        self.host_seen("start").await
    }

    /// Records processor time.
    pub async fn host_seen(&mut self, row: &str) -> Result<(), BlockError> {
        let home = &self.cast.home;
        let cpu = self.lab.probe(home).cpu().await?;
        self.write(What::HostSeen(HostSeen {
            block: self.block,
            row: row.to_owned(),
            datacenter: home.to_string(),
            cpu,
        }))
    }

    async fn alone(&self, datacenter: &DatacenterName) -> Result<ProbeSeen, BlockError> {
        let probe = self.lab.probe(datacenter);
        let own = self.lab.datacenter(datacenter).probe_address;
        let echo = probe.echo(own, Transport::Udp, WARMUP, OWN, PAUSE, REPLY).await?;
        let (count, sleep) = SLEEPS;
        let slept = probe.sleeps(sleep, count).await?;
        let lasted = slept.samples.iter().map(|sample| sample.ended_ns - sample.started_ns);
        let echo_ns = echo.samples.iter().map(|sample| sample.ended_ns - sample.started_ns);
        Ok(ProbeSeen {
            block: self.block,
            datacenter: datacenter.to_string(),
            echo_ns: echo_ns.collect(),
            sleep_ns: nanoseconds(sleep),
            overslept_ns: lasted.map(|ns| ns.saturating_sub(nanoseconds(sleep))).collect(),
        })
    }

    async fn both_ways(&mut self, links: &[LinkSeen; 2]) -> Result<(), BlockError> {
        let asked_ns = links.each_ref().map(asked);
        let count = echoes(asked_ns[0] + asked_ns[1]);
        let [outward, back] = links;
        let (one, other) = tokio::try_join!(self.echoed(outward, count), self.echoed(back, count))?;
        for (link, asked_ns, there, far) in [(outward, asked_ns[0], &one, &other), (back, asked_ns[1], &other, &one)] {
            self.write(What::Calibrated(Calibrated {
                block: self.block,
                from: link.from.to_string(),
                to: link.to.to_string(),
                asked_ns,
                // Requests of this end, and replies to the other.
                one_way_ns: outbound(there).chain(inbound(far)).collect(),
                lost: lost(there).saturating_add(lost(far)),
            }))?;
        }
        Ok(())
    }

    async fn echoed(&self, link: &LinkSeen, count: u32) -> Result<Samples, BlockError> {
        let target = self.lab.datacenter(&link.to).probe_address;
        let probe = self.lab.probe(&link.from);
        Ok(probe.echo(target, Transport::Udp, WARMUP, count, PAUSE, REPLY).await?)
    }
}

/// One-way delay as asked; what the kernel forwards has none.
fn asked(link: &LinkSeen) -> u64 {
    if link.path == Path::Kernel {
        0
    } else {
        link.status.conditions.delay_ns
    }
}

/// Round trips that fit into the budget.
fn echoes(round_trip_ns: u64) -> u32 {
    let (fewest, most) = ECHOES;
    let fit = (BUDGET_NS / (round_trip_ns + nanoseconds(PAUSE))).clamp(fewest, most);
    u32::try_from(fit).expect("it is at most the most")
}

/// From the sender's stamp to the far probe's.
fn outbound(samples: &Samples) -> impl Iterator<Item = u64> {
    let echoes = samples.samples.iter();
    echoes.filter_map(|echo| u64::try_from(echo.outcome).ok()?.checked_sub(echo.started_ns))
}

/// From the far probe's stamp to the reply's.
fn inbound(samples: &Samples) -> impl Iterator<Item = u64> {
    let echoes = samples.samples.iter();
    echoes.filter_map(|echo| echo.ended_ns.checked_sub(u64::try_from(echo.outcome).ok()?))
}

fn lost(samples: &Samples) -> u32 {
    samples
        .failures
        .iter()
        .fold(0, |sum, failure| failure.times.saturating_add(sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Sample;

    #[test]
    fn round_trips_fit_into_the_budget_and_there_are_enough_to_judge_a_long_link_by() {
        let ms = |ms: u64| echoes(ms * 1_000_000);
        assert_eq!((ms(0), ms(10), ms(40), ms(80), ms(600)), (20, 20, 12, 6, 3));
    }

    #[test]
    fn a_round_trip_is_two_one_way_times() {
        let sample = Sample {
            intended_ns: 100,
            started_ns: 100,
            ended_ns: 145,
            outcome: 120,
        };
        let samples = Samples {
            samples: vec![sample],
            failures: Vec::new(),
            nodelay: None,
        };
        assert_eq!(outbound(&samples).collect::<Vec<_>>(), [20]);
        assert_eq!(inbound(&samples).collect::<Vec<_>>(), [25]);
    }
}
