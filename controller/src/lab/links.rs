//! Conditions of a lab's links while it is up. A link is directed and belongs to the relay of its sending side; `both`
//! variants order the two relays at one instant.

use super::{Lab, LabError};
use crate::names::DatacenterName;
use wire::{CutKind, LinkStatus, Path, RelayOrder, RelayStatus};

/// State of a directed link, with the clock of the relay that told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSeen {
    /// Sending side.
    pub from: DatacenterName,
    /// Receiving side.
    pub to: DatacenterName,
    /// The relay's clock when it answered.
    pub now_ns: u64,
    /// Which way packets take through that relay.
    pub path: Path,
    /// State and counters.
    pub status: LinkStatus,
}

impl Lab {
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
        let mut conditions = self.link(from, to).await?.status.conditions;
        conditions.delay_ns = delay_ns;
        let order = RelayOrder::Set {
            to: to.to_string(),
            conditions,
            flush: false,
        };
        self.order_link(from, to, order).await
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

    /// Cuts the link from `from` to `to`; what is in flight is destroyed.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn cut(&self, from: &DatacenterName, to: &DatacenterName, kind: CutKind) -> Result<LinkSeen, LabError> {
        let far = to.to_string();
        self.order_link(from, to, RelayOrder::Cut { to: far, kind }).await
    }

    /// Cuts both directions.
    ///
    /// # Errors
    /// There is no such link, or a relay failed; the other direction was still ordered.
    pub async fn cut_both(
        &self,
        one: &DatacenterName,
        other: &DatacenterName,
        kind: CutKind,
    ) -> Result<[LinkSeen; 2], LabError> {
        let (there, back) = tokio::join!(self.cut(one, other, kind), self.cut(other, one, kind));
        Ok([there?, back?])
    }

    /// Ends a cut of the link from `from` to `to`.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn heal(&self, from: &DatacenterName, to: &DatacenterName) -> Result<LinkSeen, LabError> {
        let far = to.to_string();
        self.order_link(from, to, RelayOrder::Heal { to: far }).await
    }

    /// Ends a cut of both directions.
    ///
    /// # Errors
    /// There is no such link, or a relay failed; the other direction was still ordered.
    pub async fn heal_both(&self, one: &DatacenterName, other: &DatacenterName) -> Result<[LinkSeen; 2], LabError> {
        let (there, back) = tokio::join!(self.heal(one, other), self.heal(other, one));
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

    async fn order_link(
        &self,
        from: &DatacenterName,
        to: &DatacenterName,
        order: RelayOrder,
    ) -> Result<LinkSeen, LabError> {
        if !self.plan.links.iter().any(|link| link.from == *from && link.to == *to) {
            return Err(self.no_link(from, to));
        }
        let RelayStatus {
            now_ns, path, links, ..
        } = self.relay(from).order(order).await?;
        let status = links.into_iter().find(|link| link.to == to.as_str());
        let status = status.ok_or_else(|| self.no_link(from, to))?;
        Ok(LinkSeen {
            from: from.clone(),
            to: to.clone(),
            now_ns,
            path,
            status,
        })
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
