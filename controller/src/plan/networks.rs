//! The networks of a lab: the WAN, then one per datacenter. Normal bridges: an `internal` one drops routed frames.

use super::{Labels, NetworkSpec};
use crate::address::{self, Layout};
use crate::names::{Kind, bridge, datacenter_network, wan_network};
use crate::topology::Topology;
use std::collections::BTreeSet;

/// WAN first, then the datacenters in the order of the file.
pub(super) fn networks(topology: &Topology, layout: &Layout, labels: &Labels) -> Vec<NetworkSpec> {
    let publishing: BTreeSet<_> = topology
        .nodes
        .iter()
        .filter(|node| node.publish.is_some())
        .map(|node| &node.datacenter)
        .collect();
    let wan = wan_network(labels.lab);
    let mut networks = vec![NetworkSpec {
        bridge: bridge(&wan),
        name: wan,
        kind: Kind::Wan,
        subnet: layout.wan,
        gateway: address::gateway(layout.wan),
        host_address: None,
        labels: labels.of(Kind::Wan, None, None),
    }];
    for (datacenter, &subnet) in topology.datacenters.iter().zip(&layout.datacenters) {
        let name = datacenter_network(labels.lab, &datacenter.name);
        networks.push(NetworkSpec {
            bridge: bridge(&name),
            name,
            kind: Kind::Datacenter,
            subnet,
            gateway: address::gateway(subnet),
            host_address: publishing.contains(&datacenter.name).then(|| address::host(subnet)),
            labels: labels.of(Kind::Datacenter, Some(&datacenter.name), None),
        });
    }
    networks
}
