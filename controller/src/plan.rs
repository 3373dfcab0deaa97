//! Every Docker object of a lab as a value, in the order of making: printable, comparable, testable without an engine.
//!
//! A plan names images; it does not know how they come to be. Nothing outside `names` invents a Docker name.

use crate::names::{DatacenterName, Kind, LabName, NodeName};
use crate::topology::{EngineKind, Role};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wire::RelayConfig;

/// A lab, planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Directed links.
    pub links: Vec<PlannedLink>,
}

/// A datacenter, planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedDatacenter {
    /// Name.
    pub name: DatacenterName,
    /// Its network.
    pub subnet: Ipv4Net,
    /// Docker name of its relay.
    pub relay: String,
    /// What the relay is told at its start.
    pub relay_config: RelayConfig,
    /// Docker name of its probe.
    pub probe: String,
    /// Address of its probe.
    pub probe_address: Ipv4Addr,
}

/// A server, planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Name of its release, as in `releases.yaml` or `ENGINE=IMAGE`.
    pub release: String,
    /// Upstream version that the live server must report (`None`: an image of the user's, any version).
    pub version: Option<String>,
}

/// A directed link, planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLink {
    /// Sending side.
    pub from: DatacenterName,
    /// Receiving side.
    pub to: DatacenterName,
    /// One way, nanoseconds.
    pub delay_ns: u64,
}

/// A Docker network to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSpec {
    /// Docker name.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// Name of the bridge interface, at most 15 characters, so that a second lab of the same name is refused.
    pub bridge: String,
    /// Its subnet.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// Docker name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// A container to make. Always: read-only root, no-new-privileges, all capabilities dropped but `cap_add`, capped logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// Docker name.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// Image reference.
    pub image: String,
    /// Whole entrypoint.
    pub entrypoint: Vec<String>,
    /// Arguments.
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
    /// Host devices that it may use, e.g. `/dev/net/tun`.
    pub devices: Vec<String>,
    /// Sysctls.
    pub sysctls: BTreeMap<String, String>,
    /// Volume name -> path.
    pub volumes: BTreeMap<String, String>,
    /// Path -> tmpfs options.
    pub tmpfs: BTreeMap<String, String>,
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
