//! Clusters: formed with plain commands while the nodes start, and looked at until every node sees every other one in
//! the place that the topology gives it. A cluster that has not got there is no lab.
//!
//! Nothing waits for more than it needs. A node gets its epoch and its slots as soon as it answers, while it knows nobody;
//! then it meets all that have theirs already, so that every two meet once; a replica copies its master as soon as it has
//! heard of it. What remains are the two seconds for which a master that has just started reports no cluster to be ok.

use super::ready::{Asker, Bounds, NotYet, until};
use super::{Lab, LabError};
use crate::cluster::{ClusterState, SLOTS, Seat, members, misplaced};
use crate::names::{ClusterName, NodeName};
use crate::plan::{Plan, PlannedNode};
use crate::replication::{Replication, text_of};
use crate::topology::Role;
use futures_util::future::try_join_all;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::SetOnce;
use wire::Reply;

/// The clusters of a lab while they are formed.
pub(super) struct Forming {
    /// Nodes that have their epoch and slots, in that order.
    seated: Mutex<Vec<NodeName>>,
    /// Ids of nodes that have.
    ids: BTreeMap<NodeName, SetOnce<String>>,
}

impl Forming {
    pub(super) fn new(plan: &Plan) -> Self {
        let members = plan.nodes.iter().filter(|node| node.cluster.is_some());
        Self {
            seated: Mutex::new(Vec::new()),
            ids: members.map(|node| (node.name.clone(), SetOnce::new())).collect(),
        }
    }

    /// Brings a node that answers into its cluster, as far as one can order it: others may still have to hear of it.
    pub(super) async fn join(&self, asker: &Asker<'_>, node: &PlannedNode, bounds: &Bounds) -> Result<(), LabError> {
        let Some(cluster) = node.cluster_name() else {
            return Ok(());
        };
        let seat = format!("node {} (a seat in cluster {cluster})", node.name);
        let id = until(&seat, bounds, |_| seat_of(asker, node)).await?;
        let earlier = {
            let mut seated = self.seated.lock().unwrap_or_else(PoisonError::into_inner);
            let earlier = seated.clone();
            seated.push(node.name.clone());
            earlier
        };
        let ids = self
            .ids
            .get(&node.name)
            .expect("a node of a cluster has a slot for its id");
        assert!(ids.set(id).is_ok(), "a node is seated once");
        let earlier = |other: &&PlannedNode| earlier.contains(&other.name);
        let earlier: Vec<&PlannedNode> = asker.plan.members(cluster).filter(earlier).collect();
        let meet = format!("node {} (it meets {} others)", node.name, earlier.len());
        until(&meet, bounds, |_| meet_all(asker, node, &earlier)).await?;
        let Role::ReplicaOf(master) = &node.role else {
            return Ok(());
        };
        let id = self.ids.get(master).expect("the master of a replica is in its cluster");
        let id = tokio::select! {
            biased;
            () = bounds.halt.cancelled() => return Err(LabError::Abandoned),
            id = id.wait() => id,
        };
        let copy = format!("node {} (it copies {master})", node.name);
        let command = &["CLUSTER", "REPLICATE", id];
        until(&copy, bounds, |_| accepted(asker, node, command)).await
    }
}

/// The node's id, once it has its epoch and its slots.
async fn seat_of(asker: &Asker<'_>, node: &PlannedNode) -> Result<String, NotYet> {
    let place = node.cluster.as_ref().expect("only nodes of clusters are seated");
    let epoch = 1 + asker
        .plan
        .members(&place.name)
        .take_while(|other| other.name != node.name)
        .count();
    let epoch = epoch.to_string();
    let mut commands = vec![
        words(&["CLUSTER", "MYID"]),
        words(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]),
    ];
    if !place.slots.is_empty() {
        let mut command = words(&["CLUSTER", "ADDSLOTSRANGE"]);
        for (first, last) in place.slots.ranges() {
            command.extend([first.to_string(), last.to_string()]);
        }
        commands.push(command);
    }
    let replies = asker.ask_all(node, commands).await?;
    let refused = replies[1..].iter().find(|reply| matches!(reply, Reply::Error(_)));
    match (&replies[0], refused) {
        (Reply::Text(id), None) => Ok(id.clone()),
        (reply, refused) => Err(NotYet::Seen(text_of(refused.unwrap_or(reply)))),
    }
}

/// Empties a node and lets it forget its cluster. A replica refuses the first and is emptied by the second.
async fn forget(asker: Asker<'_>, node: &PlannedNode) -> Result<(), NotYet> {
    match &asker.ask(node, &[&["FLUSHALL"], &["CLUSTER", "RESET", "HARD"]]).await?[1] {
        Reply::Error(refused) => Err(NotYet::Seen(refused.clone())),
        _ => Ok(()),
    }
}

async fn meet_all(asker: &Asker<'_>, node: &PlannedNode, others: &[&PlannedNode]) -> Result<(), NotYet> {
    let commands = others.iter().map(|other| {
        let target = super::target(other);
        words(&["CLUSTER", "MEET", &target.ip().to_string(), &target.port().to_string()])
    });
    let replies = asker.ask_all(node, commands.collect()).await?;
    match replies.iter().find(|reply| matches!(reply, Reply::Error(_))) {
        None => Ok(()),
        Some(refused) => Err(NotYet::Seen(text_of(refused))),
    }
}

async fn accepted(asker: &Asker<'_>, node: &PlannedNode, command: &[&str]) -> Result<(), NotYet> {
    match &asker.ask(node, &[command]).await?[0] {
        Reply::Error(refused) => Err(NotYet::Seen(refused.clone())),
        _ => Ok(()),
    }
}

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|&word| word.to_owned()).collect()
}

/// Waits until every node of a cluster sees all of them in their places, serves, and copies whom it should.
pub(super) async fn placed<'p>(
    asker: impl Fn(&PlannedNode) -> Asker<'p>,
    plan: &'p Plan,
    cluster: &'p ClusterName,
    bounds: &Bounds,
) -> Result<(), LabError> {
    let seats = plan.seats(cluster);
    let (asker, seats) = (&asker, &seats);
    let looks = |node: &'p PlannedNode| async move {
        let what = format!("node {} (cluster {cluster} as the topology has it)", node.name);
        until(&what, bounds, |_| look(asker(node), node, seats)).await
    };
    let mut nodes = plan.members(cluster);
    // One is asked until it is content, then the others: thirty that are asked again and again would keep each other from
    // getting there.
    if let Some(first) = nodes.next() {
        looks(first).await?;
    }
    try_join_all(nodes.map(looks)).await?;
    Ok(())
}

async fn look(asker: Asker<'_>, node: &PlannedNode, seats: &[Seat]) -> Result<(), NotYet> {
    let commands = [
        &["CLUSTER", "INFO"][..],
        &["CLUSTER", "NODES"],
        &["INFO", "replication"],
    ];
    let texts: Vec<String> = asker.ask(node, &commands).await?.iter().map(text_of).collect();
    let not_yet = |error: crate::cluster::Unreadable| NotYet::Seen(format!("failed to {error}"));
    let info = ClusterState::parse(&texts[0]).map_err(not_yet)?;
    let members = members(&texts[1]).map_err(not_yet)?;
    if let Some(wrong) = misplaced(&members, seats) {
        return Err(NotYet::Seen(wrong));
    }
    if !info.ok || info.slots_ok != SLOTS {
        let state = if info.ok { "ok" } else { "fail" };
        return Err(NotYet::Seen(format!(
            "its cluster_state is {state}, with {} slots ok of {} assigned",
            info.slots_ok, info.slots_assigned
        )));
    }
    match copies(&Replication::parse(&texts[2]), node, seats) {
        None => Ok(()),
        Some(unready) => Err(NotYet::Seen(unready)),
    }
}

/// What is not yet as it should be in the replication of a node, if anything.
fn copies(seen: &Replication, node: &PlannedNode, seats: &[Seat]) -> Option<String> {
    let address = |name: &str| seats.iter().find(|seat| seat.node == name).map(|seat| seat.address);
    if let Role::ReplicaOf(master) = &node.role {
        let upstream = address(master.as_str());
        if seen.role != "slave" || seen.upstream != upstream {
            return Some(format!("it replicates from {:?}, not from {master}", seen.upstream));
        }
        return (!seen.link_up).then(|| format!("its link to {master} is down ({})", seen.sync_state()));
    }
    let replicas = seats
        .iter()
        .filter(|seat| seat.master.as_deref() == Some(node.name.as_str()));
    replicas
        .map(|replica| (replica, seen.replica(replica.address).map(|line| line.state.as_str())))
        .find(|(_, state)| *state != Some("online"))
        .map(|(replica, state)| format!("it sees {} as {}", replica.node, state.unwrap_or("absent")))
}

impl Lab {
    /// Makes a fresh cluster of the nodes that one has: every key is removed, every node forgets the others, takes a new id and
    /// epoch 0, and the cluster is formed as it was at first.
    ///
    /// # Errors
    /// It did not come to be within `limit`.
    pub async fn form_again(&self, cluster: &ClusterName, limit: Duration) -> Result<(), LabError> {
        let bounds = &Bounds::from_now(limit);
        let members: Vec<&PlannedNode> = self.plan.members(cluster).collect();
        // All have forgotten before any two meet: one that still remembers would tell of nodes that are no more.
        try_join_all(members.iter().map(|node| async move {
            let what = format!("node {} (it forgets its cluster)", node.name);
            until(&what, bounds, |_| forget(self.asker(node), node)).await
        }))
        .await?;
        let forming = &Forming::new(&self.plan);
        try_join_all(members.iter().map(|node| async move {
            let asker = self.asker(node);
            forming.join(&asker, node, bounds).await
        }))
        .await?;
        placed(|node| self.asker(node), &self.plan, cluster, bounds).await
    }

    fn asker(&self, node: &PlannedNode) -> Asker<'_> {
        Asker {
            plan: &self.plan,
            engines: &self.engines,
            probe: self.probe(&node.datacenter),
        }
    }

    /// Waits until every node of every cluster sees all of them where the topology wants them.
    pub(super) async fn clusters_placed(&self, bounds: &Bounds) -> Result<(), LabError> {
        for cluster in self.plan.clusters() {
            placed(|node| self.asker(node), &self.plan, cluster, bounds).await?;
        }
        Ok(())
    }
}
