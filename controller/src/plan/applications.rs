//! Applications of a lab: the user's own containers, as confined as the servers. Nothing of theirs is kept: no volume.

use super::{ContainerSpec, Labels, PlannedApplication, PlannedNode};
use crate::address::{self, Layout};
use crate::names::{Kind, datacenter_network, node_container};
use crate::topology::{Application, Topology};
use std::collections::BTreeMap;

/// Memory of an application, and of each folder that it can write in.
const MEMORY_BYTES: u64 = 512 << 20;
/// Most processes and threads of an application.
const PIDS: u32 = 256;

/// All applications, in the order of the file. Their addresses follow those of the nodes.
pub(super) fn applications(
    topology: &Topology,
    layout: &Layout,
    nodes: &[PlannedNode],
    labels: &Labels,
) -> Vec<PlannedApplication> {
    let mut planned: Vec<PlannedApplication> = Vec::new();
    for application in &topology.applications {
        let mut datacenters = topology.datacenters.iter();
        let index = datacenters
            .position(|datacenter| datacenter.name == application.datacenter)
            .expect("a checked application stands in a datacenter");
        let here = nodes.iter().map(|node| &node.datacenter);
        let here = here.chain(planned.iter().map(|other| &other.datacenter));
        let before = here.filter(|datacenter| **datacenter == application.datacenter).count();
        planned.push(PlannedApplication {
            name: application.name.clone(),
            container: node_container(labels.lab, &application.name),
            datacenter: application.datacenter.clone(),
            address: address::node(layout.datacenters[index], before),
            image: application.image.clone(),
            ready: application.ready,
        });
    }
    planned
}

/// The container of an application.
pub(super) fn container(
    application: &Application,
    planned: &PlannedApplication,
    hosts: &[String],
    labels: &Labels,
) -> ContainerSpec {
    let environment = application.environment.iter();
    let writable = |path: &String| (path.clone(), "mode=1777,size=67108864".to_owned());
    let mount = |mount: &crate::topology::Mount| (mount.target.clone(), mount.source.clone());
    ContainerSpec {
        name: planned.container.clone(),
        kind: Kind::Application,
        image: application.image.clone(),
        entrypoint: application.entrypoint.clone(),
        command: application.command.clone(),
        env: environment.map(|(key, value)| format!("{key}={value}")).collect(),
        user: application.user.clone(),
        endpoints: vec![(datacenter_network(labels.lab, &application.datacenter), planned.address)],
        extra_hosts: hosts.to_vec(),
        cap_add: Vec::new(),
        devices: Vec::new(),
        sysctls: BTreeMap::new(),
        volumes: BTreeMap::new(),
        mounts: application.mounts.iter().map(mount).collect(),
        tmpfs: application.tmpfs.iter().map(writable).collect(),
        files: BTreeMap::new(),
        memory_bytes: MEMORY_BYTES,
        pids: PIDS,
        publish: BTreeMap::new(),
        open_stdin: false,
        labels: labels.of(
            Kind::Application,
            Some(&application.datacenter),
            Some(&application.name),
        ),
    }
}
