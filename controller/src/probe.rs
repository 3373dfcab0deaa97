//! Client of a probe: orders out, its own answers back, over the container's stdin and stdout (see `channel`).
//! Cheap to clone, callable concurrently; dropping the last clone detaches and leaves the probe as it is.
//! A probe stamps and counts for itself: the deadline given here only says when to give up on it.

use crate::channel::{Channel, ChannelError, Pending, shortened};
use crate::docker::EngineHandle;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tokio::time::Instant;
use wire::{
    Beacon, Bulk, Carried, CpuSeen, Failure, FromProbe, HalfSeen, HalfWatch, Id, Load, Operation, ProbeAnswer,
    ProbeOrder, Reply, Sample, ToProbe, Transport,
};

/// What is allowed on top of the time that the probe itself was given, for the way and a busy host.
const MARGIN: Duration = Duration::from_secs(5);

/// A probe that can be given orders.
#[derive(Clone)]
pub struct ProbeClient {
    channel: Channel,
}

/// A `Poll` or `Watch` that has announced itself; from now on values are seen.
pub struct Watching {
    pending: Pending,
    deadline: Instant,
}

/// Beacons that a probe sends and listens for. Dropped, it tells the probe to end them; one that cannot be told ends them
/// by itself after a quarter of an hour.
pub struct Beaconing(UnderWay);

/// A half of a cluster that a probe watches. Dropped, it tells the probe to end; one that cannot be told ends by itself after
/// the time that it was given.
pub struct HalfWatching(UnderWay);

/// What a probe does until it is told to end it.
struct UnderWay {
    client: ProbeClient,
    id: Id,
    pending: Pending,
    told: bool,
}

/// What became of the beacons of one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beaconed {
    /// Those that it sent: target, when it should have been, when it was (nanoseconds of its clock).
    pub sent: Vec<(Ipv4Addr, u64, u64)>,
    /// Those that came in until it was told to end.
    pub heard: Vec<Beacon>,
}

/// Timed operations as a probe returned them.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// In order of their start.
    pub samples: Vec<Sample>,
    /// Operations that failed or were lost: cause and how often.
    pub failures: Vec<Failure>,
    /// TCP_NODELAY as read back from the socket (`None`: not TCP).
    pub nodelay: Option<bool>,
}

impl ProbeClient {
    /// Attaches to a probe's container; the probe may still be starting.
    ///
    /// # Errors
    /// The engine refused, or was silent until `deadline`.
    pub async fn attach(engine: EngineHandle, container: &str, deadline: Duration) -> Result<Self, ChannelError> {
        Ok(Self {
            channel: Channel::attach(engine, container, deadline).await?,
        })
    }

    /// Gives an order and waits for its (first) answer.
    ///
    /// # Errors
    /// What went wrong in the probe, or no answer within `deadline`.
    pub async fn order(&self, order: ProbeOrder, deadline: Duration) -> Result<ProbeAnswer, ChannelError> {
        let deadline = Instant::now() + deadline;
        let mut pending = self.send(&order, deadline).await?;
        answer(&mut pending, deadline).await
    }

    /// Ends everything that we ordered and wait for no more, and waits until the probe has; whether it has within `limit`.
    pub async fn idle(&self, limit: Duration) -> bool {
        for order in self.channel.forsaken() {
            let (_, line) = line(&ProbeOrder::Stop { order });
            self.channel.tell(line);
        }
        self.channel.idle(Instant::now() + limit).await
    }

    /// Gives a `Poll`, `Watch` or `Sink` and returns once the probe has announced that it sees values.
    ///
    /// # Errors
    /// What went wrong in the probe, or no announcement within `deadline`, which also limits the whole watch.
    pub async fn watch(&self, order: ProbeOrder, deadline: Duration) -> Result<Watching, ChannelError> {
        let deadline = Instant::now() + deadline;
        let mut pending = self.send(&order, deadline).await?;
        match answer(&mut pending, deadline).await? {
            ProbeAnswer::Watching => Ok(Watching { pending, deadline }),
            other => Err(strange(&pending, &other)),
        }
    }

    /// One command to a Redis or Valkey server; an error reply is a [`Reply::Error`], not an `Err`.
    ///
    /// # Errors
    /// Connection refused or no reply within `limit`.
    pub async fn redis(&self, target: SocketAddrV4, command: &[&str], limit: Duration) -> Result<Reply, ChannelError> {
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let mut replies = self.redis_all(target, vec![command], limit).await?;
        Ok(replies.pop().expect("one reply per command was checked"))
    }

    /// Several commands on one connection, one after the other; one reply each.
    ///
    /// # Errors
    /// Connection refused or no reply within `limit`.
    pub async fn redis_all(
        &self,
        target: SocketAddrV4,
        commands: Vec<Vec<String>>,
        limit: Duration,
    ) -> Result<Vec<Reply>, ChannelError> {
        let wanted = commands.len();
        let waits = u32::try_from(wanted).unwrap_or(u32::MAX).saturating_add(1);
        let order = ProbeOrder::Redis {
            target,
            commands,
            timeout_ns: nanoseconds(limit),
        };
        let deadline = Instant::now() + limit.saturating_mul(waits) + MARGIN;
        let mut pending = self.send(&order, deadline).await?;
        match answer(&mut pending, deadline).await? {
            ProbeAnswer::Replies(replies) if replies.len() == wanted => Ok(replies),
            other => Err(strange(&pending, &other)),
        }
    }

    /// First column of the first row of a query, as text.
    ///
    /// # Errors
    /// Connection refused, the query failed, or no answer within `limit`.
    pub async fn postgres(&self, target: SocketAddrV4, sql: &str, limit: Duration) -> Result<String, ChannelError> {
        let order = ProbeOrder::PostgresQuery {
            target,
            sql: sql.to_owned(),
            timeout_ns: nanoseconds(limit),
        };
        let deadline = Instant::now() + limit.saturating_mul(2) + MARGIN;
        let mut pending = self.send(&order, deadline).await?;
        match answer(&mut pending, deadline).await? {
            ProbeAnswer::Text(text) => Ok(text),
            other => Err(strange(&pending, &other)),
        }
    }

    /// Orders whose answer is samples: `Load` and `Echo`.
    ///
    /// # Errors
    /// What went wrong in the probe, or no answer within `deadline`.
    pub async fn samples(&self, order: ProbeOrder, deadline: Duration) -> Result<Samples, ChannelError> {
        let deadline = Instant::now() + deadline;
        let mut pending = self.send(&order, deadline).await?;
        let given = answer(&mut pending, deadline).await?;
        samples_of(&pending, given)
    }

    /// `count` round trips to another probe, `pause` apart, after `warmup` that are not counted.
    ///
    /// # Errors
    /// What went wrong in the probe; a lost reply is a failure in the answer.
    pub async fn echo(
        &self,
        target: Ipv4Addr,
        transport: Transport,
        warmup: u32,
        count: u32,
        pause: Duration,
        timeout: Duration,
    ) -> Result<Samples, ChannelError> {
        let order = ProbeOrder::Echo {
            target,
            transport,
            warmup,
            count,
            pause_ns: nanoseconds(pause),
            timeout_ns: nanoseconds(timeout),
        };
        let rounds = warmup.saturating_add(count);
        // Over TCP a lost round may be followed by a dial that is lost too.
        let deadline = (pause + timeout.saturating_mul(2)).saturating_mul(rounds) + MARGIN;
        self.samples(order, deadline).await
    }

    /// Starts beacons to other probes, one to each every `interval`; without targets only those of others are listened
    /// for. What the probe has against it is told by [`Beaconing::stop`].
    ///
    /// # Errors
    /// The probe takes no orders.
    pub async fn beacons(&self, targets: Vec<Ipv4Addr>, interval: Duration) -> Result<Beaconing, ChannelError> {
        let order = ProbeOrder::Beacons {
            targets,
            interval_ns: nanoseconds(interval),
        };
        let pending = self.send(&order, Instant::now() + MARGIN).await?;
        Ok(Beaconing(UnderWay::of(self, pending)))
    }

    /// Begins to watch a half of a cluster; returns once the probe asks all of its nodes.
    ///
    /// # Errors
    /// What the probe has against it, or no announcement within `limit`.
    pub async fn half(&self, order: HalfWatch, limit: Duration) -> Result<HalfWatching, ChannelError> {
        let pending = self.send(&ProbeOrder::Half(order), Instant::now() + limit).await?;
        // From here on a failure tells the probe to end it.
        let mut watching = UnderWay::of(self, pending);
        match answer(&mut watching.pending, Instant::now() + limit).await? {
            ProbeAnswer::Watching => Ok(HalfWatching(watching)),
            other => Err(strange(&watching.pending, &other)),
        }
    }

    /// Now, by the probe's clock, which it shares with every container of its engine.
    ///
    /// # Errors
    /// What went wrong in the probe.
    pub async fn now_ns(&self) -> Result<u64, ChannelError> {
        let deadline = Instant::now() + MARGIN;
        let mut pending = self.send(&ProbeOrder::Hello, deadline).await?;
        match answer(&mut pending, deadline).await? {
            ProbeAnswer::Hello { now_ns, .. } => Ok(now_ns),
            other => Err(strange(&pending, &other)),
        }
    }

    /// How late the probe's host wakes a process: `count` sleeps, each a sample from its start to its end.
    ///
    /// # Errors
    /// What went wrong in the probe.
    pub async fn sleeps(&self, sleep: Duration, count: u32) -> Result<Samples, ChannelError> {
        let order = ProbeOrder::Sleeps {
            sleep_ns: nanoseconds(sleep),
            count,
        };
        // A stolen processor makes them late: as late as they are long, and the margin.
        self.samples(order, sleep.saturating_mul(count).saturating_mul(2) + MARGIN)
            .await
    }

    /// Processor time of the probe's host since its start.
    ///
    /// # Errors
    /// What went wrong in the probe.
    pub async fn cpu(&self) -> Result<CpuSeen, ChannelError> {
        let deadline = Instant::now() + MARGIN;
        let mut pending = self.send(&ProbeOrder::Cpu, deadline).await?;
        match answer(&mut pending, deadline).await? {
            ProbeAnswer::Cpu(seen) => Ok(seen),
            other => Err(strange(&pending, &other)),
        }
    }

    /// Bulk traffic to the sink of another probe ([`ProbeOrder::Sink`], given to [`ProbeClient::watch`]): what was sent.
    ///
    /// # Errors
    /// What went wrong in the probe.
    pub async fn bulk(&self, bulk: Bulk) -> Result<Carried, ChannelError> {
        let deadline = Instant::now() + Duration::from_nanos(bulk.for_ns) + 2 * MARGIN;
        let mut pending = self.send(&ProbeOrder::Bulk(bulk), deadline).await?;
        let given = answer(&mut pending, deadline).await?;
        carried_of(&pending, given)
    }

    async fn send(&self, order: &ProbeOrder, deadline: Instant) -> Result<Pending, ChannelError> {
        let (id, line) = line(order);
        self.channel.send(id, shown(order), line, deadline).await
    }
}

impl Beaconing {
    /// Ends the beacons and waits no longer than `limit` for what became of them.
    ///
    /// # Errors
    /// What the probe had against them, or no answer within `limit`.
    pub async fn stop(mut self, limit: Duration) -> Result<Beaconed, ChannelError> {
        match self.0.end(limit).await? {
            ProbeAnswer::Beacons { sent, heard } => Ok(Beaconed { sent, heard }),
            other => Err(strange(&self.0.pending, &other)),
        }
    }
}

impl HalfWatching {
    /// Ends the watch and waits no longer than `limit` for what it saw.
    ///
    /// # Errors
    /// What went wrong in the probe, or no answer within `limit`.
    pub async fn stop(mut self, limit: Duration) -> Result<HalfSeen, ChannelError> {
        match self.0.end(limit).await? {
            ProbeAnswer::Half(seen) => Ok(seen),
            other => Err(strange(&self.0.pending, &other)),
        }
    }
}

impl UnderWay {
    fn of(client: &ProbeClient, pending: Pending) -> Self {
        Self {
            client: client.clone(),
            id: pending.id(),
            pending,
            told: false,
        }
    }

    async fn end(&mut self, limit: Duration) -> Result<ProbeAnswer, ChannelError> {
        let deadline = Instant::now() + limit;
        let order = ProbeOrder::Stop { order: self.id };
        let mut told = self.client.send(&order, deadline).await?;
        self.told = true;
        let given = answer(&mut self.pending, deadline).await?;
        // It may have ended by itself before: then this is refused, and what counts is there all the same.
        let _ended = told.next(deadline).await?;
        Ok(given)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.told {
            let (_, line) = line(&ProbeOrder::Stop { order: self.id });
            self.client.channel.tell(line);
        }
    }
}

/// An order with a new id, as it is sent.
fn line(order: &ProbeOrder) -> (Id, String) {
    let id = fastrand::u64(..);
    let order = order.clone();
    let line = serde_json::to_string(&ToProbe { id, order }).expect("an order is always JSON");
    (id, line)
}

/// An order as errors show it: shortened, and without its secret.
fn shown(order: &ProbeOrder) -> String {
    const SECRET: &str = "(secret)";
    let mut order = order.clone();
    match &mut order {
        ProbeOrder::Load(Load {
            operation:
                Operation::PostgresConnect {
                    password: Some(password),
                    ..
                },
            ..
        }) => SECRET.clone_into(password),
        ProbeOrder::PostgresBatch { sql, .. } if sql.to_ascii_lowercase().contains("password") => {
            SECRET.clone_into(sql);
        }
        _ => {}
    }
    shortened(&serde_json::to_string(&order).expect("an order is always JSON"))
}

impl Watching {
    /// Waits for the end of the watch: what was seen.
    ///
    /// # Errors
    /// What went wrong in the probe, or no answer within the deadline of the watch.
    pub async fn finish(mut self) -> Result<Samples, ChannelError> {
        let given = answer(&mut self.pending, self.deadline).await?;
        samples_of(&self.pending, given)
    }

    /// Waits for the end of a `Sink`: what it took in.
    ///
    /// # Errors
    /// As [`Watching::finish`].
    pub async fn carried(mut self) -> Result<Carried, ChannelError> {
        let given = answer(&mut self.pending, self.deadline).await?;
        carried_of(&self.pending, given)
    }
}

/// Nanoseconds as the wire has them.
#[must_use]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

async fn answer(pending: &mut Pending, deadline: Instant) -> Result<ProbeAnswer, ChannelError> {
    let text = pending.next(deadline).await?;
    match serde_json::from_str::<FromProbe>(&text) {
        Ok(FromProbe { result: Ok(answer), .. }) => Ok(answer),
        Ok(FromProbe { result: Err(cause), .. }) => Err(pending.refused(cause)),
        Err(_) => Err(pending.strange(&text)),
    }
}

fn carried_of(pending: &Pending, given: ProbeAnswer) -> Result<Carried, ChannelError> {
    match given {
        ProbeAnswer::Carried(carried) => Ok(carried),
        other => Err(strange(pending, &other)),
    }
}

fn samples_of(pending: &Pending, given: ProbeAnswer) -> Result<Samples, ChannelError> {
    match given {
        ProbeAnswer::Samples {
            samples,
            failures,
            nodelay,
        } => Ok(Samples {
            samples,
            failures,
            nodelay,
        }),
        other => Err(strange(pending, &other)),
    }
}

fn strange(pending: &Pending, answer: &ProbeAnswer) -> ChannelError {
    pending.strange(&serde_json::to_string(answer).expect("an answer is always JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Pace;

    #[test]
    fn errors_show_no_password() {
        let target = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5432);
        let login = ProbeOrder::Load(Load {
            target,
            operation: Operation::PostgresConnect {
                user: "someone".into(),
                password: Some("hunter2".into()),
                database: "postgres".into(),
            },
            connections: 1,
            warmup: 0,
            count: 1,
            for_ns: None,
            pace: Pace::Closed { pause_ns: 0 },
            timeout_ns: 1,
        });
        let role = ProbeOrder::PostgresBatch {
            target,
            sql: "CREATE ROLE someone LOGIN PASSWORD 'hunter2'".into(),
            timeout_ns: 1,
        };
        for order in [login, role] {
            let text = shown(&order);
            assert!(text.contains("(secret)") && !text.contains("hunter2"), "{text}");
            assert!(line(&order).1.contains("hunter2"), "the probe needs it");
        }
    }
}
