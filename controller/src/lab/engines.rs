//! The engine of each datacenter. On one host they are all the same; nothing else in `lab` knows that.

use super::Life;
use crate::docker::{EngineError, EngineHandle};
use crate::names::{DatacenterName, LABEL_DATACENTER};
use crate::reaper::Reaper;
use ipnet::Ipv4Net;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Engines of a lab.
#[derive(Clone)]
pub struct Engines {
    /// Where objects of no datacenter live, and datacenters that name no engine.
    home: EngineHandle,
    /// Datacenters that live elsewhere.
    away: BTreeMap<DatacenterName, EngineHandle>,
    /// Who removes what is made on them if this process is killed.
    reaper: Option<Arc<Reaper>>,
    /// How long labs live that are raised on them.
    life: Life,
}

impl From<EngineHandle> for Engines {
    fn from(home: EngineHandle) -> Self {
        Self {
            home,
            away: BTreeMap::new(),
            reaper: None,
            life: Life::OfItsOwn,
        }
    }
}

impl super::Lab {
    /// Whether two datacenters live on one engine, and so see one clock.
    #[must_use]
    pub fn share_engine(&self, one: &DatacenterName, other: &DatacenterName) -> bool {
        Arc::ptr_eq(self.engines.of(one), self.engines.of(other))
    }
}

impl Engines {
    /// The same, with a reaper for labs that are raised on them: while they are made, and afterwards if they live as long as
    /// this process.
    #[must_use]
    pub fn reaped(mut self, reaper: Option<Arc<Reaper>>, life: Life) -> Self {
        self.reaper = reaper;
        self.life = life;
        self
    }

    /// How long labs live that are raised on them.
    pub(super) fn life(&self) -> Life {
        self.life
    }

    /// What carries these labels ends with this process.
    pub(super) async fn watch(&self, labels: &BTreeMap<String, String>) {
        if let Some(reaper) = &self.reaper {
            reaper.watch(labels).await;
        }
    }

    /// It is gone, or stays.
    pub(super) async fn forget(&self, labels: &BTreeMap<String, String>) {
        if let Some(reaper) = &self.reaper {
            reaper.forget(labels).await;
        }
    }

    /// The engine of a datacenter.
    #[must_use]
    pub fn of(&self, datacenter: &DatacenterName) -> &EngineHandle {
        self.away.get(datacenter).unwrap_or(&self.home)
    }

    /// The engine of an object with these labels.
    #[must_use]
    pub fn of_labels(&self, labels: &BTreeMap<String, String>) -> &EngineHandle {
        let datacenter = labels
            .get(LABEL_DATACENTER)
            .and_then(|name| DatacenterName::new(name).ok());
        datacenter.map_or(&self.home, |datacenter| self.of(&datacenter))
    }

    /// Each engine once.
    #[must_use]
    pub fn all(&self) -> Vec<EngineHandle> {
        let mut all = vec![Arc::clone(&self.home)];
        for engine in self.away.values() {
            if !all.iter().any(|known| Arc::ptr_eq(known, engine)) {
                all.push(Arc::clone(engine));
            }
        }
        all
    }

    /// Subnets that the engines would refuse.
    pub(super) async fn subnets(&self) -> Result<Vec<Ipv4Net>, EngineError> {
        let mut subnets = Vec::new();
        for engine in self.all() {
            subnets.extend(engine.subnets().await?);
        }
        Ok(subnets)
    }
}
