//! What a lab's servers are right now: each asked once by the probe of its own datacenter, so that a cut link hides
//! nothing. A server that does not answer is a row with the reason, never an error of the whole.

use super::{Lab, LabError, LinkSeen, target};
use crate::cluster::{ClusterState, MemberLine, Unreadable, members};
use crate::names::NodeName;
use crate::plan::PlannedNode;
use crate::release::{Reported, reported};
use crate::replication::{
    LastCut, Replication, Survival, SyncCounters, connection_age_s, field, last_cut, survival, text_of,
};
use crate::topology::EngineKind;
use std::time::Duration;

/// Limit of one question: people wait for the answer.
const QUESTION: Duration = Duration::from_secs(2);

/// A node, asked.
#[derive(Debug, Clone)]
pub struct NodeSeen {
    /// The node.
    pub node: NodeName,
    /// What it said, or why it did not.
    pub state: Result<ServerState, String>,
}

/// What a server said of itself.
#[derive(Debug, Clone)]
pub struct ServerState {
    /// Server and version.
    pub reported: Reported,
    /// Its replication (`None`: a database).
    pub replication: Option<Replication>,
    /// Its counters of synchronisations.
    pub counters: Option<SyncCounters>,
    /// Commands that it has done since its start, those of its replication and ours included.
    pub commands: Option<u64>,
    /// Commands of which this question consisted.
    pub asked: u64,
    /// `CLIENT LIST TYPE replica`.
    pub replicas: String,
    /// Its cluster as it sees it (`None`: it is in none); else what it says instead.
    pub cluster: Option<Result<ClusterView, String>>,
}

/// A cluster as one of its nodes sees it.
#[derive(Debug, Clone)]
pub struct ClusterView {
    /// State, slots and epochs.
    pub state: ClusterState,
    /// Its nodes, in the order in which it tells them.
    pub members: Vec<MemberLine>,
}

/// The replication connection of a replica.
#[derive(Debug, Clone)]
pub struct ReplicaSeen {
    /// What it replicates from, by name if it is in the plan.
    pub upstream: String,
    /// `up`, `synchronising` or `not connected`.
    pub link: &'static str,
    /// Bytes of the stream that it has not applied; both ends are asked at about the same time.
    pub lag_bytes: Option<u64>,
    /// Seconds since it last heard from its upstream.
    pub last_heard_s: Option<i64>,
    /// What became of the connection at the last cut on its way.
    pub survival: Survival,
    /// The upstream's counters of synchronisations.
    pub counters: Option<SyncCounters>,
}

impl Lab {
    /// Asks every server once, all at the same time.
    pub async fn look(&self) -> Vec<NodeSeen> {
        let asked = self.plan.nodes.iter().map(|node| async {
            NodeSeen {
                node: node.name.clone(),
                state: self.look_at(node).await,
            }
        });
        futures_util::future::join_all(asked).await
    }

    /// The replication connection of a node that is a replica now, from what was seen of all nodes and links.
    /// `before` are the counters of its upstream before the cut, if they were read.
    #[must_use]
    pub fn replica_seen(
        &self,
        name: &NodeName,
        nodes: &[NodeSeen],
        links: &[LinkSeen],
        before: Option<SyncCounters>,
    ) -> Option<ReplicaSeen> {
        let node = self.node(name);
        let own = replication_of(name, nodes)?;
        let address = own.upstream?;
        let Some(upstream) = self.plan.nodes.iter().find(|node| node.address == address) else {
            return Some(outside(own, address.to_string()));
        };
        let state = state_of(&upstream.name, nodes);
        let theirs = state.and_then(|state| state.replication.as_ref());
        let counters = state.and_then(|state| state.counters);
        let line = theirs.and_then(|theirs| theirs.replica(node.address));
        let age = state.and_then(|state| connection_age_s(&state.replicas, node.address));
        let first = u64::try_from(self.replicas_of(&upstream.name).count()).unwrap_or(u64::MAX);
        let known = counters.unwrap_or_default();
        Some(ReplicaSeen {
            lag_bytes: theirs
                .and_then(|theirs| theirs.offset_bytes)
                .zip(own.offset_bytes)
                .map(|(written, applied)| written.saturating_sub(applied)),
            survival: survival(cut_between(upstream, node, links), line, age, known, before, first),
            counters,
            ..outside(own, upstream.name.to_string())
        })
    }

    async fn look_at(&self, node: &PlannedNode) -> Result<ServerState, String> {
        let probe = self.probe(&node.datacenter);
        let failed = |error: crate::channel::ChannelError| match error {
            crate::channel::ChannelError::Refused { cause, .. } => cause,
            other => LabError::from(other).to_string(),
        };
        if node.engine == EngineKind::Postgres {
            let asked = probe.postgres(target(node), "SHOW server_version", QUESTION).await;
            let version = asked.map_err(failed)?;
            let reported = reported(node.engine, &version).ok_or(version)?;
            return Ok(ServerState {
                reported,
                replication: None,
                counters: None,
                commands: None,
                asked: 0,
                replicas: String::new(),
                cluster: None,
            });
        }
        let mut commands = vec![
            "INFO server",
            "INFO replication",
            "INFO stats",
            "CLIENT LIST TYPE replica",
        ];
        if node.cluster.is_some() {
            commands.extend(["CLUSTER INFO", "CLUSTER NODES"]);
        }
        let asked_commands = commands.len() as u64;
        let commands = commands.iter();
        let commands = commands.map(|command| command.split(' ').map(str::to_owned).collect());
        let asked = probe.redis_all(target(node), commands.collect(), QUESTION).await;
        let texts: Vec<String> = asked.map_err(failed)?.iter().map(text_of).collect();
        Ok(ServerState {
            reported: reported(node.engine, &texts[0]).ok_or_else(|| texts[0].clone())?,
            replication: Some(Replication::parse(&texts[1])),
            counters: SyncCounters::parse(&texts[2]),
            commands: field(&texts[2], "total_commands_processed").and_then(|count| count.parse().ok()),
            asked: asked_commands,
            replicas: texts[3].clone(),
            cluster: texts.get(4).zip(texts.get(5)).map(|(info, nodes)| view(info, nodes)),
        })
    }
}

fn view(info: &str, nodes: &str) -> Result<ClusterView, String> {
    let view = || {
        Ok(ClusterView {
            state: ClusterState::parse(info)?,
            members: members(nodes)?,
        })
    };
    view().map_err(|error: Unreadable| format!("failed to {error}"))
}

fn outside(own: &Replication, upstream: String) -> ReplicaSeen {
    ReplicaSeen {
        upstream,
        link: own.sync_state(),
        lag_bytes: None,
        last_heard_s: own.last_heard_s,
        survival: Survival::Unclear,
        counters: None,
    }
}

fn state_of<'s>(name: &NodeName, nodes: &'s [NodeSeen]) -> Option<&'s ServerState> {
    nodes.iter().find(|seen| seen.node == *name)?.state.as_ref().ok()
}

fn replication_of<'s>(name: &NodeName, nodes: &'s [NodeSeen]) -> Option<&'s Replication> {
    state_of(name, nodes)?
        .replication
        .as_ref()
        .filter(|replication| replication.role == "slave")
}

/// The last cut between a replica and its upstream, the first of the two: it is the one that is dialled.
fn cut_between(one: &PlannedNode, other: &PlannedNode, links: &[LinkSeen]) -> Option<LastCut> {
    let (port, one, other) = (one.port(), &one.datacenter, &other.datacenter);
    let directions: Vec<_> = links
        .iter()
        .filter(|link| (link.from == *one && link.to == *other) || (link.from == *other && link.to == *one))
        .map(|link| (link.now_ns, &link.status))
        .collect();
    last_cut(&directions, port)
}
