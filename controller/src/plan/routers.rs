//! Relay and probe of a datacenter: the instruments. A relay has the two capabilities that it needs, a probe none.

use super::{ContainerSpec, Images, Labels, PlannedApplication, PlannedDatacenter, PlannedNode};
use crate::address::{self, Layout};
use crate::names::{Kind, datacenter_network, probe_container, relay_container, wan_network};
use crate::topology::{Datacenter, Topology};
use std::collections::BTreeMap;
use wire::{AWAKE_DEVICE, ECHO_PORT, RelayConfig, RelayLinkConfig};

/// Most bytes that one link may hold: 64 MiB is 10 Gbit/s for 50 ms.
const QUEUE_BYTES: u64 = 64 << 20;
/// Memory of a relay beside what its links hold, and of a probe (its samples and ledgers).
const MEMORY_BYTES: u64 = 256 << 20;
/// Most threads of a relay or a probe.
const PIDS: u32 = 64;

/// All datacenters, in the order of the file.
pub(super) fn datacenters(
    topology: &Topology,
    layout: &Layout,
    servers: (&[PlannedNode], &[PlannedApplication]),
    labels: &Labels,
) -> Vec<PlannedDatacenter> {
    topology
        .datacenters
        .iter()
        .enumerate()
        .map(|(index, datacenter)| PlannedDatacenter {
            name: datacenter.name.clone(),
            subnet: layout.datacenters[index],
            relay: relay_container(labels.lab, &datacenter.name),
            relay_config: relay_config(index, topology, layout, ports(servers)),
            probe: probe_container(labels.lab, &datacenter.name),
            probe_address: address::probe(layout.datacenters[index]),
        })
        .collect()
}

fn relay_config(index: usize, topology: &Topology, layout: &Layout, ports: Vec<u16>) -> RelayConfig {
    let Datacenter { name, .. } = &topology.datacenters[index];
    let subnet = layout.datacenters[index];
    let position = |name| topology.datacenters.iter().position(|other| &other.name == name);
    RelayConfig {
        datacenter: name.to_string(),
        inside: address::relay(subnet),
        gateway: address::gateway(subnet),
        prefix_len: subnet.prefix_len(),
        outside: address::wan_relay(layout.wan, index),
        links: topology
            .links
            .iter()
            .filter(|link| &link.from == name)
            .map(|link| {
                let far = position(&link.to).expect("a checked link leads to a datacenter");
                RelayLinkConfig {
                    to: link.to.to_string(),
                    network: layout.datacenters[far].network(),
                    prefix_len: layout.datacenters[far].prefix_len(),
                    via: address::wan_relay(layout.wan, far),
                    conditions: link.conditions.clone(),
                }
            })
            .collect(),
        queue_bytes: QUEUE_BYTES,
        ports,
        path: topology.path,
        seed: topology.seed,
    }
}

/// TCP ports of nodes and applications, and that on which probes echo.
fn ports((nodes, applications): (&[PlannedNode], &[PlannedApplication])) -> Vec<u16> {
    let mut ports: Vec<u16> = nodes.iter().flat_map(PlannedNode::ports).collect();
    ports.extend(applications.iter().filter_map(|application| application.ready));
    ports.push(ECHO_PORT);
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The relay of a datacenter.
pub(super) fn relay(datacenter: &PlannedDatacenter, images: &Images, labels: &Labels) -> ContainerSpec {
    let config = &datacenter.relay_config;
    let on = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    ContainerSpec {
        name: datacenter.relay.clone(),
        kind: Kind::Relay,
        image: images.relay.clone(),
        entrypoint: vec!["/relay".to_owned()],
        command: vec![serde_json::to_string(config).expect("a relay's configuration is JSON")],
        env: Vec::new(),
        // Root without capabilities but the two: the TUN device and the routes belong to root's namespace.
        user: Some("0:0".to_owned()),
        endpoints: vec![
            (datacenter_network(labels.lab, &datacenter.name), config.inside),
            (wan_network(labels.lab), config.outside),
        ],
        extra_hosts: Vec::new(),
        cap_add: vec!["NET_ADMIN".to_owned(), "SYS_NICE".to_owned()],
        devices: vec!["/dev/net/tun".to_owned(), AWAKE_DEVICE.to_owned()],
        sysctls: BTreeMap::from([
            on("net.ipv4.conf.all.rp_filter", "0"),
            on("net.ipv4.conf.all.send_redirects", "0"),
            on("net.ipv4.conf.default.rp_filter", "0"),
            on("net.ipv4.conf.default.send_redirects", "0"),
            on("net.ipv4.ip_forward", "1"),
        ]),
        volumes: BTreeMap::new(),
        mounts: BTreeMap::new(),
        tmpfs: BTreeMap::new(),
        files: BTreeMap::new(),
        // Twice what the queues may hold: a held packet has a header, and an allocator its own rounding.
        memory_bytes: MEMORY_BYTES + 2 * QUEUE_BYTES * config.links.len() as u64,
        pids: PIDS,
        publish: BTreeMap::new(),
        open_stdin: true,
        labels: labels.of(Kind::Relay, Some(&datacenter.name), None),
    }
}

/// The probe of a datacenter.
pub(super) fn probe(
    datacenter: &PlannedDatacenter,
    images: &Images,
    hosts: &[String],
    labels: &Labels,
) -> ContainerSpec {
    ContainerSpec {
        name: datacenter.probe.clone(),
        kind: Kind::Probe,
        image: images.probe.clone(),
        entrypoint: vec!["/probe".to_owned()],
        command: Vec::new(),
        env: Vec::new(),
        user: Some("65534:65534".to_owned()),
        endpoints: vec![(
            datacenter_network(labels.lab, &datacenter.name),
            datacenter.probe_address,
        )],
        extra_hosts: hosts.to_vec(),
        cap_add: Vec::new(),
        devices: Vec::new(),
        sysctls: BTreeMap::new(),
        volumes: BTreeMap::new(),
        mounts: BTreeMap::new(),
        tmpfs: BTreeMap::new(),
        files: BTreeMap::new(),
        memory_bytes: MEMORY_BYTES,
        pids: PIDS,
        publish: BTreeMap::new(),
        open_stdin: true,
        labels: labels.of(Kind::Probe, Some(&datacenter.name), None),
    }
}
