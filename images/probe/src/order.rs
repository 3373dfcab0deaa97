//! One order from its words to its answer. Knows which module performs what, and nothing else.

use crate::clock;
use crate::echo::{Echo, EchoError};
use crate::load::{self, LoadError};
use crate::postgres::{self, PostgresClient, PostgresError};
use crate::redis::RedisError;
use crate::redis::ledger::{self, Ledger};
use crate::redis::operation::{self, RedisClient};
use crate::redis::visibility::{Poll, Watch};
use std::net::SocketAddrV4;
use std::time::Duration;
use wire::{ECHO_PORT, Load, Operation, ProbeAnswer, ProbeOrder, Transport};

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
    /// This probe cannot do that.
    #[error("this probe cannot carry out {0:?}")]
    Unsupported(ProbeOrder),
    /// A load on such a server.
    #[error("postgres {0}: {1}")]
    PostgresLoad(SocketAddrV4, #[source] LoadError<PostgresError>),
}

/// Performs `order` on this thread. `announce` takes an answer that comes before the last one.
#[expect(
    clippy::too_many_lines,
    reason = "a table: one arm per order, and nothing but names in it"
)]
pub fn perform(order: ProbeOrder, announce: impl FnOnce(ProbeAnswer)) -> Result<ProbeAnswer, OrderError> {
    let limit = Duration::from_nanos;
    match order {
        ProbeOrder::Hello => Ok(hello()),
        ProbeOrder::Echo {
            target,
            transport: Transport::Udp,
            warmup,
            count,
            pause_ns,
            timeout_ns,
        } => {
            let target = SocketAddrV4::new(target, ECHO_PORT);
            Ok(Echo {
                target,
                warmup,
                count,
                pause_ns,
                timeout: limit(timeout_ns),
            }
            .run()?)
        }
        other @ (ProbeOrder::Echo { .. }
        | ProbeOrder::Beacons { .. }
        | ProbeOrder::Stop { .. }
        | ProbeOrder::Sleeps { .. }
        | ProbeOrder::Cpu
        | ProbeOrder::Sabotage { .. }) => Err(OrderError::Unsupported(other)),
        ProbeOrder::Load(load) => perform_load(&load),
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

fn perform_load(load: &Load) -> Result<ProbeAnswer, OrderError> {
    let target = load.target;
    match load.operation {
        Operation::Connect
        | Operation::Messages { .. }
        | Operation::Multi { .. }
        | Operation::Psync
        | Operation::PostgresConnect { .. } => Err(OrderError::Unsupported(ProbeOrder::Load(load.clone()))),
        Operation::PostgresRead { .. } => {
            load::run::<PostgresClient>(load).map_err(|error| OrderError::PostgresLoad(target, error))
        }
        Operation::Ping
        | Operation::Get { .. }
        | Operation::Set { .. }
        | Operation::SetNumber { .. }
        | Operation::SetWait { .. } => {
            load::run::<RedisClient>(load).map_err(|error| OrderError::RedisLoad(target, error))
        }
    }
}
