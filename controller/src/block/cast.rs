//! Which nodes of a lab play which part in a block: the primary, its near and its far replica, a database beside the
//! far one. Chosen from the plan alone, so that it can be said without an engine whether a block applies, and why not.
//!
//! The first combination in the order of the topology wins, so the same topology always gets the same cast.

mod cluster;

pub use cluster::{ClusterCast, Layout, Member};

use crate::names::{DatacenterName, NodeName};
use crate::plan::{Plan, PlannedNode};
use crate::topology::{EngineKind, Role};
use std::collections::BTreeSet;
use std::net::SocketAddrV4;

/// The parts of a block, filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cast {
    /// Datacenter of the primary.
    pub home: DatacenterName,
    /// Datacenter of the far replica, linked with `home` in both directions.
    pub away: DatacenterName,
    /// Takes the writes.
    pub primary: Part,
    /// A replica beside it, where the block needs one.
    pub near: Option<Part>,
    /// The replica on the other side of the link.
    pub far: Part,
    /// All other direct replicas of the primary, the near one included.
    pub others: Vec<Part>,
    /// A database in `away`, where the block needs one.
    pub database: Option<Part>,
    /// The cluster whose nodes all these are, where the block cuts one in halves.
    pub cluster: Option<ClusterCast>,
}

/// A node that plays a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub node: NodeName,
    /// Where it stands.
    pub datacenter: DatacenterName,
    /// Where it listens.
    pub target: SocketAddrV4,
}

/// Parts that a block needs beside primary and far replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// A replica beside the primary.
    pub near: bool,
    /// A database beside the far replica.
    pub database: bool,
}

impl Part {
    fn of(node: &PlannedNode) -> Self {
        Self {
            node: node.name.clone(),
            datacenter: node.datacenter.clone(),
            target: SocketAddrV4::new(node.address, node.port()),
        }
    }

    /// For people: `redis-far (dc2)`.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{} ({})", self.node, self.datacenter)
    }
}

impl Cast {
    /// Nodes that play any part.
    #[must_use]
    pub fn nodes(&self) -> BTreeSet<&NodeName> {
        let parts = [
            Some(&self.primary),
            Some(&self.far),
            self.near.as_ref(),
            self.database.as_ref(),
        ];
        let parts = parts.into_iter().flatten().chain(&self.others);
        let members = self.cluster.iter().flat_map(|cluster| &cluster.members);
        parts
            .chain(members.map(|member| &member.part))
            .map(|part| &part.node)
            .collect()
    }

    /// Fills the parts from a plan.
    ///
    /// # Errors
    /// What the plan lacks: the reason of the primary that came closest.
    pub fn fill(plan: &Plan, needs: Needs) -> Result<Self, String> {
        let primaries: Vec<&PlannedNode> = plan
            .nodes
            .iter()
            .filter(|node| node.engine.is_cache() && node.role == Role::Primary && node.cluster.is_none())
            .collect();
        let mut closest = (
            0,
            "it needs a Redis or Valkey primary with a replica in another datacenter".to_owned(),
        );
        for primary in primaries {
            match Self::around(plan, primary, needs) {
                Ok(cast) => return Ok(cast),
                Err(lack) if lack.0 > closest.0 => closest = lack,
                Err(_) => {}
            }
        }
        Err(closest.1)
    }

    /// The cast around one primary; else how far it got, and what it lacks.
    fn around(plan: &Plan, primary: &PlannedNode, needs: Needs) -> Result<Self, (u8, String)> {
        if plan.sentinels_of(&primary.name).next().is_some() {
            let name = &primary.name;
            return Err((
                1,
                format!("Sentinels watch `{name}`: they would decide what a block wants to decide"),
            ));
        }
        let replicas: Vec<&PlannedNode> = plan
            .nodes
            .iter()
            .filter(|node| matches!(&node.role, Role::ReplicaOf(of) if *of == primary.name))
            .collect();
        let linked: Vec<&PlannedNode> = replicas
            .iter()
            .copied()
            .filter(|replica| replica.datacenter != primary.datacenter)
            .filter(|replica| linked_both_ways(plan, &primary.datacenter, &replica.datacenter))
            .collect();
        if linked.is_empty() {
            return Err((
                1,
                format!(
                    "it needs a replica of `{}` in another datacenter, linked both ways",
                    primary.name
                ),
            ));
        }
        let near = replicas.iter().find(|replica| replica.datacenter == primary.datacenter);
        if needs.near && near.is_none() {
            return Err((
                2,
                format!("it needs a replica of `{}` in its own datacenter as well", primary.name),
            ));
        }
        let with_database = linked
            .iter()
            .map(|far| (far, database_in(plan, &far.datacenter)))
            .find(|(_, database)| !needs.database || database.is_some());
        let Some((far, database)) = with_database else {
            return Err((2, "it needs a Postgres in the datacenter of the far replica".to_owned()));
        };
        Ok(Self {
            home: primary.datacenter.clone(),
            away: far.datacenter.clone(),
            primary: Part::of(primary),
            near: near.filter(|_| needs.near).map(|near| Part::of(near)),
            far: Part::of(far),
            others: replicas
                .iter()
                .filter(|replica| replica.name != far.name)
                .map(|replica| Part::of(replica))
                .collect(),
            database: database.filter(|_| needs.database).map(Part::of),
            cluster: None,
        })
    }

    /// Primary, far and all other replicas: every cache node that a block can touch.
    pub fn caches(&self) -> impl Iterator<Item = &Part> {
        [&self.primary, &self.far].into_iter().chain(&self.others)
    }

    /// All direct replicas of the primary, the far one first.
    #[must_use]
    pub fn replicas(&self) -> Vec<&Part> {
        std::iter::once(&self.far).chain(&self.others).collect()
    }

    /// The link as people name it: `dc1-dc2`.
    #[must_use]
    pub fn link(&self) -> String {
        format!("{}-{}", self.home, self.away)
    }
}

fn linked_both_ways(plan: &Plan, a: &DatacenterName, b: &DatacenterName) -> bool {
    let linked =
        |from: &DatacenterName, to: &DatacenterName| plan.links.iter().any(|link| link.from == *from && link.to == *to);
    linked(a, b) && linked(b, a)
}

fn database_in<'a>(plan: &'a Plan, datacenter: &DatacenterName) -> Option<&'a PlannedNode> {
    plan.nodes
        .iter()
        .find(|node| node.engine == EngineKind::Postgres && node.datacenter == *datacenter)
}
