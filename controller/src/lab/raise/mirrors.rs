//! What a relay in stream mode is told before the first connection.

use super::{LabError, Site};
use crate::names::DatacenterName;
use crate::relay::RelayClient;
use wire::{Mirror, Path, RelayOrder};

impl Site<'_> {
    /// In stream mode a relay knows the directions that lead to it before the first connection of a replica.
    pub(super) async fn mirrored(&self, name: &DatacenterName, client: &RelayClient) -> Result<(), LabError> {
        if !matches!(self.plan.path(), Some(Path::Stream(_))) {
            return Ok(());
        }
        for link in self.plan.links.iter().filter(|link| link.to == *name) {
            let mirror = Mirror {
                delay_ns: link.conditions.delay_ns,
                ..Mirror::default()
            };
            let to = link.from.to_string();
            let told = client.order_within(RelayOrder::Mirror { to, mirror }, self.bounds.left());
            self.unless_halted(told).await??;
        }
        Ok(())
    }
}
