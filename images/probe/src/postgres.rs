//! Postgres over tokio-postgres, on a runtime of the order's own thread.
//!
//! The driver's connection task and the waiting query share that one thread, so a reply wakes nobody else.
//! User and database are `postgres`, without password, unless an operation says otherwise, and there is no TLS: the
//! servers of a lab trust. The driver knows no limit per query, so each has one here, and a connection that overran it is not used again.

pub mod connect;

use crate::clock;
use crate::load::{Client, Outcome, strided};
use crate::socket::{DialError, Dialled, dial};
use std::future::Future;
use std::io;
use std::net::SocketAddrV4;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, NoTls, SimpleQueryMessage, Statement};
use wire::{Load, Operation};

/// Limit of the connection and of the request that cancel a late query.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);

/// Limit of a goodbye.
const CLOSE_LIMIT: Duration = Duration::from_millis(100);

/// Why an operation on a Postgres server failed.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// No connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// No runtime, or the socket could not be handed to it.
    #[error("set up the connection: {0}")]
    Setup(#[source] io::Error),
    /// The limit passed.
    #[error("no reply within {0} ms")]
    NoReply(u128),
    /// The server refused, or the connection failed.
    #[error("{}", text(.0))]
    Driver(#[from] tokio_postgres::Error),
    /// The statement of a read does not take one integer.
    #[error("the statement must have one integer parameter, not {0:?}")]
    Parameters(Vec<String>),
    /// A query without a row.
    #[error("the query gave no row")]
    NoRow,
    /// A query whose first column is NULL.
    #[error("the query gave NULL")]
    Null,
    /// A read of a key found another number of rows.
    #[error("{0} rows instead of one")]
    Rows(usize),
}

impl PostgresError {
    fn breaks(&self) -> bool {
        match self {
            Self::Dial(_) | Self::Setup(_) | Self::NoReply(_) => true,
            // An error that the server itself reported leaves the session usable, unless it says that it ends it.
            Self::Driver(error) => error.as_db_error().is_none_or(|error| error.severity() != "ERROR"),
            Self::Parameters(_) | Self::NoRow | Self::Null | Self::Rows(_) => false,
        }
    }
}

/// The driver's own text leaves the server's words to the source.
fn text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(server) => format!("{} (SQLSTATE {})", server.message(), server.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

/// Statements whose results do not matter.
pub fn batch(target: SocketAddrV4, sql: &str, limit: Duration) -> Result<(), PostgresError> {
    let session = Session::open(target, trusted(), limit)?;
    let done = session.within(limit, session.client.batch_execute(sql));
    session.cancel_if_late(target, &done);
    done
}

/// First column of the first row, as text.
pub fn query(target: SocketAddrV4, sql: &str, limit: Duration) -> Result<String, PostgresError> {
    let session = Session::open(target, trusted(), limit)?;
    let messages = session.within(limit, session.client.simple_query(sql));
    session.cancel_if_late(target, &messages);
    let messages = messages?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let value = row.ok_or(PostgresError::NoRow)?.try_get(0)?;
    Ok(value.ok_or(PostgresError::Null)?.to_owned())
}

/// What the sessions of a lab's servers need: they trust.
fn trusted() -> Config {
    let mut config = Config::new();
    config.user("postgres").dbname("postgres");
    config
}

/// One session and the runtime that drives it.
struct Session {
    // Dropped before the runtime that its connection task lives on.
    client: tokio_postgres::Client,
    connection: JoinHandle<Result<(), tokio_postgres::Error>>,
    runtime: Runtime,
    nodelay: bool,
    /// Directly before the first packet.
    began_ns: u64,
    /// Directly after the server was ready for a query.
    ready_ns: u64,
}

impl Session {
    /// Dials and logs in: both within `limit`. No TLS is asked for, which would cost a round trip more.
    fn open(target: SocketAddrV4, mut config: Config, limit: Duration) -> Result<Self, PostgresError> {
        config
            .ssl_mode(SslMode::Disable)
            .channel_binding(ChannelBinding::Disable)
            .application_name("testbed probe");
        // Made before the first packet: it is no part of what a session costs.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(PostgresError::Setup)?;
        let Dialled {
            stream,
            nodelay,
            began_ns,
            ..
        } = dial(target, limit)?;
        stream.set_nonblocking(true).map_err(PostgresError::Setup)?;
        let (client, connection, ready_ns) = runtime.block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream).map_err(PostgresError::Setup)?;
            let (client, connection) = limited(limit, config.connect_raw(stream, NoTls)).await?;
            let ready_ns = clock::now_ns();
            // How it ends is told to the query that it breaks.
            Ok::<_, PostgresError>((client, tokio::spawn(connection), ready_ns))
        })?;
        Ok(Self {
            client,
            connection,
            runtime,
            nodelay,
            began_ns,
            ready_ns,
        })
    }

    /// Says goodbye, so that the server logs no lost connection. Dropped without it, a session just ends.
    fn close(self) {
        drop(self.client);
        let connection = self.connection;
        // The goodbye is written at once or never.
        let _ = self
            .runtime
            .block_on(async { tokio::time::timeout(CLOSE_LIMIT, connection).await });
    }

    /// Runs the session until `future` is done or the limit has passed.
    fn within<T>(
        &self,
        limit: Duration,
        future: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, PostgresError> {
        self.runtime.block_on(limited(limit, future))
    }

    /// A server does not notice that nobody waits any more: what overran its limit is cancelled, so that it
    /// does not go on beside the next measurement. Best effort; the order has failed already.
    fn cancel_if_late<T>(&self, target: SocketAddrV4, result: &Result<T, PostgresError>) {
        let Err(PostgresError::NoReply(_)) = result else {
            return;
        };
        let Ok(Dialled { stream, .. }) = dial(target, CANCEL_LIMIT) else {
            return;
        };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let cancelled = self.runtime.block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream).map_err(PostgresError::Setup)?;
            limited(CANCEL_LIMIT, self.client.cancel_token().cancel_query_raw(stream, NoTls)).await
        });
        if let Err(error) = cancelled {
            eprintln!("probe: failed to cancel a query that overran its limit: {error}");
        }
    }
}

async fn limited<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, PostgresError> {
    match tokio::time::timeout(limit, future).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(PostgresError::NoReply(limit.as_millis())),
    }
}

/// Integer types that a key can have.
#[derive(Debug, Clone, Copy)]
enum KeyType {
    Int2,
    Int4,
    Int8,
}

impl KeyType {
    fn of(statement: &Statement) -> Result<Self, PostgresError> {
        match statement.params() {
            [kind] if *kind == Type::INT2 => Ok(Self::Int2),
            [kind] if *kind == Type::INT4 => Ok(Self::Int4),
            [kind] if *kind == Type::INT8 => Ok(Self::Int8),
            other => Err(PostgresError::Parameters(
                other.iter().map(ToString::to_string).collect(),
            )),
        }
    }

    /// The key as the statement takes it. Keys are below a u32, so only the narrow types can be too small;
    /// their largest value then finds no row, which is counted.
    fn value(self, key: u64) -> Box<dyn ToSql + Sync> {
        match self {
            Self::Int2 => Box::new(i16::try_from(key).unwrap_or(i16::MAX)),
            Self::Int4 => Box::new(i32::try_from(key).unwrap_or(i32::MAX)),
            Self::Int8 => Box::new(i64::try_from(key).unwrap_or(i64::MAX)),
        }
    }
}

/// One connection of a load of primary-key reads.
pub struct PostgresClient {
    session: Session,
    statement: Statement,
    key_type: KeyType,
    keys: u32,
    stride: u32,
    limit: Duration,
}

impl Client for PostgresClient {
    type Error = PostgresError;

    fn open(load: &Load) -> Result<Self, PostgresError> {
        let Operation::PostgresRead { sql, keys, stride } = &load.operation else {
            unreachable!("a load is given to the client of its operation")
        };
        let limit = Duration::from_nanos(load.timeout_ns);
        let session = Session::open(load.target, trusted(), limit)?;
        let statement = session.within(limit, session.client.prepare(sql))?;
        let key_type = KeyType::of(&statement)?;
        Ok(Self {
            session,
            statement,
            key_type,
            keys: *keys,
            stride: *stride,
            limit,
        })
    }

    fn nodelay(&self) -> bool {
        self.session.nodelay
    }

    fn warm(&mut self, i: u32) -> Result<(), PostgresError> {
        self.perform(i).map(|_| ())
    }

    fn perform(&mut self, i: u32) -> Result<Outcome, PostgresError> {
        let key = self.key_type.value(strided(i, self.stride, self.keys));
        let parameters: [&(dyn ToSql + Sync); 1] = [&*key];
        let started_ns = clock::now_ns();
        let rows = self
            .session
            .within(self.limit, self.session.client.query(&self.statement, &parameters))?;
        let ended_ns = clock::now_ns();
        match rows.len() {
            1 => Ok(Outcome {
                started_ns,
                ended_ns,
                outcome: 0,
            }),
            other => Err(PostgresError::Rows(other)),
        }
    }

    fn breaks(error: &PostgresError) -> bool {
        error.breaks()
    }
}
