//! A Postgres session opened, again and again: the TCP connection and the log-in, until the server is ready for a query.

use super::{PostgresError, Session};
use crate::load::{Client, Outcome};
use std::net::SocketAddrV4;
use std::time::Duration;
use tokio_postgres::Config;
use wire::{Load, Operation};

/// Logs in for each operation and says goodbye, untimed.
pub struct LoginClient {
    target: SocketAddrV4,
    config: Config,
    limit: Duration,
    /// Of the last session; nothing was opened without it before the first.
    nodelay: bool,
}

impl Client for LoginClient {
    type Error = PostgresError;

    fn open(load: &Load) -> Result<Self, PostgresError> {
        let Operation::PostgresConnect {
            user,
            password,
            database,
        } = &load.operation
        else {
            unreachable!("a load is given to the client of its operation")
        };
        let mut config = Config::new();
        config.user(user).dbname(database);
        if let Some(password) = password {
            config.password(password);
        }
        Ok(Self {
            target: load.target,
            config,
            limit: Duration::from_nanos(load.timeout_ns),
            nodelay: true,
        })
    }

    fn nodelay(&self) -> bool {
        self.nodelay
    }

    fn warm(&mut self, i: u32) -> Result<(), PostgresError> {
        self.perform(i).map(|_| ())
    }

    fn perform(&mut self, _: u32) -> Result<Outcome, PostgresError> {
        let session = Session::open(self.target, self.config.clone(), self.limit)?;
        self.nodelay = session.nodelay;
        let outcome = Outcome {
            started_ns: session.began_ns,
            ended_ns: session.ready_ns,
            outcome: 0,
        };
        session.close();
        Ok(outcome)
    }

    /// There is no connection between two operations; a server that refuses one refuses the next as well.
    fn breaks(_: &PostgresError) -> bool {
        true
    }
}
