//! Client of a probe: orders out, its own answers back, over the container's stdin and stdout (see `channel`).
//! Cheap to clone, callable concurrently; dropping the last clone detaches and leaves the probe as it is.
//! A probe stamps and counts for itself: the deadline given here only says when to give up on it.

use crate::channel::{Channel, ChannelError, Pending, shortened};
use crate::docker::EngineHandle;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tokio::time::Instant;
use wire::{Failure, FromProbe, ProbeAnswer, ProbeOrder, Reply, Sample, ToProbe, Transport};

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

    /// Waits until the probe has ended everything that we ordered and wait for no more; whether it has within `limit`.
    pub async fn idle(&self, limit: Duration) -> bool {
        self.channel.idle(Instant::now() + limit).await
    }

    /// Gives a `Poll` or `Watch` and returns once the probe has announced that it sees values.
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

    /// `count` UDP round trips to another probe, `pause` apart, after `warmup` that are not counted.
    ///
    /// # Errors
    /// What went wrong in the probe; a lost reply is a failure in the answer.
    pub async fn echo(
        &self,
        target: Ipv4Addr,
        warmup: u32,
        count: u32,
        pause: Duration,
        timeout: Duration,
    ) -> Result<Samples, ChannelError> {
        let order = ProbeOrder::Echo {
            target,
            transport: Transport::Udp,
            warmup,
            count,
            pause_ns: nanoseconds(pause),
            timeout_ns: nanoseconds(timeout),
        };
        let rounds = warmup.saturating_add(count);
        self.samples(order, (pause + timeout).saturating_mul(rounds) + MARGIN)
            .await
    }

    async fn send(&self, order: &ProbeOrder, deadline: Instant) -> Result<Pending, ChannelError> {
        let id = fastrand::u64(..);
        let to = ToProbe {
            id,
            order: order.clone(),
        };
        let line = serde_json::to_string(&to).expect("an order is always JSON");
        let shown = shortened(&serde_json::to_string(order).expect("an order is always JSON"));
        self.channel.send(id, shown, line, deadline).await
    }
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
