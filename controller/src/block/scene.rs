//! A block's hold on the lab while it runs: orders to probes and relays, each with its record in the history.
//!
//! Nothing is timed here: probes stamp. What is waited for is a condition with a limit, and the error says what was
//! seen instead. Servers are asked by the probe of their own datacenter, so a cut link never stands in between.

use super::cast::{Cast, Part};
use super::{BlockError, Recorder};
use crate::findings::row::{self, DISTANCES_NS};
use crate::history::{BlockNumber, Series, What};
use crate::lab::{Lab, LinkSeen};
use crate::names::DatacenterName;
use crate::probe::{Samples, nanoseconds};
use crate::replication::{Replication, SyncCounters, text_of};
use std::time::{Duration, Instant};
use wire::{CutKind, Load, Pace, ProbeOrder, Reply};

/// Limit of one reply of a server, far above what any link here makes of it.
pub const REPLY: Duration = Duration::from_secs(5);
/// Limit of a whole load or watch.
pub const LOAD: Duration = Duration::from_secs(60);
/// Limit of a condition: TCP's own backoff after a cut can take as long as the cut did, a full synchronisation a
/// few seconds on a busy host.
pub const SETTLE: Duration = Duration::from_secs(30);
/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(5);

/// Round trips of the link before they count, each time.
const ECHO_WARMUP: u32 = 2;
/// Round trips before and after a measurement, from each end.
pub const ECHOES: u32 = 8;
/// Between two of them.
const ECHO_PAUSE: Duration = Duration::from_millis(1);

/// A distance at which a block measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distance {
    /// One way, nanoseconds.
    pub delay_ns: u64,
    /// Whether this is the distance that gets the full number of samples.
    pub full: bool,
}

impl Distance {
    /// `full` or `few`, whichever this distance gets.
    pub fn samples(self, full: u32, few: u32) -> u32 {
        if self.full { full } else { few }
    }
}

/// What a series is about.
#[derive(Debug, Clone)]
pub struct Heading {
    /// Row of the table, without the distance.
    pub row: &'static str,
    /// What was timed.
    pub what: &'static str,
    /// From where to where.
    pub path: String,
    /// One-way delay of the link on the path, if there is one.
    pub delay_ns: Option<u64>,
    /// Operations before the counted ones.
    pub warmup: u32,
    /// In words.
    pub pace: String,
}

/// See the top of the file.
pub struct Scene<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// Who plays which part.
    pub cast: &'a Cast,
    block: BlockNumber,
    recorder: &'a mut dyn Recorder,
}

impl<'a> Scene<'a> {
    /// A hold on `lab` for the block of this number.
    pub fn new(lab: &'a Lab, cast: &'a Cast, block: BlockNumber, recorder: &'a mut dyn Recorder) -> Self {
        Self {
            lab,
            cast,
            block,
            recorder,
        }
    }

    // -- the record --

    /// Tells people what is being done.
    pub fn progress(&mut self, text: &str) {
        let text = format!("block {}: {text}", self.block);
        self.recorder.progress(&text);
    }

    /// Records a number; `name` ends in its unit.
    pub fn fact(&mut self, row: &str, name: &str, value: i64) -> Result<(), BlockError> {
        self.write(What::Fact {
            block: self.block,
            row: row.to_owned(),
            name: name.to_owned(),
            value,
        })
    }

    /// Records a sentence.
    pub fn note(&mut self, text: String) -> Result<(), BlockError> {
        self.write(What::Note {
            block: self.block,
            text,
        })
    }

    /// Records timed operations.
    pub fn series(&mut self, heading: Heading, measured: Samples) -> Result<(), BlockError> {
        self.write(What::Series(Series {
            block: self.block,
            row: row::at(heading.row, heading.delay_ns),
            what: heading.what.to_owned(),
            path: heading.path,
            delay_ns: heading.delay_ns,
            warmup: heading.warmup,
            pace: heading.pace,
            nodelay: measured.nodelay,
            samples: measured.samples,
            failures: measured.failures,
        }))
    }

    /// Records what became of writes.
    pub fn ledger(&mut self, row: &str, writes: Vec<wire::Written>, present: Vec<u32>) -> Result<(), BlockError> {
        self.write(What::Ledger {
            block: self.block,
            row: row.to_owned(),
            writes,
            present,
        })
    }

    fn write(&mut self, what: What) -> Result<(), BlockError> {
        Ok(self.recorder.record(what)?)
    }

    // -- the link --

    /// Distances of this run: 5, 20 and 40 ms, and the link's own if it is another. The link's own gets the full number
    /// of samples, or 20 ms, the record's, where the link's own would take too long.
    ///
    /// That one comes first, while every connection has only ever known it: a congestion control that keeps the shortest
    /// round trip of the last 10 s (BBR) starves a busy connection whose link has just become longer, and the
    /// second row of block 1 would show that instead of the load.
    pub fn distances(own_delay_ns: u64) -> Vec<Distance> {
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
            .map(|delay_ns| Distance {
                delay_ns,
                full: delay_ns == full_ns,
            })
            .collect()
    }

    /// Gives both directions of the link the same delay.
    pub async fn set_delay(&mut self, delay_ns: u64) -> Result<(), BlockError> {
        self.lab
            .set_delay_both(&self.cast.home, &self.cast.away, delay_ns)
            .await?;
        self.fault(format!("set {} delay={}", self.cast.link(), row::time(delay_ns)))
    }

    /// Cuts both directions at once; what is in flight is destroyed.
    pub async fn cut(&mut self, row: &str) -> Result<(), BlockError> {
        let kind = CutKind::Drop;
        let seen = self.lab.cut_both(&self.cast.home, &self.cast.away, kind).await?;
        self.fault(format!("cut {} drop", self.cast.link()))?;
        self.link_seen(row, seen)
    }

    /// Heals both directions.
    pub async fn heal(&mut self, row: &str) -> Result<(), BlockError> {
        let seen = self.lab.heal_both(&self.cast.home, &self.cast.away).await?;
        self.fault(format!("heal {}", self.cast.link()))?;
        self.link_seen(row, seen)
    }

    /// Records a change of the link.
    pub fn fault(&mut self, fault: String) -> Result<(), BlockError> {
        self.write(What::Fault {
            block: self.block,
            fault,
        })
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
                status: link.status,
            })?;
        }
        Ok(())
    }

    /// Round trips of the link itself, from both ends at once, by datagrams between the probes: no server is the clock.
    pub async fn round_trips(&mut self, delay_ns: u64) -> Result<(), BlockError> {
        let seen = self.echoes(ECHOES, ECHO_PAUSE).await?;
        self.record_echoes(delay_ns, ECHO_PAUSE, seen)
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
        self.record_echoes(delay_ns, pause, seen)?;
        Ok(done)
    }

    async fn echoes(&self, count: u32, pause: Duration) -> Result<[Samples; 2], BlockError> {
        let (home, away) = (&self.cast.home, &self.cast.away);
        let (outward, back) =
            tokio::try_join!(self.echo(home, away, count, pause), self.echo(away, home, count, pause))?;
        Ok([outward, back])
    }

    fn record_echoes(&mut self, delay_ns: u64, pause: Duration, seen: [Samples; 2]) -> Result<(), BlockError> {
        let (home, away) = (&self.cast.home, &self.cast.away);
        let paths = [(home, away), (away, home)].map(|(from, to)| format!("{from} probe -> {to} probe"));
        for (path, measured) in paths.into_iter().zip(seen) {
            let heading = Heading {
                row: row::LINK,
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
        Ok(probe.echo(target, ECHO_WARMUP, count, pause, REPLY).await?)
    }

    // -- servers --

    /// A load from a datacenter's probe, not recorded.
    pub async fn load(&self, from: &DatacenterName, load: Load) -> Result<Samples, BlockError> {
        Ok(self.lab.probe(from).samples(ProbeOrder::Load(load), LOAD).await?)
    }

    /// One command, by the probe of the server's own datacenter; an error reply is an error.
    pub async fn command(&self, server: &Part, words: &[&str]) -> Result<Reply, BlockError> {
        let probe = self.lab.probe(&server.datacenter);
        match probe.redis(server.target, words, REPLY).await? {
            Reply::Error(reply) => Err(BlockError::Refused {
                server: server.shown(),
                command: words.join(" "),
                reply,
            }),
            reply => Ok(reply),
        }
    }

    /// What a server says of its replication.
    pub async fn replication(&self, server: &Part) -> Result<Replication, BlockError> {
        let reply = self.command(server, &["INFO", "replication"]).await?;
        Ok(Replication::parse(&text_of(&reply)))
    }

    /// How often the primary has synchronised a replica.
    pub async fn synchronisations(&self) -> Result<SyncCounters, BlockError> {
        let primary = &self.cast.primary;
        let reply = self.command(primary, &["INFO", "stats"]).await?;
        SyncCounters::parse(&text_of(&reply)).ok_or_else(|| other_reply(primary, "INFO stats", &reply))
    }

    /// Number of keys of a server.
    pub async fn keys(&self, server: &Part) -> Result<i64, BlockError> {
        match self.command(server, &["DBSIZE"]).await? {
            Reply::Integer(keys) => Ok(keys),
            reply => Err(other_reply(server, "DBSIZE", &reply)),
        }
    }

    /// Value of a setting (`None`: the server does not know it).
    pub async fn setting(&self, server: &Part, name: &str) -> Result<Option<String>, BlockError> {
        match self.command(server, &["CONFIG", "GET", name]).await? {
            Reply::Array(pair) => Ok(match pair.get(1) {
                Some(Reply::Text(value)) => Some(value.clone()),
                _ => None,
            }),
            reply => Err(other_reply(server, "CONFIG GET", &reply)),
        }
    }

    /// First column of the first row of a query, by the probe of the database's own datacenter.
    pub async fn query(&self, database: &Part, sql: &str) -> Result<String, BlockError> {
        let probe = self.lab.probe(&database.datacenter);
        Ok(probe.postgres(database.target, sql, REPLY).await?)
    }

    /// Removes keys of a block from the primary.
    pub async fn remove_keys(&self, keys: impl IntoIterator<Item = String>) -> Result<(), BlockError> {
        let keys: Vec<String> = keys.into_iter().collect();
        for some in keys.chunks(500) {
            let words: Vec<&str> = ["UNLINK"].into_iter().chain(some.iter().map(String::as_str)).collect();
            self.command(&self.cast.primary, &words).await?;
        }
        Ok(())
    }

    /// Makes `replica` follow the primary.
    pub async fn attach(&self, replica: &Part) -> Result<(), BlockError> {
        let to = self.cast.primary.target;
        let (host, port) = (to.ip().to_string(), to.port().to_string());
        self.command(replica, &["REPLICAOF", &host, &port]).await?;
        Ok(())
    }

    /// Makes a replica a primary of its own.
    pub async fn promote(&self, replica: &Part) -> Result<(), BlockError> {
        self.command(replica, &["REPLICAOF", "NO", "ONE"]).await?;
        Ok(())
    }

    /// Waits until exactly these replicas are attached to the primary and each has applied all of its stream; the offset.
    pub async fn in_sync(&self, replicas: &[&Part]) -> Result<u64, BlockError> {
        self.applied(replicas, Some(replicas.len())).await
    }

    /// Waits until each of these has applied all of the primary's stream, whoever else is attached; the offset.
    pub async fn caught_up(&self, replicas: &[&Part]) -> Result<u64, BlockError> {
        self.applied(replicas, None).await
    }

    async fn applied(&self, replicas: &[&Part], attached: Option<usize>) -> Result<u64, BlockError> {
        let began = Instant::now();
        loop {
            let seen = match self.look_for_sync(replicas, attached).await? {
                Ok(offset) => return Ok(offset),
                Err(seen) => seen,
            };
            if began.elapsed() > SETTLE {
                let names: Vec<String> = replicas.iter().map(|replica| replica.shown()).collect();
                return Err(BlockError::NotSeen {
                    wanted: format!("{} in sync with {}", names.join(", "), self.cast.primary.shown()),
                    limit: SETTLE,
                    seen,
                });
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// One look: the common offset, or what is not there yet.
    async fn look_for_sync(
        &self,
        replicas: &[&Part],
        attached: Option<usize>,
    ) -> Result<Result<u64, String>, BlockError> {
        let primary = self.replication(&self.cast.primary).await?;
        let known = primary.replicas.len();
        let online = primary.replicas.iter().filter(|line| line.state == "online").count();
        if let Some(wanted) = attached
            && (online != wanted || known != wanted)
        {
            return Ok(Err(format!("{online} replicas online, {known} known, {wanted} wanted")));
        }
        let Some(offset) = primary.offset_bytes else {
            return Ok(Err("no offset on the primary".to_owned()));
        };
        for replica in replicas {
            let seen = self.replication(replica).await?;
            if seen.upstream != Some(*self.cast.primary.target.ip()) {
                return Ok(Err(format!("{} follows {:?}", replica.node, seen.upstream)));
            }
            // A ping of the primary in between moves both, so beyond is as good as equal.
            match seen.offset_bytes {
                Some(applied) if seen.link_up && applied >= offset => {}
                applied => {
                    let state = seen.sync_state();
                    return Ok(Err(format!("{} {state}, at {applied:?} of {offset}", replica.node)));
                }
            }
        }
        Ok(Ok(offset))
    }
}

/// An error for a reply of another kind than the command has.
pub fn other_reply(server: &Part, command: &str, reply: &Reply) -> BlockError {
    BlockError::Refused {
        server: server.shown(),
        command: command.to_owned(),
        reply: format!("unexpected {reply:?}"),
    }
}

/// `closed loop`, `open loop, one every 25ms`.
pub fn in_words(pace: Pace) -> String {
    let time = |ns| humantime::format_duration(Duration::from_nanos(ns)).to_string();
    match pace {
        Pace::Closed { pause_ns: 0 } => "closed loop".to_owned(),
        Pace::Closed { pause_ns } => format!("closed loop, {} pause", time(pause_ns)),
        Pace::Open { interval_ns } => format!("open loop, one every {}", time(interval_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays_ms(own_ns: u64) -> Vec<(u64, bool)> {
        Scene::distances(own_ns)
            .iter()
            .map(|distance| (distance.delay_ns / 1_000_000, distance.full))
            .collect()
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

    #[test]
    fn a_pace_is_said_in_words() {
        assert_eq!(in_words(Pace::Closed { pause_ns: 0 }), "closed loop");
        assert_eq!(
            in_words(Pace::Open {
                interval_ns: 25_000_000
            }),
            "open loop, one every 25ms"
        );
    }
}
