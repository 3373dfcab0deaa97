//! Clusters in `ps`: as each datacenter sees them, so that both halves of a cut are told apart. A datacenter's view is that
//! of its first node that answers; whether its other nodes share it is said.

use crate::cluster::{MemberLine, elsewhere};
use crate::commands::screen::plain_table;
use crate::lab::{ClusterView, NodeSeen};
use crate::names::{ClusterName, DatacenterName, NodeName};
use crate::plan::Plan;
use schemars::JsonSchema;
use serde::Serialize;

/// A cluster as one datacenter sees it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClusterRow {
    /// The cluster.
    pub cluster: String,
    /// The datacenter.
    pub seen_from: String,
    /// The node that was asked (`null`: none answers there).
    pub asked: Option<String>,
    /// `cluster_state`: `ok` or `fail` (`null`: nobody says).
    pub state: Option<&'static str>,
    /// Slots whose master is neither suspected nor failed.
    pub slots_ok: Option<u16>,
    /// Nodes of this datacenter that answer with another state, other roles or another judgement of a node.
    pub others_disagree: Vec<String>,
    /// Nodes that sit elsewhere than the topology wants them, in words: after a promotion, or because a replica has migrated.
    pub elsewhere: Vec<String>,
    /// All nodes of the cluster, as the one that was asked sees them.
    pub nodes: Vec<MemberRow>,
}

/// A node of a cluster as another one sees it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemberRow {
    /// The node.
    pub node: String,
    /// `master` or `replica` (`null`: it is not known there).
    pub role: Option<&'static str>,
    /// Slots that it serves.
    pub slots: Option<String>,
    /// The master that it copies.
    pub master: Option<String>,
    /// `fine`, `suspected`, `failed`, `unmet`, or `unknown`.
    pub health: &'static str,
    /// Whether the bus connection to it is up.
    pub connected: bool,
}

/// Every cluster of a lab from every datacenter that it stands in.
pub(super) fn rows(plan: &Plan, nodes: &[NodeSeen]) -> Vec<ClusterRow> {
    let clusters = plan.clusters().into_iter();
    let views = clusters.flat_map(|cluster| {
        let datacenters = plan.datacenters.iter().map(|datacenter| &datacenter.name);
        let here = datacenters.filter(|name| plan.members(cluster).any(|node| node.datacenter == **name));
        here.map(move |datacenter| row(plan, cluster, datacenter, nodes))
    });
    views.collect()
}

fn row(plan: &Plan, cluster: &ClusterName, datacenter: &DatacenterName, nodes: &[NodeSeen]) -> ClusterRow {
    let here = plan.members(cluster).filter(|node| node.datacenter == *datacenter);
    let views: Vec<(&NodeName, &ClusterView)> = here
        .filter_map(|node| Some((&node.name, view_of(&node.name, nodes)?)))
        .collect();
    let first = views.first();
    let judged = |view: &ClusterView| (view.state.ok, members(plan, cluster, view));
    let others = views.iter().skip(1).filter(|(_, view)| {
        let first = first.map(|(_, first)| judged(first));
        first.is_some_and(|(ok, rows)| {
            let (other_ok, other_rows) = judged(view);
            ok != other_ok || !rows.iter().zip(&other_rows).all(|(one, other)| alike(one, other))
        })
    });
    ClusterRow {
        cluster: cluster.to_string(),
        seen_from: datacenter.to_string(),
        asked: first.map(|(node, _)| node.to_string()),
        state: first.map(|(_, view)| if view.state.ok { "ok" } else { "fail" }),
        slots_ok: first.map(|(_, view)| view.state.slots_ok),
        elsewhere: first
            .map(|(_, view)| elsewhere(&view.members, &plan.seats(cluster)))
            .unwrap_or_default(),
        others_disagree: others.map(|(node, _)| node.to_string()).collect(),
        nodes: first.map(|(_, view)| members(plan, cluster, view)).unwrap_or_default(),
    }
}

fn view_of<'s>(node: &NodeName, nodes: &'s [NodeSeen]) -> Option<&'s ClusterView> {
    let seen = nodes.iter().find(|seen| seen.node == *node)?;
    seen.state.as_ref().ok()?.cluster.as_ref()?.as_ref().ok()
}

/// Bus connections come and go on each side by themselves: they are no disagreement.
fn alike(one: &MemberRow, other: &MemberRow) -> bool {
    (one.role, &one.slots, &one.master, one.health) == (other.role, &other.slots, &other.master, other.health)
}

fn members(plan: &Plan, cluster: &ClusterName, view: &ClusterView) -> Vec<MemberRow> {
    let name_of = |line: &MemberLine| {
        let node = plan.members(cluster).find(|node| Some(node.address) == line.address);
        node.map_or_else(|| line.id.clone(), |node| node.name.to_string())
    };
    let seen = |node: &crate::plan::PlannedNode| {
        let line = view.members.iter().find(|line| line.address == Some(node.address));
        let master = line.and_then(|line| {
            let id = line.master_id.as_ref()?;
            let master = view.members.iter().find(|other| other.id == *id);
            Some(master.map_or_else(|| id.clone(), name_of))
        });
        MemberRow {
            node: node.name.to_string(),
            role: line.map(|line| if line.master { "master" } else { "replica" }),
            slots: line
                .filter(|line| !line.slots.is_empty())
                .map(|line| line.slots.to_string()),
            master,
            health: line.map_or("unknown", |line| line.health.as_str()),
            connected: line.is_some_and(|line| line.connected),
        }
    };
    plan.members(cluster).map(seen).collect()
}

/// A view as text.
pub(super) fn table(row: &ClusterRow) -> String {
    let (cluster, from) = (&row.cluster, &row.seen_from);
    let (Some(asked), Some(state), Some(slots_ok)) = (&row.asked, row.state, row.slots_ok) else {
        return format!("cluster {cluster} from {from}: no node answers\n");
    };
    let disagree = match &row.others_disagree[..] {
        [] => String::new(),
        others => format!("; {} see it otherwise", others.join(", ")),
    };
    let dash = || "-".to_owned();
    let lines = row.nodes.iter().map(|node| {
        [
            node.node.clone(),
            node.role.unwrap_or("?").to_owned(),
            node.slots.clone().unwrap_or_else(dash),
            node.master.clone().unwrap_or_else(dash),
            node.health.to_owned(),
            if node.connected { "up" } else { "down" }.to_owned(),
        ]
    });
    let elsewhere = row
        .elsewhere
        .iter()
        .map(|told| format!("not as the topology has it: {told}\n"));
    let header = ["NODE", "ROLE", "SLOTS", "MASTER", "HEALTH", "BUS"];
    format!(
        "cluster {cluster} from {from}: state {state}, {slots_ok} slots ok (asked {asked}{disagree})\n{}{}",
        plain_table(header, lines),
        elsewhere.collect::<String>()
    )
}
