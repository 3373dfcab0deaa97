//! Clusters on real labs: placed exactly as their files say, a node that was stopped finds its cluster again, the bus crosses
//! the relays, in stream mode too, a cut of the link is a cut of the cluster and a heal leaves nobody failed, and a replica that
//! has migrated is named. Nothing is left behind.
//!
//! `cargo test -p testbed --test docker_cluster -- --ignored --test-threads 1`; `TESTBED_RELEASE` chooses the server. Waits
//! are for conditions, each with a limit far above what an idle machine needs.

#![allow(clippy::unwrap_used)]

#[path = "docker_cluster/parts.rs"]
mod parts;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use testbed::cli::{Color, Format, ReleaseArg};
use testbed::cluster::{Health, MemberLine, Slots, elsewhere, misplaced};
use testbed::commands::prepare::{self, Ground};
use testbed::commands::source;
use testbed::docker::{Docker, Engine};
use testbed::lab::{self, ClusterView, Lab, LinkSeen, NodeSeen};
use testbed::names::{ClusterName, DatacenterName, LabName, NodeName};
use testbed::progress::Progress;
use testbed::stop::Stop;
use wire::CutKind;

const READY: Duration = Duration::from_secs(60);
/// A promotion takes the node timeout of 2 s, half of it again, and a second of election; a busy machine more.
const SETTLES: Duration = Duration::from_secs(40);
const LIMIT: Duration = Duration::from_secs(2);

fn dc(name: &str) -> DatacenterName {
    DatacenterName::new(name).unwrap()
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

async fn raise(layout: &str) -> Lab {
    raise_topology(&format!("cluster-{layout}")).await
}

async fn raise_topology(topology: &str) -> Lab {
    let file = format!("../topologies/{topology}.yaml");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    raise_file(topology, &file).await
}

/// Layout C with something changed.
async fn raise_changed(name: &str, change: impl FnOnce(&str) -> String) -> Lab {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("changed.yaml");
    std::fs::write(&file, change(include_str!("../../topologies/cluster-c.yaml"))).unwrap();
    raise_file(name, &file).await
}

async fn raise_file(name: &str, file: &Path) -> Lab {
    let source = source::read(file, Format::Text, Color::Never).unwrap();
    let release = std::env::var("TESTBED_RELEASE").into_iter().collect();
    let releases = prepare::releases(&source.topology, &ReleaseArg { release }).unwrap();
    let docker = Docker::connect(None).await.unwrap();
    let ground = Ground::prepare(docker, source, releases, &Progress::silent())
        .await
        .unwrap();
    // Several tests raise the same topology, at the same time.
    static RAISED: AtomicU32 = AtomicU32::new(0);
    let number = RAISED.fetch_add(1, Ordering::Relaxed);
    let name = LabName::new(&format!("test-{name}-{}-{number}", std::process::id())).unwrap();
    let raised = ground
        .raise(&name, None, &Progress::silent(), &Stop::never(), READY)
        .await;
    raised.unwrap_or_else(|error| panic!("{error:?}"))
}

/// Removes a lab; nothing carries its labels afterwards.
async fn lower(lab: Lab) {
    let name = lab.name().clone();
    lab.lower().await.unwrap();
    let docker = Docker::connect(None).await.unwrap();
    assert_eq!(docker.list(&lab::labels_of(Some(&name))).await.unwrap(), []);
}

fn view<'s>(nodes: &'s [NodeSeen], name: &str) -> Option<&'s ClusterView> {
    let seen = nodes.iter().find(|seen| seen.node == node(name))?;
    seen.state.as_ref().ok()?.cluster.as_ref()?.as_ref().ok()
}

/// Looks until all nodes are as wanted; what is seen then.
async fn until(lab: &Lab, what: &str, wanted: impl Fn(&[NodeSeen]) -> bool) -> Vec<NodeSeen> {
    let since = Instant::now();
    loop {
        let nodes = lab.look().await;
        if wanted(&nodes) {
            return nodes;
        }
        assert!(since.elapsed() < SETTLES, "{what}: {nodes:#?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn all_ok(nodes: &[NodeSeen]) -> bool {
    let ok = |name: &NodeName| {
        view(nodes, name.as_str())
            .is_some_and(|view| view.state.ok && view.members.iter().all(|line| line.health == Health::Fine))
    };
    nodes.iter().all(|seen| ok(&seen.node))
}

/// A node in the eyes of another one.
fn line<'v>(lab: &Lab, view: &'v ClusterView, name: &str) -> Option<&'v MemberLine> {
    let address = lab.node(&node(name)).address;
    view.members.iter().find(|line| line.address == Some(address))
}

/// Its slots.
fn slots(lab: &Lab, view: &ClusterView, name: &str) -> Slots {
    line(lab, view, name).map(|line| line.slots.clone()).unwrap_or_default()
}

/// Ends a server by itself.
async fn end(lab: &Lab, name: &str) {
    let name = node(name);
    let probe = lab.probe(&lab.node(&name).datacenter);
    // It answers with the end of the connection.
    let _ = probe.redis(lab.target(&name), &["SHUTDOWN", "NOSAVE"], LIMIT).await;
}

async fn start(lab: &Lab, name: &str) {
    let docker = Docker::connect(None).await.unwrap();
    docker.start(&lab.node(&node(name)).container).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn every_layout_is_placed_as_its_file_says() {
    for layout in ["a", "b", "c"] {
        let lab = raise(layout).await;
        let cluster = ClusterName::new("cache").unwrap();
        let seats = lab.plan.seats(&cluster);
        let far = |number: usize| lab.plan.nodes[number].datacenter == dc("dc2");
        let in_dc2: Vec<bool> = (0..6).map(far).collect();
        let expected = match layout {
            "a" => [false, false, false, true, true, true],
            "b" => [false, false, true, false, true, true],
            _ => [false, false, true, true, true, false],
        };
        assert_eq!(in_dc2, expected);
        let nodes = lab.look().await;
        for seen in &nodes {
            let view = view(&nodes, seen.node.as_str()).unwrap();
            assert!(view.state.ok, "layout {layout}, {}: {view:?}", seen.node);
            assert_eq!(misplaced(&view.members, &seats), None, "layout {layout}, {}", seen.node);
        }
        // Nobody is where the check would not look: another layout's places are wrong here.
        let mut swapped = seats.clone();
        swapped[3].master = Some("node-3".to_owned());
        assert!(misplaced(&view(&nodes, "node-1").unwrap().members, &swapped).is_some());
        println!(
            "layout {layout}: {:.1} s from the first engine call",
            lab.took().as_secs_f64()
        );
        lower(lab).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn a_node_that_was_stopped_finds_its_cluster_again() {
    let lab = raise("c").await;
    end(&lab, "node-4").await;
    until(&lab, "the others miss it", |nodes| {
        let seen = view(nodes, "node-1").and_then(|view| line(&lab, view, "node-4"));
        seen.is_some_and(|line| line.health == Health::Failed)
    })
    .await;
    start(&lab, "node-4").await;
    let nodes = until(&lab, "it is back", all_ok).await;
    let seats = lab.plan.seats(&ClusterName::new("cache").unwrap());
    assert_eq!(misplaced(&view(&nodes, "node-4").unwrap().members, &seats), None);
    lower(lab).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn the_bus_crosses_the_relays_a_cut_parts_the_cluster_and_a_heal_leaves_nobody_failed() {
    let lab = raise("c").await;
    let (dc1, dc2) = (dc("dc1"), dc("dc2"));
    let forwarded = |links: &[LinkSeen]| -> Vec<u64> {
        links
            .iter()
            .map(|link| link.status.counters.forwarded_packets)
            .collect()
    };
    // No client says anything; replication has one PING in ten seconds. Nine pairs of nodes stand on both sides, and each node
    // pings somebody every second.
    let before = forwarded(&lab.links().await.unwrap());
    tokio::time::sleep(Duration::from_secs(4)).await;
    let after = forwarded(&lab.links().await.unwrap());
    for (before, after) in before.iter().zip(&after) {
        assert!(after - before >= 20, "{before} to {after} packets in 4 s");
    }
    let all = Slots::parse("10923-16383").unwrap();
    // The first cut promotes; after it all masters are in dc1. TCP's patience grows with the length of a cut.
    for (round, longer) in [0, 2, 4].into_iter().enumerate() {
        lab.cut_both(&dc1, &dc2, CutKind::Drop).await.unwrap();
        let nodes = parted(&lab).await;
        let far = view(&nodes, "node-3").unwrap();
        let owner = if round == 0 { "node-3" } else { "node-6" };
        assert_eq!(slots(&lab, far, owner), all, "the far half has seen no promotion");
        tokio::time::sleep(Duration::from_secs(longer)).await;
        lab.heal_both(&dc1, &dc2).await.unwrap();
        let healed = Instant::now();
        joined(&lab).await;
        println!(
            "round {round}: all fine {:.1} s after the heal",
            healed.elapsed().as_secs_f64()
        );
    }
    // A lab that is not placed as its file says is none.
    let seats = lab.plan.seats(&ClusterName::new("cache").unwrap());
    let nodes = lab.look().await;
    let wrong = misplaced(&view(&nodes, "node-1").unwrap().members, &seats).unwrap();
    assert!(wrong.contains("`node-3` (dc2) is a replica"), "{wrong}");
    lower(lab).await;
}

/// Waits until the half with the votes serves all slots and the other one has noticed.
async fn parted(lab: &Lab) -> Vec<NodeSeen> {
    let all = Slots::parse("10923-16383").unwrap();
    until(lab, "the half with the votes promotes, the other one ends", |nodes| {
        let (Some(near), Some(far)) = (view(nodes, "node-1"), view(nodes, "node-3")) else {
            return false;
        };
        near.state.ok && slots(lab, near, "node-6") == all && !far.state.ok
    })
    .await
}

/// Waits until all nodes are well and both halves know of the promotion.
async fn joined(lab: &Lab) -> Vec<NodeSeen> {
    let all = Slots::parse("10923-16383").unwrap();
    until(lab, "all agree after the heal", |nodes| {
        all_ok(nodes) && view(nodes, "node-3").is_some_and(|view| slots(lab, view, "node-6") == all)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn a_cluster_forms_through_relays_that_terminate_tcp_and_their_close_parts_it() {
    let mode = "version: 1\nmode: { stream: { order: pipelined, nodelay: on } }\n";
    let lab = raise_changed("cluster-stream", |text| text.replace("version: 1\n", mode)).await;
    let (dc1, dc2) = (dc("dc1"), dc("dc2"));
    let links = lab.links().await.unwrap();
    assert!(
        links.iter().all(|link| matches!(link.path, wire::Path::Stream(_))),
        "{links:?}"
    );
    lab.cut_both(&dc1, &dc2, CutKind::Close).await.unwrap();
    parted(&lab).await;
    lab.heal_both(&dc1, &dc2).await.unwrap();
    joined(&lab).await;
    lower(lab).await;
}

/// Layout C whose master in dc2 has a second replica beside it. Of the two the one with the smaller id is the one that
/// migrates, and ids are random.
async fn raise_to_migrate() -> Lab {
    let free = "cluster-allow-replica-migration: yes\n    cluster-node-timeout:";
    let change = |text: &str| {
        let second = "  node-7: { datacenter: dc2, replica-of: node-3 }\n";
        text.replace("cluster-node-timeout:", free) + second
    };
    for _ in 0..16 {
        let lab = raise_changed("cluster-migrates", change).await;
        let nodes = lab.look().await;
        let view = view(&nodes, "node-1").unwrap();
        let id = |name: &str| line(&lab, view, name).unwrap().id.clone();
        if id("node-6") < id("node-7") {
            return lab;
        }
        lower(lab).await;
    }
    panic!("sixteen ids in a row were the larger ones");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn a_replica_that_has_migrated_turns_layout_c_into_b_and_is_named() {
    let lab = raise_to_migrate().await;
    // The only replica of a master in dc1 is away for longer than a master may be without one.
    end(&lab, "node-4").await;
    until(&lab, "another replica takes its place", |nodes| {
        let view = view(nodes, "node-1");
        view.is_some_and(|view| {
            let ids = [
                line(&lab, view, "node-6").and_then(|line| line.master_id.as_deref()),
                line(&lab, view, "node-1").map(|line| line.id.as_str()),
            ];
            ids[0].is_some() && ids[0] == ids[1]
        })
    })
    .await;
    start(&lab, "node-4").await;
    let nodes = until(&lab, "it is back, and all are well", all_ok).await;
    let seats = lab.plan.seats(&ClusterName::new("cache").unwrap());
    let told = "`node-6` (dc1) is a replica of `node-1` (dc1) and should be of `node-3` (dc2)";
    for seen in &nodes {
        let members = &view(&nodes, seen.node.as_str()).unwrap().members;
        assert_eq!(elsewhere(members, &seats), [told], "{}", seen.node);
        assert_eq!(misplaced(members, &seats).as_deref(), Some(told), "{}", seen.node);
    }
    let ps = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["ps", "-p", lab.name().as_str()])
        .output()
        .unwrap();
    let said = String::from_utf8(ps.stdout).unwrap();
    let line = format!("not as the topology has it: {told}\n");
    assert_eq!(said.matches(&line).count(), 2, "once from each datacenter: {said}");

    // What layout C would survive.
    lab.cut_both(&dc("dc1"), &dc("dc2"), CutKind::Drop).await.unwrap();
    let down = |nodes: &[NodeSeen]| {
        let mut views = nodes.iter().map(|seen| view(nodes, seen.node.as_str()));
        views.all(|view| view.is_some_and(|view| !view.state.ok))
    };
    until(&lab, "neither half serves", down).await;
    // Layout C has promoted by then: node timeout, half of it, and a second of election.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(down(&lab.look().await), "no replica in dc1 can take over from node-3");
    lab.heal_both(&dc("dc1"), &dc("dc2")).await.unwrap();
    lower(lab).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn sentinels_over_three_datacenters_fail_over_when_one_is_cut_off() {
    let lab = raise_topology("sentinel").await;
    let (dc1, dc2, dc3) = (dc("dc1"), dc("dc2"), dc("dc3"));
    for other in [&dc2, &dc3] {
        lab.cut_both(&dc1, other, CutKind::Drop).await.unwrap();
    }
    let promoted = |nodes: &[NodeSeen]| {
        let role = |name: &str| {
            let seen = nodes.iter().find(|seen| seen.node == node(name))?;
            Some(seen.state.as_ref().ok()?.replication.as_ref()?.role.clone())
        };
        let masters = ["replica-2", "replica-3"].map(|name| role(name).as_deref() == Some("master"));
        masters.contains(&true) && role("primary").as_deref() == Some("master")
    };
    // Both: the two datacenters that agree have promoted, and the one that is cut off has heard nothing of it.
    until(&lab, "one of the two replicas is promoted", promoted).await;
    for other in [&dc2, &dc3] {
        lab.heal_both(&dc1, other).await.unwrap();
    }
    lower(lab).await;
}
