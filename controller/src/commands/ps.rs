//! `ps`: the nodes of a lab as they are now, and its links. Each server is asked by the probe of its own datacenter.

mod clusters;

pub use clusters::{ClusterRow, MemberRow};

use super::engines;
use super::link::{LinkRow, link_table};
use super::screen::{self, plain_table};
use crate::cli::{Format, Global, Ps};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, ClusterView, Found, Lab, LinkSeen, NodeSeen, ReplicaSeen};
use crate::plan::{PlannedApplication, PlannedNode};
use crate::replication::{Survival, SyncCounters};
use crate::topology::Role;
use schemars::JsonSchema;
use serde::Serialize;

/// What `ps --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PsDocument {
    /// The lab.
    pub lab: String,
    /// Its nodes, in the order of the topology, then its applications.
    pub nodes: Vec<NodeRow>,
    /// Its clusters, each as every datacenter that it stands in sees it.
    pub clusters: Vec<ClusterRow>,
    /// Its directed links.
    pub links: Vec<LinkRow>,
}

/// A node.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeRow {
    /// Name.
    pub node: String,
    /// Where it stands.
    pub datacenter: String,
    /// `primary`, `replica`, `sentinel` or `database`, as the server says now (`null`: it says nothing); or `application`.
    pub role: Option<&'static str>,
    /// Address and port.
    pub address: String,
    /// `ready`, or why not; `running` for an application, which is not asked.
    pub health: String,
    /// Server and version as it reports them; of an application its image.
    pub version: Option<String>,
    /// Hash slots that it serves, by its own word (`null`: none).
    pub slots: Option<String>,
    /// Replication of a replica.
    pub replication: Option<ReplicationRow>,
}

/// Replication of a replica.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplicationRow {
    /// What it replicates from.
    pub upstream: String,
    /// `up`, `synchronising` or `not connected`.
    pub link: &'static str,
    /// Bytes of the stream that it has not applied.
    pub lag_bytes: Option<u64>,
    /// Seconds since it last heard from its upstream.
    pub last_heard_s: Option<i64>,
    /// What became of the connection at the last cut on its way: `never_cut`, `still_cut`, `silent`, `resumed`,
    /// `partial`, `full`, `made_anew`, `absent` or `unclear`.
    #[schemars(with = "String")]
    pub connection: Survival,
    /// Full synchronisations that the upstream has done, with all of its replicas.
    pub upstream_sync_full: Option<u64>,
    /// Partial resynchronisations that the upstream has done.
    pub upstream_sync_partial_ok: Option<u64>,
}

pub(super) async fn run(global: &Global, ps: Ps) -> Result<ExitCode, CommandError> {
    let engines = engines(global).await?;
    let found = lab::choose(&engines, ps.lab.lab.as_ref()).await?;
    let lab = match lab::attach(&engines, &found).await {
        Ok(lab) => lab,
        Err(error) => {
            // Half a lab is an error, but what is there of it is what the user wants to see.
            show(global, &unasked(&found)?)?;
            return Err(error.into());
        }
    };
    let (nodes, links) = tokio::join!(lab.look(), lab.links());
    let links = links?;
    let shown = PsDocument {
        lab: lab.name().to_string(),
        nodes: rows(&lab, &found, &nodes, &links),
        clusters: clusters::rows(&lab.plan, &nodes),
        links: links.iter().map(LinkRow::from).collect(),
    };
    show(global, &shown)?;
    Ok(ExitCode::Success)
}

fn show(global: &Global, shown: &PsDocument) -> Result<(), CommandError> {
    screen::print(&match global.format {
        Format::Json => document("ps", shown),
        Format::Text => {
            let clusters = shown.clusters.iter().map(clusters::table);
            let links = (!shown.links.is_empty()).then(|| link_table(&shown.links));
            let tables: Vec<String> = std::iter::once(table(&shown.nodes))
                .chain(clusters)
                .chain(links)
                .collect();
            tables.join("\n")
        }
    })
}

/// The nodes as the engine alone knows them.
pub(super) fn unasked(found: &Found) -> Result<PsDocument, CommandError> {
    let plan = found.plan()?;
    let row = |planned: &PlannedNode| NodeRow {
        node: planned.name.to_string(),
        datacenter: planned.datacenter.to_string(),
        role: None,
        address: lab::target(planned).to_string(),
        health: match found.state(&planned.container) {
            None => "absent".to_owned(),
            Some("running") => "running, not asked".to_owned(),
            Some(other) => other.to_owned(),
        },
        version: None,
        slots: None,
        replication: None,
    };
    Ok(PsDocument {
        lab: found.lab.clone(),
        nodes: (plan.nodes.iter().map(row))
            .chain(plan.applications.iter().map(|planned| application(found, planned)))
            .collect(),
        clusters: Vec::new(),
        links: Vec::new(),
    })
}

pub(super) fn rows(lab: &Lab, found: &Found, nodes: &[NodeSeen], links: &[LinkSeen]) -> Vec<NodeRow> {
    let planned = lab.plan.nodes.iter();
    planned
        .zip(nodes)
        .map(|(planned, seen)| {
            row(
                found,
                planned,
                seen,
                lab.replica_seen(&planned.name, nodes, links, None),
            )
        })
        .chain(lab.plan.applications.iter().map(|planned| application(found, planned)))
        .collect()
}

fn row(found: &Found, planned: &PlannedNode, seen: &NodeSeen, replica: Option<ReplicaSeen>) -> NodeRow {
    let state = seen.state.as_ref();
    let role = state.ok().map(|state| match &state.replication {
        _ if matches!(planned.role, Role::SentinelOf(_)) => "sentinel",
        None => "database",
        Some(replication) if replication.role == "slave" => "replica",
        Some(_) => "primary",
    });
    let health = match (found.state(&planned.container), state) {
        (None, _) => "absent".to_owned(),
        (Some("running"), Ok(_)) => match &replica {
            Some(replica) if replica.link != "up" => format!("replication {}", replica.link),
            _ => "ready".to_owned(),
        },
        (Some("running"), Err(cause)) => format!("no answer: {cause}"),
        (Some(other), _) => other.to_owned(),
    };
    NodeRow {
        node: planned.name.to_string(),
        datacenter: planned.datacenter.to_string(),
        role,
        address: lab::target(planned).to_string(),
        health,
        version: state
            .ok()
            .map(|state| format!("{} {}", state.reported.engine.as_str(), state.reported.version)),
        slots: state
            .ok()
            .and_then(|state| own_slots(state.cluster.as_ref()?.as_ref().ok()?)),
        replication: replica.map(ReplicationRow::from),
    }
}

/// Nothing is asked of an application: whether it runs is what the engine knows.
fn application(found: &Found, planned: &PlannedApplication) -> NodeRow {
    NodeRow {
        node: planned.name.to_string(),
        datacenter: planned.datacenter.to_string(),
        role: Some("application"),
        address: place(planned),
        health: found.state(&planned.container).unwrap_or("absent").to_owned(),
        version: Some(planned.image.clone()),
        slots: None,
        replication: None,
    }
}

/// Address of an application, with its port if one is known.
pub(super) fn place(planned: &PlannedApplication) -> String {
    match planned.ready {
        Some(port) => format!("{}:{port}", planned.address),
        None => planned.address.to_string(),
    }
}

fn own_slots(view: &ClusterView) -> Option<String> {
    let own = view.members.iter().find(|member| member.myself)?;
    (!own.slots.is_empty()).then(|| own.slots.to_string())
}

impl From<ReplicaSeen> for ReplicationRow {
    fn from(seen: ReplicaSeen) -> Self {
        let count = |of: fn(&SyncCounters) -> u64| seen.counters.as_ref().map(of);
        Self {
            link: seen.link,
            lag_bytes: seen.lag_bytes,
            last_heard_s: seen.last_heard_s,
            connection: seen.survival,
            upstream_sync_full: count(|counters| counters.full),
            upstream_sync_partial_ok: count(|counters| counters.partial_ok),
            upstream: seen.upstream,
        }
    }
}

fn table(nodes: &[NodeRow]) -> String {
    let header = [
        "NODE",
        "DATACENTER",
        "ROLE",
        "ADDRESS",
        "HEALTH",
        "VERSION",
        "UPSTREAM",
        "LAG",
        "CONNECTION",
    ];
    let rows = nodes.iter().map(|node| {
        let (upstream, lag, connection) = match &node.replication {
            None => ("-".to_owned(), "-".to_owned(), "-"),
            Some(replication) => (
                replication.upstream.clone(),
                replication
                    .lag_bytes
                    .map_or("?".to_owned(), |bytes| format!("{bytes} B")),
                replication.connection.as_str(),
            ),
        };
        [
            node.node.clone(),
            node.datacenter.clone(),
            node.role.unwrap_or("?").to_owned(),
            node.address.clone(),
            node.health.clone(),
            node.version.clone().unwrap_or_else(|| "?".to_owned()),
            upstream,
            lag,
            connection.to_owned(),
        ]
    });
    plain_table(header, rows)
}
