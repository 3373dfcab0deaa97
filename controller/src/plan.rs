//! Every Docker object of a lab as a value, in the order of making: printable, comparable, testable without an engine.
//!
//! A plan names images; it does not know how they come to be. Nothing outside `names` invents a Docker name.

use crate::address::{self, AddressError, Layout, Wanted};
use crate::names::{
    ClusterName, DatacenterName, Kind, LABEL_DATACENTER, LABEL_KIND, LABEL_LAB, LABEL_NODE, LABEL_OWNER, LABEL_PLAN,
    LABEL_RUN, LABEL_TOPOLOGY, LabName, NodeName, OWNER, probe_host, state_volume,
};
use crate::release::Release;
use crate::topology::{EngineKind, Membership, Role, Topology};
use ipnet::Ipv4Net;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wire::{Conditions, Path, RelayConfig, Schedule};

mod applications;
mod changes;
mod members;
mod networks;
mod routers;
mod servers;
mod table;

pub use changes::{Change, changes};
pub use table::table;

/// What the containers of a lab run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// Image reference of the relay; the program is `/relay`.
    pub relay: String,
    /// Image reference of the probe; the program is `/probe`.
    pub probe: String,
    /// The release of every node.
    pub releases: BTreeMap<NodeName, Release>,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No addresses.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nobody said what a node runs.
    #[error("plan node `{0}`: it has no release")]
    NoRelease(NodeName),
    /// A release of another kind of server.
    #[error("run {release} on node `{node}`, whose engine is {engine}")]
    WrongKind {
        /// The node.
        node: NodeName,
        /// What the topology says.
        engine: &'static str,
        /// The release.
        release: String,
    },
    /// A Redis node that should copy a Valkey node, or the other way round.
    #[error("make `{replica}` ({replica_release}) a replica of `{primary}` ({primary_release})")]
    MixedSet {
        /// The replica.
        replica: NodeName,
        /// Its release.
        replica_release: String,
        /// Its primary.
        primary: NodeName,
        /// The primary's release.
        primary_release: String,
    },
    /// Redis and Valkey nodes in one cluster.
    #[error("make one cluster `{cluster}` of `{one}` ({one_release}) and `{other}` ({other_release})")]
    MixedCluster {
        /// The cluster.
        cluster: ClusterName,
        /// A master.
        one: NodeName,
        /// Its release.
        one_release: String,
        /// Another master.
        other: NodeName,
        /// Its release.
        other_release: String,
    },
}

impl PlanError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Address(error) => error.hint(),
            Self::NoRelease(_) => "give it a `release`",
            Self::WrongKind { .. } => "Redis and Valkey can stand for each other, Postgres only for itself",
            Self::MixedSet { .. } | Self::MixedCluster { .. } => {
                "the nodes of a set or a cluster run one engine; pin none or all of them"
            }
        }
    }
}

/// A lab, planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Its name.
    pub lab: LabName,
    /// Hash of the topology's text (sha256, hex).
    pub topology_hash: String,
    /// WAN first, then the datacenters in the order of the file.
    pub networks: Vec<NetworkSpec>,
    /// Node state.
    pub volumes: Vec<VolumeSpec>,
    /// Relays, probes, nodes (primaries before replicas).
    pub containers: Vec<ContainerSpec>,
    /// What the containers are, for those who talk to them.
    pub datacenters: Vec<PlannedDatacenter>,
    /// Servers.
    pub nodes: Vec<PlannedNode>,
    /// Containers of the user's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<PlannedApplication>,
    /// Directed links.
    pub links: Vec<PlannedLink>,
}

/// Every object of a lab. `run` is the id of the run that makes it (`None`: `up`), `taken` are the subnets that the
/// engine would refuse. The same arguments give the same plan.
///
/// # Errors
/// There are no addresses, or a node has no release that fits it.
pub fn plan(
    topology: &Topology,
    topology_hash: &str,
    lab: &LabName,
    run: Option<&str>,
    images: &Images,
    taken: &[Ipv4Net],
) -> Result<Plan, PlanError> {
    let layout = address::layout(lab, &wanted(topology), taken)?;
    laid_out(topology, topology_hash, lab, run, images, &layout)
}

/// The same in a block of addresses that the user insists on.
///
/// # Errors
/// The block is too small, or as [`plan`].
pub fn plan_in(
    block: Ipv4Net,
    topology: &Topology,
    topology_hash: &str,
    lab: &LabName,
    images: &Images,
) -> Result<Plan, PlanError> {
    let layout = address::layout_in(block, &wanted(topology))?;
    laid_out(topology, topology_hash, lab, None, images, &layout)
}

/// The same on the subnets that a lab of this name has already, as far as the topology still fits into them: a lab
/// that had to move on past others, now gone, does not have to move back.
///
/// # Errors
/// As [`plan`].
pub fn plan_beside(
    there: &Plan,
    topology: &Topology,
    topology_hash: &str,
    images: &Images,
    taken: &[Ipv4Net],
) -> Result<Plan, PlanError> {
    let wanted = wanted(topology);
    let subnet = |name: &DatacenterName| there.datacenters.iter().find(|dc| &dc.name == name).map(|dc| dc.subnet);
    let subnets: Option<Vec<Ipv4Net>> = topology.datacenters.iter().map(|dc| subnet(&dc.name)).collect();
    let wan = there.networks.iter().find(|network| network.kind == Kind::Wan);
    let kept = wan
        .zip(subnets)
        .and_then(|(wan, subnets)| address::kept(&wanted, wan.subnet, subnets));
    let layout = match kept {
        Some(layout) => layout,
        None => address::layout(&there.lab, &wanted, taken)?,
    };
    laid_out(topology, topology_hash, &there.lab, None, images, &layout)
}

fn laid_out(
    topology: &Topology,
    topology_hash: &str,
    lab: &LabName,
    run: Option<&str>,
    images: &Images,
    layout: &Layout,
) -> Result<Plan, PlanError> {
    let labels = Labels {
        lab,
        topology_hash,
        run,
    };
    let nodes = servers::nodes(topology, layout, images, &labels)?;
    let applications = applications::applications(topology, layout, &nodes, &labels);
    let datacenters = routers::datacenters(topology, layout, (&nodes, &applications), &labels);
    let hosts = hosts(&datacenters, &nodes, &applications);
    let mut containers: Vec<ContainerSpec> = Vec::new();
    containers.extend(datacenters.iter().map(|dc| routers::relay(dc, images, &labels)));
    containers.extend(datacenters.iter().map(|dc| routers::probe(dc, images, &hosts, &labels)));
    let replica = |role: &Role| matches!(role, Role::ReplicaOf(_));
    for replicas in [false, true] {
        for (node, planned) in topology.nodes.iter().zip(&nodes) {
            if replica(&node.role) == replicas {
                containers.push(servers::container(node, planned, &nodes, images, &hosts, &labels)?);
            }
        }
    }
    for (application, planned) in topology.applications.iter().zip(&applications) {
        containers.push(applications::container(application, planned, &hosts, &labels));
    }
    let mut plan = Plan {
        lab: lab.clone(),
        topology_hash: topology_hash.to_owned(),
        networks: networks::networks(topology, layout, &labels),
        volumes: nodes.iter().map(|node| volume(node, &labels)).collect(),
        containers,
        datacenters,
        nodes,
        applications,
        links: topology
            .links
            .iter()
            .map(|link| PlannedLink {
                from: link.from.clone(),
                to: link.to.clone(),
                conditions: link.conditions.clone(),
                schedule: link.schedule.clone(),
            })
            .collect(),
    };
    plan.write_into_relays();
    Ok(plan)
}

impl Plan {
    /// How the relays carry connections at the start (`None`: there is no datacenter).
    #[must_use]
    pub fn path(&self) -> Option<Path> {
        self.datacenters.first().map(|datacenter| datacenter.relay_config.path)
    }

    /// The plan that a relay's label holds.
    ///
    /// # Errors
    /// It is not the plan of this version of testbed.
    pub fn from_label(text: &str) -> Result<Self, serde_json::Error> {
        let mut plan: Self = serde_json::from_str(text)?;
        plan.write_into_relays();
        Ok(plan)
    }

    /// The same without the label of the relays that repeats it: for people, files and comparisons.
    #[must_use]
    pub fn unlabelled(&self) -> Self {
        let mut plan = self.clone();
        for container in &mut plan.containers {
            container.labels.remove(LABEL_PLAN);
        }
        plan
    }

    /// Puts the whole plan into a label of every relay, from where later commands read it. A plan cannot contain
    /// itself: the label holds it without that label.
    fn write_into_relays(&mut self) {
        let text = serde_json::to_string(&self.unlabelled()).expect("a plan is JSON");
        for container in self
            .containers
            .iter_mut()
            .filter(|container| container.kind == Kind::Relay)
        {
            container.labels.insert(LABEL_PLAN.to_owned(), text.clone());
        }
    }
}

fn wanted(topology: &Topology) -> Vec<Wanted> {
    topology
        .datacenters
        .iter()
        .map(|datacenter| Wanted {
            subnet: datacenter.subnet,
            nodes: (topology.nodes.iter().map(|node| &node.datacenter))
                .chain(topology.applications.iter().map(|application| &application.datacenter))
                .filter(|name| **name == datacenter.name)
                .count(),
        })
        .collect()
}

fn hosts(datacenters: &[PlannedDatacenter], nodes: &[PlannedNode], applications: &[PlannedApplication]) -> Vec<String> {
    let nodes = nodes.iter().map(|node| format!("{}:{}", node.name, node.address));
    let probes = datacenters
        .iter()
        .map(|datacenter| format!("{}:{}", probe_host(&datacenter.name), datacenter.probe_address));
    let applications = applications.iter();
    let applications = applications.map(|application| format!("{}:{}", application.name, application.address));
    nodes.chain(probes).chain(applications).collect()
}

fn volume(node: &PlannedNode, labels: &Labels) -> VolumeSpec {
    VolumeSpec {
        name: state_volume(labels.lab, &node.name),
        labels: labels.of(Kind::State, Some(&node.datacenter), Some(&node.name)),
    }
}

/// What all labels of a lab share.
struct Labels<'a> {
    lab: &'a LabName,
    topology_hash: &'a str,
    run: Option<&'a str>,
}

impl Labels<'_> {
    fn of(&self, kind: Kind, datacenter: Option<&DatacenterName>, node: Option<&NodeName>) -> BTreeMap<String, String> {
        [
            (LABEL_OWNER, Some(OWNER)),
            (LABEL_LAB, Some(self.lab.as_str())),
            (LABEL_KIND, Some(kind.as_str())),
            (LABEL_TOPOLOGY, Some(self.topology_hash)),
            (LABEL_RUN, self.run),
            (LABEL_DATACENTER, datacenter.map(DatacenterName::as_str)),
            (LABEL_NODE, node.map(NodeName::as_str)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
        .collect()
    }
}

/// A datacenter, planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedDatacenter {
    /// Name.
    pub name: DatacenterName,
    /// Its network.
    #[schemars(with = "String")]
    pub subnet: Ipv4Net,
    /// Docker name of its relay.
    pub relay: String,
    /// What the relay is told at its start.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub relay_config: RelayConfig,
    /// Docker name of its probe.
    pub probe: String,
    /// Address of its probe.
    pub probe_address: Ipv4Addr,
}

/// A server, planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedNode {
    /// Name.
    pub name: NodeName,
    /// Docker name of its container.
    pub container: String,
    /// Where it stands.
    pub datacenter: DatacenterName,
    /// Its address, valid in every datacenter.
    pub address: Ipv4Addr,
    /// What it runs.
    pub engine: EngineKind,
    /// What it does.
    pub role: Role,
    /// Its place in a cluster (`None`: it is in none).
    #[serde(default)]
    pub cluster: Option<Membership>,
    /// Name of its release, as in `releases.yaml` or `ENGINE=IMAGE`.
    pub release: String,
    /// Upstream version that the live server must report (`None`: an image of the user's, any version).
    pub version: Option<String>,
}

/// A container of the user's own, planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedApplication {
    /// Name.
    pub name: NodeName,
    /// Docker name of its container.
    pub container: String,
    /// Where it stands.
    pub datacenter: DatacenterName,
    /// Its address, valid in every datacenter.
    pub address: Ipv4Addr,
    /// Image reference.
    pub image: String,
    /// TCP port on which it listens when it is ready (`None`: it is ready when it runs).
    pub ready: Option<u16>,
}

/// A directed link, planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedLink {
    /// Sending side.
    pub from: DatacenterName,
    /// Receiving side.
    pub to: DatacenterName,
    /// What it does to packets.
    pub conditions: Conditions,
    /// Changes that begin when the lab is ready.
    #[serde(default)]
    pub schedule: Option<Schedule>,
}

/// A Docker network to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkSpec {
    /// Docker name.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// Name of the bridge interface, at most 15 characters, so that a second lab of the same name is refused.
    pub bridge: String,
    /// Its subnet.
    #[schemars(with = "String")]
    pub subnet: Ipv4Net,
    /// Default route of its containers.
    pub gateway: Ipv4Addr,
    /// Address of the host on the bridge; only where a node publishes a port. `None`: the host has none
    /// (`com.docker.network.bridge.inhibit_ipv4`), else `gateway` becomes the auxiliary `DefaultGatewayIPv4`.
    pub host_address: Option<Ipv4Addr>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// A Docker volume to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeSpec {
    /// Docker name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// A container to make. Always: read-only root, no-new-privileges, all capabilities dropped but `cap_add`, capped logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerSpec {
    /// Docker name.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// Image reference.
    pub image: String,
    /// Whole entrypoint (empty: the image's).
    pub entrypoint: Vec<String>,
    /// Arguments (both empty: the image's).
    pub command: Vec<String>,
    /// Environment, `KEY=value`.
    pub env: Vec<String>,
    /// `uid:gid` or name (`None`: the image's).
    pub user: Option<String>,
    /// Networks by Docker name, with the static address there.
    pub endpoints: Vec<(String, Ipv4Addr)>,
    /// `name:address` lines for /etc/hosts.
    pub extra_hosts: Vec<String>,
    /// Capabilities, e.g. `NET_ADMIN`.
    pub cap_add: Vec<String>,
    /// Host devices that it may use, e.g. `/dev/net/tun`; without [`wire::AWAKE_DEVICE`] it does its work too.
    pub devices: Vec<String>,
    /// Sysctls.
    pub sysctls: BTreeMap<String, String>,
    /// Volume name -> path.
    pub volumes: BTreeMap<String, String>,
    /// Path -> file or folder of the host that is seen there, read-only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mounts: BTreeMap<String, String>,
    /// Path -> tmpfs options.
    pub tmpfs: BTreeMap<String, String>,
    /// Path in a volume -> text of a file of the container's user that is there before the first start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Bytes.
    pub memory_bytes: u64,
    /// Most processes and threads.
    pub pids: u32,
    /// Container port -> (host address, host port).
    pub publish: BTreeMap<u16, (Ipv4Addr, u16)>,
    /// Keep stdin open, for order lines.
    pub open_stdin: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests;
