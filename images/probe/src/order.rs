//! One order from its words to its answer. Knows which module performs what, and nothing else.

use crate::beacon::{BeaconError, Beacons, Ears};
use crate::bulk::{self, BulkError, sink};
use crate::connect::ConnectClient;
use crate::echo::{Echo, EchoError};
use crate::host::{self, HostError};
use crate::load::{self, LoadError};
use crate::postgres::connect::LoginClient;
use crate::postgres::{self, PostgresClient, PostgresError};
use crate::redis::RedisError;
use crate::redis::backlog;
use crate::redis::half::{self, HalfError};
use crate::redis::ledger::{self, Ledger};
use crate::redis::operation::{self, RedisClient};
use crate::redis::psync::PsyncClient;
use crate::redis::visibility::{Poll, Watch};
use crate::running::{Entry, Stop};
use crate::socket::DialError;
use crate::sockets::{self, SocketsError};
use crate::{clock, socket};
use std::net::SocketAddrV4;
use std::time::Duration;
use wire::{ECHO_PORT, Id, Load, Operation, ProbeAnswer, ProbeOrder};

/// Why an order has no answer: the object and the cause.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// An echo could not be tried.
    #[error("echo: {0}")]
    Echo(#[from] EchoError),
    /// A Redis or Valkey server.
    #[error("redis {0}: {1}")]
    Redis(SocketAddrV4, #[source] RedisError),
    /// A load on such a server.
    #[error("redis {0}: {1}")]
    RedisLoad(SocketAddrV4, #[source] LoadError<RedisError>),
    /// A Postgres server.
    #[error("postgres {0}: {1}")]
    Postgres(SocketAddrV4, #[source] PostgresError),
    /// Connections to a server of any kind.
    #[error("connect to {0}: {1}")]
    ConnectLoad(SocketAddrV4, #[source] LoadError<DialError>),
    /// Beacons could not be sent.
    #[error("beacons: {0}")]
    Beacon(#[from] BeaconError),
    /// Bulk traffic could not be sent or taken in.
    #[error(transparent)]
    Bulk(#[from] BulkError),
    /// The host could not be looked at.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A half of a cluster could not be watched.
    #[error("watch a half: {0}")]
    Half(#[from] HalfError),
    /// The kernel's lists could not be read.
    #[error(transparent)]
    Sockets(#[from] SocketsError),
    /// Nothing to end.
    #[error("stop order {0}: it is not under way")]
    NotUnderWay(Id),
    /// A load on such a server.
    #[error("postgres {0}: {1}")]
    PostgresLoad(SocketAddrV4, #[source] LoadError<PostgresError>),
}

/// Performs `order`, entered as `entry`, on this thread. Beacons that come in come through `ears`; `announce` takes an
/// answer that comes before the last one.
#[expect(
    clippy::too_many_lines,
    reason = "a table: one arm per order, and nothing but names in it"
)]
pub fn perform(
    order: ProbeOrder,
    entry: &Entry,
    ears: &Ears,
    announce: impl FnOnce(ProbeAnswer),
) -> Result<ProbeAnswer, OrderError> {
    let limit = Duration::from_nanos;
    match order {
        ProbeOrder::Hello => Ok(hello()),
        ProbeOrder::Echo {
            target,
            transport,
            warmup,
            count,
            pause_ns,
            timeout_ns,
        } => Ok(Echo {
            target: SocketAddrV4::new(target, ECHO_PORT),
            transport,
            warmup,
            count,
            pause_ns,
            timeout: limit(timeout_ns),
        }
        .run(entry.stop())?),
        ProbeOrder::Beacons { targets, interval_ns } => {
            let targets = targets.into_iter().map(|target| SocketAddrV4::new(target, ECHO_PORT));
            Ok(Beacons {
                targets: targets.collect(),
                interval_ns,
            }
            .run(entry.stop(), ears)?)
        }
        ProbeOrder::Stop { order } if entry.all().stop(order) => Ok(ProbeAnswer::Done),
        ProbeOrder::Stop { order } => Err(OrderError::NotUnderWay(order)),
        ProbeOrder::Sleeps { sleep_ns, count } => Ok(host::sleeps(sleep_ns, count, entry.stop())?),
        ProbeOrder::Cpu => Ok(ProbeAnswer::Cpu(host::cpu()?)),
        ProbeOrder::Sockets => Ok(ProbeAnswer::Sockets(sockets::look()?)),
        ProbeOrder::Sink { for_ns } => {
            let ready = || announce(ProbeAnswer::Watching);
            Ok(ProbeAnswer::Carried(sink::take_in(for_ns, entry.stop(), ready)?))
        }
        ProbeOrder::Bulk(bulk) => Ok(ProbeAnswer::Carried(bulk::send(&bulk, entry.stop())?)),
        ProbeOrder::Sabotage { no_nodelay } => {
            socket::sabotage(no_nodelay);
            Ok(ProbeAnswer::Done)
        }
        ProbeOrder::Half(watch) => {
            let ready = || announce(ProbeAnswer::Watching);
            Ok(ProbeAnswer::Half(half::watch(&watch, entry.stop(), ready)?))
        }
        ProbeOrder::Load(load) => perform_load(&load, entry.stop()),
        ProbeOrder::PostgresBatch {
            target,
            sql,
            timeout_ns,
        } => postgres::batch(target, &sql, limit(timeout_ns))
            .map(|()| ProbeAnswer::Done)
            .map_err(|error| OrderError::Postgres(target, error)),
        ProbeOrder::PostgresQuery {
            target,
            sql,
            timeout_ns,
        } => postgres::query(target, &sql, limit(timeout_ns))
            .map(ProbeAnswer::Text)
            .map_err(|error| OrderError::Postgres(target, error)),
        ProbeOrder::Redis {
            target,
            commands,
            timeout_ns,
        } => operation::run_commands(target, &commands, limit(timeout_ns))
            .map(ProbeAnswer::Replies)
            .map_err(|error| OrderError::Redis(target, error)),
        ProbeOrder::Ledger {
            target,
            prefix,
            count,
            value_bytes,
            pace,
            timeout_ns,
        } => Ledger {
            target,
            prefix,
            count,
            value_bytes,
            pace,
            limit: limit(timeout_ns),
        }
        .write()
        .map_err(|error| OrderError::Redis(target, error)),
        ProbeOrder::Audit {
            target,
            prefix,
            count,
            timeout_ns,
        } => ledger::audit(target, &prefix, count, limit(timeout_ns))
            .map(ProbeAnswer::Present)
            .map_err(|error| OrderError::Redis(target, error)),
        ProbeOrder::Backlog {
            target,
            stream,
            first_byte,
            bytes,
            timeout_ns,
        } => backlog::read(target, &stream, first_byte, bytes, limit(timeout_ns))
            .map(ProbeAnswer::Records)
            .map_err(|error| OrderError::Redis(target, error)),
        ProbeOrder::Poll {
            target,
            key,
            count,
            pause_ns,
            deadline_ns,
        } => {
            let deadline_ns = clock::now_ns().saturating_add(deadline_ns);
            Poll {
                target,
                key,
                count,
                pause_ns,
                deadline_ns,
            }
            .run(announce)
            .map_err(|error| OrderError::Redis(target, error))
        }
        ProbeOrder::Watch {
            target,
            key,
            count,
            deadline_ns,
        } => {
            let deadline_ns = clock::now_ns().saturating_add(deadline_ns);
            Watch {
                target,
                key,
                count,
                deadline_ns,
            }
            .run(announce)
            .map_err(|error| OrderError::Redis(target, error))
        }
    }
}

fn hello() -> ProbeAnswer {
    ProbeAnswer::Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now_ns: clock::now_ns(),
    }
}

fn perform_load(load: &Load, stop: &Stop) -> Result<ProbeAnswer, OrderError> {
    let target = load.target;
    match load.operation {
        Operation::Connect => {
            load::run::<ConnectClient>(load, stop).map_err(|error| OrderError::ConnectLoad(target, error))
        }
        Operation::PostgresConnect { .. } => {
            load::run::<LoginClient>(load, stop).map_err(|error| OrderError::PostgresLoad(target, error))
        }
        Operation::PostgresRead { .. } => {
            load::run::<PostgresClient>(load, stop).map_err(|error| OrderError::PostgresLoad(target, error))
        }
        Operation::Psync => load::run::<PsyncClient>(load, stop).map_err(|error| OrderError::RedisLoad(target, error)),
        Operation::Ping
        | Operation::Get { .. }
        | Operation::Set { .. }
        | Operation::SetNumber { .. }
        | Operation::SetWait { .. }
        | Operation::Messages { .. }
        | Operation::Multi { .. } => {
            load::run::<RedisClient>(load, stop).map_err(|error| OrderError::RedisLoad(target, error))
        }
    }
}
