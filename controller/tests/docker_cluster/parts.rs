//! Cuts of a part of a link, on layout C: of the clients' ports, of the bus, of one direction. Each has an outcome of its own.

use super::*;
use testbed::lab::{Only, ServerState};
use testbed::replication::{Survival, SyncCounters};
use wire::Reply;

/// As the topology says.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// Replicas, each with its master; all of them stand on the other side of the link.
const PAIRS: [(&str, &str); 3] = [("node-4", "node-1"), ("node-5", "node-2"), ("node-6", "node-3")];

fn state<'s>(nodes: &'s [NodeSeen], name: &str) -> &'s ServerState {
    let seen = nodes.iter().find(|seen| seen.node == node(name)).unwrap();
    seen.state.as_ref().unwrap()
}

fn roles(nodes: &[NodeSeen]) -> Vec<String> {
    let role = |seen: &NodeSeen| {
        state(nodes, seen.node.as_str())
            .replication
            .as_ref()
            .unwrap()
            .role
            .clone()
    };
    nodes.iter().map(role).collect()
}

/// Whether a replica's connection to its master stands.
fn follows(nodes: &[NodeSeen], name: &str) -> bool {
    let replication = state(nodes, name).replication.as_ref().unwrap();
    replication.role == "slave" && replication.link_up
}

fn counters(nodes: &[NodeSeen], name: &str) -> SyncCounters {
    state(nodes, name).counters.unwrap()
}

fn dropped(links: &[LinkSeen]) -> Vec<(u64, u64)> {
    let of = |link: &LinkSeen| (link.status.counters.dropped_cut, link.status.counters.dropped_ports);
    links.iter().map(of).collect()
}

/// What a client in a datacenter gets from a node.
async fn ping(lab: &Lab, from: &str, name: &str) -> Option<Reply> {
    let answer = lab.probe(&dc(from)).redis(lab.target(&node(name)), &["PING"], LIMIT);
    answer.await.ok()
}

fn pong() -> Option<Reply> {
    Some(Reply::Text("PONG".to_owned()))
}

/// Whether a node misses all of these.
fn misses(lab: &Lab, view: &ClusterView, names: [&str; 3]) -> bool {
    names.iter().all(|name| {
        let address = lab.node(&node(name)).address;
        let line = view.members.iter().find(|line| line.address == Some(address));
        line.is_some_and(|line| line.health != Health::Fine)
    })
}

/// The half with the votes has promoted node-6, and the other one has ended.
fn parted(lab: &Lab, nodes: &[NodeSeen]) -> bool {
    let (Some(near), Some(far)) = (view(nodes, "node-1"), view(nodes, "node-3")) else {
        return false;
    };
    let all = Slots::parse("10923-16383").unwrap();
    near.state.ok && slots(lab, near, "node-6") == all && !far.state.ok
}

/// All agree that `master` has the slots of dc2, and every replica follows.
async fn healed(lab: &Lab, master: &str) -> Vec<NodeSeen> {
    let all = Slots::parse("10923-16383").unwrap();
    until(lab, "all agree after the heal", |nodes| {
        let agree = |seen: &NodeSeen| {
            let view = view(nodes, seen.node.as_str());
            view.is_some_and(|view| slots(lab, view, master) == all)
        };
        let replicas = ["node-4", "node-5", if master == "node-3" { "node-6" } else { "node-3" }];
        all_ok(nodes) && nodes.iter().all(agree) && replicas.iter().all(|name| follows(nodes, name))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn clients_only_the_bus_only_and_one_direction_only_are_three_different_cuts() {
    let lab = raise("c").await;
    // A connection that is silent for so long is given up: TCP alone would bridge the cut.
    for name in lab.plan.nodes.iter().map(|planned| &planned.name) {
        for command in [["repl-timeout", "3"], ["repl-ping-replica-period", "1"]] {
            let command = [&["CONFIG", "SET"][..], &command].concat();
            let probe = lab.probe(&lab.node(name).datacenter);
            let reply = probe.redis(lab.target(name), &command, LIMIT).await.unwrap();
            assert_eq!(reply, Reply::Text("OK".to_owned()), "{command:?}");
        }
    }
    clients_only(&lab).await;
    bus_only(&lab).await;
    let command = ["CLUSTER", "FAILOVER"];
    let reply = lab
        .probe(&dc("dc2"))
        .redis(lab.target(&node("node-3")), &command, LIMIT)
        .await;
    assert_eq!(reply.unwrap(), Reply::Text("OK".to_owned()));
    healed(&lab, "node-3").await;
    one_direction(&lab).await;
    lower(lab).await;
}

/// The cluster notices nothing; its replication across the link, and clients, are parted.
async fn clients_only(lab: &Lab) {
    let (dc1, dc2) = (dc("dc1"), dc("dc2"));
    let before = lab.look().await;
    assert_eq!(ping(lab, "dc1", "node-4").await, pong());
    let [there, _] = lab.cut_ports_both(&dc1, &dc2, &Only::Clients).await.unwrap();
    assert_eq!((there.only.as_ref(), there.status.cut), (Some(&Only::Clients), None));
    let since = Instant::now();
    assert_eq!(ping(lab, "dc1", "node-4").await, None);
    assert_eq!(ping(lab, "dc2", "node-4").await, pong(), "at home it is served");
    until(lab, "no connection of a replica stands", |nodes| {
        assert!(all_ok(nodes), "the bus is whole: {nodes:#?}");
        assert_eq!(roles(nodes), roles(&before));
        let lost = PAIRS.iter().all(|(replica, _)| !follows(nodes, replica));
        lost && since.elapsed() > 3 * NODE_TIMEOUT
    })
    .await;
    let links = lab.links().await.unwrap();
    assert!(
        dropped(&links).iter().all(|(cut, ports)| *cut == 0 && *ports > 0),
        "{links:?}"
    );
    lab.heal_both(&dc1, &dc2).await.unwrap();
    let nodes = healed(lab, "node-3").await;
    let links = lab.links().await.unwrap();
    for (replica, master) in PAIRS {
        let (was, is) = (counters(&before, master), counters(&nodes, master));
        assert_eq!(
            (is.full, is.partial_ok > was.partial_ok),
            (was.full, true),
            "{master}: {is:?}"
        );
        let seen = lab.replica_seen(&node(replica), &nodes, &links, Some(was)).unwrap();
        assert_eq!(seen.survival, Survival::Partial, "{seen:?}");
    }
    assert_eq!(ping(lab, "dc1", "node-4").await, pong());
}

/// The halves part; replication and clients go on, but for what the promotion itself ends.
async fn bus_only(lab: &Lab) {
    let (dc1, dc2) = (dc("dc1"), dc("dc2"));
    let (before, links) = (lab.look().await, lab.links().await.unwrap());
    let cut = lab.cut_ports_both(&dc1, &dc2, &Only::Bus).await.unwrap();
    assert!(cut.iter().all(|link| link.only == Some(Only::Bus)));
    let nodes = until(lab, "node-6 is promoted and dc2 has ended", |nodes| {
        for (replica, _) in PAIRS {
            let promoted = replica == "node-6" && roles(nodes)[5] == "master";
            assert!(promoted || follows(nodes, replica), "{replica}: {nodes:#?}");
        }
        parted(lab, nodes)
    })
    .await;
    for (replica, master) in &PAIRS[..2] {
        assert!(follows(&nodes, replica));
        assert_eq!(
            counters(&nodes, master),
            counters(&before, master),
            "no resynchronisation"
        );
    }
    assert_eq!(
        ping(lab, "dc1", "node-4").await,
        pong(),
        "a client reaches the other half"
    );
    let (was, is) = (dropped(&links), dropped(&lab.links().await.unwrap()));
    for (was, is) in was.iter().zip(&is) {
        assert!(is.0 == was.0 && is.1 > was.1, "{was:?} {is:?}");
    }
    lab.heal_both(&dc1, &dc2).await.unwrap();
    healed(lab, "node-6").await;
}

/// TCP needs both directions: each half misses the other one, though the packets of one go on arriving.
async fn one_direction(lab: &Lab) {
    let (dc1, dc2) = (dc("dc1"), dc("dc2"));
    let there = lab.cut(&dc1, &dc2, CutKind::Drop).await.unwrap();
    let before = [there, lab.link(&dc2, &dc1).await.unwrap()];
    until(lab, "both halves miss each other", |nodes| {
        let (Some(near), Some(far)) = (view(nodes, "node-1"), view(nodes, "node-3")) else {
            return false;
        };
        let near = misses(lab, near, ["node-3", "node-4", "node-5"]);
        near && misses(lab, far, ["node-1", "node-2", "node-6"]) && parted(lab, nodes)
    })
    .await;
    let after = lab.links().await.unwrap();
    let [there, back] = [0, 1].map(|at| {
        let counters = |links: &[LinkSeen]| links[at].status.counters;
        let (was, is) = (counters(&before), counters(&after));
        (
            is.dropped_cut - was.dropped_cut,
            is.forwarded_packets - was.forwarded_packets,
        )
    });
    assert!(there.0 > 0 && there.1 == 0, "{there:?}");
    assert!(back.0 == 0 && back.1 > 0, "{back:?}");
    lab.heal(&dc1, &dc2).await.unwrap();
    healed(lab, "node-6").await;
}
