//! Cuts and freezes. A cut destroys what is in flight; a freeze loses nothing, and is no cut.

use super::LinkSeen;
use crate::lab::{Lab, LabError};
use crate::names::DatacenterName;
use wire::{CutKind, Defect, RelayOrder};

impl Lab {
    /// Cuts the link from `from` to `to`; what is in flight is destroyed.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn cut(&self, from: &DatacenterName, to: &DatacenterName, kind: CutKind) -> Result<LinkSeen, LabError> {
        let far = to.to_string();
        self.change_link(from, to, RelayOrder::Cut { to: far, kind }).await
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
        self.change_both((one, other), |to| RelayOrder::Cut { to, kind }).await
    }

    /// Ends a cut of the link from `from` to `to`.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn heal(&self, from: &DatacenterName, to: &DatacenterName) -> Result<LinkSeen, LabError> {
        let far = to.to_string();
        self.change_link(from, to, RelayOrder::Heal { to: far }).await
    }

    /// Ends a cut of both directions.
    ///
    /// # Errors
    /// There is no such link, or a relay failed; the other direction was still ordered.
    pub async fn heal_both(&self, one: &DatacenterName, other: &DatacenterName) -> Result<[LinkSeen; 2], LabError> {
        self.change_both((one, other), |to| RelayOrder::Heal { to }).await
    }

    /// Freezes the link from `from` to `to`: nothing passes, and up to the queue bound nothing is lost.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn freeze(&self, from: &DatacenterName, to: &DatacenterName) -> Result<LinkSeen, LabError> {
        let far = to.to_string();
        self.change_link(from, to, RelayOrder::Freeze { to: far }).await
    }

    /// Freezes both directions.
    ///
    /// # Errors
    /// There is no such link, or a relay failed; the other direction was still ordered.
    pub async fn freeze_both(&self, one: &DatacenterName, other: &DatacenterName) -> Result<[LinkSeen; 2], LabError> {
        self.change_both((one, other), |to| RelayOrder::Freeze { to }).await
    }

    /// Ends a freeze of the link from `from` to `to`: what was kept is delivered, in order.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn thaw(&self, from: &DatacenterName, to: &DatacenterName) -> Result<LinkSeen, LabError> {
        let far = to.to_string();
        self.change_link(from, to, RelayOrder::Thaw { to: far }).await
    }

    /// Ends a freeze of both directions.
    ///
    /// # Errors
    /// There is no such link, or a relay failed; the other direction was still ordered.
    pub async fn thaw_both(&self, one: &DatacenterName, other: &DatacenterName) -> Result<[LinkSeen; 2], LabError> {
        self.change_both((one, other), |to| RelayOrder::Thaw { to }).await
    }

    /// Makes the relay of a link be wrong on purpose, without its state saying so (`None`: be right again). A negative
    /// control; nothing else may use it.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn sabotage(
        &self,
        from: &DatacenterName,
        to: &DatacenterName,
        defect: Option<Defect>,
    ) -> Result<LinkSeen, LabError> {
        let far = to.to_string();
        self.order_link(from, to, RelayOrder::Sabotage { to: far, defect })
            .await
    }
}
