//! Clusters on real labs: placed exactly as their files say, a node that was stopped finds its cluster again, the bus crosses
//! the relays and a cut of the link is a cut of the cluster. Nothing is left behind.
//!
//! `cargo test -p testbed --test docker_cluster -- --ignored --test-threads 1`; `TESTBED_RELEASE` chooses the server. Waits
//! are for conditions, each with a limit far above what an idle machine needs.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::{Duration, Instant};
use testbed::cli::{Color, Format, ReleaseArg};
use testbed::cluster::{Health, Slots, misplaced};
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
    let source = source::read(&file, Format::Text, Color::Never).unwrap();
    let release = std::env::var("TESTBED_RELEASE").into_iter().collect();
    let releases = prepare::releases(&source.topology, &ReleaseArg { release }).unwrap();
    let docker = Docker::connect(None).await.unwrap();
    let ground = Ground::prepare(docker, source, releases, &Progress::silent())
        .await
        .unwrap();
    let name = LabName::new(&format!("test-{topology}-{}", std::process::id())).unwrap();
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

/// Slots of a node in the eyes of another one.
fn slots(lab: &Lab, view: &ClusterView, name: &str) -> Slots {
    let address = lab.node(&node(name)).address;
    let line = view.members.iter().find(|line| line.address == Some(address));
    line.map(|line| line.slots.clone()).unwrap_or_default()
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
    let name = node("node-4");
    let (target, container) = (lab.target(&name), lab.node(&name).container.clone());
    // It answers with the end of the connection.
    let _ = lab
        .probe(&dc("dc2"))
        .redis(target, &["SHUTDOWN", "NOSAVE"], LIMIT)
        .await;
    until(&lab, "the others miss it", |nodes| {
        let view = view(nodes, "node-1");
        let address = lab.node(&name).address;
        view.is_some_and(|view| {
            let mut lines = view.members.iter();
            lines.any(|line| line.address == Some(address) && line.health == Health::Failed)
        })
    })
    .await;
    Docker::connect(None).await.unwrap().start(&container).await.unwrap();
    let nodes = until(&lab, "it is back", all_ok).await;
    let seats = lab.plan.seats(&ClusterName::new("cache").unwrap());
    assert_eq!(misplaced(&view(&nodes, "node-4").unwrap().members, &seats), None);
    lower(lab).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn the_bus_crosses_the_relays_and_a_cut_parts_the_cluster() {
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
    lab.cut_both(&dc1, &dc2, CutKind::Drop).await.unwrap();
    let all = Slots::parse("10923-16383").unwrap();
    let nodes = until(&lab, "the half with the votes promotes, the other one ends", |nodes| {
        let (Some(near), Some(far)) = (view(nodes, "node-1"), view(nodes, "node-3")) else {
            return false;
        };
        near.state.ok && slots(&lab, near, "node-6") == all && !far.state.ok
    })
    .await;
    let far = view(&nodes, "node-3").unwrap();
    assert_eq!(slots(&lab, far, "node-3"), all, "the far half has seen no promotion");
    lab.heal_both(&dc1, &dc2).await.unwrap();
    let nodes = until(&lab, "all agree after the heal", |nodes| {
        all_ok(nodes) && view(nodes, "node-3").is_some_and(|view| slots(&lab, view, "node-6") == all)
    })
    .await;
    // A lab that is not placed as its file says is none.
    let seats = lab.plan.seats(&ClusterName::new("cache").unwrap());
    let wrong = misplaced(&view(&nodes, "node-1").unwrap().members, &seats).unwrap();
    assert!(wrong.contains("`node-3` is a replica"), "{wrong}");
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
