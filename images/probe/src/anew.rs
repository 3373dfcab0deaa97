//! A client that opens a connection of its own for each operation: what it costs to begin.
//!
//! Nothing is open between two operations, so TCP_NODELAY is that of the last connection, and nothing was opened without it
//! before the first.

use crate::load::{Client, Outcome};
use std::net::SocketAddrV4;
use std::time::Duration;
use wire::Load;

/// What is done on each connection.
pub trait Beginning: Sized {
    /// Why it failed.
    type Error: std::error::Error + Send + 'static;
    /// For a load of its operation.
    fn of(load: &Load) -> Self;
    /// Opens, performs and closes; the outcome, and TCP_NODELAY as read back.
    fn perform(&self, target: SocketAddrV4, limit: Duration) -> Result<(Outcome, bool), Self::Error>;
    /// Whether the next one will meet with the same: a server that refuses a connection refuses the next as well.
    fn breaks(_: &Self::Error) -> bool {
        true
    }
}

/// See the top of the file.
pub struct Anew<B> {
    beginning: B,
    target: SocketAddrV4,
    limit: Duration,
    nodelay: bool,
}

impl<B: Beginning> Client for Anew<B> {
    type Error = B::Error;

    fn open(load: &Load) -> Result<Self, B::Error> {
        Ok(Self {
            beginning: B::of(load),
            target: load.target,
            limit: Duration::from_nanos(load.timeout_ns),
            nodelay: true,
        })
    }

    fn nodelay(&self) -> bool {
        self.nodelay
    }

    fn warm(&mut self, i: u32) -> Result<(), B::Error> {
        self.perform(i).map(|_| ())
    }

    fn perform(&mut self, _: u32) -> Result<Outcome, B::Error> {
        let (outcome, nodelay) = self.beginning.perform(self.target, self.limit)?;
        self.nodelay = nodelay;
        Ok(outcome)
    }

    fn breaks(error: &B::Error) -> bool {
        B::breaks(error)
    }
}
