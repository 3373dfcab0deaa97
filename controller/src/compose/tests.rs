//! The exported file read back as YAML, for topologies that have what it must say.

use super::*;
use crate::plan::{Images, plan};
use crate::release::{Catalogue, Choice};
use crate::topology;
use serde_json::Value;

fn planned(text: &str) -> Plan {
    let topology = topology::parse("t", text).unwrap();
    let catalogue = Catalogue::built_in();
    let nodes = topology.nodes.iter();
    let releases = nodes.map(|node| {
        let release = catalogue.resolve(node.engine, None, &Choice::default()).unwrap();
        (node.name.clone(), release)
    });
    let images = Images {
        relay: "tb/relay:1".to_owned(),
        probe: "tb/probe:1".to_owned(),
        releases: releases.collect(),
    };
    plan(&topology, "0", &topology.name, None, &images, &[]).unwrap()
}

fn read(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn exported(topology: &str) -> Value {
    read(&text(&planned(topology), "tb/probe:1", &["t.yaml".to_owned()]))
}

#[test]
fn a_relay_is_told_its_links_and_nothing_else_has_a_capability() {
    let file = exported(include_str!("../../../topologies/two-dc.yaml"));
    let relay = &file["services"]["relay.dc1"];
    let config: Value = serde_json::from_str(relay["command"][0].as_str().unwrap()).unwrap();
    assert_eq!(config["links"][0]["conditions"]["delay_ns"], 20_000_000);
    assert_eq!(relay["networks"]["wan.all"]["ipv4_address"], config["outside"]);
    assert_eq!(relay["networks"]["dc1"]["ipv4_address"], config["inside"]);
    assert_eq!(
        file["networks"]["dc1"]["ipam"]["config"][0]["gateway"],
        config["gateway"]
    );
    let services = file["services"].as_object().unwrap();
    assert_eq!(services.len(), 6, "two relays and four nodes");
    for (name, service) in services {
        assert_eq!(service["cap_add"].is_null(), !name.starts_with("relay."), "{name}");
        assert_eq!(service["cap_drop"][0], "ALL", "{name}");
        assert_eq!(service["read_only"], true, "{name}");
    }
}

#[test]
fn every_volume_and_network_that_a_service_names_is_there() {
    for topology in [
        include_str!("../../../topologies/two-dc.yaml"),
        include_str!("../../../topologies/cluster-b.yaml"),
        include_str!("../../../topologies/sentinel.yaml"),
        include_str!("../../tests/golden/good/everything.yaml"),
    ] {
        let file = exported(topology);
        for (name, service) in file["services"].as_object().unwrap() {
            for network in service["networks"].as_object().into_iter().flat_map(|map| map.keys()) {
                assert!(file["networks"].get(network).is_some(), "{name}: {network}");
            }
            for volume in service["volumes"].as_array().into_iter().flatten() {
                let (volume, _) = volume.as_str().unwrap().split_once(':').unwrap();
                assert!(file["volumes"].get(volume).is_some(), "{name}: {volume}");
            }
            for other in service["depends_on"].as_object().into_iter().flat_map(|map| map.keys()) {
                assert!(file["services"].get(other).is_some(), "{name}: {other}");
            }
        }
    }
}

#[test]
fn no_two_endpoints_have_one_address() {
    let file = exported(include_str!("../../../topologies/cluster-c.yaml"));
    let mut addresses = Vec::new();
    for service in file["services"].as_object().unwrap().values() {
        let networks = service["networks"].as_object().unwrap().values();
        addresses.extend(networks.map(|network| network["ipv4_address"].as_str().unwrap().to_owned()));
    }
    let all = addresses.len();
    addresses.sort();
    addresses.dedup();
    assert_eq!((all, addresses.len()), (11, 11));
}

#[test]
fn the_cluster_is_formed_with_the_slots_and_masters_of_the_topology() {
    let file = exported(include_str!("../../../topologies/cluster-c.yaml"));
    let form = &file["services"]["form.cache"];
    let order: OnceOrder = serde_json::from_str(form["command"][0].as_str().unwrap()).unwrap();
    let OnceOrder::Form { seats, .. } = order else {
        panic!("no order to form")
    };
    let seen: Vec<_> = seats
        .iter()
        .map(|seat| (&*seat.node, &seat.slots[..], seat.master.as_deref()))
        .collect();
    assert_eq!(seen[2], ("node-3", &[(10923, 16383)][..], None));
    assert_eq!(seen[5], ("node-6", &[][..], Some("node-3")));
}

#[test]
fn a_sentinel_waits_for_its_first_configuration() {
    let file = exported(include_str!("../../../topologies/sentinel.yaml"));
    let waits = &file["services"]["sentinel-1"]["depends_on"]["files.sentinel-1"]["condition"];
    assert_eq!(waits, "service_completed_successfully");
    let put = &file["services"]["files.sentinel-1"];
    assert_eq!(put["volumes"], file["services"]["sentinel-1"]["volumes"]);
    let order: OnceOrder = serde_json::from_str(put["command"][0].as_str().unwrap()).unwrap();
    let OnceOrder::Put { files } = order else {
        panic!("no order to put files")
    };
    assert!(
        files[0].text.contains("sentinel monitor primary 198."),
        "{}",
        files[0].text
    );
    assert_eq!((files[0].uid, files[0].gid), (999, 999));
}

#[test]
fn a_published_port_gives_the_host_an_address_and_the_relay_keeps_the_default_route() {
    let file = exported(
        "version: 1\ndatacenters: { dc1: , dc2: }\nlinks: { dc1-dc2: { delay: 5ms } }\ndefaults: { engine: redis }\nnodes:\n  a: { \
         datacenter: dc1, publish: 7001 }\n",
    );
    assert_eq!(file["services"]["a"]["ports"][0], "127.0.0.1:7001:6379");
    let config = &file["networks"]["dc1"]["ipam"]["config"][0];
    let relay: Value = serde_json::from_str(file["services"]["relay.dc1"]["command"][0].as_str().unwrap()).unwrap();
    assert_eq!(config["aux_addresses"]["DefaultGatewayIPv4"], relay["gateway"]);
    assert_ne!(config["gateway"], relay["gateway"]);
    assert!(file["networks"]["dc1"]["driver_opts"]["com.docker.network.bridge.inhibit_ipv4"].is_null());
}

#[test]
fn a_schedule_is_left_out_and_said_so() {
    let text = text(
        &planned(
            "version: 1\ndatacenters: { dc1: , dc2: }\nlinks: { dc1-dc2: { delay: 5ms, schedule: 'at 5s cut, at 8s heal' } \
             }\ndefaults: { engine: redis }\nnodes:\n  a: { datacenter: dc1 }\n",
        ),
        "tb/probe:1",
        &[],
    );
    assert!(text.contains("its schedule is not in this file"), "{text}");
}
