//! The servers of a lab: container and command line of each node. Configuration is all on the command line, so that
//! it can be read in one place; what the topology overrides comes last.

use super::{ContainerSpec, Images, Labels, PlanError, PlannedNode};
use crate::address::{self, Layout};
use crate::names::{Kind, NodeName, datacenter_network, node_container, state_volume};
use crate::release::Release;
use crate::sentinel;
use crate::topology::{EngineKind, Node, Role, Topology};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Memory of a server.
const MEMORY_BYTES: u64 = 512 << 20;
/// Most processes of a server: Postgres has one per connection.
const PIDS: u32 = 256;

/// All nodes, in the order of the file.
pub(super) fn nodes(
    topology: &Topology,
    layout: &Layout,
    images: &Images,
    labels: &Labels,
) -> Result<Vec<PlannedNode>, PlanError> {
    let mut planned: Vec<PlannedNode> = Vec::new();
    for node in &topology.nodes {
        let release = release(node, images)?;
        let subnet = topology
            .datacenters
            .iter()
            .position(|datacenter| datacenter.name == node.datacenter)
            .map(|index| layout.datacenters[index])
            .expect("a checked node stands in a datacenter");
        let before = planned
            .iter()
            .filter(|other| other.datacenter == node.datacenter)
            .count();
        planned.push(PlannedNode {
            name: node.name.clone(),
            container: node_container(labels.lab, &node.name),
            datacenter: node.datacenter.clone(),
            address: address::node(subnet, before),
            engine: release.engine,
            role: node.role.clone(),
            cluster: node.cluster.clone(),
            release: release.name.clone(),
            version: release.version.as_ref().map(ToString::to_string),
        });
    }
    replicas_run_what_their_primaries_run(&planned)?;
    clusters_run_one_engine(&planned)?;
    Ok(planned)
}

/// The container of a node.
pub(super) fn container(
    node: &Node,
    planned: &PlannedNode,
    all: &[PlannedNode],
    images: &Images,
    hosts: &[String],
    labels: &Labels,
) -> Result<ContainerSpec, PlanError> {
    let release = release(node, images)?;
    let mut start = release.start();
    if matches!(node.role, Role::SentinelOf(_)) {
        // It has a configuration of its own; settings of a build are those of its servers.
        start.entrypoint.truncate(1);
    }
    let port = planned.port();
    let mut tmpfs = start.tmpfs;
    tmpfs.insert("/tmp".to_owned(), "mode=1777,size=67108864".to_owned());
    Ok(ContainerSpec {
        name: planned.container.clone(),
        kind: Kind::Node,
        image: release.image.clone(),
        entrypoint: start.entrypoint,
        command: command(node, release.engine, all, start.state_path),
        env: start.env,
        user: Some(start.user.to_owned()),
        endpoints: vec![(datacenter_network(labels.lab, &node.datacenter), planned.address)],
        extra_hosts: hosts.to_vec(),
        cap_add: Vec::new(),
        devices: Vec::new(),
        sysctls: BTreeMap::new(),
        volumes: BTreeMap::from([(state_volume(labels.lab, &node.name), start.state_path.to_owned())]),
        mounts: BTreeMap::new(),
        tmpfs,
        files: files(node, all, start.state_path),
        memory_bytes: MEMORY_BYTES,
        pids: PIDS,
        publish: node
            .publish
            .iter()
            .map(|publish| (port, (publish.host, publish.port)))
            .collect(),
        open_stdin: false,
        labels: labels.of(Kind::Node, Some(&node.datacenter), Some(&node.name)),
    })
}

fn release<'i>(node: &Node, images: &'i Images) -> Result<&'i Release, PlanError> {
    let release = images
        .releases
        .get(&node.name)
        .ok_or_else(|| PlanError::NoRelease(node.name.clone()))?;
    if release.engine.is_cache() == node.engine.is_cache() {
        Ok(release)
    } else {
        Err(PlanError::WrongKind {
            node: node.name.clone(),
            engine: node.engine.as_str(),
            release: release.name.clone(),
        })
    }
}

/// A pinned release can make a Redis primary with a Valkey replica of what the file says is one engine.
fn replicas_run_what_their_primaries_run(nodes: &[PlannedNode]) -> Result<(), PlanError> {
    for node in nodes {
        let Role::ReplicaOf(primary) = &node.role else { continue };
        let primary = nodes
            .iter()
            .find(|other| &other.name == primary)
            .expect("a checked replica has a primary");
        if primary.engine != node.engine {
            return Err(PlanError::MixedSet {
                replica: node.name.clone(),
                replica_release: node.release.clone(),
                primary: primary.name.clone(),
                primary_release: primary.release.clone(),
            });
        }
    }
    Ok(())
}

/// The same between the masters of a cluster: replicas run what those run.
fn clusters_run_one_engine(nodes: &[PlannedNode]) -> Result<(), PlanError> {
    for node in nodes {
        let Some(cluster) = node.cluster_name() else { continue };
        let mut others = nodes.iter().filter(|other| other.cluster_name() == Some(cluster));
        if let Some(other) = others.find(|other| other.engine != node.engine) {
            return Err(PlanError::MixedCluster {
                cluster: cluster.clone(),
                one: node.name.clone(),
                one_release: node.release.clone(),
                other: other.name.clone(),
                other_release: other.release.clone(),
            });
        }
    }
    Ok(())
}

fn command(node: &Node, engine: EngineKind, all: &[PlannedNode], state_path: &str) -> Vec<String> {
    if let Role::SentinelOf(_) = node.role {
        return vec![sentinel_file(state_path), "--sentinel".to_owned()];
    }
    match engine {
        EngineKind::Redis | EngineKind::Valkey => cache_command(node, engine, all),
        EngineKind::Postgres => postgres_command(node),
    }
}

fn cache_command(node: &Node, engine: EngineKind, all: &[PlannedNode]) -> Vec<String> {
    let port = engine.port().to_string();
    let own_address = address_of(&node.name, all).to_string();
    let mut base = vec![
        ("port", port.as_str()),
        ("bind", "0.0.0.0"),
        ("protected-mode", "no"),
        ("daemonize", "no"),
        ("dir", "/data"),
        ("save", ""),
        ("appendonly", "no"),
        // The first synchronisation of a replica would wait 5 s for others to join it.
        ("repl-diskless-sync", "yes"),
        ("repl-diskless-sync-delay", "0"),
        // Redis has 1 MB and Valkey 10 MB: the same cut would end in different resynchronisations.
        ("repl-backlog-size", "10mb"),
    ];
    if node.cluster.is_some() {
        base.extend([
            ("cluster-enabled", "yes"),
            // On the node's volume: one that is stopped and started again finds its cluster.
            ("cluster-config-file", "nodes.conf"),
            // The address that holds in every datacenter; else a node believes what it is called in its first MEET.
            ("cluster-announce-ip", own_address.as_str()),
            // A replica that moves to a master without one makes another layout of this one, in silence.
            ("cluster-allow-replica-migration", "no"),
        ]);
    }
    let own = |key: &str| node.config.contains_key(key);
    let mut words: Vec<String> = base
        .iter()
        .filter(|(key, _)| !own(key))
        .flat_map(|(key, value)| [format!("--{key}"), (*value).to_owned()])
        .collect();
    // A node of a cluster begins as a master of nothing and is told whom to copy when it has met the others.
    if let (Role::ReplicaOf(primary), None) = (&node.role, &node.cluster) {
        let address = address_of(primary, all);
        words.extend(["--replicaof".to_owned(), address.to_string(), port]);
    }
    for (key, value) in &node.config {
        words.extend([format!("--{key}"), value.clone()]);
    }
    words
}

/// A Sentinel keeps what it learns in its configuration file and does not start without one that it can write.
fn sentinel_file(state_path: &str) -> String {
    format!("{state_path}/sentinel.conf")
}

fn files(node: &Node, all: &[PlannedNode], state_path: &str) -> BTreeMap<String, String> {
    let Role::SentinelOf(primary) = &node.role else {
        return BTreeMap::new();
    };
    let own = address_of(&node.name, all);
    let watched = address_of(primary, all);
    let port = node.engine.port();
    let sentinels = all.iter();
    let sentinels = sentinels.filter(|other| matches!(&other.role, Role::SentinelOf(watched) if watched == primary));
    let most = sentinels.count() / 2 + 1;
    let quorum = node.config.get("quorum").cloned().unwrap_or_else(|| most.to_string());
    let mut lines = vec![
        format!("port {}", sentinel::PORT),
        "bind 0.0.0.0".to_owned(),
        "protected-mode no".to_owned(),
        format!("dir {state_path}"),
        // As with a cluster: the address that holds everywhere, not what somebody made of it.
        format!("sentinel announce-ip {own}"),
        format!("sentinel monitor {primary} {watched} {port} {quorum}"),
    ];
    let settings = node.config.iter().filter(|(key, _)| *key != "quorum");
    lines.extend(settings.map(|(key, value)| format!("sentinel {key} {primary} {value}")));
    BTreeMap::from([(sentinel_file(state_path), lines.join("\n") + "\n")])
}

fn postgres_command(node: &Node) -> Vec<String> {
    let mut words = vec!["-c".to_owned(), "listen_addresses=*".to_owned()];
    for (key, value) in &node.config {
        words.extend(["-c".to_owned(), format!("{key}={value}")]);
    }
    words
}

fn address_of(node: &NodeName, all: &[PlannedNode]) -> Ipv4Addr {
    all.iter()
        .find(|other| &other.name == node)
        .map(|other| other.address)
        .expect("a checked node and its primary are in the plan")
}
