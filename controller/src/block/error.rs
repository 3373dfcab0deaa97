//! Why a block could not be completed.

use crate::channel::ChannelError;
use crate::lab::LabError;
use crate::stop::Signal;
use std::time::Duration;

/// Why a block could not be completed.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// The lab lacks a part.
    #[error("cast the block: {0}")]
    DoesNotApply(String),
    /// A relay or a probe did not do what it was told.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A link could not be changed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A relay that the block uses is gone.
    #[error("keep the relay of {datacenter} at work: {cause}")]
    RelayLost {
        /// Datacenter that it serves.
        datacenter: String,
        /// What was tried, and what became of it.
        cause: String,
    },
    /// A node that the block uses has ended.
    #[error("keep node {node} running: {cause}")]
    NodeEnded {
        /// The node.
        node: String,
        /// The engine's words on its end.
        cause: String,
    },
    /// A server refused a command.
    #[error("send {command} to {server}: {reply}")]
    Refused {
        /// The server.
        server: String,
        /// The command.
        command: String,
        /// Its reply.
        reply: String,
    },
    /// A probe gave an answer of another kind than the order has.
    #[error("read the answer to {order}: it is of another kind")]
    OtherAnswer {
        /// The order.
        order: &'static str,
    },
    /// The link was cut or frozen before the block began.
    #[error("begin: the link from {from} to {to} is {state}")]
    FoundClosed {
        /// Sending side.
        from: String,
        /// Receiving side.
        to: String,
        /// e.g. `cut`, `frozen` or `cut (bus)`.
        state: String,
    },
    /// Keys that the block would write, and then remove, are somebody's.
    #[error("begin: {count} keys that the block would write exist already on {server}")]
    Occupied {
        /// How many.
        count: i64,
        /// The server.
        server: String,
    },
    /// A condition did not come true in time.
    #[error("see {wanted} within {limit:?}: last seen {seen}")]
    NotSeen {
        /// The condition.
        wanted: String,
        /// How long it was waited for.
        limit: Duration,
        /// What was there instead.
        seen: String,
    },
    /// The history could not be written.
    #[error("write the history: {0}")]
    Record(#[from] std::io::Error),
    /// It was told to stop.
    #[error("finish: stopped by a signal")]
    Stopped(Signal),
}
