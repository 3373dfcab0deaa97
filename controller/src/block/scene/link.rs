//! The link while a block runs: its distances, its faults, and its round trips measured by the probes themselves.

use super::{Heading, REPLY, Scene, in_words};
use crate::block::{BlockError, Cutting};
use crate::findings::row::{self, DISTANCES_NS};
use crate::history::What;
use crate::lab::{LinkSeen, Only};
use crate::names::DatacenterName;
use crate::probe::{Samples, nanoseconds};
use std::time::{Duration, Instant};
use wire::{CutKind, Pace, Transport};

/// Round trips of the link before they count, each time.
const ECHO_WARMUP: u32 = 2;
/// Round trips before and after a measurement, from each end.
const ECHOES: u32 = 8;
/// Between two of them.
const ECHO_PAUSE: Duration = Duration::from_millis(1);
/// Shortest cut: several beacons are sent under it, and time enough is left to see that none comes through.
const SHORTEST_CUT: Duration = Duration::from_millis(150);

/// A distance at which a block measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distance {
    /// One way, nanoseconds.
    pub delay_ns: u64,
    /// Whether this is the distance that gets the full number of samples.
    pub full: bool,
}

impl Distance {
    /// As `samples`, for operations that each cost a round trip: over a short link so many more that the series lasts a
    /// second, since a burst of work on the host takes a shorter one as a whole.
    pub fn trips(self, full: u32, few: u32) -> u32 {
        const SECOND_NS: u64 = 1_000_000_000;
        let lasting = SECOND_NS / (2 * self.delay_ns).max(1);
        self.samples(full, few).max(u32::try_from(lasting).unwrap_or(u32::MAX))
    }

    /// `full` or `few`, whichever this distance gets.
    pub fn samples(self, full: u32, few: u32) -> u32 {
        if self.full { full } else { few }
    }

    /// Distances of this run: 5, 20 and 40 ms, and the link's own if it is another. The link's own gets the full number
    /// of samples, or 20 ms, the record's, where the link's own would take too long.
    ///
    /// That one comes first, while every connection has only ever known it: a congestion control that keeps the shortest
    /// round trip of the last 10 s (BBR) starves a busy connection whose link has just become longer, and the
    /// second row of block 1 would show that instead of the load.
    pub fn all(own_delay_ns: u64) -> Vec<Self> {
        const RECORDS_OWN_NS: u64 = 20_000_000;
        const AFFORDABLE_NS: std::ops::RangeInclusive<u64> = 1_000_000..=60_000_000;
        let full_ns = if AFFORDABLE_NS.contains(&own_delay_ns) {
            own_delay_ns
        } else {
            RECORDS_OWN_NS
        };
        let mut delays = DISTANCES_NS.to_vec();
        delays.push(full_ns);
        delays.sort_unstable_by_key(|&delay_ns| (delay_ns != full_ns, delay_ns));
        delays.dedup();
        delays
            .into_iter()
            .map(|delay_ns| Self {
                delay_ns,
                full: delay_ns == full_ns,
            })
            .collect()
    }
}

impl Scene<'_> {
    /// Gives both directions of the link the same delay.
    pub async fn set_delay(&mut self, delay_ns: u64) -> Result<(), BlockError> {
        let (home, away) = (&self.cast.home, &self.cast.away);
        let changed = self.lab.set_delay_both(home, away, delay_ns).await?;
        self.link_changed(&changed)?;
        self.fault(format!("set {} delay={}", self.cast.link(), row::time(delay_ns)))
    }

    /// Gives each direction of the link its own delay, outward first.
    pub async fn set_delays(&mut self, [outward_ns, back_ns]: [u64; 2]) -> Result<(), BlockError> {
        let (home, away) = (&self.cast.home, &self.cast.away);
        let (outward, back) = tokio::try_join!(
            self.lab.set_delay(home, away, outward_ns),
            self.lab.set_delay(away, home, back_ns)
        )?;
        self.link_changed(&[outward, back])?;
        self.fault(format!(
            "set {home}:{away} delay={}, {away}:{home} delay={}",
            row::time(outward_ns),
            row::time(back_ns)
        ))
    }

    /// Cuts both directions at once; what is in flight is destroyed. (Unless it is told to freeze them instead.)
    pub async fn cut(&mut self, row: &str) -> Result<(), BlockError> {
        let (home, away, link) = (&self.cast.home, &self.cast.away, self.cast.link());
        let (seen, fault) = match self.means.cutting {
            Cutting::Drop => {
                let cut = self.lab.cut_both(home, away, CutKind::Drop).await?;
                (cut, format!("cut {link} drop"))
            }
            Cutting::Freeze => {
                let frozen = self.lab.freeze_both(home, away).await?;
                (frozen, format!("freeze {link} in place of a cut"))
            }
        };
        self.cut_since = Some(Instant::now());
        self.link_changed(&seen)?;
        self.fault(fault)?;
        self.link_seen(row, seen)
    }

    /// Cuts some ports only, in both directions; what is in flight of theirs is destroyed.
    pub async fn cut_ports(&mut self, only: &Only) -> Result<(), BlockError> {
        let (home, away, link) = (&self.cast.home, &self.cast.away, self.cast.link());
        let seen = self.lab.cut_ports_both(home, away, only).await?;
        self.link_changed(&seen)?;
        self.fault(format!("cut {link} only {only}"))
    }

    /// Heals both directions. A cut first lasts until the watch has seen that it cuts.
    pub async fn heal(&mut self, row: &str) -> Result<(), BlockError> {
        if let Some(since) = self.cut_since.take() {
            tokio::time::sleep(SHORTEST_CUT.saturating_sub(since.elapsed())).await;
        }
        let (home, away, link) = (&self.cast.home, &self.cast.away, self.cast.link());
        let (seen, fault) = match self.means.cutting {
            Cutting::Drop => (self.lab.heal_both(home, away).await?, format!("heal {link}")),
            Cutting::Freeze => (self.lab.thaw_both(home, away).await?, format!("thaw {link}")),
        };
        self.link_changed(&seen)?;
        self.fault(fault)?;
        self.link_seen(row, seen)
    }

    /// Records a change of the link.
    pub fn fault(&mut self, fault: String) -> Result<(), BlockError> {
        self.write(What::Fault {
            block: self.block,
            fault,
        })
    }

    /// Records what is asked of directed links from now on: after every change, and where a block begins.
    pub fn link_changed(&mut self, seen: &[LinkSeen]) -> Result<(), BlockError> {
        for link in seen {
            self.write(What::LinkChanged {
                block: self.block,
                from: link.from.to_string(),
                to: link.to.to_string(),
                at_ns: link.now_ns,
                delay_ns: link.status.conditions.delay_ns,
                cut: link.status.cut,
                port_cut: link.status.port_cut().cloned(),
                frozen: link.status.frozen,
                path: link.path,
            })?;
        }
        Ok(())
    }

    /// State of both directions now, outward first.
    pub async fn links(&self) -> Result<[LinkSeen; 2], BlockError> {
        let (home, away) = (&self.cast.home, &self.cast.away);
        let (outward, back) = tokio::try_join!(self.lab.link(home, away), self.lab.link(away, home))?;
        Ok([outward, back])
    }

    /// Records the state of both directions.
    pub fn link_seen(&mut self, row: &str, seen: [LinkSeen; 2]) -> Result<(), BlockError> {
        for link in seen {
            self.write(What::LinkSeen {
                block: self.block,
                row: row.to_owned(),
                from: link.from.to_string(),
                status: Box::new(link.status),
            })?;
        }
        Ok(())
    }

    /// Round trips of the link itself, from both ends at once, by datagrams between the probes: no server is the clock.
    pub async fn round_trips(&mut self, delay_ns: u64) -> Result<(), BlockError> {
        self.round_trips_of(row::LINK, delay_ns).await
    }

    /// The same for one row of the table, where each must have its own.
    pub async fn round_trips_of(&mut self, row: &str, delay_ns: u64) -> Result<(), BlockError> {
        let seen = self.echoes(ECHOES, ECHO_PAUSE).await?;
        self.record_echoes(row, delay_ns, ECHO_PAUSE, seen)
    }

    /// The same while something is measured, at a low rate: a busy minute of the host then meets both, and what is
    /// compared was seen under the same conditions.
    pub async fn round_trips_beside<T>(
        &mut self,
        delay_ns: u64,
        (count, pause): (u32, Duration),
        work: impl AsyncFnOnce(&Self) -> Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        let (seen, done) = tokio::try_join!(self.echoes(count, pause), work(self))?;
        self.record_echoes(row::LINK, delay_ns, pause, seen)?;
        Ok(done)
    }

    async fn echoes(&self, count: u32, pause: Duration) -> Result<[Samples; 2], BlockError> {
        let (home, away) = (&self.cast.home, &self.cast.away);
        let (outward, back) =
            tokio::try_join!(self.echo(home, away, count, pause), self.echo(away, home, count, pause))?;
        Ok([outward, back])
    }

    fn record_echoes(
        &mut self,
        row: &str,
        delay_ns: u64,
        pause: Duration,
        seen: [Samples; 2],
    ) -> Result<(), BlockError> {
        let (home, away) = (&self.cast.home, &self.cast.away);
        let paths = [(home, away), (away, home)].map(|(from, to)| format!("{from} probe -> {to} probe"));
        for (path, measured) in paths.into_iter().zip(seen) {
            let heading = Heading {
                row,
                what: row::RTT,
                path,
                delay_ns: Some(delay_ns),
                warmup: ECHO_WARMUP,
                pace: in_words(Pace::Closed {
                    pause_ns: nanoseconds(pause),
                }),
            };
            self.series(heading, measured)?;
        }
        Ok(())
    }

    async fn echo(
        &self,
        from: &DatacenterName,
        to: &DatacenterName,
        count: u32,
        pause: Duration,
    ) -> Result<Samples, BlockError> {
        let target = self.lab.datacenter(to).probe_address;
        let probe = self.lab.probe(from);
        Ok(probe
            .echo(target, Transport::Udp, ECHO_WARMUP, count, pause, REPLY)
            .await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays_ms(own_ns: u64) -> Vec<(u64, bool)> {
        Distance::all(own_ns)
            .iter()
            .map(|distance| (distance.delay_ns / 1_000_000, distance.full))
            .collect()
    }

    #[test]
    fn a_series_of_round_trips_lasts_a_second_over_a_short_link() {
        let at = |ms: u64| Distance {
            delay_ns: ms * 1_000_000,
            full: false,
        };
        assert_eq!((at(5).trips(40, 30), at(40).trips(40, 30)), (100, 30));
    }

    #[test]
    fn the_links_own_distance_gets_the_full_number_of_samples() {
        assert_eq!(delays_ms(20_000_000), [(20, true), (5, false), (40, false)]);
        assert_eq!(
            delays_ms(30_000_000),
            [(30, true), (5, false), (20, false), (40, false)]
        );
    }

    #[test]
    fn a_link_that_would_take_too_long_is_measured_at_the_records_distances() {
        assert_eq!(delays_ms(300_000_000), [(20, true), (5, false), (40, false)]);
        assert_eq!(delays_ms(0), [(20, true), (5, false), (40, false)]);
    }
}
