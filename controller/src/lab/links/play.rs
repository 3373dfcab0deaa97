//! Schedules: carried out by the relays themselves, all from one instant of their common clock.

use super::LinkSeen;
use crate::lab::{Lab, LabError};
use crate::names::DatacenterName;
use futures_util::future::{join_all, try_join_all};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::{RelayOrder, Schedule};

/// From asking the relays for their clock to the start: the orders are at the relays by then, on a busy host too.
const LEAD: Duration = Duration::from_millis(50);

/// A schedule and the directed link that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Sending side.
    pub from: DatacenterName,
    /// Receiving side.
    pub to: DatacenterName,
    /// What happens to it.
    pub schedule: Schedule,
}

impl Lab {
    /// Lets the relays carry out schedules, all from one instant; those that are going on are replaced. Returns at once.
    ///
    /// # Errors
    /// There is no such link, or a relay failed; the others were still ordered.
    pub async fn play(&self, played: &[Played]) -> Result<Vec<LinkSeen>, LabError> {
        let absent = played.iter().find(|played| !self.has_link(&played.from, &played.to));
        if let Some(Played { from, to, .. }) = absent {
            return Err(self.no_link(from, to));
        }
        let relays: BTreeSet<&DatacenterName> = played.iter().map(|played| &played.from).collect();
        let clocks = relays.into_iter().map(|name| self.relay(name).order(RelayOrder::Show));
        let clocks = try_join_all(clocks).await?;
        let now_ns = clocks.iter().map(|status| status.now_ns).max().unwrap_or_default();
        let lead_ns = u64::try_from(LEAD.as_nanos()).expect("a moment fits");
        let ordered = played.iter().map(|Played { from, to, schedule }| {
            let order = RelayOrder::Play {
                to: to.to_string(),
                schedule: schedule.clone(),
                start_ns: now_ns + lead_ns,
            };
            self.order_link(from, to, order)
        });
        join_all(ordered).await.into_iter().collect()
    }

    /// Ends the schedule of the link from `from` to `to`; the link stays as it is.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn stop_play(&self, from: &DatacenterName, to: &DatacenterName) -> Result<LinkSeen, LabError> {
        let far = to.to_string();
        self.change_link(from, to, RelayOrder::StopPlay { to: far }).await
    }

    /// Ends the schedules of both directions.
    ///
    /// # Errors
    /// There is no such link, or a relay failed; the other direction was still ordered.
    pub async fn stop_play_both(
        &self,
        one: &DatacenterName,
        other: &DatacenterName,
    ) -> Result<[LinkSeen; 2], LabError> {
        self.change_both((one, other), |to| RelayOrder::StopPlay { to }).await
    }

    /// Begins the schedules that the topology has for its links; how many there are.
    ///
    /// # Errors
    /// A relay failed.
    pub async fn play_planned(&self) -> Result<usize, LabError> {
        let links = self.plan.links.iter();
        let planned = links.filter_map(|link| {
            Some(Played {
                from: link.from.clone(),
                to: link.to.clone(),
                schedule: link.schedule.clone()?,
            })
        });
        let planned: Vec<Played> = planned.collect();
        if !planned.is_empty() {
            self.play(&planned).await?;
        }
        Ok(planned.len())
    }
}
