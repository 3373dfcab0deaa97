//! Writes that are counted key by key: made beside the primary, and looked for on a server afterwards.

use super::{REPLY, Scene};
use crate::block::{BlockError, Part};
use crate::probe::nanoseconds;
use std::time::Duration;
use wire::{Pace, ProbeAnswer, ProbeOrder, Written};

/// Limit of a ledger and of an audit.
const LEDGER: Duration = Duration::from_secs(30);

/// Keys `<prefix><i>`, i from 0.
#[derive(Debug, Clone, Copy)]
pub struct Numbered {
    /// Key prefix.
    pub prefix: &'static str,
    /// How many.
    pub count: u32,
}

impl Numbered {
    /// All of them.
    pub fn keys(self) -> Vec<String> {
        (0..self.count).map(|i| format!("{}{i}", self.prefix)).collect()
    }
}

impl Scene<'_> {
    /// The writes, and TCP_NODELAY of the connection that made them. An error that it met is a note.
    pub async fn write_ledger(
        &mut self,
        keys: Numbered,
        value_bytes: u32,
        pace: Pace,
    ) -> Result<(Vec<Written>, bool), BlockError> {
        let order = ProbeOrder::Ledger {
            target: self.cast.primary.target,
            prefix: keys.prefix.to_owned(),
            count: keys.count,
            value_bytes,
            pace,
            timeout_ns: nanoseconds(REPLY),
        };
        match self.lab.probe(&self.cast.home).order(order, LEDGER).await? {
            ProbeAnswer::Ledger { writes, error, nodelay } => {
                if let Some(error) = error {
                    self.note(format!("The ledger met an error: {error}."))?;
                }
                Ok((writes, nodelay))
            }
            _ => Err(BlockError::OtherAnswer { order: "ledger" }),
        }
    }

    /// Numbers of the ledger's keys that a server has, asked by the probe beside it.
    pub async fn audit(&self, server: &Part, keys: Numbered) -> Result<Vec<u32>, BlockError> {
        let order = ProbeOrder::Audit {
            target: server.target,
            prefix: keys.prefix.to_owned(),
            count: keys.count,
            timeout_ns: nanoseconds(REPLY),
        };
        match self.lab.probe(&server.datacenter).order(order, LEDGER).await? {
            ProbeAnswer::Present(present) => Ok(present),
            _ => Err(BlockError::OtherAnswer { order: "audit" }),
        }
    }
}
