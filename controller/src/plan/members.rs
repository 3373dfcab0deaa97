//! Who belongs together in a plan: the nodes of a cluster, the Sentinels of a primary; and the ports on which a node listens.

use super::{Plan, PlannedNode};
use crate::cluster::{BUS_OFFSET, Seat, Slots};
use crate::names::{ClusterName, NodeName};
use crate::sentinel;
use crate::topology::Role;

impl Plan {
    /// Its clusters, in the order of the topology.
    #[must_use]
    pub fn clusters(&self) -> Vec<&ClusterName> {
        let mut clusters: Vec<&ClusterName> = Vec::new();
        for cluster in self.nodes.iter().filter_map(PlannedNode::cluster_name) {
            if !clusters.contains(&cluster) {
                clusters.push(cluster);
            }
        }
        clusters
    }

    /// Nodes of a cluster, in the order of the topology.
    pub fn members<'p>(&'p self, cluster: &'p ClusterName) -> impl Iterator<Item = &'p PlannedNode> {
        self.nodes
            .iter()
            .filter(move |node| node.cluster_name() == Some(cluster))
    }

    /// Where the nodes of a cluster should sit.
    #[must_use]
    pub fn seats(&self, cluster: &ClusterName) -> Vec<Seat> {
        let seat = |node: &PlannedNode| Seat {
            node: node.name.to_string(),
            datacenter: node.datacenter.to_string(),
            address: node.address,
            slots: node.slots(),
            master: node.upstream().map(ToString::to_string),
        };
        self.members(cluster).map(seat).collect()
    }

    /// The Sentinels of a primary, in the order of the topology.
    pub fn sentinels_of<'p>(&'p self, primary: &'p NodeName) -> impl Iterator<Item = &'p PlannedNode> {
        let nodes = self.nodes.iter();
        nodes.filter(move |node| matches!(&node.role, Role::SentinelOf(watched) if watched == primary))
    }
}

impl PlannedNode {
    /// Slots of a master of a cluster; of others none.
    #[must_use]
    pub fn slots(&self) -> Slots {
        let place = self.cluster.as_ref();
        place.map(|place| place.slots.clone()).unwrap_or_default()
    }

    /// Whom a replica copies.
    #[must_use]
    pub fn upstream(&self) -> Option<&NodeName> {
        match &self.role {
            Role::ReplicaOf(upstream) => Some(upstream),
            _ => None,
        }
    }

    /// TCP ports on which it listens: that of clients, and that of the cluster bus.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        let bus = self.cluster.as_ref().map(|_| self.port() + BUS_OFFSET);
        std::iter::once(self.port()).chain(bus)
    }

    /// Port of clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self.role {
            Role::SentinelOf(_) => sentinel::PORT,
            _ => self.engine.port(),
        }
    }

    /// The cluster that it is in.
    #[must_use]
    pub fn cluster_name(&self) -> Option<&ClusterName> {
        self.cluster.as_ref().map(|place| &place.name)
    }
}
