//! A Postgres session opened, again and again: the TCP connection and the log-in, until the server is ready for a query.

use super::{PostgresError, Session};
use crate::anew::{Anew, Beginning};
use crate::load::Outcome;
use std::net::SocketAddrV4;
use std::time::Duration;
use tokio_postgres::Config;
use wire::{Load, Operation};

/// A load of log-ins.
pub type LoginClient = Anew<Login>;

/// Logs in and says goodbye, untimed.
pub struct Login(Config);

impl Beginning for Login {
    type Error = PostgresError;

    fn of(load: &Load) -> Self {
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
        Self(config)
    }

    fn perform(&self, target: SocketAddrV4, limit: Duration) -> Result<(Outcome, bool), PostgresError> {
        let session = Session::open(target, self.0.clone(), limit)?;
        let nodelay = session.nodelay;
        let outcome = Outcome {
            started_ns: session.began_ns,
            ended_ns: session.ready_ns,
            outcome: 0,
        };
        session.close();
        Ok((outcome, nodelay))
    }
}
