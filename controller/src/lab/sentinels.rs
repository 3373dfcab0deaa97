//! Sentinels of a lab: ready when each of them knows its primary, all replicas and all other Sentinels, sees them up, and could
//! get a failover decided.

use super::LabError;
use super::ready::{Asker, Bounds, NotYet, until};
use crate::plan::PlannedNode;
use crate::sentinel::{Watched, lacks};
use crate::topology::Role;

impl Asker<'_> {
    /// Waits until a Sentinel knows everybody; other nodes are ready as they are.
    pub(super) async fn watching(&self, sentinel: &PlannedNode, bounds: &Bounds) -> Result<(), LabError> {
        let Role::SentinelOf(primary) = &sentinel.role else {
            return Ok(());
        };
        let nodes = || self.plan.nodes.iter();
        let watched = nodes().find(|node| node.name == *primary);
        let replica = |node: &&PlannedNode| matches!(&node.role, Role::ReplicaOf(of) if of == primary);
        let others = self
            .plan
            .sentinels_of(primary)
            .filter(|other| other.name != sentinel.name);
        let wanted = Watched {
            primary: watched.expect("a checked Sentinel watches a node of the plan").address,
            replicas: nodes().filter(replica).map(|node| node.address).collect(),
            others: others.map(|other| other.address).collect(),
        };
        let (wanted, name) = (&wanted, primary.as_str());
        let what = format!(
            "node {} (it knows {name}, its replicas and the other Sentinels)",
            sentinel.name
        );
        until(&what, bounds, |_| async move {
            let commands = ["MASTER", "REPLICAS", "SENTINELS", "CKQUORUM"].map(|word| ["SENTINEL", word, name]);
            let commands = commands.each_ref().map(|command| command.as_slice());
            let replies = self.ask(sentinel, &commands).await?;
            let [master, replicas, sentinels, quorum] = &replies[..] else {
                unreachable!("one reply per command was checked");
            };
            match lacks(wanted, [master, replicas, sentinels, quorum]) {
                None => Ok(()),
                Some(lack) => Err(NotYet::Seen(lack)),
            }
        })
        .await
    }
}
