//! A cluster while a block runs: what its nodes see, waiting until they agree, and putting every node back in its place. Each is
//! asked by the probe of its own datacenter, so a cut link never stands in between.

use super::{REPLY, Scene};
use crate::block::{BlockError, ClusterCast, Member, Part};
use crate::cluster::{ClusterState, Health, MemberLine, members, misplaced};
use crate::names::{DatacenterName, NodeName};
use crate::replication::{Replication, text_of};
use futures_util::future::try_join_all;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use wire::Reply;

/// Between two looks at a cluster.
const LOOK: Duration = Duration::from_millis(100);
/// Limit of a cluster to agree: after a heal TCP's own backoff can take as long as the cut did.
pub const AGREED: Duration = Duration::from_secs(60);
/// After so long a manual failover was given up by the server (5 s), and is ordered again.
const FAILOVER: Duration = Duration::from_secs(6);

/// What a node sees.
#[derive(Debug, Clone)]
pub struct View {
    /// CLUSTER INFO.
    pub cluster: ClusterState,
    /// CLUSTER NODES.
    pub members: Vec<MemberLine>,
    /// INFO replication.
    pub replication: Replication,
}

impl Scene<'_> {
    /// Nodes of the block's cluster, in the order of the topology.
    pub fn members(&self) -> Vec<Member> {
        self.cluster().members.clone()
    }

    fn cluster(&self) -> &ClusterCast {
        self.cast
            .cluster
            .as_ref()
            .expect("the cast of this block has a cluster")
    }

    /// Makes a fresh cluster of the nodes of the block's own. Nothing that was in it is left.
    pub async fn form_again(&self) -> Result<(), BlockError> {
        Ok(self.lab.form_again(&self.cluster().name, AGREED).await?)
    }

    /// Lets all nodes of a half stand still.
    pub async fn pause_half(&mut self, half: &DatacenterName) -> Result<(), BlockError> {
        let nodes = self.half(half);
        self.lab.pause(half, &nodes).await?;
        self.fault(format!("pause {}", named(&nodes)))
    }

    /// Lets those nodes of a half go on that stand still.
    pub async fn resume_half(&mut self, half: &DatacenterName) -> Result<(), BlockError> {
        let resumed = self.lab.resume(half, &self.half(half)).await?;
        if resumed.is_empty() {
            return Ok(());
        }
        self.fault(format!("resume {}", named(&resumed)))
    }

    fn half(&self, datacenter: &DatacenterName) -> Vec<NodeName> {
        let half = self.cluster().half(datacenter);
        half.map(|member| member.part.node.clone()).collect()
    }

    /// Several commands to one node, on one connection; an error reply is an error.
    pub async fn commands(&self, server: &Part, commands: &[&[&str]]) -> Result<Vec<Reply>, BlockError> {
        let words = commands
            .iter()
            .map(|command| command.iter().map(|&word| word.to_owned()).collect());
        let replies = self.replies(server, words.collect()).await?;
        match replies
            .iter()
            .zip(commands)
            .find(|(reply, _)| matches!(reply, Reply::Error(_)))
        {
            None => Ok(replies),
            Some((reply, command)) => Err(BlockError::Refused {
                server: server.shown(),
                command: command.join(" "),
                reply: text_of(reply),
            }),
        }
    }

    /// Several commands to one node, on one connection, with whatever it replies.
    pub async fn replies(&self, server: &Part, commands: Vec<Vec<String>>) -> Result<Vec<Reply>, BlockError> {
        let probe = self.lab.probe(&server.datacenter);
        Ok(probe.redis_all(server.target, commands, REPLY).await?)
    }

    /// What a node sees.
    pub async fn view(&self, server: &Part) -> Result<View, BlockError> {
        let asked: [&[&str]; 3] = [&["CLUSTER", "INFO"], &["CLUSTER", "NODES"], &["INFO", "replication"]];
        let texts: Vec<String> = self.commands(server, &asked).await?.iter().map(text_of).collect();
        let unreadable = |error: crate::cluster::Unreadable| BlockError::Refused {
            server: server.shown(),
            command: "CLUSTER INFO, CLUSTER NODES".to_owned(),
            reply: format!("failed to {error}"),
        };
        Ok(View {
            cluster: ClusterState::parse(&texts[0]).map_err(unreadable)?,
            members: members(&texts[1]).map_err(unreadable)?,
            replication: Replication::parse(&texts[2]),
        })
    }

    /// What all of these see.
    pub async fn views(&self, members: &[Member]) -> Result<Vec<View>, BlockError> {
        try_join_all(members.iter().map(|member| self.view(&member.part))).await
    }

    /// Waits until all nodes are ok and see the same, without a doubt about any.
    pub async fn agreed(&self, members: &[Member]) -> Result<(), BlockError> {
        let agreed = |views: &[View]| disagreement(members, views);
        self.until_views(members, "all nodes agree", agreed).await
    }

    /// Waits until every node sits in its place, in the eyes of all, and every replica is in sync with its master.
    pub async fn seated(&self, members: &[Member]) -> Result<(), BlockError> {
        let seats = self.lab.plan.seats(&self.cluster().name);
        let unseated = |views: &[View]| {
            disagreement(members, views)
                .or_else(|| views.iter().find_map(|view| misplaced(&view.members, &seats)))
                .or_else(|| unsynchronised(members, views))
        };
        self.until_views(members, "every node in its place", unseated).await
    }

    /// Puts every node back in its place: masters by a manual failover, replicas by CLUSTER REPLICATE.
    pub async fn seat(&self, members: &[Member]) -> Result<(), BlockError> {
        self.agreed(members).await?;
        for master in members.iter().filter(|member| member.is_master()) {
            self.take_over(master).await?;
        }
        self.agreed(members).await?;
        for replica in members {
            let Some(wanted) = &replica.master else { continue };
            let view = self.view(&replica.part).await?;
            let master = members.iter().find(|member| member.part.node == *wanted);
            let address = master.map(|master| *master.part.target.ip());
            let Some(master) = view.members.iter().find(|line| line.address == address) else {
                continue;
            };
            if view.replication.upstream != master.address {
                self.command(&replica.part, &["CLUSTER", "REPLICATE", &master.id])
                    .await?;
            }
        }
        self.seated(members).await
    }

    /// Makes a node a master again if another has replaced it.
    async fn take_over(&self, member: &Member) -> Result<(), BlockError> {
        let began = Instant::now();
        let mut ordered: Option<Instant> = None;
        loop {
            let seen = self.view(&member.part).await?.replication;
            if seen.role == "master" {
                return Ok(());
            }
            if seen.link_up && ordered.is_none_or(|at| at.elapsed() > FAILOVER) {
                // Refused, it is ordered again.
                self.replies(&member.part, vec![vec!["CLUSTER".to_owned(), "FAILOVER".to_owned()]])
                    .await?;
                ordered = Some(Instant::now());
            }
            if began.elapsed() > AGREED {
                return Err(BlockError::NotSeen {
                    wanted: format!("{} a master again", member.part.shown()),
                    limit: AGREED,
                    seen: format!("role {}, {}", seen.role, seen.sync_state()),
                });
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Looks until nothing is missing.
    async fn until_views(
        &self,
        members: &[Member],
        wanted: &str,
        missing: impl Fn(&[View]) -> Option<String>,
    ) -> Result<(), BlockError> {
        let began = Instant::now();
        loop {
            let views = self.views(members).await?;
            let Some(seen) = missing(&views) else { return Ok(()) };
            if began.elapsed() > AGREED {
                return Err(BlockError::NotSeen {
                    wanted: wanted.to_owned(),
                    limit: AGREED,
                    seen,
                });
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn named(nodes: &[NodeName]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What a node sees of the placement, without what passes.
fn placement(view: &View) -> Vec<(Option<Ipv4Addr>, bool, Option<&str>, String)> {
    let lines = view.members.iter();
    let mut placement: Vec<_> = lines
        .map(|line| {
            (
                line.address,
                line.master,
                line.master_id.as_deref(),
                line.slots.to_string(),
            )
        })
        .collect();
    placement.sort();
    placement
}

/// Why these views are not those of a cluster that agrees, if so.
fn disagreement(members: &[Member], views: &[View]) -> Option<String> {
    let named = members.iter().zip(views);
    for (member, view) in named {
        let node = &member.part.node;
        if !view.cluster.ok {
            return Some(format!("cluster_state of {node} is fail"));
        }
        if let Some(line) = view
            .members
            .iter()
            .find(|line| line.health != Health::Fine || !line.connected)
        {
            return Some(format!("{node} sees {:?} as {}", line.address, line.health.as_str()));
        }
        if placement(view) != placement(&views[0]) {
            return Some(format!("{node} and {} see different placements", members[0].part.node));
        }
    }
    None
}

/// A replica whose link to its master is not up.
fn unsynchronised(members: &[Member], views: &[View]) -> Option<String> {
    let replicas = members.iter().zip(views).filter(|(member, _)| !member.is_master());
    let mut down = replicas.filter(|(_, view)| !view.replication.link_up);
    down.next()
        .map(|(member, view)| format!("{}: {}", member.part.node, view.replication.sync_state()))
}
