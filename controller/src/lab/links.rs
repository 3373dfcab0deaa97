//! Links of a lab while it is up: their conditions and state. A link is directed and belongs to the relay of its sending
//! side; `both` variants order the two relays at one instant.
//!
//! In stream mode a relay applies the opposite direction too, to the connections that it terminates. What changes one
//! direction is therefore told to the relay of the other (`mirror`); outside stream mode it is told when that begins.

mod faults;
mod path;
mod play;
mod ports;

pub use play::Played;
pub(super) use ports::listed;
pub use ports::{NoPorts, Only};

use super::{Lab, LabError};
use crate::names::DatacenterName;
use wire::{Conditions, LinkStatus, Path, RelayOrder, RelayStatus};

/// State of a directed link, with the clock of the relay that told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSeen {
    /// Sending side.
    pub from: DatacenterName,
    /// Receiving side.
    pub to: DatacenterName,
    /// The relay's clock when it answered.
    pub now_ns: u64,
    /// The way of packets through that relay.
    pub path: Path,
    /// What the cut of ports in force is called in this lab.
    pub only: Option<Only>,
    /// State and counters.
    pub status: LinkStatus,
}

impl Lab {
    /// Sets all conditions of the link from `from` to `to`, for packets that arrive from now on. What is in flight keeps its
    /// deadline, or with `flush` is delivered at once.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn set(
        &self,
        from: &DatacenterName,
        to: &DatacenterName,
        conditions: &Conditions,
        flush: bool,
    ) -> Result<LinkSeen, LabError> {
        let order = RelayOrder::Set {
            to: to.to_string(),
            conditions: conditions.clone(),
            flush,
        };
        self.change_link(from, to, order).await
    }

    /// Sets the one-way delay from `from` to `to`, for packets that arrive from now on; other conditions stay.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn set_delay(
        &self,
        from: &DatacenterName,
        to: &DatacenterName,
        delay_ns: u64,
    ) -> Result<LinkSeen, LabError> {
        let conditions = Conditions {
            delay_ns,
            ..self.link(from, to).await?.status.conditions
        };
        self.set(from, to, &conditions, false).await
    }

    /// Sets the one-way delay of both directions.
    ///
    /// # Errors
    /// There is no such link, or a relay failed; the other direction was still ordered.
    pub async fn set_delay_both(
        &self,
        one: &DatacenterName,
        other: &DatacenterName,
        delay_ns: u64,
    ) -> Result<[LinkSeen; 2], LabError> {
        let (there, back) = tokio::join!(
            self.set_delay(one, other, delay_ns),
            self.set_delay(other, one, delay_ns)
        );
        Ok([there?, back?])
    }

    /// State of the link from `from` to `to`.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn link(&self, from: &DatacenterName, to: &DatacenterName) -> Result<LinkSeen, LabError> {
        self.order_link(from, to, RelayOrder::Show).await
    }

    /// State of every directed link, in the order of the plan.
    ///
    /// # Errors
    /// A relay failed.
    pub async fn links(&self) -> Result<Vec<LinkSeen>, LabError> {
        let asked = self.plan.links.iter().map(|link| self.link(&link.from, &link.to));
        futures_util::future::try_join_all(asked).await
    }

    /// Gives an order that changes a link, and tells the opposite relay in stream mode.
    async fn change_link(
        &self,
        from: &DatacenterName,
        to: &DatacenterName,
        order: RelayOrder,
    ) -> Result<LinkSeen, LabError> {
        let seen = self.order_link(from, to, order).await?;
        if matches!(seen.path, Path::Stream(_)) {
            self.mirror(&seen).await?;
        }
        Ok(seen)
    }

    /// The same for both directions at one instant.
    async fn change_both(
        &self,
        (one, other): (&DatacenterName, &DatacenterName),
        order: impl Fn(String) -> RelayOrder,
    ) -> Result<[LinkSeen; 2], LabError> {
        let (there, back) = tokio::join!(
            self.change_link(one, other, order(other.to_string())),
            self.change_link(other, one, order(one.to_string()))
        );
        Ok([there?, back?])
    }

    async fn order_link(
        &self,
        from: &DatacenterName,
        to: &DatacenterName,
        order: RelayOrder,
    ) -> Result<LinkSeen, LabError> {
        if !self.has_link(from, to) {
            return Err(self.no_link(from, to));
        }
        let status = self.relay(from).order(order).await?;
        let RelayStatus {
            now_ns, path, links, ..
        } = status;
        let status = links.into_iter().find(|link| link.to == to.as_str());
        let status = status.ok_or_else(|| self.no_link(from, to))?;
        Ok(LinkSeen {
            from: from.clone(),
            to: to.clone(),
            now_ns,
            path,
            only: status.port_cut().map(|cut| Only::named(&self.plan, &cut.ports)),
            status,
        })
    }

    fn has_link(&self, from: &DatacenterName, to: &DatacenterName) -> bool {
        self.plan.links.iter().any(|link| link.from == *from && link.to == *to)
    }

    fn no_link(&self, from: &DatacenterName, to: &DatacenterName) -> LabError {
        let links = self.plan.links.iter();
        LabError::NoLink {
            from: from.to_string(),
            to: to.to_string(),
            links: links.map(|link| format!("{}:{}", link.from, link.to)).collect(),
        }
    }
}
