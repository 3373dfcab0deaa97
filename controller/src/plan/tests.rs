//! Plans of whole topologies.

use super::*;
use crate::release::{Catalogue, Choice};
use crate::topology;

const TWO_DC: &str = include_str!("../../../topologies/two-dc.yaml");

fn parsed(text: &str) -> Topology {
    topology::parse("two-dc.yaml", text).expect("a right topology")
}

pub(super) fn images(topology: &Topology) -> Images {
    let catalogue = Catalogue::built_in();
    let release = |node: &crate::topology::Node| {
        catalogue
            .resolve(node.engine, node.release.as_deref(), &Choice::default())
            .expect("a known release")
    };
    Images {
        relay: "relay".to_owned(),
        probe: "probe".to_owned(),
        releases: topology
            .nodes
            .iter()
            .map(|node| (node.name.clone(), release(node)))
            .collect(),
    }
}

pub(super) fn planned(text: &str) -> Plan {
    let topology = parsed(text);
    plan(
        &topology,
        &topology::hash(text),
        &topology.name,
        None,
        &images(&topology),
        &[],
    )
    .expect("a plan")
}

fn container<'p>(plan: &'p Plan, name: &str) -> &'p ContainerSpec {
    plan.containers
        .iter()
        .find(|container| container.name == name)
        .expect("a container of that name")
}

#[test]
fn a_plan_comes_back_from_the_label_of_a_relay() {
    let plan = planned(TWO_DC);
    let label = &container(&plan, "tb-two-dc-relay.dc1").labels[LABEL_PLAN];
    assert_eq!(Plan::from_label(label).expect("a plan"), plan);
    assert!(!container(&plan, "tb-two-dc-probe.dc1").labels.contains_key(LABEL_PLAN));
}

#[test]
fn only_relays_have_capabilities_and_devices() {
    for container in &planned(TWO_DC).containers {
        let relay = container.kind == Kind::Relay;
        assert_eq!(container.cap_add.is_empty(), !relay, "{}", container.name);
        assert_eq!(container.devices.is_empty(), !relay, "{}", container.name);
    }
}

#[test]
fn primaries_stand_before_their_replicas_whatever_the_file_says() {
    let text = TWO_DC.replace("  redis-primary: { datacenter: dc1 }\n", "") + "  redis-primary: { datacenter: dc1 }\n";
    let plan = planned(&text);
    let position = |name: &str| {
        plan.containers
            .iter()
            .position(|container| container.name == name)
            .expect("a container of that name")
    };
    assert!(position("tb-two-dc-redis-primary") < position("tb-two-dc-redis-near"));
    let replica = container(&plan, "tb-two-dc-redis-near");
    let primary = plan.nodes.iter().find(|node| node.name.as_str() == "redis-primary");
    let address = primary.expect("a primary").address.to_string();
    assert!(
        replica
            .command
            .windows(2)
            .any(|words| words[0] == "--replicaof" && words[1] == address)
    );
}

#[test]
fn every_object_carries_owner_lab_and_topology() {
    let plan = planned(TWO_DC);
    let networks = plan.networks.iter().map(|object| &object.labels);
    let volumes = plan.volumes.iter().map(|object| &object.labels);
    let containers = plan.containers.iter().map(|object| &object.labels);
    for labels in networks.chain(volumes).chain(containers) {
        for key in [LABEL_OWNER, LABEL_LAB, LABEL_KIND, LABEL_TOPOLOGY] {
            assert!(labels.contains_key(key), "{labels:?}");
        }
        assert!(!labels.contains_key(LABEL_RUN));
    }
}

#[test]
fn no_name_or_address_is_used_twice() {
    let plan = planned(TWO_DC);
    let mut names: Vec<&str> = plan.containers.iter().map(|object| object.name.as_str()).collect();
    let mut addresses: Vec<&Ipv4Addr> = plan
        .containers
        .iter()
        .flat_map(|object| object.endpoints.iter().map(|(_, address)| address))
        .collect();
    let all = (names.len(), addresses.len());
    names.sort_unstable();
    names.dedup();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!((names.len(), addresses.len()), all);
    for network in &plan.networks {
        assert!(network.bridge.len() <= 15);
    }
}

#[test]
fn only_a_datacenter_that_publishes_gives_the_host_an_address() {
    let text = TWO_DC.replace("{ datacenter: dc1 }", "{ datacenter: dc1, publish: 6380 }");
    let plan = planned(&text);
    let hosts: Vec<bool> = plan
        .networks
        .iter()
        .map(|network| network.host_address.is_some())
        .collect();
    assert_eq!(hosts, [false, true, false]);
    let primary = container(&plan, "tb-two-dc-redis-primary");
    assert_eq!(primary.publish[&6379], (Ipv4Addr::LOCALHOST, 6380));
}

#[test]
fn a_setting_of_the_file_replaces_ours_and_comes_last() {
    let text = TWO_DC.replace(
        "engine: redis\n",
        "engine: redis\n  config: { appendonly: yes, maxmemory: 64mb }\n",
    );
    let plan = planned(&text);
    let command = &container(&plan, "tb-two-dc-redis-primary").command;
    let count = command.iter().filter(|word| *word == "--appendonly").count();
    assert_eq!(count, 1);
    assert_eq!(
        command[command.len() - 4..],
        ["--appendonly", "yes", "--maxmemory", "64mb"]
    );
    let postgres = &container(&plan, "tb-two-dc-postgres").command;
    assert_eq!(*postgres, ["-c", "listen_addresses=*"]);
}

#[test]
fn a_release_of_the_other_kind_and_a_mixed_set_are_refused() {
    let topology = parsed(TWO_DC);
    let catalogue = Catalogue::built_in();
    let with = |node: &str, engine: EngineKind| {
        let mut images = images(&topology);
        let name = NodeName::new(node).expect("a legal name");
        images.releases.insert(name, catalogue.default_of(engine).clone());
        plan(&topology, "", &topology.name, None, &images, &[])
    };
    assert!(matches!(
        with("redis-far", EngineKind::Valkey),
        Err(PlanError::MixedSet { .. })
    ));
    assert!(matches!(
        with("postgres", EngineKind::Valkey),
        Err(PlanError::WrongKind { .. })
    ));
}

#[test]
fn an_application_is_confined_as_a_node_is_and_known_to_all() {
    let applications = "applications:\n  app: { datacenter: dc2, image: \"app:1\", environment: { K: v }, mounts: [\"./c:/c\"], tmpfs: [/scratch], ready: 8080 }\n";
    let plan = planned(&format!("{TWO_DC}{applications}"));
    let app = container(&plan, "tb-two-dc-app");
    assert_eq!(app.kind, Kind::Application);
    assert!(app.cap_add.is_empty() && app.devices.is_empty() && app.volumes.is_empty() && app.publish.is_empty());
    assert_eq!(app.env, ["K=v"]);
    assert_eq!(app.mounts["/c"], "./c");
    assert_eq!(app.tmpfs.keys().collect::<Vec<_>>(), ["/scratch"]);
    let planned_app = &plan.applications[0];
    let line = format!("app:{}", planned_app.address);
    let others = plan.containers.iter().filter(|other| other.kind != Kind::Relay);
    assert!(others.clone().count() > 4 && others.clone().all(|other| other.extra_hosts.contains(&line)));
    let mut addresses: Vec<_> = plan.nodes.iter().map(|node| node.address).collect();
    addresses.push(planned_app.address);
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 5, "no address is given twice");
    let relays = plan.datacenters.iter().map(|datacenter| &datacenter.relay_config.ports);
    assert!(
        relays.clone().all(|ports| ports.contains(&8080)),
        "stream mode knows its port"
    );
    assert!(
        !planned(TWO_DC)
            .containers
            .iter()
            .any(|other| other.extra_hosts.contains(&line))
    );
}
