//! What belongs together is ready together: the replicas of a primary, the nodes of a cluster, the Sentinels of a set.

use super::Site;
use crate::lab::LabError;
use crate::lab::form;
use crate::names::ClusterName;
use crate::plan::PlannedNode;
use std::collections::BTreeMap;

impl Site<'_> {
    /// Waits until the replicas of a primary acknowledge.
    pub(super) async fn acknowledged(&self, primary: &PlannedNode) -> Result<(), LabError> {
        let probe = self.wait(self.probes.get(&primary.datacenter)).await?;
        self.asker(probe).waitable(primary, &self.bounds).await
    }

    /// Waits until a cluster is as the topology has it.
    pub(super) async fn placed(&self, cluster: &ClusterName) -> Result<(), LabError> {
        let mut probes = BTreeMap::new();
        for (datacenter, probe) in &self.probes {
            probes.insert(datacenter, self.wait(Some(probe)).await?);
        }
        let asker = |node: &PlannedNode| self.asker(probes[&node.datacenter]);
        form::placed(asker, self.plan, cluster, &self.bounds).await?;
        let (nodes, begun) = (self.plan.members(cluster).count(), self.bounds.begun.elapsed());
        self.progress.step(format_args!(
            "cluster {cluster}: {nodes} nodes in their places after {:.1} s",
            begun.as_secs_f64()
        ));
        Ok(())
    }

    pub(super) async fn watching(&self, sentinel: &PlannedNode) -> Result<(), LabError> {
        let probe = self.wait(self.probes.get(&sentinel.datacenter)).await?;
        self.asker(probe).watching(sentinel, &self.bounds).await
    }
}
